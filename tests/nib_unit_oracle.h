/* Matrix units in exact arithmetic with GMP: slow, and written from the specification alone
 * (docs/spec/matrix-units.md), as the second opinion on src/unit. A number is n * 2^e. */
#ifndef NIB_UNIT_ORACLE_H
#define NIB_UNIT_ORACLE_H

#include <gmp.h>
#include <nibble/unit.h>
#include <stdlib.h>
#include <string.h>

enum oracle_class { ORACLE_NUMBER, ORACLE_INFINITY, ORACLE_NAN };
struct oracle {
    enum oracle_class class;
    bool minus; /* also of zeros */
    mpz_t n;    /* magnitude */
    long e;
    long field; /* Exp of the specification */
};
enum { ORACLE_TERMS = 130 };
static struct oracle oracle_a[ORACLE_TERMS], oracle_b[ORACLE_TERMS], oracle_sa[ORACLE_TERMS], oracle_sb[ORACLE_TERMS];
static struct oracle oracle_c, oracle_p, oracle_q, oracle_r;
static mpz_t oracle_sum, oracle_term, oracle_even;

static void oracle_start(void) {
    for (int i = 0; i < ORACLE_TERMS; i++)
        mpz_init(oracle_a[i].n), mpz_init(oracle_b[i].n), mpz_init(oracle_sa[i].n), mpz_init(oracle_sb[i].n);
    mpz_init(oracle_c.n), mpz_init(oracle_p.n), mpz_init(oracle_q.n), mpz_init(oracle_r.n);
    mpz_init(oracle_sum), mpz_init(oracle_term), mpz_init(oracle_even);
}

/* Exponent bits, mantissa bits, bias; the largest finite code where it is not that of IEEE. */
static const struct {
    int ebits, mbits, bias;
    enum { O_IEEE, O_ALL, O_FN, O_FNUZ, O_INT } kind;
} oracle_format[NIB_OPERANDS] = {
    [NIB_OPERAND_E2M1] = {2, 1, 1, O_ALL},       [NIB_OPERAND_E2M3] = {2, 3, 1, O_ALL},
    [NIB_OPERAND_E3M2] = {3, 2, 3, O_ALL},       [NIB_OPERAND_E4M3] = {4, 3, 7, O_FN},
    [NIB_OPERAND_E5M2] = {5, 2, 15, O_IEEE},     [NIB_OPERAND_E4M3FNUZ] = {4, 3, 8, O_FNUZ},
    [NIB_OPERAND_E5M2FNUZ] = {5, 2, 16, O_FNUZ}, [NIB_OPERAND_FP16] = {5, 10, 15, O_IEEE},
    [NIB_OPERAND_BF16] = {8, 7, 127, O_IEEE},    [NIB_OPERAND_TF32] = {8, 23, 127, O_IEEE},
    [NIB_OPERAND_FP32] = {8, 23, 127, O_IEEE},   [NIB_OPERAND_FP64] = {11, 52, 1023, O_IEEE},
    [NIB_OPERAND_S4] = {0, 4, 0, O_INT},         [NIB_OPERAND_S8] = {0, 8, 0, O_INT},
};

static long oracle_log2(const struct oracle *x) { return (long)mpz_sizeinbase(x->n, 2) - 1 + x->e; }

static void oracle_decode(enum nib_operand format, uint64_t code, struct oracle *out) {
    int ebits = oracle_format[format].ebits, mbits = oracle_format[format].mbits, bias = oracle_format[format].bias;
    if (format == NIB_OPERAND_TF32) code &= ~UINT64_C(0x1FFF);
    out->class = ORACLE_NUMBER;
    if (oracle_format[format].kind == O_INT) {
        long half = 1L << (mbits - 1), value = (long)(code & ((1UL << mbits) - 1));
        if (value >= half) value -= 2 * half;
        out->minus = value < 0;
        mpz_set_si(out->n, labs(value));
        out->e = out->field = 0;
        return;
    }
    uint64_t mantissa = code & ((1ULL << mbits) - 1), exponent = code >> mbits & ((1ULL << ebits) - 1);
    uint64_t top = (1ULL << ebits) - 1;
    out->minus = code >> (ebits + mbits) & 1;
    switch (oracle_format[format].kind) {
    case O_IEEE:
        if (exponent == top) out->class = mantissa != 0 ? ORACLE_NAN : ORACLE_INFINITY;
        break;
    case O_FN:
        if (exponent == top && mantissa + 1 == 1ULL << mbits) out->class = ORACLE_NAN;
        break;
    case O_FNUZ:
        if (code == 0x80) out->class = ORACLE_NAN;
        break;
    default: break;
    }
    mpz_set_ui(out->n, mantissa);
    if (exponent != 0) mpz_setbit(out->n, (mp_bitcnt_t)mbits);
    out->e = (exponent != 0 ? (long)exponent : 1) - bias - mbits;
    out->field = 1 - bias; /* the smallest exponent; larger where the leading bit says so */
    if (mpz_sgn(out->n) != 0 && oracle_log2(out) > out->field) out->field = oracle_log2(out);
}

