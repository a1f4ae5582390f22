/* The best grid under absmax blocks, and the density at which two grids are equally good. */
#include "base/error.h"
#include "expect/guard.h"
#include "expect/plan.h"
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multimin.h>
#include <gsl/gsl_roots.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

double nib_objective_value(enum nib_objective objective, double weight, const struct nib_bias *bias) {
    double loss = fabs(bias->one_minus_alpha);
    switch (objective) {
    case NIB_OBJECTIVE_MSE: return bias->nmse;
    case NIB_OBJECTIVE_ALPHA: return loss;
    case NIB_OBJECTIVE_WEIGHTED: break;
    }
    return (1 - weight) * bias->nmse + weight * loss;
}

/* A grid in full precision: cells as of a nearest-level rule. */
struct grid {
    unsigned levels;
    double level[NIB_CODES];
    bool moves[NIB_CODES], mirrored;
};

static void grid_of(const struct nib_element *element, struct grid *out) {
    struct grid g = {.levels = 0, .mirrored = true};
    for (unsigned r = 0; r < element->levels; r++) {
        double level = (double)element->level_of_rank[r];
        if (g.levels > 0 && g.level[g.levels - 1] == level) continue; /* -0 and +0 */
        g.moves[g.levels] = level != 0 && fabs(level) != (double)element->max_magnitude;
        g.level[g.levels++] = level;
    }
    for (unsigned r = 0; r < g.levels; r++) g.mirrored &= g.level[r] == -g.level[g.levels - 1 - r];
    *out = g;
}

static void cells_of(const struct grid *grid, struct nib_cells *out) {
    struct nib_cells cells = {.ranks = grid->levels,
                              .mirrored = grid->mirrored,
                              .clip = fmax(-grid->level[0], grid->level[grid->levels - 1]) * (1 + 0x1p-20)};
    for (unsigned r = 0; r < grid->levels; r++) {
        cells.level[r] = grid->level[r];
        cells.code[r] = (uint8_t)r;
        if (r > 0) cells.border[r - 1] = (grid->level[r - 1] + grid->level[r]) / 2;
    }
    *out = cells;
}

static enum nib_status evaluate(const struct nib_expect_plan *plan, const struct grid *grid, struct nib_moments *out,
                                struct nib_error *error) {
    struct nib_cells cells;
    cells_of(grid, &cells);
    double top = fmax(-grid->level[0], grid->level[grid->levels - 1]);
    *out = (struct nib_moments){.share = {0}};
    return nib_plan_integrate(plan, &cells, 1 / top, out, error);
}

static enum nib_status lloyd(const struct nib_expect_plan *plan, struct grid *grid, struct nib_error *error) {
    enum { STEPS = 4000 };
    double top = fmax(-grid->level[0], grid->level[grid->levels - 1]), moved = 0;
    for (int step = 0; step < STEPS; step++) {
        struct nib_moments m;
        enum nib_status status = evaluate(plan, grid, &m, error);
        if (status != NIB_OK) return status;
        moved = 0;
        for (unsigned r = 0; r < grid->levels; r++) {
            if (!grid->moves[r] || !(m.ss[r] > 0)) continue;
            double centroid = m.xs[r] / m.ss[r];
            moved = fmax(moved, fabs(centroid - grid->level[r]));
            grid->level[r] = centroid;
        }
        if (moved < 1e-7 * top) return NIB_OK;
    }
    return nib_fail(error, NIB_ECONVERGE, "Lloyd's iteration still moves levels by %.1e of the largest", moved / top);
}

struct search {
    const struct nib_expect_plan *plan;
    struct grid grid;
    unsigned moving[NIB_CODES], count; /* ranks that move; of a mirrored grid the positive ones */
    enum nib_objective objective;
    double weight;
};

static void place(struct search *s, const gsl_vector *x) {
    for (unsigned i = 0; i < s->count; i++) {
        double level = gsl_vector_get(x, i);
        s->grid.level[s->moving[i]] = level;
        if (s->grid.mirrored) s->grid.level[s->grid.levels - 1 - s->moving[i]] = -level;
    }
}

static double cost(const gsl_vector *x, void *context) {
    struct search *s = context;
    struct nib_moments m;
    place(s, x);
    for (unsigned r = 1; r < s->grid.levels; r++)
        if (!(s->grid.level[r] > s->grid.level[r - 1])) return 1e3; /* levels have changed places */
    if (evaluate(s->plan, &s->grid, &m, NULL) != NIB_OK) return 1e3;
    struct nib_bias bias = {.nmse = m.ee / m.xx, .one_minus_alpha = 1 - m.xq / m.xx};
    return nib_objective_value(s->objective, s->weight, &bias);
}

