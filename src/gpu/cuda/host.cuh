// Errors and device memory on the host side of the plug-in.
#pragma once

#include "../plugin.h"
#include <cstdio>
#include <cuda_runtime.h>

inline int failed(cudaError_t code, const char *what, char *error, size_t size) {
    if (code == cudaSuccess) return NIB_GPU_OK;
    snprintf(error, size, "%s: %s", what, cudaGetErrorString(code));
    if (code == cudaErrorMemoryAllocation) {
        cudaGetLastError(); // not sticky
        return NIB_GPU_NO_MEMORY;
    }
    if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction) return NIB_GPU_NO_KERNEL;
    if (code == cudaErrorNoDevice || code == cudaErrorInsufficientDriver) return NIB_GPU_NO_DEVICE;
    return NIB_GPU_FAULT;
}

inline int refuse(char *error, size_t size, const char *text) {
    snprintf(error, size, "%s", text);
    return NIB_GPU_BAD_ARGUMENT;
}

// Device memory that frees itself; a kernel that trapped surfaces in the caller's next checked call.
class DeviceBuffer {
  public:
    DeviceBuffer() = default;
    DeviceBuffer(const DeviceBuffer &) = delete;
    DeviceBuffer &operator=(const DeviceBuffer &) = delete;
    ~DeviceBuffer() {
        if (data_ != nullptr) cudaFree(data_);
    }
    cudaError_t allocate(size_t bytes) { return cudaMalloc(&data_, bytes == 0 ? 1 : bytes); }
    template <typename T> T *as() const { return static_cast<T *>(data_); }

  private:
    void *data_ = nullptr;
};

#define TRY(call, what)                                                                           \
    do {                                                                                          \
        int code_ = failed((call), (what), error, size);                                          \
        if (code_ != NIB_GPU_OK) return code_;                                                    \
    } while (0)

// After a launch: configuration errors at once, faults at the synchronisation.
#define TRY_KERNEL(what)                                                                          \
    do {                                                                                          \
        TRY(cudaGetLastError(), what);                                                            \
        TRY(cudaDeviceSynchronize(), what);                                                       \
    } while (0)
