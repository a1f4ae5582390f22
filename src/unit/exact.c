#include "unit/exact.h"

#include <math.h>
#include <string.h>

void nib_exact_clear(struct nib_exact *x) { memset(x, 0, sizeof *x); }

void nib_exact_add(struct nib_exact *x, bool negative, uint64_t significand, int lsb) {
    unsigned offset = (unsigned)(lsb - NIB_EXACT_LSB), digit = offset / 32, shift = offset % 32;
    unsigned __int128 wide = (unsigned __int128)significand << shift;
    int64_t d0 = (int64_t)(uint32_t)wide, d1 = (int64_t)(uint32_t)(wide >> 32), d2 = (int64_t)(wide >> 64);
    if (negative) d0 = -d0, d1 = -d1, d2 = -d2;
    x->digit[digit] += d0;
    x->digit[digit + 1] += d1;
    x->digit[digit + 2] += d2;
}

/* Carries, and negates what is negative; true where it did. A negative number has all its high digits set. */
static bool make_positive(struct nib_exact *x) {
    nib_exact_carry(x);
    if (x->digit[NIB_EXACT_DIGITS - 1] >= 0) return false;
    for (int i = 0; i < NIB_EXACT_DIGITS; i++) x->digit[i] = -x->digit[i];
    nib_exact_carry(x);
    return true;
}

void nib_exact_add_wide(struct nib_exact *x, bool negative, unsigned __int128 significand, int lsb) {
    nib_exact_add(x, negative, (uint64_t)significand, lsb);
    if (significand >> 64 != 0) nib_exact_add(x, negative, (uint64_t)(significand >> 64), lsb + 64);
}

void nib_exact_split(double value, int64_t *significand, int *lsb) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t mantissa = bits & 0xFFFFFFFFFFFFF, field = bits >> 52 & 0x7FF;
    if (field != 0) mantissa |= 1ULL << 52;
    *significand = 0, *lsb = 0;
    if (mantissa == 0) return;
    int zeros = __builtin_ctzll(mantissa);
    *lsb = (int)(field != 0 ? field : 1) - 1075 + zeros;
    *significand = (int64_t)(mantissa >> zeros);
    if (bits >> 63) *significand = -*significand;
}

void nib_exact_add_double(struct nib_exact *x, double value) {
    int64_t significand;
    int lsb;
    nib_exact_split(value, &significand, &lsb);
    if (significand != 0)
        nib_exact_add(x, significand < 0, (uint64_t)(significand < 0 ? -significand : significand), lsb);
}

void nib_exact_add_multiple(struct nib_exact *x, const struct nib_exact *y, double factor) {
    int64_t significand;
    int lsb;
    struct nib_exact size = *y;
    nib_exact_split(factor, &significand, &lsb);
    if (significand == 0) return;
    bool negative = make_positive(&size) != (significand < 0);
    uint64_t magnitude = (uint64_t)(significand < 0 ? -significand : significand);
    for (int i = 0; i < NIB_EXACT_DIGITS; i++)
        if (size.digit[i] != 0)
            nib_exact_add_wide(x, negative, (unsigned __int128)(uint64_t)size.digit[i] * magnitude,
                               lsb + 32 * i + NIB_EXACT_LSB);
    nib_exact_carry(x);
}

void nib_exact_add_exact(struct nib_exact *x, const struct nib_exact *y, int sign) {
    for (int i = 0; i < NIB_EXACT_DIGITS; i++) x->digit[i] += sign * y->digit[i];
    nib_exact_carry(x);
}

void nib_exact_carry(struct nib_exact *x) {
    int64_t carry = 0;
    for (int i = 0; i < NIB_EXACT_DIGITS - 1; i++) {
        int64_t sum = x->digit[i] + carry;
        carry = sum >> 32; /* floor */
        x->digit[i] = sum & 0xFFFFFFFF;
    }
    x->digit[NIB_EXACT_DIGITS - 1] += carry;
}

int nib_exact_leading(const struct nib_exact *x, uint64_t *magnitude, int *lsb, bool *sticky) {
    struct nib_exact y = *x;
    bool negative = make_positive(&y);
    int top = NIB_EXACT_DIGITS - 1;
    while (top >= 0 && y.digit[top] == 0) top--;
    *magnitude = 0, *lsb = 0, *sticky = false;
    if (top < 0) return 0;
    /* Up to three digits hold the leading 64 bits. */
    unsigned __int128 wide = 0;
    for (int i = 0; i < 3; i++) wide = wide << 32 | (uint64_t)(top - i >= 0 ? y.digit[top - i] : 0);
    int below = top - 3, exponent = 32 * (top - 2) + NIB_EXACT_LSB;
    int drop = 32 - __builtin_clz((unsigned)(uint32_t)y.digit[top]); /* the top digit's length */
    *sticky = (wide & (((unsigned __int128)1 << drop) - 1)) != 0;
    for (int i = below; i >= 0 && !*sticky; i--) *sticky = y.digit[i] != 0;
    *magnitude = (uint64_t)(wide >> drop);
    *lsb = exponent + drop;
    return negative ? -1 : 1;
}

double nib_exact_value(const struct nib_exact *x) {
    uint64_t magnitude;
    int lsb;
    bool sticky;
    int sign = nib_exact_leading(x, &magnitude, &lsb, &sticky);
    if (sign == 0) return 0;
    uint64_t kept = magnitude >> 11, rest = magnitude & 0x7FF;
    if (rest > 0x400 || (rest == 0x400 && (sticky || (kept & 1)))) kept++;
    return sign * ldexp((double)kept, lsb + 11);
}
