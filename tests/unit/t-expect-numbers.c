/* Numbers known from elsewhere: paper-ufp4.md's sections 2.1, 3.1, 7, 8 and 9, exact cases, and refusals. */
#include <nibble/expect.h>

#include "nib_test.h"
#include <math.h>

static const struct nib_density *density(const char *name) {
    const struct nib_density *d = NULL;
    if (nib_density_open(name, &d, NULL) != NIB_OK) abort();
    return d;
}

static const struct nib_element *element(const char *name) {
    const struct nib_element *e = NULL;
    if (nib_element_open(name, &e, NULL) != NIB_OK) abort();
    return e;
}

static struct nib_bias expect_named(const char *quantizer, const char *dist, unsigned sr_bits) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    struct nib_bias bias = {0};
    struct nib_sums sums;
    struct nib_quantizer_info info;
    const struct nib_quantizer *q;
    if (nib_quantizer_open(quantizer, &q, &error) != NIB_OK) abort();
    nib_quantizer_describe(q, &info);
    enum nib_status status =
        nib_expect(q, density(dist), &(struct nib_expect_options){.sr_bits = sr_bits}, &sums, &error);
    NIB_CHECKF(status == NIB_OK, "%s, %s: %s", quantizer, dist, error.text);
    if (status == NIB_OK) nib_bias_of(info.block->element, &sums, &bias);
    nib_quantizer_close(q);
    return bias;
}

/* Section 2.1: shares and mean errors of E2M1 and E1M2 under Gaussian blocks of 16. */
static void gaussian_bins_are_the_published_ones(void) {
    static const double shares[2][8] = {{.068, .134, .128, .117, .152, .153, .138, .112},
                                        {.116, .221, .191, .153, .111, .077, .051, .080}};
    static const double errors[2][8] = {{-.125, .001, .003, .004, -.1125, .030, -.165, .239},
                                        {-.250, .008, .016, .023, .028, .032, .037, .058}};
    static const char *const names[] = {"e2m1", "e1m2"};
    struct nib_error error = {NIB_OK, 0, "", ""};
    struct nib_expect_plan *plan;
    NIB_OK_OR_FAIL(nib_expect_plan_new(density("gaussian"), 16, &plan, &error), error);
    for (int g = 0; g < 2; g++) {
        const struct nib_element *e = element(names[g]);
        struct nib_sums sums;
        double unit = g == 0 ? 1 : (double)e->max_magnitude / 7;
        NIB_OK_OR_FAIL(nib_expect_grid(plan, e, NIB_RNE, 0, 0, &sums, &error), error);
        for (unsigned k = 0; k < 8; k++) {
            double share = 0, sum = 0;
            for (unsigned c = 0; c < NIB_CODES; c++)
                if (e->magnitude_of_code[c] == k) share += (double)sums.code_count[c], sum += sums.code_error[c];
            NIB_CHECKF(fabs(share / (double)NIB_EXPECT_COUNT - shares[g][k]) < 1.6e-3,
                       "%s bin %u: share %.4f, published %.3f", names[g], k, share / (double)NIB_EXPECT_COUNT,
                       shares[g][k]);
            NIB_CHECKF(fabs(sum / share / unit - errors[g][k]) < 1.6e-3, "%s bin %u: error %.4f, published %.4f",
                       names[g], k, sum / share / unit, errors[g][k]);
        }
    }
    nib_expect_plan_free(plan);
}

/* Section 2.1: the negative interior bins are paid back by the end bins. */
static void uniform_t_on_the_whole_range_has_no_bias(void) {
    static const double parts[] = {-0.03125, 0, 0, 0, -0.09375, 0, -0.375, 0.5}; /* width times mean error */
    struct nib_error error = {NIB_OK, 0, "", ""};
    const struct nib_element *e = element("e2m1");
    struct nib_sums sums;
    struct nib_bias bias;
    NIB_OK_OR_FAIL(nib_expect_fixed(density("uniform"), e, NIB_RNE, 1.0 / 6, 0, &sums, &error), error);
    nib_bias_of(e, &sums, &bias);
    NIB_CHECKF(fabs(bias.b) < 1e-15, "b = %g", bias.b);
    for (unsigned k = 0; k < 8; k++) {
        double part = 6 * (sums.code_error[k] + sums.code_error[k | 8]) / (double)NIB_EXPECT_COUNT;
        NIB_CHECKF(fabs(part - parts[k]) < 1e-14, "bin %u: %.17g, expected %g", k, part, parts[k]);
    }
}

