/* OpenBLAS sgemm: what a CPU can multiply when nothing is emulated. Its results are never used. */
#ifndef NIB_GEMM_YARDSTICK_H
#define NIB_GEMM_YARDSTICK_H

#include <stddef.h>

/* c (m x n) = a (m x k) times the transpose of b (n x k). */
void nib_yardstick_sgemm(size_t m, size_t n, size_t k, const float *a, const float *b, float *c, int threads);
/* The kernel family that OpenBLAS chose when it was loaded ("Zen", "SkylakeX"). */
const char *nib_yardstick_core(void);

#endif
