/* Matrix instructions and cuBLASLt against the models of matrix units. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "core/convert.h"
#include "core/philox.h"
#include "job/gpu_check.h"
#include "job/gpu_products.h"

enum nib_status nib_gpu_check_rotation_unit(const struct nib_gpu *gpu, const struct nib_unit **out,
                                            struct nib_error *error) {
    struct nib_gpu_device device;
    char message[256] = "";
    enum nib_operand a, b;
    enum nib_status status = nib_gpu_status(gpu->plugin->device(&device, message, sizeof message), message, error);
    if (status != NIB_OK) return status;
    const char *name = nib_gpu_unit_of("mma.m16n8k16.bf16.f32", device.major, &a, &b);
    if (name != NULL) return nib_unit_open(name, out, error);
    *out = NULL;
    return NIB_OK;
}

/* Buffers of one batch of tiles. */
struct batch {
    size_t tiles, rows_a, rows_b, k, outputs; /* rows over all tiles */
    unsigned m, k_steps, per_row;
    void *a, *b, *c, *device, *emulator;
    uint8_t *a_scales, *b_scales;
};

static void batch_free(struct batch *t) {
    free(t->a);
    free(t->b);
    free(t->c);
    free(t->device);
    free(t->emulator);
    free(t->a_scales);
    free(t->b_scales);
}

static enum nib_status batch_make(const struct nib_gpu_mma *mma, size_t tiles, unsigned k_steps, struct batch *out,
                                  struct nib_error *error) {
    struct batch t = {.tiles = tiles, .rows_a = tiles * mma->m, .rows_b = tiles * mma->n, .k = (size_t)mma->k * k_steps,
                      .outputs = tiles * mma->m * mma->n, .m = mma->m, .k_steps = k_steps};
    size_t row = 32 * (size_t)k_steps, accumulators = t.outputs * mma->accumulator_bits / 8;
    t.per_row = mma->scale_block == 0 ? 0 : (unsigned)(t.k / mma->scale_block);
    t.a = nib_alloc_raw(t.rows_a, row, "A", error);
    t.b = nib_alloc_raw(t.rows_b, row, "B", error);
    t.c = nib_alloc_raw(accumulators, 1, "C", error);
    t.device = nib_alloc_raw(accumulators, 1, "D", error);
    t.emulator = nib_alloc_raw(accumulators, 1, "D", error);
    t.a_scales = nib_alloc_raw(t.rows_a * t.per_row, 1, "scales of A", error);
    t.b_scales = nib_alloc_raw(t.rows_b * t.per_row, 1, "scales of B", error);
    *out = t;
    bool all = t.a != NULL && t.b != NULL && t.c != NULL && t.device != NULL && t.emulator != NULL &&
               t.a_scales != NULL && t.b_scales != NULL;
    return all ? NIB_OK : NIB_ENOMEM;
}

/* The model's D, tile by tile. */
static enum nib_status emulate(const struct nib_unit *unit, enum nib_operand a, enum nib_operand b,
                               const struct batch *t, unsigned accumulator_bytes, struct nib_error *error) {
    const size_t row = 32 * (size_t)t->k_steps, per_tile = t->m * 8 * (size_t)accumulator_bytes;
    enum nib_status worst = NIB_OK;
#pragma omp parallel for schedule(dynamic, 16)
    for (size_t i = 0; i < t->tiles; i++) {
        struct nib_unit_matrix left = {a, (char *)t->a + i * t->m * row, row, NULL, t->per_row};
        struct nib_unit_matrix right = {b, (char *)t->b + i * 8 * row, row, NULL, t->per_row};
        if (t->per_row != 0) {
            left.scales = t->a_scales + i * t->m * t->per_row;
            right.scales = t->b_scales + i * 8 * t->per_row;
        }
        enum nib_status status =
            nib_unit_multiply(unit, &left, &right, t->m, 8, t->k, (char *)t->c + i * per_tile, 8,
                              &(struct nib_unit_options){.threads = 1}, (char *)t->emulator + i * per_tile, 8, NULL);
        if (status != NIB_OK) {
#pragma omp critical
            worst = status;
        }
    }
    if (worst != NIB_OK) return nib_fail(error, worst, "%s cannot multiply the operands of the check", unit->name);
    return NIB_OK;
}

