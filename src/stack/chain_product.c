#include "stack/chain_product.h"

#include "base/memory.h"
#include "gemm/blas.h"
#include <nibble/quantize.h>
#include <math.h>
#include <stdlib.h>


enum nib_status nib_chain_scratch_new(size_t elements, struct nib_chain_scratch *out, struct nib_error *error) {
    struct nib_chain_scratch s = {.size = elements};
    s.given = nib_alloc_raw(elements, sizeof *s.given, "operands of a chain", error);
    s.rotated = nib_alloc_raw(elements, sizeof *s.rotated, "operands of a chain", error);
    s.a = nib_alloc_raw(elements, sizeof *s.a, "operands of a chain", error);
    s.b = nib_alloc_raw(elements, sizeof *s.b, "operands of a chain", error);
    s.exact = nib_alloc_raw(elements, sizeof *s.exact, "operands of a chain", error);
    if (s.given == NULL || s.rotated == NULL || s.a == NULL || s.b == NULL || s.exact == NULL) {
        nib_chain_scratch_free(&s);
        return NIB_ENOMEM;
    }
    *out = s;
    return NIB_OK;
}

void nib_chain_scratch_free(struct nib_chain_scratch *scratch) {
    free(scratch->given);
    free(scratch->rotated);
    free(scratch->a);
    free(scratch->b);
    free(scratch->exact);
    *scratch = (struct nib_chain_scratch){0};
}

double nib_chain_dot(size_t count, const double *x, const double *y) {
    double sum[4] = {0};
    for (size_t i = 0; i < count; i++) sum[i % 4] += x[i] * y[i];
    return sum[0] + sum[1] + (sum[2] + sum[3]);
}

/* One thread whatever the caller has: the bits of a product may depend on how many there are. */
void nib_chain_exact(enum nib_pass pass, struct nib_chain_shape s, const double *a, const double *b, double *c) {
    switch (pass) {
    case NIB_PASS_FPROP:
        nib_blas_dgemm(false, true, s.tokens, s.out, s.in, 1, a, s.in, b, s.in, 0, c, s.out, 1);
        break;
    case NIB_PASS_DGRAD:
        nib_blas_dgemm(false, false, s.tokens, s.in, s.out, 1, a, s.out, b, s.in, 0, c, s.in, 1);
        break;
    default: nib_blas_dgemm(true, false, s.out, s.in, s.tokens, 1, a, s.out, b, s.in, 0, c, s.in, 1); break;
    }
}

struct operand {
    const struct nib_chain_operand *how;
    const double *data;
    size_t rows, cols;
    enum nib_axis axis;
};

/* What the quantizer makes of an operand, in the rotated basis, and its alpha there. */
static enum nib_status quantize(const struct operand *x, uint64_t seed, uint64_t stream,
                                struct nib_chain_scratch *scratch, double *out, double *alpha,
                                struct nib_error *error) {
    size_t count = x->rows * x->cols;
    for (size_t i = 0; i < count; i++) scratch->given[i] = (float)x->data[i];
    const float *presented = scratch->given;
    enum nib_status status = NIB_OK;
    if (x->how->rotation != NULL) {
        struct nib_view view = {scratch->given, NIB_F32, x->rows, x->cols, x->cols};
        status = nib_rotate(x->how->rotation, view, x->axis, 1, scratch->rotated, error);
        presented = scratch->rotated;
    }
    *alpha = 1;
    if (status == NIB_OK && x->how->quantizer == NULL)
        for (size_t i = 0; i < count; i++) out[i] = presented[i];
    if (status != NIB_OK || x->how->quantizer == NULL) return status;
    struct nib_quantized q;
    status = nib_quantized_alloc(x->how->quantizer, x->rows, x->cols, x->axis, NIB_WANT_VALUES, &q, error);
    if (status != NIB_OK) return status;
    struct nib_view view = {presented, NIB_F32, x->rows, x->cols, x->cols};
    struct nib_quantize_options options = {.axis = x->axis, .seed = seed, .stream = stream, .threads = 1};
    status = nib_quantize(x->how->quantizer, view, &options, &q, error);
    if (status == NIB_OK) {
        double along = 0, whole = 0;
        for (size_t i = 0; i < count; i++) {
            double p = presented[i];
            out[i] = q.values[i];
            along += out[i] * p;
            whole += p * p;
        }
        *alpha = along / whole;
    }
    nib_quantized_free(&q);
    return status;
}

enum nib_status nib_chain_multiply(const struct nib_chain *chain, enum nib_pass pass, struct nib_chain_shape s,
                                   uint64_t stream, const double *a, const double *b, double *c,
                                   struct nib_chain_scratch *scratch, struct nib_chain_record *record,
                                   struct nib_error *error) {
    const struct nib_chain_operand *how = &chain->operand[2 * pass];
    const struct operand operands[NIB_PASSES][2] = {
        {{how, a, s.tokens, s.in, NIB_ALONG_COLS}, {how + 1, b, s.out, s.in, NIB_ALONG_COLS}},
        {{how, a, s.tokens, s.out, NIB_ALONG_COLS}, {how + 1, b, s.out, s.in, NIB_ALONG_ROWS}},
        {{how, a, s.tokens, s.out, NIB_ALONG_ROWS}, {how + 1, b, s.tokens, s.in, NIB_ALONG_ROWS}}};
    size_t outputs = pass == NIB_PASS_FPROP   ? s.tokens * s.out
                     : pass == NIB_PASS_DGRAD ? s.tokens * s.in
                                              : s.out * s.in;
    double alpha[2];
    enum nib_status status =
        quantize(&operands[pass][0], chain->seed, 2 * stream, scratch, scratch->a, &alpha[0], error);
    if (status == NIB_OK)
        status = quantize(&operands[pass][1], chain->seed, 2 * stream + 1, scratch, scratch->b, &alpha[1], error);
    if (status != NIB_OK) return status;
    nib_chain_exact(pass, s, scratch->a, scratch->b, c);
    nib_chain_exact(pass, s, a, b, scratch->exact);
    double along = 0, whole = 0, noise = 0;
    for (size_t i = 0; i < outputs; i++) {
        double exact = scratch->exact[i];
        c[i] = (float)c[i];
        along += c[i] * exact;
        whole += exact * exact;
        noise += (c[i] - exact) * (c[i] - exact);
    }
    record->value[NIB_CHAIN_alpha_a] = alpha[0];
    record->value[NIB_CHAIN_alpha_b] = alpha[1];
    record->value[NIB_CHAIN_eta_predicted] = alpha[0] * alpha[1];
    record->value[NIB_CHAIN_eta_measured] = along / whole;
    record->value[NIB_CHAIN_sqnr_db] = 10 * log10(whole / noise);
    return NIB_OK;
}
