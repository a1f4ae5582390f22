/* Choosing a kernel, packing the operands for it, computing tiles. */
#include "unit/kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/threads.h"
#include "unit/number.h"

/* From slow to fast. */
static const struct {
    const char *name;
    const struct nib_unit_kernel *const *(*kernels)(void);
} isas[] = {
    {"generic", nib_unit_kernels_generic},
    {"avx2", nib_unit_kernels_avx2},
    {"avx512", nib_unit_kernels_avx512},
};
enum { ISAS = sizeof isas / sizeof *isas };

static const struct nib_unit_kernel *kernel_for(size_t isa, const struct nib_unit_job *job) {
    const struct nib_unit_kernel *const *kernels = isas[isa].kernels();
    for (size_t i = 0; kernels != NULL && kernels[i] != NULL; i++)
        if (kernels[i]->takes(job->unit, job->a->operand, job->b->operand)) return kernels[i];
    return NULL;
}

/* The fastest kernel up to the one asked for. A kernel that exists for a lesser instruction set alone
 * is used with a greater one, too. */
static enum nib_status find_kernel(const struct nib_unit_job *job, const char *isa, const struct nib_unit_kernel **out,
                                   struct nib_error *error) {
    *out = NULL;
    const char *what = isa == NULL ? "NIBBLE_ISA" : "instruction set";
    if (isa == NULL) isa = getenv("NIBBLE_ISA");
    if (isa != NULL && isa[0] == 0) isa = NULL;
    if (isa != NULL && strcmp(isa, "ref") == 0) return NIB_OK;
    size_t limit = ISAS;
    if (isa != NULL) {
        for (limit = 0; limit < ISAS && strcmp(isas[limit].name, isa) != 0; limit++) {
        }
        if (limit == ISAS)
            return nib_fail(error, NIB_EINVAL, "%s \"%s\": expected generic, avx2, avx512 or ref", what, isa);
        if (isas[limit].kernels() == NULL)
            return nib_fail(error, NIB_EUNAVAILABLE, "%s %s: this processor or build does not have it", what, isa);
        limit++;
    }
    while (limit > 0 && *out == NULL) *out = kernel_for(--limit, job);
    return NIB_OK;
}

enum nib_status nib_unit_isa(const struct nib_unit *unit, enum nib_operand a, enum nib_operand b, const char *isa,
                             const char **out, struct nib_error *error) {
    struct nib_unit_matrix x = {.operand = a}, y = {.operand = b};
    struct nib_unit_job job = {.unit = unit, .a = &x, .b = &y};
    const struct nib_unit_kernel *kernel;
    enum nib_status status = find_kernel(&job, isa, &kernel, error);
    if (status == NIB_OK) *out = kernel != NULL ? kernel->isa : "ref";
    return status;
}

static void pack(struct nib_unit_plan *plan) {
    const struct nib_unit_kernel *kernel = plan->kernel;
    int64_t tiles_a = (int64_t)plan->row_tiles, tiles_b = (int64_t)plan->column_tiles;
#pragma omp parallel num_threads(plan->threads)
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(static) nowait
        for (int64_t i = 0; i < tiles_a; i++)
            kernel->pack_a(&plan->job, (size_t)i * plan->rows, (char *)plan->panels_a + (size_t)i * plan->a_bytes);
#pragma omp for schedule(static)
        for (int64_t j = 0; j < tiles_b; j++)
            kernel->pack_b(&plan->job, (size_t)j * plan->columns, (char *)plan->panels_b + (size_t)j * plan->b_bytes);
        nib_fpenv_leave(saved);
    }
}

static size_t tiles(size_t extent, size_t size) { return (extent + size - 1) / size; }
static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

enum nib_status nib_unit_plan_init(struct nib_unit_plan *plan, const struct nib_unit_job *job,
                                   const struct nib_unit_options *options, struct nib_error *error) {
    memset(plan, 0, sizeof *plan);
    enum nib_status status = nib_unit_accepts(job->unit, job->a->operand, job->b->operand, job->k, error);
    if (status == NIB_OK && job->unit->scale_block != 0 && (job->a->scales == NULL || job->b->scales == NULL))
        status = nib_fail(error, NIB_EINVAL, "unit %s needs %zu scales in each row of both operands", job->unit->name,
                          job->k / job->unit->scale_block);
    if (status == NIB_OK) status = find_kernel(job, options != NULL ? options->isa : NULL, &plan->kernel, error);
    if (status != NIB_OK) return status;
    plan->job = *job;
    plan->threads = nib_threads(options != NULL ? options->threads : 0);
    plan->rows = plan->kernel != NULL ? plan->kernel->rows : 8;
    plan->columns = plan->kernel != NULL ? plan->kernel->columns : 8;
    plan->row_tiles = tiles(job->m, plan->rows);
    plan->column_tiles = tiles(job->n, plan->columns);
    if (plan->kernel == NULL) return NIB_OK;
    plan->a_bytes = aligned(plan->kernel->a_bytes(job));
    plan->b_bytes = aligned(plan->kernel->b_bytes(job));
    plan->panels_a = nib_alloc_raw(plan->row_tiles, plan->a_bytes, "packed rows of A", error);
    plan->panels_b = nib_alloc_raw(plan->column_tiles, plan->b_bytes, "packed columns of B", error);
    if (plan->panels_a == NULL || plan->panels_b == NULL) {
        nib_unit_plan_clear(plan);
        return NIB_ENOMEM;
    }
    pack(plan);
    return NIB_OK;
}