/* Outputs compare bit for bit, NaN included. */
static void compare(const struct batch *t, unsigned bytes, struct nib_gpu_counts *counts) {
    counts->calls++;
    counts->compared += t->outputs;
    if (memcmp(t->device, t->emulator, t->outputs * bytes) == 0) return;
    for (size_t i = 0; i < t->outputs; i++) {
        uint32_t d = 0, e = 0;
        memcpy(&d, (char *)t->device + i * bytes, bytes);
        memcpy(&e, (char *)t->emulator + i * bytes, bytes);
        if (d == e) continue;
        counts->values++;
        nib_gpu_counts_note(counts, "output (%zu, %zu) of tile %zu, %u instructions: device %0*X, model %0*X",
                            i / 8 % t->m, i % 8, i / (8 * t->m), t->k_steps, (int)bytes * 2, d, (int)bytes * 2, e);
    }
}

static enum nib_status run_set(const struct nib_gpu_check_request *request, const struct nib_gpu_mma *mma,
                               const struct nib_unit *unit, enum nib_operand a, enum nib_operand b,
                               enum nib_gpu_operands set, unsigned k_steps, size_t outputs,
                               struct nib_gpu_counts *counts, struct nib_error *error) {
    struct batch t;
    char message[256] = "";
    const uint64_t seed = request->seed * 1009 + k_steps;
    enum nib_status status = batch_make(mma, (outputs + mma->m * mma->n - 1) / (mma->m * mma->n), k_steps, &t, error);
    if (status == NIB_OK) {
        nib_gpu_operands_fill(set, a, false, seed, t.rows_a, t.k, t.a);
        nib_gpu_operands_fill(set, b, true, seed, t.rows_b, t.k, t.b);
        nib_gpu_accumulators_fill(set, unit->accumulator, seed, t.outputs, t.c);
        nib_gpu_scales_fill(set, unit->scale, seed + 1, t.rows_a * t.per_row, t.a_scales);
        nib_gpu_scales_fill(set, unit->scale, seed + 2, t.rows_b * t.per_row, t.b_scales);
        status = nib_gpu_status(
            request->gpu->plugin->mma(mma->name, t.tiles, k_steps, t.a, t.b, t.c, t.per_row == 0 ? NULL : t.a_scales,
                                      t.per_row == 0 ? NULL : t.b_scales, t.device, message, sizeof message),
            message, error);
    }
    if (status == NIB_OK) status = emulate(unit, a, b, &t, mma->accumulator_bits / 8, error);
    if (status == NIB_OK) compare(&t, mma->accumulator_bits / 8, counts);
    batch_free(&t);
    return status;
}

static enum nib_status run_instruction(const struct nib_gpu_check_request *request, struct nib_table *report,
                                       const struct nib_gpu_mma *mma, int major, struct nib_error *error) {
    static const unsigned steps[] = {1, 2, 5};
    enum nib_operand a, b;
    const struct nib_unit *unit;
    struct nib_gpu_case what = {"mma", mma->name, "", "", "", "", ""};
    const char *name = nib_gpu_unit_of(mma->name, major, &a, &b);
    if (!mma->runs_here) return nib_gpu_report_skip(report, &what, NIB_GPU_NOT_RUN, mma->why_not, error);
    if (name == NULL)
        return nib_gpu_report_skip(report, &what, "no emulator counterpart yet",
                                   "no model of this instruction on this device", error);
    enum nib_status status = nib_unit_open(name, &unit, error);
    if (status != NIB_OK) return status;
    size_t outputs = request->small ? 1024 : request->full ? 700000 : 24000; /* a set and chain length; 18 of them */
    for (int set = 0; set < (request->shared ? 1 : NIB_GPU_OPERANDS_COUNT) && status == NIB_OK; set++) {
        struct nib_gpu_counts counts = {0};
        for (size_t i = 0; i < (request->shared ? 1 : request->small ? 2 : 3) && status == NIB_OK; i++)
            status = run_set(request, mma, unit, a, b, (enum nib_gpu_operands)set, steps[i], outputs, &counts, error);
        what.inputs = nib_gpu_operands_names[set];
        what.type = unit->name;
        status = status == NIB_OK ? nib_gpu_report_add(report, &what, &counts, error)
                                  : nib_gpu_report_failure(report, &what, status, error);
    }
    nib_unit_close(unit);
    return status;
}

