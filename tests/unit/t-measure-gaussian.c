/* Published numbers for independent Gaussian elements, and standard errors that mean what they say. */
#include <nibble/measure.h>

#include "job/sample.h"
#include "nib_test.h"
#include <math.h>

enum { COLS = 1024 };

/* Opened once: a measurement refers to its quantizer's element. */
static const struct nib_quantizer *opened(const char *name) {
    static const char *const names[] = {"e2m1-fp32", "e1m2-fp32", "te-nvfp4", "ocp-mxfp4"};
    static const struct nib_quantizer *quantizers[4];
    size_t i = 0;
    while (strcmp(names[i], name) != 0) i++;
    if (quantizers[i] == NULL && nib_quantizer_open(name, &quantizers[i], NULL) != NIB_OK) abort();
    return quantizers[i];
}

/* Measures `rows` x 1024 Gaussian elements. */
static void measure(const char *name, uint64_t seed, size_t rows, const struct nib_rotation *rotation,
                    struct nib_measurement *out) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    struct nib_distribution gaussian;
    const struct nib_quantizer *quantizer = opened(name);
    NIB_OK_OR_FAIL(nib_distribution_parse("gaussian", &gaussian, &error), error);
    float *x = malloc(rows * COLS * sizeof *x), *y = malloc(rows * COLS * sizeof *y);
    nib_distribution_fill(&gaussian, seed, 0, rows * COLS, 2, x);
    struct nib_view view = {x, NIB_F32, rows, COLS, COLS};
    if (rotation != NULL) {
        NIB_OK_OR_FAIL(nib_rotate(rotation, view, NIB_ALONG_COLS, 2, y, &error), error);
        view.data = y;
    }
    struct nib_quantized q;
    NIB_OK_OR_FAIL(nib_quantized_alloc(quantizer, rows, COLS, NIB_ALONG_COLS, NIB_WANT_CODES | NIB_WANT_SCALES, &q, &error),
                   error);
    struct nib_quantize_options quantize_options = {.axis = NIB_ALONG_COLS, .threads = 2};
    NIB_OK_OR_FAIL(nib_quantize(quantizer, view, &quantize_options, &q, &error), error);
    struct nib_measure_options options = {.along = 32, .across = 1, .threads = 2};
    NIB_OK_OR_FAIL(nib_measure(quantizer, view, &q, &options, out, &error), error);
    nib_quantized_free(&q);
    free(x);
    free(y);
}

static struct nib_measurement m;
static struct nib_estimate estimate[NIB_STATISTICS];

static void agrees(const char *what, struct nib_estimate got, double expected, double rounding) {
    NIB_CHECKF(fabs(got.value - expected) <= rounding + 4 * got.error && got.error > 0, "%s: %.6g +- %.2g, expected %.6g",
               what, got.value, got.error, expected);
}

/* Share and mean error of each magnitude bin by quadrature: of 16 half-normal numbers the largest, M, has
 * the density 16 f F^15 and lands on the top level exactly; each of the others is distributed as f/F(M)
 * below M. t = x * top / M. */
static double half_normal(double x) { return sqrt(2 / acos(-1)) * exp(-x * x / 2); }
static double half_normal_below(double x) { return erf(x / sqrt(2)); }
static void expect_bins(const double level[8], double share[8], double error[8]) {
    enum { STEPS = 20000 };
    for (int k = 0; k < 8; k++) {
        double low = k == 0 ? 0 : (level[k - 1] + level[k]) / 2, high = k == 7 ? level[7] : (level[k] + level[k + 1]) / 2;
        double probability = 0, excess = 0;
        for (int i = 0; i < STEPS; i++) {
            double top = (i + 0.5) * 9 / STEPS, below = half_normal_below(top);
            double density = 16 * half_normal(top) * pow(below, 15) * 9 / STEPS;
            double a = low * top / level[7], b = high * top / level[7];
            double inside = (half_normal_below(b) - half_normal_below(a)) / below;
            double mean_x = (half_normal(a) - half_normal(b)) / below; /* of x, since f' = -x f */
            probability += density * inside * 15 / 16;
            excess += density * (level[k] * inside - mean_x * level[7] / top) * 15 / 16;
        }
        share[k] = probability + (k == 7 ? 1.0 / 16 : 0);
        error[k] = excess / share[k];
    }
}

/* The numbers of UFP4's reconstruction, section 2.1, are a simulation of 640,000 elements: shares are
 * good to 0.002. */
