/* A matrix in memory that nibble reads and never writes. */
#ifndef NIBBLE_VIEW_H
#define NIBBLE_VIEW_H

#include <stddef.h>
#include <nibble/status.h>

#ifdef __cplusplus
extern "C" {
#endif

enum nib_dtype { NIB_F32, NIB_BF16, NIB_F16 };

/* Row-major; `stride` counts elements between row starts and is at least `cols`. bf16 and fp16 are
 * read as their exact binary32 values. A vector is a matrix of one row. */
struct nib_view {
    const void *data;
    enum nib_dtype dtype;
    size_t rows, cols, stride;
};

/* The direction along which blocks and rotations run (the reduction axis of the GEMM).
 * ALONG_COLS: a block is N consecutive columns of one row (1xN). ALONG_ROWS: N consecutive rows of
 * one column (Nx1). The command line calls them --axis cols and --axis rows. */
enum nib_axis { NIB_ALONG_COLS, NIB_ALONG_ROWS };

#ifdef __cplusplus
}
#endif
#endif
