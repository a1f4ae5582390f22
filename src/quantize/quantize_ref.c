#include "quantize/quantize_ref.h"

#include <float.h>
#include <math.h>
#include "core/convert.h"
#include "core/round.h"
#include "quantize/choice.h"
#include "quantize/sr.h"

float nib_ref_amax(const struct nib_quantizer *q, const float *x, size_t count) {
    float amax = 0;
    for (size_t i = 0; i < count; i++) {
        float magnitude = fabsf(x[i]);
        if (isnan(magnitude) && q->axes.amax_nan == NIB_AMAX_NAN_PROPAGATE) return magnitude;
        if (magnitude > amax) amax = magnitude; /* not fmaxf: a signaling NaN would win there */
    }
    return amax;
}

/* 2^e where e is the OCP MX shared exponent: floor(log2(amax)) - emax, and at least -127. */
static float floor_scale(float amax, int emax) {
    if (amax == 0 || !isfinite(amax)) return amax;
    int exponent = ilogbf(amax) - emax;
    return ldexpf(1, exponent < -127 ? -127 : exponent);
}

static float block_scale(const struct nib_quantizer *q, const struct nib_tensor_scale *t, float b) {
    const float S = t->encode, D = t->decode, Q = t->block_target, rQ = t->block_reciprocal;
    switch ((enum nib_axis_block_scale)q->axes.block_scale) {
    case NIB_BLOCK_SCALE_B_X_SRQ: return b * (S * rQ);
    case NIB_BLOCK_SCALE_S_X_BRQ: return S * (b * rQ);
    case NIB_BLOCK_SCALE_BQ_X_S: return (b / Q) * S;
    case NIB_BLOCK_SCALE_BQ_OVER_D: return (b / Q) / D;
    case NIB_BLOCK_SCALE_BRQ_OVER_D: return (b * rQ) / D;
    case NIB_BLOCK_SCALE_B_OVER_QD: return b / (Q * D);
    case NIB_BLOCK_SCALE_B_OVER_Q: return b / Q;
    case NIB_BLOCK_SCALE_B_X_RQ: return b * rQ;
    case NIB_BLOCK_SCALE_FLOOR: return floor_scale(b, q->block->element->emax);
    case NIB_AXIS_block_scale_COUNT: break;
    }
    return NAN;
}

static float bounded(const struct nib_axes *axes, float scale) {
    if (isnan(scale) && axes->scale_bound_nan == NIB_SCALE_BOUND_NAN_KEEP) return scale;
    if (!isinf(axes->scale_max)) scale = fminf(scale, axes->scale_max);
    if (scale < axes->scale_min) scale = axes->scale_min;
    return scale;
}

/* A plain cast has no largest code to stop at: what rounds beyond it is NaN. */
static bool overflows(const struct nib_scale *scale, float value) {
    if (scale->kind != NIB_SCALE_MINIFLOAT) return isinf(value);
    float half_step = ldexpf(1, ilogbf(scale->max_value) - scale->mbits - 1);
    float limit = scale->max_value + half_step;
    return (scale->max_code & 1) != 0 ? value >= limit : value > limit;
}

static uint32_t scale_code(const struct nib_quantizer *q, float value) {
    static const enum nib_scale_rounding modes[] = {NIB_SCALE_NEAREST, NIB_SCALE_UP, NIB_SCALE_DOWN};
    const struct nib_scale *scale = q->block->scale;
    if (q->axes.scale_overflow == NIB_SCALE_OVERFLOW_NAN && overflows(scale, value)) return scale->nan_code;
    return nib_scale_encode(scale, modes[q->axes.scale_rounding], value);
}

static float scaled_element(const struct nib_quantizer *q, const struct nib_tensor_scale *t, float s, float x) {
    const float S = t->encode, D = t->decode;
    if (s == 0 && q->axes.zero_scale == NIB_ZERO_SCALE_ZERO) return copysignf(0, x);
    switch ((enum nib_axis_element_scale)q->axes.element_scale) {
    case NIB_ELEMENT_X_RSRS: return x * fminf(1.0f / (s * (1.0f / S)), FLT_MAX);
    case NIB_ELEMENT_X_OVER_SD: return x / (s * D);
    case NIB_ELEMENT_X_OVER_SS: return x / (s / S);
    case NIB_ELEMENT_X_RDS: return x * ((1.0f / D) / s);
    case NIB_ELEMENT_X_OVER_S: return x / s;
    case NIB_ELEMENT_X_RS: return x * (1.0f / s);
    case NIB_AXIS_element_scale_COUNT: break;
    }
    return NAN;
}

