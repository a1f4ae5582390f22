/* Quantizers that were transcribed, on the numbers that their papers and sources give: worked examples, scales of
 * chosen amaxes, and what Gaussian and Laplace numbers lose. */
#include "core/key.h"
#include "nib_test.h"

#include <math.h>
#include <nibble/quantize.h>

#include "job/sample.h"

enum { ALL = NIB_WANT_CODES | NIB_WANT_PACKED | NIB_WANT_SCALES | NIB_WANT_VALUES };

static struct nib_quantized quantized(const char *name, const float *x, size_t rows, size_t cols,
                                      const struct nib_quantize_options *options) {
    const struct nib_quantizer *q;
    struct nib_error error;
    struct nib_quantized out = {0};
    struct nib_view view = {x, NIB_F32, rows, cols, cols};
    if (nib_quantizer_open(name, &q, &error) != NIB_OK ||
        nib_quantized_alloc(q, rows, cols, NIB_ALONG_COLS, ALL, &out, &error) != NIB_OK ||
        nib_quantize(q, view, options, &out, &error) != NIB_OK) {
        fprintf(stderr, "%s: %s\n", name, error.text);
        exit(2);
    }
    nib_quantizer_close(q);
    return out;
}

/* x_i = i/8: the scale is 9*(1/7) in bfloat16, 1.125, a tie that goes to 1. */
static void hif4_gives_its_worked_example(void) {
    static const float expected[64] = {
        0, .25f, .25f, .5f,  .5f,  .75f, .75f, 1, 1, 1.25f, 1.25f, 1.5f, 1.5f, 1.75f, 1.75f, 1.75f,
        2, 2,    2.5f, 2.5f, 2.5f, 2.5f, 3,    3, 3, 3,     3.5f,  3.5f, 3.5f, 3.5f,  3.5f,  3.5f,
        4, 4,    4,    4,    5,    5,    5,    5, 5, 5,     5,     5,    6,    6,     6,     6,
        6, 6,    6,    6,    7,    7,    7,    7, 7, 7,     7,     7,    7,    7,     7,     7};
    float x[64];
    for (int i = 0; i < 64; i++) x[i] = (float)i / 8;
    struct nib_quantized out = quantized("hif4", x, 1, 64, NULL);
    double squares = 0;
    for (int i = 0; i < 64; i++) {
        NIB_CHECKF(out.values[i] == expected[i], "element %d is %g, not %g", i, (double)out.values[i],
                   (double)expected[i]);
        squares += ((double)out.values[i] - (double)x[i]) * ((double)out.values[i] - (double)x[i]);
    }
    CU_ASSERT_EQUAL(squares, 4.875);
    CU_ASSERT_EQUAL(out.scales[0], 48 << 2); /* E6M2 of 1 */
    nib_quantized_free(&out);
}

/* Extremes of E6M2: 2^-48 and 1.5 * 2^15, and its reciprocals in bfloat16. */
static void hif4_scales_stay_in_range(void) {
    static const struct {
        float amax;
        uint8_t scale;
        float largest;
    } rows[] = {{0, 0, 0},
                {0x1p-60f, 0, 0},
                {7 * 0x1p-48f, 0, 7 * 0x1p-48f},
                {1e9f, 0xFE, 344064},
                {7 * 49152.0f, 0xFE, 344064},
                {7 * 1.25f, 0xC1, 8.75f}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float x[64] = {rows[i].amax, -rows[i].amax};
        struct nib_quantized out = quantized("hif4", x, 1, 64, NULL);
        NIB_CHECKF(out.scales[0] == rows[i].scale && out.values[0] == rows[i].largest &&
                       out.values[1] == -rows[i].largest,
                   "amax %g: scale %02X, largest %g", (double)rows[i].amax, out.scales[0], (double)out.values[0]);
        nib_quantized_free(&out);
    }
}

