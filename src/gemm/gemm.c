/* The product: tiles of a unit's plan, parts of K, and the epilogue. */
#include <nibble/gemm.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fpenv.h"
#include "gemm/epilogue.h"
#include "gemm/order.h"
#include "unit/kernel.h"

unsigned nib_gemm_output_bytes(const struct nib_gemm *gemm) {
    switch (gemm->output) {
    case NIB_GEMM_F32: return 4;
    case NIB_GEMM_BF16:
    case NIB_GEMM_F16: return 2;
    case NIB_GEMM_E4M3: return 1;
    default: return nib_accumulator_bytes(gemm->unit->accumulator);
    }
}

static enum nib_status check(const struct nib_gemm *g, struct nib_error *error) {
    if (g == NULL || g->unit == NULL) return nib_fail(error, NIB_EINVAL, "the product or its matrix unit is NULL");
    const struct nib_unit *unit = g->unit;
    enum nib_status status = nib_unit_accepts(unit, g->a.matrix.operand, g->b.matrix.operand, g->k, error);
    if (status != NIB_OK) return status;
    bool blocks = g->a.block_scales != NULL;
    if (blocks != (g->b.block_scales != NULL))
        return nib_fail(error, NIB_EINVAL, "block scales for %s alone; expected them for both operands or for none",
                        blocks ? "A" : "B");
    if (blocks && (g->block_scale_k == 0 || g->block_scale_k % unit->k != 0))
        return nib_fail(error, NIB_EINVAL,
                        "one scale for %zu elements of K; expected a multiple of %u, the K of one %s instruction",
                        g->block_scale_k, unit->k, unit->name);
    if (blocks && unit->scale_block != 0)
        return nib_fail(error, NIB_EINVAL, "unit %s scales blocks itself; expected no scales in the epilogue",
                        unit->name);
    if (blocks && g->promote != 0)
        return nib_fail(error, NIB_EINVAL, "block scales promote every %zu elements of K by themselves",
                        g->block_scale_k);
    unsigned split = g->split_k > 1 ? g->split_k : 1;
    size_t period = blocks ? g->block_scale_k : (g->promote != 0 ? g->promote : 1) * (size_t)unit->k;
    if (split > (g->k + period - 1) / period)
        return nib_fail(error, NIB_EINVAL, "%u parts of K; expected at most %zu, one for each %zu elements", split,
                        (g->k + period - 1) / period, period);
    if (unit->accumulator == NIB_ACC_FP64 &&
        (blocks || g->promote != 0 || split > 1 || g->output != NIB_GEMM_ACCUMULATOR))
        return nib_fail(error, NIB_EINVAL,
                        "unit %s accumulates in fp64: expected one chain and its accumulator as output", unit->name);
    if (g->output == NIB_GEMM_ACCUMULATOR && (blocks || g->promote != 0))
        return nib_fail(error, NIB_EINVAL,
                        "block scales and promotion leave the accumulator: expected another output type");
    if (g->output == NIB_GEMM_ACCUMULATOR && (g->alpha != 1 || g->beta != 0))
        return nib_fail(error, NIB_EINVAL, "alpha and beta need an output type with an epilogue");
    if (g->beta != 0 && g->c == NULL) return nib_fail(error, NIB_EINVAL, "beta is given, but no C");
    if (g->order == NIB_GEMM_INTERLEAVED && g->interleave == 0)
        return nib_fail(error, NIB_EINVAL, "an interleaved order needs its width");
    return NIB_OK;
}

/* The start of part `i` of K: whole periods, the first parts longer by one. */
static size_t part_start(size_t k, size_t period, unsigned parts, unsigned i) {
    size_t periods = (k + period - 1) / period,
           start = periods / parts * i + (i < periods % parts ? i : periods % parts);
    return start * period < k ? start * period : k;
}

struct product {
    const struct nib_gemm *gemm;
    const struct nib_unit_plan *plan;
    bool outer;
    size_t period;
    unsigned parts;
    void *d;
    size_t d_stride;
};

static void add_parts(const struct product *p, uint64_t *sum, const uint64_t *part, size_t count) {
    enum nib_accumulator accumulator = p->gemm->unit->accumulator;
    for (size_t t = 0; t < count; t++)
        sum[t] =
            accumulator == NIB_ACC_S32 ? (uint32_t)(sum[t] + part[t]) : nib_epilogue_add(accumulator, sum[t], part[t]);
}

