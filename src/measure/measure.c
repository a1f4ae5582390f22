/* Measurements part by part: decode scales, sum chunks in parallel, merge them by a fixed tree. */
#include "measure/parts.h"

#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/multiple.h"
#include "base/threads.h"
#include "core/widen.h"
#include "measure/accumulate.h"
#include "measure/blocks.h"
#include "measure/sums.h"
#include "quantize/tensor_scale.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Everything a chunk needs to know. */
struct pass {
    struct nib_view x;
    const uint8_t *codes;
    bool along_cols;
    size_t block_across, block_along;
    size_t scale_along; /* elements along the axis that share a scale */
    size_t scale_cols;
    const double *scale, *inverse; /* decode scale of each block with the tensor scale, and 1/scale */
    struct nib_levels levels;
};

/* Scales of the blocks over columns [col, col + count) of `row`, one per element. */
static void spread_scales(const struct pass *pass, size_t row, size_t col, size_t count, double *restrict scale,
                          double *restrict inverse) {
    size_t run = pass->along_cols ? pass->scale_along : pass->block_across;
    size_t stride = pass->along_cols ? 1 : pass->scale_cols;
    size_t base = pass->along_cols ? row / pass->block_across * pass->scale_cols : row / pass->scale_along;
    for (size_t i = 0; i < count;) {
        size_t block = (col + i) / run, end = (block + 1) * run - col;
        if (end > count) end = count;
        double s = pass->scale[base + block * stride], r = pass->inverse[base + block * stride];
        for (; i < end; i++) {
            scale[i] = s;
            inverse[i] = r;
        }
    }
}

static void sum_chunk(const struct pass *pass, struct nib_rectangle part, struct nib_sums *out) {
    _Alignas(64) double scale[NIB_SEGMENT], inverse[NIB_SEGMENT];
    _Alignas(64) float x[NIB_SEGMENT];
    struct nib_lanes lanes;
    memset(&lanes, 0, sizeof lanes);
    size_t per_scale = pass->along_cols ? pass->block_across : pass->scale_along; /* rows that share scales */
    for (size_t c = 0; c < part.cols; c += NIB_SEGMENT) {
        size_t count = part.cols - c < NIB_SEGMENT ? part.cols - c : NIB_SEGMENT, col = part.col + c;
        size_t current = SIZE_MAX;
        for (size_t row = part.row; row < part.row + part.rows; row++) {
            if (row / per_scale != current) spread_scales(pass, row, col, count, scale, inverse);
            current = row / per_scale;
            nib_widen(pass->x, row * pass->x.stride + col, count, x);
            nib_lanes_add(&lanes, &pass->levels, x, pass->codes + row * pass->x.cols + col, scale, inverse, count);
        }
    }
    nib_lanes_sum(&lanes, out);
    struct nib_block_shape shape = {pass->along_cols ? pass->block_across : pass->block_along,
                                    pass->along_cols ? pass->block_along : pass->block_across};
    nib_blocks_add(pass->x, part, shape, out);
}

/* sums[0] = the pairwise sum of sums[0..count). */
static void merge_pairwise(struct nib_sums *sums, size_t count) {
    for (size_t step = 1; step < count; step *= 2)
        for (size_t i = 0; i + step < count; i += 2 * step) nib_sums_merge(&sums[i], &sums[i + step]);
}

/* Decode scales times the tensor scale, that of its own line or segment where there are several; `parts` of them for
 * each block. Exact. */
static enum nib_status decode_scales(const struct nib_quantizer *quantizer, enum nib_dtype dtype,
                                     const struct nib_quantized *q, unsigned parts, double **scale, double **inverse,
                                     struct nib_error *error) {
    size_t count = q->scale_rows * q->scale_cols, seen = SIZE_MAX;
    *scale = nib_alloc_raw(count * parts, sizeof **scale, "decoded scales", error);
    *inverse = nib_alloc_raw(count * parts, sizeof **inverse, "inverse scales", error);
    if (*scale == NULL || *inverse == NULL) return NIB_ENOMEM;
    float tensor_scale = q->tensor_scale_decode;
    for (size_t i = 0; i < count; i++) {
        uint32_t code = 0;
        for (unsigned k = 0; k < q->scale_bytes; k++) code |= (uint32_t)q->scales[i * q->scale_bytes + k] << (8 * k);
        size_t here = i / q->scale_cols * q->line_parts +
                      nib_tensor_part(quantizer, i % q->scale_cols * quantizer->block->block_cols);
        if (q->line_amax != NULL && here != seen)
            tensor_scale = nib_tensor_scale_of_amax(quantizer, dtype, q->line_amax[here]).decode;
        seen = here;
        for (unsigned p = 0; p < parts; p++) {
            double s = (double)nib_scale_decode_part(quantizer->block->scale, code, p) * (double)tensor_scale;
            (*scale)[i * parts + p] = s;
            (*inverse)[i * parts + p] = s == 0 ? 0 : 1 / s;
        }
    }
    return NIB_OK;
}

