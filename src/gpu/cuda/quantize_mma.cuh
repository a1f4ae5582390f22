// Quantization with the rotation on the tensor cores, fused. bf16 input, thread blocks of 256.
#pragma once

#include "mma_rotate.cuh"
#include "quantize.cuh"

template <int ELEMENT, bool STOCHASTIC>
__global__ void __launch_bounds__(256) quantize_lines_mma(const __grid_constant__ QuantizeLaunch l, const __nv_bfloat16 *__restrict__ x) {
    __shared__ MmaTiles tiles;
    size_t column = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    size_t lines = l.shape.along_rows ? l.shape.groups : l.shape.outer;
    TensorScale tensor = *l.tensor;
    unsigned lanes_per_block = l.q.block_cols / 16;
    for (size_t y = blockIdx.y; y < lines; y += gridDim.y) {
        Place p = place_of(l.shape, column, y);
        float v[16];
        load16(l.shape, p, x, l.aligned, v);
        mma_rotate(tiles, v, l.q.rotation.sign, l.q.rotation.size);
        if (l.q.rotation.round_to_bf16)
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
