/* Every unit, by definition and by every fast model, against exact arithmetic, on random and hostile
 * operands. */
#include "nib_test.h"
#include "nib_unit_oracle.h"

#include <inttypes.h>

static uint64_t state;
static uint64_t draw(void) { /* splitmix64 */
    uint64_t z = state += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}
static uint64_t below(uint64_t n) { return draw() % n; }

/* Kinds of operands; the first is anything at all. */
enum { RAW, FINITE, MIDDLE, SPREAD, SPARSE, CANCEL, SUBNORMAL, HUGE_ONES, ZEROS, OUTLIER, TINY_C, E_ZERO, EDGE, KINDS };

struct fields {
    int ebits, mbits;
};
static struct fields fields_of(enum nib_operand format) {
    struct fields f = {oracle_format[format].ebits, oracle_format[format].mbits};
    return f;
}

/* A code whose exponent field lies `from` .. `from + width` above the middle of its range. */
static uint64_t code_near(enum nib_operand format, int from, unsigned width) {
    struct fields f = fields_of(format);
    if (f.ebits == 0) return draw() & ((1u << f.mbits) - 1);
    int top = (1 << f.ebits) - 1, exponent = (1 << (f.ebits - 1)) - 1 + from + (int)below(width + 1);
    if (exponent < 0) exponent = 0;
    if (exponent >= top) exponent = top - (oracle_format[format].kind == O_IEEE);
    uint64_t mantissa = draw() & ((1ULL << f.mbits) - 1);
    if (oracle_format[format].kind == O_FN && exponent == top) mantissa &= (1ULL << f.mbits) - 2;
    uint64_t code = (uint64_t)exponent << f.mbits | mantissa;
    bool minus = draw() & 1;
    if (oracle_format[format].kind == O_FNUZ && code == 0) minus = false;
    return code | (uint64_t)minus << (f.ebits + f.mbits);
}

static uint64_t code_of(enum nib_operand format, int kind) {
    struct fields f = fields_of(format);
    int half = 1 << (f.ebits > 0 ? f.ebits - 1 : 0);
    switch (kind) {
    case RAW: return draw();
    case FINITE: return code_near(format, -half, 2u * (unsigned)half);
    case SPREAD: return code_near(format, -(half < 20 ? half : 20), half < 20 ? 2u * (unsigned)half : 40);
    case SPARSE: return below(5) < 3 ? 0 : code_near(format, -2, 4);
    case SUBNORMAL: return code_near(format, -half, 1);
    case HUGE_ONES: return code_near(format, half - 2, 3);
    case ZEROS: return oracle_format[format].kind == O_FNUZ || f.ebits == 0 ? 0 : below(2) << (f.ebits + f.mbits);
    case OUTLIER: return below(16) == 0 ? code_near(format, half / 2, 2) : code_near(format, -half / 2, 3);
    default: return code_near(format, -3, 4);
    }
}

static void store(enum nib_operand format, uint8_t *row, size_t i, uint64_t code) {
    unsigned bits = nib_operand_bits(format), width = (bits + 7) / 8;
    if (bits == 4)
        row[i / 2] = (uint8_t)(i % 2 != 0 ? (row[i / 2] & 15) | (code & 15) << 4 : (row[i / 2] & 0xF0) | (code & 15));
    else
        memcpy(row + i * width, &code, width);
}

/* Rows of one kind. With CANCEL, odd elements repeat the even ones: A negated, B not. */
static void fill(enum nib_operand format, uint8_t *bits, size_t rows, size_t k, size_t stride, int kind, bool negate) {
    struct fields f = fields_of(format);
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < k; i++) {
            uint64_t code = code_of(format, kind);
            if (kind == CANCEL && i % 2 == 1) {
                code = oracle_load(format, bits + r * stride, i - 1);
                uint64_t other = code ^ 1ULL << (f.ebits + f.mbits);
                if (negate && f.ebits != 0 && !(oracle_format[format].kind == O_FNUZ && (code & 0x7F) == 0))
                    code = other;
                if (below(20) == 0) code = code_of(format, MIDDLE);
            }
            store(format, bits + r * stride, i, code);
        }
}

static void fill_scales(enum nib_unit_scale kind, uint8_t *scales, size_t count, int spread) {
    int middle = kind == NIB_UNIT_SCALE_UE4M3 ? 0x40 : 127, width = 1 << spread;
    for (size_t i = 0; i < count; i++) {
        scales[i] = (uint8_t)(spread >= 8 ? (int)below(256) : middle - width / 2 + (int)below((uint64_t)width));
        if (below(40) == 0) scales[i] = 0;
    }
}

