/* Expectation without sampling: what a quantizer does to independent elements of a known density, by
 * exact sums and quadrature. In libnibble-expect, which needs GSL and is GPL with it. */
#ifndef NIBBLE_EXPECT_H
#define NIBBLE_EXPECT_H

#include <nibble/measure.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A density of independent elements. */
struct nib_density;

/* "gaussian" (variance 1), "laplace" and "logistic" (scale 1), "uniform" (on [-1, 1]), "tNU" (t3, t2.5),
 * "siluA" (silu(A N) N' with independent standard normal N, N'), "ggBETA" (generalised Gaussian,
 * density proportional to exp(-|x|^BETA)), "hist:FILE" (lines of edge and weight, NIB_ESYNTAX names the
 * line). The second moment must exist: NIB_EINVAL otherwise. */
NIB_API NIB_CHECK enum nib_status nib_density_open(const char *name, const struct nib_density **out,
                                                   struct nib_error *error);
/* `bins` + 1 ascending edges; the density is constant within a bin. */
NIB_API NIB_CHECK enum nib_status nib_density_from_histogram(const char *name, const double *edges,
                                                             const double *weights, size_t bins,
                                                             const struct nib_density **out, struct nib_error *error);
NIB_API void nib_density_close(const struct nib_density *density);
NIB_API const char *nib_density_name(const struct nib_density *density);
NIB_API double nib_density_pdf(const struct nib_density *density, double x);
/* Integrals of f, u f and u^2 f from 0 to x (negative x: with the sign that the direction gives). */
NIB_API void nib_density_partial(const struct nib_density *density, double x, double out[3]);
/* E|x|^order, for order 0 to 4; NIB_EINVAL where it is infinite. */
NIB_API NIB_CHECK enum nib_status nib_density_moment(const struct nib_density *density, unsigned order, double *out,
                                                     struct nib_error *error);

/* Expectations come as the sums over this many elements, so that they and measurements share one type. */
#define NIB_EXPECT_COUNT (UINT64_C(1) << 52)

struct nib_expect_options {
    bool has_tensor_amax;        /* of formats with a tensor scale; by default the median of 2^22 elements */
    float tensor_amax;
    unsigned sr_bits;            /* > 0: stochastic rounding with so many bits, whatever the quantizer's axes say */
    bool without_shape;          /* crest factor and kurtosis are not needed */
};

/* What a quantizer does to blocks of independent elements. The block's scale must be a function of its
 * largest magnitude: NIB_EUNAVAILABLE where it depends on the other elements (4over6), or where elements
 * are not rounded one by one. NIB_ECONVERGE when the quadrature does not converge. */
NIB_API NIB_CHECK enum nib_status nib_expect(const struct nib_quantizer *quantizer, const struct nib_density *density,
                                             const struct nib_expect_options *options, struct nib_sums *out,
                                             struct nib_error *error);

/* Many grids under one density and block size: the quadrature's nodes are laid once. The block scale is
 * amax / target exactly (a binary32 scale to all digits that matter). Threads may share a plan. */
struct nib_expect_plan;
NIB_API NIB_CHECK enum nib_status nib_expect_plan_new(const struct nib_density *density, unsigned block_size,
                                                      struct nib_expect_plan **out, struct nib_error *error);
NIB_API void nib_expect_plan_free(struct nib_expect_plan *plan);
/* target: what the block's largest magnitude is scaled to; 0: the grid's largest magnitude. */
NIB_API NIB_CHECK enum nib_status nib_expect_grid(const struct nib_expect_plan *plan, const struct nib_element *element,
                                                  enum nib_rounding mode, double target, unsigned sr_bits,
                                                  struct nib_sums *out, struct nib_error *error);
/* The same with one given scale and no blocks: x / scale is rounded. */
NIB_API NIB_CHECK enum nib_status nib_expect_fixed(const struct nib_density *density, const struct nib_element *element,
                                                   enum nib_rounding mode, double scale, unsigned sr_bits,
                                                   struct nib_sums *out, struct nib_error *error);
/* Means over blocks of max|x|/rms(x) and mean(x^4)/mean(x^2)^2. */
NIB_API NIB_CHECK enum nib_status nib_expect_shape(const struct nib_density *density, unsigned block_size,
                                                   double *crest, double *kurtosis, struct nib_error *error);

