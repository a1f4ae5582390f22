/* Element and scale formats for `nibble show`. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/show.h"
#include "core/round.h"
#include "format/cell.h"
#include <nibble/scale.h>

enum { CODE, LEVEL, BIN, BELOW, ABOVE, THRESHOLD, BIAS, COLUMNS };
static const struct nib_column element_columns[COLUMNS] = {
    [CODE] = {"code", "code", "", "4-bit pattern", NIB_COLUMN_INTEGER, 0},
    [LEVEL] = {"level", "level", "1", "its value", NIB_COLUMN_REAL, -9},
    [BIN] = {"bin", "bin", "1", "what rounds to it; a bracket includes the border", NIB_COLUMN_TEXT, 0},
    [BELOW] = {"below", "from", "1", "lower border of the bin", NIB_COLUMN_REAL, -17},
    [ABOVE] = {"above", "to", "1", "upper border of the bin", NIB_COLUMN_REAL, -17},
    [THRESHOLD] = {"threshold", "threshold", "", "bits of the smallest binary32 number in the bin", NIB_COLUMN_TEXT, 0},
    [BIAS] = {"bias", "bias", "1", "E[|level| - |x|] for a uniform density over the bin", NIB_COLUMN_REAL, -9},
};
static const bool element_hidden[COLUMNS] = {[BELOW] = true, [ABOVE] = true};

/* The mean of |x| over an interval. */
static double mean_magnitude(double low, double high) {
    if (low >= 0 || high <= 0) return fabs(low + high) / 2;
    return (low * low + high * high) / (2 * (high - low));
}

static void fill_level(struct nib_table *table, size_t row, const struct nib_element *e, enum nib_rounding mode,
                       const struct nib_rule *rule, unsigned rank) {
    struct nib_cell cell;
    char text[96];
    int32_t first = rank > 0 ? rule->threshold[rank - 1] : nib_key_of_bits(0xFF800000);
    int32_t last = rank + 1 < e->levels ? rule->threshold[rank] - 1 : NIB_BITS_INFINITY;
    nib_element_cell(e, mode, e->level_of_rank[rank], &cell);
    bool includes_first = (double)nib_float_of_bits(nib_bits_of_key(first)) == cell.below && rank > 0;
    bool includes_last = (double)nib_float_of_bits(nib_bits_of_key(last)) == cell.above && rank + 1 < e->levels;
    nib_table_set_integer(table, row, CODE, (int64_t)cell.code);
    nib_table_set_real(table, row, LEVEL, (double)cell.value);
    snprintf(text, sizeof text, "%c%.10g, %.10g%c", includes_first ? '[' : '(', cell.below, cell.above,
             includes_last ? ']' : ')');
    nib_table_set_text(table, row, BIN, text);
    nib_table_set_real(table, row, BELOW, cell.below);
    nib_table_set_real(table, row, ABOVE, cell.above);
    snprintf(text, sizeof text, "0x%08X", nib_bits_of_key(first));
    nib_table_set_text(table, row, THRESHOLD, text);
    if (isfinite(cell.below) && isfinite(cell.above))
        nib_table_set_real(table, row, BIAS, fabs((double)cell.value) - mean_magnitude(cell.below, cell.above) + 0.0);
}

enum nib_status nib_show_element(const char *name, enum nib_rounding mode, struct nib_shown *shown,
                                 struct nib_error *error) {
    const struct nib_element *e;
    struct nib_rule rule;
    enum nib_status status = nib_element_open(name, &e, error);
    if (status != NIB_OK) return status;
    nib_rule_compile(e, mode, &rule);
    nib_show_fact(shown, "levels", "%u", e->levels);
    nib_show_fact(shown, "magnitudes", "%u", e->magnitudes);
    nib_show_fact(shown, "largest", "%.9g", (double)e->max_magnitude);
    nib_show_fact(shown, "emax", "%d", e->emax);
    nib_show_fact(shown, "negative_zero", "%s", e->has_negative_zero ? "yes" : "no");
    nib_show_fact(shown, "mode", "%s", nib_rounding_name(mode));
    nib_show_fact(shown, "sha256", "%s", e->sha256);
    shown->hidden = element_hidden;
    status = nib_show_keep(shown, e->text, error);
    if (status == NIB_OK) status = nib_table_new("levels", element_columns, COLUMNS, &shown->table, error);
    for (unsigned rank = 0; rank < e->levels && status == NIB_OK; rank++) {
        size_t row = nib_table_row(shown->table);
        if (row == SIZE_MAX)
            status = nib_fail(error, NIB_ENOMEM, "out of memory");
        else
            fill_level(shown->table, row, e, mode, &rule, rank);
    }
    nib_element_close(e);
    return status;
}

static const struct nib_column scale_columns[] = {
    {"code", "code", "", "bit pattern", NIB_COLUMN_INTEGER, 0},
    {"hex", "hex", "", "the same, hexadecimal", NIB_COLUMN_TEXT, 0},
    {"value", "value", "1", "its value", NIB_COLUMN_REAL, -9},
};

static enum nib_status fill_codes(const struct nib_scale *s, struct nib_shown *shown, struct nib_error *error) {
    enum nib_status status = nib_table_new("codes", scale_columns, 3, &shown->all, error);
    for (uint32_t code = 0; code < 256 && status == NIB_OK; code++) {
        char text[8];
        size_t row = nib_table_row(shown->all);
        if (row == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "out of memory");
        snprintf(text, sizeof text, "0x%02X", code);
        nib_table_set_integer(shown->all, row, 0, (int64_t)code);
        nib_table_set_text(shown->all, row, 1, text);
        nib_table_set_real(shown->all, row, 2, (double)nib_scale_decode(s, code));
    }
    return status;
}

enum nib_status nib_show_scale(const char *name, struct nib_shown *shown, struct nib_error *error) {
    const struct nib_scale *s;
    enum nib_status status = nib_scale_open(name, &s, error);
    if (status != NIB_OK) return status;
    nib_show_fact(shown, "bits", "%u", s->bits);
    nib_show_fact(shown, "exponent_bits", "%d", s->ebits);
    nib_show_fact(shown, "mantissa_bits", "%d", s->mbits);
    nib_show_fact(shown, "bias", "%d", s->bias);
    nib_show_fact(shown, "sign", "%s", s->has_sign ? "yes" : "no");
    uint32_t smallest = s->kind == NIB_SCALE_E8M0 || s->kind == NIB_SCALE_HIF4 ? 0 : 1; /* no code for zero */
    int digits = (int)s->bits / 4;
    nib_show_fact(shown, "largest", "%.9g", (double)s->max_value);
    nib_show_fact(shown, "largest_code", "0x%0*X", digits, s->max_code);
    nib_show_fact(shown, "smallest", "%.9g", (double)nib_scale_decode(s, smallest));
    nib_show_fact(shown, "smallest_code", "0x%0*X", digits, smallest);
    nib_show_fact(shown, "nan_code", "0x%0*X", digits, s->nan_code);
    nib_show_fact(shown, "sha256", "%s", s->sha256);
    status = nib_show_keep(shown, s->text, error);
    if (status == NIB_OK && s->bits == 8) status = fill_codes(s, shown, error);
    nib_scale_close(s);
    return status;
}
