#define NIB_ROTATE_SYMBOL nib_rotate_generic
#include "rotate/kernel_body.inc"
