/* Accumulation along a chain, or along a stack, from a table with a row for every depth and pass. */
#include "plot/figure.h"

#include "base/error.h"
#include "base/table.h"
#include "plot/names.h"
#include <math.h>
#include <stdio.h>

enum { MOST = 8 };

struct columns {
    size_t part; /* of a stack's table; SIZE_MAX: of a chain's */
    size_t name, depth, pass, gain, gain_se, product, norm, norm_se, cosine, cosine_se;
};

static bool find(const struct nib_table *table, struct columns *c) {
    bool stack = nib_table_find_column(table, "part", &c->part);
    if (!stack) c->part = SIZE_MAX;
    return nib_table_find_column(table, "case", &c->name) &&
           nib_table_find_column(table, stack ? "layer" : "depth", &c->depth) &&
           nib_table_find_column(table, "pass", &c->pass) && nib_table_find_column(table, "gain", &c->gain) &&
           nib_table_find_column(table, "gain_se", &c->gain_se) &&
           nib_table_find_column(table, "product_predicted", &c->product) &&
           nib_table_find_column(table, "norm_ratio", &c->norm) &&
           nib_table_find_column(table, "norm_ratio_se", &c->norm_se) &&
           nib_table_find_column(table, "cosine", &c->cosine) && nib_table_find_column(table, "cosine_se", &c->cosine_se);
}

/* 0 where it is not known: then no bar is drawn. */
static double error_at(const struct nib_table *table, size_t row, size_t column) {
    double error = nib_table_real(table, row, column);
    return isfinite(error) ? error : 0;
}

/* The curves of one pass, one after the other; of several GEMMs at one depth the first. Whether any has a number. */
static bool write_pass(struct nib_figure *figure, const char *block, const struct nib_table *table, const struct columns *c,
                       const struct nib_plot_names *names, const char *pass) {
    bool any = false;
    nib_figure_block(figure, block);
    for (size_t s = 0; s < names->count; s++) {
        int64_t last = INT64_MIN;
        for (size_t i = 0; i < nib_table_rows(table); i++) {
            int64_t depth = nib_table_integer(table, i, c->depth);
            if (!nib_table_is(table, i, c->name, names->name[s]) || !nib_table_is(table, i, c->pass, pass) || depth == last ||
                (c->part != SIZE_MAX && !nib_table_is(table, i, c->part, "stream")))
                continue;
            last = depth;
            any |= isfinite(nib_table_real(table, i, c->gain));
            nib_figure_line(figure, "%lld %.8g %.3g %.8g %.8g %.3g %.8g %.3g", (long long)depth,
                            nib_table_real(table, i, c->gain), error_at(table, i, c->gain_se),
                            nib_table_real(table, i, c->product), nib_table_real(table, i, c->norm),
                            error_at(table, i, c->norm_se), nib_table_real(table, i, c->cosine),
                            error_at(table, i, c->cosine_se));
        }
        nib_figure_line(figure, "\n");
    }
    nib_figure_end(figure);
    return any;
}

/* gnuplot draws no figure without a point. */
static bool has_gain(const struct nib_table *table, const struct columns *c) {
    for (size_t i = 0; i < nib_table_rows(table); i++)
        if (nib_table_is(table, i, c->pass, "fprop") && isfinite(nib_table_real(table, i, c->gain)) &&
            (c->part == SIZE_MAX || nib_table_is(table, i, c->part, "stream")))
            return true;
    return false;
}

enum nib_status nib_plot_chain(const struct nib_table *table, const char *title, const char *prefix, struct nib_error *error) {
    struct columns c;
    struct nib_plot_names names = {.count = 0};
    bool found = find(table, &c);
    for (size_t i = 0; found && i < nib_table_rows(table); i++) nib_plot_index_of(&names, nib_table_text(table, i, c.name));
    if (!found || names.count == 0) return nib_fail(error, NIB_EINVAL, "this figure is of a chain's depths");
    if (names.count > MOST)
        return nib_fail(error, NIB_EINVAL, "this figure holds at most %d curves, not %zu", MOST, names.count);
    if (!has_gain(table, &c)) return nib_fail(error, NIB_EINVAL, "no gain of the signal is a number");
    struct nib_figure *figure = NULL;
    enum nib_status status = nib_figure_new("chain", &figure, error);
    if (status != NIB_OK) return status;
    nib_figure_texts(figure, "Names", names.name, names.count);
    nib_figure_number(figure, "series", (double)names.count);
    nib_figure_text(figure, "title", title);
    nib_figure_text(figure, "xlabel", c.part != SIZE_MAX ? "layers below" : "layer, from 1");
    write_pass(figure, "Up", table, &c, &names, "fprop");
    bool down = write_pass(figure, "Down", table, &c, &names, "dgrad");
    nib_figure_number(figure, "passes", down ? 2 : 1);
    nib_figure_size(figure, 24, down ? 14 : 7.5);
    return nib_figure_write(figure, prefix, error);
}