enum nib_status nib_gpu_check_products(const struct nib_gpu_check_request *request, struct nib_table *report,
                                       struct nib_error *error) {
    struct nib_gpu_device device;
    struct nib_gpu_mma mma;
    char message[256] = "";
    enum nib_status status =
        nib_gpu_status(request->gpu->plugin->device(&device, message, sizeof message), message, error);
    for (unsigned i = 0; status == NIB_OK && request->gpu->plugin->mma_list(i, &mma) == NIB_GPU_OK; i++) {
        if (request->progress != NULL) request->progress(request->context, mma.name, i, 22);
        status = run_instruction(request, report, &mma, device.major, error);
    }
    return status;
}

/* ---- cuBLASLt ---- */

struct product {
    const char *name;
    int fp8, fast, bf16_output;
    const char *unit;
    size_t promotion;            /* elements of K after which a partial sum is added to binary32; 0: never */
};

/* D of the model: one chain, or a sum of chains; then the output type. */
static enum nib_status model(const struct product *p, const struct nib_unit *unit, const void *a, const void *b,
                             size_t m, size_t n, size_t k, int threads, float *d, float *part,
                             struct nib_error *error) {
    enum nib_operand operand = p->fp8 ? NIB_OPERAND_E4M3 : NIB_OPERAND_BF16;
    size_t element = p->fp8 ? 1 : 2, chunk = p->promotion == 0 ? k : p->promotion;
    memset(d, 0, m * n * sizeof *d);
    for (size_t at = 0; at < k; at += chunk) {
        size_t length = k - at < chunk ? k - at : chunk;
        struct nib_unit_matrix left = {operand, (const char *)a + at * element, k * element, NULL, 0};
        struct nib_unit_matrix right = {operand, (const char *)b + at * element, k * element, NULL, 0};
        enum nib_status status =
            nib_unit_multiply(unit, &left, &right, m, n, length, NULL, 0,
                              &(struct nib_unit_options){.threads = threads}, p->promotion == 0 ? d : part, n, error);
        if (status != NIB_OK) return status;
        struct nib_fpenv saved = nib_fpenv_enter();
        if (p->promotion != 0)
            for (size_t i = 0; i < m * n; i++) d[i] += part[i];
        nib_fpenv_leave(saved);
    }
    return NIB_OK;
}

static enum nib_status run_product(const struct nib_gpu_check_request *request, const struct product *p,
                                   const struct nib_unit *unit, size_t m, size_t n, size_t k, enum nib_gpu_operands set,
                                   struct nib_gpu_counts *counts, struct nib_error *error) {
    const size_t element = p->fp8 ? 1 : 2, bytes = p->bf16_output ? 2 : 4;
    enum nib_operand operand = p->fp8 ? NIB_OPERAND_E4M3 : NIB_OPERAND_BF16;
    char message[256] = "";
    void *a = nib_alloc_raw(m * k, element, "A", error), *b = nib_alloc_raw(n * k, element, "B", error);
    char *device = nib_alloc_raw(m * n, bytes, "D", error);
    float *d = nib_alloc_raw(m * n, sizeof *d, "D", error), *part = nib_alloc_raw(m * n, sizeof *part, "D", error);
    enum nib_status status =
        a == NULL || b == NULL || device == NULL || d == NULL || part == NULL ? NIB_ENOMEM : NIB_OK;
    if (status == NIB_OK) {
        nib_gpu_operands_fill(set, operand, false, request->seed + m, m, k, a);
        nib_gpu_operands_fill(set, operand, true, request->seed + n, n, k, b);
        status = nib_gpu_status(request->gpu->plugin->cublaslt(p->fp8, p->fast, p->bf16_output, m, n, k, a, b, device,
                                                               message, sizeof message),
                                message, error);
    }
    if (status == NIB_OK) status = model(p, unit, a, b, m, n, k, request->threads, d, part, error);
    for (size_t i = 0; status == NIB_OK && i < m * n; i++) {
        uint32_t got = 0, bits = nib_bits_of_float(d[i]), want = p->bf16_output ? nib_bf16_of_bits(bits) : bits;
        memcpy(&got, device + i * bytes, bytes);
        bool nan = nib_bits_are_nan(bits) && nib_bits_are_nan(p->bf16_output ? got << 16 : got);
        if (got == want || nan) continue; /* the epilogue's multiplication by alpha may give a NaN of its own */
        counts->values++;
        nib_gpu_counts_note(counts, "output (%zu, %zu) of %zux%zux%zu: device %X, chain %X", i / n, i % n, m, n, k, got,
                            want);
    }
    if (status == NIB_OK) {
        counts->calls++;
        counts->compared += m * n;
    }
    free(a);
    free(b);
    free(device);
    free(d);
    free(part);
    return status;
}

