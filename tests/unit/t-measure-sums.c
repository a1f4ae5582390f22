/* Sums against exact rational arithmetic from codes and scales, and their independence of threads. */
#include <nibble/measure.h>

#include "nib_test.h"
#include <gmp.h>
#include <math.h>

static uint64_t state;
static uint32_t next_word(void) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 32);
}

/* Heavy tails, zero blocks, subnormals; NaN and infinity where `special` (an infinite tensor amax takes the
 * tensor scale out of play). */
static void fill(float *x, size_t rows, size_t cols, bool special) {
    for (size_t i = 0; i < rows * cols; i++) {
        x[i] = ldexpf((float)(int32_t)next_word(), (int)(next_word() % 12) - 36);
        if (i % 97 == 5) x[i] = 0;
        if (i % 211 == 7) x[i] = ldexpf(x[i], -120);
    }
    for (size_t r = 0; r < rows && r < 32; r++)
        for (size_t c = 0; c < cols && c < 32; c++) x[r * cols + c] = r % 2 == 0 ? 0.0f : -0.0f;
    if (!special) return;
    x[rows * cols - 1] = NAN;
    x[rows * cols - 2] = INFINITY;
    x[rows * cols / 2] = -NAN;
    if (rows * cols > 100) x[rows * cols / 2 + 40] = -INFINITY;
}

/* The value of a scale, written down from the definition of each format. */
static double scale_value(const uint8_t *bytes, unsigned count) {
    if (count == 4) {
        float value;
        memcpy(&value, bytes, 4);
        return (double)value;
    }
    return 0;
}
static double e4m3_value(uint8_t byte) {
    if (byte == 0x7F) return NAN;
    return byte < 8 ? ldexp(byte, -9) : ldexp(8 + (byte & 7), (byte >> 3) - 10);
}
static double e8m0_value(uint8_t byte) { return byte == 0xFF ? NAN : ldexp(1, byte - 127); }

struct oracle {
    uint64_t count, nans, infs, bad, zeros, underflow, codes[16];
    mpq_t error[16], t, xx, xq, qq, ee;
    mpq_t error_size[16]; /* sums of magnitudes: what rounding is measured by */
};

static void expect_sums(const struct nib_quantizer *quantizer, const float *x, const struct nib_quantized *q,
                        struct oracle *o) {
    struct nib_quantizer_info info;
    nib_quantizer_describe(quantizer, &info);
    size_t across = info.block->block_rows, along = info.block->block_cols;
    const char *scale = info.block->scale->name;
    mpq_t s, value, level, dequantized, term, magnitude;
    mpq_inits(s, value, level, dequantized, term, magnitude, NULL);
    for (size_t r = 0; r < q->rows; r++)
        for (size_t c = 0; c < q->cols; c++) {
            size_t outer = q->axis == NIB_ALONG_COLS ? r : c, inner = q->axis == NIB_ALONG_COLS ? c : r;
            const uint8_t *bytes = q->scales + (outer / across * q->scale_cols + inner / along) * q->scale_bytes;
            double block = strcmp(scale, "e4m3") == 0   ? e4m3_value(*bytes)
                           : strcmp(scale, "e8m0") == 0 ? e8m0_value(*bytes)
                                                        : scale_value(bytes, q->scale_bytes);
            float xi = x[r * q->cols + c];
            uint8_t code = q->codes[r * q->cols + c];
            if (isnan(xi) || isinf(xi)) {
                *(isnan(xi) ? &o->nans : &o->infs) += 1;
                continue;
            }
            if (!isfinite(block)) {
                o->bad++;
                continue;
            }
            o->count++;
            mpq_set_d(value, (double)xi);
            mpq_set_d(s, block);
            mpq_set_d(term, (double)q->tensor_scale_decode);
            mpq_mul(s, s, term);
            mpq_set_d(level, (double)info.block->element->level[code]);
            mpq_mul(dequantized, level, s);
            mpq_mul(term, value, value);
            mpq_add(o->xx, o->xx, term);
            mpq_mul(term, value, dequantized);
            mpq_add(o->xq, o->xq, term);
            mpq_mul(term, dequantized, dequantized);
            mpq_add(o->qq, o->qq, term);
            mpq_sub(term, dequantized, value);
            mpq_mul(term, term, term);
            mpq_add(o->ee, o->ee, term);
            o->underflow += mpq_sgn(dequantized) == 0 && xi != 0;
            if (mpq_sgn(s) == 0) {
                o->zeros++;
                continue;
            }
            o->codes[code]++;
            mpq_abs(term, value);
            mpq_div(term, term, s);
            mpq_add(o->t, o->t, term);
            mpq_add(o->error_size[code], o->error_size[code], term);
            mpq_abs(magnitude, level);
            mpq_add(o->error_size[code], o->error_size[code], magnitude);
            mpq_sub(term, magnitude, term);
            mpq_add(o->error[code], o->error[code], term);
        }
    mpq_clears(s, value, level, dequantized, term, magnitude, NULL);
}

