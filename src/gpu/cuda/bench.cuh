#pragma once

#include "../plugin.h"

int bench(size_t rows, size_t cols, int repetitions, struct nib_gpu_timing *out, size_t capacity, size_t *count, char *error,
          size_t size);