static void bins_have_the_expected_and_published_shares_and_errors(void) {
    static const struct {
        const char *name;
        double unit; /* of the published errors, in units of the grid */
        double level[8], share[8], error[8];
    } published[] = {
        {"e2m1-fp32", 1, {0, .5, 1, 1.5, 2, 3, 4, 6}, {.068, .134, .128, .117, .152, .153, .138, .112},
         {-.125, .001, .003, .004, -.1125, .030, -.165, .239}},
        {"e1m2-fp32", 0.5, {0, .5, 1, 1.5, 2, 2.5, 3, 3.5}, {.116, .221, .191, .153, .111, .077, .051, .080},
         {-.250, .008, .016, .023, .028, .032, .037, .058}},
    };
    for (int k = 0; k < 2; k++) {
        double share[8], error[8];
        expect_bins(published[k].level, share, error);
        measure(published[k].name, 11, 4096, NULL, &m);
        for (unsigned i = 0; i < 8; i++) {
            struct nib_level_estimate level;
            char what[64];
            nib_measurement_magnitude(&m, i, &level);
            snprintf(what, sizeof what, "%s share of bin %u", published[k].name, i);
            agrees(what, level.share, share[i], 0);
            agrees(what, level.share, published[k].share[i], 0.002);
            snprintf(what, sizeof what, "%s error of bin %u", published[k].name, i);
            agrees(what, level.error, error[i], 0);
            agrees(what, level.error, published[k].error[i] * published[k].unit, 0.002 * published[k].unit);
        }
    }
}

/* 2^22 values; the tolerances are the stated ones. */
static void totals_are_the_published_ones(void) {
    measure("te-nvfp4", 12, 4096, NULL, &m);
    nib_measurement_estimates(&m, estimate);
    NIB_CHECKF(fabs(estimate[NIB_STATISTIC_nmse].value - 9.046e-3) <= 0.02e-3, "%.5g", estimate[NIB_STATISTIC_nmse].value);
    measure("e1m2-fp32", 12, 4096, NULL, &m);
    nib_measurement_estimates(&m, estimate);
    NIB_CHECKF(fabs(estimate[NIB_STATISTIC_sqnr_db].value - 21.393) <= 0.02, "%.5g", estimate[NIB_STATISTIC_sqnr_db].value);
    NIB_CHECKF(fabs(estimate[NIB_STATISTIC_one_minus_alpha].value + 0.00062) <= 0.0002, "%.5g",
               estimate[NIB_STATISTIC_one_minus_alpha].value);
    CU_ASSERT(m.total.clipped_count == 0);
    measure("e2m1-fp32", 12, 4096, NULL, &m);
    nib_measurement_estimates(&m, estimate);
    NIB_CHECKF(fabs(estimate[NIB_STATISTIC_sqnr_db].value - 20.524) <= 0.02, "%.5g", estimate[NIB_STATISTIC_sqnr_db].value);
    NIB_CHECKF(fabs(estimate[NIB_STATISTIC_one_minus_alpha].value - 0.00409) <= 0.0002, "%.5g",
               estimate[NIB_STATISTIC_one_minus_alpha].value);
    agrees("b/E[t]", estimate[NIB_STATISTIC_b_relative], -.0065, 0.0003);
    agrees("B_eff", estimate[NIB_STATISTIC_b_eff], .978, 0.0005);
}

/* Repeats small experiments: the scatter of their results is what the standard error claims. With 60
 * repetitions a sample deviation is known to 9 %; the band is five of those. */
static void standard_errors_match_the_scatter_of_repetitions(void) {
    enum { REPETITIONS = 60 };
    static struct nib_measurement other;
    struct nib_estimate difference[NIB_STATISTICS];
    double sum[2][NIB_STATISTICS] = {{0}}, squares[2][NIB_STATISTICS] = {{0}}, claimed[2][NIB_STATISTICS] = {{0}};
    double single = 0;
    for (uint64_t i = 0; i < REPETITIONS; i++) {
        measure("e2m1-fp32", 100 + i, 64, NULL, &m);
        measure("te-nvfp4", 100 + i, 64, NULL, &other);
        nib_measurement_estimates(&m, estimate);
        nib_measurement_differences(&m, &other, difference);
        single += estimate[NIB_STATISTIC_sqnr_db].error * estimate[NIB_STATISTIC_sqnr_db].error;
        for (int s = 0; s < NIB_STATISTICS; s++)
            for (int d = 0; d < 2; d++) {
                struct nib_estimate e = d == 0 ? estimate[s] : difference[s];
                sum[d][s] += e.value;
                squares[d][s] += e.value * e.value;
                claimed[d][s] += e.error * e.error;
            }
    }
    static const enum nib_statistic tested[] = {NIB_STATISTIC_b,       NIB_STATISTIC_b_relative, NIB_STATISTIC_alpha,
                                                NIB_STATISTIC_sqnr_db, NIB_STATISTIC_b_eff,      NIB_STATISTIC_nmse};
    for (size_t k = 0; k < sizeof tested / sizeof *tested; k++)
        for (int d = 0; d < 2; d++) {
            int s = tested[k];
            double scatter = sqrt((squares[d][s] - sum[d][s] * sum[d][s] / REPETITIONS) / (REPETITIONS - 1));
            double error = sqrt(claimed[d][s] / REPETITIONS);
            NIB_CHECKF(error > 0.55 * scatter && error < 1.45 * scatter, "%s%s: scatter %.3g, claimed %.3g",
                       d == 0 ? "" : "difference of ", nib_statistic_name(tested[k]), scatter, error);
        }
    /* The two quantizers see the same elements: pairing must pay. */
    CU_ASSERT(claimed[1][NIB_STATISTIC_sqnr_db] < 0.5 * single);
}