/* |got - exact| <= 1e-12 size: 2^16 additions in binary64 stay below 2^16 * 2^-53 = 7.3e-12 of it, and
 * lanes and trees far below that. */
static bool near(double got, const mpq_t exact, const mpq_t size) {
    mpq_t difference, bound;
    mpq_inits(difference, bound, NULL);
    mpq_set_d(difference, got);
    mpq_sub(difference, difference, exact);
    mpq_abs(difference, difference);
    mpq_set_d(bound, 1e-12);
    mpq_mul(bound, bound, size);
    bool holds = mpq_cmp(difference, bound) <= 0;
    mpq_clears(difference, bound, NULL);
    return holds;
}

/* Blocks one by one, in extended precision. */
static void check_blocks(const struct nib_quantizer *quantizer, const float *x, const struct nib_quantized *q,
                         const struct nib_sums *sums) {
    struct nib_quantizer_info info;
    nib_quantizer_describe(quantizer, &info);
    bool cols = q->axis == NIB_ALONG_COLS;
    size_t high = cols ? info.block->block_rows : info.block->block_cols;
    size_t wide = cols ? info.block->block_cols : info.block->block_rows;
    long double crest = 0, kurtosis = 0;
    uint64_t blocks = 0;
    for (size_t r = 0; r < q->rows; r += high)
        for (size_t c = 0; c < q->cols; c += wide) {
            long double amax = 0, second = 0, fourth = 0, n = 0;
            bool finite = true;
            for (size_t i = r; i < r + high && i < q->rows; i++)
                for (size_t j = c; j < c + wide && j < q->cols; j++) {
                    long double value = fabsl((long double)x[i * q->cols + j]);
                    finite = finite && isfinite(value);
                    amax = value > amax ? value : amax;
                    second += value * value;
                    fourth += value * value * value * value;
                    n++;
                }
            if (!finite || amax == 0) continue;
            blocks++;
            crest += amax / sqrtl(second / n);
            kurtosis += n * fourth / (second * second);
        }
    NIB_CHECKF(sums->block_count == blocks, "%llu blocks, expected %llu", (unsigned long long)sums->block_count,
               (unsigned long long)blocks);
    CU_ASSERT(fabsl((long double)sums->crest_sum - crest) <= 1e-12L * crest);
    CU_ASSERT(fabsl((long double)sums->kurtosis_sum - kurtosis) <= 1e-12L * kurtosis);
}

