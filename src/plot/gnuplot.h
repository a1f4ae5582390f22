/* gnuplot as a program. */
#ifndef NIB_PLOT_GNUPLOT_H
#define NIB_PLOT_GNUPLOT_H

#include <nibble/status.h>

/* Draws a script of nib_figure into `path` ("png", "pdf" or "svg"), complete or not at all. NIB_EUNAVAILABLE when there
 * is no gnuplot, NIB_EIO when it or the disk fails. */
NIB_CHECK enum nib_status nib_gnuplot_draw(const char *script, const char *format, const char *path,
                                           struct nib_error *error);

#endif
