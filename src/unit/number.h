/* Numbers as matrix units see them: a significand, an exponent field, and rounding back to bits. */
#ifndef NIB_UNIT_NUMBER_H
#define NIB_UNIT_NUMBER_H

#include <nibble/unit.h>

enum nib_number_class { NIB_NUMBER_ZERO, NIB_NUMBER_FINITE, NIB_NUMBER_INFINITE, NIB_NUMBER_NAN };

/* value = (-1)^negative * significand * 2^lsb. `exponent` is Exp(x) of the specification: the unbiased
 * exponent of a normal number, emin of the format for subnormals. */
struct nib_number {
    enum nib_number_class class;
    bool negative;
    uint64_t significand;
    int lsb;
    int exponent;
};

struct nib_number nib_number_of_operand(enum nib_operand operand, uint64_t code);
struct nib_number nib_number_of_accumulator(enum nib_accumulator accumulator, uint64_t bits); /* not S32 */
struct nib_number nib_number_of_scale(enum nib_unit_scale scale, uint8_t code);
/* The same value read from a wider format whose smallest exponent is emin, where it is normal. */
struct nib_number nib_number_renormalised(struct nib_number x, int emin);

/* Element i of a packed row. */
uint64_t nib_operand_load(enum nib_operand operand, const void *row, size_t i);
int32_t nib_operand_integer(enum nib_operand operand, uint64_t code); /* S4, S8 */

/* The bits of (-1)^negative * (magnitude + 0.5*sticky) * 2^lsb after rounding; overflow gives
 * infinity also toward zero. A zero result keeps the sign: callers decide. */
uint64_t nib_round_to_bits(enum nib_unit_rounding rounding, bool negative, unsigned __int128 magnitude, bool sticky,
                           int lsb);
uint64_t nib_infinity_bits(enum nib_accumulator accumulator, bool negative);
uint64_t nib_nvidia_nan_bits(enum nib_accumulator accumulator); /* 7FFFFFFF, 7FFF, FFF8000000000000 */

#endif
