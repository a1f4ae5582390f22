/* Quadrature against measurement: every grid, scale format and density shipped, with a family-wise error of 1e-4. */
#include <nibble/expect.h>

#include "format/registry.h"
#include "job/sample.h"
#include "nib_test.h"
#include <gsl/gsl_cdf.h>
#include <math.h>

enum { COLS = 1024, BLOCK = 16, MOST = 512 };

static const char *const finite_fourth[] = {"gaussian", "laplace", "logistic", "uniform", "silu1",
                                            "silu4",    "t5",      "t9",       "gg0.7",   "gg3"};
static const char *const heavy[] = {"t3", "t2.5"};
enum { DENSITIES = sizeof finite_fourth / sizeof *finite_fourth, HEAVY = sizeof heavy / sizeof *heavy };

/* 2^24 elements, or 2^18 on the quick level, whose standard errors are larger. */
static size_t rows(void) {
    static size_t count;
    if (count == 0) count = nib_test_full() ? 16384 : 256;
    return count;
}
static int threads(void) {
    return nib_test_full() ? 2 : 1;
}

static void measure(const struct nib_quantizer *quantizer, const float *x, float amax, struct nib_measurement *out) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    struct nib_quantizer_info info;
    struct nib_quantized q;
    struct nib_view view = {x, NIB_F32, rows(), COLS, COLS};
    nib_quantizer_describe(quantizer, &info);
    NIB_OK_OR_FAIL(
        nib_quantized_alloc(quantizer, view.rows, COLS, NIB_ALONG_COLS, NIB_WANT_CODES | NIB_WANT_SCALES, &q, &error),
        error);
    struct nib_quantize_options options = {.axis = NIB_ALONG_COLS, .threads = threads()};
    if (info.block->has_tensor_scale) {
        options.has_tensor_amax = true;
        options.tensor_amax = amax;
    }
    NIB_OK_OR_FAIL(nib_quantize(quantizer, view, &options, &q, &error), error);
    struct nib_measure_options measure_options = {.along = 32, .across = 1, .threads = threads()};
    NIB_OK_OR_FAIL(nib_measure(quantizer, view, &q, &measure_options, out, &error), error);
    nib_quantized_free(&q);
}

/* How many comparisons share the family-wise error, and the quantile of Student's t that follows: standard errors have
 * 31 degrees of freedom. */
static double quantile(size_t comparisons) {
    return gsl_cdf_tdist_Qinv(1e-4 / (double)comparisons / 2, NIB_BATCHES - 1);
}

static size_t compared, family;

/* binary32 arithmetic moves what lies within 1e-7 of a border. */
static void agrees(const char *label, const char *what, struct nib_estimate got, double expected, double size) {
    if (isnan(expected) && isnan(got.value)) return;
    compared++;
    double bound = quantile(family) * (isnan(got.error) ? 0 : got.error) + 1e-6 * size;
    NIB_CHECKF(fabs(got.value - expected) <= bound, "%s, %s: measured %.8g +- %.2g, expected %.8g", label, what,
               got.value, got.error, expected);
}

static void compare_levels(const char *label, const struct nib_element *element, const struct nib_measurement *m,
                           const struct nib_sums *expected) {
    double all = 0, elements = (double)m->total.count;
    for (unsigned c = 0; c < NIB_CODES; c++) all += (double)expected->code_count[c];
    for (unsigned c = 0; c < NIB_CODES; c++) {
        struct nib_level_estimate level;
        char what[64];
        if (element->rank_of_code[c] == 255) continue;
        double share = (double)expected->code_count[c] / all;
        if (share * elements < 5000) continue; /* too few for a standard error from 32 batches */
        nib_measurement_level(m, (uint8_t)c, &level);
        snprintf(what, sizeof what, "share of level %g", (double)element->level[c]);
        agrees(label, what, level.share, share, 1);
        snprintf(what, sizeof what, "mean error at level %g", (double)element->level[c]);
        agrees(label, what, level.error, expected->code_error[c] / (double)expected->code_count[c],
               (double)element->max_magnitude);
    }
}

/* Shares so small that the sample has only a few of them have no standard error. */
static bool too_rare(enum nib_statistic s, double value) {
    return (s == NIB_STATISTIC_clipped || s == NIB_STATISTIC_underflow) && value * (double)(rows() * COLS) < 5000;
}

