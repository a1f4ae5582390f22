/* Partial moments of every density against adaptive quadrature of densities written down here. */
#include <nibble/expect.h>

#include "nib_test.h"
#include <gsl/gsl_integration.h>
#include <math.h>
#include <unistd.h>

struct integrand {
    double (*pdf)(double x, double parameter);
    double parameter;
    int power;
};

static double gaussian(double x, double p) {
    return (void)p, exp(-x * x / 2) / sqrt(2 * acos(-1));
}
static double laplace(double x, double p) {
    return (void)p, exp(-fabs(x)) / 2;
}
static double logistic(double x, double p) {
    return (void)p, 1 / pow(2 * cosh(x / 2), 2);
}
static double uniform(double x, double p) {
    return (void)p, fabs(x) <= 1 ? 0.5 : 0;
}
static double student(double x, double nu) {
    return tgamma((nu + 1) / 2) / (sqrt(nu * acos(-1)) * tgamma(nu / 2)) * pow(1 + x * x / nu, -(nu + 1) / 2);
}
static double power(double x, double beta) {
    return beta / (2 * tgamma(1 / beta)) * exp(-pow(fabs(x), beta));
}

static double times_power(double x, void *context) {
    const struct integrand *f = context;
    return pow(x, f->power) * f->pdf(x, f->parameter);
}

static double integral(gsl_function *f, double a, double b) {
    static gsl_integration_workspace *workspace;
    double value, estimate;
    if (workspace == NULL) workspace = gsl_integration_workspace_alloc(2000);
    if (isinf(b))
        gsl_integration_qagiu(f, a, 1e-13, 1e-12, 2000, workspace, &value, &estimate);
    else
        gsl_integration_qags(f, a, b, 1e-14, 1e-12, 2000, workspace, &value, &estimate);
    return value;
}

static void partial_moments_are_integrals_of_the_density(void) {
    static const struct {
        const char *name;
        double (*pdf)(double x, double parameter);
        double parameter;
    } densities[] = {{"gaussian", gaussian, 0}, {"laplace", laplace, 0}, {"logistic", logistic, 0},
                     {"uniform", uniform, 0},   {"t3", student, 3},      {"t2.5", student, 2.5},
                     {"t12", student, 12},      {"gg0.5", power, 0.5},   {"gg1.7", power, 1.7},
                     {"gg8", power, 8},         {"gg2", power, 2}};
    static const double places[] = {1e-9, 1e-3, 0.07, 0.3, 0.9, 1.0, 2.2, 5.5, 30};
    struct nib_error error = {NIB_OK, 0, "", ""};
    for (size_t i = 0; i < sizeof densities / sizeof *densities; i++) {
        const struct nib_density *density;
        NIB_OK_OR_FAIL(nib_density_open(densities[i].name, &density, &error), error);
        for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
            double partial[3], mirrored[3], x = places[k];
            nib_density_partial(density, x, partial);
            nib_density_partial(density, -x, mirrored);
            for (int power_of_x = 0; power_of_x < 3; power_of_x++) {
                struct integrand f = {densities[i].pdf, densities[i].parameter, power_of_x};
                gsl_function function = {times_power, &f};
                double expected = integral(&function, 0, densities[i].pdf == uniform ? fmin(x, 1) : x);
                NIB_CHECKF(fabs(partial[power_of_x] - expected) <= 2e-12 * fmax(1, expected),
                           "%s, moment %d to %g: %.15g, expected %.15g", densities[i].name, power_of_x, x,
                           partial[power_of_x], expected);
                CU_ASSERT(mirrored[power_of_x] == (power_of_x == 1 ? 1 : -1) * partial[power_of_x]);
            }
            double f = nib_density_pdf(density, x), expected = densities[i].pdf(x, densities[i].parameter);
            NIB_CHECKF(fabs(f - expected) <= 1e-11 * fmax(expected, 1), "%s at %g: %.15g, expected %.15g",
                       densities[i].name, x, f, expected);
        }
        double second;
        NIB_OK_OR_FAIL(nib_density_moment(density, 2, &second, &error), error);
        struct integrand f = {densities[i].pdf, densities[i].parameter, 2};
        gsl_function function = {times_power, &f};
        double expected = 2 * integral(&function, 0, densities[i].pdf == uniform ? 1 : INFINITY);
        NIB_CHECKF(fabs(second / expected - 1) < (densities[i].parameter == 2.5 ? 1e-4 : 1e-9),
                   "%s: E x^2 = %.12g, expected %.12g", densities[i].name, second, expected);
        nib_density_close(density);
    }
}

