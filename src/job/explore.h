/* Grids judged without sampling: sweeps over grids, densities, block sizes, scale formats and rotations, and searches.
 * Part of libnibble-expect. */
#ifndef NIB_JOB_EXPLORE_H
#define NIB_JOB_EXPLORE_H

#include <nibble/expect.h>
#include <nibble/table.h>

/* A grid and what to call it. */
struct nib_explore_grid {
    char label[160]; /* "0,1,2,3,4,6,8,12" or a name */
    char name[160];  /* "E2M1", "uniform", or "" */
    const struct nib_element *element;
};
struct nib_explore_grids {
    struct nib_explore_grid *grid;
    size_t count, capacity;
};
void nib_explore_grids_free(struct nib_explore_grids *grids);

struct nib_explore_shape {
    bool as_signed; /* levels are given with their signs, not as magnitudes */
    bool mid_rise;  /* no zero: magnitudes move to the middles of their gaps */
    double offset;  /* added to every signed level */
};
/* "0,1,2,3,4,6,8,12": magnitudes, mirrored; all signed levels where one is negative or the shape says so. */
NIB_CHECK enum nib_status nib_explore_add_levels(struct nib_explore_grids *grids, const char *text,
                                                 const struct nib_explore_shape *shape, struct nib_error *error);
/* float:E,M[,BIAS]  uniform[:K]  power:P  geometric:R  quantiles:DENSITY */
NIB_CHECK enum nib_status nib_explore_add_rule(struct nib_explore_grids *grids, const char *text,
                                               const struct nib_explore_shape *shape, struct nib_error *error);
/* A built-in element or a YAML file. */
NIB_CHECK enum nib_status nib_explore_add_element(struct nib_explore_grids *grids, const char *name,
                                                  const struct nib_explore_shape *shape, struct nib_error *error);
/* 0 and 7 of {1..n}: n over 7 of them. */
NIB_CHECK enum nib_status nib_explore_add_integers(struct nib_explore_grids *grids, unsigned n,
                                                   struct nib_error *error);
/* Takes over the element. */
NIB_CHECK enum nib_status nib_explore_add(struct nib_explore_grids *grids, const char *label, const char *name,
                                          const struct nib_element *element, struct nib_error *error);

struct nib_explore_request {
    const struct nib_explore_grids *grids;
    const char *const *densities;
    size_t density_count;
    const int64_t *blocks;
    size_t block_count;
    const struct nib_scale *const *scales;
    size_t scale_count;
    const struct nib_rotation *const *rotations; /* "none" by quadrature; others by sampled blocks */
    size_t rotation_count;
    const char *const *files; /* tensors: measured */
    size_t file_count;
    const char *const *settings; /* axis=value, of every quantizer */
    size_t setting_count;
    enum nib_objective objective;
    double weight;
    size_t confirm; /* so many of the best are measured, too */
    bool improve;   /* each grid is the start of a search for the best one (scale fp32, no rotation) */
    uint64_t samples, seed;
    int threads;
};

/* One grid under one density (or tensor), block size, scale format and rotation. */
struct nib_explore_point {
    const struct nib_explore_grid *grid;
    char data[256]; /* the density's name, or the tensor's */
    unsigned block;
    char scale[40], rotation[40];
    const char *method; /* "quadrature", "sampled" */
    double objective;
    bool pareto; /* no other grid is better in both NMSE and |1 - alpha| */
    size_t rank; /* among the grids of the same data, block, scale and rotation, from 1 */
    struct nib_bias bias;
    struct nib_estimate measured; /* SQNR in dB, NAN where not confirmed */
    struct nib_sums sums;
};
struct nib_explore_result {
    struct nib_explore_point *point; /* by data, block, scale, rotation; by objective within them */
    size_t count, capacity, group_size;
    struct nib_explore_grids found; /* grids of a search */
};
NIB_CHECK enum nib_status nib_explore_run(const struct nib_explore_request *request, struct nib_explore_result *out,
                                          struct nib_error *error);
void nib_explore_result_free(struct nib_explore_result *result);

NIB_CHECK enum nib_status nib_explore_table(const struct nib_explore_result *result, size_t most_per_group,
                                            struct nib_table **out, struct nib_error *error);
/* Bins of each point's grid: what eq. (2) says and what is expected of each magnitude. */
NIB_CHECK enum nib_status nib_explore_bins(const struct nib_explore_result *result, struct nib_table **out,
                                           struct nib_error *error);
/* Each grid along the generalised Gaussians of exponent 0.4 to 12, in blocks of one size, by crest factor. */
NIB_CHECK enum nib_status nib_explore_family(const struct nib_explore_grids *grids, unsigned block,
                                             struct nib_table **out, struct nib_error *error);
/* One row per pair of the first grid and another: where they are equally good. */
NIB_CHECK enum nib_status nib_explore_crossings(const struct nib_explore_grids *grids, const int64_t *blocks,
                                                size_t block_count, struct nib_table **out, struct nib_error *error);

#endif
