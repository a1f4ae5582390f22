#include "cli/round_sr.h"

#include <stdio.h>

#include "base/error.h"
#include "cli/output.h"
#include "core/key.h"
#include "core/philox.h"
#include "format/quantizer.h"
#include "quantize/sr.h"

/* The element with the axes that the request names; any scale will do. */
static enum nib_status open_rounding(const struct nib_round_sr *r, const struct nib_quantizer **out,
                                     struct nib_error *error) {
    const struct nib_scale *scale = NULL;
    const struct nib_quantizer *base = NULL;
    char form[64], bits[32];
    snprintf(form, sizeof form, "sr_form=%s", r->form);
    snprintf(bits, sizeof bits, "sr_bits=%u", r->bits);
    const char *settings[] = {"rounding=sr", form, bits};
    enum nib_status status = nib_scale_open("fp32", &scale, error);
    if (status == NIB_OK) status = nib_quantizer_of_grid(r->element, scale, 16, &base, error);
    if (status == NIB_OK) status = nib_quantizer_with(base, settings, r->bits != 0 ? 3 : 2, out, error);
    nib_quantizer_close(base);
    nib_scale_close(scale);
    return status;
}

static void set_code(struct nib_table *table, size_t row, size_t column, const struct nib_element *element,
                     unsigned code) {
    char text[8];
    snprintf(text, sizeof text, "0x%X", code);
    nib_table_set_text(table, row, column, text);
    nib_table_set_real(table, row, column + 1, (double)element->level[code]);
}

/* A row for each code that comes out. The mean is exact: at most 32 bits times a level. */
static enum nib_status add_distribution(const struct nib_quantizer *q, const struct nib_element *element, float x,
                                        struct nib_table *table) {
    uint64_t count[NIB_CODES], total = nib_sr_distribution(q, x, count);
    double mean = 0;
    for (unsigned code = 0; code < NIB_CODES; code++)
        if (count[code] > 0) mean += (double)count[code] / (double)total * (double)element->level[code];
    for (unsigned rank = 0; rank < element->levels; rank++) {
        unsigned code = element->code_of_rank[rank];
        if (count[code] == 0) continue;
        size_t row = nib_table_row(table);
        if (row == SIZE_MAX) return NIB_ENOMEM;
        nib_table_set_real(table, row, 0, (double)x);
        set_code(table, row, 1, element, code);
        nib_table_set_integer(table, row, 3, (int64_t)count[code]);
        nib_table_set_integer(table, row, 4, (int64_t)total);
        nib_table_set_real(table, row, 5, (double)count[code] / (double)total);
        nib_table_set_real(table, row, 6, mean);
        nib_table_set_real(table, row, 7, mean - (double)x);
    }
    return NIB_OK;
}

static enum nib_status add_draw(const struct nib_quantizer *q, const struct nib_round_sr *r, size_t i,
                                struct nib_table *table) {
    unsigned bytes = nib_axes_random_bytes(&q->axes);
    uint64_t at = (uint64_t)i * bytes;
    struct nib_philox_block block = nib_philox(r->seed, at / 16, r->stream);
    uint32_t word = block.word[at % 16 / 4] >> 8 * (at % 4);
    if (bytes < 4) word &= (1u << 8 * bytes) - 1;
    float x = nib_float_of_bits(r->values[i]);
    size_t row = nib_table_row(table);
    if (row == SIZE_MAX) return NIB_ENOMEM;
    nib_table_set_real(table, row, 0, (double)x);
    set_code(table, row, 1, r->element, nib_sr_code_by_form(q, x, word));
    nib_table_set_integer(table, row, 3, word);
    return NIB_OK;
}

enum nib_status nib_round_sr_print(const struct nib_call *call, const struct nib_round_sr *r, struct nib_error *error) {
    static const struct nib_column columns[] = {
        {"input", "input", "1", "the number as held by the input type", NIB_COLUMN_REAL, -9},
        {"code", "code", "", "the code, hexadecimal", NIB_COLUMN_TEXT, 0},
        {"value", "value", "1", "the value of the code", NIB_COLUMN_REAL, -9},
        {"words", "words", "1", "random integers that give this code", NIB_COLUMN_INTEGER, 0},
        {"of", "of", "1", "random integers in all", NIB_COLUMN_INTEGER, 0},
        {"probability", "probability", "1", "their share", NIB_COLUMN_REAL, -11},
        {"mean", "mean", "1", "mean over all random integers", NIB_COLUMN_REAL, -12},
        {"bias", "bias", "1", "mean less the input", NIB_COLUMN_REAL, -9},
    };
    static const struct nib_column drawn[] = {
        {"input", "input", "1", "the number as held by the input type", NIB_COLUMN_REAL, -9},
        {"code", "code", "", "the code, hexadecimal", NIB_COLUMN_TEXT, 0},
        {"value", "value", "1", "the value of the code", NIB_COLUMN_REAL, -9},
        {"random", "random", "1", "the random integer", NIB_COLUMN_INTEGER, 0},
    };
    const struct nib_quantizer *q;
    enum nib_status status = open_rounding(r, &q, error);
    if (status != NIB_OK) return status;
    struct nib_table *table = NULL;
    status = nib_table_new("round", r->exhaustive ? columns : drawn, r->exhaustive ? 8 : 4, &table, error);
    for (size_t i = 0; i < r->count && status == NIB_OK; i++) {
        status = r->exhaustive ? add_distribution(q, r->element, nib_float_of_bits(r->values[i]), table)
                               : add_draw(q, r, i, table);
        if (status != NIB_OK) nib_fail(error, status, "out of memory");
    }
    if (status == NIB_OK) status = nib_output_table(call, table, NULL, error);
    nib_table_free(table);
    nib_quantizer_close(q);
    return status;
}
