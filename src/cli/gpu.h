/* What the actions of nibble gpu share. */
#ifndef NIB_CLI_GPU_H
#define NIB_CLI_GPU_H

#include "cli/command.h"
#include "gpu/loader.h"

struct nib_gpu_arguments {
    int64_t device, repetitions;
    bool quick, full, small, shared, all, verify;
    struct nib_texts shapes;
};

NIB_CHECK enum nib_status nib_gpu_device_of(const struct nib_gpu *gpu, struct nib_gpu_device *out, struct nib_error *error);

#endif
