#include "cli/selftest_input.h"

#include "core/key.h"

static const char *const names[] = {"normal", "special", "wide"};
/* By row modulo 8: what is added to the exponent. */
static const int shifts[][8] = {{0, 1, 2, 3, -1, -2, -3, -4}, {0}, {0, 20, -20, 60, -60, 100, -126, -135}};

const char *nib_selftest_tensor_name(enum nib_selftest_tensor tensor) { return names[tensor]; }

/* The output function of SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t split_mix(uint64_t index) {
    uint64_t z = (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static uint32_t word(enum nib_selftest_tensor tensor, unsigned i) {
    uint64_t z = split_mix(i + 100000 * (uint64_t)tensor);
    uint32_t low = (uint32_t)(z >> 23 & 0xFFFF) | 0x10000;
    int steps = 0; /* the lowest bit that is set: a geometric distribution */
    while ((low >> steps & 1) == 0) steps++;
    int exponent = 127 + shifts[tensor][i / NIB_SELFTEST_COLS % 8] - steps;
    if (exponent < 0) exponent = 0;
    return (uint32_t)(z >> 63) << 31 | (uint32_t)exponent << 23 | (uint32_t)(z & 0x7FFFFF);
}

void nib_selftest_input(enum nib_selftest_tensor tensor, bool bf16, uint32_t bits[NIB_SELFTEST_COUNT]) {
    static const uint32_t specials[] = {0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345,
                                        0x7F800001, 0x00000000, 0x80000000, 0x00000001};
    for (unsigned i = 0; i < NIB_SELFTEST_COUNT; i++) bits[i] = word(tensor, i);
    if (tensor == NIB_SELFTEST_SPECIAL) {
        for (unsigned i = 0; i < sizeof specials / sizeof *specials; i++) bits[i * 131 + 17] = specials[i];
    } else { /* a block of zeros, and single ones of both signs */
        for (unsigned i = 64; i < 96; i++) bits[i] = 0;
        bits[7] = 0;
        bits[8] = 0x80000000;
    }
    if (!bf16) return;
    for (unsigned i = 0; i < NIB_SELFTEST_COUNT; i++) { /* cut, but a NaN stays one */
        bool nan = nib_bits_are_nan(bits[i]);
        bits[i] &= 0xFFFF0000;
        if (nan && !nib_bits_are_nan(bits[i])) bits[i] |= 0x00400000;
    }
}
