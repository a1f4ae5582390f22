#include "io/decode.h"

#include "base/error.h"
#include <nibble/element.h>
#include <nibble/scale.h>

enum nib_status nib_decoder_open(const char *dtype, enum nib_packing packing, struct nib_decoder *out,
                                 struct nib_error *error) {
    const struct nib_element *element;
    const struct nib_scale *scale;
    if (nib_element_open(dtype, &element, error) == NIB_OK) {
        if (packing == NIB_PACKING_UNSAID) {
            nib_element_close(element);
            return nib_fail(error, NIB_EINVAL,
                            "%s has 4 bits: say --packed (two codes a byte) or --unpacked (one, in the low bits)", dtype);
        }
        *out = (struct nib_decoder){.element = element, .packing = packing};
        return NIB_OK;
    }
    struct nib_error ignored;
    if (nib_scale_open(dtype, &scale, &ignored) != NIB_OK)
        return nib_fail(error, NIB_ENOTFOUND, "no element or scale format \"%s\"; see nibble list", dtype);
    if (scale->bits != 8 || packing == NIB_PACKED) {
        unsigned bits = scale->bits;
        nib_scale_close(scale);
        return nib_fail(error, NIB_EINVAL, "%s has %u bits; %s", dtype, bits,
                        bits == 8 ? "its bytes cannot be packed" : "expected a format of 4 or 8 bits");
    }
    *out = (struct nib_decoder){.scale = scale, .packing = NIB_UNPACKED};
    return NIB_OK;
}

void nib_decoder_close(struct nib_decoder *decoder) {
    if (decoder->element != NULL) nib_element_close(decoder->element);
    if (decoder->scale != NULL) nib_scale_close(decoder->scale);
    *decoder = (struct nib_decoder){0};
}

enum nib_status nib_decode(const struct nib_decoder *decoder, const uint8_t *bytes, uint64_t first, uint64_t count,
                           uint8_t *codes, float *values, struct nib_error *error) {
    if (decoder->element != NULL && decoder->packing == NIB_UNPACKED)
        for (uint64_t i = 0; i < count; i++)
            if (bytes[first + i] > 15)
                return nib_fail(error, NIB_EINCONSISTENT,
                                "byte %llu is 0x%02X, which is no unpacked 4-bit code; packed data need --packed",
                                (unsigned long long)(first + i), bytes[first + i]);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = first + i;
        uint8_t code = decoder->packing == NIB_PACKED ? (uint8_t)(bytes[at / 2] >> (4 * (at % 2)) & 15) : bytes[at];
        if (codes != NULL) codes[i] = code;
        if (values != NULL)
            values[i] = decoder->element != NULL ? decoder->element->level[code] : nib_scale_decode(decoder->scale, code);
    }
    return NIB_OK;
}
