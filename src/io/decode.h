/* Bytes of small types as numbers, for files that keep the bytes but not their meaning. */
#ifndef NIB_IO_DECODE_H
#define NIB_IO_DECODE_H

#include <nibble/status.h>

enum nib_packing { NIB_PACKING_UNSAID, NIB_PACKED, NIB_UNPACKED };

/* `dtype` names an element format (4 bits a code; packed: two a byte, the even element in the low nibble; unpacked: one
 * a byte, in its low nibble) or a scale format of 8 bits (one a byte). An element format needs the packing said. */
struct nib_decoder {
    const struct nib_element *element; /* one of these two */
    const struct nib_scale *scale;
    enum nib_packing packing;
};
enum nib_status nib_decoder_open(const char *dtype, enum nib_packing packing, struct nib_decoder *out,
                                 struct nib_error *error);
void nib_decoder_close(struct nib_decoder *decoder);

/* Decodes elements first, first + 1, ... of `bytes`; codes and values may be NULL. A byte above 15 in unpacked 4-bit
 * data is NIB_EINCONSISTENT. */
enum nib_status nib_decode(const struct nib_decoder *decoder, const uint8_t *bytes, uint64_t first, uint64_t count,
                           uint8_t *codes, float *values, struct nib_error *error);

#endif
