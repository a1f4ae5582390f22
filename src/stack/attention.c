/* Causal softmax attention in tiles of query rows. The probabilities of a tile are computed again in the backward pass,
 * so that nothing of the size length x length is kept. */
#include "stack/modules.h"

#include "base/fpenv.h"
#include "base/memory.h"
#include "base/threads.h"
#include "gemm/blas.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { TILE = 64 };

/* Query rows first .. first + rows - 1 of one head see keys 0 .. first + rows - 1. */
struct tile {
    size_t first, rows, keys;
    const double *q, *k, *v; /* of the head: query row `first`, key 0, value 0 */
    size_t q_stride, kv_stride;
};

/* One thread's: TILE x length each. */
struct scratch {
    double *probability, *rounded, *slope;
};

static size_t tiles_of(const struct nib_attention *a) {
    return (a->length + TILE - 1) / TILE;
}

static double scale_of(const struct nib_attention *a) {
    return 1 / sqrt((double)a->size);
}

static struct tile tile_at(const struct nib_attention *a, size_t sequence, size_t head, size_t number, const double *q,
                           const double *k, const double *v) {
    size_t group = a->heads / a->kv_heads, start = sequence * a->length, first = number * TILE;
    size_t rows = a->length - first < TILE ? a->length - first : TILE;
    size_t key = (start * a->kv_heads + head / group) * a->size;
    return (struct tile){first,   rows,    first + rows,       q + ((start + first) * a->heads + head) * a->size,
                         k + key, v + key, a->heads * a->size, a->kv_heads * a->size};
}

/* softmax of the first `seen` scores, in place; zero beyond. */
static void softmax(double *restrict row, size_t seen, size_t keys, enum nib_width wide) {
    double most = row[0], sum = 0;
    for (size_t j = 1; j < seen; j++) most = row[j] > most ? row[j] : most;
    for (size_t j = 0; j < seen; j++) {
        row[j] = exp(row[j] - most);
        sum += row[j];
    }
    for (size_t j = 0; j < seen; j++) row[j] /= sum;
    nib_width_round_run(row, row, seen, wide);
    memset(row + seen, 0, (keys - seen) * sizeof *row);
}

/* Into scratch->probability, and as the products take them into scratch->rounded. */
static void probabilities(const struct nib_attention *a, const struct tile *tile, const struct scratch *scratch) {
    double *p = scratch->probability;
    size_t keys = tile->keys;
    nib_blas_dgemm(false, true, tile->rows, keys, a->size, scale_of(a), tile->q, tile->q_stride, tile->k,
                   tile->kv_stride, 0, p, keys, 1);
    nib_width_round_run(p, p, tile->rows * keys, a->widths.wide);
    for (size_t i = 0; i < tile->rows; i++) softmax(p + i * keys, tile->first + i + 1, keys, a->widths.wide);
    nib_width_round_run(p, scratch->rounded, tile->rows * keys, a->widths.narrow);
}

/* Rounds a block of `rows` rows with a stride. */
static void round_block(double *x, size_t rows, size_t cols, size_t stride, struct nib_widths widths) {
    if (widths.narrow == NIB_WIDTH_F64) return;
    for (size_t i = 0; i < rows; i++) nib_width_round_run(x + i * stride, x + i * stride, cols, widths.narrow);
}

static void forward_tile(const struct nib_attention *a, const struct tile *tile, const struct scratch *scratch,
                         double *out) {
    probabilities(a, tile, scratch);
    nib_blas_dgemm(false, false, tile->rows, a->size, tile->keys, 1, scratch->rounded, tile->keys, tile->v,
                   tile->kv_stride, 0, out, tile->q_stride, 1);
    round_block(out, tile->rows, a->size, tile->q_stride, a->widths);
}

/* ds = p (dp - sum p dp), row by row, over dp. */
static void score_slopes(const struct nib_attention *a, const struct tile *tile, const struct scratch *scratch) {
    for (size_t i = 0; i < tile->rows; i++) {
        const double *restrict p = scratch->probability + i * tile->keys;
        double *restrict slope = scratch->slope + i * tile->keys, sum = 0;
        for (size_t j = 0; j < tile->keys; j++) sum += p[j] * slope[j];
        for (size_t j = 0; j < tile->keys; j++) slope[j] = p[j] * (slope[j] - sum);
        nib_width_round_run(slope, slope, tile->keys, a->widths.narrow);
    }
}

