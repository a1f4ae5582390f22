/* The cells of a rounding rule, and what the elements in them add. */
#ifndef NIB_EXPECT_CELLS_H
#define NIB_EXPECT_CELLS_H

#include "expect/density.h"

/* Expected sums per element; adds and scales like a vector. */
struct nib_moments {
    double share[NIB_CODES], error[NIB_CODES];              /* by code: elements, and level - t */
    double xs[NIB_CODES], ss[NIB_CODES], second[NIB_CODES]; /* by code: x s, s^2, x^2 */
    double sum_t, xx, xq, qq, ee;
    double clipped, underflow, zero_scale, bad_scale;
};
void nib_moments_add(struct nib_moments *into, double weight, const struct nib_moments *from);
/* As sums over NIB_EXPECT_COUNT elements. */
void nib_moments_sums(const struct nib_moments *moments, struct nib_sums *out);

/* Deterministic rounding: rank r takes border[r - 1] <= t < border[r], t = x/s. Stochastic: between neighbouring
 * levels the one away from zero is taken with probability floor(2^n p)/2^n, p the discarded fraction. */
struct nib_cells {
    unsigned ranks;
    double border[NIB_CODES]; /* the first ranks - 1 */
    double level[NIB_CODES];  /* by rank, ascending and distinct but for -0 and +0 */
    uint8_t code[NIB_CODES];  /* by rank */
    bool mirrored;            /* borders and levels are symmetric about zero */
    double clip;
    unsigned sr_bits;      /* 0: deterministic */
    double below;          /* share of block maxima that binary32 division puts next below the level they belong on */
    uint8_t negative_zero; /* code of what rounds to zero from below */
    uint8_t zero;          /* and from above */
};
/* bf16: elements are rounded to bfloat16 first. drop_zero: -0 becomes +0. */
void nib_cells_make(const struct nib_element *element, enum nib_rounding mode, unsigned sr_bits, bool bf16,
                    bool drop_zero, struct nib_cells *out);

/* Adds what an element adds whose density is f on [-bound, bound] and 0 elsewhere (not renormalised), at scale s > 0.
 * bound may be infinite. */
void nib_cells_add(const struct nib_cells *cells, const struct nib_density *density, double bound, double s,
                   double weight, struct nib_moments *out);
/* The same for low < |x| <= high. */
void nib_cells_add_shell(const struct nib_cells *cells, const struct nib_density *density, double low, double high,
                         double s, double weight, struct nib_moments *out);
/* The same for the two elements +x and -x, with these weights: what the block's maximum adds. */
void nib_cells_add_point(const struct nib_cells *cells, double x, double positive, double negative, double s,
                         struct nib_moments *out);
/* low < |x| <= high in a block whose scale is 0 (everything becomes 0) or not a number (everything is left out). */
void nib_cells_add_zero(const struct nib_density *density, double low, double high, bool bad, double weight,
                        struct nib_moments *out);

#endif
