// From a quantizer's description to the kernel instance that runs it.
#pragma once

#include "host.cuh"
#include "quantize.cuh"

size_t dtype_bytes(enum nib_gpu_dtype dtype);
// Cell borders from the levels, in double arithmetic on the host.
int make_grid(const nib_gpu_quantizer &q, Grid *out, char *error, size_t size);
// Fills everything but the pointers.
int plan_quantize(const nib_gpu_quantizer &q, enum nib_gpu_dtype dtype, size_t rows, size_t cols, QuantizeLaunch *out,
                  char *error, size_t size);
// Launches on the default stream; no synchronisation.
cudaError_t launch_quantize(const QuantizeLaunch &launch, enum nib_gpu_dtype dtype, const void *x);
// *tensor (device) = the tensor scale of x, its amax computed there.
cudaError_t launch_tensor_scale(const nib_gpu_quantizer &q, enum nib_gpu_dtype dtype, const void *x, size_t count,
                                unsigned *amax_bits, TensorScale *tensor);
cudaError_t launch_rotate(const nib_gpu_rotation &rotation, enum nib_gpu_dtype dtype, const void *x, size_t rows, size_t cols,
                          int along_rows, void *out);