static void count_scales(const struct nib_scale *format, const struct nib_quantized *q, uint64_t *bins) {
    for (size_t i = 0; i < q->scale_rows * q->scale_cols; i++) {
        const uint8_t *bytes = q->scales + i * q->scale_bytes; /* little-endian */
        uint32_t top = q->scale_bytes == 1 ? 0 : (uint32_t)bytes[q->scale_bytes - 1] << 8 | bytes[q->scale_bytes - 2];
        bins[format->bytes == 1 || format->kind == NIB_SCALE_HIF4 ? bytes[0] : top >> 7 & 0xFF]++;
    }
}

struct nib_parts {
    const struct nib_quantizer *quantizer;
    const struct nib_block *block;
    enum nib_axis axis;
    int threads;
    struct nib_plan plan;
    size_t first[NIB_BATCHES + 1]; /* chunk of each batch */
    struct nib_sums *sums;         /* by chunk */
    struct nib_levels levels;
    uint64_t scale_count[NIB_SCALE_BINS];
};

enum nib_status nib_parts_new(const struct nib_quantizer *quantizer, size_t rows, size_t cols, enum nib_axis axis,
                              const struct nib_measure_options *options, struct nib_parts **out, struct nib_error *error) {
    struct nib_parts *parts = nib_alloc(1, sizeof *parts, "a measurement", error);
    if (parts == NULL) return NIB_ENOMEM;
    struct nib_quantizer_info info;
    nib_quantizer_describe(quantizer, &info);
    const struct nib_block *block = info.block;
    size_t along = nib_least_common_multiple(options->along == 0 ? 1 : options->along, block->block_cols);
    size_t across = nib_least_common_multiple(options->across == 0 ? 1 : options->across, block->block_rows);
    bool along_cols = axis == NIB_ALONG_COLS;
    parts->quantizer = quantizer;
    parts->block = block;
    parts->axis = axis;
    parts->threads = options->threads;
    nib_plan_make(rows, cols, along_cols ? across : along, along_cols ? along : across, &parts->plan);
    for (unsigned b = 0; b < parts->plan.batches; b++) parts->first[b + 1] = parts->first[b] + nib_plan_chunks(&parts->plan, b);
    nib_levels_of(block->element, &parts->levels);
    parts->sums = nib_alloc(parts->first[parts->plan.batches], sizeof *parts->sums, "chunk sums", error);
    if (parts->sums == NULL) {
        nib_parts_free(parts);
        return NIB_ENOMEM;
    }
    *out = parts;
    return NIB_OK;
}

void nib_parts_free(struct nib_parts *parts) {
    if (parts == NULL) return;
    free(parts->sums);
    free(parts);
}

static struct nib_rectangle chunk_at(const struct nib_parts *parts, size_t chunk) {
    unsigned b = 0;
    while (parts->first[b + 1] <= chunk) b++;
    return nib_plan_chunk(&parts->plan, b, chunk - parts->first[b]);
}

/* The next part after `chunk` chunks: whole batches, or whole bands of chunks of one batch, or some chunks of one band. */
static struct nib_part next_part(const struct nib_parts *parts, size_t chunk, size_t elements) {
    unsigned b = 0;
    while (parts->first[b + 1] <= chunk) b++;
    struct nib_rectangle batch = nib_plan_batch(&parts->plan, b), place = chunk_at(parts, chunk);
    size_t per_band = (batch.cols + parts->plan.chunk_cols - 1) / parts->plan.chunk_cols;
    if (chunk == parts->first[b] && batch.rows * batch.cols <= elements) {
        place = batch;
        for (b++; b < parts->plan.batches; b++) {
            struct nib_rectangle more = nib_plan_batch(&parts->plan, b);
            if (place.rows * place.cols + more.rows * more.cols > elements) break;
            if (parts->plan.by_rows)
                place.rows += more.rows;
            else
                place.cols += more.cols;
        }
        return (struct nib_part){chunk, parts->first[b] - chunk, place};
    }
    size_t count = 1;
    bool bands = (chunk - parts->first[b]) % per_band == 0 && place.rows * batch.cols <= elements;
    if (bands) place.cols = batch.cols;
    for (size_t step = count = bands ? per_band : 1; chunk + count < parts->first[b + 1]; count += step) {
        struct nib_rectangle more = chunk_at(parts, chunk + count);
        if (bands ? (place.rows + more.rows) * batch.cols > elements
                  : more.row != place.row || place.rows * (place.cols + more.cols) > elements)
            break;
        if (bands)
            place.rows += more.rows;
        else
            place.cols += more.cols;
    }
    return (struct nib_part){chunk, count, place};
}

