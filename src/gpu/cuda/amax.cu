// Tensor amax and tensor scale.
#include "launch.cuh"

// Magnitude bits order like unsigned integers; NaN is skipped, as TransformerEngine's max does.
template <typename T> __global__ void amax_kernel(const T *__restrict__ x, size_t count, unsigned *amax_bits) {
    float amax = 0;
    size_t stride = (size_t)gridDim.x * blockDim.x;
    constexpr unsigned PER = 16 / sizeof(T);
    size_t vectors = count / PER;
    const uint4 *wide = reinterpret_cast<const uint4 *>(x);
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += stride) {
        uint4 word = __ldg(wide + i);
        const T *part = reinterpret_cast<const T *>(&word);
#pragma unroll
        for (unsigned j = 0; j < PER; j++) amax = fmaxf(amax, fabsf(as_float(part[j])));
    }
    if (blockIdx.x == 0)
        for (size_t i = vectors * PER + threadIdx.x; i < count; i += blockDim.x) amax = fmaxf(amax, fabsf(as_float(x[i])));
    for (unsigned lanes = 16; lanes > 0; lanes /= 2) amax = fmaxf(amax, __shfl_xor_sync(0xFFFFFFFFu, amax, lanes));
    if (threadIdx.x % 32 == 0) atomicMax(amax_bits, __float_as_uint(amax));
}

__global__ void tensor_scale_kernel(const unsigned *amax_bits, TensorScale *out) { *out = nvfp4_tensor_scale(__uint_as_float(*amax_bits)); }
__global__ void no_tensor_scale_kernel(TensorScale *out) { *out = TensorScale{1.0f, 1.0f, 0.0f}; }

cudaError_t launch_tensor_scale(const nib_gpu_quantizer &q, enum nib_gpu_dtype dtype, const void *x, size_t count,
                                unsigned *amax_bits, TensorScale *tensor) {
    if (q.rule != NIB_GPU_RULE_NVFP4) {
        no_tensor_scale_kernel<<<1, 1>>>(tensor);
        return cudaGetLastError();
    }
    cudaMemsetAsync(amax_bits, 0, sizeof *amax_bits);
    unsigned blocks = 2048;
    switch (dtype) {
    case NIB_GPU_F32: amax_kernel<<<blocks, 256>>>(static_cast<const float *>(x), count, amax_bits); break;
    case NIB_GPU_BF16: amax_kernel<<<blocks, 256>>>(static_cast<const __nv_bfloat16 *>(x), count, amax_bits); break;
    case NIB_GPU_F16: amax_kernel<<<blocks, 256>>>(static_cast<const __half *>(x), count, amax_bits); break;
    }
    tensor_scale_kernel<<<1, 1>>>(amax_bits, tensor);
    return cudaGetLastError();
}
