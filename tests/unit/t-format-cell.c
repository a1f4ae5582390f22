/* The cell of a number: borders, ties and distances, by hand and by walking from number to number. */
#include "core/key.h"
#include "format/cell.h"
#include "nib_test.h"
#include <math.h>

static const struct nib_element *e2m1;
static const struct nib_scale *e4m3, *e8m0;

static void formats_open(void) {
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_element_open("e2m1", &e2m1, &error), error);
    NIB_OK_OR_FAIL(nib_scale_open("e4m3", &e4m3, &error), error);
    NIB_OK_OR_FAIL(nib_scale_open("e8m0", &e8m0, &error), error);
}

static void cells_of_elements_by_hand(void) {
    static const struct {
        float x;
        enum nib_rounding mode;
        unsigned code;
        double below, above;
        bool tie;
        double distance;
    } cases[] = {
        {2.5f, NIB_RNE, 4, 1.75, 2.5, true, 0},
        {2.5f, NIB_RNA, 5, 2.5, 3.5, true, 0},
        {2.5f, NIB_RTZ, 4, 2, 3, false, 0x1p21},
        {0x1.400002p1f, NIB_RNE, 5, 2.5, 3.5, false, 1},
        {-0.75f, NIB_RNE, 10, -1.25, -0.75, true, 0},
        {0, NIB_RNE, 0, 0, 0.25, false, 0x3E800000},
        {-0.0f, NIB_RNE, 8, -0.25, 0, false, 0x3E800000},
        {7, NIB_RNE, 7, 5, INFINITY, false, 0x1p22},
        {-INFINITY, NIB_RTZ, 15, -INFINITY, -6, false, 0x7F800000 - 0x40C00000},
        {4, NIB_RTZ, 6, 4, 6, false, 0},
        {-4, NIB_RTZ, 14, -6, -4, false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct nib_cell c;
        nib_element_cell(e2m1, cases[i].mode, cases[i].x, &c);
        NIB_CHECKF(c.code == cases[i].code && c.below == cases[i].below && c.above == cases[i].above &&
                       c.tie == cases[i].tie && c.distance_ulp == cases[i].distance,
                   "case %zu: code %u, %g to %g, tie %d, %g ulps", i, c.code, c.below, c.above, c.tie, c.distance_ulp);
    }
}

static void cells_of_scales_by_hand(void) {
    static const struct {
        bool e8m0;
        float x;
        enum nib_scale_rounding mode;
        unsigned code;
        double below, above;
        bool tie;
        double distance;
    } cases[] = {
        {false, 8.5f, NIB_SCALE_NEAREST, 0x50, 7.75, 8.5, true, 0},
        {false, 200, NIB_SCALE_NEAREST, 0x74, 184, 200, true, 0},
        {false, -200, NIB_SCALE_NEAREST, 0xF4, -200, -184, true, 0},
        {false, 8.5f, NIB_SCALE_UP, 0x51, 8, 9, false, 0x1p19},
        {false, 500, NIB_SCALE_NEAREST, 0x7E, 432, INFINITY, false, 0x43FA0000 - 0x43D80000},
        {false, 0, NIB_SCALE_NEAREST, 0x00, 0, 0x1p-10, false, 0x3A800000},
        {true, 1.5f, NIB_SCALE_NEAREST, 0x80, 1.5, 3, true, 0},
        {true, 1.25f, NIB_SCALE_UP, 0x80, 1, 2, false, 0x1p21},
        {true, 1.25f, NIB_SCALE_DOWN, 0x7F, 1, 2, false, 0x1p21},
        {true, 0, NIB_SCALE_UP, 0x00, -INFINITY, 0x1p-127, false, 0x400000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct nib_cell c;
        nib_scale_cell(cases[i].e8m0 ? e8m0 : e4m3, cases[i].mode, cases[i].x, &c);
        NIB_CHECKF(c.code == cases[i].code && c.below == cases[i].below && c.above == cases[i].above &&
                       c.tie == cases[i].tie && c.distance_ulp == cases[i].distance,
                   "case %zu: code %x, %g to %g, tie %d, %g ulps", i, c.code, c.below, c.above, c.tie, c.distance_ulp);
    }
}

/* Between neighbouring binary32 numbers lies half a step. */
static void borders_between_two_numbers_are_half_a_step_away(void) {
    static const float values[] = {1, -1, 0x1.fffffep3f, 0x1p-149f, 3};
    const struct nib_scale *fp32;
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_scale_open("fp32", &fp32, &error), error);
    for (int i = 0; i < 5; i++) {
        struct nib_cell c;
        nib_scale_cell(fp32, NIB_SCALE_NEAREST, values[i], &c);
        NIB_CHECKF(c.distance_ulp == 0.5 && c.value == values[i] && !c.tie, "%a: %g ulps", (double)values[i],
                   c.distance_ulp);
    }
    nib_scale_close(fp32);
}

/* From a number whose border is d steps away one reaches another value after d steps (or on it), never before. */
static void distances_are_steps_to_another_value(void) {
    static const char *const names[] = {"e2m1", "nf4", "int4"};
    for (size_t f = 0; f < 3; f++) {
        const struct nib_element *e;
        struct nib_error error;
        NIB_OK_OR_FAIL(nib_element_open(names[f], &e, &error), error);
        for (int mode = 0; mode < NIB_ROUNDINGS; mode++) {
            struct nib_rule rule;
            nib_rule_compile(e, (enum nib_rounding)mode, &rule);
            for (unsigned t = 0; t + 1 < e->levels; t++)
                for (int32_t d = -6; d <= 6; d++) {
                    int32_t key = rule.threshold[t] + d;
                    float x = nib_float_of_bits(nib_bits_of_key(key));
                    struct nib_cell c;
                    nib_element_cell(e, (enum nib_rounding)mode, x, &c);
                    float here = e->level[nib_element_round_ref(e, (enum nib_rounding)mode, x)];
                    int first = -1;
                    for (int32_t s = 0; s <= 8 && first < 0; s++)
                        for (int side = -1; side <= 1; side += 2) {
                            float y = nib_float_of_bits(nib_bits_of_key(key + side * s));
                            if (e->level[nib_element_round_ref(e, (enum nib_rounding)mode, y)] != here) first = s;
                        }
                    /* a border on a number belongs to one side; a border between two is half a step off */
                    bool right =
                        first < 0 ? c.distance_ulp > 7 : c.distance_ulp <= first && c.distance_ulp >= first - 1;
                    NIB_CHECKF(right, "%s %s %a: %g ulps, another value after %d", names[f],
                               nib_rounding_name((enum nib_rounding)mode), (double)x, c.distance_ulp, first);
                }
        }
        nib_element_close(e);
    }
}

NIB_TEST_MAIN("cells", {"formats open", formats_open}, {"cells of elements by hand", cells_of_elements_by_hand},
              {"cells of scales by hand", cells_of_scales_by_hand},
              {"borders between two numbers are half a step away", borders_between_two_numbers_are_half_a_step_away},
              {"distances are steps to another value", distances_are_steps_to_another_value})
