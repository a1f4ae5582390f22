#define NIB_ROTATE_SYMBOL nib_rotate_avx2
#include "rotate/kernel_body.inc"
