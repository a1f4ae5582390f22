// The one exported symbol.
#include "../plugin.h"
#include "bench.cuh"
#include "cublaslt.cuh"
#include "device.cuh"
#include "layout.cuh"
#include "mma.cuh"
#include "transfer.cuh"

int check_e2m1(uint64_t *differences, uint32_t *first, char *error, size_t size);

extern "C" __attribute__((visibility("default"))) const struct nib_gpu_plugin nib_gpu_plugin = {
    NIB_GPU_PLUGIN_ABI, sizeof(struct nib_gpu_plugin), NIB_GPU_VERSION, NIB_GPU_COMMIT,
    device_open, device_close, device_describe,
    quantize, dequantize, rotate, swizzle,
    check_e2m1,
    mma_list, mma_run, cublaslt_product,
    bench,
};
