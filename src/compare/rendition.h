/* The ways in which others write down a quantized matrix. */
#ifndef NIB_COMPARE_RENDITION_H
#define NIB_COMPARE_RENDITION_H

#include <nibble/compare.h>

/* Lines run along the reduction axis: with --axis rows everything here is that of the transposed matrix. */
enum nib_rendition {
    NIB_AS_CODES,
    NIB_AS_CODES_SWAPPED,        /* neighbours exchanged */
    NIB_AS_PACKED,               /* the first of two in the low nibble */
    NIB_AS_PACKED_HIGH,          /* in the high nibble */
    NIB_AS_BYTES_FIRST_HIGH,     /* whole blocks: compare/block_bytes.h */
    NIB_AS_BYTES_FIRST_LOW,
    NIB_AS_BYTES_HALVES,
    NIB_AS_BYTES_NVFP4,
    NIB_AS_SCALES,
    NIB_AS_SCALES_PER_LINE,      /* blocks that span several lines have their scale in each of them */
    NIB_AS_SCALES_BLOCKED,       /* the 128x4 layout of tensor cores, padded with 0 */
    NIB_AS_SCALE_VALUES,
    NIB_AS_SCALE_EXPONENTS,      /* log2 of them */
    NIB_AS_VALUES,
    NIB_AS_AMAX,
    NIB_AS_ENCODE,
    NIB_AS_DECODE,
    NIB_RENDITIONS
};
extern const char *const nib_rendition_names[NIB_RENDITIONS]; /* "packed-high" */

struct nib_rendered {
    struct nib_part part;        /* rank 2 */
    uint8_t *data;               /* owned; free() */
};

/* Fills in `out`; `type` is the floating-point type of values (BF16 and F16 round to nearest even). False where the
 * matrix cannot be written so, or memory is short. All four buffers of `quantized` must be there. */
bool nib_render(const struct nib_quantizer *quantizer, const struct nib_quantized *quantized, enum nib_rendition rendition,
                enum nib_part_type type, struct nib_rendered *out);

#endif
