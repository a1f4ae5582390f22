/* Quadrature over the maximum of a block. */
#ifndef NIB_EXPECT_PLAN_H
#define NIB_EXPECT_PLAN_H

#include "expect/cells.h"

enum { NIB_PLAN_LEVELS = 6 };

/* Nodes of Gauss-Legendre pieces in the logarithm of the maximum m, finer from level to level. */
struct nib_plan_nodes {
    size_t count;
    double *m;
    double *maximum; /* weight of the maximum itself at m, for density f + its mirror = 1 */
    double *others;  /* weight of the other elements, whose density is f on [-m, m] */
};

struct nib_expect_plan {
    const struct nib_density *density;
    unsigned block_size;
    double low, high; /* range of m */
    struct nib_plan_nodes level[NIB_PLAN_LEVELS];
    double missing; /* share of the second moment in blocks beyond `high` */
};

/* E over blocks whose scale is m * ratio; refines until two levels agree. */
enum nib_status nib_plan_integrate(const struct nib_expect_plan *plan, const struct nib_cells *cells, double ratio,
                                   struct nib_moments *out, struct nib_error *error);
/* NIB_ECONVERGE where a noticeable share of the second moment is beyond binary32. */
enum nib_status nib_plan_check_energy(const struct nib_density *density, double missing, struct nib_error *error);

#endif