static void tetrajet_cuts_nothing_off(void) {
    static const struct {
        float amax;
        int exponent;
    } rows[] = {{5.9f, 0}, {6, 0}, {6.1f, 1}, {12, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct nib_quantized out = quantized("tetrajet-mxfp4", &rows[i].amax, 1, 1, NULL);
        NIB_CHECKF(out.scales[0] == 127 + rows[i].exponent, "amax %g: scale %02X", (double)rows[i].amax, out.scales[0]);
        nib_quantized_free(&out);
    }
}

/* The kernels are compiled with --use_fast_math: a/448 is div.approx.ftz, a product with the reciprocal, and those of
 * 448 and 6 are the numbers next to them. */
static float by_448(float a) {
    volatile float quotient = a * (1 / 448.0f);
    return quotient;
}
static float by_6(float a) {
    volatile float quotient = a * (1 / 6.0f);
    return quotient;
}

static void tetrajet2_divides_twice_by_reciprocals(void) {
    static const float amaxes[] = {0.6875f, 0.75f, 1.75f, 2.75f, 7.75f, 2688, 0x1.234568p-9f};
    struct nib_quantize_options given = {.has_tensor_amax = true};
    struct nib_quantized out;
    for (size_t i = 0; i < sizeof amaxes / sizeof *amaxes; i++) {
        given.tensor_amax = amaxes[i];
        out = quantized("tetrajet2-nvfp4", amaxes, 1, 1, &given);
        float expected = by_6(by_448(amaxes[i]));
        NIB_CHECKF(out.tensor_scale_decode == expected, "D of %g is %a, not %a", (double)amaxes[i],
                   (double)out.tensor_scale_decode, (double)expected);
        nib_quantized_free(&out);
    }
    /* scales that underflow leave nothing; those of zeros become the smallest */
    given.tensor_amax = 1;
    float tiny[19] = {0x1p-20f, 0, -0x1p-20f};
    out = quantized("tetrajet2-nvfp4", tiny, 1, 19, &given);
    CU_ASSERT_EQUAL(out.scales[0], 0);
    CU_ASSERT(out.codes[0] == 0 && out.codes[1] == 0 && out.codes[2] == 8);
    CU_ASSERT_EQUAL(out.scales[1], 1);
    nib_quantized_free(&out);
}

static void segments_are_tensors_of_their_own(void) {
    enum { ROWS = 3, COLS = 300 };
    static float x[ROWS * COLS];
    struct nib_distribution laplace;
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_distribution_parse("laplace", &laplace, &error), error);
    nib_distribution_fill(&laplace, 3, 0, ROWS * COLS, 1, x);
    for (size_t j = 128; j < 256; j++) x[COLS + j] = 0; /* a segment of zeros */
    const struct nib_quantizer *base, *alone;
    const char *setting = "tensor_scope=tensor";
    NIB_OK_OR_FAIL(nib_quantizer_open("tetrajet2-nvfp4", &base, &error), error);
    NIB_OK_OR_FAIL(nib_quantizer_with(base, &setting, 1, &alone, &error), error);
    struct nib_quantized whole = quantized("tetrajet2-nvfp4", x, ROWS, COLS, NULL), part;
    CU_ASSERT_EQUAL(whole.line_parts, 3);
    for (size_t row = 0; row < ROWS; row++)
        for (size_t start = 0; start < COLS; start += 128) {
            size_t count = COLS - start < 128 ? COLS - start : 128;
            struct nib_view view = {x + row * COLS + start, NIB_F32, 1, count, count};
            NIB_OK_OR_FAIL(nib_quantized_alloc(alone, 1, count, NIB_ALONG_COLS, ALL, &part, &error), error);
            NIB_OK_OR_FAIL(nib_quantize(alone, view, NULL, &part, &error), error);
            bool same =
                memcmp(part.codes, whole.codes + row * COLS + start, count) == 0 &&
                memcmp(part.scales, whole.scales + row * whole.scale_cols + start / 16, (count + 15) / 16) == 0 &&
                memcmp(part.values, whole.values + row * COLS + start, count * sizeof(float)) == 0 &&
                whole.line_amax[row * 3 + start / 128] == part.tensor_amax;
            NIB_CHECKF(same, "row %zu from column %zu differs", row, start);
            nib_quantized_free(&part);
        }
    float *back = malloc(sizeof x);
    NIB_OK_OR_FAIL(nib_dequantize(base, &whole, back, &error), error);
    CU_ASSERT(memcmp(back, whole.values, sizeof x) == 0);
    free(back);
    nib_quantized_free(&whole);
    nib_quantizer_close(alone);
    nib_quantizer_close(base);
}

