/* The three products, by BLAS, exactly, or through a matrix unit. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/threads.h"
#include "format/quantizer.h"
#include "gemm/operand.h"
#include "stack/linear.h"
#include "stack/product.h"

/* Which operand of a pass is stored across its reduction axis. */
static bool a_across(enum nib_pass pass) { return pass == NIB_PASS_WGRAD; }
static bool b_across(enum nib_pass pass) { return pass != NIB_PASS_FPROP; }

static double *widened(const float *x, size_t count, struct nib_error *error) {
    double *wide = nib_alloc_raw(count, sizeof *wide, "operands in binary64", error);
    for (size_t i = 0; wide != NULL && i < count; i++) wide[i] = (double)x[i];
    return wide;
}

enum nib_status nib_linear_exact(enum nib_pass pass, size_t m, size_t n, size_t k, const float *a, const float *b,
                                 int threads, double *out, struct nib_error *error) {
    double *wide_a = widened(a, m * k, error), *wide_b = widened(b, n * k, error);
    bool enough = wide_a != NULL && wide_b != NULL;
    if (enough)
        nib_product_f64(a_across(pass), !b_across(pass), m, n, k, wide_a, wide_b, false, out, threads);
    free(wide_a);
    free(wide_b);
    return enough ? NIB_OK : NIB_ENOMEM;
}

enum nib_status nib_linear_moment(const struct nib_linear_operand *x, int threads, double *out,
                                  struct nib_error *error) {
    double *wide = widened(x->presented, x->rows * x->cols, error);
    if (wide == NULL) return NIB_ENOMEM;
    nib_product_f64(true, false, x->cols, x->cols, x->rows, wide, wide, false, out, threads);
    free(wide);
    return NIB_OK;
}

/* bf16 codes of an operand, its lines along the reduction axis; counts what was rounded. */
static enum nib_status pack_bf16(const struct nib_linear_operand *p, int threads, uint16_t **out, uint64_t *inexact,
                                 struct nib_error *error) {
    bool across = p->axis == NIB_ALONG_ROWS;
    size_t lines = across ? p->cols : p->rows, k = across ? p->rows : p->cols;
    uint16_t *codes = nib_alloc_raw(lines * k, sizeof *codes, "operands in bf16", error);
    uint64_t rounded = 0;
    if (codes == NULL) return NIB_ENOMEM;
#pragma omp parallel for num_threads(nib_threads_for(threads, lines / 16 + 1)) reduction(+ : rounded) schedule(static)
    for (size_t line = 0; line < lines; line++)
        for (size_t i = 0; i < k; i++) {
            float before = across ? p->used[i * p->cols + line] : p->used[line * p->cols + i], after = before;
            uint32_t bits;
            nib_linear_round_bf16(&after, 1);
            rounded += after != before;
            memcpy(&bits, &after, sizeof bits);
            codes[line * k + i] = (uint16_t)(bits >> 16);
        }
    *out = codes;
    *inexact += rounded;
    return NIB_OK;
}

static bool plain_codes(const struct nib_linear_operand *p) {
    return p->has_codes && p->quantizer != NULL && nib_gemm_takes_codes_of(p->quantizer);
}

const char *nib_linear_unit_of(const struct nib_quantizer *q) {
    if (!nib_gemm_takes_codes_of(q) || strcmp(q->block->element->name, "e2m1") != 0) return NULL;
    const struct nib_block *block = q->block;
    if (strcmp(block->scale->name, "e4m3") == 0 && block->block_cols == 16) return "blackwell-tcgen05-nvfp4";
    if (strcmp(block->scale->name, "e8m0") == 0 && block->block_cols == 32) return "blackwell-tcgen05-mxfp4";
    return NULL;
}

static enum nib_status choose_unit(const struct nib_linear_product *p, const struct nib_unit *given,
                                   const struct nib_unit **out, bool *by_codes, struct nib_error *error) {
    if (given != NULL) {
        bool takes_bf16 = (given->operands >> NIB_OPERAND_BF16 & 1) != 0;
        *out = given;
        *by_codes = given->scale_block != 0 || !takes_bf16;
        if (*by_codes && !(plain_codes(p->a) && plain_codes(p->b)))
            return nib_fail(error, NIB_EINVAL, "unit %s takes codes alone, and an operand of %s has none that it takes",
                            given->name, nib_pass_name(p->pass));
        return NIB_OK;
    }
    const char *a = plain_codes(p->a) ? nib_linear_unit_of(p->a->quantizer) : NULL;
    const char *b = plain_codes(p->b) ? nib_linear_unit_of(p->b->quantizer) : NULL;
    *by_codes = a != NULL && a == b;
    return nib_unit_open(*by_codes ? a : "hopper-wgmma-16bit-f32", out, error);
}

