/* Rotations against the definition y = (x * s) H / sqrt(n), evaluated exactly in rational numbers. */
#include <nibble/rotate.h>

#include "nib_test.h"
#include <fenv.h>
#include <gmp.h>
#include <math.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

static const int signs_of_rht16[16] = {1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1}; /* HD1 */

/* A generator of its own, so that inputs are the same everywhere. */
static uint64_t state;
static uint32_t next_word(void) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 32);
}

/* Entry (i, j) of Sylvester's matrix. */
static int entry(unsigned i, unsigned j) { return __builtin_popcount(i & j) % 2 == 0 ? 1 : -1; }

/* 4 y_j of one group of 16, exactly, and 4 sum |x|. */
static void exact_16(const float *x, size_t step, const int *signs, unsigned j, mpq_t sum, mpq_t magnitude) {
    mpq_t term;
    mpq_init(term);
    mpq_set_ui(sum, 0, 1);
    mpq_set_ui(magnitude, 0, 1);
    for (unsigned i = 0; i < 16; i++) {
        mpq_set_d(term, (double)x[i * step] * entry(i, j) * (signs == NULL ? 1 : signs[i]));
        mpq_add(sum, sum, term);
        mpq_abs(term, term);
        mpq_add(magnitude, magnitude, term);
    }
    mpq_clear(term);
}

static void rotate(const char *name, const float *x, size_t rows, size_t cols, enum nib_axis axis, int threads,
                   float *y) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    const struct nib_rotation *rotation = NULL;
    NIB_OK_OR_FAIL(nib_rotation_open(name, &rotation, &error), error);
    NIB_OK_OR_FAIL(nib_rotate(rotation, (struct nib_view){x, NIB_F32, rows, cols, cols}, axis, threads, y, &error), error);
    nib_rotation_close(rotation);
}

enum { ROWS = 48, COLS = 80 };

/* Every element of both axes; `exact` demands equality, else the bound of four rounded additions. */
static void check_all(const float *x, bool exact) {
    static float y[ROWS * COLS];
    mpq_t sum, magnitude, got;
    mpq_inits(sum, magnitude, got, NULL);
    for (int named = 0; named < 2; named++)
        for (int axis = 0; axis < 2; axis++) {
            rotate(named ? "rht16" : "hadamard16", x, ROWS, COLS, (enum nib_axis)axis, 2, y);
            unsigned bad = 0;
            for (size_t r = 0; r < ROWS; r++)
                for (size_t c = 0; c < COLS; c++) {
                    size_t step = axis == NIB_ALONG_COLS ? 1 : COLS, place = axis == NIB_ALONG_COLS ? c : r;
                    size_t start = r * COLS + c - place % 16 * step;
                    exact_16(x + start, step, named ? signs_of_rht16 : NULL, (unsigned)(place % 16), sum, magnitude);
                    mpq_set_d(got, 4 * (double)y[r * COLS + c]);
                    mpq_sub(got, got, sum);
                    mpq_abs(got, got);
                    if (exact) {
                        bad += mpq_sgn(got) != 0;
                    } else { /* 4 u (1 + tiny) of the sum of magnitudes, u = 2^-24 */
                        mpq_div_2exp(magnitude, magnitude, 22);
                        mpq_set_ui(sum, 1001, 1000);
                        mpq_mul(magnitude, magnitude, sum);
                        bad += mpq_cmp(got, magnitude) > 0;
                    }
                }
            NIB_CHECKF(bad == 0, "%u elements of %s along %s", bad, named ? "rht16" : "hadamard16",
                       axis == NIB_ALONG_COLS ? "columns" : "rows");
        }
    mpq_clears(sum, magnitude, got, NULL);
}

static void integers_are_rotated_exactly(void) {
    static float x[ROWS * COLS];
    state = 1;
    for (size_t i = 0; i < ROWS * COLS; i++) x[i] = (float)((int32_t)next_word() >> 12); /* sums stay below 2^24 */
    check_all(x, true);
}

static void any_input_is_within_the_bound_of_four_additions(void) {
    static float x[ROWS * COLS];
    state = 2;
    for (size_t i = 0; i < ROWS * COLS; i++)
        x[i] = ldexpf((float)(int32_t)next_word(), (int)(next_word() % 40) - 50);
    check_all(x, false);
}

