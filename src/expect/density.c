#include "expect/density.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/suggest.h"
#include "expect/guard.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void evaluate_series(const double c[NIB_DENSITY_VALUES][NIB_DENSITY_TERMS], double t,
                            double out[NIB_DENSITY_VALUES]) {
    double high[NIB_DENSITY_VALUES] = {0}, low[NIB_DENSITY_VALUES] = {0};
    for (int k = NIB_DENSITY_TERMS - 1; k > 0; k--) /* Clenshaw */
        for (int v = 0; v < NIB_DENSITY_VALUES; v++) {
            double next = c[v][k] + 2 * t * high[v] - low[v];
            low[v] = high[v];
            high[v] = next;
        }
    for (int v = 0; v < NIB_DENSITY_VALUES; v++) out[v] = c[v][0] + t * high[v] - low[v];
}

void nib_density_values(const struct nib_density *density, double x, double out[NIB_DENSITY_VALUES]) {
    const struct nib_density_table *table = &density->table;
    if (table->pieces == 0 || !(x >= table->low && x < table->high)) {
        density->values(density, x, out);
        return;
    }
    double place = log2(x / table->low) * table->pieces_per_octave;
    size_t piece = (size_t)place < table->pieces ? (size_t)place : table->pieces - 1;
    evaluate_series((const double(*)[NIB_DENSITY_TERMS])table->series[piece], 2 * (place - (double)piece) - 1, out);
}

static void interpolate(const struct nib_density *density, double low, double octaves,
                        double c[NIB_DENSITY_VALUES][NIB_DENSITY_TERMS]) {
    double f[NIB_DENSITY_TERMS][NIB_DENSITY_VALUES];
    const double pi = 3.14159265358979323846;
    for (int i = 0; i < NIB_DENSITY_TERMS; i++) {
        double t = cos(pi * (i + 0.5) / NIB_DENSITY_TERMS);
        density->values(density, low * exp2(octaves * (t + 1) / 2), f[i]);
    }
    for (int v = 0; v < NIB_DENSITY_VALUES; v++)
        for (int k = 0; k < NIB_DENSITY_TERMS; k++) {
            double sum = 0;
            for (int i = 0; i < NIB_DENSITY_TERMS; i++) sum += f[i][v] * cos(pi * k * (i + 0.5) / NIB_DENSITY_TERMS);
            c[v][k] = sum * (k == 0 ? 1.0 : 2.0) / NIB_DENSITY_TERMS;
        }
}

enum nib_status nib_density_tabulate(struct nib_density *density, double octaves, struct nib_error *error) {
    enum { BELOW = 36, ABOVE = 16 };
    double deviation = sqrt(2 * density->half[2]);
    struct nib_density_table table = {.low = ldexp(deviation, -BELOW),
                                      .high = ldexp(deviation, ABOVE),
                                      .pieces_per_octave = 1 / octaves,
                                      .pieces = (size_t)((BELOW + ABOVE) / octaves)};
    table.series = nib_alloc(table.pieces, sizeof *table.series, "a table of a density", error);
    if (table.series == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < table.pieces; i++)
        interpolate(density, table.low * exp2((double)i * octaves), octaves, table.series[i]);
    density->table = table;
    return NIB_OK;
}

static void histogram_partial(const struct nib_density *density, double x, double out[3]) {
    size_t low = 0, high = density->count; /* edge[low] <= x < edge[high] where x is inside */
    if (x <= density->edge[0] || x >= density->edge[high]) {
        memcpy(out, density->cumulated[x <= density->edge[0] ? 0 : high], 3 * sizeof *out);
        return;
    }
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        *(density->edge[middle] <= x ? &low : &high) = middle;
    }
    double a = density->edge[low], f = density->weight[low];
    out[0] = density->cumulated[low][0] + f * (x - a);
    out[1] = density->cumulated[low][1] + f * (x * x - a * a) / 2;
    out[2] = density->cumulated[low][2] + f * (x * x * x - a * a * a) / 3;
}

static double histogram_pdf(const struct nib_density *density, double x) {
    size_t low = 0, high = density->count;
    if (x < density->edge[0] || x > density->edge[high]) return 0;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        *(density->edge[middle] <= x ? &low : &high) = middle;
    }
    return density->weight[low];
}

void nib_density_integrals(const struct nib_density *density, double x, double out[3]) {
    if (!density->symmetric) {
        double zero[3];
        histogram_partial(density, x, out);
        histogram_partial(density, 0, zero);
        for (int k = 0; k < 3; k++) out[k] -= zero[k];
        return;
    }
    double v[NIB_DENSITY_VALUES] = {0};
    if (isinf(x))
        memcpy(v, density->half, 3 * sizeof *v);
    else if (x != 0)
        nib_density_values(density, fabs(x), v);
    out[0] = copysign(v[0], x);
    out[1] = v[1];
    out[2] = copysign(v[2], x);
}

void nib_density_between(const struct nib_density *density, double a, double b, double out[3]) {
    double near = fmin(fabs(a), fabs(b)), far = fmax(fabs(a), fabs(b)), low[3], high[3] = {0};
    if (density->tails == NULL || near * near < 100 * density->half[2]) {
        nib_density_integrals(density, a, low);
        nib_density_integrals(density, b, high);
        for (int k = 0; k < 3; k++) out[k] = high[k] - low[k];
        return;
    }
    density->tails(density, near, low);
    if (!isinf(far)) density->tails(density, far, high);
    for (int k = 0; k < 3; k++) out[k] = low[k] - high[k];
    if (a < 0) out[1] = -out[1];
}

