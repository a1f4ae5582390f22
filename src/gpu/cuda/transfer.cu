// The host entry points: copy in, run, copy out.
#include "transfer.cuh"
#include "launch.cuh"

cudaError_t launch_dequantize(const QuantizeLaunch &l);

namespace {

struct Outputs {
    size_t packed, scales, values; // bytes
};

Outputs output_bytes(const QuantizeLaunch &l) {
    const Shape &s = l.shape;
    size_t lines = (s.outer + l.q.block_rows - 1) / l.q.block_rows;
    size_t scales = lines * l.scales_per_line * (l.q.scale == NIB_GPU_SCALE_FP32 ? 4 : 1);
    return {s.outer * l.packed_stride, scales, s.rows * s.cols * sizeof(float)};
}

} // namespace

int quantize(const struct nib_gpu_quantizer *q, enum nib_gpu_dtype dtype, const void *x, size_t rows, size_t cols,
             int has_tensor_amax, float tensor_amax, struct nib_gpu_quantized *out, char *error, size_t size) {
    QuantizeLaunch l;
    int code = plan_quantize(*q, dtype, rows, cols, &l, error, size);
    if (code != NIB_GPU_OK) return code;
    if (rows == 0 || cols == 0) return NIB_GPU_OK;
    Outputs bytes = output_bytes(l);
    size_t input = rows * cols * dtype_bytes(dtype);
    DeviceBuffer in, packed, scales, values, tensor, amax;
    TRY(in.allocate(input), "device memory for the input");
    TRY(packed.allocate(bytes.packed), "device memory for codes");
    TRY(scales.allocate(bytes.scales), "device memory for scales");
    TRY(tensor.allocate(sizeof(TensorScale)), "device memory");
    TRY(amax.allocate(sizeof(unsigned)), "device memory");
    if (out->values != nullptr) TRY(values.allocate(bytes.values), "device memory for values");
    TRY(cudaMemcpy(in.as<void>(), x, input, cudaMemcpyHostToDevice), "copy of the input");
    // A buffer that a kernel forgets to write must not look right.
    TRY(cudaMemset(packed.as<void>(), 0xCA, bytes.packed), "device memory");
    TRY(cudaMemset(scales.as<void>(), 0xCA, bytes.scales), "device memory");
    l.tensor = tensor.as<TensorScale>();
    l.packed = packed.as<uint8_t>();
    l.scales = scales.as<uint8_t>();
    l.values = out->values != nullptr ? values.as<float>() : nullptr;
    if (has_tensor_amax) {
        TensorScale given = q->rule == NIB_GPU_RULE_NVFP4 ? nvfp4_tensor_scale(tensor_amax) : TensorScale{1.0f, 1.0f, 0.0f};
        TRY(cudaMemcpy(tensor.as<void>(), &given, sizeof given, cudaMemcpyHostToDevice), "tensor scale");
    } else if (q->rotation.size > 1 && q->rule == NIB_GPU_RULE_NVFP4) {
        // The amax is that of the rotated tensor.
        DeviceBuffer rotated;
        size_t element = q->rotation.round_to_bf16 ? 2 : 4;
        TRY(rotated.allocate(rows * cols * element), "device memory for the rotated tensor");
        TRY(launch_rotate(q->rotation, dtype, in.as<void>(), rows, cols, q->along_rows, rotated.as<void>()), "rotation");
        TRY(launch_tensor_scale(*q, q->rotation.round_to_bf16 ? NIB_GPU_BF16 : NIB_GPU_F32, rotated.as<void>(), rows * cols,
                                amax.as<unsigned>(), tensor.as<TensorScale>()),
            "tensor amax");
        TRY_KERNEL("tensor amax");
    } else {
        TRY(launch_tensor_scale(*q, dtype, in.as<void>(), rows * cols, amax.as<unsigned>(), tensor.as<TensorScale>()),
            "tensor amax");
    }
    TRY(launch_quantize(l, dtype, in.as<void>()), "quantization");
    TRY_KERNEL("quantization");
    TensorScale used;
    TRY(cudaMemcpy(&used, tensor.as<void>(), sizeof used, cudaMemcpyDeviceToHost), "tensor scale");
    if (out->packed != nullptr) TRY(cudaMemcpy(out->packed, packed.as<void>(), bytes.packed, cudaMemcpyDeviceToHost), "copy of codes");
    if (out->scales != nullptr) TRY(cudaMemcpy(out->scales, scales.as<void>(), bytes.scales, cudaMemcpyDeviceToHost), "copy of scales");
    if (out->values != nullptr) TRY(cudaMemcpy(out->values, values.as<void>(), bytes.values, cudaMemcpyDeviceToHost), "copy of values");
    out->tensor_amax = used.amax;
    out->tensor_scale_encode = used.encode;
    out->tensor_scale_decode = used.decode;
    return NIB_GPU_OK;
}

