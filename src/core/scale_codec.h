/* Scale formats on bits. Every function is branch-free and vectorises when its format is constant. */
#ifndef NIB_CORE_SCALE_CODEC_H
#define NIB_CORE_SCALE_CODEC_H

#include "core/key.h"
#include <nibble/scale.h>

enum { NIB_BITS_QUIET_NAN = 0x7FC00000 };

/* Whether a value between two codes takes the upper one: `kept` is the lower code, `discarded` the
 * rest in units where `half` is the middle. */
static inline uint32_t nib_scale_carry(enum nib_scale_rounding mode, uint32_t kept, uint32_t discarded, uint32_t half) {
    uint32_t nearest = (uint32_t)(discarded + (kept & 1) > half);
    uint32_t up = (uint32_t)(discarded > 0);
    return mode == NIB_SCALE_NEAREST ? nearest : mode == NIB_SCALE_UP ? up : 0;
}

/* The magnitude of a minifloat with `mbits` mantissa bits and exponent bias `bias`; saturates at
 * max_code, NaN gives nan_code. */
static inline uint32_t nib_minifloat_encode(uint32_t bits, int mbits, int bias, uint32_t max_code, uint32_t nan_code,
                                            enum nib_scale_rounding mode) {
    uint32_t magnitude = bits & NIB_BITS_MAGNITUDE;
    uint32_t exponent = magnitude >> 23;
    uint32_t significand = (magnitude & 0x7FFFFF) | (uint32_t)(exponent > 0) << 23;
    exponent = exponent > 0 ? exponent : 1;
    /* Below the smallest normal exponent the grid stays that of the subnormals; 26 places shift
     * everything out, and a binary32 subnormal is then nothing but "more than zero". */
    uint32_t lowest = (uint32_t)(128 - bias);
    uint32_t target = exponent > lowest ? exponent : lowest;
    uint32_t shift = (uint32_t)(23 - mbits) + (target - exponent);
    shift = shift < 26 ? shift : 26;
    uint32_t kept = significand >> shift, half = 1u << (shift - 1);
    uint32_t discarded = significand & (2 * half - 1);
    uint32_t code = kept + nib_scale_carry(mode, kept, discarded, half) + ((target - lowest) << mbits);
    code = code < max_code ? code : max_code;
    return magnitude > NIB_BITS_INFINITY ? nan_code : code;
}

/* Bits of the value of a magnitude code. Above max_code: infinity where the mantissa is 0 (E5M2),
 * else NaN. */
static inline uint32_t nib_minifloat_decode(uint32_t code, int mbits, int bias, uint32_t max_code) {
    uint32_t normal = (code << (23 - mbits)) + ((uint32_t)(127 - bias) << 23);
    uint32_t unit = (uint32_t)(128 - bias - mbits) << 23; /* the smallest subnormal, 2^(1-bias-mbits) */
    uint32_t subnormal = nib_bits_of_float((float)(int32_t)code * nib_float_of_bits(unit));
    uint32_t mantissa = code & ((1u << mbits) - 1);
    uint32_t special = mantissa == 0 ? (uint32_t)NIB_BITS_INFINITY : (uint32_t)NIB_BITS_QUIET_NAN;
    uint32_t finite = code >> mbits == 0 ? subnormal : normal;
    return code > max_code ? special : finite;
}

static inline uint32_t nib_e4m3_encode(uint32_t bits, enum nib_scale_rounding mode) {
    return nib_minifloat_encode(bits, 3, 7, 0x7E, 0x7F, mode);
}
static inline uint32_t nib_e4m3_decode(uint32_t code) {
    return nib_minifloat_decode(code & 0x7F, 3, 7, 0x7E);
}

static inline uint32_t nib_e5m2_encode(uint32_t bits, enum nib_scale_rounding mode) {
    return nib_minifloat_encode(bits, 2, 15, 0x7B, 0x7F, mode);
}
static inline uint32_t nib_e5m2_decode(uint32_t code) {
    return nib_minifloat_decode(code & 0x7F, 2, 15, 0x7B);
}

static inline uint32_t nib_ue5m3_encode(uint32_t bits, enum nib_scale_rounding mode) {
    return nib_minifloat_encode(bits, 3, 15, 0xFE, 0xFF, mode);
}
static inline uint32_t nib_ue5m3_decode(uint32_t code) {
    return nib_minifloat_decode(code & 0xFF, 3, 15, 0xFE);
}

/* Powers of two from 2^-127 (a binary32 subnormal) to 2^127; the sign is ignored. */
static inline uint32_t nib_e8m0_encode(uint32_t bits, enum nib_scale_rounding mode) {
    uint32_t magnitude = bits & NIB_BITS_MAGNITUDE;
    uint32_t kept = magnitude >> 23, discarded = magnitude & 0x7FFFFF, half = 0x400000;
    /* Between 2^-127 = 0x400000 and 2^-126 the cell is half as wide; below, the smallest code. */
    uint32_t lowest = discarded > 0x400000 ? 2 * (discarded - 0x400000) : 0;
    discarded = kept == 0 ? lowest : discarded;
    uint32_t code = kept + nib_scale_carry(mode, kept, discarded, half);
    code = code < 0xFE ? code : 0xFE;
    return magnitude > NIB_BITS_INFINITY ? 0xFF : code;
}
static inline uint32_t nib_e8m0_decode(uint32_t code) {
    uint32_t number = code == 0 ? 0x400000 : code << 23;
    return code == 0xFF ? (uint32_t)NIB_BITS_QUIET_NAN : number;
}

/* HiF4's E6M2: from 2^-48 to 1.5 * 2^15, no zero, no subnormals; the sign is ignored. */
static inline uint32_t nib_e6m2_encode(uint32_t bits, enum nib_scale_rounding mode) {
    const uint32_t least = (127 - 48) << 23, most = (127 + 15) << 23 | 0x400000;
    uint32_t magnitude = bits & NIB_BITS_MAGNITUDE, clamped = magnitude < least ? least : magnitude;
    clamped = clamped > most ? most : clamped;
    uint32_t kept = clamped >> 21, code = kept + nib_scale_carry(mode, kept, clamped & 0x1FFFFF, 0x100000);
    return magnitude > NIB_BITS_INFINITY ? 0xFF : code - (least >> 21);
}
static inline uint32_t nib_e6m2_decode(uint32_t code) {
    return code == 0xFF ? (uint32_t)NIB_BITS_QUIET_NAN : (code + ((127 - 48) << 2)) << 21;
}

/* BF16 with its sign; saturating, unlike nib_bf16_of_bits. */
static inline uint32_t nib_bf16_encode(uint32_t bits, enum nib_scale_rounding mode) {
    uint32_t magnitude = bits & NIB_BITS_MAGNITUDE;
    uint32_t kept = magnitude >> 16;
    uint32_t code = kept + nib_scale_carry(mode, kept, magnitude & 0xFFFF, 0x8000);
    code = code < 0x7F7F ? code : 0x7F7F;
    return magnitude > NIB_BITS_INFINITY ? 0x7FC0 : code | (bits >> 16 & 0x8000);
}
static inline uint32_t nib_bf16_decode(uint32_t code) {
    return code << 16;
}

#endif