static void a_difference_with_itself_is_zero(void) {
    measure("e2m1-fp32", 5, 64, NULL, &m);
    struct nib_estimate difference[NIB_STATISTICS];
    nib_measurement_differences(&m, &m, difference);
    for (int s = 0; s < NIB_STATISTICS; s++) CU_ASSERT(difference[s].value == 0 && difference[s].error == 0);
}

/* A rotated Gaussian tensor is Gaussian. */
static void rotation_leaves_gaussians_alone(void) {
    struct nib_error error;
    const struct nib_rotation *rotation = NULL;
    static struct nib_measurement rotated;
    struct nib_estimate difference[NIB_STATISTICS];
    NIB_OK_OR_FAIL(nib_rotation_open("rht16", &rotation, &error), error);
    measure("e2m1-fp32", 6, 1024, NULL, &m);
    measure("e2m1-fp32", 6, 1024, rotation, &rotated);
    nib_measurement_differences(&rotated, &m, difference);
    agrees("change of SQNR", difference[NIB_STATISTIC_sqnr_db], 0, 0);
    agrees("change of b", difference[NIB_STATISTIC_b], 0, 0);
    nib_rotation_close(rotation);
}

static void scales_rounded_down_clip_and_rounded_up_do_not(void) {
    measure("ocp-mxfp4", 7, 256, NULL, &m); /* floor(log2 amax) - 2: t reaches 8 */
    nib_measurement_estimates(&m, estimate);
    NIB_CHECKF(estimate[NIB_STATISTIC_clipped].value > 0.001, "%g", estimate[NIB_STATISTIC_clipped].value);
    measure("e1m2-fp32", 7, 256, NULL, &m);
    CU_ASSERT(m.total.clipped_count == 0);
}

/* max/||x|| and ||x|| are independent, so the mean crest factor is 4 E[max]/E[||x||], ||x|| a chi of 16 degrees;
 * the kurtosis of n Gaussians about 0 is 3 n/(n + 2). */
static void blocks_have_the_crest_factor_and_kurtosis_of_theory(void) {
    double largest = 0;
    for (int i = 0; i < 20000; i++) largest += (1 - pow(half_normal_below((i + 0.5) * 9 / 20000), 16)) * 9 / 20000;
    double norm = sqrt(2) * exp(lgamma(8.5) - lgamma(8));
    measure("e2m1-fp32", 8, 2048, NULL, &m);
    nib_measurement_estimates(&m, estimate);
    agrees("crest factor", estimate[NIB_STATISTIC_crest], 4 * largest / norm, 0);
    agrees("kurtosis", estimate[NIB_STATISTIC_kurtosis], 3.0 * 16 / 18, 0);
    CU_ASSERT(m.total.block_count == 2048 * COLS / 16);
    CU_ASSERT(m.bits_per_value == 6);
    uint64_t blocks = 0;
    for (int i = 0; i < NIB_SCALE_BINS; i++) blocks += m.scale_count[i];
    CU_ASSERT(blocks == m.total.block_count);
}

NIB_TEST_MAIN("gaussian", {"blocks have the crest factor and kurtosis of theory",
                           blocks_have_the_crest_factor_and_kurtosis_of_theory},
              {"bins have the expected and published shares and errors",
                           bins_have_the_expected_and_published_shares_and_errors},
              {"totals are the published ones", totals_are_the_published_ones},
              {"standard errors match the scatter of repetitions", standard_errors_match_the_scatter_of_repetitions},
              {"a difference with itself is zero", a_difference_with_itself_is_zero},
              {"rotation leaves Gaussians alone", rotation_leaves_gaussians_alone},
              {"scales rounded down clip and rounded up do not", scales_rounded_down_clip_and_rounded_up_do_not})
