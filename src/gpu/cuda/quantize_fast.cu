// The usual case at the speed of memory: E2M1 from bf16, blocks of 16 or 32 columns, whole blocks, packed codes and
// scales only, alone or behind a rotation of 16 that is rounded to bf16, by butterfly or on the tensor cores. One thread, 16 elements in eight words. Blocks with
// NaN, infinities or elements beyond the grid go the general way.
#include "launch.cuh"

// Thread blocks of 256 that a multiprocessor holds, and how many it is given: the best of five pairs tried on an H200.
enum { RESIDENT = 5, GIVEN = 10 };

struct FastLaunch {
    nib_gpu_quantizer q;
    const TensorScale *tensor;
    uint8_t *packed, *scales;
    size_t blocks;           // of 16 elements
    uint32_t flip[8];        // sign bits of the rotation, over the words
    uint32_t negative;       // the same, a bit an element
};

__device__ __forceinline__ float low_half(uint32_t word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high_half(uint32_t word) { return __uint_as_float(word & 0xFFFF0000u); }

// In place, on eight words of two bf16.
__device__ __forceinline__ void rotate16(uint32_t (&w)[8], const uint32_t *flip) {
    float v[16];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t word = w[i] ^ flip[i];
        v[2 * i] = low_half(word);
        v[2 * i + 1] = high_half(word);
    }
#pragma unroll
    for (int stride = 1; stride < 16; stride *= 2)
#pragma unroll
        for (int i = 0; i < 16; i++)
            if ((i & stride) == 0) {
                float a = v[i], b = v[i + stride];
                v[i] = __fadd_rn(a, b);
                v[i + stride] = __fsub_rn(a, b);
            }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        __nv_bfloat162 pair = __floats2bfloat162_rn(__fmul_rn(v[2 * i], 0.25f), __fmul_rn(v[2 * i + 1], 0.25f));
        w[i] = reinterpret_cast<uint32_t &>(pair);
    }
}

// A lane's part of the matrix. Row k, column n: the sign is that of element k times (-1)^popc(k & n); here k = 2t, 2t + 1 and 8 more,
// n = g and 8 more.
__device__ __forceinline__ void hadamard16(uint32_t negative, uint32_t *b0, uint32_t *b1) {
    unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    uint32_t parity = __popc(2 * t & g) & 1u, odd = parity ^ (g & 1u);
    *b0 = 0x3E803E80u ^ (((negative >> (2 * t) ^ parity) & 1u) << 15 | ((negative >> (2 * t + 1) ^ odd) & 1u) << 31);
    *b1 = 0x3E803E80u ^ (((negative >> (2 * t + 8) ^ parity) & 1u) << 15 | ((negative >> (2 * t + 9) ^ odd) & 1u) << 31);
}

// The same on the tensor cores: the 32 blocks of a warp are two 16x16 operands, times the Hadamard matrix with +-1/4. A lane's
// own block lies in row `lane` of the warp's tile, its halves exchanged in every other four rows against bank conflicts.
__device__ __forceinline__ void rotate16_mma(uint4 *tile, uint32_t (&w)[8], uint32_t b0, uint32_t b1) {
    unsigned lane = threadIdx.x % 32, swap = lane / 4 % 2;
    tile[lane * 2 + swap] = make_uint4(w[0], w[1], w[2], w[3]);
    tile[lane * 2 + (swap ^ 1)] = make_uint4(w[4], w[5], w[6], w[7]);
    __syncwarp();
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
        unsigned row = half * 16 + lane % 16;
        uint32_t at = (uint32_t)__cvta_generic_to_shared(tile + row * 2 + (lane / 16 ^ row / 4 % 2)), a[4], out[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(at) : "memory");
#pragma unroll
        for (unsigned j = 0; j < 2; j++) {
            float d[4];
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                         : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(j == 0 ? b1 : b1 ^ 0x80008000u), "f"(0.0f));
            __nv_bfloat162 low = __floats2bfloat162_rn(d[0], d[1]), high = __floats2bfloat162_rn(d[2], d[3]);
            out[2 * j] = reinterpret_cast<uint32_t &>(low);
            out[2 * j + 1] = reinterpret_cast<uint32_t &>(high);
        }
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};"
                     : : "r"(at), "r"(out[0]), "r"(out[1]), "r"(out[2]), "r"(out[3]) : "memory");
    }
    __syncwarp();
    uint4 first = tile[lane * 2 + swap], second = tile[lane * 2 + (swap ^ 1)];
    w[0] = first.x, w[1] = first.y, w[2] = first.z, w[3] = first.w;
    w[4] = second.x, w[5] = second.y, w[6] = second.z, w[7] = second.w;
}

enum Turn { TURN_NONE, TURN_BUTTERFLY, TURN_MMA };

