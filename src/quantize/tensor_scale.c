#include "quantize/tensor_scale.h"

#include <float.h>
#include <math.h>

static struct nib_tensor_scale constants(const struct nib_quantizer *q) {
    return (struct nib_tensor_scale){.encode = 1, .decode = 1, .target_reciprocal = 1.0f / q->axes.tensor_target,
        .block_target = q->axes.block_target, .block_reciprocal = 1.0f / q->axes.block_target};
}

static float guarded(const struct nib_axes *axes, float encode, float amax) {
    switch ((enum nib_axis_tensor_scale_guard)axes->tensor_scale_guard) {
    case NIB_TENSOR_GUARD_MAX: return fminf(encode, FLT_MAX);
    case NIB_TENSOR_GUARD_MAX_EMPTY:
        encode = fminf(encode, FLT_MAX);
        return amax == 0 || encode == 0 ? 1 : encode;
    case NIB_TENSOR_GUARD_MAX_ZERO:
        encode = encode > FLT_MAX ? FLT_MAX : encode;
        return encode == 0 ? 1 : encode;
    case NIB_TENSOR_GUARD_FINITE: return isfinite(encode) ? encode : 1;
    case NIB_TENSOR_GUARD_NONE:
    case NIB_AXIS_tensor_scale_guard_COUNT: break;
    }
    return encode;
}

struct nib_tensor_scale nib_tensor_scale_of_amax(const struct nib_quantizer *q, float amax) {
    const struct nib_axes *axes = &q->axes;
    struct nib_tensor_scale t = constants(q);
    float target = axes->tensor_target;
    t.amax = amax < axes->tensor_amax_min ? axes->tensor_amax_min : amax;
    bool encode_first = true;
    switch ((enum nib_axis_tensor_scale)axes->tensor_scale) {
    case NIB_TENSOR_SCALE_T_OVER_G: t.encode = target / t.amax; break;
    case NIB_TENSOR_SCALE_RG_TIMES_T: t.encode = (1.0f / t.amax) * target; break;
    case NIB_TENSOR_SCALE_G_OVER_T: t.decode = t.amax / target, encode_first = false; break;
    case NIB_TENSOR_SCALE_G_TIMES_RT: t.decode = t.amax * t.target_reciprocal, encode_first = false; break;
    case NIB_AXIS_tensor_scale_COUNT: break;
    }
    if (!encode_first) t.encode = 1.0f / t.decode;
    t.encode = guarded(axes, t.encode, t.amax);
    if (encode_first) t.decode = 1.0f / t.encode;
    return t;
}

struct nib_tensor_scale nib_tensor_scale_given(const struct nib_quantizer *q, float encode, float decode) {
    struct nib_tensor_scale t = constants(q);
    t.encode = encode;
    t.decode = decode;
    t.amax = q->axes.tensor_target * decode;
    return t;
}

struct nib_tensor_scale nib_tensor_scale_none(const struct nib_quantizer *q) { return constants(q); }
