#include "expect/plan.h"

#include "base/error.h"
#include "base/memory.h"
#include "expect/guard.h"
#include <gsl/gsl_integration.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 16 };

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Places where a histogram's integrand has no derivative: its edges, as the magnitude of the maximum. */
static size_t knots_of(const struct nib_expect_plan *plan, double *out) {
    size_t count = 0;
    out[count++] = log(plan->low);
    out[count++] = log(plan->high);
    for (size_t i = 0; !plan->density->symmetric && i <= plan->density->count; i++) {
        double y = fabs(plan->density->edge[i]);
        if (y > plan->low && y < plan->high) out[count++] = log(y);
    }
    qsort(out, count, sizeof *out, ascending);
    return count;
}

static enum nib_status lay_nodes(struct nib_expect_plan *plan, unsigned level, struct nib_error *error) {
    const struct nib_density *d = plan->density;
    double width = 0.5 / (1 << level);
    size_t most = d->symmetric ? 2 : d->count + 3, pieces = 0;
    double *knot = nib_alloc(most, sizeof *knot, "quadrature", error);
    if (knot == NULL) return NIB_ENOMEM;
    size_t knots = knots_of(plan, knot);
    for (size_t i = 0; i + 1 < knots; i++) pieces += (size_t)ceil((knot[i + 1] - knot[i]) / width);
    struct nib_plan_nodes *nodes = &plan->level[level];
    nodes->m = nib_alloc(pieces * POINTS, sizeof *nodes->m, "quadrature", error);
    nodes->maximum = nib_alloc(pieces * POINTS, sizeof *nodes->maximum, "quadrature", error);
    nodes->others = nib_alloc(pieces * POINTS, sizeof *nodes->others, "quadrature", error);
    gsl_integration_glfixed_table *table = gsl_integration_glfixed_table_alloc(POINTS);
    bool there = nodes->m && nodes->maximum && nodes->others && table;
    for (size_t i = 0; there && i + 1 < knots; i++) {
        size_t parts = (size_t)ceil((knot[i + 1] - knot[i]) / width);
        double step = (knot[i + 1] - knot[i]) / (double)parts;
        for (size_t k = 0; k < parts * POINTS; k++) {
            double u, weight, from = knot[i] + step * (double)(k / POINTS);
            gsl_integration_glfixed_point(from, from + step, k % POINTS, &u, &weight, table);
            double m = exp(u), share = fmin(1, nib_density_share(d, m)), density = nib_density_magnitude_pdf(d, m) * m;
            nodes->m[nodes->count] = m;
            nodes->maximum[nodes->count] = weight * m * pow(share, plan->block_size - 1.0);
            nodes->others[nodes->count] =
                plan->block_size < 2 ? 0
                                     : weight * density * (plan->block_size - 1.0) * pow(share, plan->block_size - 2.0);
            if (nodes->maximum[nodes->count] > 0 || nodes->others[nodes->count] > 0) nodes->count++;
        }
    }
    if (table != NULL) gsl_integration_glfixed_table_free(table);
    free(knot);
    return there ? NIB_OK : nib_fail(error, NIB_ENOMEM, "quadrature: out of memory");
}

enum nib_status nib_expect_plan_new(const struct nib_density *density, unsigned block_size,
                                    struct nib_expect_plan **out, struct nib_error *error) {
    if (block_size < 1) return nib_fail(error, NIB_EINVAL, "a block has at least one element");
    struct nib_expect_plan *plan = nib_alloc(1, sizeof *plan, "quadrature", error);
    if (plan == NULL) return NIB_ENOMEM;
    struct nib_guard guard = nib_guard_enter();
    plan->density = density;
    plan->block_size = block_size;
    plan->low = nib_density_quantile(density, 1e-17, block_size);
    plan->high = nib_density_quantile(density, 1 - 1e-13, block_size);
    plan->high = nib_density_energy_bound(density, plan->high, &plan->missing);
    enum nib_status status = NIB_OK;
    for (unsigned level = 0; status == NIB_OK && level < NIB_PLAN_LEVELS; level++)
        status = lay_nodes(plan, level, error);
    nib_guard_leave(guard);
    if (status == NIB_OK)
        *out = plan;
    else
        nib_expect_plan_free(plan);
    return status;
}

void nib_expect_plan_free(struct nib_expect_plan *plan) {
    if (plan == NULL) return;
    for (unsigned i = 0; i < NIB_PLAN_LEVELS; i++) {
        free(plan->level[i].m);
        free(plan->level[i].maximum);
        free(plan->level[i].others);
    }
    free(plan);
}

static void integrate(const struct nib_expect_plan *plan, unsigned level, const struct nib_cells *cells, double ratio,
                      struct nib_moments *out) {
    const struct nib_plan_nodes *nodes = &plan->level[level];
    struct nib_moments sum = {.share = {0}};
    for (size_t i = 0; i < nodes->count; i++) {
        double m = nodes->m[i], s = m * ratio;
        double positive = nib_density_at(plan->density, m),
               negative = plan->density->symmetric ? positive : nib_density_at(plan->density, -m);
        nib_cells_add_point(cells, m, nodes->maximum[i] * positive, nodes->maximum[i] * negative, s, &sum);
        if (nodes->others[i] > 0) nib_cells_add(cells, plan->density, m, s, nodes->others[i], &sum);
    }
    *out = sum;
}

/* The largest difference of two results, each quantity relative to the scale that it has. */
static double difference(const struct nib_moments *a, const struct nib_moments *b) {
    double worst = fmax(fabs(a->xx - b->xx), fmax(fabs(a->xq - b->xq), fabs(a->qq - b->qq))) / a->xx;
    worst = fmax(worst, fabs(a->ee - b->ee) / a->xx);
    worst = fmax(worst, fabs(a->sum_t - b->sum_t) / a->sum_t);
    for (unsigned c = 0; c < NIB_CODES; c++) {
        worst = fmax(worst, fabs(a->share[c] - b->share[c]));
        worst = fmax(worst, fabs(a->error[c] - b->error[c]) / a->sum_t);
    }
    return worst;
}

enum nib_status nib_plan_check_energy(const struct nib_density *density, double missing, struct nib_error *error) {
    if (missing < 1e-9) return NIB_OK;
    return nib_fail(error, NIB_ECONVERGE,
                    "%s: the integral of the second moment does not converge: a share of %.1e of it lies beyond 1e38",
                    density->name, missing);
}

enum nib_status nib_plan_integrate(const struct nib_expect_plan *plan, const struct nib_cells *cells, double ratio,
                                   struct nib_moments *out, struct nib_error *error) {
    const double tolerance = 1e-9;
    struct nib_moments coarse, fine;
    enum nib_status status = nib_plan_check_energy(plan->density, plan->missing, error);
    if (status != NIB_OK) return status;
    integrate(plan, 0, cells, ratio, &coarse);
    double last = NAN;
    for (unsigned level = 1; level < NIB_PLAN_LEVELS; level++) {
        integrate(plan, level, cells, ratio, &fine);
        last = difference(&fine, &coarse);
        if (last < tolerance) {
            *out = fine;
            return NIB_OK;
        }
        coarse = fine;
    }
    return nib_fail(error, NIB_ECONVERGE,
                    "%s: the quadrature over the block's maximum does not converge: the last two steps differ by %.1e",
                    plan->density->name, last);
}
