#include "expect/scale_map.h"

#include "base/error.h"
#include "base/memory.h"
#include "core/key.h"
#include "core/philox.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Blocks side by side in one matrix of block_rows x (count * block_cols). */
struct probe {
    const struct nib_quantizer *quantizer;
    const struct nib_block *block;
    float tensor_amax;
    size_t rows, cols, count;
    float *x;
    struct nib_quantized q;
};

static enum nib_status probe_open(const struct nib_quantizer *quantizer, float tensor_amax, size_t count,
                                  struct probe *out, struct nib_error *error) {
    struct nib_quantizer_info info;
    nib_quantizer_describe(quantizer, &info);
    struct probe p = {.quantizer = quantizer,
                      .block = info.block,
                      .tensor_amax = tensor_amax,
                      .rows = info.block->block_rows,
                      .cols = info.block->block_cols,
                      .count = count};
    p.x = nib_alloc(p.rows * p.cols * count, sizeof *p.x, "probe blocks", error);
    if (p.x == NULL) return NIB_ENOMEM;
    enum nib_status status = nib_quantized_alloc(quantizer, p.rows, p.cols * count, NIB_ALONG_COLS,
                                                 NIB_WANT_CODES | NIB_WANT_SCALES, &p.q, error);
    if (status != NIB_OK)
        free(p.x);
    else
        *out = p;
    return status;
}

static void probe_close(struct probe *p) {
    nib_quantized_free(&p->q);
    free(p->x);
}

static enum nib_status probe_run(struct probe *p, struct nib_error *error) {
    struct nib_view view = {p->x, NIB_F32, p->rows, p->cols * p->count, p->cols * p->count};
    struct nib_quantize_options options = {.axis = NIB_ALONG_COLS, .threads = 1};
    if (p->block->has_tensor_scale) {
        options.has_tensor_amax = true;
        options.tensor_amax = p->tensor_amax;
    }
    return nib_quantize(p->quantizer, view, &options, &p->q, error);
}

static double probe_scale(const struct probe *p, size_t block) {
    uint32_t code = 0;
    for (unsigned k = 0; k < p->q.scale_bytes; k++)
        code |= (uint32_t)p->q.scales[block * p->q.scale_bytes + k] << (8 * k);
    return (double)nib_scale_decode(p->block->scale, code) * (double)p->q.tensor_scale_decode;
}

/* Scales of `count` blocks whose largest magnitudes have these bits. */
static enum nib_status scales_of(const struct nib_quantizer *quantizer, float tensor_amax, const uint32_t *amax,
                                 size_t count, double *scale, struct nib_error *error) {
    struct probe p;
    enum nib_status status = probe_open(quantizer, tensor_amax, count, &p, error);
    if (status != NIB_OK) return status;
    for (size_t i = 0; i < count; i++) p.x[i * p.cols] = nib_float_of_bits(amax[i]);
    status = probe_run(&p, error);
    for (size_t i = 0; status == NIB_OK && i < count; i++) scale[i] = probe_scale(&p, i);
    probe_close(&p);
    return status;
}

