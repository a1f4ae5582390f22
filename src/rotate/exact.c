/* Sums of binary32 numbers without any rounding but the last. */
#include "core/key.h"
#include "rotate/rotation.h"

#include <math.h>
#include <string.h>

/* Integers of 32-bit digits, lowest first. A binary32 number is an integer times 2^-149 below 2^278; a sum of 2^16
 * of them times a 24-bit factor has 318 bits. */
enum { DIGITS = 10, SQUARED = 2 * DIGITS + 4 };

static void add_number(int64_t digit[DIGITS], float x, int sign) {
    uint32_t bits = nib_bits_of_float(x), exponent = bits >> 23 & 0xFF;
    uint64_t significand = (bits & 0x7FFFFF) | (uint64_t)(exponent > 0) << 23;
    unsigned place = exponent > 0 ? exponent - 1 : 0;
    significand <<= place % 32;
    bool minus = (bits >> 31 != 0) != (sign < 0);
    int64_t low = (int64_t)(significand & 0xFFFFFFFF), high = (int64_t)(significand >> 32);
    digit[place / 32] += minus ? -low : low;
    digit[place / 32 + 1] += minus ? -high : high;
}

/* Settles carries; the magnitude in `out`, true where the sum is negative. */
static bool settle(int64_t digit[DIGITS], uint32_t out[DIGITS]) {
    int64_t carry = 0;
    for (int i = 0; i < DIGITS; i++) {
        int64_t sum = digit[i] + carry;
        carry = sum >> 32;
        digit[i] = sum & 0xFFFFFFFF;
    }
    bool negative = carry < 0;
    uint64_t borrow = 1;
    for (int i = 0; i < DIGITS; i++) {
        uint64_t d = negative ? (uint64_t)(~digit[i] & 0xFFFFFFFF) + borrow : (uint64_t)digit[i];
        borrow = negative ? d >> 32 : 0;
        out[i] = (uint32_t)d;
    }
    return negative;
}

static int bits_of(const uint32_t *x, int digits) {
    for (int i = digits; i-- > 0;)
        if (x[i] != 0) return 32 * i + 32 - __builtin_clz(x[i]);
    return 0;
}

static void multiply_small(uint32_t *x, int digits, uint32_t factor) {
    uint64_t carry = 0;
    for (int i = 0; i < digits; i++) {
        carry += (uint64_t)x[i] * factor;
        x[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

/* out = x * x */
static void square(const uint32_t x[DIGITS], uint32_t out[SQUARED]) {
    memset(out, 0, SQUARED * sizeof *out);
    for (int i = 0; i < DIGITS; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < DIGITS; j++) {
            carry += (uint64_t)x[i] * x[j] + out[i + j];
            out[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        out[i + DIGITS] = (uint32_t)carry;
    }
}

/* value << shift, for values of at most 64 bits. */
static bool shifted(uint64_t value, int shift, uint32_t out[SQUARED]) {
    memset(out, 0, SQUARED * sizeof *out);
    for (int bit = 0; bit < 64; bit++)
        if (value >> bit & 1) {
            if (bit + shift < 0 || bit + shift >= 32 * SQUARED) return false;
            out[(bit + shift) / 32] |= 1u << (bit + shift) % 32;
        }
    return true;
}
static int compare(const uint32_t a[SQUARED], const uint32_t b[SQUARED]) {
    for (int i = SQUARED; i-- > 0;)
        if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    return 0;
}

/* sqrt(sum^2 / root) * 2^unit to nearest, ties to even. The candidate of binary64 is off by one step at most, and
 * sum^2 against root * middle^2 decides between neighbours, without rounding. */
static float root_of(const uint32_t sum[DIGITS], int unit, unsigned root) {
    int bits = bits_of(sum, DIGITS), low = bits > 60 ? bits - 60 : 0;
    if (bits == 0) return 0;
    uint64_t top = 0;
    for (int i = 60; i-- > 0;)
        if (low + i < 32 * DIGITS) top = top << 1 | (sum[(low + i) / 32] >> (low + i) % 32 & 1);
    double estimate = ldexp((double)top / sqrt((double)root), low + unit);
    float candidate = (float)estimate;
    if (isinf(candidate)) candidate = 3.40282346638528859812e38f;
    uint32_t left[SQUARED], right[SQUARED];
    square(sum, left);
    for (int step = -1; step <= 1; step++) {
        /* the middle between a and its successor: an odd number of half steps of a */
        float a = step < 0 ? nextafterf(candidate, 0) : candidate;
        if (step > 0) a = nextafterf(candidate, INFINITY);
        uint32_t a_bits = nib_bits_of_float(a), exponent = a_bits >> 23;
        uint64_t middle = 2 * ((uint64_t)(a_bits & 0x7FFFFF) | (uint64_t)(exponent > 0) << 23) + 1;
        int place = (int)(exponent > 0 ? exponent - 1 : 0) - 149 - 1 - unit; /* of its unit, in units of the sum */
        /* root * middle^2 * 2^(2 place) against sum^2; a middle below the sum's unit is far below the sum */
        uint64_t product = middle * middle;
        int order;
        uint32_t doubled[SQUARED];
        if (2 * place < 0) {
            memcpy(doubled, left, sizeof doubled);
            for (int k = 0; k < -2 * place; k++) multiply_small(doubled, SQUARED, 2);
            order = shifted(product, 0, right) ? (multiply_small(right, SQUARED, root), compare(doubled, right)) : 1;
        } else
            order = shifted(product, 2 * place, right) ? (multiply_small(right, SQUARED, root), compare(left, right)) : -1;
        if (order < 0 || (order == 0 && a_bits % 2 == 0)) return a;
        if (order == 0) return nextafterf(a, INFINITY);
    }
    return nextafterf(candidate, INFINITY);
}

float nib_exact_sum(const float *x, unsigned count, int (*sign)(const void *context, unsigned i), const void *context,
                    float factor, unsigned root) {
    int64_t digit[DIGITS] = {0};
    float special = 0;
    bool any = false;
    for (unsigned i = 0; i < count; i++) {
        if (!isfinite(x[i])) {
            special += x[i] * (float)sign(context, i);
            any = true;
        } else
            add_number(digit, x[i], sign(context, i));
    }
    if (any) return special * factor;
    uint32_t sum[DIGITS];
    bool negative = settle(digit, sum);
    int exponent = 0;
    uint32_t significand = (uint32_t)ldexpf(frexpf(fabsf(factor), &exponent), 24);
    multiply_small(sum, DIGITS, significand);
    float result = root_of(sum, -149 + exponent - 24, root);
    return negative != (factor < 0) ? -result : result;
}
