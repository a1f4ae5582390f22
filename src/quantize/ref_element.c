/* One element: scaled, rounded, and brought back. */
#include <float.h>
#include <math.h>
#include "core/convert.h"
#include "core/round.h"
#include "quantize/approx.h"
#include "quantize/quantize_ref.h"
#include "quantize/sr.h"

static float rcp0(float x) {
    return x == 0 ? 0 : 1.0f / x;
}
static float rcp8(float x) {
    return 1.0f / (x + (x == 0 ? 1e8f : 0));
}

/* 2^-e and 2^e of the code of an E8M0 scale, 2^128 included. */
static float scaled_by_code(float x, uint32_t code, int sign) {
    return (float)ldexp((double)x, sign * ((int)code - 127));
}

/* The decode factor in binary64 of Model-Optimizer's CUDA extension. */
static double double_factor(const struct nib_tensor_scale *t, const struct nib_ref_scale *scale) {
    return scale->bad ? 1 : (double)scale->value / t->encode_double;
}

static float at_least_tiny(float factor) {
    return factor >= 1e-5f ? factor : 1;
}

static float scaled(const struct nib_quantizer *q, const struct nib_tensor_scale *t, const struct nib_ref_scale *scale,
                    float x) {
    const float S = t->encode, D = t->decode;
    float s = scale->value, r;
    if (s == 0 && q->axes.zero_scale == NIB_ZERO_SCALE_X0) return x * 0;
    if (scale->empty && q->axes.zero_scale == NIB_ZERO_SCALE_EMPTY) return x * 0;
    if (s == 0 && q->axes.zero_scale == NIB_ZERO_SCALE_PLUS) return 0;
    if (s == 0 && q->axes.zero_scale == NIB_ZERO_SCALE_ONE) s = 1;
    switch ((enum nib_axis_element_scale)q->axes.element_scale) {
    case NIB_ELEMENT_X_RSRS_FMIN: return x * fminf(1.0f / (s * (1.0f / S)), FLT_MAX);
    case NIB_ELEMENT_X_RSRS_MIN: r = 1.0f / (s * (1.0f / S)); return x * (r > FLT_MAX ? FLT_MAX : r);
    case NIB_ELEMENT_X_RSRS:
        if (q->axes.flush != NIB_FLUSH_ON) return x * (1.0f / (s * (1.0f / S)));
        return nib_flush(nib_flush(x) * nib_flush(1.0f / nib_flush(s * nib_flush(1.0f / S))));
    case NIB_ELEMENT_X_RCP0: return x * rcp0(s * rcp0(S));
    case NIB_ELEMENT_X_RCP8: return x * rcp8(s * rcp8(S));
    case NIB_ELEMENT_X_OVER_S_RCP0: return x / (s * rcp0(S));
    case NIB_ELEMENT_X_S_DIV: return x * nib_div_full(S, s);
    case NIB_ELEMENT_X_OVER_SD: return x / (s * D);
    case NIB_ELEMENT_X_DIV_SD: return nib_div_full(x, s * D);
    case NIB_ELEMENT_X_DIV_SD_1: return nib_div_full(x, at_least_tiny(s * D));
    case NIB_ELEMENT_X_OVER_SS: return x / (s / S);
    case NIB_ELEMENT_X_RDS: return x * ((1.0f / D) / s);
    case NIB_ELEMENT_X_DOUBLE: return nib_flush(nib_flush(x) * nib_flush((float)(1.0 / double_factor(t, scale))));
    case NIB_ELEMENT_X: return x;
    case NIB_ELEMENT_X_RCP_APPROX:
        if (q->axes.flush != NIB_FLUSH_ON) return x * nib_rcp_approx_ftz(s * nib_rcp_approx_ftz(S));
        return nib_flush(nib_flush(x) * nib_rcp_approx_ftz(nib_flush(s * nib_rcp_approx_ftz(S))));
    case NIB_ELEMENT_X_BF16_COEFFICIENT:
        r = fminf(S / s, 0x1.fep+127f);
        return x * nib_float_of_bits(nib_bits_of_bf16(nib_bf16_of_bits(nib_bits_of_float(r))));
    case NIB_ELEMENT_X_OVER_S_DIV_S: return x / nib_div_full(s, S);
    case NIB_ELEMENT_X_APPROX_S_3: return nib_flush(nib_div_approx_ftz(x, s) * 3);
    case NIB_ELEMENT_X_RCP_SD:
        r = nib_flush(s * D);
        return nib_flush(nib_flush(x) * (r == 0 ? 0 : nib_rcp_approx_ftz(r)));
    case NIB_ELEMENT_XS_X_ENCODE: return (x * S) * s;
    case NIB_ELEMENT_X_OVER_S: return x / s;
    case NIB_ELEMENT_X_DIV_S: return nib_div_full(x, s);
    case NIB_ELEMENT_X_RS:
        return q->axes.flush == NIB_FLUSH_ON ? nib_flush(nib_flush(x) * nib_flush(1.0f / s)) : x * (1.0f / s);
    case NIB_ELEMENT_X_RDIV_S: return x * nib_div_full(1, s);
    case NIB_ELEMENT_X_POW2_FTZ: return nib_flush(nib_flush(x) * nib_flush(scaled_by_code(1, scale->code, -1)));
    case NIB_ELEMENT_X_FTZ_POW2: return x * nib_flush(scaled_by_code(1, scale->code, -1));
    case NIB_ELEMENT_X_POW2: return scaled_by_code(x, scale->code, -1);
    case NIB_AXIS_element_scale_COUNT: break;
    }
    return NAN;
}