static void oracle_decode_scale(enum nib_unit_scale kind, uint8_t code, struct oracle *out) {
    if (kind == NIB_UNIT_SCALE_UE4M3) {
        oracle_decode(NIB_OPERAND_E4M3, code & 0x7F, out);
        return;
    }
    out->class = code == 255 ? ORACLE_NAN : ORACLE_NUMBER;
    out->minus = false;
    mpz_set_ui(out->n, 1);
    out->e = out->field = (long)code - 127;
}

/* n * 2^e to a format: bits. zero_sign: the sign of an exact zero; lose_sign: any zero is +0. */
static uint64_t oracle_round(enum nib_unit_rounding rounding, const mpz_t n, long e, bool zero_sign, bool lose_sign) {
    long precision = rounding == NIB_RZ_E8M13 ? 14 : rounding == NIB_RNE_FP16 ? 11 : rounding == NIB_RNE_FP64 ? 53 : 24;
    int mbits = rounding == NIB_RNE_FP16 ? 10 : rounding == NIB_RNE_FP64 ? 52 : 23;
    int ebits = rounding == NIB_RNE_FP16 ? 5 : rounding == NIB_RNE_FP64 ? 11 : 8;
    long bias = (1L << (ebits - 1)) - 1, emin = 1 - bias;
    bool minus = mpz_sgn(n) < 0;
    uint64_t sign = 1ULL << (ebits + mbits), infinity = ((1ULL << ebits) - 1) << mbits;
    if (mpz_sgn(n) == 0) return zero_sign && !lose_sign ? sign : 0;
    mpz_t kept, rest, magnitude;
    mpz_inits(kept, rest, magnitude, NULL);
    mpz_abs(magnitude, n);
    long exponent = (long)mpz_sizeinbase(magnitude, 2) - 1 + e;
    long ulp = (exponent > emin ? exponent : emin) - precision + 1;
    if (ulp <= e)
        mpz_mul_2exp(kept, magnitude, (mp_bitcnt_t)(e - ulp));
    else {
        mpz_fdiv_q_2exp(kept, magnitude, (mp_bitcnt_t)(ulp - e));
        mpz_fdiv_r_2exp(rest, magnitude, (mp_bitcnt_t)(ulp - e));
        mpz_mul_2exp(rest, rest, 1);
        mpz_set_ui(magnitude, 0);
        mpz_setbit(magnitude, (mp_bitcnt_t)(ulp - e));
        int side = mpz_cmp(rest, magnitude); /* of one half */
        bool nearest = rounding != NIB_RZ_FP32 && rounding != NIB_RZ_E8M13;
        if (nearest && (side > 0 || (side == 0 && mpz_odd_p(kept)))) mpz_add_ui(kept, kept, 1);
    }
    uint64_t bits;
    if (mpz_sgn(kept) == 0)
        bits = 0;
    else {
        exponent = (long)mpz_sizeinbase(kept, 2) - 1 + ulp;
        long low = (exponent > emin ? exponent : emin) - mbits; /* weight of the container's last bit */
        if (ulp >= low)
            mpz_mul_2exp(kept, kept, (mp_bitcnt_t)(ulp - low));
        else
            mpz_fdiv_q_2exp(kept, kept, (mp_bitcnt_t)(low - ulp)); /* a carry: the bit is 0 */
        mpz_fdiv_r_2exp(rest, kept, (mp_bitcnt_t)mbits);
        uint64_t field = mpz_tstbit(kept, (mp_bitcnt_t)mbits) ? (uint64_t)(exponent + bias) : 0;
        bits = exponent > bias ? infinity : field << mbits | mpz_get_ui(rest);
    }
    mpz_clears(kept, rest, magnitude, NULL);
    return bits | (minus && !(bits == 0 && lose_sign) ? sign : 0);
}

