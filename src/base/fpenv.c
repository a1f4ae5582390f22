#include "base/fpenv.h"

#ifdef __FAST_MATH__
#error "nibble computes bit-exact results and must not be compiled with -ffast-math"
#endif

#include <fenv.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
/* All exceptions masked, round to nearest, FTZ and DAZ off. */
enum { MXCSR_DEFAULT = 0x1F80 };
#endif

struct nib_fpenv nib_fpenv_enter(void) {
    struct nib_fpenv saved = {0, fegetround()};
#if defined(__x86_64__) /* read before fesetround() changes its rounding bits */
    saved.control = _mm_getcsr();
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved.control));
#endif
    fesetround(FE_TONEAREST);
#if defined(__x86_64__)
    _mm_setcsr(MXCSR_DEFAULT);
#elif defined(__aarch64__)
    uint64_t zero = 0;
    __asm__ volatile("msr fpcr, %0" : : "r"(zero));
#endif
    return saved;
}

void nib_fpenv_leave(struct nib_fpenv saved) {
    fesetround(saved.rounding);
#if defined(__x86_64__)
    _mm_setcsr((unsigned)saved.control);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(saved.control));
#endif
}