static uint8_t signed_code(const struct nib_quantizer *q, bool negative, uint8_t positive_code, uint8_t negative_code) {
    (void)q;
    return negative ? negative_code : positive_code;
}

/* torchao rounds the bits of a NaN like those of a number: code of the payload. */
static uint8_t payload_code(uint32_t bits) {
    uint32_t magnitude = bits & NIB_BITS_MAGNITUDE;
    uint32_t rounded = magnitude + ((1u - 127u) << 23) + ((1u << 21) - 1) + (magnitude >> 22 & 1);
    return (uint8_t)(((uint32_t)((int32_t)rounded >> 22) & 0xFF) | (bits >> 28 & 8)) & 15;
}

/* The NaN that x86 makes: the scale's own wins over the element's, and an invalid operation gives a negative one. */
static uint32_t x86_nan(const struct nib_quantizer *q, const struct nib_tensor_scale *t,
                        const struct nib_ref_scale *scale, float x) {
    if (q->block->scale->kind == NIB_SCALE_E8M0) {
        if (scale->code == 0xFF) return 0x7FC00001;
    } else {
        float reciprocal = (1.0f / t->decode) / scale->value;
        if (q->block->has_tensor_scale && isnan(t->decode)) return t->bf16 ? 0x7FC00000 : 0xFFFFFFFF;
        if (isnan(reciprocal)) return (scale->code & 0x80) != 0 ? 0xFFF00000 : 0x7FF00000;
    }
    return isnan(x) ? nib_bits_of_float(x) | 0x400000 : 0xFFC00000;
}

/* The sign bit by the signed_zero axis, for formats that have one in their codes. */
static bool sign_by_rule(const struct nib_axes *axes, float x, float y) {
    switch ((enum nib_axis_signed_zero)axes->signed_zero) {
    case NIB_SIGNED_ZERO_NEGATIVE:
    case NIB_SIGNED_ZERO_DROP: return y < 0;
    case NIB_SIGNED_ZERO_NONPOSITIVE: return y <= 0;
    case NIB_SIGNED_ZERO_NOT_POSITIVE: return !(nib_flush(x) > 0);
    case NIB_SIGNED_ZERO_KEEP:
    case NIB_AXIS_signed_zero_COUNT: break;
    }
    return signbit(y);
}

static uint8_t nan_code(const struct nib_quantizer *q, const struct nib_tensor_scale *t,
                        const struct nib_ref_scale *scale, float x, float y) {
    const uint8_t zero = q->code_of_zero, minus_zero = q->code_of_minus_zero;
    switch ((enum nib_axis_element_nan)q->axes.element_nan) {
    case NIB_ELEMENT_NAN_MAX: return q->code_of_max;
    case NIB_ELEMENT_NAN_MIN: return q->code_of_min;
    case NIB_ELEMENT_NAN_SIGN_MAX:
        if (isnan(scale->value)) return q->code_of_max;
        return signed_code(q, isnan(x) ? signbit(x) : true, q->code_of_max, q->code_of_min);
    case NIB_ELEMENT_NAN_SIGN_RULE: return signed_code(q, sign_by_rule(&q->axes, x, y), q->code_of_max, q->code_of_min);
    case NIB_ELEMENT_NAN_ZERO: return zero;
    case NIB_ELEMENT_NAN_MINUS_ZERO: return minus_zero;
    case NIB_ELEMENT_NAN_ZERO_BF16: return t->bf16 ? minus_zero : zero;
    case NIB_ELEMENT_NAN_SIGN_ZERO: return isnan(x) && !signbit(x) ? zero : minus_zero;
    case NIB_ELEMENT_NAN_PAYLOAD_OWN: return payload_code(nib_bits_of_float(x));
    case NIB_ELEMENT_NAN_PAYLOAD: return payload_code(0x7FFFFFFF);
    case NIB_ELEMENT_NAN_PAYLOAD_X86: return payload_code(x86_nan(q, t, scale, x));
    case NIB_AXIS_element_nan_COUNT: break;
    }
    return zero;
}