/* Sections 3.1 and 8.5: means of 40000 simulated blocks, given to the digits printed. */
static void table_of_section_3_1(void) {
    static const struct {
        const char *dist;
        double sqnr[2], loss[2], use[2];
    } rows[] = {{"gaussian", {20.54, 21.38}, {.0040, -.0007}, {.978, .907}},
                {"laplace", {20.80, 19.91}, {.0032, -.0002}, {.963, .808}},
                {"uniform", {19.95, 23.73}, {-.0050, -.0023}, {.868, .982}},
                {"silu1", {21.12, 18.69}, {.0019, .0010}, {.815, .633}},
                {"silu4", {21.92, 20.78}, {.0021, .0009}, {.580, .470}}};
    static const char *const quantizers[] = {"e2m1-fp32", "e1m2-fp32"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int q = 0; q < 2; q++) {
            struct nib_bias b = expect_named(quantizers[q], rows[i].dist, 0);
            NIB_CHECKF(fabs(b.sqnr_db - rows[i].sqnr[q]) < 0.04, "%s %s: SQNR %.3f, published %.2f", rows[i].dist,
                       quantizers[q], b.sqnr_db, rows[i].sqnr[q]);
            NIB_CHECKF(fabs(b.one_minus_alpha - rows[i].loss[q]) < 3e-4, "%s %s: 1-alpha %.5f, published %.4f",
                       rows[i].dist, quantizers[q], b.one_minus_alpha, rows[i].loss[q]);
            NIB_CHECKF(fabs(b.b_eff - rows[i].use[q]) < 2e-3, "%s %s: B_eff %.4f, published %.3f", rows[i].dist,
                       quantizers[q], b.b_eff, rows[i].use[q]);
        }
    for (int q = 0; q < 2; q++) { /* stochastic rounding */
        struct nib_bias b = expect_named(quantizers[q], "gaussian", 32);
        NIB_CHECKF(fabs(b.sqnr_db - (q == 0 ? 17.47 : 18.38)) < 0.03 && fabs(b.one_minus_alpha) < 1e-8,
                   "%s SR: %.3f dB, 1-alpha %g", quantizers[q], b.sqnr_db, b.one_minus_alpha);
    }
    struct nib_bias b = expect_named("te-nvfp4", "gaussian", 0); /* 8.3: seed s.d. .005e-3 */
    NIB_CHECKF(fabs(b.nmse - 9.046e-3) < 0.03e-3 && fabs(b.one_minus_alpha - .00446) < 1e-4,
               "NVFP4: NMSE %.4g, 1-alpha %.5f", b.nmse, b.one_minus_alpha);
}

/* n bits never round up by the last half step: with levels 0 and 1 and t uniform between, a share 2^-(n+1) too few. */
static void truncation_of_stochastic_rounding_is_counted(void) {
    static const float levels[] = {-1, 0, 1};
    struct nib_error error = {NIB_OK, 0, "", ""};
    const struct nib_element *e;
    NIB_OK_OR_FAIL(nib_element_from_levels("ternary", levels, 3, &e, &error), error);
    for (unsigned n = 1; n <= 20; n++) {
        struct nib_sums sums;
        struct nib_bias bias;
        NIB_OK_OR_FAIL(nib_expect_fixed(density("uniform"), e, NIB_RNE, 1, n, &sums, &error), error);
        nib_bias_of(e, &sums, &bias);
        NIB_CHECKF(fabs(bias.b + ldexp(1, -(int)n - 1)) < 1e-15, "%u bits: b = %.17g", n, bias.b);
    }
    nib_element_close(e);
}

