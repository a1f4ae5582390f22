/* Binary32 numbers as integers that compare like the numbers. */
#ifndef NIB_CORE_KEY_H
#define NIB_CORE_KEY_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { NIB_BITS_INFINITY = 0x7F800000, NIB_BITS_MAGNITUDE = 0x7FFFFFFF };

static inline uint32_t nib_bits_of_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float nib_float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline bool nib_bits_are_nan(uint32_t bits) {
    return (bits & NIB_BITS_MAGNITUDE) > NIB_BITS_INFINITY;
}

/* Ascending with the number; -0 is -1 and +0 is 0. */
static inline int32_t nib_key_of_bits(uint32_t bits) {
    return (int32_t)(bits ^ ((uint32_t)((int32_t)bits >> 31) >> 1));
}

/* The map is its own inverse. */
static inline uint32_t nib_bits_of_key(int32_t key) {
    return (uint32_t)nib_key_of_bits((uint32_t)key);
}

/* A word whose bytes lie in memory lowest first. */
static inline uint32_t nib_little_endian(uint32_t x) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return x;
#else
    return __builtin_bswap32(x);
#endif
}

#endif
