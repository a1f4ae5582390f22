// Block scales: the byte that is stored, and the two factors that elements see.
#pragma once

#include "../plugin.h"
#include <cfloat>
#include <cstdint>
#include <cuda_fp8.h>

// What all blocks of a tensor share.
struct TensorScale {
    float encode;    // S: 2688 / amax
    float decode;    // D: 1 / S
    float amax;
};

// TransformerEngine, common/cast/nvfp4/core_nvfp4.cuh: S = min(2688 / amax, FLT_MAX), 1 for amax 0.
__device__ __host__ inline TensorScale nvfp4_tensor_scale(float amax) {
    TensorScale t;
#ifdef __CUDA_ARCH__
    float s = fminf(__fdiv_rn(2688.0f, amax), FLT_MAX);
#else
    float quotient = 2688.0f / amax, s = quotient < FLT_MAX ? quotient : FLT_MAX;
#endif
    if (amax == 0.0f || s == 0.0f) s = 1.0f;
    t.encode = s;
#ifdef __CUDA_ARCH__
    t.decode = __fdiv_rn(1.0f, s);
#else
    t.decode = 1.0f / s;
#endif
    t.amax = amax;
    return t;
}

struct BlockScale {
    uint32_t stored;  // byte, or binary32 bits
    float factor;     // multiplies (divides, for FP32 scales) the elements
};

__device__ __forceinline__ float e4m3_value(uint32_t byte) {
    __half_raw h = __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)byte, __NV_E4M3);
    return __half2float(__half(h));
}

// 2^(127 - e) as the OCP MX kernels multiply; e = 0 stands for 2^-127, whose inverse 2^127 is normal, and
// e = 254 for 2^127, whose inverse is subnormal.
__device__ __forceinline__ float e8m0_inverse(uint32_t byte) {
    if (byte == 255u) return __uint_as_float(0x7FC00000u);
    return byte == 254u ? __uint_as_float(0x00400000u) : __uint_as_float((254u - byte) << 23);
}

__device__ __forceinline__ float e8m0_value(uint32_t byte) {
    __nv_bfloat16_raw h = __nv_cvt_e8m0_to_bf16raw((__nv_fp8_storage_t)byte);
    return __uint_as_float((uint32_t)h.x << 16);
}

// Smallest power of two that is at least as large.
__device__ __forceinline__ uint32_t rounded_up(const nib_gpu_quantizer &q, float scale) {
    if (q.infinite_scale_is_nan && __float_as_uint(scale) == 0x7F800000u) return 255u;
    return __nv_cvt_float_to_e8m0(scale, __NV_SATFINITE, cudaRoundPosInf);
}

__device__ __forceinline__ BlockScale block_scale(const nib_gpu_quantizer &q, const TensorScale &tensor, float amax) {
    BlockScale out;
    switch (q.rule) {
    case NIB_GPU_RULE_NVFP4: {
        float k = __fmul_rn(tensor.encode, __uint_as_float(0x3E2AAAABu)); // S * RN(1/6)
        float scale = fminf(__fmul_rn(amax, k), FLT_MAX);
        out.stored = __nv_cvt_float_to_fp8(scale, __NV_SATFINITE, __NV_E4M3);
        out.factor = fminf(__fdiv_rn(1.0f, __fmul_rn(e4m3_value(out.stored), tensor.decode)), FLT_MAX);
        return out;
    }
    case NIB_GPU_RULE_ABSMAX: {
        float scale = __fdiv_rn(amax, q.max_magnitude);
        if (q.scale == NIB_GPU_SCALE_FP32) {
            out.stored = scale != scale ? 0x7FC00000u : min(__float_as_uint(scale), 0x7F7FFFFFu); // saturates
            out.factor = __uint_as_float(out.stored);
        } else if (q.scale == NIB_GPU_SCALE_E8M0) {
            out.stored = rounded_up(q, scale);
            out.factor = e8m0_value(out.stored);
        } else {
            out.stored = __nv_cvt_float_to_fp8(scale, __NV_SATFINITE, __NV_E4M3);
            out.factor = e4m3_value(out.stored);
        }
        return out;
    }
    default: break;
    }
    // MX: a power of two.
    uint32_t bits = __float_as_uint(amax);
    uint32_t field; // of binary32
    switch (q.rule) {
    case NIB_GPU_RULE_MX_RCEIL:
        out.stored = rounded_up(q, __fmul_rn(amax, __fdiv_rn(1.0f, q.max_magnitude)));
        out.factor = e8m0_inverse(out.stored);
        return out;
    case NIB_GPU_RULE_MX_CEIL: field = bits >= 0x7F800000u ? 255u : min((bits + 0x7FFFFFu) >> 23, 255u); break;
    case NIB_GPU_RULE_MX_EVEN: field = bits >= 0x7F800000u ? 255u : (bits + 0x200000u) >> 23; break;
    default: field = bits >> 23; break;
    }
    bool infinite = bits == 0x7F800000u || (q.rule == NIB_GPU_RULE_MX_EVEN && field == 255u);
    int exponent = (int)field - 127 - q.emax;
    if (bits > 0x7F800000u || infinite) {
        out.stored = infinite && !q.infinite_scale_is_nan ? 254u : 255u;
        out.factor = e8m0_inverse(out.stored);
        return out;
    }
    exponent = max(-127, min(127, exponent));
    out.stored = (uint32_t)(exponent + 127);
    out.factor = e8m0_inverse(out.stored);
    return out;
}

// x -> the value that is rounded to a code.
__device__ __forceinline__ float scaled(const nib_gpu_quantizer &q, const BlockScale &scale, float x) {
    if (q.rule == NIB_GPU_RULE_ABSMAX) return scale.factor == 0.0f ? __fmul_rn(x, 0.0f) : __fdiv_rn(x, scale.factor);
    return __fmul_rn(x, scale.factor);
}

// Dequantization: TransformerEngine's q * ((scale * amax) * RN(1/2688)) for NVFP4, q * scale otherwise.
__device__ __forceinline__ float dequantized(const nib_gpu_quantizer &q, float tensor_amax, uint32_t stored, float level) {
    float scale = q.scale == NIB_GPU_SCALE_FP32   ? __uint_as_float(stored)
                  : q.scale == NIB_GPU_SCALE_E8M0 ? e8m0_value(stored)
                                                  : e4m3_value(stored);
    if (q.rule == NIB_GPU_RULE_NVFP4) scale = __fmul_rn(__fmul_rn(scale, tensor_amax), __fdiv_rn(1.0f, 2688.0f));
    return __fmul_rn(level, scale);
}
