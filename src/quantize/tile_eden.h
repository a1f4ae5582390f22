/* MS-EDEN (eden.h) for the groups of a tile. */
#ifndef NIB_QUANTIZE_TILE_EDEN_H
#define NIB_QUANTIZE_TILE_EDEN_H

#include "quantize/eden.h"
#include "quantize/stages.h"

/* `lines` lines of `blocks` blocks, `across` blocks of `size` elements apart; which blocks the stages did not compute;
 * and the index in the whole tensor of the first block, whose lines have blocks_of_line. */
struct nib_eden_tile {
    const float *x;
    const uint8_t *codes;
    const bool *special;
    size_t lines, blocks, across;
    unsigned size;
    uint64_t first_block, blocks_of_line, seed;
};
/* Corrects the scales in t->chosen; left[] is true for the first block of each group that is for nib_eden_correct. */
void nib_tile_eden(const struct nib_stages *stages, struct nib_scratch *t, const struct nib_eden_tile *tile,
                   bool left[NIB_TILE]);

#endif
