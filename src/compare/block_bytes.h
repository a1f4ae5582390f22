/* Whole blocks as others store them: codes and scales in one array of bytes. */
#ifndef NIB_COMPARE_BLOCK_BYTES_H
#define NIB_COMPARE_BLOCK_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* FIRST_HIGH, FIRST_LOW: 16 bytes with two neighbours each, then the scale (FBGEMM).
 * HALVES: the scale, then 16 bytes with elements j and j+16 (ggml MXFP4, Q4_0, IQ4_NL).
 * NVFP4: four scales, then for each of them 8 bytes with elements j and j+8 (ggml NVFP4). */
enum nib_block_layout {
    NIB_BLOCK_FIRST_HIGH,
    NIB_BLOCK_FIRST_LOW,
    NIB_BLOCK_HALVES,
    NIB_BLOCK_NVFP4,
    NIB_BLOCK_LAYOUTS
};

/* Bytes of one unit, and elements in it. */
size_t nib_block_bytes(enum nib_block_layout layout, unsigned scale_bytes);
size_t nib_block_elements(enum nib_block_layout layout);
void nib_block_write(enum nib_block_layout layout, const uint8_t *codes, const uint8_t *scales, unsigned scale_bytes,
                     uint8_t *out);

#endif
