#define NIB_ROTATE_SYMBOL nib_rotate_avx512
#include "rotate/kernel_body.inc"
