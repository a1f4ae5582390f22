// The quantization kernels of all cases: one thread, 16 elements.
#pragma once

#include "element.cuh"
#include "groups.cuh"
#include "mma_rotate.cuh"
#include "scale.cuh"
#include <curand_kernel.h>

struct QuantizeLaunch {
    nib_gpu_quantizer q;
    Grid grid;
    Shape shape;
    int aligned;                     // rows start on 16 bytes
    const TensorScale *tensor;       // device memory, one
    uint8_t *packed, *scales;        // device memory, or NULL
    float *values;
    size_t packed_stride;            // bytes of a packed line
    size_t scales_per_line;
};

// Of n/8 bytes an element, which lie one after another in the Philox4x32-10 blocks with key = seed and counter = (block, stream).
struct RandomBits {
    uint64_t seed, stream, block;
    uint4 words;
    unsigned bits;
    __device__ explicit RandomBits(const nib_gpu_quantizer &q)
        : seed(q.seed), stream(q.stream), block(~0ull), words(make_uint4(0, 0, 0, 0)), bits(q.random_bits) {}
    // Out of line: sixteen copies of ten rounds would multiply the size of the library.
    __device__ __noinline__ uint4 fill(uint64_t wanted) const {
        return curand_Philox4x32_10(
            make_uint4((uint32_t)wanted, (uint32_t)(wanted >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)),
            make_uint2((uint32_t)seed, (uint32_t)(seed >> 32)));
    }
    __device__ uint32_t at(uint64_t index) {
        uint64_t byte = index * (bits / 8), wanted = byte / 16;
        if (wanted != block) {
            block = wanted;
            words = fill(wanted);
        }
        uint32_t lane = (uint32_t)byte / 4 % 4;
        uint32_t word = lane == 0 ? words.x : lane == 1 ? words.y : lane == 2 ? words.z : words.w;
        return word >> (8 * (byte % 4)) & 0xFFFFFFFFu >> (32 - bits);
    }
};

enum Element { ELEMENT_E2M1, ELEMENT_GRID };

__device__ __noinline__ inline float grid_level(const Grid &grid, uint32_t code) {
    uint32_t sign = grid.sign_magnitude ? code & 8u : 0u, wanted = code ^ sign;
    float level = 0;
    for (uint32_t r = 0; r < grid.ranks; r++)
        if (grid_code_of(grid, r) == wanted) level = grid.level[r];
    return sign ? -level : level;
}

template <int ELEMENT> __device__ __forceinline__ float level_of(const Grid &grid, uint32_t code) {
    if (ELEMENT == ELEMENT_E2M1) {
        uint32_t m = code & 7u;
        float magnitude = m < 2 ? 0.5f * (float)m : (float)(2u + (m & 1u)) * (float)(1u << (m >> 1)) * 0.25f;
        return __uint_as_float(__float_as_uint(magnitude) | (code & 8u) << 28);
    }
    return grid_level(grid, code);
}

// amax of the thread's elements; max.f32 lets numbers win over NaN.
__device__ __forceinline__ float amax16(const nib_gpu_quantizer &q, const float (&v)[16]) {
    float amax = 0;
#pragma unroll
    for (int i = 0; i < 16; i++) amax = fmaxf(amax, fabsf(v[i]));
    if (q.amax_nan_propagates) {
        bool nan = false;
#pragma unroll
        for (int i = 0; i < 16; i++) nan |= v[i] != v[i];
        if (nan) amax = __uint_as_float(0x7FC00000u);
    }
    return amax;
}

__device__ __forceinline__ float max_or_nan(float a, float b) { return a != a || b != b ? __uint_as_float(0x7FC00000u) : fmaxf(a, b); }

// Codes, packing, scales and values of 16 elements whose block scale is known.
template <int ELEMENT, bool STOCHASTIC>
__device__ __forceinline__ void encode16(const QuantizeLaunch &l, const Place &p, const BlockScale &scale, const float (&v)[16],
                                         uint32_t (&codes)[16]) {
    if constexpr (STOCHASTIC) {
        RandomBits random(l.q);
#pragma unroll
        for (int i = 0; i < 16; i++) {
            float y = scaled(l.q, scale, v[i]);
            uint32_t r = random.at(l.shape.along_rows ? (p.start + i) * l.shape.cols + p.line : p.line * l.shape.cols + p.start + i);
            codes[i] = ELEMENT == ELEMENT_E2M1 ? e2m1_stochastic(y, r, l.q.random_bits) : grid_stochastic(l.grid, y, r, l.q.random_bits);
            if (y != y) codes[i] = l.q.nan_code;
        }
    } else if constexpr (ELEMENT == ELEMENT_E2M1) {
#pragma unroll
        for (int i = 0; i < 16; i += 2) {
            float first = scaled(l.q, scale, v[i]), second = scaled(l.q, scale, v[i + 1]);
            uint32_t pair = e2m1_pair(first, second);
            codes[i] = first != first ? l.q.nan_code : pair & 15u;
            codes[i + 1] = second != second ? l.q.nan_code : pair >> 4;
        }
    } else {
#pragma unroll
        for (int i = 0; i < 16; i++) {
            float y = scaled(l.q, scale, v[i]);
            codes[i] = y != y ? l.q.nan_code : grid_nearest(l.grid, y);
        }
    }
}