/* dq of the tile; adds to dk and dv of its keys. */
static void backward_tile(const struct nib_attention *a, const struct tile *tile, const struct scratch *scratch,
                          const double *dout, double *dq, double *dk, double *dv) {
    size_t keys = tile->keys, rows = tile->rows, size = a->size;
    double scale = scale_of(a);
    probabilities(a, tile, scratch);
    nib_blas_dgemm(true, false, keys, size, rows, 1, scratch->rounded, keys, dout, tile->q_stride, 1, dv,
                   tile->kv_stride, 1);
    nib_blas_dgemm(false, true, rows, keys, size, 1, dout, tile->q_stride, tile->v, tile->kv_stride, 0, scratch->slope,
                   keys, 1);
    nib_width_round_run(scratch->slope, scratch->slope, rows * keys, a->widths.wide);
    score_slopes(a, tile, scratch);
    nib_blas_dgemm(false, false, rows, size, keys, scale, scratch->slope, keys, tile->k, tile->kv_stride, 0, dq,
                   tile->q_stride, 1);
    nib_blas_dgemm(true, false, keys, size, rows, scale, scratch->slope, keys, tile->q, tile->q_stride, 1, dk,
                   tile->kv_stride, 1);
    round_block(dq, rows, size, tile->q_stride, a->widths);
}

/* All query heads that share the keys and values of `kv_head`, in ascending order. */
static void backward_group(const struct nib_attention *a, size_t sequence, size_t kv_head,
                           const struct scratch *scratch, const double *q, const double *k, const double *v,
                           const double *dout, double *dq, double *dk, double *dv) {
    size_t group = a->heads / a->kv_heads, kv_stride = a->kv_heads * a->size;
    size_t key = (sequence * a->length * a->kv_heads + kv_head) * a->size;
    for (size_t t = 0; t < a->length; t++) {
        memset(dk + key + t * kv_stride, 0, a->size * sizeof *dk);
        memset(dv + key + t * kv_stride, 0, a->size * sizeof *dv);
    }
    for (size_t head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (size_t number = 0; number < tiles_of(a); number++) {
            struct tile tile = tile_at(a, sequence, head, number, q, k, v);
            size_t query = (size_t)(tile.q - q);
            backward_tile(a, &tile, scratch, dout + query, dq + query, dk + key, dv + key);
        }
    round_block(dk + key, a->length, a->size, kv_stride, a->widths);
    round_block(dv + key, a->length, a->size, kv_stride, a->widths);
}

static double *scratch_alloc(const struct nib_attention *a, int threads, struct nib_error *error) {
    return nib_alloc_raw((size_t)threads * 3 * TILE, a->length * sizeof(double), "attention scores", error);
}

static struct scratch scratch_of(const struct nib_attention *a, double *memory) {
    size_t size = TILE * a->length;
    double *own = memory + (size_t)omp_get_thread_num() * 3 * size;
    return (struct scratch){own, own + size, own + 2 * size};
}

enum nib_status nib_attention_forward(const struct nib_attention *attention, const double *q, const double *k,
                                      const double *v, double *out, struct nib_error *error) {
    const struct nib_attention *a = attention;
    size_t tiles = tiles_of(a), parts = a->sequences * a->heads * tiles;
    int threads = nib_threads_for(a->threads, parts);
    double *memory = scratch_alloc(a, threads, error);
    if (memory == NULL) return NIB_ENOMEM;
#pragma omp parallel num_threads(threads)
    {
        struct nib_fpenv saved = nib_fpenv_enter();
        struct scratch scratch = scratch_of(a, memory);
#pragma omp for schedule(dynamic)
        for (int64_t part = 0; part < (int64_t)parts; part++) {
            size_t number = (size_t)part % tiles, head = (size_t)part / tiles % a->heads;
            struct tile tile = tile_at(a, (size_t)part / tiles / a->heads, head, number, q, k, v);
            forward_tile(a, &tile, &scratch, out + (tile.q - q));
        }
        nib_fpenv_leave(saved);
    }
    free(memory);
    return NIB_OK;
}

enum nib_status nib_attention_backward(const struct nib_attention *attention, const double *q, const double *k,
                                       const double *v, const double *dout, double *dq, double *dk, double *dv,
                                       struct nib_error *error) {
    const struct nib_attention *a = attention;
    size_t parts = a->sequences * a->kv_heads;
    int threads = nib_threads_for(a->threads, parts);
    double *memory = scratch_alloc(a, threads, error);
    if (memory == NULL) return NIB_ENOMEM;
#pragma omp parallel num_threads(threads)
    {
        struct nib_fpenv saved = nib_fpenv_enter();
        struct scratch scratch = scratch_of(a, memory);
#pragma omp for schedule(dynamic)
        for (int64_t part = 0; part < (int64_t)parts; part++)
            backward_group(a, (size_t)part / a->kv_heads, (size_t)part % a->kv_heads, &scratch, q, k, v, dout, dq, dk,
                           dv);
        nib_fpenv_leave(saved);
    }
    free(memory);
    return NIB_OK;
}
