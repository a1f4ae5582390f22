// The usual case down the columns: bf16, blocks of 16 rows, or 16x16 blocks whose codes go out transposed. One thread, two columns of 32 rows;
// one thread block, 256 rows of 64 columns, so that whole lines of memory come in and go out.
#include "fast.cuh"

// Thread blocks of 256 that a multiprocessor holds, of either kernel, and how many it is given: the fastest of those tried on an H200.
enum { COLUMNS_RESIDENT = 3, SQUARES_RESIDENT = 3, GIVEN = 9 };

struct TwoColumns {
    uint2 codes[2];
    uint32_t stored[2];
};

// Words of 16 rows. SQUARE: one scale for 16 columns, which are those of eight neighbouring lanes.
template <int RULE, int ELEMENT, bool SQUARE>
__device__ __forceinline__ TwoColumns quantize_columns16(const FastLaunch &l, uint32_t table, float k, const uint32_t (&w)[16]) {
    uint32_t bits[2], most = larger(w[0], w[1]);
#pragma unroll
    for (int i = 2; i < 16; i += 2) most = larger(most, larger(w[i], w[i + 1]));
    most = magnitudes(most);
    bits[0] = most & 0xFFFFu;
    bits[1] = most >> 16;
    bool nan[2];
    auto column = [&](int c, int part) { // eight elements of a column
        uint32_t selector = c == 0 ? 0x5410u : 0x7632u;
        const uint32_t *from = w + 8 * part;
        return make_uint4(permute(from[0], from[1], selector), permute(from[2], from[3], selector), permute(from[4], from[5], selector),
                          permute(from[6], from[7], selector));
    };
#pragma unroll
    for (int c = 0; c < 2; c++) {
        nan[c] = bits[c] > 0x7F80u;
        if (nan[c]) bits[c] = __float_as_uint(amax16_slowly(column(c, 0), column(c, 1))) >> 16;
    }
    if (SQUARE) {
        uint32_t both = max(bits[0], bits[1]);
#pragma unroll
        for (unsigned lanes = 1; lanes < 8; lanes *= 2) both = max(both, __shfl_xor_sync(0xFFFFFFFFu, both, lanes));
        bits[0] = bits[1] = both;
    }
    uint32_t signs[2][2]; // by column, and by half of the rows
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const uint32_t *from = w + 8 * h;
        uint32_t p = permute(from[0], from[2], 0xFBD9u), q = permute(from[4], from[6], 0xFBD9u);
        uint32_t r = permute(from[1], from[3], 0xFBD9u), s = permute(from[5], from[7], 0xFBD9u);
        signs[0][h] = (permute(p, q, 0x5410u) & 0x08080808u) | (permute(r, s, 0x5410u) & 0x80808080u);
        signs[1][h] = (permute(p, q, 0x7632u) & 0x08080808u) | (permute(r, s, 0x7632u) & 0x80808080u);
    }
    TwoColumns out;
#pragma unroll
    for (int c = 0; c < 2; c++) {
        FastScale s = fast_scale<RULE>(table, k, l.q.max_magnitude, bits[c]);
        if (s.plain && !nan[c]) {
            float x[2][8];
#pragma unroll
            for (int i = 0; i < 16; i++) x[i / 8][i % 8] = c == 0 ? low_half(w[i]) : high_half(w[i]);
            out.codes[c] = encode_block<RULE, ELEMENT, false>(l, x, signs[c][0], signs[c][1], s, make_uint4(0, 0, 0, 0));
        } else {
            BlockScale scale = block_scale(l.q, *l.tensor, __uint_as_float(bits[c] << 16));
            s.stored = scale.stored;
            out.codes[c] = codes16_slowly<ELEMENT, false>(l, scale, column(c, 0), column(c, 1), make_uint4(0, 0, 0, 0));
        }
        out.stored[c] = s.stored;
    }
    return out;
}

template <int RULE> struct TwoScales {
    using type = uint16_t;
    static __device__ type of(uint32_t first, uint32_t second) { return (uint16_t)(first | second << 8); }
};
template <> struct TwoScales<FAST_FP32> {
    using type = uint2;
    static __device__ type of(uint32_t first, uint32_t second) { return make_uint2(first, second); }
};

