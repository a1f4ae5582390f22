// Hadamard transforms on the tensor cores: the 4096 bf16 values of a thread block times a signed Hadamard
// matrix, in 16x16x16 products, K ascending. Matrix entries are +-1/sqrt(size) where bf16 holds that
// exactly (16, 64, 256) and +-1 with one binary32 multiplication at the end elsewhere.
#pragma once

#include "groups.cuh"
#include "rotate.cuh"
#include <mma.h>

struct MmaTiles {
    __align__(32) __nv_bfloat16 in[4096];
    __align__(32) float out[4096];
    __align__(32) __nv_bfloat16 matrix[8][256]; // one 16x16 piece per warp
};

__device__ __forceinline__ bool entry_is_exact(unsigned size) { return size == 16 || size == 64 || size == 256; }

__device__ __forceinline__ void mma_rotate(MmaTiles &tiles, float (&v)[16], const int8_t *sign, unsigned size) {
    using namespace nvcuda;
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, steps = size / 16;
#pragma unroll
    for (int i = 0; i < 16; i++) tiles.in[threadIdx.x * 16 + i] = __float2bfloat16_rn(v[i]);
    __syncthreads();
    for (unsigned tile = warp; tile < 16; tile += 8) {
        unsigned row = tile / steps, column = tile % steps;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
        wmma::fill_fragment(sum, 0.0f);
        for (unsigned step = 0; step < steps; step++) {
            for (unsigned i = lane; i < 256; i += 32) {
                unsigned k = step * 16 + i / 16, n = column * 16 + i % 16;
                float entry = entry_is_exact(size) ? hadamard_norm(size) : 1.0f;
                bool negative = (__popc(k & n) & 1) != (sign[k] < 0);
                tiles.matrix[warp][i] = __float2bfloat16_rn(negative ? -entry : entry);
            }
            __syncwarp();
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> b;
            wmma::load_matrix_sync(a, tiles.in + row * 16 * size + step * 16, size);
            wmma::load_matrix_sync(b, tiles.matrix[warp], 16);
            wmma::mma_sync(sum, a, b, sum);
            __syncwarp();
        }
        wmma::store_matrix_sync(tiles.out + row * 16 * size + column * 16, sum, size, wmma::mem_row_major);
    }
    __syncthreads();
    float norm = entry_is_exact(size) ? 1.0f : hadamard_norm(size);
#pragma unroll
    for (int i = 0; i < 16; i++) v[i] = __fmul_rn(tiles.out[threadIdx.x * 16 + i], norm);
    __syncthreads();
}