static uint64_t accumulator_of(enum nib_accumulator accumulator, int kind) {
    enum nib_operand format = accumulator == NIB_ACC_FP16   ? NIB_OPERAND_FP16
                              : accumulator == NIB_ACC_FP64 ? NIB_OPERAND_FP64
                                                            : NIB_OPERAND_FP32;
    if (accumulator == NIB_ACC_S32) return (uint32_t)(kind == HUGE_ONES ? 0x7FFFFFFF - below(3) : draw());
    if (kind == TINY_C) return code_of(format, below(2) ? SUBNORMAL : ZEROS);
    if (kind == RAW && below(3) != 0) kind = FINITE;
    if (below(4) == 0) return 0;
    if (below(4) == 0) return code_near(format, -30, 60);
    return code_of(format, kind == CANCEL ? MIDDLE : kind);
}

/* The code of 2^exponent, or 0 where the format has none. */
static uint64_t power_code(enum nib_operand format, long exponent) {
    struct fields f = fields_of(format);
    long emin = 1 - oracle_format[format].bias;
    if (f.ebits == 0 || exponent < emin - f.mbits || exponent > -emin) return 0;
    if (exponent < emin) return 1ULL << (f.mbits - (emin - exponent));
    return (uint64_t)(exponent + oracle_format[format].bias) << f.mbits;
}

/* A product 2^exponent at place i; zero where the formats cannot make it. */
static void put_product(enum nib_operand fa, enum nib_operand fb, uint8_t *a, uint8_t *b, size_t i, long exponent,
                        bool minus) {
    long half = exponent / 2;
    for (int tries = 0; tries < 20; tries++) {
        long other = half + (long)below(5) - 2;
        if (power_code(fa, other) == 0 || power_code(fb, exponent - other) == 0) continue;
        half = other;
        break;
    }
    store(fa, a, i, power_code(fa, half) | (uint64_t)minus << (fields_of(fa).ebits + fields_of(fa).mbits));
    store(fb, b, i, power_code(fb, exponent - half));
}

/* A sum at a border of the output format, and a term that the alignment at e_zero just keeps or drops:
 * zeros elsewhere. The scales, where there are any, carry the small exponents. */
static void fill_e_zero(const struct nib_unit *unit, enum nib_operand fa, enum nib_operand fb, size_t k, uint8_t *a,
                        uint8_t *b, uint8_t *sa, uint8_t *sb) {
    memset(a, 0, nib_operand_bytes(fa, k));
    memset(b, 0, nib_operand_bytes(fb, k));
    long border = unit->accumulator == NIB_ACC_FP16 ? -25 : -149,
         kept = unit->e_zero - unit->fraction_bits - (long)below(3);
    if (unit->model == NIB_UNIT_GST_FDPA) { /* one product of 1 in each of two groups */
        size_t scales = k / unit->scale_block,
               second = unit->group / unit->scale_block + (unit->group % unit->scale_block != 0);
        second = unit->scale_block > unit->group ? 1 : second;
        memset(sa, 127, scales), memset(sb, 127, scales);
        put_product(fa, fb, a, b, 0, 0, false);
        put_product(fa, fb, a, b, second * unit->scale_block, 0, true);
        sa[0] = (uint8_t)(127 + border / 2), sb[0] = (uint8_t)(127 + border - border / 2);
        sa[second] = (uint8_t)(127 + kept / 2), sb[second] = (uint8_t)(127 + kept - kept / 2);
        return;
    }
    long scale = 0;
    if (unit->scale_block != 0) {
        scale = unit->e_zero - 9; /* products of E4M3 and E5M2 reach both places */
        memset(sa, (int)(127 + scale / 2), k / unit->scale_block);
        memset(sb, (int)(127 + scale - scale / 2), k / unit->scale_block);
    }
    put_product(fa, fb, a, b, 0, border - scale, false);
    put_product(fa, fb, a, b, 1, kept - scale, unit->accumulator != NIB_ACC_FP16); /* a tie, broken; or 1 ulp, lost */
}

/* GST: two groups that leave one unit of the last place, or one that cancels to an exact zero. */
static void fill_edge(const struct nib_unit *unit, size_t k, bool cancel, uint8_t *a, uint8_t *b, uint8_t *sa,
                      uint8_t *sb) {
    enum { HALF = 1 }; /* E2M1 0.5 */
    size_t scales = k / unit->scale_block, per = unit->scale_block;
    bool e4m3 = unit->scale == NIB_UNIT_SCALE_UE4M3;
    int one = e4m3 ? 7 << 3 : 127;
    memset(a, 0, k / 2), memset(b, 0, k / 2);
    memset(sa, one, scales), memset(sb, one, scales);
    for (size_t i = 0; i < 2; i++) {
        size_t at = cancel ? i : i * per;
        store(NIB_OPERAND_E2M1, a, at, HALF | i << 3);
        store(NIB_OPERAND_E2M1, b, at, HALF);
    }
    if (e4m3 && !cancel) sa[0] = sb[0] = (uint8_t)(one + 1), sa[1] = (uint8_t)(one + 2);
}
/* c where the alignment begins to drop its bits, or those of the groups. */
static uint64_t edge_accumulator(bool cancel) {
    uint64_t exponent = 127 + (cancel ? below(6) - 15 : below(12) + 25);
    return exponent << 23 | (draw() & 0x7FFFFF) | (draw() & 1) << 31;
}

