/* Rounding is exact: thresholds against the direct search of the library and against exact rational
 * arithmetic that shares nothing with it. */
#include "core/convert.h"
#include "core/round.h"
#include "nib_test.h"
#include "oracle_round.h"
#include <fenv.h>
#include <nibble/element.h>
#include <stdio.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#define U NAN
/* From the specifications named in the files, not from the files. NF4 by the published decimals, which
 * name binary32 numbers. */
static const struct {
    const char *name;
    float level[16];
} tables[] = {
    {"e2m1", {0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6}},
    {"e1m2", {0, .5f, 1, 1.5f, 2, 2.5f, 3, 3.5f, -0.f, -.5f, -1, -1.5f, -2, -2.5f, -3, -3.5f}},
    {"e3m0", {0, .25f, .5f, 1, 2, 4, 8, 16, -0.f, -.25f, -.5f, -1, -2, -4, -8, -16}},
    {"e0m3", {0, 1, 2, 3, 4, 5, 6, 7, -0.f, -1, -2, -3, -4, -5, -6, -7}},
    {"int4", {0, 1, 2, 3, 4, 5, 6, 7, U, -7, -6, -5, -4, -3, -2, -1}},
    {"int4-full", {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1}},
    {"nf4",
     {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
      -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f,
      0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f,
      1.0f}},
};
/* Grids that no file here has: no zero, no symmetry, one sign, codes out of order, two zeros without
 * symmetry, extreme magnitudes. */
static const float strange[][16] = {
    {-7, -5, -3, -1, 1, 3, 5, 7, U, U, U, U, U, U, U, U},
    {-3, 1, 2, 10, U, U, U, U, U, U, U, U, U, U, U, U},
    {1, 2, 4, 8, U, U, U, U, U, U, U, U, U, U, U, U},
    {-9, -8, -2, -1, U, U, U, U, U, U, U, U, U, U, U, U},
    {4, U, -4, U, 2, U, -2, U, 1, U, -1, U, 0, U, 7, U},
    {0, 2, 1, 4, -0.f, -2, -1, -4, 3, U, -3, U, U, U, U, U},
    {-2, U, -1, U, -0.f, U, 0, U, 1, U, 3, U, 5, U, U, U},
    {-0x1.fffffep127f, -0x1p-149f, 0, 0x1p-149f, 0x1.8p-148f, 0x1p-126f, 0x1.fffffep127f, U, U, U, U, U, U, U, U, U},
    /* exponents at which a limb of the exact integers ends */
    {0x1.8p-85f, 0x1.cp-85f, 0x1.8p-21f, 0x1.cp-21f, 0x1.8p43f, 0x1.cp43f, 0x1.8p107f, 0x1.cp107f, -0x1.8p-21f,
     -0x1.cp-21f, -0x1.8p-84f, U, U, U, U, U},
    {-0.f, 1, -1, U, U, U, U, U, U, U, U, U, U, U, U, U},
    {0x1.fffffcp127f, 0x1.fffffep127f, -0x1.fffffep127f, 0x1.000002p-126f, 0x1p-126f, 0x1.fffffcp-127f, U, U, U, U, U,
     U, U, U, U, U},
};
enum { TABLES = sizeof tables / sizeof *tables, STRANGE = sizeof strange / sizeof *strange };

static const struct nib_element *open_grid(size_t i, const float **level) {
    struct nib_error error = {.status = NIB_OK};
    const struct nib_element *e = NULL;
    enum nib_status status;
    if (i < TABLES) {
        *level = tables[i].level;
        status = nib_element_open(tables[i].name, &e, &error);
    } else {
        char text[1024], *end = text;
        *level = strange[i - TABLES];
        end += sprintf(end, "kind: element\ntitle: t\nsource: s\nlevels: [");
        for (int code = 0; code < 16; code++)
            end += isnan((*level)[code]) ? sprintf(end, "-,") : sprintf(end, "%a,", (double)(*level)[code]);
        sprintf(end, "]\n");
        status = nib_element_parse(text, strlen(text), "strange.yaml", &e, &error);
    }
    NIB_CHECKF(status == NIB_OK, "grid %zu: line %d: %s", i, error.line, error.text);
    return e;
}

static void levels_are_those_of_the_specifications(void) {
    for (size_t i = 0; i < TABLES; i++) {
        const float *level;
        const struct nib_element *e = open_grid(i, &level);
        if (e == NULL) continue;
        for (int code = 0; code < 16; code++)
            NIB_CHECKF(isnan(level[code]) ? isnan(e->level[code])
                                          : nib_bits_of_float(level[code]) == nib_bits_of_float(e->level[code]),
                       "%s code %d is %a", e->name, code, (double)e->level[code]);
        nib_element_close(e);
    }
}

