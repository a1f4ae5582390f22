#include "unit/pack_float.h"

#include <math.h>
#include <string.h>

#include "unit/number.h"

static void put(struct nib_number x, float *value, int16_t *exponent) {
    *value = x.class == NIB_NUMBER_FINITE ? ldexpf((float)x.significand, x.lsb) : 0;
    if (x.negative) *value = -*value;
    *exponent = (int16_t)(x.class == NIB_NUMBER_ZERO     ? NIB_EXP_ZERO
                          : x.class == NIB_NUMBER_FINITE ? x.exponent
                                                         : NIB_EXP_SPECIAL);
}

static struct nib_number number(const struct nib_unit *unit, enum nib_operand operand, uint64_t code) {
    struct nib_number x = nib_number_of_operand(operand, code);
    return unit->model == NIB_UNIT_SPLIT_T_FDPA ? nib_number_renormalised(x, -14) : x;
}

void nib_pack_table_init(struct nib_pack_table *table, const struct nib_unit *unit, enum nib_operand operand) {
    table->unit = unit;
    table->operand = operand;
    unsigned bits = nib_operand_bits(operand);
    for (unsigned code = 0; bits <= 8 && code < 1u << bits; code++)
        put(number(unit, operand, code), &table->value[code], &table->exponent[code]);
}

static void pack_small(const struct nib_pack_table *table, const void *bits, size_t k, float *value,
                       int16_t *exponent) {
    bool split = table->unit->model == NIB_UNIT_SPLIT_T_FDPA;
    size_t instruction = table->unit->k, half = instruction / 2;
    for (size_t i = 0; i < k; i++) {
        /* The first half of each instruction takes k mod 4 in {0,1}. */
        size_t in = split ? i % instruction : 0;
        size_t from = !split ? i : i - in + in % half / 2 * 4 + in % 2 + (in >= half ? 2 : 0);
        size_t code = (size_t)nib_operand_load(table->operand, bits, from);
        value[i] = table->value[code];
        exponent[i] = table->exponent[code];
    }
}

/* Normal numbers of 16 and 32 bits without the detour through struct nib_number. */
static void pack_wide(const struct nib_pack_table *table, const void *bits, size_t k, float *value, int16_t *exponent) {
    enum nib_operand operand = table->operand;
    bool half = operand == NIB_OPERAND_FP16;
    int mantissa = half ? 10 : 23, bias = half ? 15 : 127;
    uint32_t ones = half ? 31 : 255;
    for (size_t i = 0; i < k; i++) {
        uint32_t code = (uint32_t)nib_operand_load(operand, bits, i);
        uint32_t wide = operand == NIB_OPERAND_BF16   ? code << 16
                        : operand == NIB_OPERAND_TF32 ? code & 0xFFFFE000
                                                      : code;
        uint32_t field = wide >> mantissa & ones;
        if (field == 0 || field == ones) {
            put(number(table->unit, operand, code), &value[i], &exponent[i]);
            continue;
        }
        if (half) wide = (code & 0x8000) << 16 | ((code & 0x7FFF) + (112u << 10)) << 13;
        memcpy(&value[i], &wide, sizeof wide);
        exponent[i] = (int16_t)((int)field - bias);
    }
}

void nib_pack_floats(const struct nib_pack_table *table, const void *bits, size_t k, float *value, int16_t *exponent) {
    if (nib_operand_bits(table->operand) <= 8)
        pack_small(table, bits, k, value, exponent);
    else
        pack_wide(table, bits, k, value, exponent);
}

void nib_pack_exponents(const uint8_t *scales, size_t count, int32_t *exponent) {
    for (size_t i = 0; i < count; i++) exponent[i] = scales[i] == 0xFF ? NIB_EXP_SPECIAL : (int32_t)scales[i] - 127;
}