enum { M = 8, N = 8, ROUNDS = 52 };

static size_t check_product(const struct nib_unit *unit, enum nib_operand fa, enum nib_operand fb, size_t k, int kind,
                            const char *const *isas) {
    static uint8_t a[M * 8 * 512], b[N * 8 * 512], sa[M * 128], sb[N * 128];
    static char c[8 * M * N], d[8 * M * N];
    struct nib_error error;
    size_t stride_a = nib_operand_bytes(fa, k), stride_b = nib_operand_bytes(fb, k), bad = 0;
    size_t scales = unit->scale_block != 0 ? k / unit->scale_block : 0,
           width = nib_accumulator_bytes(unit->accumulator);
    fill(fa, a, M, k, stride_a, kind == TINY_C ? SUBNORMAL : kind, true);
    fill(fb, b, N, k, stride_b, kind == TINY_C ? SUBNORMAL : kind, false);
    fill_scales(unit->scale, sa, M * scales, kind == RAW ? 8 : (int)below(6));
    fill_scales(unit->scale, sb, N * scales, kind == RAW ? 8 : (int)below(6));
    bool gst = unit->model == NIB_UNIT_GST_FDPA,
         e_zero = unit->e_zero != 0 && (!gst || unit->scale == NIB_UNIT_SCALE_UE8M0);
    bool cancel = draw() & 1;
    for (size_t i = 0; i < M; i++) { /* M and N are equal */
        uint8_t *row_a = a + i * stride_a, *row_b = b + i * stride_b;
        if (kind == E_ZERO && e_zero) fill_e_zero(unit, fa, fb, k, row_a, row_b, sa + i * scales, sb + i * scales);
        if (kind == EDGE && gst) fill_edge(unit, k, cancel, row_a, row_b, sa + i * scales, sb + i * scales);
    }
    for (size_t i = 0; i < M * N; i++) {
        uint64_t bits = kind == E_ZERO ? 0 : accumulator_of(unit->accumulator, kind);
        if (kind == EDGE && gst) bits = edge_accumulator(cancel);
        memcpy(c + i * width, &bits, width);
    }
    struct nib_unit_matrix x = {fa, a, stride_a, sa, scales}, y = {fb, b, stride_b, sb, scales};
    uint64_t want[M * N];
    for (size_t i = 0; i < M * N; i++) {
        uint64_t bits = 0;
        memcpy(&bits, c + i * width, width);
        want[i] = oracle_dot(unit, &x, i / N, &y, i % N, k, bits);
    }
    for (; *isas != NULL; isas++) {
        struct nib_unit_options options = {.threads = 1, .isa = *isas};
        memset(d, 0xCA, sizeof d);
        NIB_CHECKF(nib_unit_multiply(unit, &x, &y, M, N, k, c, N, &options, d, N, &error) == NIB_OK, "%s", error.text);
        for (size_t i = 0; i < M * N; i++) {
            uint64_t got = 0, before = 0;
            memcpy(&got, d + i * width, width);
            memcpy(&before, c + i * width, width);
            if (got == want[i]) continue;
            if (bad++ < 3)
                fprintf(stderr, "\n%s %s on %s, kind %d, K %zu: %" PRIX64 ", expected %" PRIX64 ", c %" PRIX64 "\n",
                        unit->name, nib_operand_name(fa), *isas, kind, k, got, want[i], before);
        }
    }
    return bad;
}

static void every_unit_agrees_with_exact_arithmetic(void) {
    const char *isas[5] = {"ref", "generic"};
    size_t known = 2, units = 0;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) isas[known++] = "avx2";
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw")) isas[known++] = "avx512";
    oracle_start();
    const char *name;
    for (; (name = nib_unit_builtin(units)) != NULL; units++) {
        const struct nib_unit *unit;
        struct nib_error error;
        size_t bad = 0, rounds = nib_test_full() ? 100 * ROUNDS : ROUNDS;
        NIB_OK_OR_FAIL(nib_unit_open(name, &unit, &error), error);
        for (size_t round = 0; round < rounds; round++) {
            enum nib_operand fa, fb;
            state = 1000003 * units + round;
            do fa = (enum nib_operand)below(NIB_OPERANDS);
            while ((unit->operands >> fa & 1) == 0);
            do fb = unit->mixed ? (enum nib_operand)below(NIB_OPERANDS) : fa;
            while ((unit->operands >> fb & 1) == 0);
            if (round % KINDS == E_ZERO && (unit->operands >> NIB_OPERAND_E5M2 & 1)) fa = fb = NIB_OPERAND_E5M2;
            bad += check_product(unit, fa, fb, unit->k * (1 + round % 3), (int)(round % KINDS), isas);
        }
        NIB_CHECKF(bad == 0, "%s: %zu outputs differ", name, bad);
        nib_unit_close(unit);
    }
    CU_ASSERT(units >= 70);
}

NIB_TEST_MAIN("matrix units against exact arithmetic",
              {"every unit agrees with exact arithmetic", every_unit_agrees_with_exact_arithmetic})