/* NaN and infinities among the first `count` products and c; true where they decide. */
static bool oracle_special(const struct nib_unit *unit, size_t count, bool amd, uint64_t *bits) {
    bool plus = false, minus = false, nan = oracle_c.class == ORACLE_NAN;
    if (oracle_c.class == ORACLE_INFINITY) *(oracle_c.minus ? &minus : &plus) = true;
    for (size_t k = 0; k < count; k++) {
        const struct oracle *a = &oracle_a[k], *b = &oracle_b[k];
        if (a->class == ORACLE_NAN || b->class == ORACLE_NAN)
            nan = true;
        else if (a->class == ORACLE_INFINITY || b->class == ORACLE_INFINITY) {
            if ((a->class == ORACLE_NUMBER && mpz_sgn(a->n) == 0) || (b->class == ORACLE_NUMBER && mpz_sgn(b->n) == 0))
                nan = true;
            *(a->minus != b->minus ? &minus : &plus) = true;
        }
    }
    static const uint64_t nans[] = {0x7FFFFFFF, 0x7FFF, 0, 0xFFF8000000000000};
    static const uint64_t infinities[] = {0x7F800000, 0x7C00, 0, 0x7FF0000000000000};
    static const uint64_t signs[] = {0x80000000, 0x8000, 0, 0x8000000000000000};
    if (nan || (plus && minus))
        *bits = amd ? 0x7FC00000 : nans[unit->accumulator];
    else if (plus || minus)
        *bits = infinities[unit->accumulator] | (minus ? signs[unit->accumulator] : 0);
    else
        return false;
    return true;
}

/* sum += (-1)^minus n 2^e, rounded to a multiple of 2^unit toward zero, or down. The sum counts 2^unit. */
static void oracle_accumulate(mpz_t sum, bool minus, const mpz_t n, long e, long unit, bool down) {
    mpz_set(oracle_term, n);
    if (minus) mpz_neg(oracle_term, oracle_term);
    if (e >= unit)
        mpz_mul_2exp(oracle_term, oracle_term, (mp_bitcnt_t)(e - unit));
    else if (down)
        mpz_fdiv_q_2exp(oracle_term, oracle_term, (mp_bitcnt_t)(unit - e));
    else
        mpz_tdiv_q_2exp(oracle_term, oracle_term, (mp_bitcnt_t)(unit - e));
    mpz_add(sum, sum, oracle_term);
}

static long oracle_product(size_t k) { /* into oracle_p; its exponent field, or LONG_MIN for zero */
    mpz_mul(oracle_p.n, oracle_a[k].n, oracle_b[k].n);
    oracle_p.e = oracle_a[k].e + oracle_b[k].e;
    oracle_p.minus = oracle_a[k].minus != oracle_b[k].minus;
    return mpz_sgn(oracle_p.n) == 0 ? -1000000 : oracle_a[k].field + oracle_b[k].field;
}

static uint64_t oracle_t_fdpa(const struct nib_unit *unit, size_t count, long scale) {
    uint64_t bits;
    if (oracle_special(unit, count, false, &bits)) return bits;
    long largest = unit->e_zero, field;
    if (mpz_sgn(oracle_c.n) != 0 && oracle_c.field > largest) largest = oracle_c.field;
    for (size_t k = 0; k < count; k++)
        if ((field = oracle_product(k)) != -1000000 && field + scale > largest) largest = field + scale;
    long lsb = largest - unit->fraction_bits;
    mpz_set_ui(oracle_sum, 0);
    oracle_accumulate(oracle_sum, oracle_c.minus, oracle_c.n, oracle_c.e, lsb, false);
    for (size_t k = 0; k < count; k++) {
        oracle_product(k);
        oracle_accumulate(oracle_sum, oracle_p.minus, oracle_p.n, oracle_p.e + scale, lsb, false);
    }
    return oracle_round(unit->rounding, oracle_sum, lsb, false, true);
}

