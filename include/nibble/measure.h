/* What a quantizer did to a tensor: per-level bias, alpha, bucket utilization, SQNR. */
#ifndef NIBBLE_MEASURE_H
#define NIBBLE_MEASURE_H

#include <nibble/quantize.h>
#include <nibble/rotate.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sums over elements; every field adds, so chunks, threads and ranks merge exactly by a fixed tree.
 * t = |x|/s in units of the element grid, s the decode scale of the block (tensor scale included);
 * q = |level| that was chosen. Elements of blocks whose scale is 0, and NaN or infinite elements, are
 * counted and left out of the sums over t, but stay in the sums over x where finite. */
struct nib_sums {
    uint64_t count;              /* finite elements */
    uint64_t nan_count, inf_count;
    uint64_t zero_scale_count;   /* finite elements in blocks whose decode scale is 0 */
    uint64_t code_count[NIB_CODES];
    double code_error[NIB_CODES]; /* sum of (q - t), by code */
    double sum_t;                /* sum of t over elements with a nonzero scale */
    double xx, xq, qq;           /* sums of x^2, x*Q(x), Q(x)^2 */
    double ee;                   /* sum of (Q(x) - x)^2 */
};

NIB_API void nib_sums_add(struct nib_sums *into, const struct nib_sums *from);

/* Derived from one nib_sums. Undefined quantities (0/0) are NAN. */
struct nib_bias {
    double b;                    /* E[rho(t) - t], UFP4 eq. (1), end bins included */
    double b_relative;           /* b / E[t] */
    double alpha;                /* <Q(x), x> / ||x||^2, UFP4 eq. (3) */
    double one_minus_alpha;
    double b_eff;                /* UFP4 eq. (6): exp(entropy of magnitude buckets) / K */
    double sqnr_db;              /* 10 log10(||x||^2 / ||Q(x) - x||^2) */
    double nmse;                 /* ||Q(x) - x||^2 / ||x||^2 */
    double norm_ratio;           /* ||Q(x)|| / ||x|| */
};
NIB_API void nib_bias_of(const struct nib_element *element, const struct nib_sums *sums, struct nib_bias *out);

#ifdef __cplusplus
}
#endif
#endif
