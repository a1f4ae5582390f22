/* How like one array is to another: sums that add. */
#ifndef NIB_STACK_LIKENESS_H
#define NIB_STACK_LIKENESS_H

#include <math.h>
#include <nibble/measure.h>
#include <stddef.h>

struct nib_likeness {
    double xx, xq, qq, ee; /* sums of x^2, x q, q^2, (q - x)^2 */
};

/* x against q, one line of `count` elements after the other in a fixed order. */
void nib_likeness_f64(struct nib_likeness *to, size_t count, const double *x, const double *q);
void nib_likeness_f32(struct nib_likeness *to, size_t count, const double *x, const float *q);
void nib_likeness_plain(struct nib_likeness *to, size_t count, const float *x, const float *q);
void nib_likeness_add(struct nib_likeness *to, const struct nib_likeness *from);

static inline double nib_likeness_gain(const struct nib_likeness *l) { return l->xq / l->xx; }
static inline double nib_likeness_norm(const struct nib_likeness *l) { return sqrt(l->qq / l->xx); }
static inline double nib_likeness_cosine(const struct nib_likeness *l) { return l->xq / sqrt(l->xx * l->qq); }
static inline double nib_likeness_sqnr(const struct nib_likeness *l) { return 10 * log10(l->xx / l->ee); }
/* R = ||g|| / (sigma sqrt(d)), sigma^2 the mean square of the noise: "FP4 All the Way". */
static inline double nib_likeness_stall(const struct nib_likeness *l) { return sqrt(l->xx / l->ee); }

/* A function of the sum of all parts, with its standard error by leaving out one part at a time; NAN with one part. */
typedef double nib_likeness_function(const struct nib_likeness *likeness);
struct nib_estimate nib_likeness_estimate(const struct nib_likeness *part, size_t parts,
                                          nib_likeness_function *function);
/* left - right, each pair of parts left out together. */
struct nib_estimate nib_likeness_difference(const struct nib_likeness *left, const struct nib_likeness *right,
                                            size_t parts, nib_likeness_function *function);
struct nib_likeness nib_likeness_total(const struct nib_likeness *part, size_t parts);

#endif
