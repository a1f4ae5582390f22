#pragma once

#include "../plugin.h"

int mma_list(unsigned i, struct nib_gpu_mma *out);
int mma_run(const char *name, size_t count, unsigned k_steps, const void *a, const void *b, const void *c, const uint8_t *a_scales,
            const uint8_t *b_scales, void *d, char *error, size_t size);
