/* nibble plot: a figure of any result file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "io/hdf5_table.h"
#include "plot/figure.h"

struct arguments {
    const char *output, *script, *measure, *x, *group, *title;
    struct nib_texts where;
    int kind;
};

static const struct arguments defaults = {.kind = NIB_PLOT_AUTO};
static const char *const kinds[] = {"auto", "lines", "bars", "heat", NULL}; /* the order of enum nib_plot_kind */
static const struct nib_option options[] = {
    NIB_OPT_TEXT(struct arguments, output, "output", 'o', "FILE", "the figure: .png, .pdf or .svg; by default RESULT.png"),
    NIB_OPT_TEXT(struct arguments, measure, "measure", 'm', "NAME", "what is drawn; by default the first measure"),
    NIB_OPT_TEXT(struct arguments, x, "x", 'x', "NAME", "column along the abscissa; by default an axis of numbers, or the last one"),
    NIB_OPT_TEXTS(struct arguments, where, "where", 'w', "COLUMN=VALUE,...", "draw only the rows with one of these values there"),
    NIB_OPT_CHOICE(struct arguments, kind, "kind", 'k', "KIND", kinds,
                   "lines over numbers, bars from zero (auto: points, where those would all look alike), or a heat map; auto: by the axes and how many series there are"),
    NIB_OPT_TEXT(struct arguments, group, "group", 'g', "GROUP", "table of the file, or group of arrays over axes, such as stream of a stack; by default points or summary"),
    NIB_OPT_TEXT(struct arguments, title, "title", 0, "TEXT", "title; by default that of the file"),
    NIB_OPT_TEXT(struct arguments, script, "script", 0, "FILE", "keep the gnuplot text with the data"),
    NIB_OPT_END,
};

static const struct nib_example examples[] = {
    {"nibble plot sweep.h5 -o sweep.pdf --measure sqnr_db", "a sweep"},
    {"nibble plot chain.h5 --x depth --measure gain --where pass=fprop --where norm=no", "a part of a table"},
    {"nibble plot stack.h5 --group stream --measure gain", "a stack, layer by layer"},
    {"nibble plot bias.h5 -o bias.svg --measure one_minus_alpha --kind bars", "a bias report"},
    {NULL, NULL},
};

/* RESULT.png, without the ending of a result file. */
static char *figure_name(const struct nib_call *call) {
    static const char *const endings[] = {".h5", ".hdf5", ".nc"};
    const struct arguments *a = call->options;
    const char *result = call->values[0];
    if (a->output != NULL) return strdup(a->output);
    size_t length = strlen(result);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t own = strlen(endings[i]);
        if (length <= own || strcmp(result + length - own, endings[i]) != 0) continue;
        length -= own;
        break;
    }
    char *name = malloc(length + 5);
    if (name != NULL) sprintf(name, "%.*s.png", (int)length, result);
    return name;
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    const struct arguments *a = call->options;
    struct nib_stored_table stored;
    char *name = figure_name(call);
    if (name == NULL) return nib_fail(error, NIB_ENOMEM, "out of memory");
    enum nib_status status = nib_stored_table_read(call->values[0], a->group, &stored, error);
    if (status == NIB_OK) {
        struct nib_plot_request request = {(enum nib_plot_kind)a->kind, a->measure, a->x,
                                           a->title != NULL ? a->title : stored.title, (size_t)stored.axes,
                                           a->where.item, a->where.count};
        char part[4200];
        snprintf(part, sizeof part, "%s.part", name);
        nib_signals_guard(part);
        snprintf(part, sizeof part, "%s.gp.part", name);
        nib_signals_guard(part);
        struct nib_before before = nib_output_before(name);
        status = nib_plot_table(stored.table, &request, name, a->script, error);
        nib_output_note_replaced(call, &before);
        nib_stored_table_free(&stored);
    }
    free(name);
    return status;
}

NIB_COMMAND(plot) = {
    .values = "RESULT",
    .least = 1,
    .most = 1,
    .description =
        "Draws a table of a result file with gnuplot. Axes of an experiment, axes of arrays such as nibble stack stores for "
        "every layer, or the text columns of another table, say what a row is: one of them goes along the abscissa, the others "
        "make the series. Standard errors are drawn where the file has them; rows that fall together are averaged, which the "
        "figure says. Axes that repeat a measurement, seed and skip, are not drawn unless --x names them: drawn are means over "
        "them, with standard errors from their spread. --where keeps apart what must not be averaged, such as passes.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct arguments),
    .examples = examples,
    .run = run,
};
