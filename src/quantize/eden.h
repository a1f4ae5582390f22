/* MS-EDEN: block scales that make the quantized group unbiased along itself, rounded stochastically. */
#ifndef NIB_QUANTIZE_EDEN_H
#define NIB_QUANTIZE_EDEN_H

#include "quantize/quantize_ref.h"

enum { NIB_EDEN_GROUP = 128 };

/* One group: `x` and `codes` of its elements; the scale code and the tensor-wide index of each of its blocks. The
 * codes of scales and, unless NULL, the values are replaced. */
struct nib_eden_group {
    const float *x;
    const uint8_t *codes;
    uint32_t *scale;
    float *values;
    uint64_t first_block, seed;
};
void nib_eden_correct(const struct nib_quantizer *q, const struct nib_tensor_scale *t,
                      const struct nib_eden_group *group);

#endif
