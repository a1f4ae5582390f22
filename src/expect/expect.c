/* The expectation of a quantizer: sums over the steps of a block scale, or an integral over the block's maximum.
 *
 * Where the scale is constant for a < max <= b, a block of B elements adds, per element,
 *     H(b) G(b)^(B-1) - H(a) G(a)^(B-1),    H(c) = integral of h over |x| <= c,  G(c) = P(|x| <= c),
 * because max <= c means that all are; this is exact and needs no quadrature. */
#include "base/error.h"
#include "base/memory.h"
#include "expect/guard.h"
#include "expect/plan.h"
#include "expect/scale_map.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The choices of a quantizer that the cells need. */
struct choices {
    enum nib_rounding mode;
    unsigned sr_bits;
    bool bf16, drop_zero;
};

static enum nib_status read_choices(const struct nib_quantizer *quantizer, const char *name, struct choices *out,
                                    struct nib_error *error) {
    struct choices c = {.mode = NIB_RNE};
    const char *axis, *value;
    bool stochastic = false, plain_form = true, corrected = false;
    for (size_t i = 0; nib_quantizer_axis(quantizer, i, &axis, &value); i++) {
        if (strcmp(axis, "rounding") == 0) {
            stochastic = strncmp(value, "sr", 2) == 0;
            /* Variants ("rne;a+.5") differ from their rule next to ties alone; nib_scale_map_check() sees where not. */
            char rule[16];
            snprintf(rule, sizeof rule, "%.*s", (int)strcspn(value, ";"), value);
            if (nib_rounding_parse(rule, &c.mode, NULL) != NIB_OK) c.mode = NIB_RNE;
        }
        if (strcmp(axis, "scale_correction") == 0) corrected = strcmp(value, "none") != 0;
        if (strcmp(axis, "sr_form") == 0) plain_form = strcmp(value, "carry") == 0;
        if (strcmp(axis, "sr_bits") == 0) c.sr_bits = (unsigned)strtoul(value, NULL, 10);
        if (strcmp(axis, "element_precision") == 0) c.bf16 = strcmp(value, "bf16") == 0;
        if (strcmp(axis, "signed_zero") == 0) c.drop_zero = strcmp(value, "drop") == 0;
    }
    if (!stochastic) c.sr_bits = 0;
    if (corrected)
        return nib_fail(error, NIB_EUNAVAILABLE,
                        "%s: no expectation: its block scales are corrected by what was rounded", name);
    if (stochastic && !plain_form)
        return nib_fail(error, NIB_EUNAVAILABLE,
                        "%s: no expectation: only stochastic rounding of the form \"carry\" has one", name);
    *out = c;
    return NIB_OK;
}

/* low < |x| <= high, or |x| <= high where low is 0, at any scale. */
static void add_elements(const struct nib_cells *cells, const struct nib_density *density, double low, double high,
                         double s, double weight, struct nib_moments *out) {
    if (!(low < high) || weight == 0) return;
    if (isnan(s) || isinf(s))
        nib_cells_add_zero(density, low, high, true, weight, out);
    else if (s == 0)
        nib_cells_add_zero(density, low, high, false, weight, out);
    else if (low == 0)
        nib_cells_add(cells, density, high, s, weight, out);
    else
        nib_cells_add_shell(cells, density, low, high, s, weight, out);
}

/* H(b) G(b)^n - H(a) G(a)^n as (H(b) - H(a)) G(b)^n + H(a) (G(b)^n - G(a)^n), because far out in a heavy tail the scale
 * is large and the shares are small. */
static void sum_steps(const struct nib_scale_map *map, const struct nib_cells *cells, const struct nib_density *density,
                      double others, struct nib_moments *out) {
    double lower = 0, beyond_lower = 1;
    for (size_t i = 0; i < map->count && lower < density->largest; i++) {
        double upper = fmin(map->bound[i], density->largest), beyond = nib_density_beyond(density, upper);
        double weight = exp(others * log1p(-beyond)), gained = weight;
        if (beyond_lower < 1) {
            double step = others * log1p((beyond_lower - beyond) / (1 - beyond_lower)); /* of the logarithm of G^n */
            gained = step < 1 ? weight * -expm1(-step) : weight * (1 - exp(-step));
        }
        if (others == 0) gained = 0;
        if (beyond == 1) weight = 0;
        add_elements(cells, density, lower, upper, map->scale[i], weight, out);
        if (lower > 0) add_elements(cells, density, 0, lower, map->scale[i], gained, out);
        lower = upper;
        beyond_lower = beyond;
    }
}