/* fouroversix: E2M1 by three grids without a largest level, then the code from the bits of the bfloat16 result. */
static struct nib_ref_element float_bits_element(const struct nib_quantizer *q, float y) {
    float a = fabsf(y), rounded = a < 2 ? rintf(a * 2) / 2 : a < 4 ? rintf(a) : 2 * rintf(a / 2);
    if (isnan(y)) {
        uint8_t sign = q->axes.element_nan == NIB_ELEMENT_NAN_MIN ? 8 : 0;
        return (struct nib_ref_element){y, (uint8_t)(sign | (255 - 126) << 1 | 1), NAN};
    }
    uint32_t bits = (uint32_t)nib_bf16_of_bits(nib_bits_of_float(rounded));
    uint32_t exponent = bits >> 7 & 0xFF, mantissa = bits >> 6 & 1;
    if (exponent == 126 && (bits & 0x7F) == 0) mantissa = 1;
    uint32_t code = (bits & 0x7FFF) == 0 ? 0 : (exponent - 126) << 1 | mantissa;
    bool negative = y < 0;
    float level = negative && (rounded != 0 || q->axes.value_zero == NIB_VALUE_ZERO_KEEP) ? -rounded : rounded;
    return (struct nib_ref_element){y, (uint8_t)((negative ? 8u : 0) | code), level};
}

/* ggml: the first index whose level times the scale is nearest to x, with doubled levels and half the scale. */
static struct nib_ref_element argmin_element(const struct nib_quantizer *q, const struct nib_ref_scale *scale,
                                             float x) {
    const struct nib_element *element = q->block->element;
    bool power = q->block->scale->kind == NIB_SCALE_E8M0;
    float half = power ? scaled_by_code(0.5f, scale->code, 1) : scale->value / 2,
          least = fabsf(element->level[0] * half - x);
    uint8_t best = 0;
    for (uint8_t code = 1; code < NIB_CODES; code++) {
        float error = fabsf((code == 8 ? 0 : element->level[code] * 2) * half - x);
        if (error < least) least = error, best = code;
    }
    return (struct nib_ref_element){x, best, element->level[best]};
}

/* floor(a + 0.5) in units of the first level: the sum rounds to 1 already for the number just below the first tie, in
 * bfloat16 for the one before that too. */
static bool sum_reaches_one(const struct nib_quantizer *q, bool bf16, float y) {
    float tie = q->block->element->symmetric ? q->block->element->level[1] / 2 : 0;
    bool by_input = q->axes.rounding == NIB_ROUNDING_RNE_HALF_INPUT || q->axes.rounding == NIB_ROUNDING_RNA_HALF_INPUT;
    if (q->axes.rounding != NIB_ROUNDING_RNE_HALF && !by_input) return false;
    if (by_input && bf16) return nib_bits_of_float(fabsf(y)) == nib_bits_of_float(tie) - 0x10000;
    return fabsf(y) == nextafterf(tie, 0);
}

