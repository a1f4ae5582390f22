/* The fast models with AVX2, FMA and F16C; this file alone is compiled for them. */
#ifdef __AVX2__
#include "unit/kernel_body.inc"

const struct nib_unit_kernel *const *nib_unit_kernels_avx2(void) {
    bool usable = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    return usable ? kernels : NULL;
}
#else
#include "unit/kernel.h"

const struct nib_unit_kernel *const *nib_unit_kernels_avx2(void) { return NULL; }
#endif
