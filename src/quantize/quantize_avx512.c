#define NIB_ISA_NAME "avx512"
#define NIB_ISA_SYMBOL nib_isa_avx512
#include "quantize/quantize_body.inc"
