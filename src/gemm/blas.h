/* OpenBLAS products of dense row-major matrices. Their bits are promised only for one build on one machine. */
#ifndef NIB_GEMM_BLAS_H
#define NIB_GEMM_BLAS_H

#include <stdbool.h>
#include <stddef.h>

/* c (m x n) = alpha op(a) op(b) + beta c; op(a) is m x k, op(b) k x n, transposed where the flag says so. Strides count
 * elements from one stored row to the next. threads 0: the library's default. */
void nib_blas_sgemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha, const float *a,
                    size_t a_stride, const float *b, size_t b_stride, float beta, float *c, size_t c_stride, int threads);
void nib_blas_dgemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, double alpha, const double *a,
                    size_t a_stride, const double *b, size_t b_stride, double beta, double *c, size_t c_stride,
                    int threads);

#endif
