/* Figures of a layer stack from its table: rows of all parts, as nib_stack_table writes them. */
#include "plot/figure.h"

#include "base/error.h"
#include "base/table.h"
#include "plot/names.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_PANELS = 4, MOST_CURVES = 6 };

struct columns {
    size_t name, part, layer, module, pass, operand;
    size_t sqnr, raw, rotated, change, raw_use, rotated_use;
};

static enum nib_status find(const struct nib_table *table, struct columns *c, struct nib_error *error) {
    const struct {
        const char *name;
        size_t *at;
    } wanted[] = {{"case", &c->name}, {"part", &c->part}, {"layer", &c->layer}, {"module", &c->module}, {"pass", &c->pass},
                  {"operand", &c->operand}, {"sqnr_db", &c->sqnr}, {"raw_sqnr_db", &c->raw},
                  {"rotated_sqnr_db", &c->rotated}, {"rotation_gain_db", &c->change}, {"raw_b_eff", &c->raw_use},
                  {"rotated_b_eff", &c->rotated_use}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!nib_table_find_column(table, wanted[i].name, wanted[i].at))
            return nib_fail(error, NIB_EINVAL, "this figure is of a layer stack; there is no column %s", wanted[i].name);
    return NIB_OK;
}

/* Recipes under which a rotation changes something that is measured. */
static void find_names(const struct nib_table *table, const struct columns *c, struct nib_plot_names *names) {
    for (size_t i = 0; i < nib_table_rows(table); i++)
        if (nib_table_is(table, i, c->part, "product") && isfinite(nib_table_real(table, i, c->change)))
            nib_plot_index_of(names, nib_table_text(table, i, c->name));
}

/* "q_proj fprop" of "self_attn.q_proj" and "fprop". */
static void label_of(const struct nib_table *table, size_t row, const struct columns *c, char out[64]) {
    const char *module = nib_table_text(table, row, c->module), *dot = strrchr(module, '.');
    snprintf(out, 64, "%s %s", dot == NULL ? module : dot + 1, nib_table_text(table, row, c->pass));
}

/* One GEMM over the layers, which the table has in order. */
static void write_row(struct nib_figure *figure, const struct nib_table *table, const struct columns *c, const char *name,
                      size_t row, const char *label, int64_t *layers, double *most) {
    for (size_t i = 0; i < nib_table_rows(table); i++) {
        char text[64];
        if (!nib_table_is(table, i, c->part, "product") || !nib_table_is(table, i, c->name, name)) continue;
        label_of(table, i, c, text);
        if (strcmp(label, text) != 0) continue;
        double change = nib_table_real(table, i, c->change);
        int64_t layer = nib_table_integer(table, i, c->layer);
        if (layer >= *layers) *layers = layer + 1;
        if (isfinite(change)) *most = fmax(*most, fabs(change));
        if (isfinite(change))
            nib_figure_line(figure, "%lld %zu %.6g", (long long)layer, row, change);
        else
            nib_figure_line(figure, "%lld %zu NaN", (long long)layer, row);
    }
}

