#include "plot/names.h"

#include <stdint.h>
#include <string.h>

size_t nib_plot_index_of(struct nib_plot_names *names, const char *name) {
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->name[i], name) == 0) return i;
    if (names->count == sizeof names->name / sizeof *names->name) return SIZE_MAX;
    names->name[names->count] = name;
    return names->count++;
}
