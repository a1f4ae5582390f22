/* The transform itself. A tile holds the same place of 16 groups side by side, so that every step of
 * the butterfly is the same arithmetic on 16 lanes, for both axes, whatever the instruction set. */
#include "rotate/rotation.h"

#include "base/error.h"
#include "base/fpenv.h"
#include "base/threads.h"
#include "core/widen.h"
#include <string.h>

enum { LANES = 16 };

/* tile[i][lane] for i < n: in place, small stride first, then one multiplication. */
static void butterfly(float (*restrict tile)[LANES], const struct nib_rotation *rotation) {
    const unsigned n = rotation->size;
    for (unsigned i = 0; i < n; i++)
        for (unsigned l = 0; l < LANES; l++) tile[i][l] *= rotation->sign[i];
    for (unsigned h = 1; h < n; h *= 2)
        for (unsigned start = 0; start < n; start += 2 * h)
            for (unsigned i = start; i < start + h; i++)
                for (unsigned l = 0; l < LANES; l++) {
                    float a = tile[i][l], b = tile[i + h][l];
                    tile[i][l] = a + b;
                    tile[i + h][l] = a - b;
                }
}

/* Scales, rounds to the output precision, and gives every NaN the one pattern that GPU arithmetic
 * returns: the payload would otherwise depend on the order of operands the compiler chose. */
static void finish(float (*restrict tile)[LANES], const struct nib_rotation *rotation) {
    for (unsigned i = 0; i < rotation->size; i++)
        for (unsigned l = 0; l < LANES; l++) {
            float y = tile[i][l] * rotation->factor;
            uint32_t bits;
            memcpy(&bits, &y, sizeof bits);
            uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1)) & 0xFFFF0000u;
            if (rotation->output == NIB_ROTATION_BF16) bits = rounded;
            bits = y == y ? bits : 0x7FFFFFFFu;
            memcpy(&tile[i][l], &bits, sizeof bits);
        }
}

/* Groups of consecutive columns; group g of the matrix lies in row g / per_row. */
static void tile_along_cols(const struct nib_rotation *rotation, struct nib_view x, size_t first, size_t groups,
                            float (*restrict tile)[LANES], float *restrict buffer, float *restrict out) {
    const size_t n = rotation->size, per_row = x.cols / n;
    size_t lanes = groups - first < LANES ? groups - first : LANES;
    if (lanes < LANES) memset(tile, 0, n * sizeof *tile);
    for (size_t l = 0; l < lanes; l++) {
        size_t row = (first + l) / per_row, col = (first + l) % per_row * n;
        nib_widen(x, row * x.stride + col, n, buffer);
        for (size_t i = 0; i < n; i++) tile[i][l] = buffer[i];
    }
    butterfly(tile, rotation);
    finish(tile, rotation);
    for (size_t l = 0; l < lanes; l++) /* groups are consecutive in the dense output, too */
        for (size_t i = 0; i < n; i++) out[(first + l) * n + i] = tile[i][l];
}

/* Groups of consecutive rows of 16 neighbouring columns. */
static void tile_along_rows(const struct nib_rotation *rotation, struct nib_view x, size_t row, size_t col,
                            float (*restrict tile)[LANES], float *restrict out) {
    const size_t n = rotation->size;
    size_t lanes = x.cols - col < LANES ? x.cols - col : LANES;
    if (lanes < LANES) memset(tile, 0, n * sizeof *tile);
    for (size_t i = 0; i < n; i++) nib_widen(x, (row + i) * x.stride + col, lanes, tile[i]);
    butterfly(tile, rotation);
    finish(tile, rotation);
    for (size_t i = 0; i < n; i++) memcpy(out + (row + i) * x.cols + col, tile[i], lanes * sizeof *out);
}

/* "none" leaves every bit alone, NaN payloads included. */
static bool is_identity(const struct nib_rotation *rotation) {
    return rotation->size == 1 && rotation->sign[0] > 0 && rotation->output == NIB_ROTATION_FP32;
}

static enum nib_status check_extent(const struct nib_rotation *rotation, size_t extent, const char *what,
                                    struct nib_error *error) {
    size_t n = rotation->size;
    if (extent % n == 0) return NIB_OK;
    return nib_fail(error, NIB_EINVAL, "%zu %s cannot be rotated by %s in groups of %zu; pad them to %zu", extent, what,
                    rotation->name, n, (extent / n + 1) * n);
}

enum nib_status nib_rotate(const struct nib_rotation *rotation, struct nib_view x, enum nib_axis axis, int threads,
                           float *out, struct nib_error *error) {
    const size_t n = rotation->size;
    const bool along_cols = axis == NIB_ALONG_COLS;
    enum nib_status status = along_cols ? check_extent(rotation, x.cols, "columns", error)
                                        : check_extent(rotation, x.rows, "rows", error);
    if (status != NIB_OK) return status;
    if (is_identity(rotation)) {
        for (size_t r = 0; r < x.rows; r++) nib_widen(x, r * x.stride, x.cols, out + r * x.cols);
        return NIB_OK;
    }
    const size_t groups = x.rows * x.cols / n;
    const size_t across = (x.cols + LANES - 1) / LANES;
    const size_t tiles = along_cols ? (groups + LANES - 1) / LANES : x.rows / n * across;
#pragma omp parallel num_threads(nib_threads(threads))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
        _Alignas(64) float tile[NIB_ROTATION_MAX][LANES], buffer[NIB_ROTATION_MAX];
#pragma omp for schedule(static)
        for (size_t t = 0; t < tiles; t++) {
            if (along_cols)
                tile_along_cols(rotation, x, t * LANES, groups, tile, buffer, out);
            else
                tile_along_rows(rotation, x, t / across * n, t % across * LANES, tile, out);
        }
        nib_fpenv_leave(saved);
    }
    return NIB_OK;
}
