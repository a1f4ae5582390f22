/* How a matrix is cut: batches for standard errors, chunks for threads. Depends on the shape and the
 * blocks only, so that sums do too. */
#ifndef NIB_MEASURE_PLAN_H
#define NIB_MEASURE_PLAN_H

#include <nibble/measure.h>

struct nib_plan {
    size_t rows, cols;
    bool by_rows;            /* batches are runs of rows, not of columns */
    size_t unit;             /* rows or columns that stay together */
    unsigned batches;
    size_t chunk_rows, chunk_cols;
};

struct nib_rectangle {
    size_t row, col, rows, cols;
};

/* `unit_rows` and `unit_cols`: what must not be cut (blocks, groups of a rotation). */
void nib_plan_make(size_t rows, size_t cols, size_t unit_rows, size_t unit_cols, struct nib_plan *out);
/* The part of the matrix that a batch covers. */
struct nib_rectangle nib_plan_batch(const struct nib_plan *plan, unsigned batch);
/* Chunks of a batch, counted and by number. */
size_t nib_plan_chunks(const struct nib_plan *plan, unsigned batch);
struct nib_rectangle nib_plan_chunk(const struct nib_plan *plan, unsigned batch, size_t chunk);

#endif