static enum nib_status add_shape(const struct nib_density *density, unsigned block, struct nib_sums *sums,
                                 struct nib_error *error) {
    double crest = NAN, kurtosis = NAN;
    enum nib_status status = nib_expect_shape(density, block, &crest, &kurtosis, error);
    sums->block_count = NIB_EXPECT_COUNT / block;
    sums->crest_sum = crest * (double)sums->block_count;
    sums->kurtosis_sum = kurtosis * (double)sums->block_count;
    return status;
}

static enum nib_status expect(const struct nib_quantizer *quantizer, const struct nib_density *density,
                              const struct nib_expect_options *options, struct nib_sums *out, struct nib_error *error) {
    struct nib_quantizer_info info;
    struct choices choices = {.mode = NIB_RNE};
    nib_quantizer_describe(quantizer, &info);
    const struct nib_block *block = info.block;
    unsigned size = block->block_rows * block->block_cols;
    enum nib_status status = read_choices(quantizer, info.name, &choices, error);
    if (status != NIB_OK) return status;
    float amax = options != NULL && options->has_tensor_amax ? options->tensor_amax
                                                             : (float)nib_density_quantile(density, 0.5, 0x1p22);
    double low = nib_density_quantile(density, 1e-17, size), high = nib_density_quantile(density, 1 - 1e-13, size);
    double missing;
    high = nib_density_energy_bound(density, high, &missing);
    status = nib_plan_check_energy(density, missing, error);
    if (status != NIB_OK) return status;
    struct nib_cells cells, own;
    struct nib_scale_map map = {.count = 0};
    struct nib_moments moments = {.share = {0}};
    nib_cells_make(block->element, choices.mode, choices.sr_bits, choices.bf16, choices.drop_zero, &own);
    status = nib_scale_map_make(quantizer, amax, low, high, &map, error);
    if (status == NIB_OK) status = nib_scale_map_check(quantizer, amax, &map, &own, density, error);
    if (options != NULL && options->sr_bits > 0) choices.sr_bits = options->sr_bits;
    nib_cells_make(block->element, choices.mode, choices.sr_bits, choices.bf16, choices.drop_zero, &cells);
    if (status == NIB_OK && map.continuous) {
        cells.below = map.below;
        struct nib_expect_plan *plan = NULL;
        status = nib_expect_plan_new(density, size, &plan, error);
        if (status == NIB_OK) status = nib_plan_integrate(plan, &cells, map.ratio, &moments, error);
        nib_expect_plan_free(plan);
    } else if (status == NIB_OK) {
        sum_steps(&map, &cells, density, size - 1.0, &moments);
    }
    nib_scale_map_free(&map);
    if (status != NIB_OK) return status;
    struct nib_sums sums;
    nib_moments_sums(&moments, &sums);
    if (options == NULL || !options->without_shape) status = add_shape(density, size, &sums, error);
    if (status == NIB_OK) *out = sums;
    return status;
}

enum nib_status nib_expect(const struct nib_quantizer *quantizer, const struct nib_density *density,
                           const struct nib_expect_options *options, struct nib_sums *out, struct nib_error *error) {
    struct nib_guard guard = nib_guard_enter();
    enum nib_status status = expect(quantizer, density, options, out, error);
    nib_guard_leave(guard);
    return status;
}

enum nib_status nib_expect_grid(const struct nib_expect_plan *plan, const struct nib_element *element,
                                enum nib_rounding mode, double target, unsigned sr_bits, struct nib_sums *out,
                                struct nib_error *error) {
    struct nib_cells cells;
    struct nib_moments moments = {.share = {0}};
    struct nib_guard guard = nib_guard_enter();
    nib_cells_make(element, mode, sr_bits, false, false, &cells);
    enum nib_status status = NIB_OK;
    if (!(target >= 0) || isinf(target))
        status = nib_fail(error, NIB_EINVAL, "%g is no target of a block's largest magnitude", target);
    if (status == NIB_OK)
        status = nib_plan_integrate(plan, &cells, 1 / (target > 0 ? target : (double)element->max_magnitude), &moments,
                                    error);
    if (status == NIB_OK) nib_moments_sums(&moments, out);
    nib_guard_leave(guard);
    return status;
}

enum nib_status nib_expect_fixed(const struct nib_density *density, const struct nib_element *element,
                                 enum nib_rounding mode, double scale, unsigned sr_bits, struct nib_sums *out,
                                 struct nib_error *error) {
    if (!(scale > 0) || isinf(scale))
        return nib_fail(error, NIB_EINVAL, "%g is no scale; expected a positive number", scale);
    struct nib_cells cells;
    struct nib_moments moments = {.share = {0}};
    struct nib_guard guard = nib_guard_enter();
    nib_cells_make(element, mode, sr_bits, false, false, &cells);
    nib_cells_add(&cells, density, INFINITY, scale, 1, &moments);
    nib_moments_sums(&moments, out);
    nib_guard_leave(guard);
    return NIB_OK;
}
