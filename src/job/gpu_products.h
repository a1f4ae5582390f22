/* Operands of matrix instructions, and which model describes which instruction where. */
#ifndef NIB_JOB_GPU_PRODUCTS_H
#define NIB_JOB_GPU_PRODUCTS_H

#include <nibble/unit.h>

enum nib_gpu_operands {
    NIB_GPU_OPERANDS_BITS,       /* every pattern */
    NIB_GPU_OPERANDS_GAUSSIAN,
    NIB_GPU_OPERANDS_SPREAD,     /* exponents some binades apart, so that small products are cut off */
    NIB_GPU_OPERANDS_CANCEL,     /* pairs of products that almost cancel */
    NIB_GPU_OPERANDS_SUBNORMAL,
    NIB_GPU_OPERANDS_SPECIAL,    /* Gaussian with NaN, infinities, zeros and largest numbers */
    NIB_GPU_OPERANDS_COUNT
};
extern const char *const nib_gpu_operands_names[NIB_GPU_OPERANDS_COUNT];

/* Fills `rows` rows of k elements (k a multiple of 8), packed; `right` chooses another stream than for A. */
void nib_gpu_operands_fill(enum nib_gpu_operands set, enum nib_operand format, bool right, uint64_t seed, size_t rows,
                           size_t k, void *out);
/* Accumulators, among them zeros. */
void nib_gpu_accumulators_fill(enum nib_gpu_operands set, enum nib_accumulator format, uint64_t seed, size_t count,
                               void *out);
/* Block scales: UE4M3 or UE8M0 bytes. */
void nib_gpu_scales_fill(enum nib_gpu_operands set, enum nib_unit_scale format, uint64_t seed, size_t count,
                         uint8_t *out);

/* The model of an instruction of the plug-in on a compute capability, with its operand formats; NULL when none is
 * known. */
const char *nib_gpu_unit_of(const char *instruction, int major, enum nib_operand *a, enum nib_operand *b);

#endif
