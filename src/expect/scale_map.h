/* The decode scale of a block as a function of its largest magnitude, found by asking the quantizer. */
#ifndef NIB_EXPECT_SCALE_MAP_H
#define NIB_EXPECT_SCALE_MAP_H

#include "expect/cells.h"

/* Steps: scale[i] holds for bound[i - 1] < amax <= bound[i] (from 0 for the first; the last bound is infinite). */
struct nib_scale_map {
    bool continuous; /* decode scale = amax * ratio to binary32 precision; no steps */
    double ratio;
    double below;     /* continuous: share of magnitudes m for which m / scale in binary32 is below 1 / ratio */
    double low, high; /* of the magnitudes that were asked for */
    size_t count;
    double *bound, *scale; /* 0: everything becomes 0; NAN: left out */
};

enum nib_status nib_scale_map_make(const struct nib_quantizer *quantizer, float tensor_amax, double low, double high,
                                   struct nib_scale_map *out, struct nib_error *error);
void nib_scale_map_free(struct nib_scale_map *map);

/* NIB_EUNAVAILABLE unless random blocks get the scale of the map and the codes of the cells. */
enum nib_status nib_scale_map_check(const struct nib_quantizer *quantizer, float tensor_amax,
                                    const struct nib_scale_map *map, const struct nib_cells *cells,
                                    const struct nib_density *density, struct nib_error *error);

#endif
