/* The factor of the elements under a block scale: which stage or table gives it. */
#include <float.h>
#include <math.h>
#include "core/convert.h"
#include "quantize/approx.h"
#include "quantize/stages.h"

/* Whether a factor divides; choices without a stage function do not matter here. */
enum nib_operation nib_element_operation(int element_scale) {
    static const bool divides[NIB_AXIS_element_scale_COUNT] = {[NIB_ELEMENT_X_OVER_SD] = true,
                                                               [NIB_ELEMENT_X_OVER_SS] = true,
                                                               [NIB_ELEMENT_X_OVER_S_RCP0] = true,
                                                               [NIB_ELEMENT_X_OVER_S_DIV_S] = true,
                                                               [NIB_ELEMENT_X_OVER_S] = true};
    return divides[element_scale] ? NIB_DIVIDE : NIB_MULTIPLY;
}

/* 1/x as div.full multiplies by it; NaN where it scales its operands first. */
float nib_approx_reciprocal(float x) {
    return fabsf(x) >= FLT_MIN && fabsf(x) < 0x1p126f ? nib_rcp_approx_ftz(x) : NAN;
}

/* Factors up to which it shows in no code that an element was flushed. */
float nib_flush_limit(const struct nib_quantizer *q) {
    return nib_axes_stochastic(&q->axes) ? 0x1p60f : 0x1p100f;
}

/* Of Model-Optimizer's extension, flushed; NaN, and so for the reference, where flushing may show. */
static float double_factor(const struct nib_quantizer *q, float s, double encode) {
    float factor = (float)(1.0 / ((double)s / encode)), limit = nib_flush_limit(q);
    return factor > 1 / limit && factor < limit ? factor : NAN;
}

/* Of qutlass: a product with three times a power of two, where s is one. */
static float thrice_reciprocal(const struct nib_quantizer *q, float s) {
    float limit = nib_flush_limit(q);
    bool power = (nib_bits_of_float(s) & 0x7FFFFF) == 0 && s > 1 / limit && s < limit;
    return power ? 3 * nib_rcp_approx_ftz(s) : NAN;
}

/* Of TetraJet-v2, likewise. */
static float flushed_reciprocal(const struct nib_quantizer *q, float x) {
    float limit = nib_flush_limit(q);
    return x == 0 ? 0 : x > 1 / limit && x < limit ? nib_rcp_approx_ftz(x) : NAN;
}

float nib_factor_under(const struct nib_quantizer *q, const struct nib_tensor_scale *t, float s) {
    const float S = t->encode, D = t->decode;
    switch ((enum nib_axis_element_scale)q->axes.element_scale) {
    case NIB_ELEMENT_X_RCP_APPROX: return nib_rcp_approx_ftz(s * nib_rcp_approx_ftz(S));
    case NIB_ELEMENT_X_BF16_COEFFICIENT:
        return nib_float_of_bits(nib_bits_of_bf16(nib_bf16_of_bits(nib_bits_of_float(fminf(S / s, 0x1.fep+127f)))));
    case NIB_ELEMENT_X_S_DIV: return nib_div_full(S, s);
    case NIB_ELEMENT_X_DIV_S: return nib_approx_reciprocal(s);
    case NIB_ELEMENT_X_RDIV_S: return nib_div_full(1, s);
    case NIB_ELEMENT_X_RCP_SD: return flushed_reciprocal(q, s * D);
    case NIB_ELEMENT_X_APPROX_S_3: return thrice_reciprocal(q, s);
    case NIB_ELEMENT_X_DOUBLE: return double_factor(q, s, t->encode_double);
    case NIB_ELEMENT_X_DIV_SD: return nib_approx_reciprocal(s * D);
    case NIB_ELEMENT_X_DIV_SD_1: return nib_approx_reciprocal(s * D >= 1e-5f ? s * D : 1);
    case NIB_ELEMENT_X_OVER_S_DIV_S: return nib_div_full(s, S);
    default: return NAN;
    }
}

