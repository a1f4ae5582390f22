// Packed codes and scales back to values.
#include "launch.cuh"

template <int ELEMENT> __global__ void dequantize_kernel(const __grid_constant__ QuantizeLaunch l) {
    const Shape &s = l.shape;
    size_t count = s.rows * s.cols, stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        size_t row = i / s.cols, col = i % s.cols;
        size_t line = s.along_rows ? col : row, at = s.along_rows ? row : col;
        uint32_t code = l.packed[line * l.packed_stride + at / 2] >> (at % 2 * 4) & 15u;
        size_t block = line / l.q.block_rows * l.scales_per_line + at / l.q.block_cols;
        uint32_t stored = l.q.scale == NIB_GPU_SCALE_FP32 ? reinterpret_cast<const uint32_t *>(l.scales)[block] : l.scales[block];
        l.values[i] = dequantized(l.q, l.tensor->amax, stored, level_of<ELEMENT>(l.grid, code));
    }
}

cudaError_t launch_dequantize(const QuantizeLaunch &l) {
    if (l.q.is_e2m1)
        dequantize_kernel<ELEMENT_E2M1><<<4096, 256>>>(l);
    else
        dequantize_kernel<ELEMENT_GRID><<<4096, 256>>>(l);
    return cudaGetLastError();
}