enum nib_status nib_gpu_check_cublaslt(const struct nib_gpu_check_request *request, struct nib_table *report,
                                       struct nib_error *error) {
    static const struct product products[] = {
        {"bf16, f32 output", 0, 0, 0, "hopper-wgmma-16bit-f32", 0},
        {"bf16, bf16 output", 0, 0, 1, "hopper-wgmma-16bit-f32", 0},
        {"e4m3, fast accumulation, f32 output", 1, 1, 0, "hopper-wgmma-fp8-f32", 0},
        {"e4m3, promoted, f32 output", 1, 0, 0, "hopper-wgmma-fp8-f32", 128},
        {"e4m3, promoted, bf16 output", 1, 0, 1, "hopper-wgmma-fp8-f32", 128},
    };
    static const size_t shapes[][3] = {{128, 128, 256}, {256, 384, 1024}, {512, 512, 2048}, {1024, 768, 512}};
    struct nib_gpu_device device;
    char message[256] = "";
    enum nib_status status =
        nib_gpu_status(request->gpu->plugin->device(&device, message, sizeof message), message, error);
    for (size_t i = 0; i < sizeof products / sizeof *products && status == NIB_OK; i++) {
        struct nib_gpu_case what = {"cublaslt", products[i].name, "", "", "", "", ""};
        const struct nib_unit *unit;
        if (request->progress != NULL) request->progress(request->context, products[i].name, i, 5);
        if (device.cublaslt == 0) {
            status =
                nib_gpu_report_skip(report, &what, NIB_GPU_NOT_RUN, "cuBLASLt was not found on this machine", error);
            continue;
        }
        if (device.major != 9) {
            status = nib_gpu_report_skip(report, &what, "no emulator counterpart yet",
                                         "the kernels that cuBLASLt takes are known for Hopper only", error);
            continue;
        }
        status = nib_unit_open(products[i].unit, &unit, error);
        if (status != NIB_OK) break;
        for (int set = NIB_GPU_OPERANDS_GAUSSIAN; set <= NIB_GPU_OPERANDS_CANCEL && status == NIB_OK; set++) {
            struct nib_gpu_counts counts = {0};
            for (size_t s = 0; s < (request->small ? 1 : 4) && status == NIB_OK; s++)
                for (int repeat = 0; repeat < (request->full ? 3 : 1) && status == NIB_OK; repeat++)
                    status = run_product(request, &products[i], unit, shapes[s][0], shapes[s][1] + 16 * (size_t)repeat,
                                         shapes[s][2], (enum nib_gpu_operands)set, &counts, error);
            what.inputs = nib_gpu_operands_names[set];
            what.type = unit->name;
            if (status == NIB_OK) {
                status = nib_gpu_report_add(report, &what, &counts, error);
            } else if (status == NIB_EUNAVAILABLE) { /* the library has no such product here */
                struct nib_error reason = error == NULL ? (struct nib_error){0} : *error;
                status = nib_gpu_report_skip(report, &what, NIB_GPU_NOT_RUN, reason.text, error);
            } else {
                status = nib_gpu_report_failure(report, &what, status, error);
            }
        }
        nib_unit_close(unit);
    }
    return status;
}
