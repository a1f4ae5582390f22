// Rounding of a scaled value to a 4-bit code on the device.
// E2M1: the hardware conversion where the target has it, elsewhere arithmetic of this file's own, which
// check_e2m1 compares with the vendor header over every binary32 input. Other grids: binary search over
// cell borders that the host derives from the levels in double arithmetic.
#pragma once

#include <cstdint>
#include <cuda_runtime.h>

#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL) || defined(__CUDA_ARCH_FEAT_SM120_ALL) || \
    defined(__CUDA_ARCH_FEAT_SM121_ALL)
#define NIB_NATIVE_E2M1 1
#else
#define NIB_NATIVE_E2M1 0
#endif
#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL)
#define NIB_NATIVE_E2M1_RS 1
#else
#define NIB_NATIVE_E2M1_RS 0
#endif

// Cells of a grid: border[i] is the smallest number of rank i+1 (the tie rule is in it), NaN past the last. level ascends. Where `sign_magnitude`, ranks are those of
// the magnitudes and the code's high bit is the sign, so that -0 exists.
struct Grid {
    float border[15];
    uint32_t ranks;
    float level[16];        // by rank
    uint64_t code_of_rank;  // nibbles
    int sign_magnitude;
};

// Adding 2^22 * 2^e to a value in [2^e, 2^(e+1)) leaves one mantissa bit, rounded to nearest even by the
// adder; below 2 the step stays 1/2. The low bits of the sum then hold the value in steps.
__device__ __forceinline__ uint32_t e2m1_magnitude(float x) {
    float y = fminf(fabsf(x), 6.0f); // NaN becomes 6
    uint32_t binade = max(__float_as_uint(y) & 0x7F800000u, 0x3F800000u);
    float lift = __uint_as_float(binade + (22u << 23));
    uint32_t sum = __float_as_uint(__fadd_rn(y, lift));
    // sum = lift + steps, and a carry into the exponent is impossible: steps <= 4. code = steps + 2e.
    return sum - __float_as_uint(lift) + ((binade - 0x3F800000u) >> 22);
}

__device__ __forceinline__ uint32_t e2m1_software(float x) {
    uint32_t bits = __float_as_uint(x);
    uint32_t sign = (bits & 0x7FFFFFFFu) > 0x7F800000u ? 0u : (bits >> 28) & 8u; // NaN is always +6
    return e2m1_magnitude(x) | sign;
}

// Two values, the first in the low nibble.
__device__ __forceinline__ uint32_t e2m1_pair(float first, float second) {
#if NIB_NATIVE_E2M1
    uint32_t out;
    asm("{ .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, %2, %1; cvt.u32.u8 %0, t; }" : "=r"(out) : "f"(first), "f"(second));
    return out;
#else
    return e2m1_software(first) | e2m1_software(second) << 4;
#endif
}

// Stochastic, n random bits r: away from zero if floor(2^n * fraction) + r >= 2^n.
__device__ __forceinline__ uint32_t e2m1_stochastic(float x, uint32_t r, unsigned n) {
    if (x != x) return 7;
    float y = fabsf(x);
    uint32_t sign = __float_as_uint(x) >> 28 & 8u;
    if (y >= 6.0f) return 7u | sign;
    uint32_t binade = max(__float_as_uint(y) & 0x7F800000u, 0x3F800000u);
    float steps = __fmul_rn(y, __uint_as_float(0x7F800000u - binade)); // exact: 2^(1 - e) steps of 2^(e - 1) each
    float whole = truncf(steps);
    uint32_t fraction = __float2uint_rz(__fmul_rn(__fsub_rn(steps, whole), 4294967296.0f)) >> (32u - n); // exact up to the cut
    uint32_t away = (uint32_t)(((uint64_t)fraction + r) >> n);
    return ((uint32_t)whole + away + ((binade - 0x3F800000u) >> 22)) | sign;
}

__device__ __forceinline__ uint32_t grid_rank(const Grid &grid, float x) {
    uint32_t rank = 0;
#pragma unroll
    for (int i = 0; i < 7; i++) rank += x >= grid.border[i];
    if (!grid.sign_magnitude)
#pragma unroll
        for (int i = 7; i < 15; i++) rank += x >= grid.border[i];
    return rank;
}

__device__ __forceinline__ uint32_t grid_code_of(const Grid &grid, uint32_t rank) {
    return (uint32_t)(grid.code_of_rank >> (4 * rank)) & 15u;
}

// NaN saturates to the positive end, as the hardware's FP4 conversion does.
__device__ __forceinline__ uint32_t grid_nearest(const Grid &grid, float x) {
    if (x != x) return grid_code_of(grid, grid.ranks - 1);
    if (!grid.sign_magnitude) return grid_code_of(grid, grid_rank(grid, x));
    return grid_code_of(grid, grid_rank(grid, fabsf(x))) | (__float_as_uint(x) >> 28 & 8u);
}

// Stochastic on magnitudes: r = 0 never leaves the level nearer to zero. The sign of the fused difference is that of
// the exact one.
__device__ __noinline__ inline uint32_t grid_stochastic(const Grid &grid, float x, uint32_t r, unsigned n) {
    if (x != x) return grid_nearest(grid, x);
    uint32_t sign = grid.sign_magnitude ? __float_as_uint(x) >> 28 & 8u : 0u;
    double y = grid.sign_magnitude ? fabs((double)x) : (double)x;
    uint32_t last = grid.ranks - 1, low = 0; // largest rank whose level is <= y
    for (uint32_t i = 1; i < grid.ranks; i++)
        if ((double)grid.level[i] <= y) low = i;
    if (low == last || y <= (double)grid.level[0]) return grid_code_of(grid, low) | sign;
    double a = grid.level[low], b = grid.level[low + 1], step = b - a, all = (double)(1ull << n);
    bool negative = y < 0;
    double part = negative ? b - y : y - a;
    bool away = __fma_rn((double)r - all, step, part * all) >= 0;
    uint32_t rank = negative != away ? low + 1 : low;
    if (part == 0) rank = negative ? low + 1 : low;
    return grid_code_of(grid, rank) | sign;
}
