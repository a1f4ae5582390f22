#include "io/json_out.h"
#include "io/table_out.h"

void nib_json_table(struct nib_json *json, const char *key, const struct nib_table *table) {
    nib_json_array(json, key);
    for (size_t row = 0; row < nib_table_rows(table); row++) {
        nib_json_object(json, NULL);
        for (size_t i = 0; i < nib_table_columns(table); i++) {
            const struct nib_column *column = nib_table_column(table, i);
            switch (column->type) {
            case NIB_COLUMN_TEXT: nib_json_text(json, column->name, nib_table_text(table, row, i)); break;
            case NIB_COLUMN_INTEGER: nib_json_integer(json, column->name, nib_table_integer(table, row, i)); break;
            case NIB_COLUMN_REAL: nib_json_real(json, column->name, nib_table_real(table, row, i)); break;
            }
        }
        nib_json_close(json);
    }
    nib_json_close(json);
}

enum nib_status nib_table_write_json(const struct nib_table *table, const char *schema, FILE *stream,
                                     struct nib_error *error) {
    struct nib_json *json;
    enum nib_status status = nib_json_begin(stream, schema, &json, error);
    if (status != NIB_OK) return status;
    nib_json_table(json, "rows", table);
    nib_json_end(json);
    return NIB_OK;
}
