/* Scale codecs: every code decodes to its textbook value, and encoding is exact rounding. */
#include "core/scale_codec.h"
#include "nib_test.h"
#include "oracle_float.h"
#include <nibble/scale.h>

/* What the OFP8 and MX specifications say; UE5M3 as its file explains. */
static const struct facts {
    const char *name;
    int mbits, bias;
    uint32_t max_code, nan_code, codes;
    bool sign;
    float max;
} formats[] = {
    {"e4m3", 3, 7, 0x7E, 0x7F, 0x80, true, 448},
    {"e5m2", 2, 15, 0x7B, 0x7F, 0x80, true, 57344},
    {"ue5m3", 3, 15, 0xFE, 0xFF, 0x100, false, 114688},
    {"bf16", 7, 127, 0x7F7F, 0x7FC0, 0x8000, true, 0x1.fep127f},
};
static const mpfr_rnd_t directions[] = {MPFR_RNDN, MPFR_RNDU, MPFR_RNDD};

static const struct nib_scale *open_scale(const char *name) {
    const struct nib_scale *scale = NULL;
    struct nib_error error = {.line = 0};
    enum nib_status status = nib_scale_open(name, &scale, &error);
    NIB_CHECKF(status == NIB_OK, "%s: %s", name, error.text);
    return scale;
}

static void every_code_decodes_to_its_value(void) {
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        const struct nib_scale *s = open_scale(formats[f].name);
        if (s == NULL) return;
        CU_ASSERT(s->max_code == formats[f].max_code && s->nan_code == formats[f].nan_code);
        CU_ASSERT(s->max_value == formats[f].max && s->has_sign == formats[f].sign);
        for (uint32_t code = 0; code < formats[f].codes; code++) {
            float value = nib_scale_decode(s, code);
            if (code > formats[f].max_code) {
                bool infinite =
                    formats[f].max_code + 1 == code && strcmp(formats[f].name, "e4m3") != 0 && formats[f].sign;
                NIB_CHECKF(infinite ? isinf(value) : isnan(value), "%s code %x is %a", s->name, code, (double)value);
                continue;
            }
            double expected = oracle_float_value(code, formats[f].mbits, formats[f].bias);
            NIB_CHECKF((double)value == expected, "%s code %x is %a, not %a", s->name, code, (double)value, expected);
            if (formats[f].sign) CU_ASSERT_EQUAL(nib_scale_decode(s, code | formats[f].codes), -value);
        }
        nib_scale_close(s);
    }
}

/* The code of a value that MPFR has rounded: monotone, so bisection finds it. */
static uint32_t code_of(const struct facts *f, double value) {
    uint32_t low = 0, high = f->max_code;
    if (value >= (double)f->max) return f->max_code;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (oracle_float_value(middle, f->mbits, f->bias) <= value)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void check(const struct facts *f, const struct nib_scale *s, uint32_t bits) {
    float x = nib_float_of_bits(bits);
    for (int mode = 0; mode < 3; mode++) {
        uint32_t expected = f->nan_code, code = nib_scale_encode(s, (enum nib_scale_rounding)mode, x);
        if (!isnan(x)) {
            double rounded = isinf(x) ? INFINITY : oracle_float_round(x, f->mbits, f->bias, directions[mode]);
            expected = code_of(f, rounded);
            if (f->sign && bits >> 31 != 0) expected |= f->codes;
        }
        if (code != expected)
            NIB_CHECKF(false, "%s mode %d of %a: %x, not %x", f->name, mode, (double)x, code, expected);
    }
}

static void encoding_is_exact_rounding(void) {
    static const uint32_t special[] = {0,          1,          0x7FFFFF,   0x800000,   0x800001,
                                       0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF};
    uint32_t samples = nib_test_full() ? 1u << 24 : 1u << 15;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const struct facts *f = &formats[i];
        const struct nib_scale *s = open_scale(f->name);
        if (s == NULL) return;
        uint32_t step = f->codes > 0x100 ? 37 : 1;
        for (uint32_t code = 0; code <= f->max_code; code += step) {
            double value = oracle_float_value(code, f->mbits, f->bias);
            double next = oracle_float_value(code + 1, f->mbits, f->bias);
            uint32_t level = nib_bits_of_float((float)value), middle = nib_bits_of_float((float)((value + next) / 2));
            for (uint32_t d = 0; d < 5; d++) {
                if (level + d >= 2) check(f, s, level + d - 2);
                if (middle + d >= 2) check(f, s, middle + d - 2);
                check(f, s, (middle + d) | 0x80000000);
            }
        }
        for (size_t k = 0; k < sizeof special / sizeof *special; k++) {
            check(f, s, special[k]);
            check(f, s, special[k] | 0x80000000);
        }
        for (uint32_t k = 0; k < samples; k++) check(f, s, k * 0x9E3779B9u);
        nib_scale_close(s);
    }
}