static enum nib_status run_unit(const struct nib_linear_options *o, const struct nib_linear_product *p,
                                struct nib_gemm *gemm, float *out, struct nib_error *error) {
    struct nib_unit_options options = {.threads = o->threads};
    gemm->unit = p->unit;
    gemm->m = p->m, gemm->n = p->n, gemm->k = p->k;
    gemm->output = NIB_GEMM_F32;
    return nib_gemm_run(gemm, &options, out, p->n, error);
}

static enum nib_status by_codes(const struct nib_linear_options *o, const struct nib_linear_product *p, float factor,
                                float *out, struct nib_error *error) {
    struct nib_gemm_buffer a = {0}, b = {0};
    enum nib_status status = nib_gemm_from_quantized(p->unit, p->a->quantizer, &p->a->quantized, &a, error);
    if (status == NIB_OK) status = nib_gemm_from_quantized(p->unit, p->b->quantizer, &p->b->quantized, &b, error);
    if (status == NIB_OK) {
        float scale = a.tensor_scale_decode * b.tensor_scale_decode;
        struct nib_gemm gemm = {.a = a.operand,
                                .b = b.operand,
                                .block_scale_k = a.block_scale_k,
                                .alpha = scale * (factor / (p->a->factor * p->b->factor))};
        status = run_unit(o, p, &gemm, out, error);
    }
    nib_gemm_buffer_clear(&a);
    nib_gemm_buffer_clear(&b);
    return status;
}

static enum nib_status by_values(const struct nib_linear_options *o, struct nib_linear_product *p, float factor,
                                 float *out, struct nib_error *error) {
    uint16_t *a = NULL, *b = NULL;
    enum nib_status status = pack_bf16(p->a, o->threads, &a, &p->inexact, error);
    if (status == NIB_OK) status = pack_bf16(p->b, o->threads, &b, &p->inexact, error);
    if (status == NIB_OK) {
        struct nib_gemm gemm = {.a.matrix = {NIB_OPERAND_BF16, a, p->k * sizeof *a, NULL, 0},
                                .b.matrix = {NIB_OPERAND_BF16, b, p->k * sizeof *b, NULL, 0},
                                .alpha = factor};
        status = run_unit(o, p, &gemm, out, error);
    }
    free(a);
    free(b);
    return status;
}

static enum nib_status by_unit(const struct nib_linear_options *o, struct nib_linear_product *p, float factor,
                               float *out, struct nib_error *error) {
    bool codes;
    enum nib_status status = choose_unit(p, o->unit, &p->unit, &codes, error);
    if (status != NIB_OK) return status;
    return codes ? by_codes(o, p, factor, out, error) : by_values(o, p, factor, out, error);
}

enum nib_status nib_linear_multiply(const struct nib_linear_call *call, struct nib_linear_product *p, float *out,
                                    struct nib_error *error) {
    const struct nib_linear_options *o = call->options;
    float factor = call->recipe != NULL ? call->recipe->pass[p->pass].output_factor : 1;
    if (o->product == NIB_PRODUCT_UNIT) return by_unit(o, p, factor, out, error);
    if (o->product == NIB_PRODUCT_EXACT) {
        double *wide = nib_alloc_raw(p->m * p->n, sizeof *wide, "a product in binary64", error);
        if (wide == NULL) return NIB_ENOMEM;
        enum nib_status status =
            nib_linear_exact(p->pass, p->m, p->n, p->k, p->a->used, p->b->used, o->threads, wide, error);
        for (size_t i = 0; status == NIB_OK && i < p->m * p->n; i++) out[i] = (float)(wide[i] * (double)factor);
        free(wide);
        return status;
    }
    nib_product_f32(a_across(p->pass), !b_across(p->pass), p->m, p->n, p->k, p->a->used, p->b->used, false, out,
                    o->threads);
    for (size_t i = 0; factor != 1 && i < p->m * p->n; i++) out[i] *= factor;
    return NIB_OK;
}
