// Arithmetic of the fast kernels, for bf16 input: amax and signs on packed words, codes by one addition a binade, packing by integer
// multiply-adds. Floating-point and integer multiply-adds run beside the logic units, which are the narrow place on Hopper.
#pragma once

#include "launch.cuh"
#include "quotient.h"

enum FastRule { FAST_NV, FAST_MX, FAST_FP32 };           // te-nvfp4, ocp-mxfp4, FP32 scales by division
enum FastElement { FAST_E2M1, FAST_HALVES };             // 0, 1/2, 1, 3/2, 2, 3, 4, 6; multiples of 1/2 to 7/2

struct FastLaunch {
    nib_gpu_quantizer q;
    Grid grid;
    const TensorScale *tensor;
    uint8_t *packed, *scales;
    uint32_t blocks;                 // rows of blocks of 16 elements: their number
    uint32_t rows, cols;
    uint32_t flip[8];                // sign bits of the rotation, over the words
    uint32_t negative;               // the same, a bit an element
    uint32_t by16, by256, by65536;   // multipliers that the compiler must not know, or it would shift
};

__device__ __forceinline__ float low_half(uint32_t word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high_half(uint32_t word) { return __uint_as_float(word & 0xFFFF0000u); }
__device__ __forceinline__ uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
    uint32_t out;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(selector)); // selectors of 8 and more spread the sign of a byte
    return out;
}
// Larger magnitudes of two words, a half each, under a sign that means nothing; NaN is larger than all.
__device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b) {
    uint32_t out;
    asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}
__device__ __forceinline__ uint32_t magnitudes(uint32_t word) { return word & 0x7FFF7FFFu; }
// Computed once: the compiler would do so again wherever registers are short.
__device__ __forceinline__ void hold(uint32_t &x) { asm volatile("" : "+r"(x)); }

// ---- block scales ----

// By code of the scale: what elements are multiplied with. Every thread block fills its own, 128 numbers in shared memory.
template <int RULE> __device__ __forceinline__ uint32_t fill_factors(float *table, float decode) {
    if (RULE == FAST_NV) {
        if (threadIdx.x < 128) table[threadIdx.x] = fminf(__fdiv_rn(1.0f, __fmul_rn(e4m3_value(threadIdx.x), decode)), FLT_MAX);
        __syncthreads();
    }
    uint32_t at = (uint32_t)__cvta_generic_to_shared(table);
    hold(at);
    return at;
}

struct FastScale {
    uint32_t stored;
    float factor, divisor; // x * factor, or x / divisor with factor = 1 / divisor
    bool plain;            // no NaN, no infinity, nothing beyond the grid
};

// `bits`: bf16 pattern of the block amax, with NaN above infinity. `k` is S * RN(1/6) of NVFP4.
template <int RULE> __device__ __forceinline__ FastScale fast_scale(uint32_t table, float k, float largest, uint32_t bits) {
    FastScale s;
    float amax = __uint_as_float(bits << 16);
    s.divisor = 1.0f;
    if (RULE == FAST_NV) {
        uint16_t pair; // a NaN has the last entry
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(__fmul_rn(amax, k)));
        s.stored = pair;
        asm("ld.shared.f32 %0, [%1];" : "=f"(s.factor) : "r"(table + 4 * s.stored));
        s.plain = __fmul_rn(amax, s.factor) < 7.0f; // beyond 7 the grid saturates
    } else if (RULE == FAST_MX) {
        uint32_t exponent = bits >> 7;
        s.stored = exponent > 2u ? exponent - 2u : 0u;
        s.factor = e8m0_inverse(s.stored);
        s.plain = exponent < 255u;
    } else {
        s.divisor = __fdiv_rn(amax, largest);
        s.stored = __float_as_uint(s.divisor);
        s.factor = bits == 0 ? 0.0f : __frcp_rn(s.divisor);
        s.plain = nib_quotient_holds(s.divisor) || bits == 0;
    }
    return s;
}

