/* The quotient x / s of a bf16 number x by a binary32 number s, rounded to nearest even, from one reciprocal that a whole block shares.
 * Plain C besides CUDA, so that tests/exhaustive/x-gpu-quotient runs these very lines on the processor over every significand. */
#ifndef NIB_GPU_QUOTIENT_H
#define NIB_GPU_QUOTIENT_H

#ifdef __CUDACC__
#define NIB_QUOTIENT __device__ __forceinline__
#define NIB_QUOTIENT_PRODUCT(a, b) __fmul_rn(a, b)
#define NIB_QUOTIENT_FMA(a, b, c) __fmaf_rn(a, b, c)
#else
#include <math.h>
#include <stdbool.h>
#define NIB_QUOTIENT static inline
#define NIB_QUOTIENT_PRODUCT(a, b) ((a) * (b))
#define NIB_QUOTIENT_FMA(a, b, c) fmaf(a, b, c)
#endif

/* Whether the products below neither overflow nor lose bits to underflow wherever the quotient is 2^-9 or more, the least that a code or
 * the cut fraction of a stochastic rounding can tell from 0. Other divisors need a division. */
NIB_QUOTIENT bool nib_quotient_holds(float divisor) {
    return divisor >= 0x1p-90f && divisor <= 0x1p100f;
}

/* `factor` is 1 / divisor, rounded. The remainder is taken negative: of x = -0 it is then +0, and -0 comes out. */
NIB_QUOTIENT float nib_quotient(float x, float factor, float divisor) {
    float y = NIB_QUOTIENT_PRODUCT(x, factor);
    float excess = NIB_QUOTIENT_FMA(y, divisor, -x);
    return NIB_QUOTIENT_FMA(-excess, factor, y);
}

#endif
