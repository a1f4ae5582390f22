/* The fast models with AVX-512 and VNNI; this file alone is compiled for them. */
#ifdef __AVX512VNNI__
#include "unit/kernel_body.inc"

const struct nib_unit_kernel *const *nib_unit_kernels_avx512(void) {
    bool usable = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512vnni");
    return usable ? kernels : NULL;
}
#else
#include "unit/kernel.h"

const struct nib_unit_kernel *const *nib_unit_kernels_avx512(void) { return NULL; }
#endif
