/* The gnuplot scripts of plots/, compiled in. */
#ifndef NIB_PLOT_EMBEDDED_H
#define NIB_PLOT_EMBEDDED_H

#include <stddef.h>

struct nib_plot_script {
    const char *name;          /* "bias" */
    const unsigned char *text; /* UTF-8, NUL-terminated */
};

extern const struct nib_plot_script nib_plot_scripts[];
extern const size_t nib_plot_script_count;

#endif
