#define NIB_ISA_NAME "generic"
#define NIB_ISA_SYMBOL nib_isa_generic
#include "quantize/quantize_body.inc"
