/* Quantizers of ggml that compute a block as a whole. */
#ifndef NIB_QUANTIZE_REF_GGML_H
#define NIB_QUANTIZE_REF_GGML_H

#include "quantize/quantize_ref.h"

/* Q4_0: codes 0..15 for -8..7, an fp16 scale that may be negative. */
void nib_ref_ggml_q4_0(const struct nib_quantizer *q, struct nib_ref_block *block);
/* IQ4_NL: codes are indices into the table of levels. */
void nib_ref_ggml_iq4_nl(const struct nib_quantizer *q, struct nib_ref_block *block);

/* Below this amax IQ4_NL stores a scale of 0 and leaves the codes of the block before in place. */
#define NIB_GGML_IQ4_NL_TINY 1e-15f
/* Gives such blocks the codes that stood there, block after block in the order of the input, which must be along rows.
 */
void nib_ggml_stale_codes(const struct nib_quantizer *q, struct nib_view x, struct nib_quantized *out);

#endif
