/* nibble bench gemm: emulated products beside OpenBLAS. */
#ifndef NIB_CLI_BENCH_GEMM_H
#define NIB_CLI_BENCH_GEMM_H

#include "cli/command.h"

/* `shape` NULL: 1024x1024x4096. Each product and each sgemm runs for at least `seconds` in turn. */
NIB_CHECK enum nib_status nib_bench_gemm(const struct nib_call *call, const char *shape, double seconds,
                                         const char *isa, struct nib_error *error);

#endif
