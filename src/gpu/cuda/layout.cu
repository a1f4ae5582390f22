// Linear scale bytes into tiles of 128x4 (cuBLAS, "swizzled") or 8x4.
#include "layout.cuh"
#include "host.cuh"

// One thread an output byte: which element of the padded matrix stands there.
__global__ void swizzle_kernel(const uint8_t *__restrict__ in, size_t rows, size_t cols, unsigned tile_rows, size_t total, uint8_t *out) {
    size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= total) return;
    size_t padded_cols = (cols + 3) / 4 * 4, tile_bytes = tile_rows * 4, tile = at / tile_bytes, inside = at % tile_bytes;
    size_t tile_row = tile / (padded_cols / 4), tile_col = tile % (padded_cols / 4);
    size_t r, c = inside % 4;
    if (tile_rows == 128)
        r = inside / 16 + inside % 16 / 4 * 32; // 32 rows of 16 bytes: four quarters side by side
    else
        r = inside / 4;
    size_t row = tile_row * tile_rows + r, col = tile_col * 4 + c;
    out[at] = row < rows && col < cols ? in[row * cols + col] : 0;
}

int swizzle(const uint8_t *scales, size_t rows, size_t cols, unsigned tile_rows, uint8_t *out, char *error, size_t size) {
    if (tile_rows != 128 && tile_rows != 8) return refuse(error, size, "scale tiles have 128 or 8 rows");
    size_t total = (rows + tile_rows - 1) / tile_rows * tile_rows * ((cols + 3) / 4 * 4);
    DeviceBuffer from, to;
    TRY(from.allocate(rows * cols), "device memory for scales");
    TRY(to.allocate(total), "device memory for scales");
    TRY(cudaMemcpy(from.as<void>(), scales, rows * cols, cudaMemcpyHostToDevice), "copy of scales");
    swizzle_kernel<<<(unsigned)((total + 255) / 256), 256>>>(from.as<uint8_t>(), rows, cols, tile_rows, total, to.as<uint8_t>());
    TRY_KERNEL("swizzle");
    TRY(cudaMemcpy(out, to.as<void>(), total, cudaMemcpyDeviceToHost), "copy of scales");
    return NIB_GPU_OK;
}