double nib_density_beyond(const struct nib_density *density, double y) {
    double tail[3] = {0};
    if (isinf(y) || y >= density->largest) return 0;
    if (density->tails == NULL || y * y < 100 * density->half[2]) return fmax(0, 1 - nib_density_share(density, y));
    density->tails(density, y, tail);
    return 2 * tail[0];
}

double nib_density_at(const struct nib_density *density, double x) {
    if (!density->symmetric) return histogram_pdf(density, x);
    double v[NIB_DENSITY_VALUES], y = fmax(fabs(x), 1e-300);
    nib_density_values(density, y, v);
    return v[3] / y;
}

double nib_density_share(const struct nib_density *density, double y) {
    double high[3], low[3];
    nib_density_integrals(density, y, high);
    if (density->symmetric) return 2 * high[0];
    nib_density_integrals(density, -y, low);
    return high[0] - low[0];
}

double nib_density_magnitude_pdf(const struct nib_density *density, double x) {
    return density->symmetric ? 2 * nib_density_at(density, x)
                              : nib_density_at(density, x) + nib_density_at(density, -x);
}

double nib_density_quantile(const struct nib_density *density, double p, double count) {
    double share = fmin(exp(log(p) / count), 1 - 4e-15); /* nearer to 1 sums do not come for certain */
    double low = -690, high = 690;                       /* of log(y): bisection needs no derivative */
    if (isfinite(density->largest)) high = log(density->largest);
    for (int i = 0; i < 200 && high - low > 1e-12 * fmax(1, fabs(low)); i++) {
        double middle = (low + high) / 2;
        *(nib_density_share(density, exp(middle)) < share ? &low : &high) = middle;
    }
    return exp(high);
}

double nib_density_energy_bound(const struct nib_density *density, double from, double *missing) {
    double y = from, tail[3], before = 0;
    *missing = 0;
    if (isfinite(density->largest)) return density->largest;
    for (;; y *= 2, before = tail[2]) {
        nib_density_integrals(density, y, tail);
        *missing = 1 - tail[2] / density->half[2];
        if (tail[2] - before < 1e-14 * density->half[2]) *missing = 0; /* all but rounding is there */
        if (*missing < 1e-12 || y > 1e38) return y;
    }
}

enum nib_status nib_density_moment(const struct nib_density *density, unsigned order, double *out,
                                   struct nib_error *error) {
    double value = NAN;
    if (order == 4) value = density->fourth;
    if (order == 3 || order > 4)
        return nib_fail(error, NIB_EINVAL, "moments of order 0, 1, 2 and 4 are known, not %u", order);
    if (order <= 2 && density->symmetric) value = 2 * density->half[order];
    if (order <= 2 && !density->symmetric) {
        double high[3], low[3];
        nib_density_integrals(density, density->largest, high);
        nib_density_integrals(density, -density->largest, low);
        value = order == 1 ? high[1] + low[1] : high[order] - low[order];
    }
    if (!isfinite(value))
        return nib_fail(error, NIB_EINVAL, "%s: the moment of order %u is infinite", density->name, order);
    *out = value;
    return NIB_OK;
}

static const char *candidate(size_t i, const void *context) {
    (void)context;
    static const char *const names[] = {"gaussian", "laplace", "logistic", "uniform", "silu4", "t3", "gg0.5"};
    return i < sizeof names / sizeof *names ? names[i] : NULL;
}

static enum nib_status make(const char *name, struct nib_density *out, struct nib_error *error) {
    bool known = false;
    enum nib_status status = nib_density_closed(name, out, &known, error);
    if (status == NIB_OK && !known) status = nib_density_special(name, out, &known, error);
    if (status == NIB_OK && !known) status = nib_density_gated(name, out, &known, error);
    if (status == NIB_OK && !known && strncmp(name, "outlier", 7) == 0)
        return nib_fail(error, NIB_EUNAVAILABLE,
                        "%s: its elements are not identically distributed, so there is no expectation of one", name);
    if (status != NIB_OK || known) return status;
    const char *near = nib_suggest(name, candidate, NULL);
    return nib_fail(error, NIB_EINVAL,
                    "no density \"%s\"; expected gaussian, laplace, logistic, uniform, tNU (t3), siluA (silu4), ggBETA "
                    "(gg0.5) or hist:FILE%s%s%s",
                    name, near == NULL ? "" : "; did you mean \"", near == NULL ? "" : near, near == NULL ? "" : "\"?");
}

enum nib_status nib_density_open(const char *name, const struct nib_density **out, struct nib_error *error) {
    if (strncmp(name, "hist:", 5) == 0) return nib_density_read_histogram(name + 5, out, error);
    struct nib_density *density = nib_alloc(1, sizeof *density, "a density", error);
    if (density == NULL) return NIB_ENOMEM;
    snprintf(density->name, sizeof density->name, "%s", name);
    density->symmetric = true;
    struct nib_guard guard = nib_guard_enter();
    enum nib_status status = make(name, density, error);
    nib_guard_leave(guard);
    if (status == NIB_OK)
        *out = density;
    else
        nib_density_close(density);
    return status;
}

void nib_density_partial(const struct nib_density *density, double x, double out[3]) {
    struct nib_guard guard = nib_guard_enter();
    nib_density_integrals(density, x, out);
    nib_guard_leave(guard);
}

double nib_density_pdf(const struct nib_density *density, double x) {
    struct nib_guard guard = nib_guard_enter();
    double f = nib_density_at(density, x);
    nib_guard_leave(guard);
    return f;
}

void nib_density_close(const struct nib_density *density) {
    if (density == NULL) return;
    free(density->table.series);
    free(density->edge);
    free(density->weight);
    free(density->cumulated);
    free((void *)(uintptr_t)density);
}

const char *nib_density_name(const struct nib_density *density) {
    return density->name;
}
