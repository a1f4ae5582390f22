/* Numbers from text: strict and independent of the locale. */
#ifndef NIB_BASE_NUMBER_H
#define NIB_BASE_NUMBER_H

#include <nibble/status.h>

/* A decimal ("-1.5", "2e-3") or hexadecimal float ("0x1.8p+1") that is exactly a binary32 number.
 * No surrounding blanks, no trailing text, no octal, no nan, no infinity. "-0" gives -0. */
bool nib_number_exact_float(const char *text, float *out);
/* The same grammar, rounded to the nearest binary64 / binary32 (overflow refused). */
bool nib_number_double(const char *text, double *out);
bool nib_number_float(const char *text, float *out);
/* A decimal integer without leading zeros or plus sign, in [low, high]. */
bool nib_number_integer(const char *text, int64_t low, int64_t high, int64_t *out);

#endif
