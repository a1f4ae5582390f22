/* Tables behind figures: the bins of grids, and grids along a family of densities. */
#include "job/explore.h"

#include "base/error.h"
#include <math.h>
#include <stdio.h>

static const struct nib_column bin_columns[] = {
    {"data", "data", "", "density or tensor", NIB_COLUMN_TEXT, 0},
    {"grid", "grid", "", "grid", NIB_COLUMN_TEXT, 0},
    {"level", "level", "1", "magnitude", NIB_COLUMN_REAL, -4},
    {"low", "low", "1", "lower end of its bin", NIB_COLUMN_REAL, -4},
    {"high", "high", "1", "upper end of its bin; the largest magnitude for the top", NIB_COLUMN_REAL, -4},
    {"share", "share", "1", "share of the elements", NIB_COLUMN_REAL, 4},
    {"error", "mean error", "1", "mean of rho(t) - t", NIB_COLUMN_REAL, 4},
    {"equation_2", "eq. (2)", "1", "the same for a locally uniform density, UFP4 eq. (2)", NIB_COLUMN_REAL, 4},
};

static double magnitude_of(const struct nib_element *e, unsigned k) {
    for (unsigned c = 0; c < NIB_CODES; c++)
        if (e->magnitude_of_code[c] == k) return fabs((double)e->level[c]);
    return NAN;
}

static bool add_bins(const struct nib_explore_point *p, struct nib_table *table) {
    const struct nib_element *e = p->grid->element;
    double all = 0;
    for (unsigned c = 0; c < NIB_CODES; c++) all += (double)p->sums.code_count[c];
    for (unsigned k = 0; k < e->magnitudes; k++) {
        double hits = 0, sum = 0, level = magnitude_of(e, k);
        size_t row = nib_table_row(table);
        if (row == SIZE_MAX) return false;
        for (unsigned c = 0; c < NIB_CODES; c++) {
            if (e->magnitude_of_code[c] != k) continue;
            hits += (double)p->sums.code_count[c];
            sum += p->sums.code_error[c];
        }
        nib_table_set_text(table, row, 0, p->data);
        nib_table_set_text(table, row, 1, p->grid->label);
        nib_table_set_real(table, row, 2, level);
        nib_table_set_real(table, row, 3, k == 0 ? 0 : (magnitude_of(e, k - 1) + level) / 2);
        nib_table_set_real(table, row, 4, k + 1 == e->magnitudes ? level : (level + magnitude_of(e, k + 1)) / 2);
        nib_table_set_real(table, row, 5, hits / all);
        nib_table_set_real(table, row, 6, hits > 0 ? sum / hits : NAN);
        nib_table_set_real(table, row, 7, nib_equation_bin_bias(e, k));
    }
    return true;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum nib_status nib_explore_bins(const struct nib_explore_result *result, struct nib_table **out,
                                 struct nib_error *error) {
    struct nib_table *table = NULL;
    enum nib_status status = nib_table_new("bins", bin_columns, COUNT(bin_columns), &table, error);
    for (size_t i = 0; status == NIB_OK && i < result->group_size;
         i++) { /* the first ranking, in the order of the ranking */
        if (add_bins(&result->point[i], table)) continue;
        nib_table_free(table);
        return nib_fail(error, NIB_ENOMEM, "result table: out of memory");
    }
    if (status == NIB_OK) *out = table;
    return status;
}

static const struct nib_column family_columns[] = {
    {"grid", "grid", "", "grid", NIB_COLUMN_TEXT, 0},
    {"exponent", "exponent", "1", "exponent of the generalised Gaussian", NIB_COLUMN_REAL, 3},
    {"crest", "crest", "1", "mean crest factor of its blocks", NIB_COLUMN_REAL, 3},
    {"b_relative", "b/E[t]", "1", "shrinkage bias relative to the mean of t", NIB_COLUMN_REAL, 5},
    {"one_minus_alpha", "1-alpha", "1", "coherent loss per operand", NIB_COLUMN_REAL, 5},
    {"sqnr_db", "SQNR dB", "dB", "signal to quantization noise ratio", NIB_COLUMN_REAL, 3},
};

static enum nib_status add_density(const struct nib_explore_grids *grids, double exponent, unsigned block,
                                   struct nib_table *table, struct nib_error *error) {
    const struct nib_density *density = NULL;
    struct nib_expect_plan *plan = NULL;
    double crest = NAN, kurtosis = NAN;
    char name[40];
    snprintf(name, sizeof name, "gg%.6g", exponent);
    enum nib_status status = nib_density_open(name, &density, error);
    if (status == NIB_OK) status = nib_expect_plan_new(density, block, &plan, error);
    if (status == NIB_OK) status = nib_expect_shape(density, block, &crest, &kurtosis, error);
    for (size_t i = 0; status == NIB_OK && i < grids->count; i++) {
        struct nib_sums sums;
        struct nib_bias bias;
        status = nib_expect_grid(plan, grids->grid[i].element, NIB_RNE, 0, 0, &sums, error);
        size_t row = status == NIB_OK ? nib_table_row(table) : SIZE_MAX;
        if (status == NIB_OK && row == SIZE_MAX) status = nib_fail(error, NIB_ENOMEM, "result table: out of memory");
        if (status != NIB_OK) break;
        nib_bias_of(grids->grid[i].element, &sums, &bias);
        nib_table_set_text(table, row, 0, grids->grid[i].label);
        nib_table_set_real(table, row, 1, exponent);
        nib_table_set_real(table, row, 2, crest);
        nib_table_set_real(table, row, 3, bias.b_relative);
        nib_table_set_real(table, row, 4, bias.one_minus_alpha);
        nib_table_set_real(table, row, 5, bias.sqnr_db);
    }
    nib_expect_plan_free(plan);
    nib_density_close(density);
    return status;
}

enum nib_status nib_explore_family(const struct nib_explore_grids *grids, unsigned block, struct nib_table **out,
                                   struct nib_error *error) {
    static const double exponents[] = {0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1, 1.2,
                                       1.4, 1.6,  1.8, 2,    2.4, 3,   4,   6,   8, 12};
    struct nib_table *table = NULL;
    enum nib_status status = nib_table_new("family", family_columns, COUNT(family_columns), &table, error);
    for (size_t i = 0; status == NIB_OK && i < COUNT(exponents); i++)
        status = add_density(grids, exponents[i], block, table, error);
    if (status == NIB_OK)
        *out = table;
    else if (table != NULL)
        nib_table_free(table);
    return status;
}