/* Gaussian blocks of 16: kurtosis 3 B/(B + 2); two uniform numbers: E max/rms = 2^(1/2) asinh(1). */
static void shapes_of_blocks_are_exact(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    double crest, kurtosis;
    for (unsigned block = 2; block <= 64; block *= 2) {
        NIB_OK_OR_FAIL(nib_expect_shape(density("gaussian"), block, &crest, &kurtosis, &error), error);
        NIB_CHECKF(fabs(kurtosis - 3.0 * block / (block + 2)) < 1e-8, "blocks of %u: %.12g", block, kurtosis);
    }
    NIB_OK_OR_FAIL(nib_expect_shape(density("uniform"), 2, &crest, &kurtosis, &error), error);
    NIB_CHECKF(fabs(crest - sqrt(2) * asinh(1)) < 1e-9, "%.12g", crest);
}

/* Bins of equal height are a uniform density; a grid without sign symmetry and an uneven histogram take other paths. */
static void histogram_of_equal_bins_is_uniform(void) {
    static const double edges[] = {-1, -0.7, 0.1, 0.2, 1}, weights[] = {0.3, 0.8, 0.1, 0.8};
    static const char *const names[] = {"e2m1-fp32", "ocp-mxfp4", "te-nvfp4"};
    struct nib_error error = {NIB_OK, 0, "", ""};
    const struct nib_density *histogram;
    NIB_OK_OR_FAIL(nib_density_from_histogram("box", edges, weights, 4, &histogram, &error), error);
    for (int i = 0; i < 3; i++) {
        const struct nib_quantizer *q;
        struct nib_quantizer_info info;
        struct nib_sums sums[2];
        struct nib_bias bias[2];
        struct nib_expect_options options = {.has_tensor_amax = true, .tensor_amax = 1};
        NIB_OK_OR_FAIL(nib_quantizer_open(names[i], &q, &error), error);
        nib_quantizer_describe(q, &info);
        NIB_OK_OR_FAIL(nib_expect(q, density("uniform"), &options, &sums[0], &error), error);
        NIB_OK_OR_FAIL(nib_expect(q, histogram, &options, &sums[1], &error), error);
        for (int k = 0; k < 2; k++) nib_bias_of(info.block->element, &sums[k], &bias[k]);
        for (int s = 0; s < NIB_STATISTICS; s++) {
            double a = nib_bias_get(&bias[0], (enum nib_statistic)s), b = nib_bias_get(&bias[1], (enum nib_statistic)s);
            double tolerance = s == NIB_STATISTIC_crest || s == NIB_STATISTIC_kurtosis ? 1e-3 : 1e-7;
            NIB_CHECKF(fabs(a - b) <= tolerance * fmax(1, fabs(a)), "%s, %s: uniform %.12g, histogram %.12g", names[i],
                       nib_statistic_name((enum nib_statistic)s), a, b);
        }
        nib_quantizer_close(q);
    }
    nib_density_close(histogram);
}

/* Section 9.3: 2.04 needs rho = 1.5; the printed formula gives 2.46 for NVINT4/NVFP4. */
static void crossovers_of_the_qsnr_formulas(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    struct nib_equation_float e2m1 = {.mbits = 1, .bias = 1, .max = 6};
    double kappa;
    NIB_OK_OR_FAIL(nib_equation_crossover(density("gaussian"), 4, &e2m1, 1.5, 0, &kappa, &error), error);
    NIB_CHECKF(fabs(kappa - 2.04) < 0.005, "MX: %.4f", kappa);
    NIB_OK_OR_FAIL(nib_equation_crossover(density("gaussian"), 4, &e2m1, 1, 16, &kappa, &error), error);
    NIB_CHECKF(fabs(kappa - 2.46) < 0.005, "NV: %.4f", kappa);
    e2m1.w_norm = 1;
    CU_ASSERT_DOUBLE_EQUAL(nib_equation_qsnr_float(&e2m1, 2, 1, 0), 19.82, 0.005); /* the ceiling */
    e2m1.mbits = 60;
    CU_ASSERT(nib_equation_crossover(density("gaussian"), 4, &e2m1, 1, 0, &kappa, &error) == NIB_ECONVERGE);
}

