/* Rounding and codec cases from public reports (the ids of the hand-over file
 * stand beside the rows). The expected values were computed anew from the definitions. */
#include "core/key.h"
#include "nib_test.h"
#include <math.h>
#include <nibble/element.h>
#include <nibble/scale.h>

static void element_cases(void) {
    static const struct {
        const char *id, *format;
        enum nib_rounding mode;
        float x;
        unsigned code;
    } cases[] = {
        {"rounding-ties-01", "e2m1", NIB_RNE, 0.25f, 0},
        {"rounding-ties-01", "e2m1", NIB_RNE, 0.75f, 2},
        {"rounding-ties-01", "e2m1", NIB_RNE, 1.25f, 2},
        {"rounding-ties-01", "e2m1", NIB_RNE, 1.75f, 4},
        {"rounding-ties-01", "e2m1", NIB_RNE, 2.5f, 4},
        {"rounding-ties-01", "e2m1", NIB_RNE, 3.5f, 6},
        {"rounding-ties-01", "e2m1", NIB_RNE, 5.0f, 6},
        {"rounding-ties-03", "e2m1", NIB_RNE, -5.0f, 14},
        {"rounding-ties-05", "e2m1", NIB_RNE, 0.9f, 2},
        {"rounding-ties-05", "e2m1", NIB_RNE, 1.4f, 3},
        {"rounding-ties-05", "e2m1", NIB_RNE, 2.9f, 5},
        {"rounding-ties-05", "e2m1", NIB_RNE, 5.9f, 7},
        {"rounding-ties-05", "e2m1", NIB_RNE, -3.9f, 14},
        {"rounding-ties-05", "e2m1", NIB_RTZ, -3.9f, 13},
        {"rounding-ties-05", "e2m1", NIB_RTZ, 5.9f, 6},
        {"e8m0-scale-01", "e2m1", NIB_RNE, 2.5f / 0.5f, 6},
        {"e8m0-scale-01", "e2m1", NIB_RNE, -0.5f / 0.5f, 10},
        {"e8m0-scale-03", "int4", NIB_RNE, 5, 5},
        {"e8m0-scale-09", "e2m1", NIB_RTZ, 6.0f / 3, 4},
        {"e8m0-scale-09", "e2m1", NIB_RTZ, 1.5f / 3, 1},
        {"e8m0-scale-11", "e2m1", NIB_RNE, 6.5f, 7},
        {"e8m0-scale-11", "e2m1", NIB_RNE, 0.25f, 0},
        {"nan-inf-04", "e2m1", NIB_RNE, -0.0f, 8},
        {"nan-inf-04", "e2m1", NIB_RNE, -0.1f, 8},
        {"nan-inf-04", "e2m1", NIB_RNE, INFINITY, 7},
        {"nan-inf-04", "e2m1", NIB_RNE, -INFINITY, 15},
        {"signed-zero-04", "int4", NIB_RNE, -1e-5f, 0},
        {"signed-zero-04", "nf4", NIB_RNE, -1e-5f, 7},
        {"grid-geometry-02", "e2m1", NIB_RNE, 3.75f, 6},
        {"grid-geometry-02", "e2m1", NIB_RNE, 4.75f, 6},
        {"grid-geometry-02", "e2m1", NIB_RNE, 2.375f, 4},
        {"grid-geometry-02", "e2m1", NIB_RNE, 2.6f, 5},
        {"grid-geometry-02", "e2m1", NIB_RNE, 3.4f, 5},
        {"grid-geometry-04", "e2m1", NIB_RNE, 0.3f, 1},
        {"grid-geometry-04", "e2m1", NIB_RNE, 0.2f, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct nib_element *e;
        struct nib_error error;
        NIB_OK_OR_FAIL(nib_element_open(cases[i].format, &e, &error), error);
        unsigned code = nib_element_round_ref(e, cases[i].mode, cases[i].x);
        NIB_CHECKF(code == cases[i].code, "%s: %s of %g is %u, not %u", cases[i].id, cases[i].format,
                   (double)cases[i].x, code, cases[i].code);
        nib_element_close(e);
    }
}

static void scale_encoding_cases(void) {
    static const struct {
        const char *id, *format;
        enum nib_scale_rounding mode;
        float x;
        uint32_t code;
    } cases[] = {
        {"rounding-ties-07", "e4m3", NIB_SCALE_NEAREST, 8.5f, 0x50},
        {"rounding-ties-07", "e4m3", NIB_SCALE_NEAREST, 9.5f, 0x52},
        {"rounding-ties-09", "e4m3", NIB_SCALE_NEAREST, 2.7f, 0x43},
        {"rounding-ties-09", "e4m3", NIB_SCALE_NEAREST, -0.3f, 0xAA},
        {"rounding-ties-09", "e4m3", NIB_SCALE_NEAREST, 200, 0x74},
        {"scale-overflow-02", "e4m3", NIB_SCALE_NEAREST, 896, 0x7E},
        {"e8m0-scale-05", "e8m0", NIB_SCALE_UP, 1, 0x7F},
        {"e8m0-scale-05", "e8m0", NIB_SCALE_UP, 0x1.000002p0f, 0x80},
        {"e8m0-scale-05", "e8m0", NIB_SCALE_UP, 0x1.666666p0f, 0x80},
        {"e8m0-scale-05", "e8m0", NIB_SCALE_UP, 1.5f, 0x80},
        {"e8m0-scale-05", "e8m0", NIB_SCALE_UP, 1.75f, 0x80},
        {"e8m0-scale-05", "e8m0", NIB_SCALE_UP, 3, 0x81},
        {"e8m0-scale-05", "e8m0", NIB_SCALE_DOWN, 1, 0x7F},
        {"e8m0-scale-05", "e8m0", NIB_SCALE_DOWN, 1.75f, 0x7F},
        {"e8m0-scale-05", "e8m0", NIB_SCALE_DOWN, 3, 0x80},
        {"e8m0-scale-05", "e8m0", NIB_SCALE_NEAREST, 0x1.666666p0f, 0x7F},
        {"e8m0-scale-05", "e8m0", NIB_SCALE_NEAREST, 1.5f, 0x80},
        {"e8m0-scale-05", "e8m0", NIB_SCALE_NEAREST, 1.75f, 0x80},
        {"e8m0-scale-05", "e8m0", NIB_SCALE_NEAREST, 3, 0x80},
        {"e8m0-scale-07", "e8m0", NIB_SCALE_UP, 2.5f, 0x81},
        {"e8m0-scale-07", "e8m0", NIB_SCALE_UP, 3.5f, 0x81},
        {"e8m0-scale-07", "e8m0", NIB_SCALE_UP, 2, 0x80},
        {"e8m0-scale-07", "e8m0", NIB_SCALE_NEAREST, 2.5f, 0x80},
        {"e8m0-scale-07", "e8m0", NIB_SCALE_NEAREST, 3.5f, 0x81},
        {"e8m0-scale-07", "e8m0", NIB_SCALE_NEAREST, 2, 0x80},
        {"zero-tiny-03", "e8m0", NIB_SCALE_UP, 0, 0x00},
        {"zero-tiny-09", "e8m0", NIB_SCALE_UP, 0, 0x00},
        {"zero-tiny-09", "e8m0", NIB_SCALE_UP, NAN, 0xFF},
        {"zero-tiny-09", "e8m0", NIB_SCALE_UP, INFINITY, 0xFE},
        {"zero-tiny-09", "e8m0", NIB_SCALE_UP, 3.0e38f, 0xFE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct nib_scale *s;
        struct nib_error error;
        NIB_OK_OR_FAIL(nib_scale_open(cases[i].format, &s, &error), error);
        uint32_t code = nib_scale_encode(s, cases[i].mode, cases[i].x);
        NIB_CHECKF(code == cases[i].code, "%s: %s of %a is %02x, not %02x", cases[i].id, cases[i].format,
                   (double)cases[i].x, code, cases[i].code);
        nib_scale_close(s);
    }
}

static void scale_decoding_cases(void) {
    static const struct {
        const char *id, *format;
        uint32_t code;
        float value;
    } cases[] = {
        {"scale-overflow-04", "e4m3", 0x01, 0.001953125f},
        {"scale-overflow-04", "e4m3", 0x08, 0.015625f},
        {"scale-overflow-04", "e4m3", 0x38, 1},
        {"scale-overflow-04", "e4m3", 0x7E, 448},
        {"scale-overflow-04", "e4m3", 0x7F, NAN},
        {"zero-tiny-05", "e4m3", 0x03, 0.005859375f},
        {"zero-tiny-05", "e4m3", 0x07, 0.013671875f},
        {"zero-tiny-05", "e4m3", 0x80, -0.0f},
        {"zero-tiny-07", "e4m3", 0x01, 0.01171875f / 6},
        {"e8m0-special-02", "e8m0", 0x00, 0x1.8p-125f / 6},
        {"e8m0-special-04", "e8m0", 0x00, 0x1p-127f},
        {"zero-tiny-03", "e8m0", 0x7F, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct nib_scale *s;
        struct nib_error error;
        NIB_OK_OR_FAIL(nib_scale_open(cases[i].format, &s, &error), error);
        float value = nib_scale_decode(s, cases[i].code);
        bool right =
            isnan(cases[i].value) ? isnan(value) : nib_bits_of_float(value) == nib_bits_of_float(cases[i].value);
        NIB_CHECKF(right, "%s: %s code %02x is %a", cases[i].id, cases[i].format, cases[i].code, (double)value);
        nib_scale_close(s);
    }
}

/* grid-geometry-02: the centre of each E2M1 bin against its level, equation (2) of the UFP4 paper. */
static void bins_of_a_non_uniform_grid_are_off_centre(void) {
    static const float bin4[] = {3.5f, 3.75f, 4, 4.25f, 4.5f, 4.75f, 5};
    static const float bin2[] = {1.75f, 1.875f, 2, 2.125f, 2.25f, 2.375f, 2.5f};
    const struct nib_element *e;
    struct nib_error error;
    double error4 = 0, error2 = 0;
    NIB_OK_OR_FAIL(nib_element_open("e2m1", &e, &error), error);
    for (int i = 0; i < 7; i++) {
        error4 += (double)(e->level[nib_element_round_ref(e, NIB_RNE, bin4[i])] - bin4[i]) / 7;
        error2 += (double)(e->level[nib_element_round_ref(e, NIB_RNE, bin2[i])] - bin2[i]) / 7;
    }
    CU_ASSERT_DOUBLE_EQUAL(error4, -0.25, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(error2, -0.125, 1e-12);
    nib_element_close(e);
}

NIB_TEST_MAIN("public cases", {"element cases", element_cases}, {"scale encoding cases", scale_encoding_cases},
              {"scale decoding cases", scale_decoding_cases},
              {"bins of a non-uniform grid are off centre", bins_of_a_non_uniform_grid_are_off_centre})
