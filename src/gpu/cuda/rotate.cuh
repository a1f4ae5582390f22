// Hadamard transforms of 16 to 256 points on groups that a few neighbouring threads hold, 16 elements
// each: strides 1 to 8 inside a thread, 16 to 128 between lanes. Binary32, small stride first, one
// multiplication by 1/sqrt(size) at the end.
#pragma once

#include "../plugin.h"
#include <cuda_bf16.h>

__device__ __forceinline__ float to_bf16_and_back(float x) { return __bfloat162float(__float2bfloat16_rn(x)); }

// RN(1/sqrt(size)); 0.25 and 0.125 and 0.0625 are exact.
__device__ __host__ constexpr float hadamard_norm(unsigned size) {
    return size == 16 ? 0.25f : size == 32 ? 0.176776695296636881f : size == 64 ? 0.125f : size == 128 ? 0.088388347648318441f : 0.0625f;
}

// Strides of 16 and more go through lane exchanges; `size` is a multiple of 16 shared by the whole launch.
__device__ __forceinline__ void butterfly(float (&v)[16], const int8_t *sign, unsigned size, unsigned first) {
#pragma unroll
    for (int i = 0; i < 16; i++) v[i] = sign[first + i] < 0 ? -v[i] : v[i];
#pragma unroll
    for (int stride = 1; stride < 16; stride *= 2)
#pragma unroll
        for (int i = 0; i < 16; i++)
            if ((i & stride) == 0) {
                float a = v[i], b = v[i + stride];
                v[i] = __fadd_rn(a, b);
                v[i + stride] = __fsub_rn(a, b);
            }
    for (unsigned lanes = 1; lanes * 16 < size; lanes *= 2) {
        bool upper = threadIdx.x & lanes;
#pragma unroll
        for (int i = 0; i < 16; i++) {
            float other = __shfl_xor_sync(0xFFFFFFFFu, v[i], lanes);
            v[i] = upper ? __fsub_rn(other, v[i]) : __fadd_rn(v[i], other);
        }
    }
    float norm = hadamard_norm(size);
#pragma unroll
    for (int i = 0; i < 16; i++) v[i] = __fmul_rn(v[i], norm);
}