void nib_unit_plan_clear(struct nib_unit_plan *plan) {
    free(plan->panels_a);
    free(plan->panels_b);
    plan->panels_a = plan->panels_b = NULL;
}

void nib_unit_plan_tile(const struct nib_unit_plan *plan, size_t i, size_t j, size_t k0, size_t k1, uint64_t *acc) {
    const struct nib_unit_job *job = &plan->job;
    size_t row = i * plan->rows, column = j * plan->columns;
    if (plan->kernel != NULL) {
        plan->kernel->tile(job, row, column, (const char *)plan->panels_a + i * plan->a_bytes,
                           (const char *)plan->panels_b + j * plan->b_bytes, k0, k1, acc);
        return;
    }
    for (size_t r = 0; r < plan->rows && row + r < job->m; r++)
        for (size_t s = 0; s < plan->columns && column + s < job->n; s++)
            acc[r * plan->columns + s] =
                nib_unit_chain_ref(job, row + r, column + s, k0, k1, acc[r * plan->columns + s]);
}

/* An accumulator as binary32: exact, or rounded to nearest from S32. */
static float part_value(enum nib_accumulator accumulator, uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float value;
    if (accumulator == NIB_ACC_S32) return (float)(int32_t)low;
    if (accumulator == NIB_ACC_FP16) {
        struct nib_number x = nib_number_of_accumulator(accumulator, bits);
        if (x.class == NIB_NUMBER_NAN) return NAN;
        low = (uint32_t)(x.class == NIB_NUMBER_INFINITE
                             ? nib_infinity_bits(NIB_ACC_FP32, x.negative)
                             : nib_round_to_bits(NIB_RNE_FP32, x.negative, x.significand, false, x.lsb));
    }
    memcpy(&value, &low, sizeof value);
    return value;
}

/* Any NaN in its one form; the device knows no other. */
static void unify_nan(float *sum, size_t count) {
    static const uint32_t nan_bits = 0x7FFFFFFF;
    for (size_t i = 0; i < count; i++)
        if (sum[i] != sum[i]) memcpy(&sum[i], &nan_bits, sizeof nan_bits);
}

void nib_unit_plan_outer(const struct nib_unit_plan *plan, size_t i, size_t j, size_t k0, size_t k1, float *sum) {
    const struct nib_unit_job *job = &plan->job;
    const struct nib_unit_outer *outer = &job->outer;
    size_t row = i * plan->rows, column = j * plan->columns, count = plan->rows * plan->columns;
    if (plan->kernel != NULL && plan->kernel->outer_tile != NULL) {
        plan->kernel->outer_tile(job, row, column, (const char *)plan->panels_a + i * plan->a_bytes,
                                 (const char *)plan->panels_b + j * plan->b_bytes, k0, k1, sum);
        unify_nan(sum, count);
        return;
    }
    for (size_t k = k0; k < k1; k += outer->period) {
        uint64_t acc[NIB_TILE_MAX];
        memset(acc, 0, count * sizeof *acc);
        nib_unit_plan_tile(plan, i, j, k, k1 - k < outer->period ? k1 : k + outer->period, acc);
        for (size_t t = 0; t < count; t++) {
            size_t r = row + t / plan->columns, c = column + t % plan->columns;
            if (r >= job->m || c >= job->n) continue;
            float part = part_value(job->unit->accumulator, acc[t]);
            if (outer->form == NIB_OUTER_PROMOTE) {
                sum[t] = sum[t] + part;
                continue;
            }
            float sa = nib_outer_scale(&outer->a, r, k / outer->period);
            float sb = nib_outer_scale(&outer->b, c, k / outer->period);
            if (outer->form == NIB_OUTER_PRODUCT)
                sum[t] = fmaf(sa * sb, part, sum[t]);
            else
                sum[t] = fmaf(part * sa, sb, sum[t]);
        }
    }
    unify_nan(sum, count);
}
