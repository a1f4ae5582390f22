/* NVIDIA: truncated fused dot product and add, in three shapes. */
#include <string.h>

#include "unit/unit_ref.h"

/* x truncated toward zero to a multiple of 2^unit, counted in such multiples. */
static int64_t truncated(bool negative, uint64_t significand, int lsb, int unit) {
    if (significand == 0) return 0; /* whose exponent may be far off */
    int drop = unit - lsb;
    int64_t kept = drop > 63 ? 0 : drop >= 0 ? (int64_t)(significand >> drop) : (int64_t)(significand << -drop);
    return negative ? -kept : kept;
}

/* rho of an exact sum; a zero result is +0, however it came about. */
static uint64_t rounded(const struct nib_unit *unit, int64_t sum, int lsb) {
    uint64_t bits = nib_round_to_bits(unit->rounding, sum < 0, (uint64_t)(sum < 0 ? -sum : sum), false, lsb);
    uint64_t zero_with_sign = unit->rounding == NIB_RNE_FP16 ? 0x8000 : 0x80000000;
    return bits == zero_with_sign ? 0 : bits;
}

bool nib_ref_specials(const struct nib_number *a, const struct nib_number *b, size_t count, struct nib_number c,
                      bool *nan, bool *negative) {
    bool plus = c.class == NIB_NUMBER_INFINITE && !c.negative, minus = c.class == NIB_NUMBER_INFINITE && c.negative;
    *nan = c.class == NIB_NUMBER_NAN;
    for (size_t k = 0; k < count; k++) {
        if (a[k].class < NIB_NUMBER_INFINITE && b[k].class < NIB_NUMBER_INFINITE) continue;
        bool zero = a[k].class == NIB_NUMBER_ZERO || b[k].class == NIB_NUMBER_ZERO;
        if (zero || a[k].class == NIB_NUMBER_NAN || b[k].class == NIB_NUMBER_NAN) *nan = true;
        if (a[k].negative != b[k].negative)
            minus = true;
        else
            plus = true;
    }
    if (plus && minus) *nan = true;
    *negative = minus;
    return *nan || plus || minus;
}

uint64_t nib_ref_t_fdpa(const struct nib_unit *unit, const struct nib_number *a, const struct nib_number *b,
                        size_t count, int scale_exponent, uint64_t c_bits) {
    struct nib_number c = nib_number_of_accumulator(unit->accumulator, c_bits);
    bool nan, negative;
    if (nib_ref_specials(a, b, count, c, &nan, &negative))
        return nan ? nib_nvidia_nan_bits(unit->accumulator) : nib_infinity_bits(unit->accumulator, negative);

    /* The largest exponent field; products are never renormalised, and zeros count as e_zero. */
    int largest = unit->e_zero;
    if (c.class != NIB_NUMBER_ZERO && c.exponent > largest) largest = c.exponent;
    for (size_t k = 0; k < count; k++)
        if (a[k].significand != 0 && b[k].significand != 0) {
            int exponent = a[k].exponent + b[k].exponent + scale_exponent;
            if (exponent > largest) largest = exponent;
        }

    int lsb = largest - unit->fraction_bits;
    int64_t sum = truncated(c.negative, c.significand, c.lsb, lsb);
    for (size_t k = 0; k < count; k++)
        if (a[k].significand != 0 && b[k].significand != 0)
            sum += truncated(a[k].negative != b[k].negative, a[k].significand * b[k].significand,
                             a[k].lsb + b[k].lsb + scale_exponent, lsb);
    return rounded(unit, sum, lsb);
}