/* quant_fp4.cu: the generator of four elements, noise of half a step that keeps to the binade, then to even. */
static float noisy(float y, uint32_t state) {
    float a = fabsf(y), r = nib_float_of_bits(0x3F800000u | state >> 9) - 1.5f;
    float step = a <= 2 ? 0.5f : a <= 4 ? 1 : 2, low = a <= 2 ? 0 : a <= 4 ? 2 : 4, high = a <= 2 ? 2 : a <= 4 ? 4 : 6;
    float t = a + r * step;
    t = t < low ? low : t > high ? high : t;
    float units = t < 2 ? 0.5f : t < 4 ? 1 : 2;
    return copysignf(rintf(t / units) * units, y);
}

static void tetrajet2_draws_as_its_kernel(void) {
    enum { ROWS = 2, COLS = 128, SEED = 77 };
    static const float level[16] = {0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -.5f, -1, -1.5f, -2, -3, -4, -6};
    int compared = 0;
    float x[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++) x[i] = (i % 3 == 0 ? -1.0f : 1.0f) * (float)(i * 37 % 101) * 0x1p-4f;
    for (int row = 0; row < ROWS; row++) /* D is next to 1, and s is 1 but in the first block */
        for (int block = 0; block < 8; block++) x[row * COLS + block * 16] = block == 0 ? 2688 : 6;
    struct nib_quantize_options options = {.seed = SEED};
    struct nib_quantized out = quantized("tetrajet2-nvfp4-sr", x, ROWS, COLS, &options);
    for (uint32_t i = 0; i < ROWS * COLS; i++) {
        uint32_t state = (SEED + (i & ~3u) * 0x9E3779B1u) * 747796405u + 2891336453u;
        for (uint32_t k = 0; k <= i % 4; k++) state = state * 1664525u + 1013904223u;
        if (i % COLS < 16) continue;
        float y = x[i] / out.tensor_scale_decode, wanted = noisy(y, state);
        if (noisy(y * 0.999999f, state) != noisy(y * 1.000001f, state)) continue; /* the reciprocal is approximate */
        compared++;
        NIB_CHECKF(level[out.codes[i]] == wanted, "element %u, %g, is %g and not %g", i, (double)x[i],
                   (double)level[out.codes[i]], (double)wanted);
    }
    NIB_CHECKF(compared > 200, "only %d elements are compared", compared);
    nib_quantized_free(&out);
}

static void bof4_maps_the_largest_to_one(void) {
    float x[16] = {1, -4, 2, 3.9f};
    struct nib_quantized out = quantized("bof4-s-16", x, 1, 16, NULL), plain = quantized("bof4-16", x, 1, 16, NULL);
    CU_ASSERT_EQUAL(out.values[1], -4);
    CU_ASSERT_EQUAL(out.codes[1], 15);                       /* +1 under a scale of -4 */
    CU_ASSERT(fabsf(out.values[3] - 4 * 0.886742f) < 1e-6f); /* the other end is nearer to zero */
    CU_ASSERT_EQUAL(plain.codes[1], 0);                      /* -1 under a scale of 4 */
    CU_ASSERT_EQUAL(plain.values[3], 4);
    float back[16];
    const struct nib_quantizer *q;
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_quantizer_open("bof4-s-16", &q, &error), error);
    NIB_OK_OR_FAIL(nib_dequantize(q, &out, back, &error), error);
    CU_ASSERT(memcmp(back, out.values, sizeof back) == 0);
    nib_quantizer_close(q);
    nib_quantized_free(&plain);
    nib_quantized_free(&out);
}

