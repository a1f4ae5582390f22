/* Powers of two as block scales: how real implementations find the exponent. */
#include "quantize/ref_e8m0.h"

#include <math.h>
#include "core/key.h"

enum { INFINITE = 1 << 20 }; /* an exponent that stands for infinity */

/* |x| = 2^exponent * (1 + mantissa/2^23), subnormals included. */
struct parts {
    int exponent;
    uint32_t mantissa;
};
static struct parts split(float x) {
    int exponent;
    float fraction = frexpf(x, &exponent); /* in [0.5, 1) */
    return (struct parts){exponent - 1, (uint32_t)(fraction * 0x1p24f) - 0x800000u};
}

/* log2 rounded to binary32 and then to an integer differs from the exact one only within a few mantissas of a power of
 * two (of its square root, for the nearest). How many depends on the size of the logarithm alone; row i is for
 * magnitudes of the exponent from 2^i. */
static const struct {
    uint32_t down, up, nearest; /* first mantissa whose result is exponent + 1 */
} log2_border[8] = {
    {0x800000, 0x1, 0x3504F3}, {0x7FFFFF, 0x1, 0x3504F3}, {0x7FFFFE, 0x2, 0x3504F2},  {0x7FFFFB, 0x3, 0x3504F0},
    {0x7FFFF5, 0x6, 0x3504EC}, {0x7FFFEA, 0xC, 0x3504E4}, {0x7FFFD4, 0x17, 0x3504D4}, {0x7FFFA8, 0x2D, 0x3504B5},
};

/* The same for the floor of log2 rounded to bfloat16. A logarithm just below a power of two is negative where the
 * exponent is, and its row is then that of the next larger magnitude. */
uint32_t nib_log2_border_bf16(int exponent) {
    static const uint32_t border[8] = {0x7FA756, 0x7F4ECB, 0x7E9E10, 0x7D3E0A, 0x7A83AE, 0x752573, 0x6AC0B3, 0x5744D8};
    int size = exponent >= 0 ? exponent : -exponent - 1, row = 0;
    if (exponent == -1) return 0x800000;
    while (size > 0) {
        size >>= 1;
        row++;
    }
    return border[row < 8 ? row : 7];
}
static int log2_down_bf16(float x) {
    struct parts p = split(x);
    return p.exponent + (p.mantissa >= nib_log2_border_bf16(p.exponent));
}

enum log2_rule { DOWN, UP, NEAREST };
static int rounded_log2(float x, enum log2_rule rule) {
    struct parts p = split(x);
    int size = p.exponent >= 0 ? p.exponent : -p.exponent - 1, row = 0;
    while (size > 1) {
        size >>= 1;
        row++;
    }
    uint32_t border = rule == DOWN ? log2_border[row].down
                      : rule == UP ? log2_border[row].up
                                   : log2_border[row].nearest;
    return p.exponent + (p.mantissa >= border);
}

static int field(uint32_t bits) {
    return (int)(bits >> 23 & 255) - 127;
}
/* The exponent of a positive finite v; -127 and below mean the bottom, INFINITE infinity. */
static int rounded_exponent(const struct nib_quantizer *q, float v, bool bf16, bool *nan) {
    static const enum nib_scale_rounding modes[] = {NIB_SCALE_NEAREST, NIB_SCALE_UP, NIB_SCALE_DOWN};
    uint32_t bits = nib_bits_of_float(v);
    float lifted;
    switch ((enum nib_axis_scale_rounding)q->axes.scale_rounding) {
    case NIB_SCALE_ROUND_NEAREST:
    case NIB_SCALE_ROUND_UP:
    case NIB_SCALE_ROUND_DOWN: return (int)nib_scale_encode(q->block->scale, modes[q->axes.scale_rounding], v) - 127;
    case NIB_SCALE_ROUND_UP_BITS: return field(bits + 0x7FFFFF);
    case NIB_SCALE_ROUND_EVEN: return field(bits + 0x200000) == 128 ? INFINITE : field(bits + 0x200000);
    case NIB_SCALE_ROUND_EVEN_MINUS: return field(bits + 0x1FFFFF);
    case NIB_SCALE_ROUND_LOG2_DOWN: return rounded_log2(v, DOWN);
    case NIB_SCALE_ROUND_LOG2_DOWN_INPUT: return bf16 ? log2_down_bf16(v) : rounded_log2(v, DOWN);
    case NIB_SCALE_ROUND_LOG2_UP: return rounded_log2(v, UP);
    case NIB_SCALE_ROUND_LOG2_NEAREST: return rounded_log2(v, NEAREST);
    case NIB_SCALE_ROUND_LOG2_EVEN_MINUS:
        lifted = nib_float_of_bits(bits + 0x1FFFFF);
        *nan = isnan(lifted);
        return *nan ? 0 : isinf(lifted) ? INFINITE : rounded_log2(lifted, DOWN);
    case NIB_SCALE_ROUND_FREXP:
    case NIB_SCALE_ROUND_GGML:
    case NIB_AXIS_scale_rounding_COUNT: break;
    }
    return 0;
}