static void compute_tile(const struct product *p, size_t i, size_t j) {
    const struct nib_gemm *g = p->gemm;
    const struct nib_unit_plan *plan = p->plan;
    uint64_t acc[NIB_TILE_MAX], part[NIB_TILE_MAX];
    float sum[NIB_TILE_MAX], part_sum[NIB_TILE_MAX];
    size_t count = plan->rows * plan->columns, row = i * plan->rows, column = j * plan->columns;
    for (unsigned s = 0; s < p->parts; s++) {
        size_t k0 = part_start(g->k, p->period, p->parts, s), k1 = part_start(g->k, p->period, p->parts, s + 1);
        if (p->outer) {
            float *target = s == 0 ? sum : part_sum;
            memset(target, 0, count * sizeof *target);
            nib_unit_plan_outer(plan, i, j, k0, k1, target);
            for (size_t t = 0; s > 0 && t < count; t++) sum[t] = nib_epilogue_sum(sum[t], part_sum[t]);
        } else {
            uint64_t *target = s == 0 ? acc : part;
            memset(target, 0, count * sizeof *target);
            nib_unit_plan_tile(plan, i, j, k0, k1, target);
            if (s > 0) add_parts(p, acc, part, count);
        }
    }
    unsigned bytes = nib_gemm_output_bytes(g);
    for (size_t t = 0; t < count; t++) {
        size_t r = row + t / plan->columns, c = column + t % plan->columns;
        if (r >= g->m || c >= g->n) continue;
        uint64_t bits = acc[t];
        if (g->output != NIB_GEMM_ACCUMULATOR) {
            float value = p->outer ? sum[t] : nib_epilogue_value(g->unit->accumulator, acc[t]);
            bits = nib_epilogue_bits(g, value, g->beta != 0 ? g->c[r * g->c_stride + c] : 0);
        }
        memcpy((char *)p->d + (r * p->d_stride + c) * bytes, &bits, bytes);
    }
}

static enum nib_status run_ordered(const struct nib_gemm *g, const struct nib_unit_options *options, void *d,
                                   size_t d_stride, struct nib_error *error) {
    struct nib_unit_job job = {.unit = g->unit, .a = &g->a.matrix, .b = &g->b.matrix, .m = g->m, .n = g->n, .k = g->k};
    struct product p = {.gemm = g, .d = d, .d_stride = d_stride, .parts = g->split_k > 1 ? g->split_k : 1};
    bool blocks = g->a.block_scales != NULL;
    p.outer = blocks || g->promote != 0;
    p.period = blocks ? g->block_scale_k : (g->promote != 0 ? g->promote : 1) * (size_t)g->unit->k;
    if (p.outer) {
        job.outer.form = !blocks                             ? NIB_OUTER_PROMOTE
                         : g->scaling == NIB_GEMM_SEQUENTIAL ? NIB_OUTER_SEQUENTIAL
                                                             : NIB_OUTER_PRODUCT;
        job.outer.period = p.period;
        job.outer.a = (struct nib_outer_scales){g->a.block_scales, g->a.block_scale_stride, g->a.block_scale_rows};
        job.outer.b = (struct nib_outer_scales){g->b.block_scales, g->b.block_scale_stride, g->b.block_scale_rows};
    }
    struct nib_unit_plan plan;
    enum nib_status status = nib_unit_plan_init(&plan, &job, options, error);
    if (status != NIB_OK) return status;
    p.plan = &plan;
    int64_t tiles = (int64_t)(plan.row_tiles * plan.column_tiles);
#pragma omp parallel num_threads(plan.threads)
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(dynamic, 8)
        for (int64_t t = 0; t < tiles; t++) compute_tile(&p, (size_t)t % plan.row_tiles, (size_t)t / plan.row_tiles);
        nib_fpenv_leave(saved);
    }
    nib_unit_plan_clear(&plan);
    return NIB_OK;
}

enum nib_status nib_gemm_run(const struct nib_gemm *gemm, const struct nib_unit_options *options, void *d,
                             size_t d_stride, struct nib_error *error) {
    enum nib_status status = check(gemm, error);
    if (status != NIB_OK) return status;
    if (gemm->order == NIB_GEMM_ASCENDING) return run_ordered(gemm, options, d, d_stride, error);
    struct nib_gemm ordered = *gemm;
    struct nib_order_copy copy;
    status = nib_order_apply(&ordered, &copy, error);
    if (status == NIB_OK) status = run_ordered(&ordered, options, d, d_stride, error);
    nib_order_clear(&copy);
    return status;
}
