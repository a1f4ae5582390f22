#include "job/expected.h"

#include "base/error.h"
#include <math.h>
#include <nibble/expect.h>

enum { DIST, QUANTIZER, FIRST, NOTE = FIRST + 2 * NIB_STATISTICS };
#define EXPECTED_COLUMNS(field, heading, units, digits, long_name)                                                     \
    {#field, heading, units, "expected: " long_name, NIB_COLUMN_REAL, digits},                                         \
        {#field "_deviation", "off by", "1", "measured minus expected in standard errors: " long_name,                 \
         NIB_COLUMN_REAL,     1},

static const struct nib_column columns[] = {
    {"dist", "dist", "", "density of the independent elements", NIB_COLUMN_TEXT, 0},
    {"quantizer", "quantizer", "", "quantizer", NIB_COLUMN_TEXT, 0},
    NIB_STATISTIC_LIST(EXPECTED_COLUMNS){"note", "note", "", "why there is no expectation", NIB_COLUMN_TEXT, 0},
};

static enum nib_status add_row(const struct nib_bias_result *result, size_t view, size_t q,
                               const struct nib_quantizer *quantizer, const struct nib_density *density,
                               const struct nib_error *why, struct nib_table *table, struct nib_error *error) {
    const struct nib_bias_entry *entry = nib_bias_entry_at(result, view, 0, q);
    struct nib_expect_options options = {.has_tensor_amax = true, .tensor_amax = entry->tensor_amax};
    struct nib_error reason = *why;
    struct nib_sums sums;
    size_t row = nib_table_row(table);
    if (row == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "result table: out of memory");
    nib_table_set_text(table, row, DIST, nib_bias_view_at(result, view)->tensor);
    nib_table_set_text(table, row, QUANTIZER, nib_bias_quantizer_name(result, q));
    if (density == NULL || nib_expect(quantizer, density, &options, &sums, &reason) != NIB_OK) {
        nib_table_set_text(table, row, NOTE, reason.text); /* the measurement stands without it */
        return NIB_OK;
    }
    struct nib_bias bias;
    nib_bias_of(nib_bias_element(result, q), &sums, &bias);
    for (int s = 0; s < NIB_STATISTICS; s++) {
        double expected = nib_bias_get(&bias, (enum nib_statistic)s);
        struct nib_estimate measured = entry->estimate[s];
        nib_table_set_real(table, row, FIRST + 2 * (size_t)s, expected);
        if (measured.error > 0)
            nib_table_set_real(table, row, FIRST + 2 * (size_t)s + 1, (measured.value - expected) / measured.error);
    }
    return NIB_OK;
}

enum nib_status nib_bias_expected(const struct nib_bias_result *result, const struct nib_quantizer *const *quantizers,
                                  struct nib_table **out, struct nib_error *error) {
    struct nib_table *table = NULL;
    enum nib_status status = nib_table_new("expected", columns, sizeof columns / sizeof *columns, &table, error);
    if (status != NIB_OK) return status;
    for (size_t v = 0; status == NIB_OK && v < nib_bias_views(result); v++) {
        const struct nib_bias_view *view = nib_bias_view_at(result, v);
        const struct nib_density *density = NULL;
        if (view->file[0] != '\0') continue; /* a file's elements are not independent */
        struct nib_error why = {NIB_OK, 0, "", ""};
        if (nib_density_open(view->tensor, &density, &why) != NIB_OK) density = NULL;
        for (size_t q = 0; status == NIB_OK && q < nib_bias_quantizers(result); q++)
            status = add_row(result, v, q, quantizers[q], density, &why, table, error);
        nib_density_close(density);
    }
    if (status == NIB_OK)
        *out = table;
    else
        nib_table_free(table);
    return status;
}