// What a thread block sends out. Piece p of column c, the codes of 32 rows, lies at p ^ (c / 2 % 8): neither side meets bank conflicts.
template <int RULE> struct ColumnsTile {
    uint4 codes[64][8];
    typename TwoScales<RULE>::type stored[8][66];

    __device__ __forceinline__ void put(uint32_t piece, uint32_t lane, const TwoColumns &first, const TwoColumns &second) {
#pragma unroll
        for (int c = 0; c < 2; c++) {
            codes[2 * lane + c][piece ^ lane % 8] = make_uint4(first.codes[c].x, first.codes[c].y, second.codes[c].x, second.codes[c].y);
            stored[piece][2 * lane + c] = TwoScales<RULE>::of(first.stored[c], second.stored[c]);
        }
    }
    // `row` and `col`: of the tile.
    template <bool SQUARE> __device__ __forceinline__ void take(const FastLaunch &l, uint32_t row, uint32_t col) const {
        const uint32_t per_line = l.rows / 16, piece = threadIdx.x % 8;
        row += 32 * piece;
#pragma unroll
        for (uint32_t c = threadIdx.x / 8; c < 64; c += 32) {
            if (row >= l.rows || col + c >= l.cols) continue;
            *reinterpret_cast<uint4 *>(l.packed + (size_t)(col + c) * (l.rows / 2) + row / 2) = codes[c][piece ^ c / 2 % 8];
            if (SQUARE && c % 16 != 0) continue;
            size_t at = (size_t)(SQUARE ? (col + c) / 16 : col + c) * per_line + row / 16;
            reinterpret_cast<typename TwoScales<RULE>::type *>(l.scales)[at / 2] = stored[piece][c];
        }
    }
};

// Rows and columns are multiples of 32 and 16. Tiles go round by round over the grid; the next 16 rows are loaded before these are
// computed. Two tiles in turn need one barrier each: nobody writes a tile again before all have passed the barrier of the other.
template <int RULE, int ELEMENT, bool SQUARE>
__global__ void __launch_bounds__(256, COLUMNS_RESIDENT)
    quantize_columns(const __grid_constant__ FastLaunch l, const uint32_t *__restrict__ x) {
    __shared__ float factors[128];
    __shared__ ColumnsTile<RULE> tiles[2];
    const float k = __fmul_rn(l.tensor->encode, __uint_as_float(0x3E2AAAABu));
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, words = l.cols / 2, column = blockIdx.x * 32 + lane, stride = gridDim.y * 256;
    uint32_t a[16], b[16], turn = 0;
    auto load = [&](uint32_t(&to)[16], uint32_t row) {
        const uint32_t *from = x + (size_t)row * words + column;
        const bool any = column < words && row < l.rows; // lanes of a warp work together, with zeros beyond the matrix
#pragma unroll
        for (int i = 0; i < 16; i++) to[i] = any ? __ldg(from + (size_t)i * words) : 0;
    };
    load(a, blockIdx.y * 256 + 32 * warp);
    const uint32_t table = fill_factors<RULE>(factors, l.tensor->decode);
    for (uint32_t row = blockIdx.y * 256; row < l.rows; row += stride, turn ^= 1) {
        load(b, row + 32 * warp + 16);
        TwoColumns first = quantize_columns16<RULE, ELEMENT, SQUARE>(l, table, k, a);
        load(a, row + 32 * warp + stride);
        TwoColumns second = quantize_columns16<RULE, ELEMENT, SQUARE>(l, table, k, b);
        tiles[turn].put(warp, lane, first, second);
        __syncthreads();
        tiles[turn].template take<SQUARE>(l, row, blockIdx.x * 64);
    }
}

// ---- 16x16 blocks, codes in the order of the input: one warp, 16 rows of four blocks; one lane, eight columns of every fourth row ----

