#include "unit/kernel.h"
const struct nib_unit_kernel *const *nib_unit_kernels_generic(void) { return NULL; }
const struct nib_unit_kernel *const *nib_unit_kernels_avx2(void) { return NULL; }
const struct nib_unit_kernel *const *nib_unit_kernels_avx512(void) { return NULL; }
