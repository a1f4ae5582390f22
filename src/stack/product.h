/* Products whose bits do not depend on the number of threads: fixed tiles of C, each by one thread of BLAS. */
#ifndef NIB_STACK_PRODUCT_H
#define NIB_STACK_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>

/* C (m x n) = op(A) op(B) or C += op(A) op(B), dense and row-major as in gemm/blas.h. */
void nib_product_f64(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, const double *a, const double *b,
                     bool add, double *c, int threads);
void nib_product_f32(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, const float *a, const float *b,
                     bool add, float *c, int threads);

#endif