static uint64_t oracle_gst(const struct nib_unit *unit, size_t groups) {
    bool nan = oracle_c.class == ORACLE_NAN;
    for (size_t j = 0; j < groups; j++) nan |= oracle_sa[j].class == ORACLE_NAN || oracle_sb[j].class == ORACLE_NAN;
    if (nan) return 0x7FFFFFFF;
    if (oracle_c.class == ORACLE_INFINITY) return oracle_c.minus ? 0xFF800000 : 0x7F800000;
    long largest = unit->e_zero;
    for (int pass = 0; pass < 2; pass++) {
        long lsb = largest - unit->fraction_bits;
        if (pass == 0 && mpz_sgn(oracle_c.n) != 0 && oracle_c.field > largest) largest = oracle_c.field;
        if (pass == 1)
            mpz_set_ui(oracle_sum, 0),
                oracle_accumulate(oracle_sum, oracle_c.minus, oracle_c.n, oracle_c.e, lsb, false);
        for (size_t j = 0; j < groups; j++) {
            bool any = false;
            mpz_set_ui(oracle_even, 0); /* the dot, in quarters */
            for (size_t k = j * unit->group; k < (j + 1) * unit->group; k++)
                if (oracle_product(k) != -1000000) {
                    any = true;
                    oracle_accumulate(oracle_even, oracle_p.minus, oracle_p.n, oracle_p.e, -2, true);
                }
            if (!any || mpz_sgn(oracle_sa[j].n) == 0 || mpz_sgn(oracle_sb[j].n) == 0) continue;
            if (pass == 0 && oracle_sa[j].field + oracle_sb[j].field > largest)
                largest = oracle_sa[j].field + oracle_sb[j].field;
            mpz_mul(oracle_q.n, oracle_even, oracle_sa[j].n);
            mpz_mul(oracle_q.n, oracle_q.n, oracle_sb[j].n);
            if (pass == 1)
                oracle_accumulate(oracle_sum, false, oracle_q.n, oracle_sa[j].e + oracle_sb[j].e - 2, lsb, false);
        }
        if (pass == 1) return oracle_round(unit->rounding, oracle_sum, lsb, false, true);
    }
    return 0;
}

/* x + y or x * y of IEEE, into bits of FP32 (or the accumulator's format), signs of zeros included. */
static uint64_t oracle_ieee_add(enum nib_unit_rounding rounding, const struct oracle *x, const struct oracle *y) {
    long low = x->e < y->e ? x->e : y->e;
    mpz_set_ui(oracle_sum, 0);
    oracle_accumulate(oracle_sum, x->minus, x->n, x->e, low, true);
    oracle_accumulate(oracle_sum, y->minus, y->n, y->e, low, true);
    bool zeros = mpz_sgn(x->n) == 0 && mpz_sgn(y->n) == 0;
    return oracle_round(rounding, oracle_sum, low, zeros && x->minus && y->minus, false);
}

static uint64_t oracle_split(const struct nib_unit *unit, size_t count, uint64_t c) {
    uint64_t r = 0, bits;
    enum nib_operand wide = unit->accumulator == NIB_ACC_FP16 ? NIB_OPERAND_FP16 : NIB_OPERAND_FP32;
    static struct oracle save_a[ORACLE_TERMS], save_b[ORACLE_TERMS];
    memcpy(save_a, oracle_a, sizeof save_a), memcpy(save_b, oracle_b, sizeof save_b);
    for (size_t half = 0; half < 2; half++) {
        size_t taken = 0;
        for (size_t k = 0; k < count; k++) {
            if ((k % 4 >= 2) != (half == 1)) continue;
            oracle_a[taken] = save_a[k], oracle_b[taken] = save_b[k];
            for (int side = 0; side < 2; side++) { /* in FP16, whose smallest exponent is -14 */
                struct oracle *x = side ? &oracle_b[taken] : &oracle_a[taken];
                if (x->class == ORACLE_NUMBER && mpz_sgn(x->n) != 0)
                    x->field = oracle_log2(x) > -14 ? oracle_log2(x) : -14;
            }
            taken++;
        }
        oracle_decode(wide, r, &oracle_c);
        r = oracle_t_fdpa(unit, taken, 0);
    }
    memcpy(oracle_a, save_a, sizeof save_a), memcpy(oracle_b, save_b, sizeof save_b);
    oracle_decode(wide, c, &oracle_c);
    oracle_decode(wide, r, &oracle_q);
    oracle_a[0].class = ORACLE_NUMBER; /* only for the special cases of r + c */
    if (oracle_q.class != ORACLE_NUMBER || oracle_c.class != ORACLE_NUMBER) {
        bool nan = oracle_q.class == ORACLE_NAN || oracle_c.class == ORACLE_NAN ||
                   (oracle_q.class == oracle_c.class && oracle_q.minus != oracle_c.minus);
        bits = nan                                 ? (unit->accumulator == NIB_ACC_FP16 ? 0x7FFF : 0x7FFFFFFF)
               : oracle_q.class == ORACLE_INFINITY ? r
                                                   : c;
        return bits;
    }
    return oracle_ieee_add(unit->accumulator == NIB_ACC_FP16 ? NIB_RNE_FP16 : NIB_RNE_FP32, &oracle_c, &oracle_q);
}

