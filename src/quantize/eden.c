#include "quantize/eden.h"

#include <math.h>
#include "core/key.h"
#include "core/philox.h"
#include "quantize/approx.h"
#include "quantize/sr.h"

/* Sum of products as Triton's threads form it: fused multiply-adds over runs of 8 bfloat16 or 4 binary32 elements,
 * then run i with run i + n/2. */
static float dot(const float *a, const float *b, unsigned run) {
    float sum[NIB_EDEN_GROUP];
    unsigned count = NIB_EDEN_GROUP / run;
    for (unsigned i = 0; i < count; i++) {
        sum[i] = a[i * run] * b[i * run];
        for (unsigned j = 1; j < run; j++) sum[i] = fmaf(a[i * run + j], b[i * run + j], sum[i]);
    }
    for (unsigned half = count / 2; half > 0; half /= 2)
        for (unsigned i = 0; i < half; i++) sum[i] = sum[i] + sum[i + half];
    return sum[0];
}

/* The neighbour above with probability (s - below) /~ (above - below). */
static uint32_t drawn_scale(const struct nib_scale *format, float s, float u) {
    uint32_t code = nib_scale_encode(format, NIB_SCALE_NEAREST, s);
    float nearest = nib_scale_decode(format, code);
    uint32_t below = nearest > s ? code - 1 : code, above = nearest > s ? code : code + 1;
    float low = nib_scale_decode(format, below), high = nib_scale_decode(format, above);
    return u < nib_div_full(s - low, high - low) ? above : below;
}

/* The element, cut to TF32 where the axis says so; what is not finite needs no care here. */
static float taken(const struct nib_quantizer *q, const struct nib_tensor_scale *t, float x) {
    bool cut = q->axes.input_precision == NIB_INPUT_TF32 && !t->bf16 && isfinite(x);
    return cut ? nib_float_of_bits(nib_bits_of_float(x) & 0xFFFFE000u) : x;
}

void nib_eden_correct(const struct nib_quantizer *q, const struct nib_tensor_scale *t,
                      const struct nib_eden_group *group) {
    const struct nib_scale *format = q->block->scale;
    const unsigned size = q->block->block_cols;
    float x[NIB_EDEN_GROUP], y[NIB_EDEN_GROUP], level[NIB_EDEN_GROUP];
    for (unsigned i = 0; i < NIB_EDEN_GROUP; i++) x[i] = taken(q, t, group->x[i]);
    for (unsigned i = 0; i < NIB_EDEN_GROUP; i += size) {
        struct nib_ref_scale s = {.code = group->scale[i / size],
                                  .value = nib_scale_decode(format, group->scale[i / size]),
                                  .empty = nib_ref_is_empty(q, nib_ref_amax(q, x + i, size))};
        for (unsigned j = i; j < i + size; j++) {
            y[j] = nib_ref_element_of(q, t, &s, x[j], 0).scaled;
            level[j] = q->block->element->level[group->codes[j]];
        }
    }
    unsigned run = t->bf16 ? 8 : 4;
    float square = dot(y, y, run), product = dot(y, level, run),
          correction = product == 0 ? 1 : nib_div_full(square, product);
    for (unsigned b = 0; b < NIB_EDEN_GROUP / size; b++) {
        float s = nib_scale_decode(format, group->scale[b]);
        if (s == 0 && q->axes.zero_scale == NIB_ZERO_SCALE_ONE) s = 1;
        float u = nib_triton_uniform(nib_philox(group->seed, group->first_block + b, 0).word[0]);
        group->scale[b] = drawn_scale(format, s * correction, u);
        struct nib_ref_scale corrected = {.code = group->scale[b], .value = nib_scale_decode(format, group->scale[b])};
        for (unsigned j = 0; j < size && group->values != NULL; j++)
            group->values[b * size + j] = nib_ref_value(q, t, &corrected, level[b * size + j]);
    }
}
