/* What the actions of nibble gpu share. */
#ifndef NIB_CLI_GPU_H
#define NIB_CLI_GPU_H

#include "cli/command.h"
#include "gpu/loader.h"
#include <nibble/table.h>

struct nib_gpu_arguments {
    int64_t device, repetitions, sequences, length;
    bool quick, full, small, shared, all, verify, forward_only;
    const char *stack, *tokens;
    struct nib_texts shapes, recipes;
};

NIB_CHECK enum nib_status nib_gpu_device_of(const struct nib_gpu *gpu, struct nib_gpu_device *out,
                                            struct nib_error *error);
/* Writes tables into a result file with the device's attributes; `second` may be NULL. */
NIB_CHECK enum nib_status nib_gpu_store(const struct nib_call *call, const struct nib_gpu *gpu, const char *title,
                                        const struct nib_table *table, const struct nib_table *second,
                                        struct nib_error *error);
/* check --stack */
NIB_CHECK enum nib_status nib_gpu_check_stack(struct nib_call *call, const struct nib_gpu *gpu,
                                              struct nib_error *error);

#endif