static float back_under(const struct nib_quantizer *q, const struct nib_tensor_scale *t, float s) {
    switch ((enum nib_axis_dequantize)q->axes.dequantize) {
    case NIB_DEQUANTIZE_S_DIV_S: return nib_div_full(s, t->encode);
    case NIB_DEQUANTIZE_DOUBLE: return (float)((double)s / t->encode_double); /* see double_factor */
    case NIB_DEQUANTIZE_S_X_D_1: return s * t->decode >= 1e-5f ? s * t->decode : 1;
    default: return NAN;
    }
}

static bool has_factor_under(int element_scale) {
    static const bool has[NIB_AXIS_element_scale_COUNT] = {
        [NIB_ELEMENT_X_RCP_APPROX] = true,   [NIB_ELEMENT_X_BF16_COEFFICIENT] = true, [NIB_ELEMENT_X_S_DIV] = true,
        [NIB_ELEMENT_X_DIV_S] = true,        [NIB_ELEMENT_X_RDIV_S] = true,           [NIB_ELEMENT_X_DOUBLE] = true,
        [NIB_ELEMENT_X_RCP_SD] = true,       [NIB_ELEMENT_X_DIV_SD] = true,           [NIB_ELEMENT_X_DIV_SD_1] = true,
        [NIB_ELEMENT_X_OVER_S_DIV_S] = true, [NIB_ELEMENT_X_APPROX_S_3] = true};
    return has[element_scale];
}
static bool has_back_under(int dequantize) {
    return dequantize == NIB_DEQUANTIZE_S_DIV_S || dequantize == NIB_DEQUANTIZE_S_X_D_1 ||
           dequantize == NIB_DEQUANTIZE_DOUBLE;
}

/* Whether all scales that are not special are powers of two times one number, by which elements are divided. */
static bool divides_by_powers_of_one(const struct nib_quantizer *q, const struct nib_stages *out) {
    int choice = q->axes.block_scale;
    return (choice == NIB_BLOCK_SCALE_QUEST || choice == NIB_BLOCK_SCALE_POW2_3_4) &&
           q->axes.element_scale == NIB_ELEMENT_X_DIV_S && q->axes.select == NIB_SELECT_NONE &&
           q->block->scale->kind == NIB_SCALE_FP32 && out->bound == NULL && out->straight_through == NULL;
}

void nib_factors_choose(const struct nib_quantizer *q, struct nib_stages *out) {
    int element_scale = nib_divides_by_power(q) ? NIB_ELEMENT_X_RS : q->axes.element_scale;
    out->operation = nib_element_operation(element_scale);
    out->factor = out->isa->factor[element_scale];
    if (!divides_by_powers_of_one(q, out)) return;
    float significand = q->axes.block_scale == NIB_BLOCK_SCALE_QUEST ? 1 : out->k.approx_3_4;
    out->k.significand_reciprocal =
        nib_bits_of_float(nib_approx_reciprocal(significand)) + (nib_bits_of_float(significand) & NIB_BITS_INFINITY);
    out->factor = out->isa->factor_of_power;
}

void nib_factors_plan(const struct nib_quantizer *q, struct nib_stages *out) {
    const struct nib_scale *scale = q->block->scale;
    bool small = scale->kind == NIB_SCALE_MINIFLOAT && scale->bits == 8 && q->axes.scale_ste == NIB_SCALE_STE_OFF;
    bool few = nib_tensor_scoped(q) && q->axes.tensor_scope == NIB_TENSOR_SCOPE_1X128; /* blocks, fewer than codes */
    bool needed = out->factor == NULL && has_factor_under(q->axes.element_scale);
    out->tabulated = small && !few && needed;
    out->one_by_one = !out->tabulated && needed;
    out->back_tabulated = small && out->dequantize == NULL && has_back_under(q->axes.dequantize);
}

/* Fills the tables that this quantizer needs; codes above max_code are never looked up. */
void nib_factors_tabulate(const struct nib_quantizer *q, const struct nib_tensor_scale *t, struct nib_stages *out) {
    const struct nib_scale *scale = q->block->scale;
    for (uint32_t code = 0; code <= scale->max_code && (out->tabulated || out->back_tabulated); code++) {
        float s = nib_scale_decode(scale, code);
        if (out->tabulated) out->k.factor_of_code[code] = nib_factor_under(q, t, s);
        if (out->back_tabulated) out->k.back_of_code[code] = back_under(q, t, s);
    }
}
