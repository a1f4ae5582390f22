/* Random tensors with independent elements. Element i depends on distribution, seed and i alone. */
#ifndef NIB_JOB_SAMPLE_H
#define NIB_JOB_SAMPLE_H

#include <stddef.h>
#include <nibble/status.h>

enum nib_density_kind {
    NIB_DENSITY_GAUSSIAN,
    NIB_DENSITY_LAPLACE,
    NIB_DENSITY_LOGISTIC,
    NIB_DENSITY_STUDENT, /* parameter: degrees of freedom */
    NIB_DENSITY_UNIFORM, /* on [-1, 1] */
    NIB_DENSITY_SILU,    /* silu(a N) N' with N, N' standard normal and independent; parameter: a */
    NIB_DENSITY_POWER,   /* generalised Gaussian, density proportional to exp(-|x|^a); parameter: a */
    NIB_DENSITY_OUTLIER  /* Gaussian, every 16th element times a: a channel of outliers; not identically distributed */
};

struct nib_distribution {
    enum nib_density_kind kind;
    double parameter;
    char name[32]; /* "gaussian", "t3", "silu4" */
};

/* "gaussian", "laplace", "logistic", "uniform", "tNU" (t3, t2.5), "siluA" (silu1, silu4), "ggBETA" (gg0.5), "outlierA"
 * (outlier30). */
NIB_CHECK enum nib_status nib_distribution_parse(const char *name, struct nib_distribution *out,
                                                 struct nib_error *error);
/* Elements [first, first + count) of the stream. */
void nib_distribution_fill(const struct nib_distribution *distribution, uint64_t seed, uint64_t first, size_t count,
                           int threads, float *out);

#endif