uint64_t nib_ref_gst_fdpa(const struct nib_unit *unit, const struct nib_number *a, const struct nib_number *b,
                          size_t groups, const struct nib_number *scale_a, const struct nib_number *scale_b,
                          uint64_t c_bits) {
    struct nib_number c = nib_number_of_accumulator(unit->accumulator, c_bits);
    bool nan = c.class == NIB_NUMBER_NAN;
    for (size_t j = 0; j < groups; j++)
        if (scale_a[j].class == NIB_NUMBER_NAN || scale_b[j].class == NIB_NUMBER_NAN) nan = true;
    if (nan) return nib_nvidia_nan_bits(unit->accumulator);
    if (c.class == NIB_NUMBER_INFINITE) return nib_infinity_bits(unit->accumulator, c.negative);

    /* The dot of a group is exact, in units of 1/4. Its exponent is that of the scales alone. */
    int64_t dot[NIB_UNIT_BLOCK_MAX];
    int exponent[NIB_UNIT_BLOCK_MAX], largest = c.class == NIB_NUMBER_ZERO ? unit->e_zero : c.exponent;
    for (size_t j = 0; j < groups; j++) {
        bool all_zero = true;
        dot[j] = 0;
        for (size_t k = j * unit->group; k < (j + 1) * unit->group; k++) {
            int64_t product = (int64_t)(a[k].significand * b[k].significand) << (a[k].lsb + b[k].lsb + 2);
            if (product != 0) all_zero = false;
            dot[j] += a[k].negative != b[k].negative ? -product : product;
        }
        bool none = all_zero || scale_a[j].significand == 0 || scale_b[j].significand == 0;
        exponent[j] = none ? unit->e_zero : scale_a[j].exponent + scale_b[j].exponent;
        if (exponent[j] > largest) largest = exponent[j];
    }

    int lsb = largest - unit->fraction_bits;
    int64_t sum = truncated(c.negative, c.significand, c.lsb, lsb);
    for (size_t j = 0; j < groups; j++) {
        uint64_t magnitude = (uint64_t)(dot[j] < 0 ? -dot[j] : dot[j]);
        sum += truncated(dot[j] < 0, magnitude * scale_a[j].significand * scale_b[j].significand,
                         scale_a[j].lsb + scale_b[j].lsb - 2, lsb);
    }
    return rounded(unit, sum, lsb);
}

uint64_t nib_ref_add(enum nib_accumulator accumulator, uint64_t x_bits, uint64_t y_bits) {
    struct nib_number number[2] = {nib_number_of_accumulator(accumulator, x_bits),
                                   nib_number_of_accumulator(accumulator, y_bits)};
    float value[2], sum;
    for (int i = 0; i < 2; i++) { /* both formats fit binary32 */
        uint32_t bits =
            (uint32_t)nib_round_to_bits(NIB_RNE_FP32, number[i].negative, number[i].significand, false, number[i].lsb);
        if (number[i].class == NIB_NUMBER_INFINITE)
            bits = (uint32_t)nib_infinity_bits(NIB_ACC_FP32, number[i].negative);
        if (number[i].class == NIB_NUMBER_NAN) return nib_nvidia_nan_bits(accumulator);
        memcpy(&value[i], &bits, sizeof bits);
    }
    sum = value[0] + value[1];
    uint32_t bits;
    memcpy(&bits, &sum, sizeof bits);
    struct nib_number result = nib_number_of_accumulator(NIB_ACC_FP32, bits);
    if (result.class == NIB_NUMBER_NAN) return nib_nvidia_nan_bits(accumulator);
    if (accumulator == NIB_ACC_FP32) return bits;
    if (result.class == NIB_NUMBER_INFINITE) return nib_infinity_bits(accumulator, result.negative);
    /* 24 bits are more than twice 11 and two, so that the second rounding is innocuous. */
    return nib_round_to_bits(NIB_RNE_FP16, result.negative, result.significand, false, result.lsb);
}

uint64_t nib_ref_split_t_fdpa(const struct nib_unit *unit, const struct nib_number *a, const struct nib_number *b,
                              size_t count, uint64_t c) {
    /* FP8 is unpacked to FP16, where its subnormals are normal; k mod 4 in {0,1} goes first. */
    enum { FP16_EMIN = -14 };
    uint64_t r = 0;
    for (unsigned half = 0; half < 2; half++) {
        struct nib_number left[NIB_UNIT_BLOCK_MAX], right[NIB_UNIT_BLOCK_MAX];
        size_t taken = 0;
        for (size_t k = 0; k < count; k++)
            if (k % 4 / 2 == half) {
                left[taken] = nib_number_renormalised(a[k], FP16_EMIN);
                right[taken++] = nib_number_renormalised(b[k], FP16_EMIN);
            }
        r = nib_ref_t_fdpa(unit, left, right, taken, 0, r);
    }
    return nib_ref_add(unit->accumulator, c, r);
}
