#include "io/table_out.h"

#include <locale.h>
#include <math.h>

#include "base/error.h"

static void write_text(const char *text, FILE *stream) {
    for (; *text != '\0'; text++) switch (*text) {
        case '\t': fputs("\\t", stream); break;
        case '\n': fputs("\\n", stream); break;
        case '\r': fputs("\\r", stream); break;
        case '\\': fputs("\\\\", stream); break;
        default: fputc(*text, stream);
        }
}

static void write_real(double value, FILE *stream) {
    if (isnan(value))
        fputs("nan", stream);
    else if (isinf(value))
        fputs(value > 0 ? "inf" : "-inf", stream);
    else
        fprintf(stream, "%.17g", value);
}

enum nib_status nib_table_write_tsv(const struct nib_table *table, FILE *stream, struct nib_error *error) {
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* numbers have a point in every locale */
    if (c_locale == (locale_t)0) return nib_fail(error, NIB_ENOMEM, "TSV writer: out of memory");
    locale_t saved = uselocale(c_locale);
    size_t columns = nib_table_columns(table);
    for (size_t i = 0; i < columns; i++) fprintf(stream, "%s%s", i == 0 ? "#" : "\t", nib_table_column(table, i)->name);
    fputc('\n', stream);
    for (size_t row = 0; row < nib_table_rows(table); row++) {
        for (size_t i = 0; i < columns; i++) {
            if (i > 0) fputc('\t', stream);
            switch (nib_table_column(table, i)->type) {
            case NIB_COLUMN_TEXT: write_text(nib_table_text(table, row, i), stream); break;
            case NIB_COLUMN_INTEGER: fprintf(stream, "%lld", (long long)nib_table_integer(table, row, i)); break;
            case NIB_COLUMN_REAL: write_real(nib_table_real(table, row, i), stream); break;
            }
        }
        fputc('\n', stream);
    }
    uselocale(saved);
    freelocale(c_locale);
    return NIB_OK;
}
