/* The result of a bias report as tables. */
#include "job/bias.h"

#include "base/axis.h"
#include "base/error.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Columns that say which measurement a row belongs to. */
enum key { GROUP, TENSOR, FILE_, LAYER, MODULE, GEMM, OPERAND, AXIS, QUANTIZER, ROTATION, KEYS };
#define KEY_COLUMNS                                                                                                  \
    {"view", "view", "", "tensor and how it is reduced", NIB_COLUMN_TEXT, 0},                                        \
        {"tensor", "tensor", "", "tensor", NIB_COLUMN_TEXT, 0}, {"file", "file", "", "file", NIB_COLUMN_TEXT, 0},    \
        {"layer", "layer", "1", "layer, -1 where the name has none", NIB_COLUMN_INTEGER, 0},                         \
        {"module", "module", "", "linear layer within its transformer layer", NIB_COLUMN_TEXT, 0},                   \
        {"gemm", "gemm", "", "fprop, dgrad or wgrad", NIB_COLUMN_TEXT, 0},                                           \
        {"operand", "operand", "", "x, w or dy", NIB_COLUMN_TEXT, 0},                                                \
        {"axis", "axis", "", "axis of reduction: cols or rows", NIB_COLUMN_TEXT, 0},                                 \
        {"quantizer", "quantizer", "", "quantizer", NIB_COLUMN_TEXT, 0},                                             \
        {"rotation", "rotation", "", "rotation before the quantizer", NIB_COLUMN_TEXT, 0}