struct subject {
    const struct nib_element *element;
    struct nib_rule rule[NIB_ROUNDINGS];
    struct oracle_grid grid;
    long checked;
};

static void check(struct subject *s, uint32_t bits) {
    if (nib_bits_are_nan(bits)) return;
    float x = nib_float_of_bits(bits);
    for (int mode = 0; mode < NIB_ROUNDINGS; mode++) {
        unsigned fast = nib_round_code(&s->rule[mode], bits);
        unsigned by_rank = nib_round_code_of_rank(s->rule[mode].codes, nib_round_rank(s->rule[mode].threshold, bits));
        unsigned direct = nib_element_round_ref(s->element, (enum nib_rounding)mode, x);
        unsigned exact = (unsigned)oracle_round(&s->grid, (enum oracle_mode)mode, x);
        s->checked++;
        if (fast == exact && by_rank == exact && direct == exact) continue;
        NIB_CHECKF(false, "%s %s %a: thresholds %u, ranks %u, direct search %u, exact %u", s->element->name,
                   nib_rounding_name((enum nib_rounding)mode), (double)x, fast, by_rank, direct, exact);
    }
}

static void check_around(struct subject *s, uint32_t bits) {
    int32_t key = nib_key_of_bits(bits);
    for (int32_t step = -2; step <= 2; step++) {
        int64_t moved = (int64_t)key + step;
        if (moved >= INT32_MIN && moved <= INT32_MAX) check(s, nib_bits_of_key((int32_t)moved));
    }
}

/* The binary32 numbers on both sides of a rational, found by the oracle's arithmetic. */
static void check_middle(struct subject *s, int i) {
    mpq_t middle;
    mpq_init(middle);
    mpq_add(middle, s->grid.level[i], s->grid.level[i + 1]);
    mpq_div_2exp(middle, middle, 1);
    check_around(s, nib_bits_of_float((float)mpq_get_d(middle)));
    mpq_clear(middle);
}

static void every_threshold_is_where_exact_arithmetic_puts_it(void) {
    static const uint32_t special[] = {0,          0x80000000, 1,          0x80000001, 0x7FFFFF,  0x800000,
                                       0x807FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000};
    uint32_t stride = nib_test_full() ? 1 : 61;
    for (size_t i = 0; i < TABLES + STRANGE; i++) {
        struct subject s = {.checked = 0};
        const float *level;
        s.element = open_grid(i, &level);
        if (s.element == NULL) continue;
        oracle_grid_init(&s.grid, level);
        for (int mode = 0; mode < NIB_ROUNDINGS; mode++)
            nib_rule_compile(s.element, (enum nib_rounding)mode, &s.rule[mode]);
        for (int mode = 0; mode < NIB_ROUNDINGS; mode++)
            for (int t = 0; t < NIB_THRESHOLDS; t++)
                if (s.rule[mode].threshold[t] != INT32_MAX)
                    check_around(&s, nib_bits_of_key(s.rule[mode].threshold[t]));
        for (int k = 0; k < s.grid.count; k++) {
            check_around(&s, nib_bits_of_float((float)s.grid.value[k]));
            if (k + 1 < s.grid.count) check_middle(&s, k);
        }
        for (size_t k = 0; k < sizeof special / sizeof *special; k++) check(&s, special[k]);
        for (uint32_t half = 0; half < 0x10000; half += stride) {
            check(&s, nib_bits_of_bf16((uint16_t)half));
            check(&s, nib_bits_of_f16((uint16_t)half));
        }
        for (uint32_t k = 0; k < 8000; k++) check(&s, k * 0x9E3779B9u);
        oracle_grid_clear(&s.grid);
        nib_element_close(s.element);
    }
}

static void every_level_is_a_fixed_point(void) {
    for (size_t i = 0; i < TABLES + STRANGE; i++) {
        const float *level;
        const struct nib_element *e = open_grid(i, &level);
        if (e == NULL) continue;
        for (int mode = 0; mode < NIB_ROUNDINGS; mode++) {
            struct nib_rule rule;
            nib_rule_compile(e, (enum nib_rounding)mode, &rule);
            for (unsigned code = 0; code < 16; code++)
                if (!isnan(level[code]))
                    NIB_CHECKF(nib_round_code(&rule, nib_bits_of_float(level[code])) == code, "grid %zu %s code %u", i,
                               nib_rounding_name((enum nib_rounding)mode), code);
        }
        nib_element_close(e);
    }
}

