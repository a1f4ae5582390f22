/* One value in an operand format. */
#ifndef NIB_GEMM_CAST_H
#define NIB_GEMM_CAST_H

#include <nibble/unit.h>

/* The code nearest to `value`, ties to even. Formats of up to 8 bits and integers saturate, as the
 * device's conversions do; FP16 and BF16 overflow to infinity. TF32 keeps the bits of binary32, of
 * which the unit ignores the low ones. NaN gives the format's NaN, or its largest value without one. */
uint64_t nib_cast_code(enum nib_operand operand, float value);
/* floor(log2) of the largest value of a format of up to 8 bits. */
int nib_cast_emax(enum nib_operand operand);
/* Code `code` into a packed row. */
void nib_cast_store(enum nib_operand operand, void *row, size_t i, uint64_t code);

#endif