static uint64_t oracle_integer(const struct nib_unit *unit, size_t count, uint64_t c) {
    mpz_set_si(oracle_sum, (int32_t)(uint32_t)c);
    for (size_t k = 0; k < count; k++) {
        oracle_product(k);
        oracle_accumulate(oracle_sum, oracle_p.minus, oracle_p.n, 0, 0, true);
    }
    if (unit->saturate && mpz_cmp_si(oracle_sum, INT32_MAX) > 0) return INT32_MAX;
    if (unit->saturate && mpz_cmp_si(oracle_sum, INT32_MIN) < 0) return 0x80000000;
    mpz_fdiv_r_2exp(oracle_sum, oracle_sum, 32);
    return mpz_get_ui(oracle_sum);
}

#include "nib_unit_oracle_amd.h"

static uint64_t oracle_load(enum nib_operand format, const uint8_t *row, size_t i) {
    unsigned bits = nib_operand_bits(format);
    uint64_t code = 0;
    if (bits == 4) return row[i / 2] >> (i % 2 != 0 ? 4 : 0) & 15;
    memcpy(&code, row + i * ((bits + 7) / 8), (bits + 7) / 8);
    return bits == 6 ? code & 63 : code;
}

/* One output over all of K. */
static uint64_t oracle_dot(const struct nib_unit *unit, const struct nib_unit_matrix *a, size_t row_a,
                           const struct nib_unit_matrix *b, size_t row_b, size_t k_all, uint64_t c) {
    const uint8_t *bits_a = (const uint8_t *)a->bits + row_a * a->stride,
                  *bits_b = (const uint8_t *)b->bits + row_b * b->stride;
    size_t count = unit->block, groups = unit->group != 0 ? count / unit->group : 0;
    if (unit->model == NIB_UNIT_FTZ_PAIRWISE && (c & 0x7F800000) == 0) c = 0;
    for (size_t k0 = 0; k0 < k_all; k0 += count) {
        for (size_t k = 0; k < count; k++) {
            oracle_decode(a->operand, oracle_load(a->operand, bits_a, k0 + k), &oracle_a[k]);
            oracle_decode(b->operand, oracle_load(b->operand, bits_b, k0 + k), &oracle_b[k]);
        }
        for (size_t j = 0; j < (groups != 0 ? groups : 1) && unit->scale_block != 0; j++) {
            size_t at = (k0 + j * unit->group) / unit->scale_block;
            oracle_decode_scale(unit->scale, a->scales[row_a * a->scale_stride + at], &oracle_sa[j]);
            oracle_decode_scale(unit->scale, b->scales[row_b * b->scale_stride + at], &oracle_sb[j]);
        }
        oracle_decode(unit->accumulator == NIB_ACC_FP16   ? NIB_OPERAND_FP16
                      : unit->accumulator == NIB_ACC_FP64 ? NIB_OPERAND_FP64
                                                          : NIB_OPERAND_FP32,
                      c, &oracle_c);
        switch (unit->model) {
        case NIB_UNIT_T_FDPA: c = oracle_t_fdpa(unit, count, 0); break;
        case NIB_UNIT_ST_FDPA:
            c = oracle_sa[0].class == ORACLE_NAN || oracle_sb[0].class == ORACLE_NAN
                    ? 0x7FFFFFFF
                    : oracle_t_fdpa(unit, count, oracle_sa[0].e + oracle_sb[0].e);
            break;
        case NIB_UNIT_GST_FDPA: c = oracle_gst(unit, groups); break;
        case NIB_UNIT_SPLIT_T_FDPA: c = oracle_split(unit, count, c); break;
        case NIB_UNIT_INTEGER: c = oracle_integer(unit, count, c); break;
        default: c = oracle_amd(unit, count);
        }
    }
    return c;
}

#endif
