/* Result tables: what every analysis returns and every writer (terminal, TSV, JSON, HDF5) takes. */
#ifndef NIBBLE_TABLE_H
#define NIBBLE_TABLE_H

#include <stddef.h>
#include <nibble/status.h>

#ifdef __cplusplus
extern "C" {
#endif

enum nib_column_type { NIB_COLUMN_TEXT, NIB_COLUMN_INTEGER, NIB_COLUMN_REAL };

struct nib_column {
    const char *name;            /* "sqnr_db": lower case, as in JSON, TSV and HDF5 */
    const char *heading;         /* "SQNR dB": on the terminal */
    const char *units;           /* "dB"; "1" for ratios; "" for text */
    const char *long_name;       /* one sentence for HDF5 */
    enum nib_column_type type;
    int digits;                  /* decimals on the terminal; negative: significant digits */
};

struct nib_table;

/* `columns` is copied; the strings in it must outlive the table (string literals). */
NIB_API NIB_CHECK enum nib_status nib_table_new(const char *name, const struct nib_column *columns, size_t count,
                                                struct nib_table **out, struct nib_error *error);
NIB_API void nib_table_free(struct nib_table *table);
/* Appends a row of blank cells (empty text, 0, NAN) and returns its index, or SIZE_MAX when out of memory. */
NIB_API size_t nib_table_row(struct nib_table *table);
NIB_API void nib_table_set_text(struct nib_table *table, size_t row, size_t column, const char *value); /* copied */
NIB_API void nib_table_set_integer(struct nib_table *table, size_t row, size_t column, int64_t value);
NIB_API void nib_table_set_real(struct nib_table *table, size_t row, size_t column, double value);
NIB_API const char *nib_table_name(const struct nib_table *table);
NIB_API size_t nib_table_rows(const struct nib_table *table);
NIB_API size_t nib_table_columns(const struct nib_table *table);
NIB_API const struct nib_column *nib_table_column(const struct nib_table *table, size_t column);
NIB_API const char *nib_table_text(const struct nib_table *table, size_t row, size_t column);
NIB_API int64_t nib_table_integer(const struct nib_table *table, size_t row, size_t column);
NIB_API double nib_table_real(const struct nib_table *table, size_t row, size_t column);

#ifdef __cplusplus
}
#endif
#endif
