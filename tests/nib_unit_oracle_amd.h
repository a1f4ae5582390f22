/* The part of nib_unit_oracle.h for fused multiply-adds and AMD's units. */
#ifndef NIB_UNIT_ORACLE_AMD_H
#define NIB_UNIT_ORACLE_AMD_H

static uint64_t oracle_exact(const struct nib_unit *unit, size_t count, bool ieee_zero) {
    uint64_t bits;
    bool all_minus_zero = oracle_c.minus && mpz_sgn(oracle_c.n) == 0;
    if (oracle_special(unit, count, unit->accumulator == NIB_ACC_FP32, &bits)) return bits;
    long low = oracle_c.e;
    for (size_t k = 0; k < count; k++)
        if (oracle_a[k].e + oracle_b[k].e < low) low = oracle_a[k].e + oracle_b[k].e;
    mpz_set_ui(oracle_sum, 0);
    oracle_accumulate(oracle_sum, oracle_c.minus, oracle_c.n, oracle_c.e, low, true);
    for (size_t k = 0; k < count; k++) {
        all_minus_zero &= oracle_product(k) == -1000000 && oracle_p.minus;
        oracle_accumulate(oracle_sum, oracle_p.minus, oracle_p.n, oracle_p.e, low, true);
    }
    return oracle_round(unit->rounding, oracle_sum, low, ieee_zero && all_minus_zero, false);
}

/* The sum of the products first, first + step, ... truncated to multiples of 2^(*largest - F). */
static void oracle_truncated(const struct nib_unit *unit, size_t count, size_t first, size_t step, mpz_t sum,
                             long *largest) {
    long field;
    *largest = -1000000;
    for (size_t k = first; k < count; k += step)
        if ((field = oracle_product(k)) > *largest) *largest = field;
    mpz_set_ui(sum, 0);
    for (size_t k = first; k < count && *largest != -1000000; k += step)
        if (oracle_product(k) != -1000000)
            oracle_accumulate(sum, oracle_p.minus, oracle_p.n, oracle_p.e, *largest - unit->fraction_bits, false);
}

static uint64_t oracle_rounded_down(const struct nib_unit *unit, size_t count, bool apart) {
    uint64_t bits;
    long f = unit->fraction_bits, f2 = unit->second_fraction_bits, field, other;
    if (!apart)
        for (size_t k = 0; k < count; k++) { /* products of 2^128 and more are infinite */
            if (oracle_a[k].class != ORACLE_NUMBER || oracle_b[k].class != ORACLE_NUMBER) continue;
            if (oracle_product(k) != -1000000 && oracle_log2(&oracle_p) >= 128) oracle_a[k].class = ORACLE_INFINITY;
        }
    if (oracle_special(unit, count, true, &bits)) return bits;
    oracle_truncated(unit, count, 0, apart ? 2 : 1, oracle_even, &field);
    mpz_set(oracle_q.n, oracle_even); /* signed here */
    if (apart) {
        oracle_truncated(unit, count, 1, 2, oracle_r.n, &other);
        long most = field > other ? field : other;
        mpz_set_ui(oracle_q.n, 0);
        if (field != -1000000) oracle_accumulate(oracle_q.n, false, oracle_even, field - f, most - f, true);
        if (other != -1000000) oracle_accumulate(oracle_q.n, false, oracle_r.n, other - f, most - f, true);
        field = most;
    }
    long c_field = mpz_sgn(oracle_c.n) != 0 ? oracle_c.field : -126, largest = field > c_field ? field : c_field;
    long lsb = largest - f2 - 1;
    mpz_set_ui(oracle_sum, 0);
    if (mpz_sgn(oracle_q.n) != 0) oracle_accumulate(oracle_sum, false, oracle_q.n, field - f, lsb, true);
    if (!(apart && c_field < largest - f - 1)) {
        mpz_set_ui(oracle_even, 0);
        oracle_accumulate(oracle_even, oracle_c.minus, oracle_c.n, oracle_c.e, largest - f, true);
        mpz_mul_2exp(oracle_even, oracle_even, (mp_bitcnt_t)(f2 + 1 - f));
        mpz_add(oracle_sum, oracle_sum, oracle_even);
    }
    if (mpz_sgn(oracle_sum) == 0) return 0;
    long exponent = (long)mpz_sizeinbase(oracle_sum, 2) - 1 + lsb;
    if (exponent < -126) exponent = -126;
    if (exponent - f2 > lsb) {
        mpz_fdiv_q_2exp(oracle_sum, oracle_sum, (mp_bitcnt_t)(exponent - f2 - lsb));
        lsb = exponent - f2;
    }
    return oracle_round(NIB_RNE_FP32, oracle_sum, lsb, false, false);
}

