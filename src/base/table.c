#include "base/table.h"

#include "base/error.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

union cell {
    char *text;
    int64_t integer;
    double real;
};

struct nib_table {
    char *name;
    struct nib_column *columns;
    size_t column_count;
    union cell *cells; /* row-major */
    size_t rows, capacity;
};

enum nib_status nib_table_new(const char *name, const struct nib_column *columns, size_t count, struct nib_table **out,
                              struct nib_error *error) {
    struct nib_table *table = nib_alloc(1, sizeof *table, "result table", error);
    if (table == NULL) return NIB_ENOMEM;
    table->name = strdup(name);
    table->columns = nib_alloc(count, sizeof *columns, "columns of a result table", error);
    if (table->name == NULL || table->columns == NULL) {
        nib_table_free(table);
        return nib_fail(error, NIB_ENOMEM, "result table: out of memory");
    }
    memcpy(table->columns, columns, count * sizeof *columns);
    table->column_count = count;
    *out = table;
    return NIB_OK;
}

void nib_table_free(struct nib_table *table) {
    if (table == NULL) return;
    for (size_t i = 0; i < table->rows * table->column_count; i++)
        if (table->columns[i % table->column_count].type == NIB_COLUMN_TEXT) free(table->cells[i].text);
    free(table->cells);
    free(table->columns);
    free(table->name);
    free(table);
}

size_t nib_table_row(struct nib_table *table) {
    if (table->rows == table->capacity) {
        size_t capacity = table->capacity == 0 ? 16 : 2 * table->capacity;
        union cell *cells = realloc(table->cells, capacity * table->column_count * sizeof *cells);
        if (cells == NULL) return SIZE_MAX;
        table->cells = cells;
        table->capacity = capacity;
    }
    union cell *row = table->cells + table->rows * table->column_count;
    for (size_t i = 0; i < table->column_count; i++) {
        switch (table->columns[i].type) {
        case NIB_COLUMN_TEXT: row[i].text = NULL; break;
        case NIB_COLUMN_INTEGER: row[i].integer = 0; break;
        case NIB_COLUMN_REAL: row[i].real = NAN; break;
        }
    }
    return table->rows++;
}

static union cell *cell_of(const struct nib_table *table, size_t row, size_t column) {
    return &table->cells[row * table->column_count + column];
}

void nib_table_set_text(struct nib_table *table, size_t row, size_t column, const char *value) {
    union cell *cell = cell_of(table, row, column);
    free(cell->text);
    cell->text = strdup(value);
}

void nib_table_set_integer(struct nib_table *table, size_t row, size_t column, int64_t value) {
    cell_of(table, row, column)->integer = value;
}

void nib_table_set_real(struct nib_table *table, size_t row, size_t column, double value) {
    cell_of(table, row, column)->real = value;
}

const char *nib_table_name(const struct nib_table *table) { return table->name; }
size_t nib_table_rows(const struct nib_table *table) { return table->rows; }
size_t nib_table_columns(const struct nib_table *table) { return table->column_count; }

const struct nib_column *nib_table_column(const struct nib_table *table, size_t column) {
    return &table->columns[column];
}

const char *nib_table_text(const struct nib_table *table, size_t row, size_t column) {
    const char *text = cell_of(table, row, column)->text;
    return text == NULL ? "" : text;
}

int64_t nib_table_integer(const struct nib_table *table, size_t row, size_t column) {
    return cell_of(table, row, column)->integer;
}

double nib_table_real(const struct nib_table *table, size_t row, size_t column) {
    return cell_of(table, row, column)->real;
}

bool nib_table_find_column(const struct nib_table *table, const char *name, size_t *out) {
    for (size_t i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i].name, name) == 0) {
            *out = i;
            return true;
        }
    return false;
}

bool nib_table_is(const struct nib_table *table, size_t row, size_t column, const char *text) {
    return strcmp(nib_table_text(table, row, column), text) == 0;
}
