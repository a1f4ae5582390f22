/* How many random integers give each code. */
#include <string.h>
#include "format/quantizer.h"
#include "quantize/sr.h"

/* Integers from `low` to `high` whose codes follow each other in one direction: equal ends mean equal codes between. */
static void between(const struct nib_quantizer *q, float y, uint64_t low, uint64_t high, unsigned shift,
                    uint64_t weight, uint64_t count[NIB_CODES]) {
    uint8_t first = nib_sr_code_by_form(q, y, (uint32_t)(low << shift));
    uint8_t last = nib_sr_code_by_form(q, y, (uint32_t)(high << shift));
    if (first == last)
        count[first] += (high - low + 1) * weight;
    else if (high == low + 1) {
        count[first] += weight;
        count[last] += weight;
    } else {
        uint64_t middle = low + (high - low) / 2;
        between(q, y, low, middle, shift, weight, count);
        between(q, y, middle + 1, high, shift, weight, count);
    }
}

uint64_t nib_sr_distribution(const struct nib_quantizer *q, float y, uint64_t count[NIB_CODES]) {
    unsigned n = 8 * nib_axes_random_bytes(&q->axes);
    memset(count, 0, NIB_CODES * sizeof *count);
    switch ((enum nib_axis_sr_form)q->axes.sr_form) {
    case NIB_SR_COMPARE: /* a word and its complement give one number */
    case NIB_SR_COMPARE_NEXT: between(q, y, 0, 0x7FFFFFFF, 0, 2, count); break;
    case NIB_SR_DITHER: between(q, y, 0, (1u << 23) - 1, 9, 512, count); break;
    case NIB_SR_MSLK: between(q, y, 0, (1u << 22) - 1, 0, 1024, count); break;
    case NIB_SR_FLOOR_ADD:
    case NIB_SR_RINT: { /* the last words give 0 again */
        uint64_t last = UINT32_MAX;
        while (nib_torch_uniform((uint32_t)last) == 0) last--;
        between(q, y, 0, last, 0, 1, count);
        between(q, y, last + 1, UINT32_MAX, 0, 1, count);
        break;
    }
    case NIB_SR_CARRY:
    case NIB_SR_HALF:
    case NIB_SR_NEAREST:
    case NIB_SR_ODD:
    case NIB_SR_TE:
    case NIB_AXIS_sr_form_COUNT: between(q, y, 0, (UINT64_C(1) << n) - 1, 0, 1, count); break;
    }
    return UINT64_C(1) << n;
}
