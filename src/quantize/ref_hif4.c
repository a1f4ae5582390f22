/* HiFloat4: a scale of 64 elements, a doubling for each 8 and for each 4 of them, and halves away from zero. */
#include "quantize/ref_hif4.h"

#include <math.h>
#include "core/convert.h"

enum { GROUP = 64, FINE = 16, COARSE = 8 };

static float to_bf16(float x) {
    return nib_float_of_bits(nib_bits_of_bf16(nib_bf16_of_bits(nib_bits_of_float(x))));
}

static float larger(float a, float b) {
    return b > a ? b : a; /* of NaN the first stays */
}

/* The largest magnitudes of 4 and of 8 elements each; returned is that of all. */
static float maxima(const float *x, float fine[FINE], float coarse[COARSE]) {
    float most;
    for (int i = 0; i < FINE; i++) {
        fine[i] = fabsf(x[4 * i]);
        for (int j = 1; j < 4; j++) fine[i] = larger(fine[i], fabsf(x[4 * i + j]));
    }
    for (int i = 0; i < COARSE; i++) coarse[i] = fine[2 * i] > fine[2 * i + 1] ? fine[2 * i] : fine[2 * i + 1];
    most = coarse[0];
    for (int i = 1; i < COARSE; i++) most = larger(most, coarse[i]);
    return most;
}

static uint8_t code_of(float x, float reciprocal, float doubled) {
    float quarters = fabsf(x) / doubled * reciprocal * 4;
    double rounded = floor((double)quarters + 0.5);
    return (uint8_t)((rounded >= 7 ? 7 : isnan(quarters) ? 0 : (int)rounded) | (signbit(x) ? 8 : 0));
}

void nib_ref_hif4(const struct nib_quantizer *q, struct nib_ref_block *block) {
    const float seventh = 0.142578125f; /* 1/7 in bfloat16 */
    float fine[FINE], coarse[COARSE], v = maxima(block->x, fine, coarse) * seventh;
    v = v > 49152 ? 49152 : v;
    v = v < 0x1p-48f ? 0x1p-48f : v;
    const struct nib_scale *format = q->block->scale;
    uint32_t code = nib_scale_encode(format, NIB_SCALE_NEAREST, to_bf16(v));
    float s = nib_scale_decode(format, code), reciprocal = to_bf16(1.0f / s);
    for (unsigned i = 0; i < FINE; i++) {
        uint32_t first = coarse[i / 2] * reciprocal >= 4;
        uint32_t second = fine[i] / (float)(1u << first) * reciprocal >= 2;
        code |= first << (8 + i / 2) | second << (16 + i);
        float doubled = (float)(1u << (first + second));
        for (unsigned j = 4 * i; j < 4 * i + 4; j++) {
            block->codes[j] = code_of(block->x[j], reciprocal, doubled);
            float level = q->block->element->level[block->codes[j]];
            block->values[j] = isnan(block->x[j]) ? NAN : level * (doubled * s);
        }
    }
    block->scale = code;
}