// x scaled.
template <int RULE> __device__ __forceinline__ float fast_scaled(float x, float factor, float divisor) {
    return RULE == FAST_FP32 ? nib_quotient(x, factor, divisor) : __fmul_rn(x, factor);
}
// The absolute value is free as an operand of a multiplication.
template <int RULE> __device__ __forceinline__ float fast_magnitude(float x, float factor, float divisor) {
    return RULE == FAST_FP32 ? fabsf(fast_scaled<RULE>(x, factor, divisor)) : __fmul_rn(fabsf(x), factor);
}

// ---- codes ----

// Over which codes stand: 1.5 * 2^23 with a unit of 1 in the last place, and 1.5 * 2^22 with 1/2.
template <int ELEMENT> __host__ __device__ constexpr uint32_t code_base() { return ELEMENT == FAST_E2M1 ? 0x4B400000u : 0x4AC00000u; }

// The base + code of y, 0 <= y < 7 (any y below 8 with CLAMP). Rounding 2y, y and y/2 to nearest even integers gives the codes below 2, those
// from 2 to 4 less two, those from 4 on less four, and each is the smallest of the three where it holds.
template <int ELEMENT, bool CLAMP> __device__ __forceinline__ uint32_t code_of(float y) {
    if (ELEMENT == FAST_HALVES) return __float_as_uint(__fadd_rn(y, 6291456.0f));
    int halves = __float_as_int(__fmaf_rn(y, 2.0f, 12582912.0f)), ones = __float_as_int(__fadd_rn(y, 12582914.0f));
    int twos = __float_as_int(__fmaf_rn(y, 0.5f, 12582916.0f));
    if (CLAMP) twos = min(twos, 0x4B400007);
    return (uint32_t)__vimin3_s32(halves, ones, twos);
}

// 256 * code and the fraction of the step below the next, cut off, over 0x4B000000.
template <int ELEMENT> __device__ __forceinline__ uint32_t steps_of(float y) {
    int halves = __float_as_int(__fmaf_rz(y, 512.0f, 8388608.0f));
    if (ELEMENT == FAST_HALVES) return (uint32_t)halves;
    int ones = __float_as_int(__fmaf_rz(y, 256.0f, 8388608.0f + 512.0f)), twos = __float_as_int(__fmaf_rz(y, 128.0f, 8388608.0f + 1024.0f));
    return (uint32_t)__vimin3_s32(halves, ones, twos);
}

// Sign bits of eight elements in four words, to bit 3 of their nibbles.
__device__ __forceinline__ uint32_t signs8(uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3) {
    uint32_t a = permute(w0, w1, 0xFBD9u), b = permute(w2, w3, 0xFBD9u);
    return (permute(a, b, 0x5410u) & 0x08080808u) | (permute(a, b, 0x7632u) & 0x80808080u);
}

template <int ELEMENT> __device__ __forceinline__ uint32_t pack8(const FastLaunch &l, const uint32_t (&c)[8], uint32_t signs) {
    constexpr uint32_t BASES = code_base<ELEMENT>() * 0x11111111u; // modulo 2^32
    uint32_t a = c[1] * l.by16 + c[0], b = c[3] * l.by16 + c[2], d = c[5] * l.by16 + c[4], e = c[7] * l.by16 + c[6];
    return (e * l.by256 + d) * l.by65536 + (b * l.by256 + a) + (signs - BASES);
}

// Two steps of 256, and two random bytes, a half each: the codes end in bytes 1 and 3.
__device__ __forceinline__ uint32_t carry2(const FastLaunch &l, uint32_t first, uint32_t second, uint32_t random) {
    return __viaddmin_s16x2(second * l.by65536 + first, 0xB5000000u, 0x07000700u) + random;
}