static void equations_are_the_printed_ones(void) {
    const struct nib_element *e = element("e2m1");
    static const double bins[] = {NAN, 0, 0, 0, -0.125, 0, -0.25, NAN}, etas[] = {0.99, 0.98, 1.01};
    for (unsigned k = 0; k < 8; k++) {
        double b = nib_equation_bin_bias(e, k);
        CU_ASSERT(isnan(bins[k]) ? isnan(b) : b == bins[k]);
    }
    CU_ASSERT_DOUBLE_EQUAL(nib_equation_gain(etas, 3), 0.99 * 0.98 * 1.01, 1e-15);
    CU_ASSERT_DOUBLE_EQUAL(nib_equation_gain_approximate(etas, 3), exp(-0.02), 1e-15);
    CU_ASSERT_DOUBLE_EQUAL(nib_equation_eta(0.5, 0.25), 0.125, 0);
    CU_ASSERT_DOUBLE_EQUAL(nib_equation_dsqnr(1e-2, 1e-3), 10, 1e-12);
    struct nib_sums sums = {.xx = 4, .xq = 3, .code_count = {[0] = 5, [8] = 5, [2] = 10}};
    CU_ASSERT_DOUBLE_EQUAL(nib_equation_alpha(&sums), 0.75, 0);
    CU_ASSERT_DOUBLE_EQUAL(nib_equation_b_eff(e, &sums, 0), 2.0 / 8, 1e-15);
}

static void what_cannot_be_expected_is_refused(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    struct nib_expect_plan *plan = NULL;
    const struct nib_quantizer *q;
    struct nib_sums sums = {.count = 7};
    CU_ASSERT(nib_expect_plan_new(density("gaussian"), 0, &plan, &error) == NIB_EINVAL && plan == NULL);
    CU_ASSERT(nib_expect_fixed(density("gaussian"), element("e2m1"), NIB_RNE, 0, 0, &sums, &error) == NIB_EINVAL);
    CU_ASSERT(nib_expect_fixed(density("gaussian"), element("e2m1"), NIB_RNE, NAN, 0, &sums, &error) == NIB_EINVAL);
    static const char *const searching[] = {"fouroversix-nvfp4-mse", "auto-round-mxfp4-search", "quartet2-nvfp4-eden",
                                            "te-nvfp4-sr"};
    for (int i = 0; i < 4; i++) {
        NIB_OK_OR_FAIL(nib_quantizer_open(searching[i], &q, &error), error);
        enum nib_status status = nib_expect(q, density("gaussian"), NULL, &sums, &error);
        NIB_CHECKF(status == NIB_EUNAVAILABLE && strstr(error.text, "no expectation") != NULL && sums.count == 7,
                   "%s: %s", searching[i], error.text);
        nib_quantizer_close(q);
    }
    /* A second moment that exists, but most of it beyond the range of numbers. */
    static const char *const names[] = {"e2m1-fp32", "ocp-mxfp4"};
    for (int i = 0; i < 2; i++) {
        NIB_OK_OR_FAIL(nib_quantizer_open(names[i], &q, &error), error);
        CU_ASSERT(nib_expect(q, density("t2.05"), NULL, &sums, &error) == NIB_ECONVERGE);
        NIB_CHECKF(strstr(error.text, "does not converge") != NULL && sums.count == 7, "%s", error.text);
        nib_quantizer_close(q);
    }
}

NIB_TEST_MAIN("expectation", {"gaussian bins are the published ones", gaussian_bins_are_the_published_ones},
              {"uniform t on the whole range has no bias", uniform_t_on_the_whole_range_has_no_bias},
              {"table of section 3.1", table_of_section_3_1},
              {"truncation of stochastic rounding is counted", truncation_of_stochastic_rounding_is_counted},
              {"shapes of blocks are exact", shapes_of_blocks_are_exact},
              {"histogram of equal bins is uniform", histogram_of_equal_bins_is_uniform},
              {"crossovers of the QSNR formulas", crossovers_of_the_qsnr_formulas},
              {"equations are the printed ones", equations_are_the_printed_ones},
              {"what cannot be expected is refused", what_cannot_be_expected_is_refused})