/* The butterfly's order, small stride first, decides the last bit: recomputed here step by step. */
static void additions_happen_small_stride_first(void) {
    static float x[16 * 64], y[16 * 64];
    state = 3;
    for (size_t i = 0; i < 16 * 64; i++) x[i] = ldexpf((float)(int32_t)next_word(), (int)(next_word() % 30) - 40);
    rotate("rht16", x, 64, 16, NIB_ALONG_COLS, 1, y);
    unsigned bad = 0;
    for (size_t g = 0; g < 64; g++) {
        volatile float v[16], w[16];
        for (int i = 0; i < 16; i++) v[i] = x[g * 16 + (size_t)i] * (float)signs_of_rht16[i];
        for (int bit = 1; bit < 16; bit <<= 1) {
            for (int i = 0; i < 16; i++) w[i] = (i & bit) == 0 ? v[i] + v[i | bit] : v[i & ~bit] - v[i];
            for (int i = 0; i < 16; i++) v[i] = w[i];
        }
        for (int i = 0; i < 16; i++) bad += v[i] * 0.25f != y[g * 16 + (size_t)i];
    }
    NIB_CHECKF(bad == 0, "%u of 1024", bad);
}

static void threads_and_place_change_no_bit(void) {
    static float x[ROWS * COLS], one[ROWS * COLS], many[ROWS * COLS];
    state = 4;
    for (size_t i = 0; i < ROWS * COLS; i++) x[i] = ldexpf((float)(int32_t)next_word(), (int)(next_word() % 40) - 50);
    for (int axis = 0; axis < 2; axis++) {
        rotate("rht16", x, ROWS, COLS, (enum nib_axis)axis, 1, one);
        for (int threads = 2; threads <= 7; threads += 5) {
            rotate("rht16", x, ROWS, COLS, (enum nib_axis)axis, threads, many);
            CU_ASSERT(memcmp(one, many, sizeof one) == 0);
        }
    }
    /* The transpose rotated along the other axis is the transpose. */
    static float turned[ROWS * COLS];
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < COLS; c++) turned[c * ROWS + r] = x[r * COLS + c];
    rotate("rht16", x, ROWS, COLS, NIB_ALONG_ROWS, 1, one);
    rotate("rht16", turned, COLS, ROWS, NIB_ALONG_COLS, 1, many);
    unsigned bad = 0;
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < COLS; c++) bad += one[r * COLS + c] != many[c * ROWS + r];
    CU_ASSERT(bad == 0);
}

static void bf16_and_fp16_inputs_are_their_exact_values(void) {
    static uint16_t half[2 * 32];
    static float x[2 * 32], y[2 * 32], z[2 * 32];
    struct nib_error error;
    const struct nib_rotation *rotation = NULL;
    NIB_OK_OR_FAIL(nib_rotation_open("rht16", &rotation, &error), error);
    state = 5;
    for (int dtype = NIB_BF16; dtype <= NIB_F16; dtype++) {
        for (size_t i = 0; i < 64; i++) {
            half[i] = (uint16_t)next_word();
            int exponent, fraction = half[i], sign = half[i] >> 15 ? -1 : 1;
            if (dtype == NIB_F16) {
                half[i] &= 0xBFFF; /* no infinity, no NaN; subnormals are likely enough below */
                if (i % 5 == 0) half[i] &= 0x83FF;
                fraction = half[i] & 0x3FF;
                exponent = half[i] >> 10 & 0x1F;
                x[i] = (float)sign * (exponent == 0 ? ldexpf((float)fraction, -24)
                                                    : ldexpf((float)(fraction + 1024), exponent - 25));
            } else {
                half[i] = (uint16_t)((half[i] & 0x9FFF) | 0x2000);
                fraction = half[i] & 0x7F;
                exponent = half[i] >> 7 & 0xFF;
                x[i] = (float)sign * ldexpf((float)(fraction + 128), exponent - 134);
            }
        }
        NIB_OK_OR_FAIL(nib_rotate(rotation, (struct nib_view){half, (enum nib_dtype)dtype, 2, 32, 32}, NIB_ALONG_COLS,
                                  1, y, &error), error);
        rotate("rht16", x, 2, 32, NIB_ALONG_COLS, 1, z);
        CU_ASSERT(memcmp(y, z, sizeof y) == 0);
    }
    nib_rotation_close(rotation);
}

static const char size_4[] = "kind: rotation\ntitle: four\nsource: the test\nsize: 4\n";