static uint8_t element_code(const struct nib_quantizer *q, float y, uint32_t random) {
    const struct nib_axes *axes = &q->axes;
    if (isnan(y)) {
        switch ((enum nib_axis_element_nan)axes->element_nan) {
        case NIB_ELEMENT_NAN_MAX: return q->code_of_max;
        case NIB_ELEMENT_NAN_SIGN_MAX: return signbit(y) ? q->code_of_min : q->code_of_max;
        case NIB_ELEMENT_NAN_ZERO:
        case NIB_AXIS_element_nan_COUNT: break;
        }
        return q->code_of_zero;
    }
    uint8_t code = nib_axes_stochastic(axes) ? nib_sr_code(q->block->element, y, 8u << axes->sr_bits, random)
                                             : (uint8_t)nib_round_code(&q->rule, nib_bits_of_float(y));
    bool zero = q->block->element->level[code] == 0;
    if (zero && (axes->signed_zero == NIB_SIGNED_ZERO_DROP || (axes->signed_zero == NIB_SIGNED_ZERO_NEGATIVE && y == 0)))
        code = q->code_of_zero;
    return code;
}

float nib_ref_dequantize(const struct nib_quantizer *q, const struct nib_tensor_scale *t, uint32_t scale, uint8_t code,
                         struct nib_trace *trace) {
    const float S = t->encode, D = t->decode, s = nib_scale_decode(q->block->scale, scale);
    const float level = q->block->element->level[code];
    float factor = s, value = 0;
    switch ((enum nib_axis_dequantize)q->axes.dequantize) {
    case NIB_DEQUANTIZE_SGT: factor = (s * t->amax) * t->target_reciprocal; break;
    case NIB_DEQUANTIZE_S_X_D: factor = s * D; break;
    case NIB_DEQUANTIZE_S_OVER_S: factor = s / S; break;
    case NIB_DEQUANTIZE_QS_X_D:
    case NIB_DEQUANTIZE_QS:
    case NIB_AXIS_dequantize_COUNT: break;
    }
    value = level * factor;
    if (q->axes.dequantize == NIB_DEQUANTIZE_QS_X_D) value = value * D;
    nib_trace_number(trace, "dequantized value", NIB_CHOICE_NAME(q, dequantize), value);
    return value;
}

/* Distance from the scaled element to the nearest cell border, in binary32 steps at its size. Borders are the middles
 * between levels, or the levels themselves when rounding toward zero. */
static double tie_distance(const struct nib_quantizer *q, float y) {
    const struct nib_element *element = q->block->element;
    double best = INFINITY, step = ldexp(1, (y == 0 || !isfinite(y) || fabsf(y) < FLT_MIN ? -126 : ilogbf(y)) - 23);
    for (unsigned r = 1; r < element->levels; r++) {
        double low = (double)element->level_of_rank[r - 1], high = (double)element->level_of_rank[r];
        double border = q->axes.rounding < NIB_ROUNDING_RTZ ? (low + high) / 2 : y > 0 ? high : low;
        if (low < high) best = fmin(best, fabs((double)y - border) / step);
    }
    return isnan(y) ? NAN : best;
}

void nib_ref_quantize(const struct nib_quantizer *q, const struct nib_tensor_scale *t, struct nib_ref_block *block) {
    struct nib_trace *trace = block->trace;
    float b = nib_ref_amax(q, block->x, block->count);
    nib_trace_number(trace, "block amax", "b", b);
    float v = block_scale(q, t, b);
    nib_trace_number(trace, "block scale before rounding", NIB_CHOICE_NAME(q, block_scale), v);
    if (q->block->scale->kind != NIB_SCALE_E8M0) v = bounded(&q->axes, v);
    block->scale = scale_code(q, v);
    float s = nib_scale_decode(q->block->scale, block->scale);
    nib_trace_code(trace, "block scale", q->block->scale->name, block->scale, s);
    for (size_t i = 0; i < block->count; i++) {
        float y = scaled_element(q, t, s, block->x[i]);
        if (q->axes.element_precision == NIB_ELEMENT_BF16)
            y = nib_float_of_bits(nib_bits_of_bf16(nib_bf16_of_bits(nib_bits_of_float(y))));
        block->codes[i] = element_code(q, y, nib_axes_stochastic(&q->axes) ? block->random[i] : 0);
        if (trace == NULL || i != block->traced) continue;
        nib_trace_number(trace, "element", "x", block->x[i]);
        nib_trace_number(trace, "scaled element", NIB_CHOICE_NAME(q, element_scale), y);
        if (nib_axes_stochastic(&q->axes))
            nib_trace_code(trace, "random integer", "r", block->random[i], (float)block->random[i]);
        nib_trace_code(trace, "code", NIB_CHOICE_NAME(q, rounding), block->codes[i],
                       q->block->element->level[block->codes[i]]);
        trace->tie_distance_ulp = tie_distance(q, y);
    }
}
