/* A superaccumulator: sums of products of any numbers used here, exactly. */
#ifndef NIB_UNIT_EXACT_H
#define NIB_UNIT_EXACT_H

#include <nibble/unit.h>

/* A signed fixed-point number in digits of 32 bits, digit i weighs 2^(32 i + NIB_EXACT_LSB). Digits
 * are kept in 64 bits, so that carries wait: call nib_exact_carry at least once in 2^30 additions. */
enum { NIB_EXACT_DIGITS = 56, NIB_EXACT_LSB = -896, NIB_EXACT_EVERY = 1 << 30 };
struct nib_exact {
    int64_t digit[NIB_EXACT_DIGITS];
};

void nib_exact_clear(struct nib_exact *x);
/* Adds significand * 2^lsb. The value must lie within 2^-896 and 2^895. */
void nib_exact_add(struct nib_exact *x, bool negative, uint64_t significand, int lsb);
void nib_exact_add_wide(struct nib_exact *x, bool negative, unsigned __int128 significand, int lsb);
/* Adds y * factor. */
void nib_exact_add_multiple(struct nib_exact *x, const struct nib_exact *y, double factor);
/* Adds a finite binary64 number; binary32 numbers are such. */
void nib_exact_add_double(struct nib_exact *x, double value);
void nib_exact_add_exact(struct nib_exact *x, const struct nib_exact *y, int sign);
void nib_exact_carry(struct nib_exact *x);
/* A finite binary64 number as an odd (or zero) integer and a power of two. */
void nib_exact_split(double value, int64_t *significand, int *lsb);
/* Sign (-1, 0, 1), the leading 64 bits of the magnitude, the exponent of their last bit, and whether
 * anything nonzero lies below. */
int nib_exact_leading(const struct nib_exact *x, uint64_t *magnitude, int *lsb, bool *sticky);
/* The nearest binary64, ties to even. */
double nib_exact_value(const struct nib_exact *x);

#endif
