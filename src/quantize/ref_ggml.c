#include "quantize/ref_ggml.h"

#include <math.h>
#include <string.h>
#include "core/convert.h"
#include "core/widen.h"

/* The first element of largest magnitude, with its sign; NaN is never larger. 0 where all are zero or NaN. */
static float signed_max(const float *x, size_t count) {
    float amax = 0, max = 0;
    for (size_t i = 0; i < count; i++)
        if (amax < fabsf(x[i])) {
            amax = fabsf(x[i]);
            max = x[i];
        }
    return max;
}

/* A float cast to int8_t as x86 does it: through a 32-bit integer whose overflow, and NaN, is INT32_MIN. */
static int8_t cast_int8(float x) {
    if (!(x > -2147483904.0f && x < 2147483648.0f)) return 0;
    uint8_t low = (uint8_t)((uint32_t)(int32_t)x & 0xFF);
    int8_t out;
    memcpy(&out, &low, 1);
    return out;
}

static void store(const struct nib_quantizer *q, struct nib_ref_block *block, float d) {
    uint32_t bits = isnan(d) ? 0xFFC00000u : nib_bits_of_float(d); /* 0/0 on x86 */
    block->scale = nib_f16_of_bits(bits);
    float scale = nib_float_of_bits(nib_bits_of_f16((uint16_t)block->scale));
    for (size_t i = 0; i < block->count; i++) block->values[i] = q->block->element->level[block->codes[i]] * scale;
}

void nib_ref_ggml_q4_0(const struct nib_quantizer *q, struct nib_ref_block *block) {
    float d = signed_max(block->x, block->count) / -8, id = d != 0 ? 1.0f / d : 0.0f;
    for (size_t i = 0; i < block->count; i++) {
        float y = block->x[i] * id;
        int8_t code = cast_int8(y + 8.5f);
        block->codes[i] = (uint8_t)(code < 15 ? code : 15) & 15;
    }
    store(q, block, d);
}

/* Bisection, and then the nearer of two neighbours, the upper one on a tie. */
static uint8_t nearest_index(const float level[NIB_CODES], float x) {
    int low = 0, high = 15;
    if (x <= level[0]) return 0;
    if (x >= level[15]) return 15;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (x < level[middle])
            high = middle;
        else
            low = middle;
    }
    return (uint8_t)(x - level[high - 1] < level[high] - x ? high - 1 : high);
}

void nib_ref_ggml_iq4_nl(const struct nib_quantizer *q, struct nib_ref_block *block) {
    const float *level = q->block->element->level, *x = block->x;
    float max = signed_max(x, block->count), sum_qx = 0, sum_q2 = 0;
    float id = 1.0f / (max / level[0]);
    if (fabsf(max) < NIB_GGML_IQ4_NL_TINY) { /* see nib_ggml_stale_codes */
        memset(block->codes, 0, block->count);
        store(q, block, 0);
        return;
    }
    for (size_t i = 0; i < block->count; i++) {
        block->codes[i] = nearest_index(level, id * x[i]);
        float weighted = (x[i] * x[i]) * level[block->codes[i]];
        sum_qx += weighted * x[i];
        sum_q2 += weighted * level[block->codes[i]];
    }
    store(q, block, sum_q2 > 0 ? sum_qx / sum_q2 : 0);
}

/* By code where those are there, else by the sign of a value, which is never lost. */
static float stale_level(const struct nib_quantizer *q, const struct nib_quantized *out, size_t at) {
    return out->codes != NULL ? q->block->element->level[out->codes[at]] : out->values[at];
}

void nib_ggml_stale_codes(const struct nib_quantizer *q, struct nib_view x, struct nib_quantized *out) {
    size_t size = q->block->block_cols, along = x.cols / size;
    float block[64];
    if (out->axis != NIB_ALONG_COLS || x.cols % size != 0 || size > 64 || size % 2 != 0) return;
    for (size_t i = 1; i < x.rows * along; i++) {
        size_t row = i / along, column = i % along * size, before = (i - 1) / along, from = (i - 1) % along * size;
        nib_widen((struct nib_view){x.data, x.dtype, x.rows, x.cols, x.stride}, row * x.cols + column, size, block);
        if (!(fabsf(signed_max(block, size)) < NIB_GGML_IQ4_NL_TINY)) continue;
        size_t to = row * x.cols + column, source = before * x.cols + from;
        if (out->codes != NULL) memcpy(out->codes + to, out->codes + source, size);
        for (size_t j = 0; out->values != NULL && j < size; j++) /* zeros, with the signs of those codes */
            out->values[to + j] = copysignf(0, stale_level(q, out, source + j));
        if (out->packed != NULL)
            memcpy(out->packed + row * out->packed_stride + column / 2,
                   out->packed + before * out->packed_stride + from / 2, size / 2);
    }
}
