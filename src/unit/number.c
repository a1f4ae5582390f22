#include "unit/number.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/suggest.h"

static const struct {
    const char *name;
    unsigned bits;
} operands[NIB_OPERANDS] = {
#define NIB_OPERAND_ROW(name, text, bits) {text, bits},
    NIB_OPERAND_LIST(NIB_OPERAND_ROW)
#undef NIB_OPERAND_ROW
};

const char *nib_operand_name(enum nib_operand operand) {
    return operand < NIB_OPERANDS ? operands[operand].name : NULL;
}
unsigned nib_operand_bits(enum nib_operand operand) { return operands[operand].bits; }

size_t nib_operand_bytes(enum nib_operand operand, size_t count) {
    unsigned bits = operands[operand].bits;
    return bits == 4 ? count / 2 + count % 2 : count * (bits == 6 ? 1 : bits / 8);
}

static const char *operand_candidate(size_t i, const void *context) {
    (void)context;
    return i < NIB_OPERANDS ? operands[i].name : NULL;
}

enum nib_status nib_operand_parse(const char *name, enum nib_operand *out, struct nib_error *error) {
    for (int i = 0; i < NIB_OPERANDS; i++)
        if (strcmp(operands[i].name, name) == 0) {
            *out = (enum nib_operand)i;
            return NIB_OK;
        }
    const char *near = nib_suggest(name, operand_candidate, NULL);
    return nib_fail(error, NIB_ENOTFOUND, "no operand format \"%s\"%s%s%s", name, near ? " (did you mean \"" : "",
                    near ? near : "", near ? "\"?)" : "");
}

/* What the largest exponent field means. */
enum specials { IEEE, NONE, ONLY_ONES, FNUZ };

static struct nib_number of_minifloat(uint64_t code, int ebits, int mbits, int bias, enum specials specials) {
    uint64_t mantissa = code & ((1ULL << mbits) - 1);
    uint64_t field = code >> mbits & ((1ULL << ebits) - 1), ones = (1ULL << ebits) - 1;
    struct nib_number x = {NIB_NUMBER_FINITE, code >> (ebits + mbits) & 1, 0, 0, 0};
    if (specials == IEEE && field == ones) {
        x.class = mantissa == 0 ? NIB_NUMBER_INFINITE : NIB_NUMBER_NAN;
        return x;
    }
    if ((specials == ONLY_ONES && field == ones && mantissa == (1ULL << mbits) - 1) ||
        (specials == FNUZ && x.negative && field == 0 && mantissa == 0)) {
        x.class = NIB_NUMBER_NAN;
        return x;
    }
    x.significand = mantissa | (field != 0 ? 1ULL << mbits : 0);
    x.exponent = (field != 0 ? (int)field : 1) - bias;
    x.lsb = x.exponent - mbits;
    if (x.significand == 0) x.class = NIB_NUMBER_ZERO;
    return x;
}

struct nib_number nib_number_of_operand(enum nib_operand operand, uint64_t code) {
    switch (operand) {
    case NIB_OPERAND_E2M1: return of_minifloat(code, 2, 1, 1, NONE);
    case NIB_OPERAND_E2M3: return of_minifloat(code, 2, 3, 1, NONE);
    case NIB_OPERAND_E3M2: return of_minifloat(code, 3, 2, 3, NONE);
    case NIB_OPERAND_E4M3: return of_minifloat(code, 4, 3, 7, ONLY_ONES);
    case NIB_OPERAND_E5M2: return of_minifloat(code, 5, 2, 15, IEEE);
    case NIB_OPERAND_E4M3FNUZ: return of_minifloat(code, 4, 3, 8, FNUZ);
    case NIB_OPERAND_E5M2FNUZ: return of_minifloat(code, 5, 2, 16, FNUZ);
    case NIB_OPERAND_FP16: return of_minifloat(code, 5, 10, 15, IEEE);
    case NIB_OPERAND_BF16: return of_minifloat(code, 8, 7, 127, IEEE);
    case NIB_OPERAND_TF32: return of_minifloat(code >> 13, 8, 10, 127, IEEE);
    case NIB_OPERAND_FP32: return of_minifloat(code, 8, 23, 127, IEEE);
    case NIB_OPERAND_FP64: return of_minifloat(code, 11, 52, 1023, IEEE);
    default: break;
    }
    int32_t value = nib_operand_integer(operand, code);
    struct nib_number x = {value == 0 ? NIB_NUMBER_ZERO : NIB_NUMBER_FINITE, value < 0, 0, 0, 0};
    x.significand = (uint64_t)(value < 0 ? -value : value);
    return x;
}

struct nib_number nib_number_of_accumulator(enum nib_accumulator accumulator, uint64_t bits) {
    return nib_number_of_operand(accumulator == NIB_ACC_FP16   ? NIB_OPERAND_FP16
                                 : accumulator == NIB_ACC_FP64 ? NIB_OPERAND_FP64
                                                               : NIB_OPERAND_FP32,
                                 bits);
}