// Eight values, scaled by fours; `random` holds a byte for each where STOCHASTIC.
template <int RULE, int ELEMENT, bool STOCHASTIC>
__device__ __forceinline__ uint32_t encode8(const FastLaunch &l, const float (&x)[8], uint32_t signs, const float (&factor)[2], const float (&divisor)[2],
                                            uint2 random) {
#if NIB_NATIVE_E2M1
    if constexpr (ELEMENT == FAST_E2M1 && !STOCHASTIC) {
        uint32_t out = 0;
#pragma unroll
        for (int i = 0; i < 8; i += 2)
            out |= e2m1_pair(fast_scaled<RULE>(x[i], factor[i / 4], divisor[i / 4]), fast_scaled<RULE>(x[i + 1], factor[i / 4], divisor[i / 4])) << (4 * i);
        return out;
    }
#endif
    uint32_t c[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float y = fast_magnitude<RULE>(x[i], factor[i / 4], divisor[i / 4]);
        c[i] = STOCHASTIC ? steps_of<ELEMENT>(y) : code_of<ELEMENT, RULE == FAST_MX>(y);
    }
    if (!STOCHASTIC) return pack8<ELEMENT>(l, c, signs);
    uint32_t p = carry2(l, c[0], c[1], permute(random.x, 0, 0x4140u)), q = carry2(l, c[2], c[3], permute(random.x, 0, 0x4342u));
    uint32_t r = carry2(l, c[4], c[5], permute(random.y, 0, 0x4140u)), s = carry2(l, c[6], c[7], permute(random.y, 0, 0x4342u));
    uint32_t low = permute(p, q, 0x7531u), high = permute(r, s, 0x7531u);
    return permute(low, high, 0x7531u) * l.by16 + permute(low, high, 0x6420u) + signs;
}

// Sixteen values of one block.
template <int RULE, int ELEMENT, bool STOCHASTIC>
__device__ __forceinline__ uint2 encode_block(const FastLaunch &l, const float (&x)[2][8], uint32_t low_signs, uint32_t high_signs, const FastScale &s, uint4 random) {
    const float factor[2] = {s.factor, s.factor}, divisor[2] = {s.divisor, s.divisor};
    return make_uint2(encode8<RULE, ELEMENT, STOCHASTIC>(l, x[0], low_signs, factor, divisor, make_uint2(random.x, random.y)),
                      encode8<RULE, ELEMENT, STOCHASTIC>(l, x[1], high_signs, factor, divisor, make_uint2(random.z, random.w)));
}

// ---- blocks that are not plain ----

// Sixteen codes of a block whose amax is known.
template <int ELEMENT, bool STOCHASTIC>
__device__ __noinline__ uint2 codes16_slowly(const FastLaunch &l, BlockScale scale, uint4 first, uint4 second, uint4 random) {
    const uint32_t w[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
    const uint32_t r[4] = {random.x, random.y, random.z, random.w};
    uint32_t out[2] = {0, 0};
    for (int i = 0; i < 16; i++) {
        float y = scaled(l.q, scale, i % 2 == 0 ? low_half(w[i / 2]) : high_half(w[i / 2]));
        uint32_t byte = r[i / 4] >> (8 * (i % 4)) & 255u, code;
        if (y != y)
            code = l.q.nan_code;
        else if (STOCHASTIC)
            code = ELEMENT == FAST_E2M1 ? e2m1_stochastic(y, byte, 8) : grid_stochastic(l.grid, y, byte, 8);
        else
            code = ELEMENT == FAST_E2M1 ? e2m1_pair(y, 0.0f) & 15u : grid_nearest(l.grid, y);
        out[i / 8] |= code << (4 * (i % 8));
    }
    return make_uint2(out[0], out[1]);
}

// Largest number; NaN is passed over.
__device__ __noinline__ inline float amax16_slowly(uint4 first, uint4 second) {
    const uint32_t w[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
    float amax = 0;
    for (int i = 0; i < 8; i++) amax = fmaxf(fmaxf(amax, fabsf(low_half(w[i]))), fabsf(high_half(w[i])));
    return amax;
}
