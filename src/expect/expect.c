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

static enum nib_status read_choices(const struct nib_quantizer *quantizer, struct choices *out, struct nib_error *error) {
    struct choices c = {.mode = NIB_RNE};
    const char *axis, *value;
    bool stochastic = false;
    enum nib_status status = NIB_OK;
    for (size_t i = 0; status == NIB_OK && nib_quantizer_axis(quantizer, i, &axis, &value); i++) {
        if (strcmp(axis, "rounding") == 0) {
            stochastic = strncmp(value, "sr", 2) == 0;
            if (!stochastic) status = nib_rounding_parse(value, &c.mode, error);
        }
        if (strcmp(axis, "sr_bits") == 0) c.sr_bits = (unsigned)strtoul(value, NULL, 10);
        if (strcmp(axis, "element_precision") == 0) c.bf16 = strcmp(value, "bf16") == 0;
        if (strcmp(axis, "signed_zero") == 0) c.drop_zero = strcmp(value, "drop") == 0;
    }
    if (!stochastic) c.sr_bits = 0;
    *out = c;
    return status;
}

static void add_truncated(const struct nib_cells *cells, const struct nib_density *density, double bound, double s,
                          double weight, struct nib_moments *out) {
    if (isnan(s) || isinf(s))
        nib_cells_add_zero(density, bound, true, weight, out);
    else if (s == 0)
        nib_cells_add_zero(density, bound, false, weight, out);
    else
        nib_cells_add(cells, density, bound, s, weight, out);
}

static void sum_steps(const struct nib_scale_map *map, const struct nib_cells *cells, const struct nib_density *density,
                      double others, struct nib_moments *out) {
    double lower = 0, lower_weight = 0;
    for (size_t i = 0; i < map->count; i++) {
        double upper = fmin(map->bound[i], density->largest);
        double weight = pow(fmin(1, nib_density_share(density, upper)), others);
        if (weight > 0) add_truncated(cells, density, upper, map->scale[i], weight, out);
        if (lower_weight > 0) add_truncated(cells, density, lower, map->scale[i], -lower_weight, out);
        lower = upper;
        lower_weight = weight;
        if (upper >= density->largest) break;
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
    struct choices choices;
    nib_quantizer_describe(quantizer, &info);
    const struct nib_block *block = info.block;
    unsigned size = block->block_rows * block->block_cols;
    enum nib_status status = read_choices(quantizer, &choices, error);
    if (status != NIB_OK) return status;
    float amax = options != NULL && options->has_tensor_amax ? options->tensor_amax
                                                             : (float)nib_density_quantile(density, 0.5, 0x1p22);
    double low = nib_density_quantile(density, 1e-17, size), high = nib_density_quantile(density, 1 - 1e-13, size);
    double missing;
    high = nib_density_energy_bound(density, high, &missing);
    status = nib_plan_check_energy(density, missing, error);
    if (status != NIB_OK) return status;
    struct nib_cells cells, own;
    struct nib_scale_map map;
    struct nib_moments moments = {.share = {0}};
    nib_cells_make(block->element, choices.mode, choices.sr_bits, choices.bf16, choices.drop_zero, &own);
    status = nib_scale_map_make(quantizer, amax, low, high, &map, error);
    if (status == NIB_OK) status = nib_scale_map_check(quantizer, amax, &map, &own, density, error);
    if (options != NULL && options->sr_bits > 0) choices.sr_bits = options->sr_bits;
    nib_cells_make(block->element, choices.mode, choices.sr_bits, choices.bf16, choices.drop_zero, &cells);
    if (status == NIB_OK && map.continuous) {
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

enum nib_status nib_expect_grid(const struct nib_expect_plan *plan, const struct nib_element *element, enum nib_rounding mode,
                                double target, unsigned sr_bits, struct nib_sums *out, struct nib_error *error) {
    struct nib_cells cells;
    struct nib_moments moments = {.share = {0}};
    struct nib_guard guard = nib_guard_enter();
    nib_cells_make(element, mode, sr_bits, false, false, &cells);
    enum nib_status status = NIB_OK;
    if (!(target >= 0) || isinf(target))
        status = nib_fail(error, NIB_EINVAL, "%g is no target of a block's largest magnitude", target);
    if (status == NIB_OK)
        status = nib_plan_integrate(plan, &cells, 1 / (target > 0 ? target : (double)element->max_magnitude), &moments, error);
    if (status == NIB_OK) nib_moments_sums(&moments, out);
    nib_guard_leave(guard);
    return status;
}

enum nib_status nib_expect_fixed(const struct nib_density *density, const struct nib_element *element, enum nib_rounding mode,
                                 double scale, unsigned sr_bits, struct nib_sums *out, struct nib_error *error) {
    if (!(scale > 0) || isinf(scale)) return nib_fail(error, NIB_EINVAL, "%g is no scale; expected a positive number", scale);
    struct nib_cells cells;
    struct nib_moments moments = {.share = {0}};
    struct nib_guard guard = nib_guard_enter();
    nib_cells_make(element, mode, sr_bits, false, false, &cells);
    nib_cells_add(&cells, density, INFINITY, scale, 1, &moments);
    nib_moments_sums(&moments, out);
    nib_guard_leave(guard);
    return NIB_OK;
}
