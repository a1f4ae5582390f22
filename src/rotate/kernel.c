#include "rotate/kernel.h"

#include <stdlib.h>
#include <string.h>

nib_rotate_kernel *nib_rotate_kernel_of(const char *isa) {
    if (isa == NULL) isa = getenv("NIBBLE_ISA");
#if defined(__x86_64__)
    bool any = isa == NULL || isa[0] == '\0';
    if ((any || strcmp(isa, "avx512") == 0) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        return nib_rotate_avx512;
    if ((any || strcmp(isa, "avx2") == 0) && __builtin_cpu_supports("avx2")) return nib_rotate_avx2;
#else
    (void)isa;
#endif
    return nib_rotate_generic;
}