enum nib_status nib_parts_cut(const struct nib_parts *parts, size_t elements, struct nib_part **out, size_t *count,
                              struct nib_error *error) {
    size_t chunks = parts->first[parts->plan.batches], found = 0;
    for (size_t chunk = 0; chunk < chunks; found++) chunk += next_part(parts, chunk, elements).count;
    struct nib_part *list = nib_alloc(found, sizeof *list, "parts of a tensor", error);
    if (list == NULL) return NIB_ENOMEM;
    found = 0;
    for (size_t chunk = 0; chunk < chunks; chunk += list[found++].count) list[found] = next_part(parts, chunk, elements);
    *out = list;
    *count = found;
    return NIB_OK;
}

enum nib_status nib_parts_add(struct nib_parts *parts, const struct nib_part *part, struct nib_view x,
                              const struct nib_quantized *q, struct nib_error *error) {
    const unsigned of_block = nib_scale_parts(parts->block->scale);
    struct pass pass = {.x = x,
                        .codes = q->codes,
                        .along_cols = parts->axis == NIB_ALONG_COLS,
                        .block_across = parts->block->block_rows,
                        .block_along = parts->block->block_cols,
                        .scale_along = parts->block->block_cols / of_block,
                        .scale_cols = q->scale_cols * of_block,
                        .levels = parts->levels};
    double *scale = NULL, *inverse = NULL;
    struct nib_fpenv saved = nib_fpenv_enter();
    enum nib_status status = decode_scales(parts->quantizer, x.dtype, q, of_block, &scale, &inverse, error);
    nib_fpenv_leave(saved);
    if (status == NIB_OK) {
        pass.scale = scale;
        pass.inverse = inverse;
        count_scales(parts->block->scale, q, parts->scale_count);
#pragma omp parallel num_threads(nib_threads(parts->threads))
        {
            struct nib_fpenv own = nib_fpenv_enter();
#pragma omp for schedule(dynamic)
            for (size_t i = 0; i < part->count; i++) {
                struct nib_rectangle chunk = chunk_at(parts, part->first + i);
                chunk.row -= part->place.row;
                chunk.col -= part->place.col;
                sum_chunk(&pass, chunk, &parts->sums[part->first + i]);
            }
            nib_fpenv_leave(own);
        }
    }
    free(inverse);
    free(scale);
    return status;
}

void nib_parts_finish(struct nib_parts *parts, struct nib_measurement *out) {
    const struct nib_plan *plan = &parts->plan;
    struct nib_fpenv saved = nib_fpenv_enter();
    struct nib_sums batch[NIB_BATCHES] = {{0}};
    memset(out, 0, sizeof *out);
    for (unsigned b = 0; b < plan->batches; b++) {
        if (parts->first[b + 1] == parts->first[b]) continue; /* a tensor without elements */
        merge_pairwise(parts->sums + parts->first[b], parts->first[b + 1] - parts->first[b]);
        batch[b] = out->batch[b] = parts->sums[parts->first[b]];
    }
    merge_pairwise(batch, plan->batches);
    out->total = batch[0];
    nib_fpenv_leave(saved);
    out->element = parts->block->element;
    out->bits_per_value = parts->block->bits_per_value;
    memcpy(out->scale_count, parts->scale_count, sizeof out->scale_count);
    out->batches_of_rows = plan->by_rows;
    out->unit = plan->unit;
    out->batches = plan->batches;
}

enum nib_status nib_measure(const struct nib_quantizer *quantizer, struct nib_view x, const struct nib_quantized *q,
                            const struct nib_measure_options *options, struct nib_measurement *out,
                            struct nib_error *error) {
    if (q->codes == NULL || q->scales == NULL)
        return nib_fail(error, NIB_EINVAL, "a measurement needs codes and scales");
    if (q->rows != x.rows || q->cols != x.cols)
        return nib_fail(error, NIB_EINVAL, "the input is %zux%zu, its codes are %zux%zu", x.rows, x.cols, q->rows,
                        q->cols);
    struct nib_parts *parts = NULL;
    enum nib_status status = nib_parts_new(quantizer, x.rows, x.cols, q->axis, options, &parts, error);
    if (status != NIB_OK) return status;
    struct nib_part whole = {0, parts->first[parts->plan.batches], {0, 0, x.rows, x.cols}};
    status = nib_parts_add(parts, &whole, x, q, error);
    if (status == NIB_OK) nib_parts_finish(parts, out);
    nib_parts_free(parts);
    return status;
}
