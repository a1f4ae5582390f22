#define NIB_ISA_NAME "avx2"
#define NIB_ISA_SYMBOL nib_isa_avx2
#include "quantize/quantize_body.inc"
