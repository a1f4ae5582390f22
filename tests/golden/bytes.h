/* Whole blocks as others store them: codes and scales in one array of bytes. */
#ifndef NIB_GOLDEN_BYTES_H
#define NIB_GOLDEN_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* FIRST_HIGH, FIRST_LOW: 16 bytes with two neighbours each, then the scale.
 * HALVES: the scale, then 16 bytes with elements j and j+16. NVFP4: four scales, then for each of them 8 bytes with
 * elements j and j+8. */
enum block_layout { LAYOUT_FIRST_HIGH, LAYOUT_FIRST_LOW, LAYOUT_HALVES, LAYOUT_NVFP4, LAYOUTS };
extern const char *const block_layout_names[LAYOUTS];

/* Bytes of one unit, and elements in it. */
size_t block_layout_bytes(enum block_layout layout, unsigned scale_bytes);
size_t block_layout_elements(enum block_layout layout);
void block_layout_write(enum block_layout layout, const uint8_t *codes, const uint8_t *scales, unsigned scale_bytes,
                        uint8_t *out);

#endif
