/* The fast models with AVX2, FMA and F16C; this file alone is compiled for them. */
#ifdef __AVX2__
#include "unit/kernel_body.inc"

const struct nib_unit_kernel *const *nib_unit_kernels_avx2(void) {
    /* F16C, for which clang 14 has no name, came before AVX2 in every line of processors. */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? kernels : NULL;
}
#else
#include "unit/kernel.h"

const struct nib_unit_kernel *const *nib_unit_kernels_avx2(void) { return NULL; }
#endif
