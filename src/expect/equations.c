/* Equations of two papers as printed, to stand beside measurements. */
#include "base/error.h"
#include "expect/density.h"
#include "expect/guard.h"
#include <gsl/gsl_errno.h>
#include <gsl/gsl_roots.h>
#include <math.h>

static double magnitude_of(const struct nib_element *element, unsigned magnitude) {
    for (unsigned c = 0; c < NIB_CODES; c++)
        if (element->magnitude_of_code[c] == magnitude) return fabs((double)element->level[c]);
    return NAN;
}

double nib_equation_bin_bias(const struct nib_element *element, unsigned magnitude) {
    if (magnitude == 0 || magnitude + 1 >= element->magnitudes) return NAN;
    return (2 * magnitude_of(element, magnitude) - magnitude_of(element, magnitude - 1) -
            magnitude_of(element, magnitude + 1)) /
           4;
}

double nib_equation_alpha(const struct nib_sums *sums) {
    return sums->xx == 0 ? NAN : sums->xq / sums->xx;
}

double nib_equation_eta(double alpha_a, double alpha_b) {
    return alpha_a * alpha_b;
}

double nib_equation_gain(const double *eta, size_t count) {
    double product = 1;
    for (size_t i = 0; i < count; i++) product *= eta[i];
    return product;
}

double nib_equation_gain_approximate(const double *eta, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += 1 - eta[i];
    return exp(-sum);
}

double nib_equation_b_eff(const struct nib_element *element, const struct nib_sums *sums, double eps) {
    double share[NIB_CODES] = {0}, all = 0, entropy = 0;
    for (unsigned c = 0; c < NIB_CODES; c++) {
        if (element->magnitude_of_code[c] >= NIB_CODES) continue;
        share[element->magnitude_of_code[c]] += (double)sums->code_count[c];
        all += (double)sums->code_count[c];
    }
    for (unsigned k = 0; k < element->magnitudes; k++)
        if (share[k] > 0) entropy -= share[k] / all * log(share[k] / all + eps);
    return all == 0 ? NAN : exp(entropy) / element->magnitudes;
}

double nib_equation_dsqnr(double nmse_raw, double nmse_rotated) {
    return 10 * log10(nmse_raw / nmse_rotated);
}

double nib_equation_qsnr_int(unsigned bits, double kappa, double rho, unsigned block) {
    double base = 4.78 + 6.02 * bits - 20 * log10(kappa);
    return block > 1 ? base + 10 * log10(block / (block - 1.0)) : base - 20 * log10(rho);
}

double nib_equation_qsnr_float(const struct nib_equation_float *f, double kappa, double rho, unsigned block) {
    double a = 1 / (24 * exp2(2.0 * f->mbits));
    double beta = exp2(2 * (1 - f->bias - (double)f->mbits)) / (12 * f->max * f->max);
    double noise = block > 1 ? a * (f->w_norm - kappa * kappa / block) + beta * kappa * kappa * f->p_sub
                             : a * f->w_norm + beta * rho * rho * kappa * kappa * f->p_sub;
    return -10 * log10(noise);
}

void nib_equation_float_shares(const struct nib_density *density, double kappa, double rho,
                               struct nib_equation_float *f) {
    double second, border[3], below[3];
    if (nib_density_moment(density, 2, &second, NULL) != NIB_OK) return;
    double normal = exp2(1 - f->bias) * rho * kappa / f->max * sqrt(second); /* smallest normal number, in x */
    nib_density_partial(density, normal, border);
    nib_density_partial(density, -normal, below);
    f->p_sub = border[0] - below[0];
    f->w_norm = 1 - (border[2] - below[2]) / second;
}

struct crossing {
    const struct nib_density *density;
    struct nib_equation_float f;
    unsigned bits, block;
    double rho;
};

static double advantage(double kappa, void *context) {
    struct crossing *c = context;
    nib_equation_float_shares(c->density, kappa, c->rho, &c->f);
    return nib_equation_qsnr_int(c->bits, kappa, c->rho, c->block) -
           nib_equation_qsnr_float(&c->f, kappa, c->rho, c->block);
}

enum nib_status nib_equation_crossover(const struct nib_density *density, unsigned int_bits,
                                       const struct nib_equation_float *f, double rho, unsigned block, double *kappa,
                                       struct nib_error *error) {
    const double low = 1.05, high = 30;
    struct crossing crossing = {density, *f, int_bits, block, rho};
    gsl_function function = {advantage, &crossing};
    struct nib_guard guard = nib_guard_enter();
    double top = low; /* the first step over which the sign changes */
    while (top < high && (advantage(top, &crossing) > 0) == (advantage(low, &crossing) > 0)) top *= 1.1;
    gsl_root_fsolver *solver = top < high ? gsl_root_fsolver_alloc(gsl_root_fsolver_brent) : NULL;
    int state = GSL_CONTINUE;
    if (solver != NULL && gsl_root_fsolver_set(solver, &function, low, top) == GSL_SUCCESS)
        for (int i = 0; state == GSL_CONTINUE && i < 100; i++) {
            state = gsl_root_fsolver_iterate(solver);
            if (state == GSL_SUCCESS)
                state = gsl_root_test_interval(gsl_root_fsolver_x_lower(solver), gsl_root_fsolver_x_upper(solver), 0,
                                               1e-10);
        }
    double root = state == GSL_SUCCESS ? gsl_root_fsolver_root(solver) : NAN;
    if (solver != NULL) gsl_root_fsolver_free(solver);
    nib_guard_leave(guard);
    if (isnan(root))
        return nib_fail(error, NIB_ECONVERGE, "the two formulas give no equal QSNR at a crest factor between %g and %g",
                        low, high);
    *kappa = root;
    return NIB_OK;
}