static enum nib_status simplex(struct search *s, struct nib_error *error) {
    enum { STEPS = 3000 };
    for (unsigned r = s->grid.mirrored ? s->grid.levels / 2 : 0; r < s->grid.levels; r++)
        if (s->grid.moves[r]) s->moving[s->count++] = r;
    if (s->count == 0) return NIB_OK;
    gsl_multimin_fminimizer *minimizer = gsl_multimin_fminimizer_alloc(gsl_multimin_fminimizer_nmsimplex2, s->count);
    gsl_vector *x = gsl_vector_alloc(s->count), *step = gsl_vector_alloc(s->count);
    int state = minimizer != NULL && x != NULL && step != NULL ? GSL_CONTINUE : GSL_ENOMEM;
    double top = fmax(-s->grid.level[0], s->grid.level[s->grid.levels - 1]);
    if (state == GSL_CONTINUE) {
        for (unsigned i = 0; i < s->count; i++) gsl_vector_set(x, i, s->grid.level[s->moving[i]]);
        gsl_vector_set_all(step, 0.02 * top);
        gsl_multimin_function f = {cost, s->count, s};
        gsl_multimin_fminimizer_set(minimizer, &f, x, step);
        for (int i = 0; state == GSL_CONTINUE && i < STEPS; i++) {
            if (gsl_multimin_fminimizer_iterate(minimizer) != GSL_SUCCESS) break;
            state = gsl_multimin_test_size(gsl_multimin_fminimizer_size(minimizer), 1e-5 * top);
        }
        place(s, minimizer->x);
    }
    if (minimizer != NULL) gsl_multimin_fminimizer_free(minimizer);
    if (x != NULL) gsl_vector_free(x);
    if (step != NULL) gsl_vector_free(step);
    if (state == GSL_SUCCESS) return NIB_OK;
    return nib_fail(error, NIB_ECONVERGE, "the simplex search does not settle after %d steps", STEPS);
}

enum nib_status nib_expect_best(const struct nib_expect_plan *plan, const struct nib_element *start,
                                enum nib_objective objective, double weight, const struct nib_element **out,
                                struct nib_error *error) {
    struct search search = {.plan = plan, .objective = objective, .weight = weight};
    struct nib_guard guard = nib_guard_enter();
    grid_of(start, &search.grid);
    enum nib_status status = lloyd(plan, &search.grid, error);
    if (status == NIB_OK && objective != NIB_OBJECTIVE_MSE) status = simplex(&search, error);
    if (status == NIB_OK) {
        float level[NIB_CODES];
        char name[sizeof start->name];
        unsigned n = search.grid.levels;
        for (unsigned r = 0; r < n; r++) level[r] = (float)search.grid.level[r];
        for (unsigned r = 0; search.grid.mirrored && r < n / 2; r++)
            level[r] = -level[n - 1 - r]; /* but for rounding */
        snprintf(name, sizeof name, "best near %.28s", start->name);
        status = nib_element_from_levels(name, level, n, out, error);
    }
    nib_guard_leave(guard);
    return status;
}

struct pair {
    const struct nib_element *first, *second;
    unsigned block_size;
    enum nib_status status;
    struct nib_error error;
};

static double advantage(double exponent, void *context) {
    struct pair *pair = context;
    const struct nib_density *density = NULL;
    struct nib_expect_plan *plan = NULL;
    struct nib_sums sums[2] = {{0}};
    char name[40];
    snprintf(name, sizeof name, "gg%.12g", exponent);
    pair->status = nib_density_open(name, &density, &pair->error);
    if (pair->status == NIB_OK) pair->status = nib_expect_plan_new(density, pair->block_size, &plan, &pair->error);
    if (pair->status == NIB_OK)
        pair->status = nib_expect_grid(plan, pair->first, NIB_RNE, 0, 0, &sums[0], &pair->error);
    if (pair->status == NIB_OK)
        pair->status = nib_expect_grid(plan, pair->second, NIB_RNE, 0, 0, &sums[1], &pair->error);
    nib_expect_plan_free(plan);
    nib_density_close(density);
    return pair->status == NIB_OK ? log(sums[0].ee / sums[1].ee) : NAN;
}

enum nib_status nib_expect_crossing(const struct nib_element *first, const struct nib_element *second,
                                    unsigned block_size, double *exponent, double *crest, struct nib_error *error) {
    struct pair pair = {first, second, block_size, NIB_OK, {NIB_OK, 0, "", ""}};
    gsl_function function = {advantage, &pair};
    struct nib_guard guard = nib_guard_enter();
    double low = 0.5, high = 12, at_low = advantage(low, &pair), at_high = advantage(high, &pair), root = NAN;
    gsl_root_fsolver *solver = (at_low > 0) != (at_high > 0) ? gsl_root_fsolver_alloc(gsl_root_fsolver_brent) : NULL;
    if (solver != NULL && gsl_root_fsolver_set(solver, &function, low, high) == GSL_SUCCESS) {
        int state = GSL_CONTINUE;
        for (int i = 0; state == GSL_CONTINUE && i < 60; i++) {
            state = gsl_root_fsolver_iterate(solver);
            if (state == GSL_SUCCESS)
                state =
                    gsl_root_test_interval(gsl_root_fsolver_x_lower(solver), gsl_root_fsolver_x_upper(solver), 1e-6, 0);
        }
        if (state == GSL_SUCCESS) root = gsl_root_fsolver_root(solver);
    }
    if (solver != NULL) gsl_root_fsolver_free(solver);
    enum nib_status status = pair.status;
    double found = NAN, kurtosis;
    if (status != NIB_OK && error != NULL) *error = pair.error;
    if (status == NIB_OK && isnan(root))
        status = nib_fail(error, NIB_ECONVERGE, "%s is %s than %s for every generalised Gaussian of exponent 0.5 to 12",
                          first->name, at_low > 0 ? "worse" : "better", second->name);
    if (status == NIB_OK) {
        const struct nib_density *density = NULL;
        char name[40];
        snprintf(name, sizeof name, "gg%.12g", root);
        status = nib_density_open(name, &density, error);
        if (status == NIB_OK) status = nib_expect_shape(density, block_size, &found, &kurtosis, error);
        nib_density_close(density);
    }
    nib_guard_leave(guard);
    if (status != NIB_OK) return status;
    *exponent = root;
    *crest = found;
    return NIB_OK;
}
