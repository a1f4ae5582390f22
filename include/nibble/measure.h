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
 * q = |level| that was chosen; Q(x) = level * s, exact in binary64.
 * Left out of every sum, and only counted: NaN and infinite elements, and finite elements of blocks
 * whose decode scale is not finite. Elements of blocks whose decode scale is 0 have no t and no level
 * that matters: they stay in the sums over x and Q(x) = 0, and out of those by level. */
struct nib_sums {
    uint64_t count;              /* finite elements in blocks with a finite decode scale */
    uint64_t nan_count, inf_count;
    uint64_t bad_scale_count;    /* finite elements in blocks whose decode scale is not finite */
    uint64_t zero_scale_count;   /* finite elements in blocks whose decode scale is 0 */
    uint64_t clipped_count;      /* t beyond the largest |level| by more than binary32 rounding */
    uint64_t underflow_count;    /* x != 0 and Q(x) = 0 */
    uint64_t code_count[NIB_CODES];
    double code_error[NIB_CODES]; /* sum of (q - t), by code */
    double sum_t;                /* sum of t over elements with a nonzero scale */
    double xx, xq, qq;           /* sums of x^2, x*Q(x), Q(x)^2 */
    double ee;                   /* sum of (Q(x) - x)^2 */
    uint64_t block_count;        /* blocks of finite elements that are not all 0 */
    double crest_sum;            /* over these: max|x| / rms(x) */
    double kurtosis_sum;         /* over these: mean(x^4) / mean(x^2)^2 */
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
    double cosine;               /* <Q(x), x> / (||Q(x)|| ||x||) */
    double nmse_coherent;        /* (1 - alpha)^2: what a common gain would explain */
    double nmse_incoherent;      /* nmse - (1 - alpha)^2 */
    double b_zero;               /* the parts of b: from elements that became 0, */
    double b_interior;           /* from levels between 0 and the largest, */
    double b_top;                /* and from the largest magnitude of either sign */
    double clipped;              /* share of elements with t beyond the largest level */
    double underflow;            /* share of elements that are not 0 and became 0 */
    double crest;                /* mean over blocks of max|x|/rms(x), "INT v.s. FP"'s kappa */
    double kurtosis;             /* mean over blocks of mean(x^4)/mean(x^2)^2; 16 Gaussians: 3 * 16/18 */
    double code_entropy;         /* of the codes, in bits */
};
NIB_API void nib_bias_of(const struct nib_element *element, const struct nib_sums *sums, struct nib_bias *out);

/* The fields of struct nib_bias by number: field, heading, units, decimals, long name */
#define NIB_STATISTIC_LIST(X)                                                                                     \
    X(b, "b", "1", 5, "shrinkage bias E[rho(t) - t], t = |x|/s")                                                  \
    X(b_relative, "b/E[t]", "1", 5, "shrinkage bias relative to the mean of t")                                   \
    X(alpha, "alpha", "1", 5, "coherent gain <Q(x), x>/||x||^2")                                                  \
    X(one_minus_alpha, "1-alpha", "1", 5, "coherent loss per operand")                                            \
    X(b_eff, "B_eff", "1", 4, "bucket utilization exp(entropy)/K")                                                \
    X(sqnr_db, "SQNR dB", "dB", 3, "signal to quantization noise ratio")                                          \
    X(nmse, "NMSE", "1", -4, "noise energy ||Q(x) - x||^2/||x||^2")                                               \
    X(norm_ratio, "norm ratio", "1", 5, "||Q(x)||/||x||")                                                         \
    X(cosine, "cosine", "1", 5, "cosine of the angle between Q(x) and x")                                         \
    X(nmse_coherent, "(1-alpha)^2", "1", -3, "part of the noise energy that a common gain explains")              \
    X(nmse_incoherent, "incoherent", "1", -4, "part of the noise energy without the common gain")                 \
    X(b_zero, "b zero", "1", 5, "part of b from elements that became 0")                                          \
    X(b_interior, "b interior", "1", 5, "part of b from the levels between 0 and the largest")                    \
    X(b_top, "b top", "1", 5, "part of b from the largest magnitude")                                             \
    X(clipped, "clipped", "1", -3, "share of elements beyond the largest level")                                  \
    X(underflow, "underflow", "1", -3, "share of nonzero elements that became 0")                                 \
    X(crest, "crest", "1", 3, "crest factor max|x|/rms(x), mean over blocks")                                     \
    X(kurtosis, "kurtosis", "1", 3, "kurtosis mean(x^4)/mean(x^2)^2, mean over blocks")                           \
    X(code_entropy, "entropy", "bit", 3, "entropy of the element codes")

