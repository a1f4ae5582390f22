#include "plot/table_columns.h"

#include <string.h>

bool nib_plot_find_column(const struct nib_table *table, const char *name, size_t *out) {
    for (size_t i = 0; i < nib_table_columns(table); i++)
        if (strcmp(nib_table_column(table, i)->name, name) == 0) {
            *out = i;
            return true;
        }
    return false;
}

size_t nib_plot_index_of(struct nib_plot_names *names, const char *name) {
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->name[i], name) == 0) return i;
    if (names->count == sizeof names->name / sizeof *names->name) return SIZE_MAX;
    names->name[names->count] = name;
    return names->count++;
}