template <int ELEMENT>
__device__ __forceinline__ void store16(const QuantizeLaunch &l, const Place &p, const BlockScale &scale, const uint32_t (&codes)[16],
                                        bool writes_scale) {
    if (!p.any) return;
    const Shape &s = l.shape;
    unsigned count = s.inner - p.start < 16 ? (unsigned)(s.inner - p.start) : 16u;
    if (l.packed != nullptr) {
        uint32_t low = 0, high = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            low |= ((unsigned)i < count ? codes[i] : 0u) << (4 * i);
            high |= ((unsigned)(i + 8) < count ? codes[i + 8] : 0u) << (4 * i);
        }
        uint8_t *at = l.packed + p.line * l.packed_stride + p.start / 2;
        if (count == 16 && l.packed_stride % 8 == 0) {
            *reinterpret_cast<uint2 *>(at) = make_uint2(low, high);
        } else {
            for (unsigned b = 0; b < (count + 1) / 2; b++) at[b] = (uint8_t)((b < 4 ? low : high) >> (8 * (b % 4)));
        }
    }
    if (l.scales != nullptr && writes_scale) {
        size_t at = p.line * l.scales_per_line + p.start / l.q.block_cols;
        if (l.q.scale == NIB_GPU_SCALE_FP32)
            reinterpret_cast<uint32_t *>(l.scales)[at] = scale.stored;
        else
            l.scales[at] = (uint8_t)scale.stored;
    }
    if (l.values != nullptr)
        for (unsigned i = 0; i < count; i++)
            l.values[s.along_rows ? (p.start + i) * s.cols + p.line : p.line * s.cols + p.start + i] =
                dequantized(l.q, l.tensor->amax, scale.stored, level_of<ELEMENT>(l.grid, codes[i]));
}

enum Rotation { ROTATION_NONE, ROTATION_BUTTERFLY, ROTATION_MMA };

// Thread blocks of 256, as the rotation on the tensor cores needs them.
template <typename T, int ELEMENT, bool STOCHASTIC, int ROTATION>
__global__ void __launch_bounds__(256) quantize_lines(const __grid_constant__ QuantizeLaunch l, const T *__restrict__ x) {
    size_t column = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    size_t lines = l.shape.along_rows ? l.shape.groups : l.shape.outer;
    TensorScale tensor = *l.tensor;
    unsigned lanes_per_block = l.q.block_cols / 16;
    for (size_t y = blockIdx.y; y < lines; y += gridDim.y) {
        Place p = place_of(l.shape, column, y);
        float v[16];
        load16(l.shape, p, x, l.aligned, v);
        if constexpr (ROTATION == ROTATION_MMA) {
            __shared__ MmaTiles tiles;
            mma_rotate(tiles, v, l.q.rotation.sign, l.q.rotation.size);
        }
        if (ROTATION == ROTATION_BUTTERFLY) butterfly(v, l.q.rotation.sign, l.q.rotation.size, (unsigned)(p.start % l.q.rotation.size));
        if (ROTATION != ROTATION_NONE && l.q.rotation.round_to_bf16)
#pragma unroll
            for (int i = 0; i < 16; i++) v[i] = to_bf16_and_back(v[i]);
        float amax = amax16(l.q, v);
        for (unsigned lanes = 1; lanes < lanes_per_block; lanes *= 2)
            amax = max_or_nan(amax, __shfl_xor_sync(0xFFFFFFFFu, amax, lanes));
        BlockScale scale = block_scale(l.q, tensor, amax);
        uint32_t codes[16];
        encode16<ELEMENT, STOCHASTIC>(l, p, scale, v, codes);
        store16<ELEMENT>(l, p, scale, codes, p.start % l.q.block_cols == 0);
    }
}

template <typename T, int ELEMENT, bool STOCHASTIC, int ROTATION> void run_lines(const QuantizeLaunch &l, const T *x) {
    size_t lines = lines_y(l.shape);
    dim3 grid((unsigned)((threads_x(l.shape) + 255) / 256), (unsigned)(lines < 65535 ? lines : 65535));
    quantize_lines<T, ELEMENT, STOCHASTIC, ROTATION><<<grid, 256>>>(l, x);
}
