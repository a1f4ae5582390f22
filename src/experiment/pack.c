#include "experiment/pack.h"

#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

static size_t cell_size(const struct nib_table *table, size_t row, size_t column) {
    if (nib_table_column(table, column)->type != NIB_COLUMN_TEXT) return 8;
    return 4 + strlen(nib_table_text(table, row, column));
}

static uint8_t *put(uint8_t *to, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) *to++ = (uint8_t)(value >> (8 * i));
    return to;
}

static uint64_t get(const uint8_t *from, unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)from[i] << (8 * i);
    return value;
}

static uint8_t *put_cell(uint8_t *to, const struct nib_table *table, size_t row, size_t column) {
    double real;
    uint64_t bits;
    const char *text;
    switch (nib_table_column(table, column)->type) {
    case NIB_COLUMN_INTEGER: return put(to, (uint64_t)nib_table_integer(table, row, column), 8);
    case NIB_COLUMN_REAL:
        real = nib_table_real(table, row, column);
        memcpy(&bits, &real, sizeof bits);
        if (real != real) bits = UINT64_C(0x7FF8000000000000); /* one NaN, whatever made it */
        return put(to, bits, 8);
    case NIB_COLUMN_TEXT: break;
    }
    text = nib_table_text(table, row, column);
    to = put(to, strlen(text), 4);
    memcpy(to, text, strlen(text));
    return to + strlen(text);
}

enum nib_status nib_pack(const struct nib_table *table, const size_t *columns, size_t count, uint8_t **bytes,
                         size_t *size, struct nib_error *error) {
    size_t rows = nib_table_rows(table), total = 8;
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < count; i++) total += cell_size(table, row, columns[i]);
    uint8_t *packed = nib_alloc_raw(total, 1, "a packed result", error);
    if (packed == NULL) return NIB_ENOMEM;
    uint8_t *to = put(packed, rows, 8);
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < count; i++) to = put_cell(to, table, row, columns[i]);
    *bytes = packed;
    *size = total;
    return NIB_OK;
}

bool nib_pack_rows(const uint8_t *bytes, size_t size, const struct nib_column *columns, size_t count, size_t *rows) {
    if (size < 8) return false;
    uint64_t found = get(bytes, 8);
    size_t at = 8;
    for (uint64_t row = 0; row < found; row++)
        for (size_t i = 0; i < count; i++) {
            size_t need = columns[i].type == NIB_COLUMN_TEXT ? 4 : 8;
            if (size - at < need) return false;
            if (columns[i].type == NIB_COLUMN_TEXT) {
                uint64_t length = get(bytes + at, 4);
                if (length > size - at - 4 || memchr(bytes + at + 4, '\0', (size_t)length) != NULL) return false;
                need += (size_t)length;
            }
            at += need;
        }
    *rows = (size_t)found;
    return at == size;
}

static enum nib_status unpack_cell(const uint8_t *bytes, size_t *at, struct nib_table *table, size_t row, size_t column,
                                   struct nib_error *error) {
    enum nib_column_type type = nib_table_column(table, column)->type;
    if (type == NIB_COLUMN_TEXT) {
        size_t length = (size_t)get(bytes + *at, 4);
        char *text = strndup((const char *)bytes + *at + 4, length);
        if (text == NULL) return nib_fail(error, NIB_ENOMEM, "result table: out of memory");
        nib_table_set_text(table, row, column, text);
        free(text);
        *at += 4 + length;
        return NIB_OK;
    }
    uint64_t bits = get(bytes + *at, 8);
    double real;
    memcpy(&real, &bits, sizeof real);
    if (type == NIB_COLUMN_INTEGER)
        nib_table_set_integer(table, row, column, (int64_t)bits);
    else
        nib_table_set_real(table, row, column, real);
    *at += 8;
    return NIB_OK;
}

enum nib_status nib_unpack(const uint8_t *bytes, size_t size, struct nib_table *table, size_t first,
                           nib_pack_prepare *prepare, void *context, struct nib_error *error) {
    size_t count = nib_table_columns(table) - first, rows, at = 8;
    struct nib_column *columns = nib_alloc(count, sizeof *columns, "columns", error);
    if (columns == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < count; i++) columns[i] = *nib_table_column(table, first + i);
    bool good = nib_pack_rows(bytes, size, columns, count, &rows);
    free(columns);
    if (!good) return nib_fail(error, NIB_EINCONSISTENT, "a packed result does not fit its columns");
    enum nib_status status = NIB_OK;
    for (size_t i = 0; status == NIB_OK && i < rows; i++) {
        size_t row = nib_table_row(table);
        if (row == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "result table: out of memory");
        prepare(context, table, row);
        for (size_t k = 0; status == NIB_OK && k < count; k++)
            status = unpack_cell(bytes, &at, table, row, first + k, error);
    }
    return status;
}
