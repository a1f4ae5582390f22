// The usual case at the speed of memory: bf16, whole blocks of 16 or 32 columns, packed codes and scales only; alone, stochastically,
// or behind a rotation of 16 that is rounded to bf16. Blocks with NaN, infinities or elements beyond the grid go the general way.
#include "fast.cuh"
#include "hadamard16.cuh"

// Thread blocks of 256 that a multiprocessor holds, and how many times that many it is given: the fastest of those tried on an H200.
enum { RESIDENT = 4, ROUNDS = 2 };

enum Turn { TURN_NONE, TURN_BUTTERFLY, TURN_MMA };

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

template <int RULE> __device__ __forceinline__ void store_block(const FastLaunch &l, uint32_t block, uint2 codes, uint32_t stored) {
    reinterpret_cast<uint2 *>(l.packed)[block] = codes;
    if (RULE == FAST_FP32)
        reinterpret_cast<uint32_t *>(l.scales)[block] = stored;
    else if (RULE == FAST_NV)
        l.scales[block] = (uint8_t)stored;
    else if (block % 2 == 0)
        l.scales[block / 2] = (uint8_t)stored;
}

// ---- one thread, one block of 16 elements ----

template <int RULE, int ELEMENT, int TURN, bool STOCHASTIC>
__device__ __forceinline__ void quantize16(const FastLaunch &l, uint32_t table, float k, uint4 first, uint4 second, uint32_t block) {
    uint32_t w[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
    if (TURN == TURN_BUTTERFLY) rotate16(w, l.flip);
    uint32_t m = magnitudes(larger(larger(larger(w[0], w[1]), larger(w[2], w[3])), larger(larger(w[4], w[5]), larger(w[6], w[7]))));
    uint32_t bits = max(m & 0xFFFFu, m >> 16);
    bool nan = bits > 0x7F80u;
    if (nan) bits = __float_as_uint(amax16_slowly(make_uint4(w[0], w[1], w[2], w[3]), make_uint4(w[4], w[5], w[6], w[7]))) >> 16;
    if (RULE == FAST_MX) bits = max(bits, __shfl_xor_sync(0xFFFFFFFFu, bits, 1));
    FastScale s = fast_scale<RULE>(table, k, l.q.max_magnitude, bits);
    uint4 random = make_uint4(0, 0, 0, 0);
    if (STOCHASTIC)
        random = curand_Philox4x32_10(make_uint4(block, 0, (uint32_t)l.q.stream, (uint32_t)(l.q.stream >> 32)),
                                      make_uint2((uint32_t)l.q.seed, (uint32_t)(l.q.seed >> 32)));
    uint2 codes;
    if (s.plain && !nan) {
        float x[2][8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            x[i / 4][i % 4 * 2] = low_half(w[i]);
            x[i / 4][i % 4 * 2 + 1] = high_half(w[i]);
        }
        codes = encode_block<RULE, ELEMENT, STOCHASTIC>(l, x, signs8(w[0], w[1], w[2], w[3]), signs8(w[4], w[5], w[6], w[7]), s, random);
    } else {
        BlockScale scale = block_scale(l.q, *l.tensor, __uint_as_float(bits << 16));
        s.stored = scale.stored;
        codes = codes16_slowly<ELEMENT, STOCHASTIC>(l, scale, make_uint4(w[0], w[1], w[2], w[3]), make_uint4(w[4], w[5], w[6], w[7]), random);
    }
    store_block<RULE>(l, block, codes, s.stored);
}

// A warp's blocks, 32 at a time, go round by round over the whole grid; the next ones are loaded before these are computed. The last warp
// starts early enough to end with the last block, and repeats what another has done.
template <int RULE, int ELEMENT, int TURN, bool STOCHASTIC>
__global__ void __launch_bounds__(256, RESIDENT) quantize_rows(const __grid_constant__ FastLaunch l, const uint4 *__restrict__ x) {
    __shared__ float factors[128];
    const float k = __fmul_rn(l.tensor->encode, __uint_as_float(0x3E2AAAABu));
    const uint32_t stride = gridDim.x * 256, lane = threadIdx.x % 32, last = l.blocks - 32;
    uint32_t first = blockIdx.x * 256 + threadIdx.x - lane;
    auto load = [&](uint4(&to)[2], uint32_t at) {
        at = min(at, last) + lane;
        const uint4 *from = x + 2 * (size_t)at;
        to[0] = __ldg(from);
        to[1] = __ldg(from + 1);
        return at;
    };
    uint4 a[2], b[2];
    uint32_t at_a = load(a, first), at_b;
    const uint32_t table = fill_factors<RULE>(factors, l.tensor->decode);
    while (first < l.blocks) {
        first += stride;
        at_b = load(b, first);
        quantize16<RULE, ELEMENT, TURN, STOCHASTIC>(l, table, k, a[0], a[1], at_a);
        if (first >= l.blocks) break;
        first += stride;
        at_a = load(a, first);
        quantize16<RULE, ELEMENT, TURN, STOCHASTIC>(l, table, k, b[0], b[1], at_b);
    }
}

// ---- one warp, 32 blocks, turned on the tensor cores ----

// What a lane needs to exchange parts with the other three of its block's.
struct Quad {
    uint32_t upper;                 // t >= 2
    uint32_t take_amax, give, keep; // selectors for permute
    uint32_t low, high;
    __device__ Quad() {
        unsigned t = threadIdx.x % 4;
        upper = t >= 2;
        take_amax = t % 2 == 0 ? 0x4410u : 0x4432u;
        give = t % 2 == 0 ? 0x7632u : 0x5410u;
        keep = t % 2 == 0 ? 0x5410u : 0x7632u;
        // Kept and received hold the parts {t, t ^ 2} and {t ^ 1, t ^ 3}, a half each.
        low = t == 0 ? 0x5410u : t == 1 ? 0x1054u : t == 2 ? 0x7632u : 0x3276u;
        high = t == 0 ? 0x7632u : t == 1 ? 0x3276u : t == 2 ? 0x5410u : 0x1054u;
        hold(upper);
        hold(take_amax);
        hold(give);
        hold(keep);
        hold(low);
        hold(high);
    }
};

// The lane's own block of a warp whose words lie in quarters, every stage the general way.
struct SlowBlock {
    uint2 codes;
    uint32_t stored;
};
template <int RULE, int ELEMENT>
__device__ __noinline__ SlowBlock quad_slowly(const FastLaunch &l, uint4 even, uint4 odd) {
    const uint32_t words[2][4] = {{even.x, even.y, even.z, even.w}, {odd.x, odd.y, odd.z, odd.w}};
    unsigned t = threadIdx.x % 4;
    uint32_t own[8];
#pragma unroll
    for (unsigned r = 0; r < 4; r++)
#pragma unroll
        for (unsigned i = 0; i < 8; i++) {
            uint32_t word = __shfl_sync(0xFFFFFFFFu, words[i % 2][r], i / 2, 4);
            if (r == t) own[i] = word;
        }
    uint4 first = make_uint4(own[0], own[1], own[2], own[3]), second = make_uint4(own[4], own[5], own[6], own[7]);
    float amax = amax16_slowly(first, second);
    if (RULE == FAST_MX) amax = fmaxf(amax, __shfl_xor_sync(0xFFFFFFFFu, amax, 4));
    BlockScale scale = block_scale(l.q, *l.tensor, amax);
    return SlowBlock{codes16_slowly<ELEMENT, false>(l, scale, first, second, make_uint4(0, 0, 0, 0)), scale.stored};
}

template <int RULE, int ELEMENT>
__device__ __forceinline__ void quantize_quads(const FastLaunch &l, uint32_t table, float k, const Quad &quad, uint32_t b0, uint32_t b1,
                                               const uint2 (&in)[4], uint32_t block) {
    uint32_t even[4], odd[4];
    turn_quads(in, b0, b1, even, odd);
    // amax of four blocks over four lanes; lane t ends with that of block t.
    uint32_t m[4];
#pragma unroll
    for (int r = 0; r < 4; r++) m[r] = larger(even[r], odd[r]);
    uint32_t m01 = larger(permute(m[0], m[1], 0x5410u), permute(m[0], m[1], 0x7632u));
    uint32_t m23 = larger(permute(m[2], m[3], 0x5410u), permute(m[2], m[3], 0x7632u));
    uint32_t most = larger(quad.upper ? m23 : m01, __shfl_xor_sync(0xFFFFFFFFu, quad.upper ? m01 : m23, 2));
    uint32_t bits = magnitudes(permute(larger(most, __shfl_xor_sync(0xFFFFFFFFu, most, 1)), 0, quad.take_amax));
    if (RULE == FAST_MX) bits = max(bits, __shfl_xor_sync(0xFFFFFFFFu, bits, 4));
    FastScale s = fast_scale<RULE>(table, k, l.q.max_magnitude, bits);
    uint2 codes;
    if (__all_sync(0xFFFFFFFFu, s.plain && bits <= 0x7F80u)) {
        uint32_t half[2]; // codes of elements 4t to 4t + 3 of two blocks
#pragma unroll
        for (int r = 0; r < 4; r += 2) {
            float x[8], f[2], d[2] = {1.0f, 1.0f};
#pragma unroll
            for (int i = 0; i < 2; i++) {
                f[i] = __shfl_sync(0xFFFFFFFFu, s.factor, r + i, 4);
                if (RULE == FAST_FP32) d[i] = __shfl_sync(0xFFFFFFFFu, s.divisor, r + i, 4);
                x[4 * i] = low_half(even[r + i]);
                x[4 * i + 1] = high_half(even[r + i]);
                x[4 * i + 2] = low_half(odd[r + i]);
                x[4 * i + 3] = high_half(odd[r + i]);
            }
            half[r / 2] = encode8<RULE, ELEMENT, false>(l, x, signs8(even[r], odd[r], even[r + 1], odd[r + 1]), f, d, make_uint2(0, 0));
        }
        uint32_t own = quad.upper ? half[1] : half[0], other = __shfl_xor_sync(0xFFFFFFFFu, quad.upper ? half[0] : half[1], 2);
        uint32_t kept = permute(own, other, quad.keep), got = __shfl_xor_sync(0xFFFFFFFFu, permute(own, other, quad.give), 1);
        codes = make_uint2(permute(kept, got, quad.low), permute(kept, got, quad.high));
    } else {
        SlowBlock slow = quad_slowly<RULE, ELEMENT>(l, make_uint4(even[0], even[1], even[2], even[3]), make_uint4(odd[0], odd[1], odd[2], odd[3]));
        codes = slow.codes;
        s.stored = slow.stored;
    }
    store_block<RULE>(l, block, codes, s.stored);
}

template <int RULE, int ELEMENT>
__global__ void __launch_bounds__(256, RESIDENT) quantize_rows_mma(const __grid_constant__ FastLaunch l, const uint2 *__restrict__ x) {
    __shared__ float factors[128];
    const float k = __fmul_rn(l.tensor->encode, __uint_as_float(0x3E2AAAABu));
    const uint32_t stride = gridDim.x * 256, lane = threadIdx.x % 32, own = lane % 4 * 8 + lane / 4, last = l.blocks - 32;
    const Quad quad;
    uint32_t first = blockIdx.x * 256 + threadIdx.x - lane, b0, b1;
    hadamard16(l.negative, &b0, &b1);
    auto load = [&](uint2(&to)[4], uint32_t at) {
        at = min(at, last);
        load_quads(to, x, at);
        return at + own;
    };
    uint2 a[4], b[4];
    uint32_t at_a = load(a, first), at_b;
    const uint32_t table = fill_factors<RULE>(factors, l.tensor->decode);
    while (first < l.blocks) {
        first += stride;
        at_b = load(b, first);
        quantize_quads<RULE, ELEMENT>(l, table, k, quad, b0, b1, a, at_a);
        if (first >= l.blocks) break;
        first += stride;
        at_a = load(a, first);
        quantize_quads<RULE, ELEMENT>(l, table, k, quad, b0, b1, b, at_b);
    }
}

// ---- choice ----

namespace {

template <typename Kernel, typename Word> void launch_all(Kernel *kernel, const FastLaunch &l, const Word *x) {
    int device = 0, processors = 132;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    uint32_t needed = (l.blocks + 255) / 256, most = (uint32_t)processors * RESIDENT * ROUNDS;
    kernel<<<needed < most ? needed : most, 256>>>(l, x);
}

template <int RULE, int ELEMENT> void launch_rows(const FastLaunch &l, const void *x) {
    const uint4 *words = static_cast<const uint4 *>(x);
    bool turned = l.q.rotation.size > 1;
    if (turned && l.q.rotation.by == NIB_GPU_TENSOR_CORE)
        launch_all(quantize_rows_mma<RULE, ELEMENT>, l, static_cast<const uint2 *>(x));
    else if (l.q.random_bits != 0)
        launch_all(turned ? quantize_rows<RULE, ELEMENT, TURN_BUTTERFLY, true> : quantize_rows<RULE, ELEMENT, TURN_NONE, true>, l, words);
    else
        launch_all(turned ? quantize_rows<RULE, ELEMENT, TURN_BUTTERFLY, false> : quantize_rows<RULE, ELEMENT, TURN_NONE, false>, l, words);
}

} // namespace

void quantize_fast_rows(const FastLaunch &l, int rule, int element, const void *x) {
    if (rule == FAST_NV)
        launch_rows<FAST_NV, FAST_E2M1>(l, x);
    else if (rule == FAST_MX)
        launch_rows<FAST_MX, FAST_E2M1>(l, x);
    else if (element == FAST_E2M1)
        launch_rows<FAST_FP32, FAST_E2M1>(l, x);
    else
        launch_rows<FAST_FP32, FAST_HALVES>(l, x);
}
