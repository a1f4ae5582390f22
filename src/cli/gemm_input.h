/* The operands of nibble gemm, from files, from quantized values, or from packed codes. */
#ifndef NIB_CLI_GEMM_INPUT_H
#define NIB_CLI_GEMM_INPUT_H

#include <nibble/gemm.h>

#include "cli/command.h"
#include "cli/input.h"

struct nib_gemm_arguments {
    const char *unit, *quantizer, *quantizer_a, *quantizer_b, *operand, *operand_a, *operand_b, *gaussian, *c, *isa;
    const char *scales_a, *scales_b;
    struct nib_texts settings;
    float tensor_scale_a, tensor_scale_b; /* decode scales; NAN when not given */
    float alpha, beta;
    int b_layout, scale_layout, order, scaling, output;
    int64_t split_k, promote, interleave, samples;
    bool codes, fake, error, anatomy;
};

/* One operand: N x K (or M x K) values where there are any, and what the unit multiplies. */
struct nib_gemm_input {
    struct nib_input source;
    struct nib_view values; /* K along the columns; data NULL for packed codes */
    float *memory;          /* a transposed, random or dequantized copy */
    struct nib_gemm_buffer buffer;
    const struct nib_quantizer *quantizer; /* NULL where none took part */
};

/* which: 'a' or 'b'. `locator` NULL where --gaussian makes the values. */
NIB_CHECK enum nib_status nib_gemm_input_open(const struct nib_call *call, const struct nib_unit *unit, char which,
                                              const char *locator, struct nib_gemm_input *out, struct nib_error *error);
void nib_gemm_input_close(struct nib_gemm_input *input);

#endif
