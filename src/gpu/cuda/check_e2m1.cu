// This plug-in's own E2M1 conversion against the vendor header, every binary32 pattern.
#include "element.cuh"
#include "host.cuh"
#include <cuda_fp4.h>

__global__ void compare_all(unsigned long long *differences, uint32_t *first) {
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    unsigned long long mine = 0;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (1ull << 32); i += stride) {
        float x = __uint_as_float((uint32_t)i);
        uint32_t vendor = __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest) & 15u;
        uint32_t pair = e2m1_pair(x, -x), vendor_minus = __nv_cvt_float_to_fp4(-x, __NV_E2M1, cudaRoundNearest) & 15u;
        if (vendor != e2m1_software(x) || pair != (vendor | vendor_minus << 4)) {
            mine++;
            atomicMin(first, (uint32_t)i);
        }
    }
    if (mine != 0) atomicAdd(differences, mine);
}

int check_e2m1(uint64_t *differences, uint32_t *first, char *error, size_t size) {
    DeviceBuffer count, index;
    TRY(count.allocate(sizeof(unsigned long long)), "device memory");
    TRY(index.allocate(sizeof(uint32_t)), "device memory");
    TRY(cudaMemset(count.as<void>(), 0, sizeof(unsigned long long)), "device memory");
    TRY(cudaMemset(index.as<void>(), 0xFF, sizeof(uint32_t)), "device memory");
    compare_all<<<4096, 256>>>(count.as<unsigned long long>(), index.as<uint32_t>());
    TRY_KERNEL("E2M1 comparison");
    unsigned long long d;
    uint32_t f;
    TRY(cudaMemcpy(&d, count.as<void>(), sizeof d, cudaMemcpyDeviceToHost), "E2M1 comparison");
    TRY(cudaMemcpy(&f, index.as<void>(), sizeof f, cudaMemcpyDeviceToHost), "E2M1 comparison");
    *differences = d;
    *first = f;
    return NIB_GPU_OK;
}