enum nib_statistic {
#define NIB_STATISTIC_ENUM(field, heading, units, digits, long_name) NIB_STATISTIC_##field,
    NIB_STATISTIC_LIST(NIB_STATISTIC_ENUM)
#undef NIB_STATISTIC_ENUM
    NIB_STATISTICS
};
NIB_API double nib_bias_get(const struct nib_bias *bias, enum nib_statistic statistic);
NIB_API const char *nib_statistic_name(enum nib_statistic statistic); /* "sqnr_db" */

/* The sums of a tensor, and of its batches: up to 32 runs of consecutive rows (of consecutive columns
 * where there are too few rows), from which standard errors are jackknifed. */
enum { NIB_BATCHES = 32, NIB_SCALE_BINS = 256 };
struct nib_measurement {
    const struct nib_element *element; /* the quantizer's, which must stay open */
    bool batches_of_rows;
    size_t unit;                 /* rows or columns that stay together */
    unsigned batches;
    struct nib_sums batch[NIB_BATCHES];
    struct nib_sums total;       /* of the batches, by a fixed tree */
    float bits_per_value;        /* of the block format, its block scales included */
    /* Blocks by scale: the code of an 8-bit scale, the exponent field of a wider one. */
    uint64_t scale_count[NIB_SCALE_BINS];
};

struct nib_measure_options {
    /* Batches contain whole groups of `along` elements along the reduction axis and `across` across
     * it; the quantizer's own block counts anyway. Measurements to be compared pair by pair (other
     * block, rotated or not) must be given the same numbers. 0: nothing beyond the block. */
    size_t along, across;
    int threads;                 /* 0: OMP_NUM_THREADS or all; no bit depends on it */
};

/* Compares x, which is what was quantized (after the rotation, where there is one), with codes and
 * scales of q. */
NIB_API NIB_CHECK enum nib_status nib_measure(const struct nib_quantizer *quantizer, struct nib_view x,
                                              const struct nib_quantized *q, const struct nib_measure_options *options,
                                              struct nib_measurement *out, struct nib_error *error);

/* A value with its standard error; NAN where there are fewer than two batches. */
struct nib_estimate {
    double value, error;
};
NIB_API void nib_measurement_estimates(const struct nib_measurement *measurement,
                                       struct nib_estimate out[NIB_STATISTICS]);
/* left - right, each pair of batches left out together; with different batches the errors add as
 * if independent. */
NIB_API void nib_measurement_differences(const struct nib_measurement *left, const struct nib_measurement *right,
                                         struct nib_estimate out[NIB_STATISTICS]);

/* One level: the elements that were given this code. */
struct nib_level_estimate {
    uint64_t count;
    struct nib_estimate share;   /* of the elements that have a level */
    struct nib_estimate error;   /* mean of rho(t) - t */
};
NIB_API void nib_measurement_level(const struct nib_measurement *measurement, uint8_t code,
                                   struct nib_level_estimate *out);
/* The same for a magnitude: both signs and both zeros together. */
NIB_API void nib_measurement_magnitude(const struct nib_measurement *measurement, unsigned magnitude,
                                       struct nib_level_estimate *out);

#ifdef __cplusplus
}
#endif
#endif
