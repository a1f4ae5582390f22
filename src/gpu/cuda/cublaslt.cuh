#pragma once

#include <cstddef>

int cublaslt_product(int fp8, int fast_accumulation, int bf16_output, size_t m, size_t n, size_t k, const void *a, const void *b,
                     void *d, char *error, size_t size);