static bool same(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

/* Where the scale changes between two neighbours of a sorted list, halves the gap until the neighbours are adjacent
 * binary32 numbers. All gaps are halved at once, so that the quantizer is asked 24 times. */
struct ladder {
    uint32_t *low, *high; /* bits of a gap's ends */
    double *scale_low, *scale_high;
    uint32_t *middle;
    double *scale;
    size_t count, capacity;
};

static enum nib_status ladder_open(size_t capacity, struct ladder *l, struct nib_error *error) {
    *l = (struct ladder){.capacity = capacity};
    l->low = nib_alloc(capacity, sizeof *l->low, "scale steps", error);
    l->high = nib_alloc(capacity, sizeof *l->high, "scale steps", error);
    l->middle = nib_alloc(capacity, sizeof *l->middle, "scale steps", error);
    l->scale_low = nib_alloc(capacity, sizeof *l->scale_low, "scale steps", error);
    l->scale_high = nib_alloc(capacity, sizeof *l->scale_high, "scale steps", error);
    l->scale = nib_alloc(capacity, sizeof *l->scale, "scale steps", error);
    bool there = l->low && l->high && l->middle && l->scale_low && l->scale_high && l->scale;
    return there ? NIB_OK : NIB_ENOMEM;
}

static void ladder_close(struct ladder *l) {
    free(l->low);
    free(l->high);
    free(l->middle);
    free(l->scale_low);
    free(l->scale_high);
    free(l->scale);
}

static enum nib_status halve(const struct nib_quantizer *quantizer, float tensor_amax, struct ladder *l,
                             struct nib_error *error) {
    for (;;) {
        size_t wide = 0;
        for (size_t i = 0; i < l->count; i++) {
            l->middle[i] = l->low[i] + (l->high[i] - l->low[i]) / 2;
            wide += l->high[i] - l->low[i] > 1;
        }
        if (wide == 0) return NIB_OK;
        enum nib_status status = scales_of(quantizer, tensor_amax, l->middle, l->count, l->scale, error);
        if (status != NIB_OK) return status;
        for (size_t i = 0, n = l->count; i < n; i++) {
            if (l->high[i] - l->low[i] <= 1) continue;
            bool left = !same(l->scale[i], l->scale_low[i]), right = !same(l->scale[i], l->scale_high[i]);
            if (left && right) { /* two steps in this gap: the right half is a gap of its own */
                if (l->count == l->capacity)
                    return nib_fail(error, NIB_EUNAVAILABLE, "no expectation: the block scale has too many steps");
                l->low[l->count] = l->middle[i];
                l->high[l->count] = l->high[i];
                l->scale_low[l->count] = l->scale[i];
                l->scale_high[l->count] = l->scale_high[i];
                l->count++;
            }
            if (left) {
                l->high[i] = l->middle[i];
                l->scale_high[i] = l->scale[i];
            } else {
                l->low[i] = l->middle[i];
            }
        }
    }
}

static int by_low(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static enum nib_status collect(const struct ladder *l, double first, struct nib_scale_map *out,
                               struct nib_error *error) {
    double(*step)[2] = nib_alloc(l->count + 1, sizeof *step, "scale steps", error);
    out->bound = nib_alloc(l->count + 1, sizeof *out->bound, "scale steps", error);
    out->scale = nib_alloc(l->count + 1, sizeof *out->scale, "scale steps", error);
    if (step == NULL || out->bound == NULL || out->scale == NULL) {
        free(step);
        return NIB_ENOMEM;
    }
    for (size_t i = 0; i < l->count; i++) {
        /* A block amax is a binary32 number: real ones up to the middle are rounded to the lower. */
        step[i][0] = ((double)nib_float_of_bits(l->low[i]) + (double)nib_float_of_bits(l->high[i])) / 2;
        step[i][1] = l->scale_high[i];
    }
    qsort(step, l->count, sizeof *step, by_low);
    out->scale[0] = first;
    for (size_t i = 0; i < l->count; i++) {
        out->bound[i] = step[i][0];
        out->scale[i + 1] = step[i][1];
    }
    out->bound[l->count] = INFINITY;
    out->count = l->count + 1;
    free(step);
    return NIB_OK;
}

static enum nib_status find_steps(const struct nib_quantizer *quantizer, float tensor_amax, uint32_t low, uint32_t high,
                                  struct nib_scale_map *out, struct nib_error *error) {
    enum { SAMPLES = 4096, CAPACITY = 1 << 16 };
    uint32_t *bits = nib_alloc(SAMPLES + 1, sizeof *bits, "samples", error);
    double *scale = nib_alloc(SAMPLES + 1, sizeof *scale, "samples", error);
    struct ladder ladder = {0};
    enum nib_status status = bits == NULL || scale == NULL ? NIB_ENOMEM : ladder_open(CAPACITY, &ladder, error);
    for (size_t i = 0; status == NIB_OK && i <= SAMPLES; i++)
        bits[i] = low + (uint32_t)((uint64_t)(high - low) * i / SAMPLES);
    if (status == NIB_OK) status = scales_of(quantizer, tensor_amax, bits, SAMPLES + 1, scale, error);
    for (size_t i = 0; status == NIB_OK && i < SAMPLES; i++) {
        if (same(scale[i], scale[i + 1])) continue;
        ladder.low[ladder.count] = bits[i];
        ladder.high[ladder.count] = bits[i + 1];
        ladder.scale_low[ladder.count] = scale[i];
        ladder.scale_high[ladder.count++] = scale[i + 1];
    }
    if (status == NIB_OK) status = halve(quantizer, tensor_amax, &ladder, error);
    if (status == NIB_OK) status = collect(&ladder, scale[0], out, error);
    ladder_close(&ladder);
    free(bits);
    free(scale);
    return status;
}

/* Whether the scale is proportional to the largest magnitude, and how. */
static enum nib_status find_ratio(const struct nib_quantizer *quantizer, float tensor_amax, uint32_t from, uint32_t to,
                                  struct nib_scale_map *out, struct nib_error *error) {
    enum { PROBES = 8192 };
    uint32_t *bits = nib_alloc(PROBES, sizeof *bits, "samples", error);
    double *scale = nib_alloc(PROBES, sizeof *scale, "samples", error), sum = 0;
    enum nib_status status = bits == NULL || scale == NULL ? NIB_ENOMEM : NIB_OK;
    for (uint32_t i = 0; status == NIB_OK && i < PROBES; i++) /* spread over significands, too */
        bits[i] = from + (uint32_t)((uint64_t)(to - from) * i / PROBES) + nib_philox(2, i, 0).word[0] % 4096;
    if (status == NIB_OK) status = scales_of(quantizer, tensor_amax, bits, PROBES, scale, error);
    for (size_t i = 0; status == NIB_OK && i < PROBES; i++)
        sum += scale[i] / (double)nib_float_of_bits(bits[i]) / PROBES;
    out->ratio = sum;
    out->continuous = status == NIB_OK && sum > 0;
    float top = (float)(1 / sum);
    for (size_t i = 0; status == NIB_OK && i < PROBES; i++) {
        float m = nib_float_of_bits(bits[i]);
        out->continuous &= fabs(scale[i] / (double)m / sum - 1) < 1e-6;
        out->below += m / (float)scale[i] < top ? 1.0 / PROBES : 0;
    }
    free(bits);
    free(scale);
    return status;
}

enum nib_status nib_scale_map_make(const struct nib_quantizer *quantizer, float tensor_amax, double low, double high,
                                   struct nib_scale_map *out, struct nib_error *error) {
    struct nib_quantizer_info info;
    struct nib_scale_map map = {0};
    nib_quantizer_describe(quantizer, &info);
    uint32_t from = nib_bits_of_float((float)fmax(low, (double)FLT_MIN)),
             to = nib_bits_of_float((float)fmin(high, (double)FLT_MAX));
    enum nib_status status = NIB_OK;
    if (info.block->scale->kind == NIB_SCALE_FP32) status = find_ratio(quantizer, tensor_amax, from, to, &map, error);
    /* A binary32 scale may hold powers of two only: then it has steps, too. */
    if (status == NIB_OK && !map.continuous) status = find_steps(quantizer, tensor_amax, from, to, &map, error);
    map.low = (double)nib_float_of_bits(from);
    map.high = (double)nib_float_of_bits(to);
    if (status == NIB_OK)
        *out = map;
    else
        nib_scale_map_free(&map);
    return status;
}

void nib_scale_map_free(struct nib_scale_map *map) {
    free(map->bound);
    free(map->scale);
    *map = (struct nib_scale_map){0};
}

static double scale_at(const struct nib_scale_map *map, double amax) {
    if (map->continuous) return amax * map->ratio;
    size_t i = 0;
    while (amax > map->bound[i]) i++;
    return map->scale[i];
}

/* Whether the code is one that the cells give at t, or within a hair of it. */
static bool plausible(const struct nib_cells *cells, double t, unsigned code) {
    const double hair = 2e-6 * fmax(fabs(t), 1e-3);
    for (unsigned r = 0; r < cells->ranks; r++) {
        double low = r == 0 ? -INFINITY : cells->border[r - 1],
               high = r + 1 == cells->ranks ? INFINITY : cells->border[r];
        if (cells->sr_bits > 0) {
            low = r == 0 ? -INFINITY : cells->level[r - 1];
            high = r + 1 == cells->ranks ? INFINITY : cells->level[r + 1];
            if (cells->level[r] == 0)
                low = fmin(low, cells->level[r > 1 ? r - 2 : 0]),
                high = fmax(high, cells->level[r + 2 < cells->ranks ? r + 2 : r]);
        }
        if (t >= low - hair && t <= high + hair && cells->code[r] == code) return true;
    }
    return false;
}

enum nib_status nib_scale_map_check(const struct nib_quantizer *quantizer, float tensor_amax,
                                    const struct nib_scale_map *map, const struct nib_cells *cells,
                                    const struct nib_density *density, struct nib_error *error) {
    enum { BLOCKS = 2048 }; /* a search among scales may differ rarely */
    struct probe p;
    struct nib_quantizer_info info;
    nib_quantizer_describe(quantizer, &info);
    enum nib_status status = probe_open(quantizer, tensor_amax, BLOCKS, &p, error);
    if (status != NIB_OK) return status;
    size_t n = p.rows * p.cols * BLOCKS;
    double typical = nib_density_quantile(density, 0.9, 1);
    for (size_t i = 0; i < n; i++) {
        struct nib_philox_block r = nib_philox(1, i, 0);
        double u[4], sign = (r.word[1] & 1) != 0 ? 1 : -1;
        for (int k = 0; k < 4; k++) u[k] = ((double)r.word[k] + 0.5) * 0x1p-32;
        bool heavy = i / p.cols % 2 == 0; /* every other block has many small elements, the rest are nearly Gaussian */
        p.x[i] = (float)(typical * (heavy ? sign * u[0] * u[0] : u[0] + u[1] + u[2] + u[3] - 2));
    }
    status = probe_run(&p, error);
    for (size_t i = 0; status == NIB_OK && i < BLOCKS; i++) {
        double amax = 0;
        for (size_t k = 0; k < p.rows * p.cols; k++)
            amax = fmax(amax, fabs((double)p.x[k / p.cols * p.cols * BLOCKS + i * p.cols + k % p.cols]));
        if (amax < map->low || amax > map->high) continue;
        double s = probe_scale(&p, i), expected = scale_at(map, amax);
        if (!(fabs(s - expected) <= 1e-6 * fabs(expected)) && !same(s, expected))
            status = nib_fail(error, NIB_EUNAVAILABLE,
                              "%s: no expectation: the scale of a block depends on more than its largest magnitude",
                              info.name);
        for (size_t k = 0; status == NIB_OK && s > 0 && k < p.rows * p.cols; k++) {
            size_t place = k / p.cols * p.cols * BLOCKS + i * p.cols + k % p.cols;
            if (!plausible(cells, (double)p.x[place] / s, p.q.codes[place]))
                status = nib_fail(error, NIB_EUNAVAILABLE,
                                  "%s: no expectation: its elements are not rounded one by one to a neighbouring level",
                                  info.name);
        }
    }
    probe_close(&p);
    return status;
}