template <int RULE, int ELEMENT>
__device__ __forceinline__ void quantize_square4(const FastLaunch &l, uint32_t table, float k, const uint4 (&v)[4], uint32_t row, uint32_t col) {
    uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) most = larger(most, larger(larger(v[i].x, v[i].y), larger(v[i].z, v[i].w)));
    most = magnitudes(most);
    uint32_t bits = max(most & 0xFFFFu, most >> 16);
    bool nan = bits > 0x7F80u;
    if (nan) bits = __float_as_uint(fmaxf(amax16_slowly(v[0], v[1]), amax16_slowly(v[2], v[3]))) >> 16;
    bits = max(bits, __shfl_xor_sync(0xFFFFFFFFu, bits, 1));
    bits = max(bits, __shfl_xor_sync(0xFFFFFFFFu, bits, 8));
    bits = max(bits, __shfl_xor_sync(0xFFFFFFFFu, bits, 16));
    FastScale s = fast_scale<RULE>(table, k, l.q.max_magnitude, bits);
    uint32_t codes[4];
    if (s.plain && !nan) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t w[4] = {v[i].x, v[i].y, v[i].z, v[i].w};
            float x[8];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                x[2 * j] = low_half(w[j]);
                x[2 * j + 1] = high_half(w[j]);
            }
            const float factor[2] = {s.factor, s.factor}, divisor[2] = {s.divisor, s.divisor};
            codes[i] = encode8<RULE, ELEMENT, false>(l, x, signs8(w[0], w[1], w[2], w[3]), factor, divisor, make_uint2(0, 0));
        }
    } else {
        BlockScale scale = block_scale(l.q, *l.tensor, __uint_as_float(bits << 16));
        s.stored = scale.stored;
        for (int i = 0; i < 4; i += 2) {
            uint2 two = codes16_slowly<ELEMENT, false>(l, scale, v[i], v[i + 1], make_uint4(0, 0, 0, 0));
            codes[i] = two.x;
            codes[i + 1] = two.y;
        }
    }
    if (col >= l.cols) return;
    const uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 4; i++)
        *reinterpret_cast<uint32_t *>(l.packed + (size_t)(row + 4 * i + lane / 8) * (l.cols / 2) + col / 2) = codes[i];
    if (lane >= 8 || lane % 2 != 0) return;
    size_t at = (size_t)(row / 16) * (l.cols / 16) + col / 16;
    if (RULE == FAST_FP32)
        reinterpret_cast<uint32_t *>(l.scales)[at] = s.stored;
    else
        l.scales[at] = (uint8_t)s.stored;
}

template <int RULE, int ELEMENT>
__global__ void __launch_bounds__(256, SQUARES_RESIDENT) quantize_squares(const __grid_constant__ FastLaunch l, const uint4 *__restrict__ x) {
    __shared__ float factors[128];
    const float k = __fmul_rn(l.tensor->encode, __uint_as_float(0x3E2AAAABu));
    const uint32_t lane = threadIdx.x % 32, col = (blockIdx.x * 8 + threadIdx.x / 32) * 64 + lane % 8 * 8, stride = gridDim.y * 16;
    uint32_t row = blockIdx.y * 16;
    uint4 a[4], b[4];
    auto load = [&](uint4(&to)[4], uint32_t at) {
        const uint4 *from = x + ((size_t)(at + lane / 8) * l.cols + col) / 8;
#pragma unroll
        for (int i = 0; i < 4; i++) to[i] = col < l.cols && at < l.rows ? __ldg(from + (size_t)i * (l.cols / 2)) : make_uint4(0, 0, 0, 0);
    };
    load(a, row);
    const uint32_t table = fill_factors<RULE>(factors, l.tensor->decode);
    while (row < l.rows) {
        load(b, row + stride);
        quantize_square4<RULE, ELEMENT>(l, table, k, a, row, col);
        row += stride;
        if (row >= l.rows) break;
        load(a, row + stride);
        quantize_square4<RULE, ELEMENT>(l, table, k, b, row, col);
        row += stride;
    }
}

namespace {

// Thread blocks across, and as many down as the device holds at once.
dim3 grid_of(const FastLaunch &l, uint32_t across, uint32_t step, uint32_t given) {
    int device = 0, processors = 132;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    uint32_t x = (l.cols + across - 1) / across, y = (l.rows + step - 1) / step, most = (uint32_t)processors * given / x;
    if (most == 0) most = 1;
    if (most > 65535) most = 65535;
    return dim3(x, y < most ? y : most);
}

template <int RULE, int ELEMENT> void launch_columns(const FastLaunch &l, const void *x) {
    if (!l.q.along_rows)
        quantize_squares<RULE, ELEMENT><<<grid_of(l, 512, 16, GIVEN), 256>>>(l, static_cast<const uint4 *>(x));
    else if (l.q.block_rows == 16)
        quantize_columns<RULE, ELEMENT, true><<<grid_of(l, 64, 256, GIVEN), 256>>>(l, static_cast<const uint32_t *>(x));
    else
        quantize_columns<RULE, ELEMENT, false><<<grid_of(l, 64, 256, GIVEN), 256>>>(l, static_cast<const uint32_t *>(x));
}

} // namespace

void quantize_fast_columns(const FastLaunch &l, int rule, int element, const void *x) {
    if (rule == FAST_NV)
        launch_columns<FAST_NV, FAST_E2M1>(l, x);
    else if (element == FAST_E2M1)
        launch_columns<FAST_FP32, FAST_E2M1>(l, x);
    else
        launch_columns<FAST_FP32, FAST_HALVES>(l, x);
}
