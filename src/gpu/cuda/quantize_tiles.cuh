// 16x16 blocks: one warp a block, eight elements a lane.
#pragma once

#include "quantize.cuh"

template <typename T, int ELEMENT, bool STOCHASTIC>
__global__ void __launch_bounds__(256) quantize_tiles(const __grid_constant__ QuantizeLaunch l, const T *__restrict__ x) {
    __shared__ uint8_t shared_codes[8][16][16];
    const Shape &s = l.shape; // rows and cols only; tiles are laid out by the input
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    size_t tile_rows = (s.rows + 15) / 16, tile_cols = (s.cols + 15) / 16;
    size_t tile = (size_t)blockIdx.x * 8 + warp;
    if (tile >= tile_rows * tile_cols) return;
    size_t tr = tile / tile_cols, tc = tile % tile_cols;
    size_t row = tr * 16 + lane / 2, first = tc * 16 + lane % 2 * 8;
    float v[8];
    float amax = 0;
    bool nan = false;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        v[i] = row < s.rows && first + i < s.cols ? as_float(x[row * s.cols + first + i]) : 0.0f;
        amax = fmaxf(amax, fabsf(v[i]));
        nan |= v[i] != v[i];
    }
    if (nan && l.q.amax_nan_propagates) amax = __uint_as_float(0x7FC00000u);
    for (unsigned lanes = 1; lanes < 32; lanes *= 2) amax = max_or_nan(amax, __shfl_xor_sync(0xFFFFFFFFu, amax, lanes));
    BlockScale scale = block_scale(l.q, *l.tensor, amax);
    RandomBits random(l.q);
    uint32_t codes[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float y = scaled(l.q, scale, v[i]);
        if (STOCHASTIC) {
            uint32_t r = random.at(row * s.cols + first + i);
            codes[i] = ELEMENT == ELEMENT_E2M1 ? e2m1_stochastic(y, r, l.q.random_bits) : grid_stochastic(l.grid, y, r, l.q.random_bits);
        } else {
            codes[i] = ELEMENT == ELEMENT_E2M1 ? e2m1_pair(y, 0.0f) & 15u : grid_nearest(l.grid, y);
        }
        if (y != y) codes[i] = l.q.nan_code;
        shared_codes[warp][lane / 2][lane % 2 * 8 + i] = (uint8_t)codes[i];
        if (l.values != nullptr && row < s.rows && first + i < s.cols)
            l.values[row * s.cols + first + i] =
                dequantized(l.q, l.tensor->amax, scale.stored, level_of<ELEMENT>(l.grid, codes[i]));
    }
    __syncwarp();
    if (l.packed != nullptr) {
        // Down the columns the lines of the output are the columns of the input.
        size_t line = (s.along_rows ? tc : tr) * 16 + lane / 2, start = (s.along_rows ? tr : tc) * 16 + lane % 2 * 8;
        size_t outer = s.along_rows ? s.cols : s.rows, inner = s.along_rows ? s.rows : s.cols;
        for (unsigned i = 0; i < 8 && line < outer && start + i < inner; i += 2) {
            unsigned a = lane / 2, b = lane % 2 * 8 + i;
            uint32_t low = s.along_rows ? shared_codes[warp][b][a] : shared_codes[warp][a][b];
            uint32_t high = start + i + 1 >= inner ? 0u : s.along_rows ? shared_codes[warp][b + 1][a] : shared_codes[warp][a][b + 1];
            l.packed[line * l.packed_stride + (start + i) / 2] = (uint8_t)(low | high << 4);
        }
    }
    if (l.scales != nullptr && lane == 0) {
        size_t at = s.along_rows ? tc * tile_rows + tr : tr * tile_cols + tc;
        if (l.q.scale == NIB_GPU_SCALE_FP32)
            reinterpret_cast<uint32_t *>(l.scales)[at] = scale.stored;
        else
            l.scales[at] = (uint8_t)scale.stored;
    }
}
