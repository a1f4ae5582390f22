#include "quantize/tensor_scale.h"

#include <float.h>
#include <math.h>
#include "core/convert.h"
#include "quantize/approx.h"

static struct nib_tensor_scale constants(const struct nib_quantizer *q, enum nib_dtype dtype) {
    return (struct nib_tensor_scale){.encode = 1,
                                     .decode = 1,
                                     .target = q->axes.tensor_target,
                                     .target_reciprocal = 1.0f / q->axes.tensor_target,
                                     .block_target = q->axes.block_target,
                                     .block_reciprocal = 1.0f / q->axes.block_target,
                                     .encode_double = 1,
                                     .bf16 = dtype == NIB_BF16};
}

float nib_tensor_scale_rounded(const struct nib_quantizer *q, const struct nib_tensor_scale *t, float x) {
    if (!t->bf16 || q->axes.scale_precision != NIB_SCALE_PRECISION_INPUT) return x;
    return nib_float_of_bits(nib_bits_of_bf16(nib_bf16_of_bits(nib_bits_of_float(x))));
}

static float guarded_encode(const struct nib_axes *axes, float encode, float amax) {
    switch ((enum nib_axis_tensor_scale_guard)axes->tensor_scale_guard) {
    case NIB_TENSOR_GUARD_MAX: return fminf(encode, FLT_MAX);
    case NIB_TENSOR_GUARD_MAX_EMPTY: encode = fminf(encode, FLT_MAX); return amax == 0 || encode == 0 ? 1 : encode;
    case NIB_TENSOR_GUARD_MAX_ZERO: encode = encode > FLT_MAX ? FLT_MAX : encode; return encode == 0 ? 1 : encode;
    case NIB_TENSOR_GUARD_FINITE: return isfinite(encode) ? encode : 1;
    case NIB_TENSOR_GUARD_EMPTY: return amax == 0 ? 1 : encode;
    case NIB_TENSOR_GUARD_NONE:
    case NIB_TENSOR_GUARD_POSITIVE:
    case NIB_TENSOR_GUARD_DECODE_ZERO:
    case NIB_AXIS_tensor_scale_guard_COUNT: break;
    }
    return encode;
}

static float guarded_decode(const struct nib_axes *axes, float decode, float amax) {
    if (axes->tensor_scale_guard == NIB_TENSOR_GUARD_EMPTY && amax == 0) return 1;
    if (axes->tensor_scale_guard == NIB_TENSOR_GUARD_POSITIVE && !(decode > 0)) return 1e-12f;
    if (axes->tensor_scale_guard == NIB_TENSOR_GUARD_DECODE_ZERO && decode == 0) return 1;
    return decode;
}

struct nib_tensor_scale nib_tensor_scale_of_amax(const struct nib_quantizer *q, enum nib_dtype dtype, float amax) {
    const struct nib_axes *axes = &q->axes;
    struct nib_tensor_scale t = constants(q, dtype);
    const float T = t.target;
    const float g = amax < axes->tensor_amax_min ? axes->tensor_amax_min : amax;
    bool encode_first = true;
    switch ((enum nib_axis_tensor_scale)axes->tensor_scale) {
    case NIB_TENSOR_SCALE_T_OVER_G: t.encode = T / g; break;
    case NIB_TENSOR_SCALE_RG_TIMES_T:
        t.encode = nib_tensor_scale_rounded(q, &t, nib_tensor_scale_rounded(q, &t, 1.0f / g) * T);
        break;
    case NIB_TENSOR_SCALE_RCP0G_TIMES_T: t.encode = T * (g == 0 ? 0 : 1.0f / g); break;
    case NIB_TENSOR_SCALE_G_OVER_T: t.decode = g / T, encode_first = false; break;
    case NIB_TENSOR_SCALE_G_TIMES_RT: t.decode = g * t.target_reciprocal, encode_first = false; break;
    case NIB_TENSOR_SCALE_G_DIV_T_Q:
        t.decode = nib_div_full(nib_div_full(g, T), t.block_target), encode_first = false;
        break;
    case NIB_TENSOR_SCALE_G_APPROX_T_Q:
        t.decode = nib_div_approx_ftz(nib_div_approx_ftz(g, T), t.block_target), encode_first = false;
        break;
    case NIB_TENSOR_SCALE_DOUBLE:
        t.encode_double = 448.0 * (double)nib_div_approx_ftz(t.block_target, g);
        t.encode = (float)t.encode_double;
        break;
    case NIB_AXIS_tensor_scale_COUNT: break;
    }
    t.amax = g;
    if (encode_first) {
        t.encode = guarded_encode(axes, t.encode, g);
        t.decode = 1.0f / t.encode;
    } else {
        t.decode = guarded_decode(axes, t.decode, g);
        t.encode = 1.0f / t.decode;
    }
    return t;
}

struct nib_tensor_scale nib_tensor_scale_given(const struct nib_quantizer *q, enum nib_dtype dtype, float encode,
                                               float decode) {
    struct nib_tensor_scale t = constants(q, dtype);
    t.encode = encode;
    t.encode_double = (double)encode;
    t.decode = decode;
    t.amax = t.target * decode;
    return t;
}

struct nib_tensor_scale nib_tensor_scale_none(const struct nib_quantizer *q, enum nib_dtype dtype) {
    return constants(q, dtype);
}
