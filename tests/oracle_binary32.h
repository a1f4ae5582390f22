/* Binary32 arithmetic by MPFR, one correct rounding an operation, subnormals included, and flushed to zero on demand;
 * the formats that scales and elements are rounded to by exact search. Shares nothing with the library. */
#ifndef NIB_ORACLE_BINARY32_H
#define NIB_ORACLE_BINARY32_H

#include <math.h>
#include <mpfr.h>
#include <stdbool.h>

static void oracle_as_binary32(void) {
    mpfr_set_default_prec(24);
    mpfr_set_emin(-148);
    mpfr_set_emax(128);
}

/* ---- one rounding each */

enum oracle_operation { ORACLE_MULTIPLY, ORACLE_DIVIDE, ORACLE_ADD };

static float oracle_rounded(enum oracle_operation operation, float a, float b) {
    mpfr_t x, y, z;
    mpfr_inits(x, y, z, (mpfr_ptr)0);
    mpfr_set_flt(x, a, MPFR_RNDN);
    mpfr_set_flt(y, b, MPFR_RNDN);
    int ternary = operation == ORACLE_MULTIPLY ? mpfr_mul(z, x, y, MPFR_RNDN)
                  : operation == ORACLE_DIVIDE ? mpfr_div(z, x, y, MPFR_RNDN)
                                               : mpfr_add(z, x, y, MPFR_RNDN);
    mpfr_subnormalize(z, ternary, MPFR_RNDN);
    float result = mpfr_get_flt(z, MPFR_RNDN);
    mpfr_clears(x, y, z, (mpfr_ptr)0);
    return result;
}
static inline float oracle_mul(float a, float b) {
    return oracle_rounded(ORACLE_MULTIPLY, a, b);
}
static inline float oracle_div(float a, float b) {
    return oracle_rounded(ORACLE_DIVIDE, a, b);
}
static inline float oracle_add(float a, float b) {
    return oracle_rounded(ORACLE_ADD, a, b);
}

/* -ftz: operands and results. */
static inline float oracle_flushed(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}
static inline float oracle_mul_ftz(float a, float b) {
    return oracle_flushed(oracle_mul(oracle_flushed(a), oracle_flushed(b)));
}

/* To 8 significant bits, ties to even; in binary32's range, whose largest finite numbers go to infinity. */
static inline float oracle_bf16(float x) {
    mpfr_t y;
    mpfr_init2(y, 8);
    mpfr_set_flt(y, x, MPFR_RNDN);
    float result = mpfr_get_flt(y, MPFR_RNDN);
    mpfr_clear(y);
    return result;
}

/* ---- nearest of a list of values that ascend, ties to the even index or upward, saturating */

/* Values of few bits: in binary64 their middles are exact. */
static unsigned oracle_nearest(const double *values, unsigned count, float magnitude, bool ties_up) {
    unsigned best = 0;
    for (; best + 1 < count; best++) {
        double middle = (values[best] + values[best + 1]) / 2;
        if ((double)magnitude < middle || ((double)magnitude == middle && !ties_up && best % 2 == 0)) break;
    }
    return best;
}

static const double oracle_e2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

/* cvt.rn.satfinite.e2m1: any NaN is +6. */
static inline unsigned oracle_e2m1_code(float y, bool ties_up) {
    if (isnan(y)) return 7;
    return oracle_nearest(oracle_e2m1, 8, fabsf(y), ties_up) | (signbit(y) ? 8u : 0u);
}

static inline double oracle_e4m3_value(unsigned code) {
    return code < 8 ? ldexp(code, -9) : ldexp(8 + code % 8, (int)code / 8 - 10);
}

/* cvt.rn.satfinite.e4m3 of a number that is not negative. */
static inline unsigned oracle_e4m3_code(float v) {
    double values[127];
    for (unsigned code = 0; code < 127; code++) values[code] = oracle_e4m3_value(code);
    return isnan(v) ? 127 : oracle_nearest(values, 127, v, false);
}

#endif
