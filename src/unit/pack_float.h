/* Operands of the truncated dot products, prepared: the value in binary32 and the exponent field. */
#ifndef NIB_UNIT_PACK_FLOAT_H
#define NIB_UNIT_PACK_FLOAT_H

#include "unit/kernel.h"

/* Exponents that stand for no number: a zero lies below all, a special above all, also when the other
 * factor is a zero. */
enum { NIB_EXP_ZERO = -10000, NIB_EXP_SPECIAL = 30000, NIB_EXP_NONE_BELOW = -1000 };

/* How one operand format is read; formats of up to 8 bits by table. */
struct nib_pack_table {
    const struct nib_unit *unit;
    enum nib_operand operand;
    float value[256];
    int16_t exponent[256];
};
void nib_pack_table_init(struct nib_pack_table *table, const struct nib_unit *unit, enum nib_operand operand);
/* `k` elements of a row from `bits`; in the split model in the order in which its halves are summed. */
void nib_pack_floats(const struct nib_pack_table *table, const void *bits, size_t k, float *value, int16_t *exponent);
/* Exponents of `count` UE8M0 scales. */
void nib_pack_exponents(const uint8_t *scales, size_t count, int32_t *exponent);

#endif
