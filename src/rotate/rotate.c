/* The transform of a matrix. Along columns groups are consecutive (kernel.h); along rows a tile holds the same place
 * of 16 groups side by side, so that every step of the butterfly is the same arithmetic on 16 lanes. */
#include "rotate/kernel.h"

#include "base/error.h"
#include "base/fpenv.h"
#include "base/threads.h"
#include "core/view.h"
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

void nib_rotate_groups(const struct nib_rotation *rotation, nib_rotate_kernel *kernel, const float *in, float *x,
                       size_t count) {
    if (nib_rotation_is_fast(rotation) || nib_rotation_sums_terms(rotation)) {
        kernel(rotation, in, x, count);
        return;
    }
    if (in != x) memcpy(x, in, count * sizeof *x);
    float work[NIB_ROTATION_MAX];
    for (size_t i = 0; i < count; i += rotation->size) nib_rotation_evaluate(rotation, x + i, work);
}

/* Groups of consecutive columns: a piece of a row that stays in cache is widened and rotated where it ends up. */
static void piece_along_cols(const struct nib_rotation *rotation, nib_rotate_kernel *kernel, struct nib_view x, size_t piece,
                             size_t pieces, float *out) {
    size_t row = piece / pieces, groups = x.cols / rotation->size;
    size_t start = groups * (piece % pieces) / pieces * rotation->size;
    size_t end = groups * (piece % pieces + 1) / pieces * rotation->size;
    float *to = out + row * x.cols + start;
    const float *from = to;
    if (x.dtype == NIB_F32)
        from = (const float *)x.data + row * x.stride + start;
    else
        nib_widen(x, row * x.stride + start, end - start, to);
    nib_rotate_groups(rotation, kernel, from, to, end - start);
}

/* Groups of consecutive rows of up to 16 neighbouring columns. */
static void fast_along_rows(const struct nib_rotation *rotation, struct nib_view x, size_t row, size_t col, size_t lanes,
                            float *restrict out) {
    _Alignas(64) float tile[NIB_ROTATION_POWER_MAX][LANES];
    const size_t n = rotation->size;
    if (lanes < LANES) memset(tile, 0, n * sizeof *tile);
    for (size_t i = 0; i < n; i++) nib_widen(x, (row + i) * x.stride + col, lanes, tile[i]);
    butterfly(tile, rotation);
    finish(tile, rotation);
    for (size_t i = 0; i < n; i++) memcpy(out + (row + i) * x.cols + col, tile[i], lanes * sizeof *out);
}

static void tile_along_rows(const struct nib_rotation *rotation, nib_rotate_kernel *kernel, struct nib_view x, size_t row,
                            size_t col, float *out) {
    size_t lanes = x.cols - col < LANES ? x.cols - col : LANES;
    if (nib_rotation_is_fast(rotation)) {
        fast_along_rows(rotation, x, row, col, lanes, out);
        return;
    }
    float group[NIB_ROTATION_MAX];
    for (size_t l = 0; l < lanes; l++) {
        for (size_t i = 0; i < rotation->size; i++) nib_widen(x, (row + i) * x.stride + col + l, 1, group + i);
        nib_rotate_groups(rotation, kernel, group, group, rotation->size);
        for (size_t i = 0; i < rotation->size; i++) out[(row + i) * x.cols + col + l] = group[i];
    }
}

/* What the kernels do: butterflies alone, signs first. */
bool nib_rotation_is_fast(const struct nib_rotation *rotation) {
    return rotation->evaluation == NIB_EVALUATION_BUTTERFLY && rotation->base == 1 && !rotation->inverse && !rotation->flush;
}

/* Of Sylvester's matrix, in whole registers. */
bool nib_rotation_sums_terms(const struct nib_rotation *rotation) {
    bool terms = rotation->evaluation == NIB_EVALUATION_SEQUENTIAL || rotation->evaluation == NIB_EVALUATION_RUNS ||
                 rotation->evaluation == NIB_EVALUATION_PARITY;
    return terms && rotation->base == 1 && !rotation->inverse && !rotation->flush && rotation->size >= 16 &&
           rotation->size <= NIB_TERMS_MOST;
}

/* "none" leaves every bit alone, NaN payloads included. */
bool nib_rotation_is_identity(const struct nib_rotation *rotation) {
    return rotation->size == 1 && rotation->sign[0] > 0 && rotation->output == NIB_ROTATION_FP32 &&
           rotation->factor == 1 && !rotation->flush;
}

enum nib_status nib_rotation_check(const struct nib_rotation *rotation, size_t extent, const char *what,
                                   struct nib_error *error) {
    size_t n = rotation->size;
    if (extent % n == 0) return NIB_OK;
    return nib_fail(error, NIB_EINVAL, "%zu %s cannot be rotated by %s in groups of %zu; pad them to %zu", extent, what,
                    rotation->name, n, (extent / n + 1) * n);
}

enum nib_status nib_rotate(const struct nib_rotation *rotation, struct nib_view x, enum nib_axis axis, int threads,
                           float *out, struct nib_error *error) {
    if (rotation == NULL || (out == NULL && x.rows != 0 && x.cols != 0))
        return nib_fail(error, NIB_EINVAL, "the rotation or the room for the result is NULL");
    const size_t n = rotation->size;
    const bool along_cols = axis == NIB_ALONG_COLS;
    enum nib_status status = nib_view_check(x, error);
    if (status == NIB_OK) status = nib_axis_check(axis, error);
    if (status == NIB_OK)
        status = along_cols ? nib_rotation_check(rotation, x.cols, "columns", error)
                            : nib_rotation_check(rotation, x.rows, "rows", error);
    if (status != NIB_OK) return status;
    if (nib_rotation_is_identity(rotation)) {
        for (size_t r = 0; r < x.rows; r++) nib_widen(x, r * x.stride, x.cols, out + r * x.cols);
        return NIB_OK;
    }
    enum { PIECE = 4096 };
    nib_rotate_kernel *kernel = nib_rotate_kernel_of(NULL);
    const size_t pieces = (x.cols + PIECE - 1) / PIECE, across = (x.cols + LANES - 1) / LANES;
    const size_t tiles = along_cols ? x.rows * pieces : x.rows / n * across;
#pragma omp parallel num_threads(nib_threads(threads))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(static)
        for (size_t t = 0; t < tiles; t++) {
            if (along_cols)
                piece_along_cols(rotation, kernel, x, t, pieces, out);
            else
                tile_along_rows(rotation, kernel, x, t / across * n, t % across * LANES, out);
        }
        nib_fpenv_leave(saved);
    }
    return NIB_OK;
}