/* FP32 bits with subnormals flushed to a signed zero, back as a number. */
static uint64_t oracle_flush(uint64_t bits, struct oracle *out) {
    if ((bits & 0x7F800000) == 0) bits &= 0x80000000;
    oracle_decode(NIB_OPERAND_FP32, bits, out);
    return bits;
}

static uint64_t oracle_flush_add(struct oracle *x, const struct oracle *y) {
    if (x->class == ORACLE_NUMBER && y->class == ORACLE_NUMBER)
        return oracle_flush(oracle_ieee_add(NIB_RNE_FP32, x, y), x);
    bool nan = x->class == ORACLE_NAN || y->class == ORACLE_NAN || (x->class == y->class && x->minus != y->minus);
    bool minus = x->class == ORACLE_INFINITY ? x->minus : y->minus;
    return oracle_flush(nan ? 0x7FC00000 : minus ? 0xFF800000 : 0x7F800000, x);
}

static void oracle_flush_product(size_t k, struct oracle *out) {
    struct oracle *x[2] = {&oracle_a[k], &oracle_b[k]};
    bool zero = false, infinite = false, nan = false;
    for (int i = 0; i < 2; i++) {
        /* Subnormals lie below their exponent field; they and zeros become +0. */
        if (x[i]->class == ORACLE_NUMBER && (mpz_sgn(x[i]->n) == 0 || oracle_log2(x[i]) < x[i]->field)) {
            x[i]->minus = false;
            mpz_set_ui(x[i]->n, 0);
            zero = true;
        }
        infinite |= x[i]->class == ORACLE_INFINITY;
        nan |= x[i]->class == ORACLE_NAN;
    }
    bool minus = x[0]->minus != x[1]->minus;
    if (nan || (zero && infinite)) {
        oracle_flush(0x7FC00000, out);
        return;
    }
    if (infinite) {
        oracle_flush(minus ? 0xFF800000 : 0x7F800000, out);
        return;
    }
    oracle_product(k);
    if (oracle_p.minus) mpz_neg(oracle_p.n, oracle_p.n);
    oracle_flush(oracle_round(NIB_RNE_FP32, oracle_p.n, oracle_p.e, minus, false), out);
}

static uint64_t oracle_pairwise(size_t count) {
    oracle_flush_product(0, &oracle_q);
    oracle_flush_product(1, &oracle_r);
    oracle_flush_add(&oracle_q, &oracle_r);
    if (count == 4) {
        struct oracle *third = &oracle_sa[0], *fourth = &oracle_sa[1];
        oracle_flush_product(2, third);
        oracle_flush_product(3, fourth);
        oracle_flush_add(third, fourth);
        oracle_flush_add(&oracle_q, third);
    }
    return oracle_flush_add(&oracle_c, &oracle_q);
}

static uint64_t oracle_amd(const struct nib_unit *unit, size_t count) {
    switch (unit->model) {
    case NIB_UNIT_FMA_CHAIN: return oracle_exact(unit, 1, true);
    case NIB_UNIT_E_FDPA: return oracle_exact(unit, count, false);
    case NIB_UNIT_TR_FDPA: return oracle_rounded_down(unit, count, false);
    case NIB_UNIT_GTR_FDPA: return oracle_rounded_down(unit, count, true);
    default: return oracle_pairwise(count);
    }
}

#endif