static void compare(const char *label, const struct nib_element *element, const struct nib_measurement *m,
                    const struct nib_sums *sums, bool weighted) {
    struct nib_estimate estimate[NIB_STATISTICS];
    struct nib_bias expected;
    nib_measurement_estimates(m, estimate);
    nib_bias_of(element, sums, &expected);
    for (int s = 0; s < NIB_STATISTICS; s++) {
        bool energy = !(s == NIB_STATISTIC_b || s == NIB_STATISTIC_b_relative || s == NIB_STATISTIC_b_eff ||
                        s == NIB_STATISTIC_b_zero || s == NIB_STATISTIC_b_interior || s == NIB_STATISTIC_b_top ||
                        s == NIB_STATISTIC_clipped || s == NIB_STATISTIC_underflow || s == NIB_STATISTIC_crest ||
                        s == NIB_STATISTIC_kurtosis || s == NIB_STATISTIC_code_entropy);
        double value = nib_bias_get(&expected, (enum nib_statistic)s);
        if ((energy && !weighted) || too_rare((enum nib_statistic)s, value)) continue;
        if (s == NIB_STATISTIC_nmse_coherent) continue; /* the square of 1 - alpha, which is compared */
        double size = s == NIB_STATISTIC_sqnr_db ? 20 : fmax(1, fabs(value));
        agrees(label, nib_statistic_name((enum nib_statistic)s), estimate[s], value, size);
    }
    compare_levels(label, element, m, sums);
}

static struct case_ {
    const struct nib_quantizer *quantizer;
    char label[128];
} cases[MOST];
static size_t case_count;

static void add_case(enum nib_status status, const struct nib_quantizer *quantizer, const char *label,
                     struct nib_error *error) {
    NIB_OK_OR_FAIL(status, *error);
    if (case_count == MOST) abort();
    cases[case_count].quantizer = quantizer;
    snprintf(cases[case_count++].label, sizeof cases[0].label, "%s", label);
}

/* Every element with every scale format, and the shipped quantizers whose blocks are scaled by their maximum. */
static void open_cases(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    static const char *const shipped[] = {"e2m1-fp32", "e1m2-fp32", "te-nvfp4", "te-ref-nvfp4", "ocp-mxfp4"};
    for (size_t i = 0; nib_registry_name("elements", i) != NULL; i++)
        for (size_t k = 0; nib_registry_name("scales", k) != NULL; k++) {
            const struct nib_element *element;
            const struct nib_scale *scale;
            const struct nib_quantizer *quantizer = NULL;
            char label[128];
            snprintf(label, sizeof label, "%s with %s", nib_registry_name("elements", i),
                     nib_registry_name("scales", k));
            NIB_OK_OR_FAIL(nib_element_open(nib_registry_name("elements", i), &element, &error), error);
            NIB_OK_OR_FAIL(nib_scale_open(nib_registry_name("scales", k), &scale, &error), error);
            enum nib_status status = nib_quantizer_of_grid(element, scale, BLOCK, &quantizer, &error);
            add_case(status, quantizer, label, &error);
        }
    for (size_t i = 0; i < sizeof shipped / sizeof *shipped; i++) {
        const struct nib_quantizer *quantizer = NULL;
        enum nib_status status = nib_quantizer_open(shipped[i], &quantizer, &error);
        add_case(status, quantizer, shipped[i], &error);
    }
    static const char *const stochastic[][2] = {{"rounding=sr", "sr_bits=8"}, {"rounding=sr", "sr_bits=32"}};
    for (size_t i = 0; i < 4; i++) {
        const struct nib_quantizer *base, *quantizer = NULL;
        NIB_OK_OR_FAIL(nib_quantizer_open(i < 2 ? "e2m1-fp32" : "te-nvfp4", &base, &error), error);
        enum nib_status status = nib_quantizer_with(base, stochastic[i % 2], 2, &quantizer, &error);
        add_case(status, quantizer, i < 2 ? "e2m1-fp32, stochastic" : "te-nvfp4, stochastic", &error);
        nib_quantizer_close(base);
    }
    CU_ASSERT(case_count > 40);
}

static void for_density(const char *name, void (*check)(const struct nib_density *density, const float *x)) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    const struct nib_density *density;
    struct nib_distribution distribution;
    float *x = malloc(rows() * COLS * sizeof *x);
    NIB_OK_OR_FAIL(nib_density_open(name, &density, &error), error);
    NIB_OK_OR_FAIL(nib_distribution_parse(name, &distribution, &error), error);
    nib_distribution_fill(&distribution, 6, 0, rows() * COLS, threads(), x);
    check(density, x);
    nib_density_close(density);
    free(x);
}

