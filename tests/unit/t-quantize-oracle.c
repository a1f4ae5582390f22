/* te-nvfp4 against an oracle that shares nothing with the library: MPFR at 24 bits with binary32's exponent range
 * replays each rounding of TransformerEngine's formulas (core_nvfp4.cuh), and E4M3 and E2M1 are exact searches over
 * their values. Then the statistics of the quantizers on Gaussian numbers against the published ones. */
#include "nib_test.h"

#include <nibble/quantize.h>

#include "job/sample.h"
#include "oracle_binary32.h"

struct expected {
    unsigned scale;
    uint8_t code[16];
    float value[16];
};

static struct expected oracle(float g, const float *x) {
    const float largest = 0x1.fffffep+127f;
    struct expected out;
    float S = g == 0 ? 1 : fminf(oracle_div(2688, g), largest), b = 0;
    if (S == 0) S = 1;
    for (int i = 0; i < 16; i++) b = fmaxf(b, fabsf(x[i]));
    float k = oracle_mul(S, oracle_div(1, 6));
    out.scale = oracle_e4m3_code(fminf(oracle_mul(b, k), largest));
    float sf = (float)oracle_e4m3_value(out.scale);
    float enc = fminf(oracle_div(1, oracle_mul(sf, oracle_div(1, S))), largest);
    float factor = oracle_mul(oracle_mul(sf, g), oracle_div(1, 2688));
    for (int i = 0; i < 16; i++) {
        unsigned magnitude = oracle_nearest(oracle_e2m1, 8, fabsf(oracle_mul(x[i], enc)), false);
        bool negative = signbit(x[i]);
        out.code[i] = (uint8_t)(magnitude | (unsigned)negative << 3);
        float value = oracle_mul((float)oracle_e2m1[magnitude], factor);
        out.value[i] = negative ? -value : value;
    }
    return out;
}

static uint64_t state = 7;
static uint32_t next(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

/* Elements on and beside the ties of their block's scale, wide and narrow ranges, subnormals. */
static void random_block(float g, float *x) {
    float b = g * ldexpf((float)(1 + next() % 4096) / 4096, -(int)(next() % 3 == 0 ? next() % 30 : next() % 3));
    for (int i = 0; i < 16; i++) {
        float tie = (float)(oracle_e2m1[next() % 7] + oracle_e2m1[next() % 7 + 1]) / 2;
        x[i] = next() % 3 == 0 ? b * tie / 6 : b * (float)(next() % 65537) / 65536;
        if (next() % 32 == 0) x[i] = 0;
        if (next() % 32 == 0) x[i] = (float)next() * 0x1p-149f;
        if (next() % 2) x[i] = -x[i];
    }
    if (next() % 2) x[next() % 16] = b;
}

static void te_nvfp4_equals_the_oracle(void) {
    const struct nib_quantizer *q;
    struct nib_error error;
    static const float amaxes[] = {2688, 0.6875f, 1.75f, 7.75f, 448, 0x1p-120f, 0x1.8p+126f, 3.0f, 0, 0x1p-140f};
    NIB_OK_OR_FAIL(nib_quantizer_open("te-nvfp4", &q, &error), error);
    oracle_as_binary32();
    int blocks = nib_test_full() ? 200000 : 4000;
    struct nib_quantized out;
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, 1, 16, NIB_ALONG_COLS, 15, &out, &error), error);
    for (int n = 0; n < blocks; n++) {
        float x[16], g = n % 3 ? amaxes[next() % 10]
                               : ldexpf(1 + (float)(next() % (1 << 20)) / (1 << 20), (int)(next() % 40) - 20);
        random_block(g, x);
        struct expected want = oracle(g, x);
        struct nib_quantize_options options = {.has_tensor_amax = true, .tensor_amax = g, .threads = 1};
        NIB_OK_OR_FAIL(nib_quantize(q, (struct nib_view){x, NIB_F32, 1, 16, 16}, &options, &out, &error), error);
        NIB_CHECKF(out.scales[0] == want.scale, "g %a: scale %02X, not %02X", (double)g, out.scales[0], want.scale);
        NIB_CHECKF(memcmp(out.codes, want.code, 16) == 0, "g %a: codes differ", (double)g);
        bool same = true;
        for (int i = 0; i < 16; i++)
            same = same && ((isnan(want.value[i]) && isnan(out.values[i])) ||
                            memcmp(&out.values[i], &want.value[i], sizeof(float)) == 0);
        NIB_CHECKF(same, "g %a: values differ", (double)g);
    }
    nib_quantized_free(&out);
    nib_quantizer_close(q);
}

/* ---- 2^22 Gaussian numbers */

struct moments {
    double xx, xq, ee;
};
static struct moments measure(const char *name, const float *x, size_t rows, size_t cols) {
    const struct nib_quantizer *q;
    struct nib_error error;
    struct nib_quantized out;
    struct moments m = {0, 0, 0};
    if (nib_quantizer_open(name, &q, &error) != NIB_OK ||
        nib_quantized_alloc(q, rows, cols, NIB_ALONG_COLS, NIB_WANT_VALUES, &out, &error) != NIB_OK ||
        nib_quantize(q, (struct nib_view){x, NIB_F32, rows, cols, cols}, NULL, &out, &error) != NIB_OK) {
        NIB_CHECKF(false, "%s: %s", name, error.text);
        return m;
    }
    for (size_t i = 0; i < rows * cols; i++) {
        double a = (double)x[i], b = (double)out.values[i];
        m.xx += a * a;
        m.xq += a * b;
        m.ee += (a - b) * (a - b);
    }
    nib_quantized_free(&out);
    nib_quantizer_close(q);
    return m;
}
static void within(const char *what, double value, double expected, double tolerance) {
    NIB_CHECKF(fabs(value - expected) <= tolerance, "%s is %.6g, expected %.6g +- %.2g", what, value, expected,
               tolerance);
}

static void gaussian_numbers_lose_what_is_published(void) {
    enum { ROWS = 1024, COLS = 4096 };
    struct nib_distribution gaussian;
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_distribution_parse("gaussian", &gaussian, &error), error);
    float *x = malloc(sizeof(float) * ROWS * COLS);
    nib_distribution_fill(&gaussian, 20251101, 0, (size_t)ROWS * COLS, 2, x);
    struct moments te = measure("te-nvfp4", x, ROWS, COLS), uniform = measure("e1m2-fp32", x, ROWS, COLS),
                   baseline = measure("e2m1-fp32", x, ROWS, COLS);
    within("relative MSE of te-nvfp4", te.ee / te.xx, 9.046e-3, 0.02e-3);
    within("SQNR of e1m2-fp32", 10 * log10(uniform.xx / uniform.ee), 21.393, 0.02);
    within("1 - alpha of e1m2-fp32", 1 - uniform.xq / uniform.xx, -0.00062, 0.0002);
    within("SQNR of e2m1-fp32", 10 * log10(baseline.xx / baseline.ee), 20.524, 0.02);
    within("1 - alpha of e2m1-fp32", 1 - baseline.xq / baseline.xx, 0.00409, 0.0002);
    free(x);
}

NIB_TEST_MAIN("quantizers against oracles", {"te-nvfp4 equals the oracle", te_nvfp4_equals_the_oracle},
              {"Gaussian numbers lose what is published", gaussian_numbers_lose_what_is_published})
