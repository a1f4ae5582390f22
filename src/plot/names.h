/* Distinct texts of a column, such as the names of curves. */
#ifndef NIB_PLOT_NAMES_H
#define NIB_PLOT_NAMES_H

#include <stddef.h>

/* In the order of their first appearance. */
struct nib_plot_names {
    const char *name[256];
    size_t count;
};
/* The index of a text, which is added if there is room; SIZE_MAX if there is none. */
size_t nib_plot_index_of(struct nib_plot_names *names, const char *name);

#endif