// Largest magnitude of 16 elements as bf16 bits; more than 0x7F80 where a NaN is among them.
__device__ __forceinline__ uint32_t largest(const uint32_t (&w)[8]) {
    uint32_t m = w[0] & 0x7FFF7FFFu;
#pragma unroll
    for (int i = 1; i < 7; i += 2) m = __vimax3_u16x2(m, w[i] & 0x7FFF7FFFu, w[i + 1] & 0x7FFF7FFFu);
    m = __vmaxu2(m, w[7] & 0x7FFF7FFFu);
    return max(m & 0xFFFFu, m >> 16);
}

#if !NIB_NATIVE_E2M1
// The code of |y| < 7, in the low byte. Adding 1.5 * 2^22, 2^23 or 2^24 rounds |y| to nearest even multiples of 1/2, 1 and 2, whose
// number stands in the low bits of the sum. The multiples are the codes below 2, from 2 to 4 less two, from 4 on less four,
// and each is the smallest of the three where it holds.
template <bool CLAMP> __device__ __forceinline__ uint32_t code_in_byte(float y) {
    float magnitude = CLAMP ? fminf(fabsf(y), 6.0f) : fabsf(y);
    int halves = __float_as_int(__fadd_rn(magnitude, 6291456.0f));   // 0x4AC00000 + n
    int ones = __float_as_int(__fadd_rn(magnitude, 12582912.0f));    // 0x4B400000 + n
    int twos = __float_as_int(__fadd_rn(magnitude, 25165824.0f));    // 0x4BC00000 + n
    return (uint32_t)__viaddmin_s32(twos, 4 - 0x1000000, __viaddmin_s32(ones, 2 - 0x800000, halves));
}
#endif

// Eight codes of four words.
template <bool CLAMP> __device__ __forceinline__ uint32_t codes8(const uint32_t *w, float factor) {
#if NIB_NATIVE_E2M1
    uint32_t out = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        out |= e2m1_pair(__fmul_rn(low_half(w[i]), factor), __fmul_rn(high_half(w[i]), factor)) << (8 * i);
    return out;
#else
    uint32_t halves[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        uint32_t a = w[2 * h], b = w[2 * h + 1];
        uint32_t c0 = code_in_byte<CLAMP>(__fmul_rn(low_half(a), factor)), c1 = code_in_byte<CLAMP>(__fmul_rn(high_half(a), factor));
        uint32_t c2 = code_in_byte<CLAMP>(__fmul_rn(low_half(b), factor)), c3 = code_in_byte<CLAMP>(__fmul_rn(high_half(b), factor));
        uint32_t bytes = __byte_perm(__byte_perm(c0, c1, 0x0040), __byte_perm(c2, c3, 0x0040), 0x5410);
        bytes |= __byte_perm(a, b, 0x7531) >> 4 & 0x08080808u; // the signs of the elements
        halves[h] = bytes | bytes >> 4;                        // bytes 0 and 2 hold two codes each
    }
    return __byte_perm(halves[0], halves[1], 0x6420);
#endif
}

__device__ __noinline__ uint2 codes16_slowly(const nib_gpu_quantizer &q, BlockScale scale, uint4 first, uint4 second) {
    uint32_t w[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w}, out[2] = {0, 0};
    for (int i = 0; i < 8; i++)
        out[i / 4] |= e2m1_pair(scaled(q, scale, low_half(w[i])), scaled(q, scale, high_half(w[i]))) << (8 * (i % 4));
    return make_uint2(out[0], out[1]);
}

