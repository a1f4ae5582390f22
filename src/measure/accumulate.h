/* Sums over one chunk: 16 lanes, lane = place in the row segment mod 16, so that the order of
 * addition is a property of the data's shape and of nothing else. */
#ifndef NIB_MEASURE_ACCUMULATE_H
#define NIB_MEASURE_ACCUMULATE_H

#include <nibble/measure.h>

enum {
    NIB_LANES = 16,
    NIB_SEGMENT = 512, /* elements of a row that are handled together */
    NIB_BINS = 24      /* 16 codes, then one that collects what has no level; padded */
};

struct nib_lanes {
    double sum_t[NIB_LANES], xx[NIB_LANES], xq[NIB_LANES], qq[NIB_LANES], ee[NIB_LANES];
    double error[NIB_LANES][NIB_BINS];
    uint32_t bin_count[NIB_LANES][NIB_BINS]; /* a chunk has far fewer than 2^32 elements */
    uint64_t nan_count, inf_count, bad_scale_count, zero_scale_count, clipped_count, underflow_count, count;
};

/* Levels by code, as the loops want them. */
struct nib_levels {
    double level[256]; /* every byte is a valid index; unused codes are 0 */
    double clip;       /* t above it is beyond the largest level by more than binary32 rounding */
};
void nib_levels_of(const struct nib_element *element, struct nib_levels *out);

/* Adds `count` <= NIB_SEGMENT elements of one row; scale and inverse (1/scale, 0 for a zero scale)
 * are given for each element. */
void nib_lanes_add(struct nib_lanes *lanes, const struct nib_levels *levels, const float *x, const uint8_t *codes,
                   const double *scale, const double *inverse, size_t count);
/* Collapses the lanes, pairwise by index. */
void nib_lanes_sum(const struct nib_lanes *lanes, struct nib_sums *out);

#endif
