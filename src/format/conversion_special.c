#include "format/conversion_special.h"

#include "core/key.h"

/* ---- aiter: |x| is divided in binary32, then its exponent field is the code. A NaN has the field of infinity. */

static uint32_t magnitude(uint32_t bits) { return bits & NIB_BITS_MAGNITUDE; }
static uint32_t field(uint32_t bits) { return bits >> 23 & 0xFF; }
/* One more where any mantissa bit is set, among subnormals too. */
static uint32_t field_up(uint32_t bits) { return field(bits) + (field(bits) != 0xFF && (bits & 0x7FFFFF) != 0); }

static uint32_t times(uint32_t bits, float factor) { return nib_bits_of_float(nib_float_of_bits(magnitude(bits)) * factor); }

/* The exponent of the number whose bits had 0x200000 added; a NaN with a large payload runs over into the sign. */
static uint32_t even(uint32_t bits) { return field(times((bits + 0x200000) & 0xFF800000, 0.25f)); }

uint32_t nib_aiter_down(uint32_t bits) { return field(times(bits, 0.25f)); }
uint32_t nib_aiter_ceil(uint32_t bits) { return field_up(times(bits, 0.25f)); }
uint32_t nib_aiter_up(uint32_t bits) { return field_up(times(bits, 1.0f / 6)); }
uint32_t nib_aiter_up_cpu(uint32_t bits) { return field_up(nib_bits_of_float(nib_float_of_bits(magnitude(bits)) / 6)); }
uint32_t nib_aiter_even_cpu(uint32_t bits) { return even(magnitude(bits)); }
/* The absolute value of a NaN on CUDA is 7FFFFFFF. */
uint32_t nib_aiter_even(uint32_t bits) { return even(nib_bits_are_nan(bits) ? 0x7FFFFFFF : magnitude(bits)); }

/* ---- auto-round: the mantissa goes to nearest even but never carries into the exponent; subnormals are 1 to 7; what is
 * not above zero, NaN included, is 0; beyond the largest exponent the exponent stays and the mantissa goes on. */

static uint32_t nearest_even(uint32_t x, unsigned drop) {
    uint32_t half = 1u << (drop - 1), rest = x & ((1u << drop) - 1), kept = x >> drop;
    return kept + (rest > half || (rest == half && (kept & 1) != 0));
}

uint32_t nib_auto_round_ue5m3(uint32_t bits) {
    if (bits == 0 || bits >> 31 != 0 || bits > NIB_BITS_INFINITY) return 0;
    if (bits == NIB_BITS_INFINITY) return 0xFE;
    int exponent = (int)field(bits) - 127 + 15;
    if (exponent < 1) { /* in units of 2^-17, with 24 bits of significand */
        uint32_t significand = (bits & 0x7FFFFF) | (field(bits) > 0 ? 0x800000u : 0);
        int drop = 20 + (1 - exponent);
        uint32_t units = drop < 26 ? nearest_even(significand, (unsigned)drop) : 0;
        return units < 1 ? 1 : units > 7 ? 7 : units;
    }
    uint32_t mantissa = nearest_even(bits & 0x7FFFFF, 20);
    return (uint32_t)(exponent < 31 ? exponent : 31) << 3 | (mantissa < 7 ? mantissa : 7);
}