#define STATISTIC_COLUMNS(field, heading, units, digits, long_name)                                                  \
    {#field, heading, units, long_name, NIB_COLUMN_REAL, digits},                                                    \
        {#field "_se", "+-", units, "standard error: " long_name, NIB_COLUMN_REAL, (digits) < 0 ? -2 : (digits)},

static const struct nib_column totals_columns[] = {
    KEY_COLUMNS,
    {"rows", "rows", "1", "rows of the tensor", NIB_COLUMN_INTEGER, 0},
    {"cols", "cols", "1", "columns of the tensor", NIB_COLUMN_INTEGER, 0},
    {"bits_per_value", "bits", "bit", "bits per value of the block format, scales included", NIB_COLUMN_REAL, 2},
    {"scale_entropy", "scale entropy", "bit", "entropy of the scale codes (exponents of scales wider than 8 bits)",
     NIB_COLUMN_REAL, 2},
    {"batches", "batches", "1", "batches behind the standard errors", NIB_COLUMN_INTEGER, 0},
    {"count", "count", "1", "finite elements", NIB_COLUMN_INTEGER, 0},
    {"nan_count", "NaN", "1", "NaN elements", NIB_COLUMN_INTEGER, 0},
    {"inf_count", "Inf", "1", "infinite elements", NIB_COLUMN_INTEGER, 0},
    {"zero_scale_count", "zero scale", "1", "finite elements in blocks with decode scale 0", NIB_COLUMN_INTEGER, 0},
    {"bad_scale_count", "bad scale", "1", "finite elements in blocks with a decode scale that is not finite",
     NIB_COLUMN_INTEGER, 0},
    NIB_STATISTIC_LIST(STATISTIC_COLUMNS)};
enum { TOTALS_ROWS = KEYS, TOTALS_COLS, TOTALS_BITS, TOTALS_SCALE_ENTROPY, TOTALS_BATCHES, TOTALS_COUNT, TOTALS_NAN, TOTALS_INF, TOTALS_ZERO_SCALE,
       TOTALS_BAD_SCALE, TOTALS_FIRST };

static const struct nib_column difference_columns[] = {
    KEY_COLUMNS,
    {"minus", "minus", "", "what is subtracted: a rotation or a quantizer", NIB_COLUMN_TEXT, 0},
    NIB_STATISTIC_LIST(STATISTIC_COLUMNS)};
enum { DIFFERENCE_MINUS = KEYS, DIFFERENCE_FIRST };

static const struct nib_column level_columns[] = {
    KEY_COLUMNS,
    {"code", "code", "1", "4-bit code", NIB_COLUMN_INTEGER, 0},
    {"level", "level", "1", "value of the code in units of the decode scale", NIB_COLUMN_REAL, -4},
    {"count", "count", "1", "elements that were given this code", NIB_COLUMN_INTEGER, 0},
    {"share", "share", "1", "share of the elements that have a level", NIB_COLUMN_REAL, 5},
    {"share_se", "+-", "1", "standard error: share", NIB_COLUMN_REAL, 5},
    {"error", "mean error", "1", "mean of rho(t) - t, t = |x|/s", NIB_COLUMN_REAL, 5},
    {"error_se", "+-", "1", "standard error: mean error", NIB_COLUMN_REAL, 5},
};
enum { LEVEL_CODE = KEYS, LEVEL_LEVEL, LEVEL_COUNT, LEVEL_SHARE, LEVEL_SHARE_SE, LEVEL_ERROR, LEVEL_ERROR_SE };

void nib_bias_class_of(const struct nib_bias_view *view, char *out, size_t size) {
    static const char *const classes[NIB_OPERANDS] = {"activations X", "weights W", "gradients dY"};
    const char *axis = nib_axis_names[view->axis];
    const char *what = view->operand == NIB_OPERAND_NONE ? view->file[0] == '\0' ? view->tensor : "tensors"
                                                         : classes[view->operand];
    if (view->gemm == NIB_GEMM_NONE)
        snprintf(out, size, "%s, along %s", what, axis);
    else
        snprintf(out, size, "%s in %s, along %s", what, nib_gemm_names[view->gemm], axis);
}

void nib_bias_label_of(const struct nib_bias_view *view, char *out, size_t size) {
    const char *axis = nib_axis_names[view->axis];
    if (view->gemm == NIB_GEMM_NONE)
        snprintf(out, size, "%s, along %s", view->tensor, axis);
    else
        snprintf(out, size, "%s, %s along %s", view->tensor, nib_gemm_names[view->gemm], axis);
}

/* A new row with its keys; SIZE_MAX when out of memory. */
static size_t new_row(const struct nib_bias_result *result, struct nib_table *table, size_t v, size_t r, size_t q) {
    const struct nib_bias_view *view = nib_bias_view_at(result, v);
    size_t row = nib_table_row(table);
    if (row == SIZE_MAX) return row;
    char label[400];
    nib_bias_label_of(view, label, sizeof label);
    nib_table_set_text(table, row, GROUP, label);
    nib_table_set_text(table, row, TENSOR, view->tensor);
    nib_table_set_text(table, row, FILE_, view->file);
    nib_table_set_integer(table, row, LAYER, view->layer);
    nib_table_set_text(table, row, MODULE, view->module);
    nib_table_set_text(table, row, GEMM, view->gemm == NIB_GEMM_NONE ? "" : nib_gemm_names[view->gemm]);
    nib_table_set_text(table, row, OPERAND, view->operand == NIB_OPERAND_NONE ? "" : nib_operand_names[view->operand]);
    nib_table_set_text(table, row, AXIS, nib_axis_names[view->axis]);
    nib_table_set_text(table, row, QUANTIZER, nib_bias_quantizer_name(result, q));
    nib_table_set_text(table, row, ROTATION, nib_bias_rotation_name(result, r));
    return row;
}

static void set_statistics(struct nib_table *table, size_t row, size_t first, const struct nib_estimate *estimate) {
    for (size_t s = 0; s < NIB_STATISTICS; s++) {
        nib_table_set_real(table, row, first + 2 * s, estimate[s].value);
        nib_table_set_real(table, row, first + 2 * s + 1, estimate[s].error);
    }
}

/* In bits; NAN for nothing. */
static double entropy(const uint64_t *counts, size_t bins) {
    double all = 0, bits = 0;
    for (size_t i = 0; i < bins; i++) all += (double)counts[i];
    for (size_t i = 0; i < bins; i++)
        if (counts[i] > 0) bits -= (double)counts[i] / all * log2((double)counts[i] / all);
    return all > 0 ? bits : NAN;
}

/* Adds the rows of one measurement; false when out of memory. */
typedef bool add_rows(const struct nib_bias_result *result, struct nib_table *table, size_t v, size_t r, size_t q);

static bool add_totals(const struct nib_bias_result *result, struct nib_table *table, size_t v, size_t r, size_t q) {
    const struct nib_bias_entry *entry = nib_bias_entry_at(result, v, r, q);
    size_t row = new_row(result, table, v, r, q);
    if (row == SIZE_MAX) return false;
    nib_table_set_integer(table, row, TOTALS_ROWS, (int64_t)nib_bias_view_at(result, v)->rows);
    nib_table_set_integer(table, row, TOTALS_COLS, (int64_t)nib_bias_view_at(result, v)->cols);
    nib_table_set_real(table, row, TOTALS_BITS, (double)entry->bits_per_value);
    nib_table_set_real(table, row, TOTALS_SCALE_ENTROPY, entropy(entry->scale_count, NIB_SCALE_BINS));
    nib_table_set_integer(table, row, TOTALS_BATCHES, (int64_t)entry->batches);
    nib_table_set_integer(table, row, TOTALS_COUNT, (int64_t)entry->total.count);
    nib_table_set_integer(table, row, TOTALS_NAN, (int64_t)entry->total.nan_count);
    nib_table_set_integer(table, row, TOTALS_INF, (int64_t)entry->total.inf_count);
    nib_table_set_integer(table, row, TOTALS_ZERO_SCALE, (int64_t)entry->total.zero_scale_count);
    nib_table_set_integer(table, row, TOTALS_BAD_SCALE, (int64_t)entry->total.bad_scale_count);
    set_statistics(table, row, TOTALS_FIRST, entry->estimate);
    return true;
}

static bool add_levels(const struct nib_bias_result *result, struct nib_table *table, size_t v, size_t r, size_t q) {
    const struct nib_bias_entry *entry = nib_bias_entry_at(result, v, r, q);
    const struct nib_element *element = nib_bias_element(result, q);
    for (unsigned rank = 0; rank < element->levels; rank++) {
        uint8_t code = element->code_of_rank[rank];
        const struct nib_level_estimate *level = &entry->level[code];
        size_t row = new_row(result, table, v, r, q);
        if (row == SIZE_MAX) return false;
        nib_table_set_integer(table, row, LEVEL_CODE, code);
        nib_table_set_real(table, row, LEVEL_LEVEL, (double)element->level_of_rank[rank]);
        nib_table_set_integer(table, row, LEVEL_COUNT, (int64_t)level->count);
        nib_table_set_real(table, row, LEVEL_SHARE, level->share.value);
        nib_table_set_real(table, row, LEVEL_SHARE_SE, level->share.error);
        nib_table_set_real(table, row, LEVEL_ERROR, level->error.value);
        nib_table_set_real(table, row, LEVEL_ERROR_SE, level->error.error);
    }
    return true;
}

static bool add_differences(const struct nib_bias_result *result, struct nib_table *table, size_t v, size_t r,
                            size_t q) {
    const struct nib_bias_entry *entry = nib_bias_entry_at(result, v, r, q);
    for (int by = 0; by < 2; by++) {
        if (by == 0 ? r == 0 : q == 0) continue;
        size_t row = new_row(result, table, v, r, q);
        if (row == SIZE_MAX) return false;
        nib_table_set_text(table, row, DIFFERENCE_MINUS,
                           by == 0 ? nib_bias_rotation_name(result, 0) : nib_bias_quantizer_name(result, 0));
        set_statistics(table, row, DIFFERENCE_FIRST, by == 0 ? entry->by_rotation : entry->by_quantizer);
    }
    return true;
}

static enum nib_status build(const struct nib_bias_result *result, const char *name, const struct nib_column *columns,
                             size_t count, add_rows *add, struct nib_table **out, struct nib_error *error) {
    struct nib_table *table = NULL;
    enum nib_status status = nib_table_new(name, columns, count, &table, error);
    if (status != NIB_OK) return status;
    for (size_t v = 0; v < nib_bias_views(result); v++)
        for (size_t q = 0; q < nib_bias_quantizers(result); q++)
            for (size_t r = 0; r < nib_bias_rotations(result); r++)
                if (!add(result, table, v, r, q)) {
                    nib_table_free(table);
                    return nib_fail(error, NIB_ENOMEM, "result table: out of memory");
                }
    *out = table;
    return NIB_OK;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum nib_status nib_bias_totals(const struct nib_bias_result *result, struct nib_table **out, struct nib_error *error) {
    return build(result, "totals", totals_columns, COUNT(totals_columns), add_totals, out, error);
}

enum nib_status nib_bias_levels(const struct nib_bias_result *result, struct nib_table **out, struct nib_error *error) {
    return build(result, "levels", level_columns, COUNT(level_columns), add_levels, out, error);
}

enum nib_status nib_bias_differences(const struct nib_bias_result *result, struct nib_table **out,
                                     struct nib_error *error) {
    return build(result, "differences", difference_columns, COUNT(difference_columns), add_differences, out, error);
}
