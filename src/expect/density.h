/* A density and its partial moments. */
#ifndef NIB_EXPECT_DENSITY_H
#define NIB_EXPECT_DENSITY_H

#include <nibble/expect.h>

/* What a density function gives for x > 0 of a symmetric density: integrals of f, u f, u^2 f from 0 to x, and x f(x).
 */
enum { NIB_DENSITY_VALUES = 4 };

/* Chebyshev series over pieces of equal length in log2(x). */
enum { NIB_DENSITY_TERMS = 16 };
struct nib_density_table {
    double low, high; /* range of x */
    double pieces_per_octave;
    size_t pieces;
    double (*series)[NIB_DENSITY_VALUES][NIB_DENSITY_TERMS];
};

struct nib_density {
    char name[256];
    double parameter;
    bool symmetric;
    double half[3]; /* symmetric: the integrals from 0 to infinity */
    double fourth;  /* E x^4, INFINITY where there is none */
    double largest; /* support ends here; INFINITY */
    /* Exact and perhaps slow, x > 0. */
    void (*values)(const struct nib_density *density, double x, double out[NIB_DENSITY_VALUES]);
    /* Integrals from x to infinity to full relative precision; NULL where tails are so light that nobody needs them. */
    void (*tails)(const struct nib_density *density, double x, double out[3]);
    struct nib_density_table table; /* no pieces: the function is fast */
    /* Histogram, or mixture of Gaussians with these scales and weights. */
    size_t count;
    double *edge, *weight;  /* histogram: edges, heights; mixture: scales, weights */
    double (*cumulated)[3]; /* histogram: integrals from the first edge */
};

/* All four values at x > 0 of a symmetric density. */
void nib_density_values(const struct nib_density *density, double x, double out[NIB_DENSITY_VALUES]);
/* Tabulates `values` between the magnitudes that matter, in pieces of so many octaves. */
enum nib_status nib_density_tabulate(struct nib_density *density, double octaves, struct nib_error *error);

/* The kinds, each in its file; false for a parameter that has no second moment or makes no sense. */
enum nib_status nib_density_closed(const char *name, struct nib_density *out, bool *known, struct nib_error *error);
enum nib_status nib_density_special(const char *name, struct nib_density *out, bool *known, struct nib_error *error);
enum nib_status nib_density_gated(const char *name, struct nib_density *out, bool *known, struct nib_error *error);
enum nib_status nib_density_read_histogram(const char *path, const struct nib_density **out, struct nib_error *error);

/* The public functions without the guard, for callers that have it. */
void nib_density_integrals(const struct nib_density *density, double x, double out[3]);
/* The same from a to b, 0 <= a < b or a < b <= 0, precise in the tails. */
void nib_density_between(const struct nib_density *density, double a, double b, double out[3]);
/* P(|x| > y), precise in the tails. */
double nib_density_beyond(const struct nib_density *density, double y);
double nib_density_at(const struct nib_density *density, double x);
/* P(|x| <= y). */
double nib_density_share(const struct nib_density *density, double y);
/* The magnitude below which the largest of `count` elements lies with probability p. */
double nib_density_quantile(const struct nib_density *density, double p, double count);
/* A magnitude of at least `from` beyond which a share `missing` of the second moment lies, next to nothing where
 * binary32 reaches so far. */
double nib_density_energy_bound(const struct nib_density *density, double from, double *missing);
/* f(x) + f(-x). */
double nib_density_magnitude_pdf(const struct nib_density *density, double x);

#endif