static void rounding_is_monotone_and_respects_symmetry(void) {
    for (size_t i = 0; i < TABLES + STRANGE; i++) {
        const float *level;
        const struct nib_element *e = open_grid(i, &level);
        if (e == NULL) continue;
        bool mirrored = true;
        for (unsigned r = 0; r < e->levels; r++)
            mirrored = mirrored && e->level_of_rank[r] == -e->level_of_rank[e->levels - 1 - r];
        for (int mode = 0; mode < NIB_ROUNDINGS; mode++) {
            struct nib_rule rule;
            float before = -INFINITY;
            long broken = 0;
            nib_rule_compile(e, (enum nib_rounding)mode, &rule);
            for (int t = 1; t < NIB_THRESHOLDS; t++) broken += rule.threshold[t] < rule.threshold[t - 1];
            for (int32_t key = nib_key_of_bits(0xFF800000); key <= 0x7F800000 - 4099; key += 4099) {
                uint32_t bits = nib_bits_of_key(key);
                float q = level[nib_round_code(&rule, bits)];
                broken += q < before;
                before = q;
                if (mirrored) broken += level[nib_round_code(&rule, bits ^ 0x80000000)] != -q;
            }
            NIB_CHECKF(broken == 0, "grid %zu %s: %ld times", i, nib_rounding_name((enum nib_rounding)mode), broken);
        }
        nib_element_close(e);
    }
}

static void zeros_keep_their_sign_where_the_grid_has_both(void) {
    static const float small[] = {-0.f, -0x1p-149f, -1e-5f, -0.1f, 0.f, 0x1p-149f, 1e-5f, 0.1f};
    for (size_t i = 0; i < TABLES; i++) {
        const float *level;
        const struct nib_element *e = open_grid(i, &level);
        if (e == NULL) continue;
        for (int mode = 0; mode < NIB_ROUNDINGS; mode++)
            for (size_t k = 0; k < 8; k++) {
                float q = level[nib_element_round_ref(e, (enum nib_rounding)mode, small[k])];
                if (q != 0) continue; /* 0.1 in NF4 */
                NIB_CHECKF(!!signbit(q) == (e->has_negative_zero && k < 4), "%s %a", e->name, (double)small[k]);
            }
        nib_element_close(e);
    }
}

/* Ties, the E2M1 column of quantizer-semantics row RN: RNE, toward zero, away. */
static void ties_go_where_the_mode_says(void) {
    static const float tie[] = {.25f, .75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
    static const unsigned rne[] = {0, 2, 2, 4, 4, 6, 6}, rnz[] = {0, 1, 2, 3, 4, 5, 6}, rna[] = {1, 2, 3, 4, 5, 6, 7};
    const float *level;
    const struct nib_element *e = open_grid(0, &level);
    if (e == NULL) return;
    for (int i = 0; i < 7; i++) {
        CU_ASSERT_EQUAL(nib_element_round_ref(e, NIB_RNE, tie[i]), rne[i]);
        CU_ASSERT_EQUAL(nib_element_round_ref(e, NIB_RNZ, tie[i]), rnz[i]);
        CU_ASSERT_EQUAL(nib_element_round_ref(e, NIB_RNA, tie[i]), rna[i]);
        CU_ASSERT_EQUAL(nib_element_round_ref(e, NIB_RTZ, tie[i]), rnz[i]);
        CU_ASSERT_EQUAL(nib_element_round_ref(e, NIB_RNE, -tie[i]), rne[i] | 8);
    }
    nib_element_close(e);
}

static void derived_fields_follow_from_the_levels(void) {
    static const struct {
        const char *name;
        unsigned levels, magnitudes;
        bool symmetric, negative_zero;
        float max;
        int emax;
    } facts[] = {{"e2m1", 16, 8, true, true, 6, 2},   {"e1m2", 16, 8, true, true, 3.5f, 1},
                 {"e3m0", 16, 8, true, true, 16, 4},  {"e0m3", 16, 8, true, true, 7, 2},
                 {"int4", 15, 8, false, false, 7, 2}, {"int4-full", 16, 9, false, false, 8, 3},
                 {"nf4", 16, 15, false, false, 1, 0}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        const struct nib_element *e;
        struct nib_error error;
        NIB_OK_OR_FAIL(nib_element_open(facts[i].name, &e, &error), error);
        NIB_CHECKF(e->levels == facts[i].levels && e->magnitudes == facts[i].magnitudes &&
                       e->symmetric == facts[i].symmetric && e->has_negative_zero == facts[i].negative_zero &&
                       e->max_magnitude == facts[i].max && e->emax == facts[i].emax,
                   "%s: %u levels, %u magnitudes, max %g, emax %d", e->name, e->levels, e->magnitudes,
                   (double)e->max_magnitude, e->emax);
        nib_element_close(e);
    }
}

static void grids_from_levels_get_sign_magnitude_codes_where_they_can(void) {
    static const float symmetric[] = {-4, -1, 0, 1, 4}, skew[] = {-1, 0, 2}, falling[] = {1, 0};
    const struct nib_element *e;
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_element_from_levels("grid", symmetric, 5, &e, &error), error);
    CU_ASSERT(e->symmetric && e->levels == 6 && e->level[2] == 4 && e->level[10] == -4 && signbit(e->level[8]));
    const struct nib_element *again;
    NIB_OK_OR_FAIL(nib_element_parse(e->text, strlen(e->text), "grid.yaml", &again, &error), error);
    CU_ASSERT(again->symmetric && memcmp(again->rank_of_code, e->rank_of_code, 16) == 0);
    nib_element_close(again);
    nib_element_close(e);
    NIB_OK_OR_FAIL(nib_element_from_levels("skew", skew, 3, &e, &error), error);
    CU_ASSERT(!e->symmetric && e->levels == 3 && e->level[0] == -1 && e->level[2] == 2);
    nib_element_close(e);
    CU_ASSERT_EQUAL(nib_element_from_levels("falling", falling, 2, &e, &error), NIB_EINVAL);
    CU_ASSERT(strstr(error.text, "ascend") != NULL);
    CU_ASSERT_EQUAL(nib_element_from_levels("one", skew, 1, &e, &error), NIB_EINVAL);
}