struct nib_number nib_number_of_scale(enum nib_unit_scale scale, uint8_t code) {
    if (scale == NIB_UNIT_SCALE_UE4M3) return of_minifloat(code & 0x7F, 4, 3, 7, ONLY_ONES);
    struct nib_number one = {NIB_NUMBER_FINITE, false, 1, 0, 0};
    if (scale == NIB_UNIT_SCALE_UE8M0) {
        one.exponent = one.lsb = (int)code - 127;
        if (code == 0xFF) one.class = NIB_NUMBER_NAN;
    }
    return one;
}

struct nib_number nib_number_renormalised(struct nib_number x, int emin) {
    if (x.class != NIB_NUMBER_FINITE) return x;
    x.exponent = 63 - __builtin_clzll(x.significand) + x.lsb;
    if (x.exponent < emin) x.exponent = emin;
    return x;
}

double nib_operand_value(enum nib_operand operand, uint64_t code) {
    struct nib_number x = nib_number_of_operand(operand, code);
    double magnitude = x.class == NIB_NUMBER_NAN        ? NAN
                       : x.class == NIB_NUMBER_INFINITE ? INFINITY
                                                        : ldexp((double)x.significand, x.lsb);
    return x.negative ? -magnitude : magnitude;
}

uint64_t nib_operand_load(enum nib_operand operand, const void *row, size_t i) {
    const uint8_t *bytes = row;
    switch (operands[operand].bits) {
    case 4: return bytes[i / 2] >> (i % 2 * 4) & 0xF;
    case 6: return bytes[i] & 0x3F;
    case 8: return bytes[i];
    case 16: {
        uint16_t value;
        memcpy(&value, bytes + 2 * i, sizeof value);
        return value;
    }
    case 32: {
        uint32_t value;
        memcpy(&value, bytes + 4 * i, sizeof value);
        return value;
    }
    default: {
        uint64_t value;
        memcpy(&value, bytes + 8 * i, sizeof value);
        return value;
    }
    }
}

int32_t nib_operand_integer(enum nib_operand operand, uint64_t code) {
    return operand == NIB_OPERAND_S4 ? (int32_t)((code & 0xF) ^ 8) - 8 : (int8_t)(uint8_t)code;
}

/* Target formats: precision, exponent range, mantissa bits of the container. */
static const struct {
    int precision, emin, emax, mantissa;
    bool nearest;
} targets[] = {
    [NIB_RZ_FP32] = {24, -126, 127, 23, false},   [NIB_RZ_E8M13] = {14, -126, 127, 23, false},
    [NIB_RNE_FP16] = {11, -14, 15, 10, true},     [NIB_RNE_FP32] = {24, -126, 127, 23, true},
    [NIB_RNE_FP64] = {53, -1022, 1023, 52, true},
};

static int top_bit(unsigned __int128 x) {
    uint64_t high = (uint64_t)(x >> 64);
    return high != 0 ? 127 - __builtin_clzll(high) : 63 - __builtin_clzll((uint64_t)x);
}

uint64_t nib_round_to_bits(enum nib_unit_rounding rounding, bool negative, unsigned __int128 magnitude, bool sticky,
                           int lsb) {
    int precision = targets[rounding].precision, emin = targets[rounding].emin, mantissa = targets[rounding].mantissa;
    uint64_t exponent_field_ones = (uint64_t)(targets[rounding].emax - emin + 2);
    uint64_t sign = (uint64_t)negative << (mantissa + (rounding == NIB_RNE_FP64   ? 11
                                                       : rounding == NIB_RNE_FP16 ? 5
                                                                                  : 8));
    if (magnitude == 0) return sign; /* a lone sticky bit lies below half of every ulp used here */
    int exponent = top_bit(magnitude) + lsb;
    int ulp = (exponent < emin ? emin : exponent) - (precision - 1), drop = ulp - lsb;
    uint64_t kept;
    if (drop <= 0)
        kept = (uint64_t)(magnitude << -drop); /* fits: at most `precision` bits */
    else if (drop > 127)
        kept = 0;
    else {
        kept = (uint64_t)(magnitude >> drop);
        unsigned __int128 rest = magnitude & (((unsigned __int128)1 << drop) - 1);
        unsigned __int128 half = (unsigned __int128)1 << (drop - 1);
        if (targets[rounding].nearest && (rest > half || (rest == half && (sticky || (kept & 1))))) kept++;
    }
    /* The implicit bit of a normal number, or a carry, adds one to the exponent field. */
    int widen = mantissa - (precision - 1);
    uint64_t bits = (kept << widen) + ((uint64_t)(ulp - (emin - (precision - 1))) << mantissa);
    if (exponent > targets[rounding].emax || bits >= exponent_field_ones << mantissa)
        bits = exponent_field_ones << mantissa;
    return sign | bits;
}

uint64_t nib_infinity_bits(enum nib_accumulator accumulator, bool negative) {
    switch (accumulator) {
    case NIB_ACC_FP16: return negative ? 0xFC00 : 0x7C00;
    case NIB_ACC_FP64: return negative ? 0xFFF0000000000000 : 0x7FF0000000000000;
    default: return negative ? 0xFF800000 : 0x7F800000;
    }
}

uint64_t nib_nvidia_nan_bits(enum nib_accumulator accumulator) {
    switch (accumulator) {
    case NIB_ACC_FP16: return 0x7FFF;
    case NIB_ACC_FP64: return 0xFFF8000000000000;
    default: return 0x7FFFFFFF;
    }
}
