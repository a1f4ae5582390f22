/* Columns of a table by name. */
#ifndef NIB_PLOT_TABLE_COLUMNS_H
#define NIB_PLOT_TABLE_COLUMNS_H

#include <nibble/table.h>

bool nib_plot_find_column(const struct nib_table *table, const char *name, size_t *out);

/* Distinct texts of a column in the order of their first appearance. */
struct nib_plot_names {
    const char *name[256];
    size_t count;
};
/* The index of a text, which is added if there is room; SIZE_MAX if there is none. */
size_t nib_plot_index_of(struct nib_plot_names *names, const char *name);

#endif
