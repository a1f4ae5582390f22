/* The block scale: from the block amax to a code, choice by choice. */
#include <float.h>
#include <math.h>
#include "core/convert.h"
#include "quantize/approx.h"
#include "quantize/quantize_ref.h"
#include "quantize/ref_e8m0.h"

/* QuEST: a multiple of the standard deviation, as Triton computes it. */
static float quest_scale(const float *x, size_t count) {
    float sum = x[0], squares = x[0] * x[0], n = (float)count;
    for (size_t i = 1; i < count; i++) {
        sum += x[i];
        squares += x[i] * x[i];
    }
    float mean = nib_div_full(sum, n), variance = nib_div_full(squares, n) - mean * mean;
    float deviation = variance >= 0 ? sqrtf(variance) : 1;
    float target = (float)(2.92247856 / 6) * deviation + 1e-8f;
    return isfinite(target) ? ldexpf(1, ilogbf(target)) : target;
}

static float three_quarters_scale(float b) {
    float power = b == 0 ? 0 : isfinite(b) ? nib_flush(ldexpf(1, ilogbf(b) - 2)) : b;
    return nib_div_full(power, 0.75f);
}

/* b with the sign of the first element of that magnitude. */
static float with_sign(const float *x, size_t count, float b) {
    for (size_t i = 0; i < count; i++)
        if (fabsf(x[i]) == b) return copysignf(b, x[i]);
    return b;
}

static float formula(const struct nib_quantizer *q, const struct nib_tensor_scale *t, const float *x, size_t count,
                     float b, float expand) {
    const float S = t->encode, D = t->decode, Q = t->block_target, rQ = t->block_reciprocal;
    switch ((enum nib_axis_block_scale)q->axes.block_scale) {
    case NIB_BLOCK_SCALE_B_X_SRQ:
        if (q->axes.flush == NIB_FLUSH_ON) return nib_flush(nib_flush(b) * nib_flush(nib_flush(S) * rQ)) * expand;
        return (b * (S * rQ)) * expand;
    case NIB_BLOCK_SCALE_S_X_BRQ:
        if (q->axes.flush == NIB_FLUSH_ON) return nib_flush(nib_flush(S) * nib_flush(nib_flush(b) * rQ)) * expand;
        return (S * nib_tensor_scale_rounded(q, t, b * rQ)) * expand;
    case NIB_BLOCK_SCALE_BQ_X_S: return (nib_tensor_scale_rounded(q, t, b / Q) * S) * expand;
    case NIB_BLOCK_SCALE_BQ_OVER_D: return ((b / Q) / D) * expand;
    case NIB_BLOCK_SCALE_BRQ_OVER_D: return ((b * rQ) / D) * expand;
    case NIB_BLOCK_SCALE_B_OVER_QD: return (b / (Q * D)) * expand;
    case NIB_BLOCK_SCALE_B_DIV_QD: return nib_div_full(b, Q * D) * expand;
    case NIB_BLOCK_SCALE_BQ_DIV_D: return nib_div_full(nib_div_full(b, Q) * expand, D);
    case NIB_BLOCK_SCALE_DOUBLE: return (float)((double)nib_div_approx_ftz(b, Q) * t->encode_double);
    case NIB_BLOCK_SCALE_B_OVER_Q: return b / Q;
    case NIB_BLOCK_SCALE_B_X_RQ: return q->axes.flush == NIB_FLUSH_ON ? nib_flush(nib_flush(b) * rQ) : b * rQ;
    case NIB_BLOCK_SCALE_BQ_DIV_X_S: return (nib_div_full(b, Q) * S) * expand;
    case NIB_BLOCK_SCALE_PLUS_TINY: return b + 1e-8f;
    case NIB_BLOCK_SCALE_B_DIV_Q: return nib_div_full(b, Q);
    case NIB_BLOCK_SCALE_B_APPROX_Q: return nib_div_approx_ftz(b, Q);
    case NIB_BLOCK_SCALE_EXPONENT: return b;
    case NIB_BLOCK_SCALE_POW2_3_4: return three_quarters_scale(b);
    case NIB_BLOCK_SCALE_ONE: return 1;
    case NIB_BLOCK_SCALE_QUEST: return quest_scale(x, count);
    case NIB_BLOCK_SCALE_B_APPROX_D_Q: return nib_div_approx_ftz(nib_div_approx_ftz(b, D), Q) * expand;
    case NIB_BLOCK_SCALE_SIGNED: return with_sign(x, count, b);
    case NIB_BLOCK_SCALE_ENCODE: return Q / ((b * S) * expand);
    case NIB_AXIS_block_scale_COUNT: break;
    }
    return NAN;
}

static float bounded(const struct nib_axes *axes, float scale) {
    if (isnan(scale) && axes->scale_bound_nan == NIB_SCALE_BOUND_NAN_KEEP) return scale;
    if (!isinf(axes->scale_max)) scale = fminf(scale, axes->scale_max);
    if (axes->scale_min > 0 && scale < axes->scale_min) scale = axes->scale_min;
    return scale;
}

