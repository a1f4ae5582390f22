/* The definition of every quantizer: one block, one element after the other, in the words of the axes. */
#ifndef NIB_QUANTIZE_REF_H
#define NIB_QUANTIZE_REF_H

#include "quantize/tensor_scale.h"

/* The scale of one block. */
struct nib_ref_scale {
    float before;  /* v: before rounding */
    uint32_t code; /* as stored */
    float value;   /* s: what the arithmetic uses; differs from the code's value for some NaN and infinities */
    bool bad;      /* an amax is 0 or not finite: what choices named `double` turn into a scale of 1 */
    bool tiny;     /* floor(log2) of the block amax is below -126 */
    bool empty;    /* the block amax is 0, or is flushed to it */
};
/* One element. */
struct nib_ref_element {
    float scaled; /* y */
    uint8_t code; /* more than 4 bits only for float-bits */
    float level;  /* q */
};

/* `expand` is 1, or what a candidate of `select` multiplies the scale with. */
struct nib_ref_scale nib_ref_scale_of(const struct nib_quantizer *q, const struct nib_tensor_scale *t, const float *x,
                                      size_t count, float amax, float expand);
/* Whether a block amax counts as 0: it may be flushed. */
bool nib_ref_is_empty(const struct nib_quantizer *q, float amax);
struct nib_ref_element nib_ref_element_of(const struct nib_quantizer *q, const struct nib_tensor_scale *t,
                                          const struct nib_ref_scale *s, float x, uint32_t random);
/* q times the scale, by the dequantize axis. */
float nib_ref_value(const struct nib_quantizer *q, const struct nib_tensor_scale *t, const struct nib_ref_scale *s,
                    float level);

/* One block of `count` elements, the missing ones of a partial block being 0. */
struct nib_ref_block {
    const float *x;
    size_t count;
    const uint32_t *random;  /* random integers, where rounding is stochastic */
    uint8_t *codes;          /* out */
    float *values;           /* out: dequantized */
    uint32_t scale;          /* out: the code of the block scale */
    struct nib_trace *trace; /* NULL, or where to record every step of element `traced` */
    size_t traced;
};
void nib_ref_quantize(const struct nib_quantizer *q, const struct nib_tensor_scale *t, struct nib_ref_block *block);
/* The value of a stored code in that part (nib_scale_parts) of a block of that stored scale. */
float nib_ref_dequantize(const struct nib_quantizer *q, const struct nib_tensor_scale *t, uint32_t scale, unsigned part,
                         uint8_t code);
/* The largest magnitude of `count` numbers, as the axes say. */
float nib_ref_amax(const struct nib_quantizer *q, const float *x, size_t count);

/* Sum of errors d in the order of the axes; `line` elements make a line of a two-dimensional block. */
float nib_ref_error_sum(const struct nib_quantizer *q, const float *d, size_t count, size_t line);

/* Appends a step to a trace (NULL: nothing). */
void nib_trace_number(struct nib_trace *trace, const char *what, const char *formula, float value);
void nib_trace_code(struct nib_trace *trace, const char *what, const char *formula, uint32_t code, float value);
/* The first steps: the tensor amax and scale. */
void nib_trace_tensor(struct nib_trace *trace, const struct nib_quantizer *q, const struct nib_tensor_scale *t);

#endif
