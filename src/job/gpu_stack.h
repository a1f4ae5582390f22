/* The layer stack of a model on both sides: every quantizer, rotation and product of a recipe, layer by layer, on the
 * emulator's own operands. */
#ifndef NIB_JOB_GPU_STACK_H
#define NIB_JOB_GPU_STACK_H

#include "gpu/loader.h"
#include "job/stack.h"

/* Columns of the report. */
enum nib_gpu_stack_column {
    NIB_GPU_STACK_RECIPE, NIB_GPU_STACK_PART, NIB_GPU_STACK_LAYER, NIB_GPU_STACK_MODULE, NIB_GPU_STACK_SLOT, NIB_GPU_STACK_NAME,
    NIB_GPU_STACK_COMPARED, NIB_GPU_STACK_TENSOR, NIB_GPU_STACK_SCALES, NIB_GPU_STACK_CODES, NIB_GPU_STACK_BYTES, NIB_GPU_STACK_VALUES,
    NIB_GPU_STACK_RESULT, NIB_GPU_STACK_FIRST, NIB_GPU_STACK_COLUMNS
};

struct nib_gpu_stack_request {
    const struct nib_gpu *gpu;
    const struct nib_stack_input *input;
    const struct nib_recipe *const *recipes;
    size_t recipe_count;
    bool backward;
    uint64_t seed;
    int threads;
    /* Called before each product; may be NULL. */
    void (*progress)(void *context, const char *recipe, size_t done, size_t total);
    void *context;
};

/* One row for each rotated operand, each quantized operand and each product; what the device cannot run is a row that
 * says why; nib_gpu_report_totals sums them up. A difference is no failure of the call. Recipes that do not fit the
 * model are refused before anything is computed. */
NIB_CHECK enum nib_status nib_gpu_stack_run(const struct nib_gpu_stack_request *request, struct nib_table **out,
                                            struct nib_error *error);

/* One row per recipe, part, slot and name, summed over layers and modules; their numbers stand in the layer column. */
NIB_CHECK enum nib_status nib_gpu_stack_summary(const struct nib_table *report, struct nib_table **out,
                                                struct nib_error *error);

/* D (m x n, binary32) = A B^T by the device's bf16 instruction that computes as `unit`, chained along k. a and b: bf16
 * codes, m and n lines of k. `instruction` is its name, or "" where the device has none (out is untouched). */
NIB_CHECK enum nib_status nib_gpu_stack_multiply(const struct nib_gpu *gpu, const struct nib_unit *unit, size_t m,
                                                 size_t n, size_t k, const uint16_t *a, const uint16_t *b, float *out,
                                                 char instruction[64], struct nib_error *error);

#endif
