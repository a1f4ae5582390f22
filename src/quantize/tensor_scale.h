/* The second level: the scale that all blocks of a tensor share. */
#ifndef NIB_QUANTIZE_TENSOR_SCALE_H
#define NIB_QUANTIZE_TENSOR_SCALE_H

#include <nibble/quantize.h>
#include "format/quantizer.h"

/* Constants of one tensor, each rounded once to binary32. */
struct nib_tensor_scale {
    float amax;              /* g */
    float encode;            /* S */
    float decode;            /* D */
    float target;            /* T */
    float target_reciprocal; /* rT */
    float block_target;      /* Q */
    float block_reciprocal;  /* rQ */
    double encode_double;    /* S of the choices that compute in binary64 */
    bool bf16;               /* the input's type, for axes that follow it */
};

/* Whether lines, or segments of them, have a tensor scale each. */
enum { NIB_TENSOR_SEGMENT = 128 };
static inline bool nib_tensor_scoped(const struct nib_quantizer *q) {
    return q->block->has_tensor_scale && q->axes.tensor_scope != NIB_TENSOR_SCOPE_TENSOR;
}
/* Which of the tensor scales of its line an element at `inner` along it has; */
static inline size_t nib_tensor_part(const struct nib_quantizer *q, size_t inner) {
    return q->axes.tensor_scope == NIB_TENSOR_SCOPE_1X128 ? inner / NIB_TENSOR_SEGMENT : 0;
}
/* How many a line has. */
static inline size_t nib_tensor_parts(const struct nib_quantizer *q, size_t inner) {
    return inner == 0 ? 1 : nib_tensor_part(q, inner - 1) + 1;
}

/* From the tensor amax by the quantizer's axes. */
struct nib_tensor_scale nib_tensor_scale_of_amax(const struct nib_quantizer *q, enum nib_dtype dtype, float amax);
/* From a scale that the caller has; the amax that dequantization may ask for is T*D. */
struct nib_tensor_scale nib_tensor_scale_given(const struct nib_quantizer *q, enum nib_dtype dtype, float encode,
                                               float decode);
/* Where the block format has no tensor scale. */
struct nib_tensor_scale nib_tensor_scale_none(const struct nib_quantizer *q, enum nib_dtype dtype);

/* x rounded to bfloat16 where the axes say that scales follow a bfloat16 input. */
float nib_tensor_scale_rounded(const struct nib_quantizer *q, const struct nib_tensor_scale *t, float x);

#endif
