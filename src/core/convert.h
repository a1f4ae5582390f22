/* bf16 and fp16 to binary32 (exact) and back (nearest even), on bits. NaN keeps its sign and the top
 * of its payload and becomes quiet, as the processors' own conversions do. */
#ifndef NIB_CORE_CONVERT_H
#define NIB_CORE_CONVERT_H

#include "core/key.h"

static inline uint32_t nib_bits_of_bf16(uint16_t half) {
    return (uint32_t)half << 16;
}

static inline uint16_t nib_bf16_of_bits(uint32_t bits) {
    uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40;
    return (uint16_t)(nib_bits_are_nan(bits) ? quiet : rounded);
}

/* Integers alone need a leading-zero count for fp16 subnormals; an exact product by 2^-24 does not,
 * and binary32 holds every fp16 number as a normal one. */
static inline uint32_t nib_bits_of_f16(uint16_t half) {
    uint32_t magnitude = half & 0x7FFF, sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t normal = (magnitude << 13) + ((127u - 15u) << 23);
    uint32_t special = (magnitude << 13) | NIB_BITS_INFINITY | (magnitude > 0x7C00 ? 0x400000u : 0u);
    uint32_t subnormal = nib_bits_of_float((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t finite = magnitude < 0x0400 ? subnormal : normal;
    return sign | (magnitude >= 0x7C00 ? special : finite);
}

static inline uint16_t nib_f16_of_bits(uint32_t bits) {
    uint32_t magnitude = bits & NIB_BITS_MAGNITUDE, sign = bits >> 16 & 0x8000;
    uint32_t exponent = magnitude >> 23;
    uint32_t significand = (magnitude & 0x7FFFFF) | (uint32_t)(exponent > 0) << 23;
    /* The grid is that of exponent 113 (2^-14) or above; 26 places shift everything out. */
    uint32_t target = exponent > 113 ? exponent : 113;
    uint32_t shift = 13 + (target - exponent);
    shift = shift < 26 ? shift : 26;
    uint32_t kept = significand >> shift, half = 1u << (shift - 1);
    uint32_t discarded = significand & (2 * half - 1);
    kept += (uint32_t)(discarded + (kept & 1) > half);
    uint32_t finite = kept + ((target - 113) << 10);
    finite = finite < 0x7C00 ? finite : 0x7C00;
    uint32_t quiet = 0x7E00 | (magnitude >> 13 & 0x1FF);
    return (uint16_t)(sign | (nib_bits_are_nan(bits) ? quiet : finite));
}

#endif
