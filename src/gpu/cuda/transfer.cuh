#pragma once

#include "../plugin.h"

int quantize(const struct nib_gpu_quantizer *q, enum nib_gpu_dtype dtype, const void *x, size_t rows, size_t cols,
             int has_tensor_amax, float tensor_amax, struct nib_gpu_quantized *out, char *error, size_t size);
int dequantize(const struct nib_gpu_quantizer *q, const uint8_t *packed, const uint8_t *scales, float tensor_amax, size_t rows,
               size_t cols, float *values, char *error, size_t size);
int rotate(const struct nib_gpu_rotation *r, enum nib_gpu_dtype dtype, const void *x, size_t rows, size_t cols, int along_rows,
           void *out, char *error, size_t size);
