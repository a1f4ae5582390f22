/* Crest factor and kurtosis of blocks. Given the maximum m, with r = |x|/m of the other elements,
 *     max/rms = sqrt(B) (1 + sum r^2)^(-1/2),   mean x^4/(mean x^2)^2 = B (1 + sum r^4) (1 + sum r^2)^(-2),
 * and powers of a sum of independent terms become products through
 *     S^(-1/2) = 2/sqrt(pi) int_0^inf exp(-w^2 S) dw,     S^(-2) = int_0^inf 2 w^3 exp(-w^2 S) dw. */
#include "base/error.h"
#include "expect/density.h"
#include "expect/guard.h"
#include <gsl/gsl_integration.h>
#include <math.h>

enum { POINTS = 24, W_PIECES = 2, R_PIECES = 6 };

struct nodes {
    double x[POINTS * 8], weight[POINTS * 8];
    size_t count;
};

static void add_nodes(struct nodes *nodes, const gsl_integration_glfixed_table *table, double a, double b) {
    for (size_t i = 0; i < POINTS; i++, nodes->count++)
        gsl_integration_glfixed_point(a, b, i, &nodes->x[nodes->count], &nodes->weight[nodes->count], table);
}

/* E[exp(-w^2 r^2)] and E[r^4 exp(-w^2 r^2)] under |x| <= m. */
static void transform(const struct nodes *r, const double *density, double share, double w, double *plain,
                      double *fourth) {
    double a = 0, b = 0;
    for (size_t i = 0; i < r->count; i++) {
        double square = r->x[i] * r->x[i], term = density[i] * exp(-w * w * square);
        a += term;
        b += term * square * square;
    }
    *plain = a / share;
    *fourth = b / share;
}

static void at_maximum(const struct nib_density *density, double m, unsigned block, const struct nodes *r,
                       const struct nodes *w, double *crest, double *kurtosis) {
    double f[POINTS * 8], share = 0, B = block;
    for (size_t i = 0; i < r->count; i++) {
        f[i] = r->weight[i] * m * nib_density_magnitude_pdf(density, r->x[i] * m);
        share += f[i];
    }
    *crest = *kurtosis = 0;
    for (size_t i = 0; i < w->count; i++) {
        double x = w->x[i], plain, fourth, gauss = w->weight[i] * exp(-x * x);
        transform(r, f, share, x, &plain, &fourth);
        double power = pow(plain, B - 1);
        *crest += gauss * power;
        *kurtosis += gauss * 2 * x * x * x * (power + (block < 2 ? 0 : (B - 1) * fourth * power / plain));
    }
    *crest *= sqrt(B) * 2 / sqrt(3.14159265358979323846);
    *kurtosis *= B;
}

enum nib_status nib_expect_shape(const struct nib_density *density, unsigned block_size, double *crest,
                                 double *kurtosis, struct nib_error *error) {
    if (block_size < 1) return nib_fail(error, NIB_EINVAL, "a block has at least one element");
    if (block_size == 1) {
        *crest = *kurtosis = 1;
        return NIB_OK;
    }
    struct nib_guard guard = nib_guard_enter();
    gsl_integration_glfixed_table *table = gsl_integration_glfixed_table_alloc(POINTS);
    if (table == NULL) {
        nib_guard_leave(guard);
        return nib_fail(error, NIB_ENOMEM, "quadrature: out of memory");
    }
    struct nodes r = {.count = 0}, w = {.count = 0};
    for (int i = 0; i < W_PIECES; i++) add_nodes(&w, table, 6.5 * i / W_PIECES, 6.5 * (i + 1) / W_PIECES);
    for (int i = 0; i < R_PIECES; i++) /* towards 0, where densities may have a pole, by factors of 8 */
        add_nodes(&r, table, i == R_PIECES - 1 ? 0 : pow(8, -i - 1), pow(8, -i));
    double low = log(nib_density_quantile(density, 1e-13, block_size)),
           high = log(nib_density_quantile(density, 1 - 1e-13, block_size));
    size_t pieces = (size_t)ceil((high - low) / 0.75);
    double all = 0, crest_sum = 0, kurtosis_sum = 0;
    for (size_t k = 0; k < pieces * POINTS; k++) {
        double u, weight, step = (high - low) / (double)pieces, from = low + step * (double)(k / POINTS), c, q;
        gsl_integration_glfixed_point(from, from + step, k % POINTS, &u, &weight, table);
        double m = exp(u);
        weight *= m * nib_density_magnitude_pdf(density, m) * block_size *
                  pow(nib_density_share(density, m), block_size - 1.0);
        all += weight;
        if (weight < 1e-14) continue;
        at_maximum(density, m, block_size, &r, &w, &c, &q);
        crest_sum += weight * c;
        kurtosis_sum += weight * q;
    }
    gsl_integration_glfixed_table_free(table);
    nib_guard_leave(guard);
    double tolerance = density->symmetric ? 1e-8 : 1e-2; /* a histogram has jumps */
    if (!(fabs(all - 1) < tolerance))
        return nib_fail(error, NIB_ECONVERGE, "%s: the density of the block's maximum integrates to %.9g, not 1",
                        density->name, all);
    *crest = crest_sum / all;
    *kurtosis = kurtosis_sum / all;
    return NIB_OK;
}