static void rotate_4(const float *x, float *y) {
    struct nib_error error;
    const struct nib_rotation *rotation = NULL;
    NIB_OK_OR_FAIL(nib_rotation_parse(size_4, sizeof size_4 - 1, "four.yaml", &rotation, &error), error);
    NIB_OK_OR_FAIL(nib_rotate(rotation, (struct nib_view){x, NIB_F32, 1, 4, 4}, NIB_ALONG_COLS, 1, y, &error), error);
    nib_rotation_close(rotation);
}

/* Cases from public reports; the numbers are recomputed from the definition there. */
static void reported_cases_hold(void) {
    /* TensorRT-LLM pull 15158: products survive when both sides are rotated, and only then. */
    const float q[4] = {1, 2, 0, 0}, k[4] = {3, 1, 0, 0}, hq[4] = {1.5, -0.5, 1.5, -0.5}, hk[4] = {2, 1, 2, 1};
    float y[4], z[4];
    rotate_4(q, y);
    rotate_4(k, z);
    CU_ASSERT(memcmp(y, hq, sizeof hq) == 0 && memcmp(z, hk, sizeof hk) == 0);
    CU_ASSERT(y[0] * z[0] + y[1] * z[1] + y[2] * z[2] + y[3] * z[3] == 5.0f);
    /* QuaRot issue 4: a weight and an activation without a common component. */
    const float w[4] = {0, 1, 0, 0}, x[4] = {4, 0, 0, 0};
    rotate_4(w, y);
    rotate_4(x, z);
    CU_ASSERT(y[0] * z[0] + y[1] * z[1] + y[2] * z[2] + y[3] * z[3] == 0.0f);
    /* Model-Optimizer issue 1424: two inputs, two outputs. */
    const float x1[4] = {1, 0, 0, 0}, x2[4] = {0, 1, 0, 0}, y1[4] = {.5, .5, .5, .5}, y2[4] = {.5, -.5, .5, -.5};
    rotate_4(x1, y);
    CU_ASSERT(memcmp(y, y1, sizeof y) == 0);
    rotate_4(x2, y);
    CU_ASSERT(memcmp(y, y2, sizeof y) == 0);
    /* ROCm TransformerEngine pull 509: signs act on the input, not on the output. */
    const float impulse[16] = {0, 0, 0, 4};
    const float expected[16] = {-1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1};
    float got[16];
    rotate("rht16", impulse, 1, 16, NIB_ALONG_COLS, 1, got);
    CU_ASSERT(memcmp(got, expected, sizeof got) == 0);
}

static void none_keeps_every_bit(void) {
    const uint32_t bits[6] = {0x7FC12345, 0xFF800001, 0x80000000, 0x00000001, 0x7F800000, 0x3F800000};
    uint32_t out[6];
    float x[6], y[6];
    memcpy(x, bits, sizeof x);
    rotate("none", x, 2, 3, NIB_ALONG_ROWS, 1, y);
    memcpy(out, y, sizeof out);
    CU_ASSERT(memcmp(out, bits, sizeof bits) == 0);
}

static void a_nan_fills_its_group_with_one_pattern(void) {
    float x[32], y[32];
    for (int i = 0; i < 32; i++) x[i] = 1.0f;
    uint32_t payload = 0xFFC54321, bits;
    memcpy(&x[5], &payload, 4);
    rotate("rht16", x, 1, 32, NIB_ALONG_COLS, 1, y);
    for (int i = 0; i < 16; i++) {
        memcpy(&bits, &y[i], 4);
        CU_ASSERT(bits == 0x7FFFFFFFu);
    }
    for (int i = 16; i < 32; i++) CU_ASSERT(y[i] == y[i]);
}

static void a_wrong_extent_names_the_padded_one(void) {
    static float x[30 * 17], y[30 * 17];
    struct nib_error error = {NIB_OK, 0, "", ""};
    const struct nib_rotation *rotation = NULL;
    NIB_OK_OR_FAIL(nib_rotation_open("rht16", &rotation, &error), error);
    struct nib_view view = {x, NIB_F32, 30, 17, 17};
    CU_ASSERT(nib_rotate(rotation, view, NIB_ALONG_COLS, 1, y, &error) == NIB_EINVAL);
    NIB_CHECKF(strstr(error.text, "pad them to 32") != NULL, "%s", error.text);
    CU_ASSERT(nib_rotate(rotation, view, NIB_ALONG_ROWS, 1, y, &error) == NIB_EINVAL);
    NIB_CHECKF(strstr(error.text, "30 rows") != NULL && strstr(error.text, "pad them to 32") != NULL, "%s", error.text);
    nib_rotation_close(rotation);
}

