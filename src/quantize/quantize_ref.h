/* The definition of every quantizer: one block, one element after the other, in the words of the axes. */
#ifndef NIB_QUANTIZE_REF_H
#define NIB_QUANTIZE_REF_H

#include "quantize/tensor_scale.h"

/* One block of `count` elements, the missing ones of a partial block being 0. */
struct nib_ref_block {
    const float *x;
    size_t count;
    const uint32_t *random;  /* random integers, where rounding is stochastic */
    uint8_t *codes;          /* out */
    uint32_t scale;          /* out: the code of the block scale */
    struct nib_trace *trace; /* NULL, or where to record every step of element `traced` */
    size_t traced;
};
void nib_ref_quantize(const struct nib_quantizer *q, const struct nib_tensor_scale *t, struct nib_ref_block *block);
/* The value of a code in a block of that scale. */
float nib_ref_dequantize(const struct nib_quantizer *q, const struct nib_tensor_scale *t, uint32_t scale, uint8_t code,
                         struct nib_trace *trace);
/* The largest magnitude of `count` numbers, as the axes say. */
float nib_ref_amax(const struct nib_quantizer *q, const float *x, size_t count);

/* Appends a step to a trace (NULL: nothing). */
void nib_trace_number(struct nib_trace *trace, const char *what, const char *formula, float value);
void nib_trace_code(struct nib_trace *trace, const char *what, const char *formula, uint32_t code, float value);
/* The first steps: the tensor amax and scale. */
void nib_trace_tensor(struct nib_trace *trace, const struct nib_quantizer *q, const struct nib_tensor_scale *t);

#endif
