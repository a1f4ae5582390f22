// Host side of quantization: borders of a grid, shapes, checks.
#include "launch.cuh"

#include <cmath>
#include <cstring>

size_t dtype_bytes(enum nib_gpu_dtype dtype) { return dtype == NIB_GPU_F32 ? 4 : 2; }

int make_grid(const nib_gpu_quantizer &q, Grid *out, char *error, size_t size) {
    struct Entry {
        float level;
        unsigned code;
    } entry[16];
    unsigned count = 0;
    memset(out, 0, sizeof *out);
    // Sign-magnitude: every code's level is the negative of the code with the other high bit.
    bool sign_magnitude = true;
    for (unsigned c = 0; c < 8; c++) {
        bool low = std::isnan(q.level[c]), high = std::isnan(q.level[c + 8]);
        if (low != high || (!low && (q.level[c] != -q.level[c + 8] || std::signbit(q.level[c]) || !std::signbit(q.level[c + 8]))))
            sign_magnitude = false;
    }
    out->sign_magnitude = sign_magnitude;
    for (unsigned c = 0; c < (sign_magnitude ? 8u : 16u); c++)
        if (!std::isnan(q.level[c])) {
            unsigned at = count++;
            while (at > 0 && entry[at - 1].level > q.level[c]) entry[at] = entry[at - 1], at--;
            entry[at].level = q.level[c];
            entry[at].code = c;
        }
    if (count < 2) return refuse(error, size, "a grid needs at least two levels");
    out->ranks = count;
    for (unsigned r = 0; r < 15; r++) out->border[r] = NAN;
    // Ranks are counted from zero in a sign-magnitude grid, from the lowest level elsewhere.
    for (unsigned r = 0; r < count; r++) {
        out->level[r] = entry[r].level;
        out->code_of_rank |= (uint64_t)entry[r].code << (4 * r);
        if (r + 1 == count) break;
        // The middle of two binary32 numbers is exact in binary64 here. A tie goes to the even code, or by
        // rank counted from zero where the codes do not tell.
        double middle = ((double)entry[r].level + (double)entry[r + 1].level) / 2;
        bool low_even = entry[r].code % 2 == 0, high_even = entry[r + 1].code % 2 == 0;
        if (low_even == high_even) low_even = r % 2 == 0;
        float border = (float)middle;
        bool above = (double)border < middle || ((double)border == middle && low_even);
        out->border[r] = above ? nextafterf(border, INFINITY) : border;
    }
    return NIB_GPU_OK;
}

int plan_quantize(const nib_gpu_quantizer &q, enum nib_gpu_dtype dtype, size_t rows, size_t cols, QuantizeLaunch *out,
                  char *error, size_t size) {
    memset(out, 0, sizeof *out);
    out->q = q;
    int code = make_grid(q, &out->grid, error, size);
    if (code != NIB_GPU_OK) return code;
    bool tiles = q.block_rows == 16 && q.block_cols == 16;
    bool lines = q.block_rows == 1 && (q.block_cols == 16 || q.block_cols == 32 || q.block_cols == 64 || q.block_cols == 128);
    if (!tiles && !lines) return refuse(error, size, "blocks are 1x16, 1x32, 1x64, 1x128 or 16x16 on the device");
    if (q.random_bits != 0 && q.random_bits != 8 && q.random_bits != 16 && q.random_bits != 32)
        return refuse(error, size, "stochastic rounding on the device takes 8, 16 or 32 random bits");
    unsigned turn = q.rotation.size > 1 ? q.rotation.size : 1;
    if (turn != 1 && (turn < 16 || turn > 256 || (turn & (turn - 1)) != 0))
        return refuse(error, size, "rotations on the device have size 16, 32, 64, 128 or 256");
    if (turn != 1 && tiles) return refuse(error, size, "16x16 blocks take no rotation on the device");
    if (turn != 1 && q.rotation.by == NIB_GPU_TENSOR_CORE && dtype != NIB_GPU_BF16)
        return refuse(error, size, "rotations on the tensor cores take bf16 input");
    unsigned group = tiles || turn < q.block_cols ? q.block_cols : turn;
    out->shape = shape_of(rows, cols, q.along_rows, group < 16 ? 16 : group);
    if (turn != 1 && out->shape.inner % turn != 0)
        return refuse(error, size, "the extent along the axis is not a multiple of the rotation size");
    out->aligned = cols * dtype_bytes(dtype) % 16 == 0;
    out->packed_stride = (out->shape.inner + 1) / 2;
    out->scales_per_line = (out->shape.inner + q.block_cols - 1) / q.block_cols;
    return NIB_GPU_OK;
}