/* What a grid is judged by: smaller is better. */
enum nib_objective { NIB_OBJECTIVE_MSE, NIB_OBJECTIVE_ALPHA, NIB_OBJECTIVE_WEIGHTED };
/* The NMSE; |1 - alpha|; (1 - weight) NMSE + weight |1 - alpha|. */
NIB_API double nib_objective_value(enum nib_objective objective, double weight, const struct nib_bias *bias);
/* The best grid near `start` for blocks scaled to their maximum: its largest magnitude stays and so does a zero; other
 * levels move. MSE: Lloyd's iteration, each level to the centroid of its cell weighted by s^2. Otherwise a simplex
 * search from there. NIB_ECONVERGE when it does not settle. */
NIB_API NIB_CHECK enum nib_status nib_expect_best(const struct nib_expect_plan *plan, const struct nib_element *start,
                                                  enum nib_objective objective, double weight,
                                                  const struct nib_element **out, struct nib_error *error);
/* The exponent of the generalised Gaussian for whose blocks two grids give the same SQNR, between 0.5 and 12, by
 * root-finding; and the mean crest factor of its blocks. NIB_ECONVERGE where one grid is better throughout. */
NIB_API NIB_CHECK enum nib_status nib_expect_crossing(const struct nib_element *first, const struct nib_element *second,
                                                      unsigned block_size, double *exponent, double *crest,
                                                      struct nib_error *error);

/* The equations of UFP4 (arXiv 2606.20381) and of "INT v.s. FP" (arXiv 2510.25602), as printed. */

/* (2): mean error of an interior magnitude under a locally uniform density: (2 q_i - q_(i-1) - q_(i+1)) / 4.
 * NAN for the end bins, which the equation leaves out. `magnitude` counts from 0 in ascending order. */
NIB_API double nib_equation_bin_bias(const struct nib_element *element, unsigned magnitude);
/* (3): <Q(x), x>/||x||^2. */
NIB_API double nib_equation_alpha(const struct nib_sums *sums);
/* (4): gain of a product whose operands have these alphas. */
NIB_API double nib_equation_eta(double alpha_a, double alpha_b);
/* (5): the product of etas, and exp(-sum (1 - eta)). */
NIB_API double nib_equation_gain(const double *eta, size_t count);
NIB_API double nib_equation_gain_approximate(const double *eta, size_t count);
/* (6): exp(-sum p log(p + eps)) / K over the element's magnitudes. */
NIB_API double nib_equation_b_eff(const struct nib_element *element, const struct nib_sums *sums, double eps);
/* (7): 10 log10(nmse_raw / nmse_rotated). */
NIB_API double nib_equation_dsqnr(double nmse_raw, double nmse_rotated);

/* "INT v.s. FP": QSNR in dB of integer and minifloat grids. kappa: crest factor; rho: scale overhead of a
 * power-of-two scale, in [1, 2); block: block size, of the form for E4M3 scales, or 0 for the one with rho. */
NIB_API double nib_equation_qsnr_int(unsigned bits, double kappa, double rho, unsigned block);
struct nib_equation_float {
    unsigned mbits;              /* M */
    int bias;                    /* B, of the exponent: 1 for E2M1 */
    double max;                  /* Qmax: 6 for E2M1 */
    double w_norm, p_sub;        /* share of energy in normal numbers, share of subnormal elements */
};
NIB_API double nib_equation_qsnr_float(const struct nib_equation_float *f, double kappa, double rho, unsigned block);
/* w_norm and p_sub of a density whose block's largest magnitude kappa * rms lands on Qmax / rho. */
NIB_API void nib_equation_float_shares(const struct nib_density *density, double kappa, double rho,
                                       struct nib_equation_float *f);
/* The crest factor at which both formulas give the same QSNR, shares of the density included; NIB_ECONVERGE where
 * there is none between 1.05 and 30. */
NIB_API NIB_CHECK enum nib_status nib_equation_crossover(const struct nib_density *density, unsigned int_bits,
                                                         const struct nib_equation_float *f, double rho, unsigned block,
                                                         double *kappa, struct nib_error *error);

#ifdef __cplusplus
}
#endif
#endif
