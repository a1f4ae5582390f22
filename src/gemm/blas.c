#include "gemm/blas.h"

#include <cblas.h>

static CBLAS_TRANSPOSE side(bool transpose) { return transpose ? CblasTrans : CblasNoTrans; }

static void use_threads(int threads) {
    if (threads > 0) openblas_set_num_threads(threads);
}

void nib_blas_sgemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha, const float *a,
                    size_t a_stride, const float *b, size_t b_stride, float beta, float *c, size_t c_stride,
                    int threads) {
    use_threads(threads);
    cblas_sgemm(CblasRowMajor, side(transpose_a), side(transpose_b), (blasint)m, (blasint)n, (blasint)k, alpha, a,
                (blasint)a_stride, b, (blasint)b_stride, beta, c, (blasint)c_stride);
}

void nib_blas_dgemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, double alpha, const double *a,
                    size_t a_stride, const double *b, size_t b_stride, double beta, double *c, size_t c_stride,
                    int threads) {
    use_threads(threads);
    cblas_dgemm(CblasRowMajor, side(transpose_a), side(transpose_b), (blasint)m, (blasint)n, (blasint)k, alpha, a,
                (blasint)a_stride, b, (blasint)b_stride, beta, c, (blasint)c_stride);
}