static float given_amax(const float *x) {
    float amax = 0;
    for (size_t i = 0; i < rows() * COLS; i++) amax = fmaxf(amax, fabsf(x[i]));
    return amax / 2; /* blocks beyond it run into the largest scale, and must be expected too */
}

static void compare_medians(const struct nib_density *density, const struct case_ *c, const struct nib_element *element,
                            const struct nib_measurement *m, const struct nib_sums *sums);

static void compare_all(const struct nib_density *density, const float *x) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    double fourth;
    float amax = given_amax(x);
    static size_t turn; /* the quick level takes a quarter of the cases, other ones for each density */
    turn++;
    bool weighted = nib_density_moment(density, 4, &fourth, NULL) == NIB_OK;
    for (size_t i = 0; i < case_count; i++) {
        if (!nib_test_full() && i != 0 && (i + turn) % 4 != 0) continue;
        struct nib_quantizer_info info;
        struct nib_measurement m;
        struct nib_sums sums;
        char label[256];
        struct nib_expect_options options = {.has_tensor_amax = true, .tensor_amax = amax, .without_shape = i != 0};
        nib_quantizer_describe(cases[i].quantizer, &info);
        snprintf(label, sizeof label, "%s, %s", nib_density_name(density), cases[i].label);
        measure(cases[i].quantizer, x, options.tensor_amax, &m);
        NIB_OK_OR_FAIL(nib_expect(cases[i].quantizer, density, &options, &sums, &error), error);
        if (i != 0) { /* crest factor and kurtosis do not depend on the quantizer */
            m.total.block_count = 0;
            for (unsigned b = 0; b < m.batches; b++) m.batch[b].block_count = 0;
        }
        compare(label, info.block->element, &m, &sums, weighted);
        /* A tensor amax far below the largest blocks saturates their scale: their energy is lost as rarely as it
         * occurs. */
        if (!weighted && info.block->scale->max_value > 1e6f)
            compare_medians(density, &cases[i], info.block->element, &m, &sums);
    }
}

static void quadrature_and_measurement_agree(void) {
    open_cases();
    family = case_count * DENSITIES * (NIB_STATISTICS + 2 * NIB_CODES); /* an upper bound, fixed beforehand */
    for (size_t i = 0; i < DENSITIES; i++) for_density(finite_fourth[i], compare_all);
    CU_ASSERT(compared <= family && compared > family / (nib_test_full() ? 4 : 16));
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median_of(double *values, size_t count) {
    qsort(values, count, sizeof *values, ascending);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* Where the fourth moment is infinite, ratios of energies have no standard error: the median of the batches stands
 * within the scatter of the batches. Counts and errors in units of the grid are bounded, and compared as before. */
static void compare_medians(const struct nib_density *density, const struct case_ *c, const struct nib_element *element,
                            const struct nib_measurement *m, const struct nib_sums *sums) {
    static const enum nib_statistic energies[] = {NIB_STATISTIC_alpha, NIB_STATISTIC_sqnr_db, NIB_STATISTIC_norm_ratio,
                                                  NIB_STATISTIC_cosine};
    struct nib_bias expected, batch;
    nib_bias_of(element, sums, &expected);
    for (size_t e = 0; e < sizeof energies / sizeof *energies; e++) {
        double value[NIB_BATCHES], deviation[NIB_BATCHES], truth = nib_bias_get(&expected, energies[e]);
        for (unsigned b = 0; b < m->batches; b++) {
            nib_bias_of(element, &m->batch[b], &batch);
            value[b] = nib_bias_get(&batch, energies[e]);
        }
        double median = median_of(value, m->batches);
        for (unsigned b = 0; b < m->batches; b++) deviation[b] = fabs(value[b] - median);
        double scatter = 1.4826 * median_of(deviation, m->batches);
        NIB_CHECKF(fabs(median - truth) <= 4 * scatter + 1e-6,
                   "%s, %s, %s: median of batches %.6g, scatter %.2g, expected %.6g", nib_density_name(density),
                   c->label, nib_statistic_name(energies[e]), median, scatter, truth);
    }
}

static void heavy_tails_agree_in_medians(void) {
    for (size_t i = 0; i < HEAVY; i++) for_density(heavy[i], compare_all);
}

NIB_TEST_MAIN("expectation and measurement", {"quadrature and measurement agree", quadrature_and_measurement_agree},
              {"heavy tails agree in medians", heavy_tails_agree_in_medians})