static void check(const char *name, size_t rows, size_t cols, enum nib_axis axis, bool special) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    const struct nib_quantizer *quantizer = NULL;
    NIB_OK_OR_FAIL(nib_quantizer_open(name, &quantizer, &error), error);
    float *x = malloc(rows * cols * sizeof *x);
    state = rows * 1000 + cols;
    fill(x, rows, cols, special);
    struct nib_view view = {x, NIB_F32, rows, cols, cols};
    struct nib_quantized q;
    NIB_OK_OR_FAIL(nib_quantized_alloc(quantizer, rows, cols, axis, NIB_WANT_CODES | NIB_WANT_SCALES, &q, &error), error);
    struct nib_quantize_options quantize_options = {.axis = axis, .threads = 1};
    NIB_OK_OR_FAIL(nib_quantize(quantizer, view, &quantize_options, &q, &error), error);
    static struct nib_measurement m, other;
    struct nib_measure_options options = {.threads = 1};
    NIB_OK_OR_FAIL(nib_measure(quantizer, view, &q, &options, &m, &error), error);

    check_blocks(quantizer, x, &q, &m.total);
    struct oracle o;
    memset(&o, 0, sizeof o);
    mpq_inits(o.t, o.xx, o.xq, o.qq, o.ee, NULL);
    for (int c = 0; c < 16; c++) mpq_inits(o.error[c], o.error_size[c], NULL);
    expect_sums(quantizer, x, &q, &o);
    NIB_CHECKF(m.total.count == o.count && m.total.nan_count == o.nans && m.total.inf_count == o.infs,
               "%s %zux%zu: %llu elements, expected %llu", name, rows, cols, (unsigned long long)m.total.count,
               (unsigned long long)o.count);
    NIB_CHECKF(m.total.bad_scale_count == o.bad && m.total.zero_scale_count == o.zeros, "%s", name);
    NIB_CHECKF(m.total.underflow_count == o.underflow, "%s", name);
    NIB_CHECKF(near(m.total.xx, o.xx, o.xx) && near(m.total.xq, o.xq, o.xq) && near(m.total.qq, o.qq, o.qq) &&
                   near(m.total.ee, o.ee, o.ee) && near(m.total.sum_t, o.t, o.t),
               "%s %zux%zu along %s: sums", name, rows, cols, axis == NIB_ALONG_COLS ? "cols" : "rows");
    for (int c = 0; c < 16; c++) {
        NIB_CHECKF(m.total.code_count[c] == o.codes[c], "%s: count of code %d", name, c);
        NIB_CHECKF(near(m.total.code_error[c], o.error[c], o.error_size[c]), "%s: error of code %d", name, c);
        mpq_clears(o.error[c], o.error_size[c], NULL);
    }
    mpq_clears(o.t, o.xx, o.xq, o.qq, o.ee, NULL);

    for (int threads = 2; threads <= 7; threads += 5) {
        options.threads = threads;
        NIB_OK_OR_FAIL(nib_measure(quantizer, view, &q, &options, &other, &error), error);
        CU_ASSERT(memcmp(&m.total, &other.total, sizeof m.total) == 0);
        CU_ASSERT(memcmp(m.batch, other.batch, m.batches * sizeof *m.batch) == 0);
    }
    uint64_t batches = 0;
    for (unsigned b = 0; b < m.batches; b++) batches += m.batch[b].count;
    CU_ASSERT(batches == m.total.count);
    nib_quantized_free(&q);
    nib_quantizer_close(quantizer);
    free(x);
}

static const char *const quantizers[] = {"e2m1-fp32", "e1m2-fp32", "te-nvfp4", "ocp-mxfp4"};

static void sums_are_those_of_exact_arithmetic(void) {
    static const size_t shapes[][2] = {{37, 83}, {96, 160}, {1, 700}, {700, 1}, {3, 5}};
    for (size_t k = 0; k < sizeof quantizers / sizeof *quantizers; k++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int axis = 0; axis < 2; axis++)
                for (int special = 0; special < 2; special++)
                    check(quantizers[k], shapes[i][0], shapes[i][1], (enum nib_axis)axis, special == 1);
}

/* More than one chunk in a batch and more than one segment in a row. */
static void large_tensors_are_cut_and_put_together(void) {
    check("te-nvfp4", 40, 9000, NIB_ALONG_COLS, false);
    check("ocp-mxfp4", 300, 1100, NIB_ALONG_ROWS, true);
}

static void the_statistics_follow_from_the_sums(void) {
    struct nib_error error;
    const struct nib_element *element = NULL;
    NIB_OK_OR_FAIL(nib_element_open("e2m1", &element, &error), error);
    /* Two elements at level 2 with errors -0.25 and 0, one at 6 with +0.5, one at 0 with -0.25. */
    struct nib_sums sums = {.count = 4, .sum_t = 2.25 + 2 + 5.5 + 0.25, .xx = 16, .xq = 12, .qq = 9, .ee = 1};
    sums.code_count[4] = 1;
    sums.code_error[4] = -0.25;
    sums.code_count[12] = 1; /* -2 */
    sums.code_count[7] = 1;
    sums.code_error[7] = 0.5;
    sums.code_count[8] = 1; /* -0 */
    sums.code_error[8] = -0.25;
    struct nib_bias bias;
    nib_bias_of(element, &sums, &bias);
    CU_ASSERT(bias.b == 0 && bias.b_zero == -0.0625 && bias.b_interior == -0.0625 && bias.b_top == 0.125);
    CU_ASSERT(bias.b_relative == 0 && bias.alpha == 0.75 && bias.one_minus_alpha == 0.25);
    CU_ASSERT(bias.nmse == 0.0625 && bias.norm_ratio == 0.75 && bias.cosine == 1);
    CU_ASSERT(bias.nmse_coherent == 0.0625 && bias.nmse_incoherent == 0);
    CU_ASSERT_DOUBLE_EQUAL(bias.sqnr_db, 12.041199826559248, 1e-13);  /* 10 log10 16 */
    CU_ASSERT_DOUBLE_EQUAL(bias.b_eff, 0.35355339059327373, 1e-15);   /* shares 1/2, 1/4, 1/4 of 8 buckets: 2^1.5/8 */
    nib_element_close(element);
}