// Blocks go round by round over the whole grid; the next one is loaded before this one is computed.
template <bool MX, Turn TURN>
__global__ void __launch_bounds__(256, RESIDENT) quantize_fast_kernel(const __grid_constant__ FastLaunch l, const uint4 *__restrict__ x) {
    const size_t stride = (size_t)gridDim.x * 256;
    size_t block = (size_t)blockIdx.x * 256 + threadIdx.x, warp_first = block - threadIdx.x % 32;
    uint4 next_first = make_uint4(0, 0, 0, 0), next_second = next_first;
    uint32_t b0 = 0, b1 = 0;
    if (TURN == TURN_MMA) hadamard16(l.negative, &b0, &b1);
    const TensorScale tensor = *l.tensor;
    const float k = __fmul_rn(tensor.encode, __uint_as_float(0x3E2AAAABu));
    if (block < l.blocks) {
        next_first = __ldg(x + 2 * block);
        next_second = __ldg(x + 2 * block + 1);
    }
    for (; warp_first < l.blocks; warp_first += stride, block += stride) {
        const bool mine = block < l.blocks; // lanes of a warp work together
        uint32_t w[8] = {next_first.x, next_first.y, next_first.z, next_first.w, next_second.x, next_second.y, next_second.z, next_second.w};
        if (block + stride < l.blocks) {
            next_first = __ldg(x + 2 * (block + stride));
            next_second = __ldg(x + 2 * (block + stride) + 1);
        }
        if (TURN == TURN_BUTTERFLY) rotate16(w, l.flip);
        if constexpr (TURN == TURN_MMA) {
            __shared__ uint4 tiles[8][64];
            rotate16_mma(tiles[threadIdx.x / 32], w, b0, b1);
        }
        uint32_t bits = largest(w);
        bool nan = bits > 0x7F80u, plain;
        BlockScale scale;
        uint2 codes;
        float amax = __uint_as_float(bits << 16);
        if (nan) { // numbers win
            amax = 0;
            for (int i = 0; i < 8; i++) amax = fmaxf(fmaxf(amax, fabsf(low_half(w[i]))), fabsf(high_half(w[i])));
        }
        if (MX) {
            amax = fmaxf(amax, __shfl_xor_sync(0xFFFFFFFFu, amax, 1));
            uint32_t exponent = __float_as_uint(amax) >> 23;
            scale.stored = exponent == 255u ? 254u : exponent > 2u ? exponent - 2u : 0u;
            scale.factor = e8m0_inverse(scale.stored);
            plain = !nan && exponent != 255u;
        } else {
            scale.stored = __nv_cvt_float_to_fp8(fminf(__fmul_rn(amax, k), FLT_MAX), __NV_SATFINITE, __NV_E4M3);
            scale.factor = fminf(__fdiv_rn(1.0f, __fmul_rn(e4m3_value(scale.stored), tensor.decode)), FLT_MAX);
            plain = !nan && __fmul_rn(amax, scale.factor) < 7.0f; // beyond 7 the grid saturates
        }
        if (plain) {
            codes.x = codes8<MX>(w, scale.factor);
            codes.y = codes8<MX>(w + 4, scale.factor);
        } else {
            codes = codes16_slowly(l.q, scale, make_uint4(w[0], w[1], w[2], w[3]), make_uint4(w[4], w[5], w[6], w[7]));
        }
        if (!mine) continue;
        reinterpret_cast<uint2 *>(l.packed)[block] = codes;
        if (!MX)
            l.scales[block] = (uint8_t)scale.stored;
        else if (block % 2 == 0)
            l.scales[block / 2] = (uint8_t)scale.stored;
    }
}

// Whether the launch is of this kind; then it is made.
bool quantize_fast(const QuantizeLaunch &launch, enum nib_gpu_dtype dtype, const void *x) {
    const nib_gpu_quantizer &q = launch.q;
    bool mx = q.rule == NIB_GPU_RULE_MX_FLOOR && q.block_cols == 32 && q.emax == 2;
    bool nv = q.rule == NIB_GPU_RULE_NVFP4 && q.block_cols == 16;
    bool turned = q.rotation.size == 16 && q.rotation.round_to_bf16, on_cores = turned && q.rotation.by == NIB_GPU_TENSOR_CORE;
    if (!(mx || nv) || !q.is_e2m1 || q.block_rows != 1 || q.along_rows || q.stochastic || q.amax_nan_propagates ||
        q.nan_code != 7 || q.infinite_scale_is_nan)
        return false;
    if (dtype != NIB_GPU_BF16 || launch.values != nullptr || launch.packed == nullptr || launch.scales == nullptr) return false;
    if ((q.rotation.size > 1 && !turned) || launch.shape.cols % q.block_cols != 0) return false;
    FastLaunch l = {q, launch.tensor, launch.packed, launch.scales, launch.shape.rows * launch.shape.cols / 16, {0}, 0};
    for (unsigned i = 0; turned && i < 16; i++)
        if (q.rotation.sign[i] < 0) {
            l.flip[i / 2] |= i % 2 == 0 ? 0x8000u : 0x80000000u;
            l.negative |= 1u << i;
        }
    int device = 0, processors = 132;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    size_t needed = (l.blocks + 255) / 256, most = (size_t)processors * GIVEN;
    unsigned grid = (unsigned)(needed < most ? needed : most);
    const uint4 *words = static_cast<const uint4 *>(x);
    auto kernel = mx ? (on_cores ? quantize_fast_kernel<true, TURN_MMA> : turned ? quantize_fast_kernel<true, TURN_BUTTERFLY> : quantize_fast_kernel<true, TURN_NONE>)
                     : (on_cores ? quantize_fast_kernel<false, TURN_MMA> : turned ? quantize_fast_kernel<false, TURN_BUTTERFLY> : quantize_fast_kernel<false, TURN_NONE>);
    kernel<<<grid, 256>>>(l, words);
    return true;
}
