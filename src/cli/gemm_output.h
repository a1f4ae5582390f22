/* The result of nibble gemm on the terminal, as JSON and as HDF5. */
#ifndef NIB_CLI_GEMM_OUTPUT_H
#define NIB_CLI_GEMM_OUTPUT_H

#include <nibble/gemm.h>

#include "cli/command.h"
#include <nibble/quantizer.h>

struct nib_gemm_result {
    const struct nib_gemm *gemm;
    const void *d;                          /* m x n, dense */
    const struct nib_gemm_error *error;     /* NULL where not asked for */
    const struct nib_gemm_anatomy *anatomy; /* likewise */
    uint64_t inexact[2];                    /* elements of A and B that their operand format rounded */
    const struct nib_quantizer *quantizer[2]; /* of A and B; NULL for none */
};
NIB_CHECK enum nib_status nib_gemm_print(const struct nib_call *call, const struct nib_gemm_result *result,
                                         struct nib_error *error);
/* To call->common.output. */
NIB_CHECK enum nib_status nib_gemm_store(const struct nib_call *call, const struct nib_gemm_result *result,
                                         struct nib_error *error);

#endif