/* A grid without sign symmetry has one bucket per level. */
static void an_asymmetric_grid_uses_all_its_levels(void) {
    struct nib_error error;
    const struct nib_element *element = NULL;
    const float levels[] = {-2, -1, 0, 1};
    NIB_OK_OR_FAIL(nib_element_from_levels("lopsided", levels, 4, &element, &error), error);
    struct nib_sums sums = {.count = 8};
    for (unsigned r = 0; r < 4; r++) sums.code_count[element->code_of_rank[r]] = 2;
    struct nib_bias bias;
    nib_bias_of(element, &sums, &bias);
    CU_ASSERT_DOUBLE_EQUAL(bias.b_eff, 1, 1e-15);
    CU_ASSERT(isnan(bias.alpha) && isnan(bias.b_relative));
    nib_element_close(element);
}

/* INT4 in two's complement is symmetric in value: 3 and -3 share a bucket. */
static void twos_complement_counts_magnitudes(void) {
    struct nib_error error;
    const struct nib_element *element = NULL;
    NIB_OK_OR_FAIL(nib_element_open("int4", &element, &error), error);
    struct nib_sums sums = {.count = 4};
    sums.code_count[3] = 2;       /* 3 */
    sums.code_count[16 - 3] = 2;  /* -3 */
    struct nib_bias bias;
    nib_bias_of(element, &sums, &bias);
    CU_ASSERT_DOUBLE_EQUAL(bias.b_eff, 0.125, 1e-15); /* one of the eight magnitudes 0..7 */
    nib_element_close(element);
}

static void a_tensor_without_rows_measures_nothing(void) {
    struct nib_error error;
    const struct nib_quantizer *quantizer = NULL;
    NIB_OK_OR_FAIL(nib_quantizer_open("e2m1-fp32", &quantizer, &error), error);
    struct nib_quantized q;
    NIB_OK_OR_FAIL(nib_quantized_alloc(quantizer, 0, 16, NIB_ALONG_COLS, NIB_WANT_CODES | NIB_WANT_SCALES, &q, &error),
                   error);
    const float x[1] = {0};
    const struct nib_measure_options options = {0};
    struct nib_measurement m;
    NIB_OK_OR_FAIL(nib_measure(quantizer, (struct nib_view){x, NIB_F32, 0, 16, 16}, &q, &options, &m, &error), error);
    CU_ASSERT(m.total.count == 0 && m.total.nan_count == 0 && m.total.xx == 0);
    nib_quantized_free(&q);
    nib_quantizer_close(quantizer);
}

static void a_wrong_shape_is_refused(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    const struct nib_quantizer *quantizer = NULL;
    NIB_OK_OR_FAIL(nib_quantizer_open("e2m1-fp32", &quantizer, &error), error);
    struct nib_quantized q;
    NIB_OK_OR_FAIL(nib_quantized_alloc(quantizer, 2, 16, NIB_ALONG_COLS, NIB_WANT_CODES | NIB_WANT_SCALES, &q, &error),
                   error);
    float x[48] = {0};
    struct nib_measurement m;
    struct nib_measure_options options = {0};
    CU_ASSERT(nib_measure(quantizer, (struct nib_view){x, NIB_F32, 3, 16, 16}, &q, &options, &m, &error) == NIB_EINVAL);
    NIB_CHECKF(strstr(error.text, "3x16") != NULL && strstr(error.text, "2x16") != NULL, "%s", error.text);
    nib_quantized_free(&q);
    nib_quantizer_close(quantizer);
}

NIB_TEST_MAIN("sums", {"sums are those of exact arithmetic", sums_are_those_of_exact_arithmetic},
              {"large tensors are cut and put together", large_tensors_are_cut_and_put_together},
              {"the statistics follow from the sums", the_statistics_follow_from_the_sums},
              {"an asymmetric grid uses all its levels", an_asymmetric_grid_uses_all_its_levels},
              {"two's complement counts magnitudes", twos_complement_counts_magnitudes},
              {"a tensor without rows measures nothing", a_tensor_without_rows_measures_nothing},
              {"a wrong shape is refused", a_wrong_shape_is_refused})
