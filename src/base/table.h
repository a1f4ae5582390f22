/* Looking into result tables. */
#ifndef NIB_BASE_TABLE_H
#define NIB_BASE_TABLE_H

#include <nibble/table.h>
#include <stdbool.h>

/* The index of a column; false, and *out untouched, where there is none of that name. */
bool nib_table_find_column(const struct nib_table *table, const char *name, size_t *out);
/* Whether a text cell holds exactly `text`. */
bool nib_table_is(const struct nib_table *table, size_t row, size_t column, const char *text);

#endif
