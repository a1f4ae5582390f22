/* The gated product silu(a N) N': a mixture of Gaussians whose standard deviation is |silu(a z)|, z standard normal. */
#include "expect/density.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/number.h"
#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

static void mixture(const struct nib_density *density, double x, double out[NIB_DENSITY_VALUES]) {
    double sum[NIB_DENSITY_VALUES] = {0};
    for (size_t i = 0; i < density->count; i++) {
        double h = density->edge[i], y = x / h, w = density->weight[i];
        if (y > 40) { /* all of the component */
            sum[0] += w / 2;
            sum[1] += w * h / sqrt(2 * pi);
            sum[2] += w * h * h / 2;
            continue;
        }
        double yf = y * exp(-y * y / 2) / sqrt(2 * pi), share = erf(y / sqrt(2)) / 2;
        sum[0] += w * share;
        sum[1] += w * h * -expm1(-y * y / 2) / sqrt(2 * pi);
        sum[2] += w * h * h * (share - yf);
        sum[3] += w * yf;
    }
    memcpy(out, sum, sizeof sum);
}

/* Nodes z = +-log(1 + e^u)/c at equal steps of u, which are geometric near 0 and linear beyond 1/c: there |silu| of
 * negative numbers falls like e^(-a|z|). The integrand is analytic in u, so that equal weights converge geometrically.
 * Components too narrow to be told from 0 become one. */
static void add_side(struct nib_density *out, double sign, double c) {
    const double low = -30, top = 11, step = 0.1, narrow = 1e-18;
    double a = out->parameter, lumped = 0;
    for (double u = low; u < top * c + 1; u += step) {
        double z = log1p(exp(u)) / c, slope = 1 / (1 + exp(-u)) / c, gate = sign * a * z;
        double h = fabs(gate / (1 + exp(-gate))), weight = step * slope * exp(-z * z / 2) / sqrt(2 * pi);
        if (h < narrow * a) {
            lumped += weight;
        } else {
            out->edge[out->count] = h;
            out->weight[out->count++] = weight;
        }
    }
    out->edge[out->count] = narrow * a;
    out->weight[out->count++] = lumped;
}

enum nib_status nib_density_gated(const char *name, struct nib_density *out, bool *known, struct nib_error *error) {
    if (strncmp(name, "silu", 4) != 0 || !nib_number_double(name + 4, &out->parameter)) return NIB_OK;
    *known = true;
    double a = out->parameter, all = 0;
    if (!(a >= 1e-3 && a <= 1e3))
        return nib_fail(error, NIB_EINVAL, "%s: the gain must lie between 0.001 and 1000", name);
    size_t most = 2000; /* what is not lumped: 30 units of u below, and a|z| up to 45 */
    out->edge = nib_alloc(most, sizeof *out->edge, "a mixture", error);
    out->weight = nib_alloc(most, sizeof *out->weight, "a mixture", error);
    if (out->edge == NULL || out->weight == NULL) return NIB_ENOMEM;
    add_side(out, 1, 1);
    add_side(out, -1, fmax(1, a));
    for (size_t i = 0; i < out->count; i++) all += out->weight[i];
    out->half[0] = 0.5;
    for (size_t i = 0; i < out->count; i++) {
        double h = out->edge[i], w = out->weight[i] /= all; /* what lies nearer to 0 is spread over the rest */
        out->half[1] += w * h / sqrt(2 * pi);
        out->half[2] += w * h * h / 2;
        out->fourth += w * 3 * h * h * h * h;
    }
    out->largest = INFINITY;
    out->values = mixture;
    return nib_density_tabulate(out, 0.5, error);
}
