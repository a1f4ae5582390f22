/* Which quantized matrices a product can take as they are. */
#ifndef NIB_GEMM_OPERAND_H
#define NIB_GEMM_OPERAND_H

#include <nibble/quantizer.h>

/* Whether codes, block scales that multiply, and one tensor scale say every value: no flag or doubling in a block scale, no
 * encode scale, no scale of a line or of a part of one. */
bool nib_gemm_takes_codes_of(const struct nib_quantizer *quantizer);

#endif
