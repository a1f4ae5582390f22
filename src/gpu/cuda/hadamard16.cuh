// Hadamard transforms of 16 bf16 on the tensor cores, straight from memory: no exchange between lanes, no shared memory.
#pragma once

#include <cuda_bf16.h>
#include <stdint.h>

// A warp's 32 blocks are two 16x16 operands A, block 8r + g of the warp in row g or g + 8 of operand r / 2; r counts 0 to 3. Lane
// 4g + t holds the elements 4t to 4t + 3 of its four blocks: it loads them as it needs them, and the order of the columns of A, and of
// the product's, is undone in the matrix B. (The tensor cores of Hopper add 16 products at once, in no order.)
// B for the columns 4t, 4t + 1 of the product; for 4t + 2, 4t + 3 the second half changes its sign.
__device__ __forceinline__ void hadamard16(uint32_t negative, uint32_t *b0, uint32_t *b1) {
    unsigned lane = threadIdx.x % 32, g = lane / 4, k = lane % 4 * 4, n = g / 2 * 4 + g % 2;
    uint32_t words[2] = {0, 0};
    for (unsigned i = 0; i < 4; i++) {
        uint32_t minus = (negative >> (k + i) ^ __popc((k + i) & n)) & 1u;
        words[i / 2] |= (0x3E80u | minus << 15) << (16 * (i % 2));
    }
    *b0 = words[0];
    *b1 = words[1];
}

__device__ __forceinline__ void product16(uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1, uint32_t *upper,
                                          uint32_t *lower) {
    float d[4];
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(0.0f));
    __nv_bfloat162 first = __floats2bfloat162_rn(d[0], d[1]), second = __floats2bfloat162_rn(d[2], d[3]);
    *upper = reinterpret_cast<uint32_t &>(first);
    *lower = reinterpret_cast<uint32_t &>(second);
}

__device__ __forceinline__ void load_quads(uint2 (&to)[4], const uint2 *__restrict__ x, uint32_t block) {
    const uint2 *from = x + 4 * (size_t)block + threadIdx.x % 32;
#pragma unroll
    for (unsigned r = 0; r < 4; r++) to[r] = __ldg(from + 32 * r);
}

// Of block r: elements 4t, 4t + 1 in even[r], and 4t + 2, 4t + 3 in odd[r], rotated.
__device__ __forceinline__ void turn_quads(const uint2 (&in)[4], uint32_t b0, uint32_t b1, uint32_t (&even)[4], uint32_t (&odd)[4]) {
#pragma unroll
    for (int r = 0; r < 4; r += 2) {
        product16(in[r].x, in[r + 1].x, in[r].y, in[r + 1].y, b0, b1, &even[r], &even[r + 1]);
        product16(in[r].x, in[r + 1].x, in[r].y, in[r + 1].y, b0, b1 ^ 0x80008000u, &odd[r], &odd[r + 1]);
    }
}
