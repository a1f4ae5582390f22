/* Densities whose partial moments are incomplete beta and gamma functions: Student t, generalised Gaussian. */
#include "expect/density.h"

#include "base/error.h"
#include "base/number.h"
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sf_gamma.h>
#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

/* u^2 f is nu times (a t density of nu - 2 degrees, rescaled, minus f). */
static void student(const struct nib_density *density, double x, double out[NIB_DENSITY_VALUES]) {
    double nu = density->parameter;
    double c = exp(gsl_sf_lngamma((nu + 1) / 2) - gsl_sf_lngamma(nu / 2)) / sqrt(nu * pi);
    double growth = log1p(x * x / nu);
    out[0] = 0.5 - gsl_cdf_tdist_Q(x, nu);
    out[1] = -c * nu / (nu - 1) * expm1(-(nu - 1) / 2 * growth);
    double other = 0.5 - gsl_cdf_tdist_Q(x * sqrt((nu - 2) / nu), nu - 2);
    double c_other = exp(gsl_sf_lngamma((nu - 1) / 2) - gsl_sf_lngamma(nu / 2 - 1)) / sqrt((nu - 2) * pi);
    out[2] = nu * (c * sqrt(nu / (nu - 2)) / c_other * other - out[0]);
    out[3] = x * c * exp(-(nu + 1) / 2 * growth);
}

static void student_tails(const struct nib_density *density, double x, double out[3]) {
    double nu = density->parameter;
    double c = exp(gsl_sf_lngamma((nu + 1) / 2) - gsl_sf_lngamma(nu / 2)) / sqrt(nu * pi);
    double c_other = exp(gsl_sf_lngamma((nu - 1) / 2) - gsl_sf_lngamma(nu / 2 - 1)) / sqrt((nu - 2) * pi);
    out[0] = gsl_cdf_tdist_Q(x, nu);
    out[1] = c * nu / (nu - 1) * exp(-(nu - 1) / 2 * log1p(x * x / nu));
    out[2] = nu * (c * sqrt(nu / (nu - 2)) / c_other * gsl_cdf_tdist_Q(x * sqrt((nu - 2) / nu), nu - 2) - out[0]);
}

static void generalised(const struct nib_density *density, double x, double out[NIB_DENSITY_VALUES]) {
    double beta = density->parameter, power = pow(x, beta), all = gsl_sf_lngamma(1 / beta);
    for (int k = 0; k < 3; k++) {
        double a = (k + 1) / beta;
        out[k] = power > 700 ? density->half[k] : gsl_sf_gamma_inc_P(a, power) * exp(gsl_sf_lngamma(a) - all) / 2;
    }
    out[3] = x * beta / 2 * exp(-power - all);
}

static enum nib_status make_student(struct nib_density *out, struct nib_error *error) {
    double nu = out->parameter;
    if (!(nu > 2))
        return nib_fail(error, NIB_EINVAL,
                        "%s: the second moment of Student's t is infinite for %g <= 2 degrees of freedom, so alpha and "
                        "SQNR do not exist; expected more than 2",
                        out->name, nu);
    double c = exp(gsl_sf_lngamma((nu + 1) / 2) - gsl_sf_lngamma(nu / 2)) / sqrt(nu * pi);
    out->values = student;
    out->tails = student_tails;
    out->half[1] = c * nu / (nu - 1);
    out->half[2] = nu / (nu - 2) / 2;
    out->fourth = nu > 4 ? 3 * nu * nu / ((nu - 2) * (nu - 4)) : INFINITY;
    return NIB_OK;
}

static enum nib_status make_generalised(struct nib_density *out, struct nib_error *error) {
    double beta = out->parameter;
    if (!(beta >= 0.25 && beta <= 64))
        return nib_fail(error, NIB_EINVAL, "%s: the exponent of a generalised Gaussian must lie between 0.25 and 64",
                        out->name);
    double all = gsl_sf_lngamma(1 / beta);
    out->values = generalised;
    out->half[1] = exp(gsl_sf_lngamma(2 / beta) - all) / 2;
    out->half[2] = exp(gsl_sf_lngamma(3 / beta) - all) / 2;
    out->fourth = exp(gsl_sf_lngamma(5 / beta) - all);
    return NIB_OK;
}

enum nib_status nib_density_special(const char *name, struct nib_density *out, bool *known, struct nib_error *error) {
    bool t = name[0] == 't' && nib_number_double(name + 1, &out->parameter);
    bool gg = strncmp(name, "gg", 2) == 0 && nib_number_double(name + 2, &out->parameter);
    if (!t && !gg) return NIB_OK;
    *known = true;
    out->half[0] = 0.5;
    out->largest = INFINITY;
    enum nib_status status = t ? make_student(out, error) : make_generalised(out, error);
    double octaves = t ? 0.5 : 0.5 / ceil(out->parameter / 2); /* exp(-x^beta) is the steeper the larger beta is */
    return status == NIB_OK ? nib_density_tabulate(out, octaves, error) : status;
}