static float bottom_value(const struct nib_axes *axes) {
    if (axes->e8m0_bottom == NIB_E8M0_BOTTOM_ONE) return 1;
    return axes->e8m0_bottom == NIB_E8M0_BOTTOM_ZERO   ? 0
           : axes->e8m0_bottom == NIB_E8M0_BOTTOM_EXP2 ? 0x1.fffff8p-128f
                                                       : 0x1p-127f;
}

static struct nib_ref_scale of_nan(const struct nib_axes *axes, float v) {
    if (axes->e8m0_nan == NIB_E8M0_NAN_00) return (struct nib_ref_scale){v, 0, bottom_value(axes), false, false, false};
    if (axes->e8m0_nan == NIB_E8M0_NAN_FF_INF) return (struct nib_ref_scale){v, 0xFF, INFINITY, false, false, false};
    return (struct nib_ref_scale){v, axes->e8m0_nan == NIB_E8M0_NAN_FF ? 0xFF : 0, NAN, false, false, false};
}

static struct nib_ref_scale of_inf(const struct nib_axes *axes, float v) {
    switch ((enum nib_axis_e8m0_inf)axes->e8m0_inf) {
    case NIB_E8M0_INF_FF_INF: return (struct nib_ref_scale){v, 0xFF, INFINITY, false, false, false};
    case NIB_E8M0_INF_FF_NAN: return (struct nib_ref_scale){v, 0xFF, NAN, false, false, false};
    case NIB_E8M0_INF_00_INF: return (struct nib_ref_scale){v, 0, INFINITY, false, false, false};
    case NIB_E8M0_INF_CLAMP:
    case NIB_AXIS_e8m0_inf_COUNT: break;
    }
    int exponent = (int)axes->exponent_max;
    return (struct nib_ref_scale){v, (uint32_t)(exponent + 127), ldexpf(1, exponent), false, false, false};
}

static struct nib_ref_scale power_of(const struct nib_quantizer *q, float v, float amax, bool bf16) {
    const struct nib_axes *axes = &q->axes;
    if (axes->e8m0_zero == NIB_E8M0_ZERO_ONE && (amax == 0 || !isfinite(amax)))
        return (struct nib_ref_scale){v, 127, 1, false, false, false};
    if (isnan(v)) return of_nan(axes, v);
    if (isinf(v) && axes->scale_rounding == NIB_SCALE_ROUND_LOG2_EVEN_MINUS) return of_nan(axes, NAN);
    if (isinf(v)) return of_inf(axes, v);
    int exponent = -127, offset = axes->block_scale == NIB_BLOCK_SCALE_EXPONENT ? q->block->element->emax : 0;
    bool nan = false;
    if (v != 0) exponent = rounded_exponent(q, v, bf16, &nan);
    if (amax == 0 && axes->e8m0_zero == NIB_E8M0_ZERO_LOG2_1) exponent = 1;
    if (nan) return of_nan(axes, NAN);
    if (exponent >= INFINITE) return of_inf(axes, INFINITY);
    exponent -= offset;
    if (exponent > (int)axes->exponent_max && axes->e8m0_high == NIB_E8M0_HIGH_NAN) return of_nan(axes, NAN);
    if (exponent > (int)axes->exponent_max) exponent = (int)axes->exponent_max;
    if (exponent < -127 && amax != 0 && axes->e8m0_low == NIB_E8M0_LOW_WRAP)
        return (struct nib_ref_scale){v, (uint32_t)(exponent + 127) & 0xFF, 0, false, false, false};
    if (exponent <= -127) return (struct nib_ref_scale){v, 0, bottom_value(axes), false, false, false};
    return (struct nib_ref_scale){v, (uint32_t)(exponent + 127), ldexpf(1, exponent), false, false, false};
}

struct nib_ref_scale nib_ref_e8m0(const struct nib_quantizer *q, float v, float amax, bool bf16) {
    struct nib_ref_scale s = power_of(q, v, amax, bf16);
    bool nan = false;
    if (q->axes.tiny_block == NIB_TINY_BLOCK_ZERO && v > 0 && isfinite(v))
        s.tiny = rounded_exponent(q, v, bf16, &nan) <= -127;
    return s;
}

float nib_ref_e8m0_decode(const struct nib_quantizer *q, uint32_t code) {
    if (code == 0) return bottom_value(&q->axes);
    if (code == 0xFF) return q->axes.e8m0_inf == NIB_E8M0_INF_FF_INF ? INFINITY : NAN;
    return nib_scale_decode(q->block->scale, code);
}