static void wrong_files_are_refused_with_their_line(void) {
    static const struct {
        const char *text;
        int line;
        const char *says;
    } bad[] = {
        {"kind: rotation\ntitle: t\nsource: s\nsize: 14\n", 4, "the next one is 16"},
        {"kind: rotation\ntitle: t\nsource: s\nsize: 4\nsigns: [1, 1, -1]\n", 5, "4 numbers"},
        {"kind: rotation\ntitle: t\nsource: s\nsize: 2\nsigns: [1, 2]\n", 5, "expected 1 or -1"},
        {"kind: rotation\ntitle: t\nsource: s\nsize: 2\nsign: [1, 1]\n", 5, "signs"},
        {"kind: rotation\ntitle: t\nsource: s\nsize: 2\noutput: fp8\n", 5, "bf16"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct nib_error error = {NIB_OK, 0, "", ""};
        const struct nib_rotation *rotation = NULL;
        CU_ASSERT(nib_rotation_parse(bad[i].text, strlen(bad[i].text), "bad.yaml", &rotation, &error) != NIB_OK);
        NIB_CHECKF(error.line == bad[i].line && strstr(error.text, bad[i].says) != NULL, "case %zu: line %d: %s", i,
                   error.line, error.text);
        CU_ASSERT(rotation == NULL);
    }
    struct nib_error error = {NIB_OK, 0, "", ""};
    const struct nib_rotation *rotation = NULL;
    CU_ASSERT(nib_rotation_open("rht6", &rotation, &error) == NIB_ENOTFOUND);
    NIB_CHECKF(strstr(error.text, "rht16") != NULL, "%s", error.text);
}

/* Sizes that are no power of 4 need a rounded factor, too. */
static void a_hostile_environment_changes_no_bit(void) {
    static const char size_8[] = "kind: rotation\ntitle: eight\nsource: the test\nsize: 8\n";
    static float x[ROWS * COLS], friendly[ROWS * COLS], hostile[ROWS * COLS];
    struct nib_error error = {NIB_OK, 0, "", ""};
    state = 6;
    for (size_t i = 0; i < ROWS * COLS; i++) x[i] = ldexpf((float)(int32_t)next_word(), (int)(next_word() % 40) - 160);
    struct nib_view view = {x, NIB_F32, ROWS, COLS, COLS};
    for (int pass = 0; pass < 2; pass++) {
        const struct nib_rotation *rotation = NULL;
        int rounding = fegetround();
#if defined(__x86_64__)
        unsigned control = _mm_getcsr();
#endif
        if (pass == 1) {
            fesetround(FE_UPWARD);
#if defined(__x86_64__)
            _mm_setcsr(_mm_getcsr() | 0x8040); /* flush to zero, denormals are zero */
#endif
        }
        enum nib_status status = nib_rotation_parse(size_8, sizeof size_8 - 1, "eight.yaml", &rotation, &error);
        if (status == NIB_OK) status = nib_rotate(rotation, view, NIB_ALONG_ROWS, 2, pass == 0 ? friendly : hostile, &error);
        bool kept = pass == 0 || fegetround() == FE_UPWARD;
        fesetround(rounding);
#if defined(__x86_64__)
        _mm_setcsr(control);
#endif
        NIB_CHECKF(status == NIB_OK && kept, "%s", error.text);
        nib_rotation_close(rotation);
    }
    CU_ASSERT(memcmp(friendly, hostile, sizeof friendly) == 0);
}

NIB_TEST_MAIN("rotations", {"a hostile environment changes no bit", a_hostile_environment_changes_no_bit},
              {"integers are rotated exactly", integers_are_rotated_exactly},
              {"any input is within the bound of four additions", any_input_is_within_the_bound_of_four_additions},
              {"additions happen small stride first", additions_happen_small_stride_first},
              {"threads and place change no bit", threads_and_place_change_no_bit},
              {"bf16 and fp16 inputs are their exact values", bf16_and_fp16_inputs_are_their_exact_values},
              {"reported cases hold", reported_cases_hold}, {"none keeps every bit", none_keeps_every_bit},
              {"a NaN fills its group with one pattern", a_nan_fills_its_group_with_one_pattern},
              {"a wrong extent names the padded one", a_wrong_extent_names_the_padded_one},
              {"wrong files are refused with their line", wrong_files_are_refused_with_their_line})
