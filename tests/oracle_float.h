/* Rounding to a small binary float by MPFR. */
#ifndef NIB_ORACLE_FLOAT_H
#define NIB_ORACLE_FLOAT_H

#include <math.h>
#include <mpfr.h>

/* |x| (finite) rounded to 1 + mbits significant bits, subnormals below 2^(1-bias), no upper limit. */
static double oracle_float_round(float x, int mbits, int bias, mpfr_rnd_t direction) {
    mpfr_t y;
    mpfr_exp_t saved = mpfr_get_emin();
    mpfr_init2(y, mbits + 1);
    /* MPFR's significands lie in [1/2, 1), so the smallest number 2^(1-bias-mbits) has this exponent. */
    mpfr_set_emin(2 - bias - mbits);
    int ternary = mpfr_set_flt(y, fabsf(x), direction);
    ternary = mpfr_check_range(y, ternary, direction);
    mpfr_subnormalize(y, ternary, direction);
    double value = mpfr_get_d(y, MPFR_RNDN);
    mpfr_clear(y);
    mpfr_set_emin(saved);
    return value;
}

/* The value of a magnitude code by the textbook formula. */
static double oracle_float_value(unsigned code, int mbits, int bias) {
    int exponent = (int)(code >> mbits), mantissa = (int)(code & ((1u << mbits) - 1));
    if (exponent == 0) return ldexp(mantissa, 1 - bias - mbits);
    return ldexp(mantissa + (1 << mbits), exponent - bias - mbits);
}

#endif
