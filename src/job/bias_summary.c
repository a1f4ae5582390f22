/* A bias report in a few lines: means over classes of tensors, and the headline. */
#include "job/bias.h"

#include "base/error.h"
#include "base/table.h"
#include "base/fpenv.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CLASS, QUANTIZER, ROTATION, TENSORS, FIRST };
#define SUMMARY_STATISTICS(X)                                                                                        \
    X(sqnr_db, "SQNR dB", "dB", 2, "mean of the signal to quantization noise ratio")                                 \
    X(one_minus_alpha, "1-alpha", "1", 4, "mean of the coherent loss per operand")                                   \
    X(b_relative, "b/E[t]", "1", 4, "mean of the shrinkage bias relative to the mean of t")                          \
    X(b_eff, "B_eff", "1", 3, "mean of the bucket utilization")
#define SUMMARY_COLUMNS(field, heading, units, digits, long_name)                                                    \
    {#field, heading, units, long_name, NIB_COLUMN_REAL, digits},                                                    \
        {#field "_se", "+-", units, "standard error: " long_name, NIB_COLUMN_REAL, digits},
/* Paired differences: the errors are those of the difference. */
#define CHANGE_COLUMNS                                                                                               \
    {"sqnr_db_change", "by rotation", "dB", "mean change of SQNR by the rotation", NIB_COLUMN_REAL, 2},              \
        {"sqnr_db_change_se", "+-", "dB", "standard error: mean change of SQNR by the rotation", NIB_COLUMN_REAL, 2}, \
        {"sqnr_db_versus", "vs first", "dB", "mean of SQNR minus that of the first quantizer", NIB_COLUMN_REAL, 2},   \
        {"sqnr_db_versus_se", "+-", "dB", "standard error: mean of SQNR minus that of the first quantizer",           \
         NIB_COLUMN_REAL, 2}

static const struct nib_column columns[] = {
    {"class", "class", "", "class of tensors and axis of reduction", NIB_COLUMN_TEXT, 0},
    {"quantizer", "quantizer", "", "quantizer", NIB_COLUMN_TEXT, 0},
    {"rotation", "rotation", "", "rotation before the quantizer", NIB_COLUMN_TEXT, 0},
    {"tensors", "tensors", "1", "tensors in the mean", NIB_COLUMN_INTEGER, 0},
    SUMMARY_STATISTICS(SUMMARY_COLUMNS) CHANGE_COLUMNS,
};
static const enum nib_statistic summary_statistics[] = {
#define SUMMARY_ENUM(field, heading, units, digits, long_name) NIB_STATISTIC_##field,
    SUMMARY_STATISTICS(SUMMARY_ENUM)
#undef SUMMARY_ENUM
};
enum { SUMMARIES = sizeof summary_statistics / sizeof *summary_statistics, CHANGE = SUMMARIES, VERSUS, MEANS };

/* A running mean over tensors (Welford). */
struct mean {
    double n, mean, squares;
    double own_error; /* of the last value, from its batches */
};

static void add(struct mean *m, struct nib_estimate value) {
    if (isnan(value.value)) return;
    double delta = value.value - m->mean;
    m->n += 1;
    m->mean += delta / m->n;
    m->squares += delta * (value.value - m->mean);
    m->own_error = value.error;
}

/* The error of the mean from the scatter of the tensors; one tensor alone has its own error. */
static struct nib_estimate estimate_of(const struct mean *m) {
    if (m->n == 0) return (struct nib_estimate){NAN, NAN};
    return (struct nib_estimate){m->mean, m->n > 1 ? sqrt(m->squares / (m->n - 1) / m->n) : m->own_error};
}

/* Rows are gathered by class, or stand for one tensor each. */
typedef void name_of(const struct nib_bias_view *view, char *out, size_t size);

static bool add_class(const struct nib_bias_result *result, struct nib_table *table, name_of *name, const char *class,
                      size_t first) {
    for (size_t q = 0; q < nib_bias_quantizers(result); q++)
        for (size_t r = 0; r < nib_bias_rotations(result); r++) {
            struct mean mean[MEANS] = {{0}};
            int64_t tensors = 0;
            for (size_t v = first; v < nib_bias_views(result); v++) {
                char other[400];
                name(nib_bias_view_at(result, v), other, sizeof other);
                if (strcmp(class, other) != 0) continue;
                const struct nib_bias_entry *entry = nib_bias_entry_at(result, v, r, q);
                tensors++;
                for (size_t s = 0; s < SUMMARIES; s++) add(&mean[s], entry->estimate[summary_statistics[s]]);
                if (r > 0) add(&mean[CHANGE], entry->by_rotation[NIB_STATISTIC_sqnr_db]);
                if (q > 0) add(&mean[VERSUS], entry->by_quantizer[NIB_STATISTIC_sqnr_db]);
            }
            size_t row = nib_table_row(table);
            if (row == SIZE_MAX) return false;
            nib_table_set_text(table, row, CLASS, class);
            nib_table_set_text(table, row, QUANTIZER, nib_bias_quantizer_name(result, q));
            nib_table_set_text(table, row, ROTATION, nib_bias_rotation_name(result, r));
            nib_table_set_integer(table, row, TENSORS, tensors);
            for (size_t s = 0; s < MEANS; s++) {
                struct nib_estimate e = estimate_of(&mean[s]);
                nib_table_set_real(table, row, FIRST + 2 * s, e.value);
                nib_table_set_real(table, row, FIRST + 2 * s + 1, e.error);
            }
        }
    return true;
}

static enum nib_status summarize(const struct nib_bias_result *result, name_of *name, struct nib_table **out,
                                 struct nib_error *error) {
    struct nib_table *table = NULL;
    enum nib_status status = nib_table_new("summary", columns, sizeof columns / sizeof *columns, &table, error);
    if (status != NIB_OK) return status;
    struct nib_fpenv saved = nib_fpenv_enter();
    for (size_t v = 0; status == NIB_OK && v < nib_bias_views(result); v++) {
        char class[400];
        name(nib_bias_view_at(result, v), class, sizeof class);
        bool seen = false;
        for (size_t row = 0; row < nib_table_rows(table) && !seen; row++)
            seen = nib_table_is(table, row, CLASS, class);
        if (!seen && !add_class(result, table, name, class, v))
            status = nib_fail(error, NIB_ENOMEM, "result table: out of memory");
    }
    nib_fpenv_leave(saved);
    if (status == NIB_OK)
        *out = table;
    else
        nib_table_free(table);
    return status;
}

enum nib_status nib_bias_summary(const struct nib_bias_result *result, struct nib_table **out,
                                 struct nib_error *error) {
    return summarize(result, nib_bias_class_of, out, error);
}

enum nib_status nib_bias_by_tensor(const struct nib_bias_result *result, struct nib_table **out,
                                   struct nib_error *error) {
    return summarize(result, nib_bias_label_of, out, error);
}

/* What two standard errors do not tell from nothing is neither a loss nor a gain. */
static int print_change(char *out, size_t size, const char *quantizer, struct nib_estimate change) {
    if (fabs(change.value) < 2 * change.error)
        return snprintf(out, size, "%s changes within its error (%.2f +- %.2f dB)", quantizer, change.value,
                        change.error);
    return snprintf(out, size, "%s %s %.2f +- %.2f dB", quantizer, change.value < 0 ? "loses" : "gains",
                    fabs(change.value), change.error);
}

static struct nib_estimate change_at(const struct nib_bias_result *result, size_t view, size_t quantizer) {
    size_t last = nib_bias_rotations(result) - 1;
    return nib_bias_entry_at(result, view, last, quantizer)->by_rotation[NIB_STATISTIC_sqnr_db];
}

/* The view where the last rotation parts two quantizers the most; where it changes most for one alone. */
void nib_bias_headline(const struct nib_bias_result *result, char *out, size_t size) {
    size_t best = 0, low = 0, high = 0, quantizers = nib_bias_quantizers(result);
    double widest = -1;
    out[0] = '\0';
    if (nib_bias_rotations(result) < 2) return;
    for (size_t v = 0; v < nib_bias_views(result); v++) {
        size_t lowest = 0, highest = 0;
        for (size_t q = 1; q < quantizers; q++) {
            if (change_at(result, v, q).value < change_at(result, v, lowest).value) lowest = q;
            if (change_at(result, v, q).value > change_at(result, v, highest).value) highest = q;
        }
        double width = quantizers == 1 ? fabs(change_at(result, v, 0).value)
                                       : change_at(result, v, highest).value - change_at(result, v, lowest).value;
        if (!(width > widest)) continue; /* nor where it is not a number: a tensor of zeros */
        widest = width;
        best = v;
        low = lowest;
        high = highest;
    }
    if (widest < 0) return;
    char label[400], first[160], second[160];
    const char *rotation = nib_bias_rotation_name(result, nib_bias_rotations(result) - 1);
    nib_bias_label_of(nib_bias_view_at(result, best), label, sizeof label);
    print_change(first, sizeof first, nib_bias_quantizer_name(result, low), change_at(result, best, low));
    print_change(second, sizeof second, nib_bias_quantizer_name(result, high), change_at(result, best, high));
    size_t views = nib_bias_views(result), used = 0;
    if (low == high)
        used = (size_t)snprintf(out, size, "By rotation (%s) %s on %s", rotation, first, label);
    else
        used = (size_t)snprintf(out, size, "By rotation (%s) %s and %s on %s", rotation, first, second, label);
    if (views > 1 && used < size)
        snprintf(out + used, size - used, ": the largest %s of %zu %s", quantizers == 1 ? "change" : "difference",
                 views, nib_bias_view_at(result, best)->gemm == NIB_GEMM_NONE ? "tensors" : "operands");
}
