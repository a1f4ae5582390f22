/* Inputs drawn around the cell borders of a quantizer, and the comparison of two results: for tests that set the stages
 * against the reference. */
#ifndef NIB_AGREEMENT_H
#define NIB_AGREEMENT_H

#include "core/convert.h"
#include "format/quantizer.h"
#include "nib_test.h"

#include <math.h>
#include <nibble/quantize.h>

static uint64_t nib_random_state = 20251101;
static inline uint32_t nib_next(void) { /* splitmix64 */
    uint64_t z = (nib_random_state += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)(z >> 32);
}

/* Numbers that sit on, or a few steps beside, what the scales and thresholds make of them. */
static inline float nib_awkward(const struct nib_quantizer *q, float block_magnitude) {
    uint32_t kind = nib_next() % 16;
    if (kind == 0) return nib_next() % 2 ? 0.0f : -0.0f;
    if (kind == 1) return nib_float_of_bits(nib_next() & 0x807FFFFF); /* subnormal */
    float border = nib_float_of_bits((uint32_t)q->rule.threshold[nib_next() % NIB_THRESHOLDS] & NIB_BITS_MAGNITUDE);
    if (isnan(border) || isinf(border)) border = 1;
    float x = border * block_magnitude;
    if (kind >= 12) x = (float)(int32_t)nib_next() * 0x1p-31f * block_magnitude * 6;
    uint32_t bits = nib_bits_of_float(x) + nib_next() % 5 - 2;
    if (nib_bits_are_nan(bits)) bits = 0;
    return nib_float_of_bits(bits ^ (nib_next() & 0x80000000u));
}

static inline void nib_fill(const struct nib_quantizer *q, float *x, size_t count, bool specials) {
    float magnitude = 1;
    for (size_t i = 0; i < count; i++) {
        if (i % 16 == 0) {
            int exponent = (int)(nib_next() % 24) - 18;
            if (nib_next() % 16 == 0) exponent = (int)(nib_next() % 250) - 149;
            magnitude = ldexpf(1 + (float)(nib_next() % 8) / 8, exponent);
        }
        x[i] = nib_awkward(q, magnitude);
        uint32_t special = specials ? nib_next() % 64 : 64;
        if (special == 0) x[i] = nib_float_of_bits(0x7F800001u | nib_next());
        if (special == 1) x[i] = nib_next() % 2 ? INFINITY : -INFINITY;
    }
}

static inline struct nib_view nib_as_dtype(float *x, size_t count, enum nib_dtype dtype, size_t rows, size_t cols,
                                           size_t stride) {
    uint16_t *half = (uint16_t *)(void *)x;
    for (size_t i = 0; i < count && dtype != NIB_F32; i++) {
        uint32_t bits = nib_bits_of_float(x[i]);
        half[i] = dtype == NIB_BF16 ? nib_bf16_of_bits(bits) : nib_f16_of_bits(bits);
    }
    return (struct nib_view){x, dtype, rows, cols, stride};
}

static inline bool nib_same_floats(const float *a, const float *b, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (nib_bits_of_float(a[i]) != nib_bits_of_float(b[i]) && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

static inline bool nib_same(const struct nib_quantized *a, const struct nib_quantized *b) {
    size_t lines = a->axis == NIB_ALONG_COLS ? a->rows : a->cols;
    return memcmp(a->codes, b->codes, a->rows * a->cols) == 0 &&
           memcmp(a->packed, b->packed, lines * a->packed_stride) == 0 &&
           memcmp(a->scales, b->scales, a->scale_rows * a->scale_cols * a->scale_bytes) == 0 &&
           nib_same_floats(a->values, b->values, a->rows * a->cols) && a->nan_count == b->nan_count &&
           a->inf_count == b->inf_count && nib_same_floats(&a->tensor_scale_encode, &b->tensor_scale_encode, 1);
}

#endif
