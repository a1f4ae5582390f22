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

#define NAME nib_product_f64
#define REAL double
#define GEMM nib_blas_dgemm
#include "stack/product_body.inc"
#undef NAME
#undef REAL
#undef GEMM

#define NAME nib_product_f32
#define REAL float
#define GEMM nib_blas_sgemm
#include "stack/product_body.inc"