struct outcome {
    struct nib_rule rule;
    uint8_t magnitude_of_code[16], tiny;
    enum nib_status status;
};

static struct outcome open_and_compile(const char *text, enum nib_rounding mode) {
    const struct nib_element *e;
    struct outcome o;
    memset(&o, 0, sizeof o);
    o.status = nib_element_parse(text, strlen(text), "grid.yaml", &e, NULL);
    if (o.status != NIB_OK) return o;
    nib_rule_compile(e, mode, &o.rule);
    memcpy(o.magnitude_of_code, e->magnitude_of_code, 16);
    o.tiny = nib_element_round_ref(e, mode, nib_float_of_bits(1));
    nib_element_close(e);
    return o;
}

/* Round up, flush to zero, denormals are zero. */
static void a_hostile_floating_point_environment_changes_nothing(void) {
    for (size_t i = 0; i < TABLES + STRANGE; i++) {
        const float *level;
        const struct nib_element *e = open_grid(i, &level);
        if (e == NULL) continue;
        for (int mode = 0; mode < NIB_ROUNDINGS; mode++) {
            struct outcome calm = open_and_compile(e->text, (enum nib_rounding)mode);
            fesetround(FE_UPWARD);
#if defined(__x86_64__)
            unsigned saved = _mm_getcsr();
            _mm_setcsr(saved | 0x8040);
#endif
            struct outcome hostile = open_and_compile(e->text, (enum nib_rounding)mode);
#if defined(__x86_64__)
            _mm_setcsr(saved);
#endif
            fesetround(FE_TONEAREST);
            CU_ASSERT_EQUAL(calm.status, NIB_OK);
            NIB_CHECKF(memcmp(&calm, &hostile, sizeof calm) == 0, "grid %zu %s", i,
                       nib_rounding_name((enum nib_rounding)mode));
        }
        nib_element_close(e);
    }
}

NIB_TEST_MAIN("rounding", {"levels are those of the specifications", levels_are_those_of_the_specifications},
              {"every threshold is where exact arithmetic puts it", every_threshold_is_where_exact_arithmetic_puts_it},
              {"every level is a fixed point", every_level_is_a_fixed_point},
              {"rounding is monotone and respects symmetry", rounding_is_monotone_and_respects_symmetry},
              {"zeros keep their sign where the grid has both", zeros_keep_their_sign_where_the_grid_has_both},
              {"ties go where the mode says", ties_go_where_the_mode_says},
              {"a hostile floating-point environment changes nothing",
               a_hostile_floating_point_environment_changes_nothing},
              {"derived fields follow from the levels", derived_fields_follow_from_the_levels},
              {"grids from levels get sign-magnitude codes where they can",
               grids_from_levels_get_sign_magnitude_codes_where_they_can})