int dequantize(const struct nib_gpu_quantizer *q, const uint8_t *packed_in, const uint8_t *scales_in, float tensor_amax,
               size_t rows, size_t cols, float *values_out, char *error, size_t size) {
    QuantizeLaunch l;
    int code = plan_quantize(*q, NIB_GPU_F32, rows, cols, &l, error, size);
    if (code != NIB_GPU_OK) return code;
    if (rows == 0 || cols == 0) return NIB_GPU_OK;
    Outputs bytes = output_bytes(l);
    DeviceBuffer packed, scales, values, tensor;
    TRY(packed.allocate(bytes.packed), "device memory for codes");
    TRY(scales.allocate(bytes.scales), "device memory for scales");
    TRY(values.allocate(bytes.values), "device memory for values");
    TRY(tensor.allocate(sizeof(TensorScale)), "device memory");
    TensorScale given = nvfp4_tensor_scale(tensor_amax);
    TRY(cudaMemcpy(packed.as<void>(), packed_in, bytes.packed, cudaMemcpyHostToDevice), "copy of codes");
    TRY(cudaMemcpy(scales.as<void>(), scales_in, bytes.scales, cudaMemcpyHostToDevice), "copy of scales");
    TRY(cudaMemcpy(tensor.as<void>(), &given, sizeof given, cudaMemcpyHostToDevice), "tensor scale");
    l.tensor = tensor.as<TensorScale>();
    l.packed = packed.as<uint8_t>();
    l.scales = scales.as<uint8_t>();
    l.values = values.as<float>();
    TRY(launch_dequantize(l), "dequantization");
    TRY_KERNEL("dequantization");
    TRY(cudaMemcpy(values_out, values.as<void>(), bytes.values, cudaMemcpyDeviceToHost), "copy of values");
    return NIB_GPU_OK;
}

int rotate(const struct nib_gpu_rotation *r, enum nib_gpu_dtype dtype, const void *x, size_t rows, size_t cols, int along_rows,
           void *out, char *error, size_t size) {
    size_t inner = along_rows ? rows : cols;
    if (r->size < 16 || r->size > 256 || (r->size & (r->size - 1)) != 0)
        return refuse(error, size, "rotations on the device have size 16, 32, 64, 128 or 256");
    if (inner % r->size != 0) return refuse(error, size, "the extent along the axis is not a multiple of the rotation size");
    if (r->by == NIB_GPU_TENSOR_CORE && dtype != NIB_GPU_BF16)
        return refuse(error, size, "rotations on the tensor cores take bf16 input");
    if (rows == 0 || cols == 0) return NIB_GPU_OK;
    size_t input = rows * cols * dtype_bytes(dtype), output = rows * cols * (r->round_to_bf16 ? 2 : 4);
    DeviceBuffer from, to;
    TRY(from.allocate(input), "device memory for the input");
    TRY(to.allocate(output), "device memory for the output");
    TRY(cudaMemcpy(from.as<void>(), x, input, cudaMemcpyHostToDevice), "copy of the input");
    TRY(launch_rotate(*r, dtype, from.as<void>(), rows, cols, along_rows, to.as<void>()), "rotation");
    TRY_KERNEL("rotation");
    TRY(cudaMemcpy(out, to.as<void>(), output, cudaMemcpyDeviceToHost), "copy of the output");
    return NIB_GPU_OK;
}
