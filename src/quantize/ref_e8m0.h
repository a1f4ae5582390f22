#ifndef NIB_QUANTIZE_REF_E8M0_H
#define NIB_QUANTIZE_REF_E8M0_H

#include "quantize/quantize_ref.h"

/* v: what is rounded to a power of two; amax: of the block, for the rules about zero; bf16: the input is bfloat16. */
struct nib_ref_scale nib_ref_e8m0(const struct nib_quantizer *q, float v, float amax, bool bf16);
/* The value of a stored code as the quantizer's own decoder reads it. */
float nib_ref_e8m0_decode(const struct nib_quantizer *q, uint32_t code);
/* The first mantissa of a number of that exponent whose logarithm in bfloat16 reaches the next integer; 2^23 if none.
 */
uint32_t nib_log2_border_bf16(int exponent);

#endif
