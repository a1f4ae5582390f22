/* AMD matrix cores: exact sums, flushed pairwise sums, and sums rounded down. */
#include <math.h>
#include <string.h>

#include "unit/exact.h"
#include "unit/unit_ref.h"

enum { AMD_NAN = 0x7FC00000, FP32_EMIN = -126, NONE = -100000 };

static float float_of(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}
static uint64_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return value != value ? AMD_NAN : bits;
}

uint64_t nib_ref_fma(const struct nib_unit *unit, uint64_t a, uint64_t b, uint64_t c) {
    if (unit->accumulator == NIB_ACC_FP32) return bits_of(fmaf(float_of(a), float_of(b), float_of(c)));
    double x, y, z, d;
    memcpy(&x, &a, 8), memcpy(&y, &b, 8), memcpy(&z, &c, 8);
    d = fma(x, y, z);
    if (d != d) return nib_nvidia_nan_bits(NIB_ACC_FP64);
    uint64_t bits;
    memcpy(&bits, &d, 8);
    return bits;
}

uint64_t nib_ref_e_fdpa(const struct nib_number *a, const struct nib_number *b, size_t count, uint64_t c_bits) {
    struct nib_number c = nib_number_of_accumulator(NIB_ACC_FP32, c_bits);
    bool nan, negative;
    if (nib_ref_specials(a, b, count, c, &nan, &negative))
        return nan ? AMD_NAN : nib_infinity_bits(NIB_ACC_FP32, negative);
    struct nib_exact sum;
    nib_exact_clear(&sum);
    nib_exact_add(&sum, c.negative, c.significand, c.lsb);
    for (size_t k = 0; k < count; k++)
        nib_exact_add(&sum, a[k].negative != b[k].negative, a[k].significand * b[k].significand, a[k].lsb + b[k].lsb);
    uint64_t magnitude;
    int lsb;
    bool sticky;
    int sign = nib_exact_leading(&sum, &magnitude, &lsb, &sticky);
    return sign == 0 ? 0 : nib_round_to_bits(NIB_RNE_FP32, sign < 0, magnitude, sticky, lsb);
}

static float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

/* An FP16 or BF16 operand in binary32; zeros and subnormals (no implicit bit) become +0. */
static float flushed_operand(struct nib_number x) {
    if (x.class == NIB_NUMBER_NAN) return NAN;
    if (x.class == NIB_NUMBER_INFINITE) return x.negative ? -INFINITY : INFINITY;
    if (x.significand >> (x.exponent - x.lsb) == 0) return 0;
    float magnitude = ldexpf((float)x.significand, x.lsb);
    return x.negative ? -magnitude : magnitude;
}

uint64_t nib_ref_ftz_pairwise(const struct nib_number *a, const struct nib_number *b, size_t count, uint64_t c_bits) {
    float p[4] = {0, 0, 0, 0}, c = float_of(c_bits);
    for (size_t k = 0; k < count; k++) p[k] = flushed(flushed_operand(a[k]) * flushed_operand(b[k]));
    float sum = flushed(p[0] + p[1]);
    if (count == 4) sum = flushed(sum + flushed(p[2] + p[3]));
    return bits_of(flushed(c + sum));
}

/* floor of value * 2^(from - to), counted in 2^to; an arithmetic shift. */
static __int128 floored(__int128 value, int from, int to) {
    int drop = to - from;
    if (value == 0) return 0;
    return drop <= 0 ? value * ((__int128)1 << -drop) : drop > 120 ? (value < 0 ? -1 : 0) : value >> drop;
}
static __int128 truncated(bool negative, uint64_t significand, int lsb, int unit) {
    if (significand == 0) return 0;
    int drop = unit - lsb;
    __int128 kept = drop > 63 ? 0 : drop >= 0 ? (__int128)(significand >> drop) : (__int128)significand << -drop;
    return negative ? -kept : kept;
}

/* The truncated sum of the products first, first + step, ... in units of 2^(*largest - F). */
static __int128 truncated_sum(const struct nib_unit *unit, const struct nib_number *a, const struct nib_number *b,
                              size_t count, size_t first, size_t step, int *largest) {
    *largest = NONE;
    for (size_t k = first; k < count; k += step)
        if (a[k].significand != 0 && b[k].significand != 0 && a[k].exponent + b[k].exponent > *largest)
            *largest = a[k].exponent + b[k].exponent;
    __int128 sum = 0;
    for (size_t k = first; k < count && *largest != NONE; k += step)
        if (a[k].significand != 0 && b[k].significand != 0)
            sum += truncated(a[k].negative != b[k].negative, a[k].significand * b[k].significand, a[k].lsb + b[k].lsb,
                             *largest - unit->fraction_bits);
    return sum;
}

