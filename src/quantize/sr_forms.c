/* Forms of stochastic rounding that real kernels have, operation by operation. */
#include <math.h>
#include "core/convert.h"
#include "core/key.h"
#include "format/quantizer.h"
#include "quantize/approx.h"
#include "quantize/sr.h"

/* Levels of E2M1 by code of the magnitude. */
static const float levels[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
static uint8_t code_of(float magnitude, bool negative) {
    uint8_t code = 0;
    while (code < 7 && levels[code + 1] <= magnitude) code++;
    return (uint8_t)(code | (negative ? 8 : 0));
}
static float step_at(float magnitude) {
    return magnitude < 2 ? 0.5f : magnitude < 4 ? 1 : 2;
}

static uint8_t te(float y, uint32_t r) {
    float a = isfinite(y) ? fabsf(y) : 6, t = fmaf((float)r * (1 / 256.0f), step_at(a), a), step = step_at(t);
    return code_of(fminf(floorf(t / step) * step, 6), signbit(y));
}

float nib_torch_uniform(uint32_t r) {
    float u = (float)r * 2.3283064e-10f + 2.3283064e-10f / 2;
    return u == 1 ? 0 : u;
}
/* tl.rand */
float nib_triton_uniform(uint32_t r) {
    return (float)(int32_t)(r >> 31 != 0 ? ~r : r) * 4.6566127342e-10f;
}

/* Three grids, each rounded, one of them chosen. The sign is a factor of the result: a zero may take either. */
static uint8_t rint_form(float y, uint32_t r) {
    float a = fabsf(y), noise = nib_torch_uniform(r) - 0.5f, sign = (float)((y > 0) - (y < 0));
    float low = rintf(2 * a + noise) / 2, middle = rintf(a + noise), high = 2 * rintf(a / 2 + noise);
    if (high > 6) high = 6;
    float below_2 = a < 2, below_4 = a < 4;
    float value = sign * ((low * below_2 + middle * (1 - below_2) * below_4) + high * (1 - below_2) * (1 - below_4));
    return code_of(fabsf(value), signbit(value));
}

static uint8_t compare(float y, uint32_t r, bool next) {
    float a = fabsf(y);
    unsigned low = 0, high = 0;
    for (unsigned i = 1; i < 7; i++) {
        low += a > levels[i];
        high += next ? a >= levels[i] : a > levels[i];
    }
    float q = levels[low], above = levels[high + 1];
    return code_of(nib_triton_uniform(r) < nib_div_full(a - q, above - q) ? above : q, signbit(y));
}

/* To nearest, ties to the even code. */
static uint8_t nearest(float y) {
    static const float middle[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
    float a = fabsf(y);
    uint8_t code = 0;
    for (unsigned i = 0; i < 7; i++) code = (uint8_t)(code + (i % 2 != 0 ? a >= middle[i] : a > middle[i]));
    return (uint8_t)(code | (signbit(y) ? 8 : 0));
}

static uint8_t dither(float y, uint32_t r) {
    float a = fabsf(y), noise = nib_float_of_bits(0x3F800000u | r >> 9) - 1.5f;
    float low = a < 2 ? 0 : a < 4 ? 2 : 4, high = a < 2 ? 2 : a < 4 ? 4 : 6;
    float t = fminf(fmaxf(a + noise * step_at(a), low), high);
    return nearest(copysignf(t, y));
}

/* An integer sum on the bits; where it leaves the numbers of one sign it is the pattern of a NaN, which becomes 6. */
static uint8_t mslk(float y, uint32_t r) {
    float t = nib_float_of_bits(nib_bits_of_float(y) + (r & 0x3FFFFFu) - 0x1FFFFFu);
    return isnan(t) ? 7 : nearest(t);
}

static float to_bf16(float x) {
    return nib_float_of_bits(nib_bits_of_bf16(nib_bf16_of_bits(nib_bits_of_float(x))));
}

/* The binade is read off a logarithm, which rounds up just below 8: there the sum counts in steps of 4, as from 8 on.
 */
uint8_t nib_sr_floor_add(const struct nib_element *element, float y, uint32_t r, bool bf16) {
    float a = fabsf(y), u = nib_torch_uniform(r), step = element->level[1];
    if (bf16) u = to_bf16(u);
    if (u == 1) u = 0;
    if (element->level[7] != 7 * step) step = nib_log2_reaches_3(a, bf16) ? 4 : step_at(a); /* E2M1 */
    float sum = a / step + u, value = floorf(bf16 ? to_bf16(sum) : sum) * step;
    uint8_t code = 0;
    while (code < 7 && element->level[code + 1] <= value) code++;
    return (uint8_t)(code | (signbit(y) ? 8 : 0));
}

uint8_t nib_sr_code_by_form(const struct nib_quantizer *q, float y, uint32_t r) {
    const struct nib_element *element = q->block->element;
    unsigned n = 8 * nib_axes_random_bytes(&q->axes);
    switch ((enum nib_axis_sr_form)q->axes.sr_form) {
    case NIB_SR_CARRY: return nib_sr_code_compared(element, y, n, r, NIB_SR_FLOOR);
    case NIB_SR_HALF: return nib_sr_code_compared(element, y, n, r, NIB_SR_HALF_MORE);
    case NIB_SR_NEAREST: return nib_sr_code_compared(element, y, n, r, NIB_SR_TO_EVEN);
    case NIB_SR_ODD: return nib_sr_code_compared(element, y, n, r, NIB_SR_TO_ODD);
    case NIB_SR_TE: return te(y, r);
    case NIB_SR_RINT: return rint_form(y, r);
    case NIB_SR_COMPARE: return compare(y, r, false);
    case NIB_SR_COMPARE_NEXT: return compare(y, r, true);
    case NIB_SR_DITHER: return dither(y, r);
    case NIB_SR_FLOOR_ADD: return nib_sr_floor_add(element, y, r, false);
    case NIB_SR_MSLK: return mslk(y, r);
    case NIB_AXIS_sr_form_COUNT: break;
    }
    return 0;
}
