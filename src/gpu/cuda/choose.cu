// Which kernel serves a launch.
#include "fast.cuh"

#include <cstring>

void quantize_f32(const QuantizeLaunch &, const void *);
void quantize_bf16(const QuantizeLaunch &, const void *);
void quantize_f16(const QuantizeLaunch &, const void *);
void quantize_by_mma(const QuantizeLaunch &, const void *);
void quantize_fast_rows(const FastLaunch &, int rule, int element, const void *);
void quantize_fast_columns(const FastLaunch &, int rule, int element, const void *);

namespace {

// The rule and the element of the fast kernels, where they follow this quantizer.
bool fast_kind(const nib_gpu_quantizer &q, int *rule, int *element) {
    static const float halves[16] = {0, 0.5f, 1, 1.5f, 2, 2.5f, 3, 3.5f, -0.0f, -0.5f, -1, -1.5f, -2, -2.5f, -3, -3.5f};
    bool is_halves = memcmp(q.level, halves, sizeof halves) == 0;
    if (q.amax_nan_propagates || q.infinite_scale_is_nan || (!q.is_e2m1 && !is_halves)) return false;
    *element = q.is_e2m1 ? FAST_E2M1 : FAST_HALVES;
    if (q.rule == NIB_GPU_RULE_NVFP4 && q.is_e2m1 && q.block_cols == 16)
        *rule = FAST_NV;
    else if (q.rule == NIB_GPU_RULE_MX_FLOOR && q.is_e2m1 && q.emax == 2 && q.block_rows == 1 && q.block_cols == 32)
        *rule = FAST_MX;
    else if (q.rule == NIB_GPU_RULE_ABSMAX && q.scale == NIB_GPU_SCALE_FP32 && q.block_cols == 16 && q.max_magnitude == q.level[7])
        *rule = FAST_FP32;
    else
        return false;
    return true;
}

bool quantize_fast(const QuantizeLaunch &launch, enum nib_gpu_dtype dtype, const void *x) {
    const nib_gpu_quantizer &q = launch.q;
    const size_t rows = launch.shape.rows, cols = launch.shape.cols;
    int rule, element;
    if (dtype != NIB_GPU_BF16 || launch.values != nullptr || launch.packed == nullptr || launch.scales == nullptr) return false;
    if (!fast_kind(q, &rule, &element) || rows >= 1u << 31 || cols >= 1u << 31 || rows * cols / 16 >= 1u << 31) return false;
    const bool turned = q.rotation.size > 1, in_rows = q.block_rows == 1 && !q.along_rows;
    if (in_rows) {
        if (cols % q.block_cols != 0 || rows * cols < 512 || (turned && (q.rotation.size != 16 || !q.rotation.round_to_bf16))) return false;
        if (q.random_bits != 0 && (q.random_bits != 8 || (turned && q.rotation.by == NIB_GPU_TENSOR_CORE))) return false;
    } else {
        if (turned || q.random_bits != 0 || rule == FAST_MX || cols % 16 != 0 || rows % 16 != 0) return false;
        if (q.along_rows && rows % 32 != 0) return false;
    }
    FastLaunch l = {q, launch.grid, launch.tensor, launch.packed, launch.scales, (uint32_t)(rows * cols / 16), (uint32_t)rows, (uint32_t)cols, {0}, 0,
                    16, 256, 65536};
    for (unsigned i = 0; turned && i < 16; i++)
        if (q.rotation.sign[i] < 0) {
            l.flip[i / 2] |= i % 2 == 0 ? 0x8000u : 0x80000000u;
            l.negative |= 1u << i;
        }
    if (in_rows)
        quantize_fast_rows(l, rule, element, x);
    else
        quantize_fast_columns(l, rule, element, x);
    return true;
}

} // namespace

cudaError_t launch_quantize(const QuantizeLaunch &launch, enum nib_gpu_dtype dtype, const void *x) {
    if (quantize_fast(launch, dtype, x)) return cudaGetLastError();
    if (launch.q.rotation.size > 1 && launch.q.rotation.by == NIB_GPU_TENSOR_CORE)
        quantize_by_mma(launch, x);
    else if (dtype == NIB_GPU_F32)
        quantize_f32(launch, x);
    else if (dtype == NIB_GPU_BF16)
        quantize_bf16(launch, x);
    else
        quantize_f16(launch, x);
    return cudaGetLastError();
}
