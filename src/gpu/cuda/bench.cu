// Speed of each kernel on a bf16 matrix, beside a device copy.
#include "bench.cuh"
#include "launch.cuh"
#include <cmath>
#include <cstring>
#include <curand_kernel.h>

__global__ void fill_gaussian(__nv_bfloat16 *x, size_t count) {
    size_t stride = (size_t)gridDim.x * blockDim.x, first = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    curandStatePhilox4_32_10_t state;
    curand_init(1, first, 0, &state);
    for (size_t i = first; i < count; i += stride) x[i] = __float2bfloat16_rn(curand_normal(&state));
}

__global__ void copy_kernel(const uint4 *__restrict__ from, uint4 *__restrict__ to, size_t count) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) to[i] = __ldg(from + i);
}

namespace {

// Best of several repetitions, by events on the device.
template <typename F> cudaError_t best_time(int repetitions, double *seconds, F launch) {
    cudaEvent_t start, stop;
    cudaError_t code = cudaEventCreate(&start);
    if (code == cudaSuccess) code = cudaEventCreate(&stop);
    if (code != cudaSuccess) return code;
    *seconds = INFINITY;
    for (int i = 0; i < repetitions + 3 && code == cudaSuccess; i++) {
        float milliseconds = 0;
        cudaEventRecord(start);
        code = launch();
        cudaEventRecord(stop);
        if (code == cudaSuccess) code = cudaEventSynchronize(stop);
        if (code == cudaSuccess) code = cudaEventElapsedTime(&milliseconds, start, stop);
        if (i >= 3 && milliseconds * 1e-3 < *seconds) *seconds = milliseconds * 1e-3; // three warm-ups
    }
    cudaEventDestroy(start);
    cudaEventDestroy(stop);
    return code;
}

struct Kind {
    const char *name;
    enum nib_gpu_scale scale;
    enum nib_gpu_scale_rule rule;
    unsigned rows, cols;
    const float *level;
    int e2m1, down;
    unsigned rotation;
    enum nib_gpu_rotate_by by;
    unsigned random_bits;
};

const float e2m1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
const float e1m2[16] = {0, 0.5f, 1, 1.5f, 2, 2.5f, 3, 3.5f, -0.0f, -0.5f, -1, -1.5f, -2, -2.5f, -3, -3.5f};

const Kind kinds[] = {
    {"te-nvfp4", NIB_GPU_SCALE_E4M3, NIB_GPU_RULE_NVFP4, 1, 16, e2m1, 1, 0, 0, NIB_GPU_BUTTERFLY, 0},
    {"te-nvfp4 rht16 butterfly", NIB_GPU_SCALE_E4M3, NIB_GPU_RULE_NVFP4, 1, 16, e2m1, 1, 0, 16, NIB_GPU_BUTTERFLY, 0},
    {"te-nvfp4 rht16 tensor core", NIB_GPU_SCALE_E4M3, NIB_GPU_RULE_NVFP4, 1, 16, e2m1, 1, 0, 16, NIB_GPU_TENSOR_CORE, 0},
    {"te-nvfp4 sr", NIB_GPU_SCALE_E4M3, NIB_GPU_RULE_NVFP4, 1, 16, e2m1, 1, 0, 0, NIB_GPU_BUTTERFLY, 8},
    {"te-nvfp4 down the columns", NIB_GPU_SCALE_E4M3, NIB_GPU_RULE_NVFP4, 1, 16, e2m1, 1, 1, 0, NIB_GPU_BUTTERFLY, 0},
    {"te-nvfp4 16x16", NIB_GPU_SCALE_E4M3, NIB_GPU_RULE_NVFP4, 16, 16, e2m1, 1, 0, 0, NIB_GPU_BUTTERFLY, 0},
    {"te-nvfp4 16x16 transposed", NIB_GPU_SCALE_E4M3, NIB_GPU_RULE_NVFP4, 16, 16, e2m1, 1, 1, 0, NIB_GPU_BUTTERFLY, 0},
    {"ocp-mxfp4", NIB_GPU_SCALE_E8M0, NIB_GPU_RULE_MX_FLOOR, 1, 32, e2m1, 1, 0, 0, NIB_GPU_BUTTERFLY, 0},
    {"e2m1-fp32", NIB_GPU_SCALE_FP32, NIB_GPU_RULE_ABSMAX, 1, 16, e2m1, 1, 0, 0, NIB_GPU_BUTTERFLY, 0},
    {"e1m2-fp32", NIB_GPU_SCALE_FP32, NIB_GPU_RULE_ABSMAX, 1, 16, e1m2, 0, 0, 0, NIB_GPU_BUTTERFLY, 0},
    {"e1m2-fp32 rht16 butterfly", NIB_GPU_SCALE_FP32, NIB_GPU_RULE_ABSMAX, 1, 16, e1m2, 0, 0, 16, NIB_GPU_BUTTERFLY, 0},
    {"e1m2-fp32 rht16 tensor core", NIB_GPU_SCALE_FP32, NIB_GPU_RULE_ABSMAX, 1, 16, e1m2, 0, 0, 16, NIB_GPU_TENSOR_CORE, 0},
    {"e1m2-fp32 sr", NIB_GPU_SCALE_FP32, NIB_GPU_RULE_ABSMAX, 1, 16, e1m2, 0, 0, 0, NIB_GPU_BUTTERFLY, 8},
    {"e1m2-fp32 down the columns", NIB_GPU_SCALE_FP32, NIB_GPU_RULE_ABSMAX, 1, 16, e1m2, 0, 1, 0, NIB_GPU_BUTTERFLY, 0},
};

nib_gpu_quantizer quantizer_of(const Kind &kind) {
    nib_gpu_quantizer q;
    memset(&q, 0, sizeof q);
    memcpy(q.level, kind.level, sizeof q.level);
    q.is_e2m1 = kind.e2m1;
    q.max_magnitude = kind.level[7];
    q.emax = kind.e2m1 ? 2 : 1;
    q.nan_code = 7;
    q.scale = kind.scale;
    q.rule = kind.rule;
    q.block_rows = kind.rows;
    q.block_cols = kind.cols;
    q.along_rows = kind.down;
    q.rotation.size = kind.rotation;
    q.rotation.by = kind.by;
    q.rotation.round_to_bf16 = 1;
    for (int i = 0; i < 256; i++) q.rotation.sign[i] = (i * 7 + i / 3) % 2 ? 1 : -1;
    q.random_bits = kind.random_bits;
    q.seed = 1;
    return q;
}

} // namespace