/* The sum of the products (in units of 2^(dot_exponent - F)) and c, rounded down twice, then to nearest. */
static uint64_t rounded_down_sum(const struct nib_unit *unit, __int128 dot, int dot_exponent, struct nib_number c,
                                 bool drop_small_c) {
    int f = unit->fraction_bits, f2 = unit->second_fraction_bits;
    int c_exponent = c.class == NIB_NUMBER_ZERO ? FP32_EMIN : c.exponent;
    int largest = dot_exponent > c_exponent ? dot_exponent : c_exponent, unit_lsb = largest - f2 - 1;
    __int128 sum = dot == 0 ? 0 : floored(dot, dot_exponent - f, unit_lsb);
    if (!(drop_small_c && c_exponent < largest - f - 1)) {
        __int128 value = c.negative ? -(__int128)c.significand : (__int128)c.significand;
        sum += floored(value, c.lsb, largest - f) * ((__int128)1 << (f2 + 1 - f));
    }
    if (sum == 0) return 0;
    unsigned __int128 magnitude = (unsigned __int128)(sum < 0 ? -sum : sum);
    int exponent = unit_lsb - 1;
    for (unsigned __int128 rest = magnitude; rest != 0; rest >>= 1) exponent++;
    if (exponent < FP32_EMIN) exponent = FP32_EMIN;
    if (exponent - f2 > unit_lsb) {
        sum = floored(sum, unit_lsb, exponent - f2);
        unit_lsb = exponent - f2;
        magnitude = (unsigned __int128)(sum < 0 ? -sum : sum);
    }
    return nib_round_to_bits(NIB_RNE_FP32, sum < 0, magnitude, false, unit_lsb);
}

uint64_t nib_ref_tr_fdpa(const struct nib_unit *unit, const struct nib_number *a, const struct nib_number *b,
                         size_t count, uint64_t c_bits) {
    struct nib_number c = nib_number_of_accumulator(NIB_ACC_FP32, c_bits), left[NIB_UNIT_BLOCK_MAX];
    memcpy(left, a, count * sizeof *a);
    for (size_t k = 0; k < count; k++) { /* products of 2^128 and more are infinite */
        if (a[k].class != NIB_NUMBER_FINITE || b[k].class != NIB_NUMBER_FINITE) continue;
        int top = 63 - __builtin_clzll(a[k].significand * b[k].significand) + a[k].lsb + b[k].lsb;
        if (top >= 128) left[k].class = NIB_NUMBER_INFINITE;
    }
    bool nan, negative;
    if (nib_ref_specials(left, b, count, c, &nan, &negative))
        return nan ? AMD_NAN : nib_infinity_bits(NIB_ACC_FP32, negative);
    int largest;
    __int128 dot = truncated_sum(unit, a, b, count, 0, 1, &largest);
    return rounded_down_sum(unit, dot, largest, c, false);
}

uint64_t nib_ref_gtr_fdpa(const struct nib_unit *unit, const struct nib_number *a, const struct nib_number *b,
                          size_t count, uint64_t c_bits) {
    struct nib_number c = nib_number_of_accumulator(NIB_ACC_FP32, c_bits);
    bool nan, negative;
    if (nib_ref_specials(a, b, count, c, &nan, &negative))
        return nan ? AMD_NAN : nib_infinity_bits(NIB_ACC_FP32, negative);
    int even_exponent, odd_exponent, f = unit->fraction_bits;
    __int128 even = truncated_sum(unit, a, b, count, 0, 2, &even_exponent);
    __int128 odd = truncated_sum(unit, a, b, count, 1, 2, &odd_exponent);
    int largest = even_exponent > odd_exponent ? even_exponent : odd_exponent;
    __int128 dot = (even == 0 ? 0 : floored(even, even_exponent - f, largest - f)) +
                   (odd == 0 ? 0 : floored(odd, odd_exponent - f, largest - f));
    return rounded_down_sum(unit, dot, largest, c, true);
}