/* A plain cast has no largest code to stop at: what rounds beyond it is NaN. */
static bool overflows(const struct nib_scale *scale, float value) {
    if (scale->kind != NIB_SCALE_MINIFLOAT) return isinf(value);
    float half_step = ldexpf(1, ilogbf(scale->max_value) - scale->mbits - 1);
    float limit = scale->max_value + half_step;
    return (scale->max_code & 1) != 0 ? value >= limit : value > limit;
}

/* auto-round: the mantissa to nearest even but never carried into the exponent. */
static uint32_t frexp_code(const struct nib_scale *scale, float value) {
    int exponent;
    float fraction = frexpf(value, &exponent), steps = ldexpf(1, scale->mbits), lowest = ldexpf(1, 1 - scale->bias);
    if (!(value > 0)) return 0;
    if (value < lowest) return (uint32_t)fminf(fmaxf(rintf(value / lowest * steps), 1), steps - 1);
    if (isinf(value)) return scale->max_code;
    float mantissa = fminf(rintf((fraction - 0.5f) * (2 * steps)), steps - 1);
    int biased = exponent - 1 + scale->bias;
    return (uint32_t)(biased < 1 << scale->ebits ? biased : (1 << scale->ebits) - 1) << scale->mbits |
           (uint32_t)mantissa;
}

/* ggml: half up on one bit, subnormals by truncation after adding a half, everything that reaches 256 the largest. */
static uint32_t ggml_code(float value) {
    if (!(value > 0)) return 0;
    uint32_t bits = nib_bits_of_float(value > 448 ? 448.0f : value);
    int exponent = (int)(bits >> 23) - 127 + 7;
    if (exponent <= 0) {
        int units = (int)(value * 512 + 0.5f);
        return (uint32_t)(units < 7 ? units : 7);
    }
    uint32_t mantissa = (bits >> 20 & 7) + (bits >> 19 & 1);
    if (mantissa > 7) mantissa = 0, exponent++;
    return exponent >= 15 ? 0x7E : (uint32_t)exponent << 3 | mantissa;
}

/* Which NaN it is decides its sign on x86; see the axis scale_nan. */
static uint32_t nan_code(const struct nib_quantizer *q, const struct nib_tensor_scale *t, float amax) {
    const char *signs = nib_axis_table[nib_axis_find("scale_nan")].choices[q->axes.scale_nan].name;
    char sign = isnan(amax) ? signs[t->bf16] : isnan(t->amax) ? signs[2 + t->bf16] : signs[4];
    return q->block->scale->nan_code | (sign == '-' && q->block->scale->bits == 8 ? 0x80u : 0);
}

static uint32_t scale_code(const struct nib_quantizer *q, const struct nib_tensor_scale *t, float amax, float value) {
    static const enum nib_scale_rounding modes[] = {NIB_SCALE_NEAREST, NIB_SCALE_UP, NIB_SCALE_DOWN};
    const struct nib_scale *scale = q->block->scale;
    if (q->axes.scale_rounding == NIB_SCALE_ROUND_FREXP) return frexp_code(scale, value);
    if (q->axes.scale_rounding == NIB_SCALE_ROUND_GGML) return ggml_code(value);
    if (isnan(value) && scale->kind == NIB_SCALE_MINIFLOAT) return nan_code(q, t, amax);
    if (q->axes.scale_overflow == NIB_SCALE_OVERFLOW_NAN && overflows(scale, value)) return scale->nan_code;
    return nib_scale_encode(scale, modes[q->axes.scale_rounding], value);
}

bool nib_ref_is_empty(const struct nib_quantizer *q, float amax) {
    return amax == 0 || (q->axes.flush == NIB_FLUSH_ON && amax < 0x1p-126f);
}

struct nib_ref_scale nib_ref_scale_of(const struct nib_quantizer *q, const struct nib_tensor_scale *t, const float *x,
                                      size_t count, float amax, float expand) {
    const struct nib_axes *axes = &q->axes;
    const bool empty = nib_ref_is_empty(q, amax);
    if (q->block->scale->kind == NIB_SCALE_E8M0) {
        struct nib_ref_scale e = nib_ref_e8m0(q, formula(q, t, x, count, amax, 1), amax, t->bf16);
        e.empty = empty;
        return e;
    }
    float v = formula(q, t, x, count, amax, expand);
    if (axes->tensor_zero == NIB_TENSOR_ZERO_SCALES && t->amax == 0 && q->block->has_tensor_scale) v = 0;
    if (v == 0 && axes->scale_if_zero > 0) v = axes->scale_if_zero;
    struct nib_ref_scale s = {.before = bounded(axes, v), .empty = empty};
    s.bad = amax == 0 || !isfinite(amax) || t->amax == 0 || !isfinite(t->amax);
    s.code = scale_code(q, t, amax, s.before);
    if (s.code == 0) s.code = (uint32_t)axes->code_if_zero;
    s.value = nib_scale_decode(q->block->scale, s.code);
    if (axes->scale_rounding == NIB_SCALE_ROUND_FREXP && isnan(s.before)) s.value = NAN;
    if (axes->scale_ste == NIB_SCALE_STE_ON) s.value = (s.value - s.before) + s.before;
    return s;
}
