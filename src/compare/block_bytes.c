#include "compare/block_bytes.h"

#include <string.h>

size_t nib_block_elements(enum nib_block_layout layout) { return layout == NIB_BLOCK_NVFP4 ? 64 : 32; }

size_t nib_block_bytes(enum nib_block_layout layout, unsigned scale_bytes) {
    return layout == NIB_BLOCK_NVFP4 ? 32 + 4 * scale_bytes : 16 + scale_bytes;
}

static uint8_t pair(uint8_t low, uint8_t high) { return (uint8_t)(low | high << 4); }

static void write_halves(const uint8_t *codes, size_t count, uint8_t *out) {
    for (size_t j = 0; j < count / 2; j++) out[j] = pair(codes[j], codes[j + count / 2]);
}

void nib_block_write(enum nib_block_layout layout, const uint8_t *codes, const uint8_t *scales, unsigned scale_bytes,
                     uint8_t *out) {
    switch (layout) {
    case NIB_BLOCK_FIRST_HIGH:
        for (size_t j = 0; j < 16; j++) out[j] = pair(codes[2 * j + 1], codes[2 * j]);
        memcpy(out + 16, scales, scale_bytes);
        break;
    case NIB_BLOCK_FIRST_LOW:
        for (size_t j = 0; j < 16; j++) out[j] = pair(codes[2 * j], codes[2 * j + 1]);
        memcpy(out + 16, scales, scale_bytes);
        break;
    case NIB_BLOCK_HALVES:
        memcpy(out, scales, scale_bytes);
        write_halves(codes, 32, out + scale_bytes);
        break;
    case NIB_BLOCK_NVFP4:
        memcpy(out, scales, 4 * scale_bytes);
        for (size_t k = 0; k < 4; k++) write_halves(codes + 16 * k, 16, out + 4 * scale_bytes + 8 * k);
        break;
    case NIB_BLOCK_LAYOUTS: break;
    }
}
