/* The vocabulary of simd.h in plain C, four lanes. */
#ifndef NIB_UNIT_SIMD_GENERIC_H
#define NIB_UNIT_SIMD_GENERIC_H

#include <math.h>

#include "unit/number.h"

NIB_INLINE vi i_max(vi x, vi y) { return i_select(x > y, x, y); }
NIB_INLINE vi i_min(vi x, vi y) { return i_select(x < y, x, y); }
/* Sums here stay within 16 bits: -20000 to 30000 and a number's exponent. */
NIB_INLINE vi h_adds(vi x, vi y) {
    vh a = (vh)x, b = (vh)y;
    for (int i = 0; i < 2 * NIB_LANES; i++) {
        int sum = a[i] + b[i];
        a[i] = (int16_t)(sum > INT16_MAX ? INT16_MAX : sum < INT16_MIN ? INT16_MIN : sum);
    }
    return (vi)a;
}
NIB_INLINE vi h_max(vi x, vi y) {
    vh a = (vh)x, b = (vh)y, greater = (vh)(a > b);
    return (vi)((greater & a) | (~greater & b));
}
/* Modulo 2^16, as the instructions are: what a step must not use may overflow. */
typedef uint16_t vhu __attribute__((vector_size(4 * NIB_LANES)));
NIB_INLINE vi h_add(vi x, vi y) { return (vi)((vhu)x + (vhu)y); }
NIB_INLINE vi h_mul(vi x, vi y) {
    vi result = {0};
    vhu a = (vhu)x, b = (vhu)y, out = (vhu)result;
    for (int i = 0; i < 2 * NIB_LANES; i++) out[i] = (uint16_t)((uint32_t)a[i] * b[i]);
    return (vi)out;
}
NIB_INLINE vi h_dot(vi x, vi y) {
    vi even = ((x << 16) >> 16) * ((y << 16) >> 16);
    return i_wrap_add(even, (x >> 16) * (y >> 16));
}
NIB_INLINE vi b_dot(vi x, vi y) { /* bytes of a 16-bit lane: the even in its low half */
    vh a = (vh)x, b = (vh)y;
    return (vi)((vhu)((a & 255) * ((vh)(b << 8) >> 8)) + (vhu)(((a >> 8) & 255) * (b >> 8)));
}
/* Lanes outside int32 hold anything; as with the vector instructions, their callers replace them. */
NIB_INLINE vi i_truncate(vf x) {
    vi inside = (x > -2147483648.0f) & (x < 2147483648.0f);
    return __builtin_convertvector(f_keep(inside, x), vi);
}
NIB_INLINE vf f_set(float x) { return (vf){x, x, x, x}; }
NIB_INLINE vf f_of_i(vi x) { return __builtin_convertvector(x, vf); }
NIB_INLINE vd d_low(vi x) { return (vd){x[0], x[1]}; }
NIB_INLINE vd d_high(vi x) { return (vd){x[2], x[3]}; }
NIB_INLINE vf f_of_d(vd low, vd high) { return (vf){(float)low[0], (float)low[1], (float)high[0], (float)high[1]}; }
NIB_INLINE vd d_of_f_low(vf x) { return (vd){(double)x[0], (double)x[1]}; }
NIB_INLINE vd d_of_f_high(vf x) { return (vd){(double)x[2], (double)x[3]}; }
NIB_INLINE unsigned i_mask(vi x) {
    unsigned mask = 0;
    for (unsigned i = 0; i < NIB_LANES; i++) mask |= (unsigned)(x[i] < 0) << i;
    return mask;
}
NIB_INLINE unsigned l_mask(vl x) { return (unsigned)(x[0] < 0) | (unsigned)(x[1] < 0) << 1; }
NIB_INLINE vf f_fma(vf x, vf y, vf z) {
    for (int i = 0; i < NIB_LANES; i++) z[i] = fmaf(x[i], y[i], z[i]);
    return z;
}
NIB_INLINE vd d_multiply_add(vd x, vd y, vd z) { return x * y + z; }
/* To FP16 and back. */
NIB_INLINE vf f_fp16(vf x) {
    for (int i = 0; i < NIB_LANES; i++) {
        float value = x[i];
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        struct nib_number in = nib_number_of_operand(NIB_OPERAND_FP32, bits);
        if (in.class > NIB_NUMBER_FINITE) continue;
        struct nib_number out = nib_number_of_operand(
            NIB_OPERAND_FP16, nib_round_to_bits(NIB_RNE_FP16, in.negative, in.significand, false, in.lsb));
        value = out.class == NIB_NUMBER_INFINITE ? INFINITY : ldexpf((float)out.significand, out.lsb);
        x[i] = out.negative ? -value : value;
    }
    return x;
}

#endif
