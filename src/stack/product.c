#include "stack/product.h"

#include "base/fpenv.h"
#include "base/threads.h"
#include "gemm/blas.h"

enum { TILE = 128 };

struct tiles {
    size_t rows, cols;
    int64_t count;
};

static struct tiles tiles_of(size_t m, size_t n) {
    struct tiles tiles = {(m + TILE - 1) / TILE, (n + 4 * TILE - 1) / (4 * TILE), 0};
    tiles.count = (int64_t)(tiles.rows * tiles.cols);
    return tiles;
}

static size_t shorter(size_t left, size_t most) {
    return left < most ? left : most;
}

/* The tile's first row and column, and its size. */
static void place(const struct tiles *tiles, int64_t tile, size_t m, size_t n, size_t *row, size_t *col, size_t *rows,
                  size_t *cols) {
    *row = (size_t)tile % tiles->rows * TILE;
    *col = (size_t)tile / tiles->rows * 4 * TILE;
    *rows = shorter(m - *row, TILE);
    *cols = shorter(n - *col, 4 * TILE);
}

void nib_product_f64(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, const double *a, const double *b,
                     bool add, double *c, int threads) {
    struct tiles tiles = tiles_of(m, n);
    size_t a_stride = transpose_a ? m : k, b_stride = transpose_b ? k : n;
#pragma omp parallel num_threads(nib_threads_for(threads, (size_t)tiles.count))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(dynamic)
        for (int64_t tile = 0; tile < tiles.count; tile++) {
            size_t row, col, rows, cols;
            place(&tiles, tile, m, n, &row, &col, &rows, &cols);
            nib_blas_dgemm(transpose_a, transpose_b, rows, cols, k, 1, transpose_a ? a + row : a + row * a_stride,
                           a_stride, transpose_b ? b + col * b_stride : b + col, b_stride, add ? 1 : 0,
                           c + row * n + col, n, 1);
        }
        nib_fpenv_leave(saved);
    }
}

void nib_product_f32(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, const float *a, const float *b,
                     bool add, float *c, int threads) {
    struct tiles tiles = tiles_of(m, n);
    size_t a_stride = transpose_a ? m : k, b_stride = transpose_b ? k : n;
#pragma omp parallel num_threads(nib_threads_for(threads, (size_t)tiles.count))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(dynamic)
        for (int64_t tile = 0; tile < tiles.count; tile++) {
            size_t row, col, rows, cols;
            place(&tiles, tile, m, n, &row, &col, &rows, &cols);
            nib_blas_sgemm(transpose_a, transpose_b, rows, cols, k, 1, transpose_a ? a + row : a + row * a_stride,
                           a_stride, transpose_b ? b + col * b_stride : b + col, b_stride, add ? 1 : 0,
                           c + row * n + col, n, 1);
        }
        nib_fpenv_leave(saved);
    }
}