int bench(size_t rows, size_t cols, int repetitions, struct nib_gpu_timing *out, size_t capacity, size_t *count, char *error,
          size_t size) {
    if (rows % 16 != 0 || cols % 32 != 0) return refuse(error, size, "bench takes rows of a multiple of 16 and columns of 32");
    size_t elements = rows * cols, made = 0;
    DeviceBuffer x, rotated, packed, scales, tensor, amax;
    TRY(x.allocate(2 * elements), "device memory for the input");
    TRY(rotated.allocate(2 * elements), "device memory for the rotated tensor");
    TRY(packed.allocate(elements / 2), "device memory for codes");
    TRY(scales.allocate(elements / 4), "device memory for scales");
    TRY(tensor.allocate(sizeof(TensorScale)), "device memory");
    TRY(amax.allocate(sizeof(unsigned)), "device memory");
    fill_gaussian<<<1024, 256>>>(x.as<__nv_bfloat16>(), elements);
    TRY_KERNEL("random input");
    auto add = [&](const char *name, double seconds, double bytes) {
        if (made == capacity) return;
        snprintf(out[made].name, sizeof out[made].name, "%s", name);
        out[made].seconds = seconds;
        out[made].bytes = bytes;
        made++;
    };
    double seconds;
    size_t words = 2 * elements / 16;
    TRY(best_time(repetitions, &seconds,
                  [&] {
                      copy_kernel<<<(unsigned)((words + 255) / 256), 256>>>(x.as<uint4>(), rotated.as<uint4>(), words);
                      return cudaGetLastError();
                  }),
        "copy");
    add("device copy", seconds, 4.0 * elements);
    for (const Kind &kind : kinds) {
        nib_gpu_quantizer q = quantizer_of(kind);
        QuantizeLaunch l;
        int code = plan_quantize(q, NIB_GPU_BF16, rows, cols, &l, error, size);
        if (code != NIB_GPU_OK) return code;
        l.tensor = tensor.as<TensorScale>();
        l.packed = packed.as<uint8_t>();
        l.scales = scales.as<uint8_t>();
        TRY(launch_tensor_scale(q, NIB_GPU_BF16, x.as<void>(), elements, amax.as<unsigned>(), tensor.as<TensorScale>()), "tensor amax");
        double scale_bytes = (double)elements / (kind.rows * kind.cols) * (kind.scale == NIB_GPU_SCALE_FP32 ? 4 : 1);
        double bytes = 2.5 * elements + scale_bytes;
        char name[96];
        TRY(best_time(repetitions, &seconds, [&] { return launch_quantize(l, NIB_GPU_BF16, x.as<void>()); }), kind.name);
        snprintf(name, sizeof name, "%s, %s", kind.name, kind.rotation == 0 ? "amax given" : "fused");
        add(name, seconds, bytes);
        if (kind.rule == NIB_GPU_RULE_NVFP4 && kind.rotation == 0) {
            TRY(best_time(repetitions, &seconds,
                          [&] {
                              cudaError_t failure = launch_tensor_scale(q, NIB_GPU_BF16, x.as<void>(), elements, amax.as<unsigned>(),
                                                                        tensor.as<TensorScale>());
                              return failure != cudaSuccess ? failure : launch_quantize(l, NIB_GPU_BF16, x.as<void>());
                          }),
                kind.name);
            snprintf(name, sizeof name, "%s, end to end", kind.name);
            add(name, seconds, bytes + 2.0 * elements);
        }
        if (kind.rotation == 0) continue;
        nib_gpu_rotation turn = q.rotation;
        QuantizeLaunch plain = l;
        plain.q.rotation.size = 0;
        TRY(best_time(repetitions, &seconds,
                      [&] {
                          cudaError_t failure = launch_rotate(turn, NIB_GPU_BF16, x.as<void>(), rows, cols, 0, rotated.as<void>());
                          return failure != cudaSuccess ? failure : launch_quantize(plain, NIB_GPU_BF16, rotated.as<void>());
                      }),
            kind.name);
        snprintf(name, sizeof name, "%s, not fused", kind.name);
        add(name, seconds, bytes + 4.0 * elements);
    }
    *count = made;
    return NIB_GPU_OK;
}
