#include "format/conversion.h"

#include <string.h>

#include "core/key.h"
#include "format/conversion_special.h"

#define SMALL(named, from, to, m, b, sign, max, over, inf, plus, minus_nan)                       \
    {.name = named, .source = from, .direction = to, .mbits = m, .bias = b, .sign_bit = sign, .max_code = max, \
     .overflow_code = over, .infinity_code = inf, .nan_plus = plus, .nan_minus = minus_nan},
#define POWER(named, from, to, over, inf, nan, zero, negative, wrap)                              \
    {.name = named, .source = from, .direction = to, .max_code = 0xFE, .overflow_code = over, .infinity_code = inf, \
     .nan_plus = nan, .nan_minus = nan, .zero_code = zero, .minus = negative, .wraps = wrap},
#define SPECIAL(named, from, function) {.name = named, .source = from, .special = function},
const struct nib_conversion nib_conversions[] = {
#include "format/conversions.def"
};
#undef SMALL
#undef POWER
#undef SPECIAL
const size_t nib_conversion_count = sizeof nib_conversions / sizeof *nib_conversions;

const struct nib_conversion *nib_conversion_find(const char *name) {
    for (size_t i = 0; i < nib_conversion_count; i++)
        if (strcmp(nib_conversions[i].name, name) == 0) return &nib_conversions[i];
    return NULL;
}

/* What lies beyond the lower neighbour: nothing, less than half a step, half, more. */
enum rest { EXACT, LESS, HALF, MORE };

static enum rest rest_of(uint32_t discarded, uint32_t half) {
    if (discarded == 0) return EXACT;
    return discarded < half ? LESS : discarded == half ? HALF : MORE;
}

/* Whether the magnitude goes to the upper neighbour. */
static bool goes_up(enum nib_direction direction, enum rest rest, bool odd, bool negative) {
    switch (direction) {
    case NIB_TO_NEAREST_EVEN: return rest == MORE || (rest == HALF && odd);
    case NIB_TO_NEAREST_AWAY: return rest >= HALF;
    case NIB_TOWARD_ZERO: return false;
    case NIB_TOWARD_PLUS: return rest != EXACT && !negative;
    case NIB_TOWARD_MINUS: return rest != EXACT && negative;
    case NIB_TO_ODD: break;
    }
    return rest != EXACT && !odd;
}

static uint32_t to_small(const struct nib_conversion *c, uint32_t magnitude, bool negative) {
    uint32_t sign = negative ? c->sign_bit : 0, exponent = magnitude >> 23;
    if (magnitude == NIB_BITS_INFINITY) return c->infinity_code | sign;
    uint32_t significand = (magnitude & 0x7FFFFF) | (uint32_t)(exponent > 0) << 23;
    uint32_t lowest = (uint32_t)(128 - c->bias); /* of the normal numbers; below, the grid stays the same */
    if (exponent == 0) exponent = 1;
    uint32_t target = exponent > lowest ? exponent : lowest;
    uint32_t shift = (uint32_t)(23 - c->mbits) + (target - exponent);
    if (shift > 26) shift = 26; /* nothing but "more than zero" is left */
    uint32_t kept = significand >> shift, half = 1u << (shift - 1);
    enum rest rest = rest_of(significand & (2 * half - 1), half);
    uint32_t code = kept + goes_up(c->direction, rest, kept & 1, negative) + ((target - lowest) << c->mbits);
    return (code > c->max_code ? c->overflow_code : code) | sign;
}

/* The exponent code of 2^k is k+127. Where a sign is ignored, it is gone before anything is rounded. */
static uint32_t to_power(const struct nib_conversion *c, uint32_t magnitude, bool negative) {
    if (negative && c->minus == NIB_MINUS_IS_NAN) return c->nan_minus;
    if (magnitude == 0) return c->zero_code;
    if (magnitude == NIB_BITS_INFINITY) return c->infinity_code;
    int32_t kept = (int32_t)(magnitude >> 23);
    uint32_t mantissa = magnitude & 0x7FFFFF;
    enum rest rest = rest_of(mantissa, 0x400000);
    if (kept == 0 && c->wraps) {
        int lead = 31 - __builtin_clz(magnitude); /* 2^(lead-149) */
        kept = lead - 22;
        mantissa = (magnitude << (23 - lead)) & 0x7FFFFF;
        rest = rest_of(mantissa, 0x400000);
    } else if (kept == 0) { /* 2^-127 is 0x400000; whatever lies above it counts as more than half */
        rest = mantissa > 0x400000 ? MORE : EXACT;
    }
    int32_t code = kept + goes_up(c->direction, rest, kept & 1, false);
    return code > (int32_t)c->max_code ? c->overflow_code : (uint32_t)code & 0xFF;
}

uint32_t nib_convert(const struct nib_conversion *c, uint32_t bits) {
    uint32_t magnitude = bits & NIB_BITS_MAGNITUDE;
    bool negative = bits >> 31 != 0;
    if (c->special != NULL) return c->special(bits);
    if (magnitude > NIB_BITS_INFINITY) return negative ? c->nan_minus : c->nan_plus;
    return c->sign_bit != 0 ? to_small(c, magnitude, negative) : to_power(c, magnitude, negative);
}
