/* The fast models in plain C. */
#include "unit/kernel_body.inc"

const struct nib_unit_kernel *const *nib_unit_kernels_generic(void) { return kernels; }