/* 1000 times the squared error over the squares, and 1 - alpha; NAN where nothing is published. */
static const struct {
    const char *quantizer, *distribution;
    double error, loss;
} published[] = {
    {"hif4", "gaussian", 6.88, 0.0060},
    {"hif4", "laplace", 7.96, NAN},
    {"tetrajet2-nvfp4", "gaussian", 9.01, 0.0044},
    {"tetrajet2-nvfp4-sr", "gaussian", 18.71, 0.0027},
    {"tetrajet2-nvfp4-sr", "laplace", 17.84, NAN},
    {"tetrajet-mxfp4", "gaussian", 13.32, 0.0100},
    {"tetrajet-mxfp4-sr", "gaussian", 27.08, 0},
    {"tetrajet-mxfp4", "laplace", 17.47, NAN},
    {"tetrajet-mxfp4-sr", "laplace", 35.49, NAN},
    {"bof4-16", "gaussian", 5.56, NAN},
    {"bof4-s-16", "gaussian", 5.13, NAN},
    {"bof4-32", "gaussian", 6.87, NAN},
    {"bof4-s-32", "gaussian", 6.33, NAN},
    {"bof4-64", "gaussian", 7.99, NAN},
    {"bof4-s-64", "gaussian", 7.35, NAN},
};

static void losses_are_the_published_ones(void) {
    enum { ROWS = 256, COLS = 4096, COUNT = ROWS * COLS };
    float *x = malloc(sizeof(float) * COUNT);
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        struct nib_distribution distribution;
        struct nib_error error;
        double xx = 0, xq = 0, ee = 0;
        NIB_OK_OR_FAIL(nib_distribution_parse(published[i].distribution, &distribution, &error), error);
        nib_distribution_fill(&distribution, 20251101, 0, COUNT, 2, x);
        struct nib_quantize_options options = {.seed = 1};
        struct nib_quantized out = quantized(published[i].quantizer, x, ROWS, COLS, &options);
        for (size_t j = 0; j < COUNT; j++) {
            double a = (double)x[j], b = (double)out.values[j];
            xx += a * a;
            xq += a * b;
            ee += (a - b) * (a - b);
        }
        nib_quantized_free(&out);
        NIB_CHECKF(fabs(1000 * ee / xx - published[i].error) <= 0.007 * published[i].error,
                   "%s, %s: error %.3fe-3, published %.2fe-3", published[i].quantizer, published[i].distribution,
                   1000 * ee / xx, published[i].error);
        if (!isnan(published[i].loss))
            NIB_CHECKF(fabs(1 - xq / xx - published[i].loss) <= 6e-4, "%s, %s: 1 - alpha %.5f, published %.4f",
                       published[i].quantizer, published[i].distribution, 1 - xq / xx, published[i].loss);
    }
    free(x);
}

NIB_TEST_MAIN("transcribed quantizers", {"HiF4 gives its worked example", hif4_gives_its_worked_example},
              {"HiF4 scales stay in range", hif4_scales_stay_in_range},
              {"TetraJet cuts nothing off", tetrajet_cuts_nothing_off},
              {"TetraJet-v2 divides twice by reciprocals", tetrajet2_divides_twice_by_reciprocals},
              {"segments are tensors of their own", segments_are_tensors_of_their_own},
              {"TetraJet-v2 draws as its kernel", tetrajet2_draws_as_its_kernel},
              {"BOF4 maps the largest to one", bof4_maps_the_largest_to_one},
              {"losses are the published ones", losses_are_the_published_ones})
