// Opening the device, and what it and this build can do.
#include "device.cuh"
#include "element.cuh"
#include "host.cuh"
#include <cstring>
#include <dlfcn.h>

__global__ void native_kernel(int *convert, int *stochastic) {
    *convert = NIB_NATIVE_E2M1;
    *stochastic = NIB_NATIVE_E2M1_RS;
}

int device_open(int index, char *error, size_t size) {
    int count = 0;
    TRY(cudaGetDeviceCount(&count), "no CUDA device");
    if (index < 0 || index >= count) {
        snprintf(error, size, "device %d does not exist; this machine has %d", index, count);
        return NIB_GPU_NO_DEVICE;
    }
    TRY(cudaSetDevice(index), "cannot open the device");
    cudaFuncAttributes attributes;
    cudaError_t found = cudaFuncGetAttributes(&attributes, native_kernel);
    cudaGetLastError();
    return failed(found, "this build has no code for the device", error, size);
}

void device_close(void) { cudaDeviceReset(); }

int cublaslt_version(void) {
    void *library = nullptr;
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
    for (const char *name : names)
        if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return 0;
    auto version = reinterpret_cast<size_t (*)(void)>(dlsym(library, "cublasLtGetVersion"));
    return version == nullptr ? 0 : (int)version();
}

int device_describe(struct nib_gpu_device *out, char *error, size_t size) {
    cudaDeviceProp p;
    int index;
    size_t free_bytes, total_bytes;
    struct nib_gpu_device d;
    memset(&d, 0, sizeof d);
    TRY(cudaGetDevice(&index), "no device is open");
    TRY(cudaGetDeviceProperties(&p, index), "cannot read the device's properties");
    TRY(cudaMemGetInfo(&free_bytes, &total_bytes), "cannot read the device's memory");
    TRY(cudaDriverGetVersion(&d.driver), "cannot read the driver's version");
    TRY(cudaRuntimeGetVersion(&d.runtime), "cannot read the runtime's version");
    snprintf(d.name, sizeof d.name, "%s", p.name);
    d.major = p.major;
    d.minor = p.minor;
    d.multiprocessors = p.multiProcessorCount;
    d.memory_total = total_bytes;
    d.memory_free = free_bytes;
    snprintf(d.built_for, sizeof d.built_for, "%s", NIB_GPU_ARCHITECTURES);
    DeviceBuffer flags;
    TRY(flags.allocate(2 * sizeof(int)), "device memory");
    native_kernel<<<1, 1>>>(flags.as<int>(), flags.as<int>() + 1);
    TRY_KERNEL("capability query");
    int native[2];
    TRY(cudaMemcpy(native, flags.as<int>(), sizeof native, cudaMemcpyDeviceToHost), "capability query");
    d.native_fp4_convert = native[0];
    d.native_fp4_stochastic = native[1];
    d.fp4_tensor_cores = p.major >= 10;
    d.cublaslt = cublaslt_version();
    *out = d;
    return NIB_GPU_OK;
}