enum nib_status nib_plot_stack_gemms(const struct nib_table *table, const char *title, const char *prefix,
                                     struct nib_error *error) {
    enum { ROWS = 32 };
    static const char *const passes[] = {"fprop", "dgrad", "wgrad"};
    struct columns c;
    struct nib_plot_names names = {.count = 0};
    enum nib_status status = find(table, &c, error);
    if (status != NIB_OK) return status;
    find_names(table, &c, &names);
    if (names.count == 0) return nib_fail(error, NIB_EINVAL, "no recipe quantizes anything that a rotation could change");
    size_t panels = names.count < MOST_PANELS ? names.count : MOST_PANELS, labelled = 0;
    char label[ROWS][64];
    const char *labels[ROWS];
    int64_t layers = 0;
    double most = 0;
    for (int pass = 0; pass < 3; pass++) /* fprop above dgrad above wgrad */
        for (size_t i = 0; i < nib_table_rows(table) && labelled < ROWS; i++) {
            if (!nib_table_is(table, i, c.part, "product") || !nib_table_is(table, i, c.pass, passes[pass]) ||
                !nib_table_is(table, i, c.name, names.name[0]) || nib_table_integer(table, i, c.layer) != 0)
                continue;
            label_of(table, i, &c, label[labelled]);
            labels[labelled] = label[labelled];
            labelled++;
        }
    struct nib_figure *figure = NULL;
    status = nib_figure_new("stack-gemms", &figure, error);
    if (status != NIB_OK) return status;
    nib_figure_block(figure, "Map");
    for (size_t p = 0; p < panels; p++) {
        for (size_t row = 0; row < labelled; row++) /* an image wants its points line by line */
            write_row(figure, table, &c, names.name[p], row, labels[row], &layers, &most);
        nib_figure_line(figure, "\n");
    }
    nib_figure_end(figure);
    nib_figure_text(figure, "title", title);
    nib_figure_texts(figure, "Recipes", names.name, panels);
    nib_figure_texts(figure, "Rows", labels, labelled);
    nib_figure_number(figure, "panels", (double)panels);
    nib_figure_number(figure, "rows", (double)labelled);
    nib_figure_number(figure, "layers", (double)layers);
    nib_figure_number(figure, "most", most > 0 ? most : 1);
    nib_figure_size(figure, 9 + 5.5 * (double)panels, 4.3 + 0.42 * (double)labelled);
    return nib_figure_write(figure, prefix, error);
}

/* One line for each layer: the input of a linear layer and what it gives. */
static void write_module(struct nib_figure *figure, const char *block, const struct nib_table *table, const struct columns *c,
                         const struct nib_plot_names *names, size_t count, const char *module) {
    nib_figure_block(figure, block);
    for (size_t s = 0; s < count; s++) {
        for (size_t i = 0; i < nib_table_rows(table); i++) {
            if (!nib_table_is(table, i, c->part, "operand") || !nib_table_is(table, i, c->name, names->name[s]) ||
                !nib_table_is(table, i, c->pass, "fprop") || !nib_table_is(table, i, c->operand, "x") || !nib_table_is(table, i, c->module, module))
                continue;
            int64_t layer = nib_table_integer(table, i, c->layer);
            size_t out = i;
            while (out < nib_table_rows(table) &&
                   !(nib_table_is(table, out, c->part, "product") && nib_table_is(table, out, c->name, names->name[s]) &&
                     nib_table_is(table, out, c->pass, "fprop") && nib_table_is(table, out, c->module, module) &&
                     nib_table_integer(table, out, c->layer) == layer))
                out++;
            if (out == nib_table_rows(table) || !isfinite(nib_table_real(table, i, c->change))) continue;
            nib_figure_line(figure, "%lld %.6g %.6g %.6g %.6g %.6g %.6g", (long long)layer, nib_table_real(table, i, c->raw),
                            nib_table_real(table, i, c->rotated), nib_table_real(table, i, c->raw_use),
                            nib_table_real(table, i, c->rotated_use), nib_table_real(table, out, c->raw),
                            nib_table_real(table, out, c->rotated));
        }
        nib_figure_line(figure, "\n");
    }
    nib_figure_end(figure);
}

enum nib_status nib_plot_stack_operands(const struct nib_table *table, const char *prefix, struct nib_error *error) {
    struct columns c;
    struct nib_plot_names names = {.count = 0};
    enum nib_status status = find(table, &c, error);
    if (status != NIB_OK) return status;
    find_names(table, &c, &names);
    if (names.count == 0) return nib_fail(error, NIB_EINVAL, "no recipe quantizes anything that a rotation could change");
    size_t count = names.count < MOST_CURVES ? names.count : MOST_CURVES;
    struct nib_figure *figure = NULL;
    status = nib_figure_new("stack-operands", &figure, error);
    if (status != NIB_OK) return status;
    write_module(figure, "Fc1", table, &c, &names, count, "mlp.up_proj");
    write_module(figure, "Fc2", table, &c, &names, count, "mlp.down_proj");
    nib_figure_texts(figure, "Names", names.name, count);
    nib_figure_number(figure, "recipes", (double)count);
    nib_figure_size(figure, 24, 14);
    return nib_figure_write(figure, prefix, error);
}
