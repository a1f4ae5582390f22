/* One pass over a matrix: decode scales, sum chunks in parallel, merge them by a fixed tree. */
#include <nibble/measure.h>

#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/threads.h"
#include "core/widen.h"
#include "measure/accumulate.h"
#include "measure/blocks.h"
#include "measure/plan.h"
#include "measure/sums.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Everything a chunk needs to know. */
struct pass {
    struct nib_view x;
    const uint8_t *codes;
    bool along_cols;
    size_t block_across, block_along;
    size_t scale_cols;
    const double *scale, *inverse; /* decode scale of each block with the tensor scale, and 1/scale */
    struct nib_levels levels;
};

/* Scales of the blocks over columns [col, col + count) of `row`, one per element. */
static void spread_scales(const struct pass *pass, size_t row, size_t col, size_t count, double *restrict scale,
                          double *restrict inverse) {
    size_t run = pass->along_cols ? pass->block_along : pass->block_across;
    size_t stride = pass->along_cols ? 1 : pass->scale_cols;
    size_t base = pass->along_cols ? row / pass->block_across * pass->scale_cols : row / pass->block_along;
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
    size_t per_scale = pass->along_cols ? pass->block_across : pass->block_along; /* rows that share scales */
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

static enum nib_status decode_scales(const struct nib_scale *format, const struct nib_quantized *q, double **scale,
                                     double **inverse, struct nib_error *error) {
    size_t count = q->scale_rows * q->scale_cols;
    *scale = nib_alloc_raw(count, sizeof **scale, "decoded scales", error);
    *inverse = nib_alloc_raw(count, sizeof **inverse, "inverse scales", error);
    if (*scale == NULL || *inverse == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        uint32_t code = 0;
        for (unsigned k = 0; k < q->scale_bytes; k++) code |= (uint32_t)q->scales[i * q->scale_bytes + k] << (8 * k);
        double s = (double)nib_scale_decode(format, code) * (double)q->tensor_scale_decode; /* exact */
        (*scale)[i] = s;
        (*inverse)[i] = s == 0 ? 0 : 1 / s;
    }
    return NIB_OK;
}

static void count_scales(const struct nib_scale *format, const struct nib_quantized *q, uint64_t *bins) {
    for (size_t i = 0; i < q->scale_rows * q->scale_cols; i++) {
        const uint8_t *bytes = q->scales + i * q->scale_bytes; /* little-endian */
        uint32_t top = q->scale_bytes == 1 ? 0 : (uint32_t)bytes[q->scale_bytes - 1] << 8 | bytes[q->scale_bytes - 2];
        bins[format->bytes == 1 ? bytes[0] : top >> 7 & 0xFF]++;
    }
}

static enum nib_status run(const struct pass *pass, const struct nib_plan *plan, int threads,
                           struct nib_measurement *out, struct nib_error *error) {
    size_t first[NIB_BATCHES + 1] = {0};
    for (unsigned b = 0; b < plan->batches; b++) first[b + 1] = first[b] + nib_plan_chunks(plan, b);
    struct nib_sums *sums = nib_alloc(first[plan->batches], sizeof *sums, "chunk sums", error);
    if (sums == NULL) return NIB_ENOMEM;
#pragma omp parallel num_threads(nib_threads(threads))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < first[plan->batches]; i++) {
            unsigned b = 0;
            while (first[b + 1] <= i) b++;
            sum_chunk(pass, nib_plan_chunk(plan, b, i - first[b]), &sums[i]);
        }
        nib_fpenv_leave(saved);
    }
    struct nib_fpenv saved = nib_fpenv_enter();
    struct nib_sums batch[NIB_BATCHES] = {{0}};
    for (unsigned b = 0; b < plan->batches; b++) {
        merge_pairwise(sums + first[b], first[b + 1] - first[b]);
        batch[b] = out->batch[b] = sums[first[b]];
    }
    merge_pairwise(batch, plan->batches);
    out->total = batch[0];
    nib_fpenv_leave(saved);
    free(sums);
    return NIB_OK;
}

enum nib_status nib_measure(const struct nib_quantizer *quantizer, struct nib_view x, const struct nib_quantized *q,
                            const struct nib_measure_options *options, struct nib_measurement *out,
                            struct nib_error *error) {
    if (q->codes == NULL || q->scales == NULL)
        return nib_fail(error, NIB_EINVAL, "a measurement needs codes and scales");
    if (q->rows != x.rows || q->cols != x.cols)
        return nib_fail(error, NIB_EINVAL, "the input is %zux%zu, its codes are %zux%zu", x.rows, x.cols, q->rows,
                        q->cols);
    struct nib_quantizer_info info;
    nib_quantizer_describe(quantizer, &info);
    const struct nib_block *block = info.block;
    struct pass pass = {.x = x,
                        .codes = q->codes,
                        .along_cols = q->axis == NIB_ALONG_COLS,
                        .block_across = block->block_rows,
                        .block_along = block->block_cols,
                        .scale_cols = q->scale_cols};
    size_t along = nib_least_common_multiple(options->along == 0 ? 1 : options->along, block->block_cols);
    size_t across = nib_least_common_multiple(options->across == 0 ? 1 : options->across, block->block_rows);
    struct nib_plan plan;
    nib_plan_make(x.rows, x.cols, pass.along_cols ? across : along, pass.along_cols ? along : across, &plan);
    nib_levels_of(block->element, &pass.levels);

    double *scale = NULL, *inverse = NULL;
    struct nib_fpenv saved = nib_fpenv_enter();
    enum nib_status status = decode_scales(block->scale, q, &scale, &inverse, error);
    nib_fpenv_leave(saved);
    struct nib_measurement *result = NULL;
    if (status == NIB_OK) {
        result = nib_alloc(1, sizeof *result, "a measurement", error);
        if (result == NULL) status = NIB_ENOMEM;
    }
    if (status == NIB_OK) {
        pass.scale = scale;
        pass.inverse = inverse;
        status = run(&pass, &plan, options->threads, result, error);
    }
    if (status == NIB_OK) {
        result->element = block->element;
        result->bits_per_value = block->bits_per_value;
        count_scales(block->scale, q, result->scale_count);
        result->batches_of_rows = plan.by_rows;
        result->unit = plan.unit;
        result->batches = plan.batches;
        *out = *result;
    }
    free(result);
    free(inverse);
    free(scale);
    return status;
}
