/* Crest factor and kurtosis of the blocks of a matrix. */
#ifndef NIB_MEASURE_BLOCKS_H
#define NIB_MEASURE_BLOCKS_H

#include "measure/plan.h"

/* A block as it lies in the matrix. */
struct nib_block_shape {
    size_t rows, cols;
};

/* Adds the blocks of a rectangle that begins and ends with whole blocks (or at the edge of the matrix). */
void nib_blocks_add(struct nib_view x, struct nib_rectangle part, struct nib_block_shape shape, struct nib_sums *sums);

#endif