/* silu(a N) N': E x^2 = E silu(a N)^2, and P(|x| <= y) = E erf(y / (sqrt(2) |silu(a N)|)). */
static double silu_square(double z, void *context) {
    double a = *(double *)context, h = a * z / (1 + exp(-a * z));
    return h * h * exp(-z * z / 2) / sqrt(2 * acos(-1));
}
struct silu_share {
    double a, y;
};
static double silu_share(double z, void *context) {
    const struct silu_share *s = context;
    double h = fabs(s->a * z / (1 + exp(-s->a * z)));
    return erf(s->y / (sqrt(2) * h)) * exp(-z * z / 2) / sqrt(2 * acos(-1));
}
static void gated_product_is_a_mixture(void) {
    static double gains[] = {1, 4};
    struct nib_error error = {NIB_OK, 0, "", ""};
    for (size_t i = 0; i < 2; i++) {
        char name[32];
        const struct nib_density *density;
        double second;
        snprintf(name, sizeof name, "silu%g", gains[i]);
        NIB_OK_OR_FAIL(nib_density_open(name, &density, &error), error);
        NIB_OK_OR_FAIL(nib_density_moment(density, 2, &second, &error), error);
        gsl_function square = {silu_square, &gains[i]};
        double expected = integral(&square, -12, 0) + integral(&square, 0, 12);
        NIB_CHECKF(fabs(second / expected - 1) < 1e-10, "%s: E x^2 = %.15g, expected %.15g", name, second, expected);
        static const double places[] = {1e-4, 0.01, 0.2, 1, 3};
        for (size_t k = 0; k < 5; k++) {
            struct silu_share s = {gains[i], places[k]};
            gsl_function share = {silu_share, &s};
            double partial[3], whole = integral(&share, -12, 0) + integral(&share, 0, 12);
            nib_density_partial(density, places[k], partial);
            NIB_CHECKF(fabs(2 * partial[0] - whole) < 1e-10, "%s to %g: %.15g, expected %.15g", name, places[k],
                       2 * partial[0], whole);
        }
        nib_density_close(density);
    }
}

static void histogram_may_be_lopsided(void) {
    static const double edges[] = {-1, 0.5, 2, 4}, weights[] = {3, 0, 1};
    struct nib_error error = {NIB_OK, 0, "", ""};
    const struct nib_density *density;
    double partial[3], value;
    NIB_OK_OR_FAIL(nib_density_from_histogram("h", edges, weights, 3, &density, &error), error);
    nib_density_partial(density, 3, partial); /* 1/2 on [0, 0.5], 1/8 on [2, 3] */
    CU_ASSERT_DOUBLE_EQUAL(partial[0], 0.25 + 0.125, 1e-15);
    CU_ASSERT_DOUBLE_EQUAL(partial[1], 0.0625 + 5.0 / 16, 1e-15);
    CU_ASSERT_DOUBLE_EQUAL(partial[2], 0.5 / 24 + 19.0 / 24, 1e-15);
    nib_density_partial(density, -0.5, partial);
    CU_ASSERT_DOUBLE_EQUAL(partial[0], -0.25, 1e-15);
    CU_ASSERT_DOUBLE_EQUAL(partial[1], 0.0625, 1e-15);
    NIB_OK_OR_FAIL(nib_density_moment(density, 1, &value, &error), error);
    CU_ASSERT_DOUBLE_EQUAL(value, 0.25 + 0.0625 + 0.75, 1e-15);
    nib_density_close(density);
}

static void refused(const char *name, enum nib_status expected, const char *text) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    const struct nib_density *density = NULL;
    enum nib_status status = nib_density_open(name, &density, &error);
    NIB_CHECKF(status == expected && strstr(error.text, text) != NULL && density == NULL, "%s: %s %s", name,
               nib_status_name(status), error.text);
}

static void what_has_no_second_moment_is_refused(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    const struct nib_density *density;
    double value = 7;
    refused("t2", NIB_EINVAL, "second moment of Student's t is infinite");
    refused("t1", NIB_EINVAL, "expected more than 2");
    refused("t-3", NIB_EINVAL, "infinite");
    refused("gg0.1", NIB_EINVAL, "between 0.25 and 64");
    refused("silu0", NIB_EINVAL, "between 0.001 and 1000");
    refused("gauss", NIB_EINVAL, "expected gaussian, laplace");
    refused("t", NIB_EINVAL, "no density");
    refused("hist:/nowhere/at.all", NIB_EIO, "");
    NIB_OK_OR_FAIL(nib_density_open("t3", &density, &error), error);
    CU_ASSERT(nib_density_moment(density, 4, &value, &error) == NIB_EINVAL && value == 7);
    CU_ASSERT(strstr(error.text, "order 4 is infinite") != NULL);
    nib_density_close(density);
}

static void bad_histograms_are_refused(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    const struct nib_density *density = NULL;
    static const double down[] = {0, 1, 1}, up[] = {0, 1, 2}, zero[] = {0, 0}, negative[] = {1, -1};
    CU_ASSERT(nib_density_from_histogram("h", down, up, 2, &density, &error) == NIB_EINVAL &&
              strstr(error.text, "must be finite and ascend"));
    CU_ASSERT(nib_density_from_histogram("h", up, zero, 2, &density, &error) == NIB_EINVAL &&
              strstr(error.text, "all weights are 0"));
    CU_ASSERT(nib_density_from_histogram("h", up, negative, 2, &density, &error) == NIB_EINVAL &&
              strstr(error.text, "weight 1 is -1"));
    CU_ASSERT(nib_density_from_histogram("h", up, up, 0, &density, &error) == NIB_EINVAL &&
              strstr(error.text, "at least one bin"));
    char path[] = "/tmp/nibble-histogram-XXXXXX", name[64];
    int file = mkstemp(path);
    const char *text = "# edges\n-1 2\n0 3x\n1 0\n";
    CU_ASSERT(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
    snprintf(name, sizeof name, "hist:%s", path);
    CU_ASSERT(nib_density_open(name, &density, &error) == NIB_ESYNTAX && error.line == 3);
    unlink(path);
}

NIB_TEST_MAIN("densities",
              {"partial moments are integrals of the density", partial_moments_are_integrals_of_the_density},
              {"gated product is a mixture", gated_product_is_a_mixture},
              {"histogram may be lopsided", histogram_may_be_lopsided},
              {"what has no second moment is refused", what_has_no_second_moment_is_refused},
              {"bad histograms are refused", bad_histograms_are_refused})