static void e8m0_is_exact_rounding_to_powers_of_two(void) {
    const struct nib_scale *s = open_scale("e8m0");
    if (s == NULL) return;
    CU_ASSERT_EQUAL(s->max_value, 0x1p127f);
    CU_ASSERT(isnan(nib_scale_decode(s, 0xFF)));
    for (int code = 0; code < 255; code++) {
        double value = ldexp(1, code - 127), next = 2 * value;
        CU_ASSERT_EQUAL((double)nib_scale_decode(s, (uint32_t)code), value);
        uint32_t middle = nib_bits_of_float((float)(1.5 * value)), level = nib_bits_of_float((float)value);
        for (uint32_t d = 0; d < 10; d++) {
            uint32_t bits = d < 5 ? middle + d - 2 : level + d - 7;
            double x = (double)nib_float_of_bits(bits);
            double low = x >= value ? value : value / 2, high = x >= value ? next : value;
            int down = x >= value ? code : code - 1, up = x > low ? down + 1 : down;
            int nearest = x - low < high - x ? down : x - low > high - x ? down + 1 : down + (down & 1);
            down = down < 0 ? 0 : down; /* below 2^-127 the smallest code */
            up = code == 0 && x <= value ? 0 : up > 254 ? 254 : up;
            nearest = code == 0 && x <= value ? 0 : nearest > 254 ? 254 : nearest;
            for (uint32_t sign = 0; sign < 2; sign++) {
                float v = nib_float_of_bits(bits | sign << 31);
                bool right = nib_scale_encode(s, NIB_SCALE_DOWN, v) == (uint32_t)down &&
                             nib_scale_encode(s, NIB_SCALE_UP, v) == (uint32_t)up &&
                             nib_scale_encode(s, NIB_SCALE_NEAREST, v) == (uint32_t)nearest;
                NIB_CHECKF(right, "%a: expected %x %x %x", (double)v, down, up, nearest);
            }
        }
    }
    nib_scale_close(s);
}

static void fp32_scales_pass_unchanged(void) {
    const struct nib_scale *s = open_scale("fp32");
    if (s == NULL) return;
    for (int mode = 0; mode < 3; mode++) {
        for (uint32_t k = 0; k < 1000; k++) {
            uint32_t bits = k * 0x9E3779B9u;
            if ((bits & 0x7FFFFFFF) >= 0x7F800000) continue;
            CU_ASSERT_EQUAL(nib_scale_encode(s, (enum nib_scale_rounding)mode, nib_float_of_bits(bits)), bits);
        }
        CU_ASSERT_EQUAL(nib_scale_encode(s, (enum nib_scale_rounding)mode, INFINITY), 0x7F7FFFFF);
        CU_ASSERT_EQUAL(nib_scale_encode(s, (enum nib_scale_rounding)mode, NAN), 0x7FC00000);
    }
    nib_scale_close(s);
}

static void the_constant_codecs_are_the_general_one(void) {
    const struct nib_scale *e4m3 = open_scale("e4m3"), *e5m2 = open_scale("e5m2"), *ue5m3 = open_scale("ue5m3");
    if (e4m3 == NULL || e5m2 == NULL || ue5m3 == NULL) return;
    for (uint32_t k = 0; k < 200000; k++) {
        uint32_t bits = (k * 0x9E3779B9u) & 0x7FFFFFFF;
        float x = nib_float_of_bits(bits);
        CU_ASSERT_EQUAL_FATAL(nib_e4m3_encode(bits, NIB_SCALE_NEAREST), nib_scale_encode(e4m3, NIB_SCALE_NEAREST, x));
        CU_ASSERT_EQUAL_FATAL(nib_e5m2_encode(bits, NIB_SCALE_NEAREST), nib_scale_encode(e5m2, NIB_SCALE_NEAREST, x));
        CU_ASSERT_EQUAL_FATAL(nib_ue5m3_encode(bits, NIB_SCALE_NEAREST), nib_scale_encode(ue5m3, NIB_SCALE_NEAREST, x));
    }
    for (uint32_t code = 0; code < 256; code++) {
        float value = nib_scale_decode(ue5m3, code), small = nib_scale_decode(e4m3, code & 0x7F);
        CU_ASSERT_EQUAL(nib_ue5m3_decode(code), nib_bits_of_float(value));
        CU_ASSERT_EQUAL(nib_e4m3_decode(code), nib_bits_of_float(small));
    }
    nib_scale_close(e4m3);
    nib_scale_close(e5m2);
    nib_scale_close(ue5m3);
}

static void a_grid_of_ones_own_is_a_file(void) {
    static const char ieee[] = "kind: scale\ntitle: t\nsource: s\nmax: 61440\n"
                               "rule: {type: minifloat, sign: false, ebits: 5, mbits: 3, bias: 15, specials: ieee}\n";
    const struct nib_scale *s;
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_scale_parse(ieee, sizeof ieee - 1, "mine/ue5m3-ieee.yaml", &s, &error), error);
    CU_ASSERT_STRING_EQUAL(s->name, "ue5m3-ieee");
    CU_ASSERT_EQUAL(nib_scale_encode(s, NIB_SCALE_NEAREST, 1e9f), 0xF7);
    CU_ASSERT(isinf(nib_scale_decode(s, 0xF8)));
    nib_scale_close(s);
}

NIB_TEST_MAIN("scale codecs", {"every code decodes to its value", every_code_decodes_to_its_value},
              {"encoding is exact rounding", encoding_is_exact_rounding},
              {"e8m0 is exact rounding to powers of two", e8m0_is_exact_rounding_to_powers_of_two},
              {"fp32 scales pass unchanged", fp32_scales_pass_unchanged},
              {"the constant codecs are the general one", the_constant_codecs_are_the_general_one},
              {"a scale format of one's own is a file", a_grid_of_ones_own_is_a_file})
