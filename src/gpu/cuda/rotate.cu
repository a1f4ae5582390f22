// Standalone rotations.
#include "hadamard16.cuh"
#include "launch.cuh"
#include "mma_rotate.cuh"

template <typename T, bool MMA>
__global__ void __launch_bounds__(256) rotate_lines(const __grid_constant__ nib_gpu_rotation r, const __grid_constant__ Shape s,
                                                    int aligned, const T *__restrict__ x, void *out) {
    size_t column = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    size_t lines = s.along_rows ? s.groups : s.outer;
    for (size_t y = blockIdx.y; y < lines; y += gridDim.y) {
        Place p = place_of(s, column, y);
        float v[16];
        load16(s, p, x, aligned, v);
        if constexpr (MMA) {
            __shared__ MmaTiles tiles;
            mma_rotate(tiles, v, r.sign, r.size);
        } else {
            butterfly(v, r.sign, r.size, (unsigned)(p.start % r.size));
        }
        if (!p.any) continue;
        if (r.round_to_bf16 && !s.along_rows && s.cols % 8 == 0) {
            __align__(16) __nv_bfloat16 packed[16];
#pragma unroll
            for (int i = 0; i < 16; i++) packed[i] = __float2bfloat16_rn(v[i]);
            uint4 *at = reinterpret_cast<uint4 *>(static_cast<__nv_bfloat16 *>(out) + p.line * s.cols + p.start);
            at[0] = reinterpret_cast<uint4 *>(packed)[0];
            at[1] = reinterpret_cast<uint4 *>(packed)[1];
            continue;
        }
#pragma unroll
        for (unsigned i = 0; i < 16; i++) {
            size_t at = offset_of<T>(s, p, i);
            if (r.round_to_bf16)
                static_cast<__nv_bfloat16 *>(out)[at] = __float2bfloat16_rn(v[i]);
            else
                static_cast<float *>(out)[at] = v[i];
        }
    }
}

// bf16 to bf16, blocks of 16: one warp, 32 of them. The last warp starts early enough to end with the last block.
__global__ void __launch_bounds__(256) rotate_quads(uint32_t blocks, uint32_t negative, const uint2 *__restrict__ x, uint2 *__restrict__ out) {
    uint32_t first = min(blockIdx.x * 256 + threadIdx.x / 32 * 32, blocks - 32), b0, b1, even[4], odd[4];
    uint2 in[4];
    load_quads(in, x, first);
    hadamard16(negative, &b0, &b1);
    turn_quads(in, b0, b1, even, odd);
    uint2 *to = out + 4 * (size_t)first + threadIdx.x % 32;
#pragma unroll
    for (unsigned r = 0; r < 4; r++) to[32 * r] = make_uint2(even[r], odd[r]);
}

cudaError_t launch_rotate(const nib_gpu_rotation &r, enum nib_gpu_dtype dtype, const void *x, size_t rows, size_t cols,
                          int along_rows, void *out) {
    size_t blocks = rows * cols / 16;
    if (r.by == NIB_GPU_TENSOR_CORE && r.size == 16 && r.round_to_bf16 && !along_rows && blocks >= 32 && blocks < 1u << 31) {
        uint32_t negative = 0;
        for (unsigned i = 0; i < 16; i++) negative |= (uint32_t)(r.sign[i] < 0) << i;
        rotate_quads<<<(unsigned)((blocks + 255) / 256), 256>>>((uint32_t)blocks, negative, static_cast<const uint2 *>(x), static_cast<uint2 *>(out));
        return cudaGetLastError();
    }
    Shape s = shape_of(rows, cols, along_rows, r.size);
    size_t lines = lines_y(s);
    dim3 grid((unsigned)((threads_x(s) + 255) / 256), (unsigned)(lines < 65535 ? lines : 65535));
    int aligned = cols * dtype_bytes(dtype) % 16 == 0;
    if (r.by == NIB_GPU_TENSOR_CORE)
        rotate_lines<__nv_bfloat16, true><<<grid, 256>>>(r, s, aligned, static_cast<const __nv_bfloat16 *>(x), out);
    else if (dtype == NIB_GPU_F32)
        rotate_lines<float, false><<<grid, 256>>>(r, s, aligned, static_cast<const float *>(x), out);
    else if (dtype == NIB_GPU_BF16)
        rotate_lines<__nv_bfloat16, false><<<grid, 256>>>(r, s, aligned, static_cast<const __nv_bfloat16 *>(x), out);
    else
        rotate_lines<__half, false><<<grid, 256>>>(r, s, aligned, static_cast<const __half *>(x), out);
    return cudaGetLastError();
}