static uint8_t number_code(const struct nib_quantizer *q, bool bf16, float x, float y, uint32_t random) {
    const struct nib_axes *axes = &q->axes;
    const struct nib_element *element = q->block->element;
    float rounded = sum_reaches_one(q, bf16, y) ? copysignf(element->level[1], y) : y;
    if (axes->rounding == NIB_ROUNDING_RTZ_LOG2_INPUT && fabsf(y) < 8 && nib_log2_reaches_3(fabsf(y), bf16))
        rounded = copysignf(4, y);
    if (axes->rounding == NIB_ROUNDING_RNE_DROP && fabsf(y) < 1)
        rounded = copysignf(truncf(fabsf(y) * 0x1p23f) * 0x1p-23f, y);
    uint8_t code;
    if (!nib_axes_stochastic(axes))
        code = (uint8_t)nib_round_code(&q->rule, nib_bits_of_float(rounded));
    else
        code = axes->sr_form == NIB_SR_FLOOR_ADD ? nib_sr_floor_add(element, y, random, bf16)
                                                 : nib_sr_code_by_form(q, y, random);
    if (nib_axes_stochastic(axes) && axes->sr_form == NIB_SR_RINT) return code; /* its sign is its own */
    if (isinf(y) && axes->element_inf == NIB_ELEMENT_INF_ZERO)
        return signbit(y) ? q->code_of_minus_zero : q->code_of_zero;
    if (!element->has_negative_zero || axes->signed_zero == NIB_SIGNED_ZERO_KEEP) return code;
    if (element->level[code] != 0) return code;
    bool negative = sign_by_rule(axes, x, y) && axes->signed_zero != NIB_SIGNED_ZERO_DROP;
    return negative ? q->code_of_minus_zero : q->code_of_zero;
}

struct nib_ref_element nib_ref_element_of(const struct nib_quantizer *q, const struct nib_tensor_scale *t,
                                          const struct nib_ref_scale *scale, float x, uint32_t random) {
    const struct nib_axes *axes = &q->axes;
    if (axes->rounding == NIB_ROUNDING_ARGMIN) return argmin_element(q, scale, x);
    float y = scaled(q, t, scale, x);
    if (axes->tiny_block == NIB_TINY_BLOCK_ZERO && scale->tiny) y = scaled(q, t, scale, x * 0);
    if (axes->element_inf == NIB_ELEMENT_INF_NAN && fabsf(y) >= 0x1p127f) y = NAN;
    if (axes->element_precision == NIB_ELEMENT_BF16 || (axes->element_precision == NIB_ELEMENT_INPUT && t->bf16))
        y = nib_float_of_bits(nib_bits_of_bf16(nib_bf16_of_bits(nib_bits_of_float(y))));
    if (axes->rounding == NIB_ROUNDING_FLOAT_BITS) return float_bits_element(q, y);
    uint8_t code = isnan(y) ? nan_code(q, t, scale, x, y) : number_code(q, t->bf16, x, y, random);
    float level = q->block->element->level[code];
    if (isnan(y) && axes->value_nan == NIB_VALUE_NAN_NAN) level = NAN;
    if (level == 0 && axes->value_zero == NIB_VALUE_ZERO_PLUS) level = 0;
    return (struct nib_ref_element){y, code, level};
}

float nib_ref_value(const struct nib_quantizer *q, const struct nib_tensor_scale *t, const struct nib_ref_scale *scale,
                    float level) {
    const float S = t->encode, D = t->decode, s = scale->value;
    const float used = s == 0 && q->axes.zero_scale == NIB_ZERO_SCALE_ONE ? 1 : s;
    switch ((enum nib_axis_dequantize)q->axes.dequantize) {
    case NIB_DEQUANTIZE_SGT: return level * ((s * t->amax) * t->target_reciprocal);
    case NIB_DEQUANTIZE_S_X_D: return level * (used * D);
    case NIB_DEQUANTIZE_S_X_D_1: return level * at_least_tiny(s * D);
    case NIB_DEQUANTIZE_S_OVER_S: return level * (s / S);
    case NIB_DEQUANTIZE_S_DIV_S: return level * nib_div_full(s, S);
    case NIB_DEQUANTIZE_RCP0: return level * rcp0(rcp0(s * rcp0(S)));
    case NIB_DEQUANTIZE_S_RCP0: return level * (s * rcp0(S));
    case NIB_DEQUANTIZE_DOUBLE: return nib_flush(level * nib_flush((float)double_factor(t, scale)));
    case NIB_DEQUANTIZE_QS_X_D: return (level * used) * D;
    case NIB_DEQUANTIZE_QS: return level * s;
    case NIB_DEQUANTIZE_QS_THIRD: return (level * s) * (1.0f / 3.0f);
    case NIB_DEQUANTIZE_QS_FTZ: return nib_flush(level * nib_flush(s));
    case NIB_DEQUANTIZE_SCALBN: return scaled_by_code(level, scale->code, 1);
    case NIB_DEQUANTIZE_ENCODE: return (level / s) * D;
    case NIB_AXIS_dequantize_COUNT: break;
    }
    return NAN;
}
