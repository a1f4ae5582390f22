#ifndef NIB_QUANTIZE_REF_HIF4_H
#define NIB_QUANTIZE_REF_HIF4_H

#include "quantize/quantize_ref.h"

/* HiFloat4, hifx_quant_cuda_inner: 64 elements. */
void nib_ref_hif4(const struct nib_quantizer *q, struct nib_ref_block *block);

#endif
