/* Figures of an exploration, from its tables. */
#include "plot/figure.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/table.h"
#include "plot/names.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum nib_status not_that(const char *what, struct nib_error *error) {
    return nib_fail(error, NIB_EINVAL, "not the table of %s, or an empty one", what);
}

/* name1 = '...', name2 = ... */
static void write_names(struct nib_figure *figure, const struct nib_plot_names *names) {
    for (size_t i = 0; i < names->count; i++) {
        char variable[32];
        snprintf(variable, sizeof variable, "name%zu", i + 1);
        nib_figure_text(figure, variable, names->name[i]);
    }
}

/* Bins of each grid with the mean error of what they take: UFP4's figure 1a. */
enum nib_status nib_plot_grids(const struct nib_table *bins, const char *prefix, struct nib_error *error) {
    enum { MOST = 6 };
    size_t grid, level, low, high, share, mean, equation, data, rows = nib_table_rows(bins);
    bool found = nib_table_find_column(bins, "grid", &grid) && nib_table_find_column(bins, "level", &level) &&
                 nib_table_find_column(bins, "low", &low) && nib_table_find_column(bins, "high", &high) &&
                 nib_table_find_column(bins, "share", &share) && nib_table_find_column(bins, "error", &mean) &&
                 nib_table_find_column(bins, "equation_2", &equation) && nib_table_find_column(bins, "data", &data);
    if (!found || rows == 0) return not_that("bins", error);
    struct nib_plot_names names = {.count = 0};
    struct nib_figure *figure = NULL;
    for (size_t i = 0; i < rows; i++) nib_plot_index_of(&names, nib_table_text(bins, i, grid));
    if (names.count > MOST)
        return nib_fail(error, NIB_EINVAL, "a figure of bins holds at most %d grids, not %zu", MOST, names.count);
    enum nib_status status = nib_figure_new("grids", &figure, error);
    if (status != NIB_OK) return status;
    nib_figure_size(figure, 16, 3.5 + 4.2 * (double)names.count);
    nib_figure_number(figure, "grids", (double)names.count);
    nib_figure_text(figure, "density", nib_table_text(bins, 0, data));
    for (size_t g = 0; g < names.count; g++) {
        char block[32];
        snprintf(block, sizeof block, "Bins%zu", g + 1);
        nib_figure_block(figure, block);
        double largest = 0;
        for (size_t i = 0; i < rows; i++)
            if (nib_table_is(bins, i, grid, names.name[g]))
                largest = fmax(largest, nib_table_real(bins, i, level));
        for (size_t i = 0; i < rows;
             i++) { /* in units of the largest magnitude, so that grids stand above each other */
            if (!nib_table_is(bins, i, grid, names.name[g])) continue;
            nib_figure_line(figure, "%.8g %.8g %.8g %.8g %.8g %.8g %.8g", nib_table_real(bins, i, level) / largest,
                            nib_table_real(bins, i, low) / largest, nib_table_real(bins, i, high) / largest,
                            nib_table_real(bins, i, mean) / largest, nib_table_real(bins, i, equation) / largest,
                            nib_table_real(bins, i, share), nib_table_real(bins, i, level));
        }
        nib_figure_end(figure);
    }
    write_names(figure, &names);
    return nib_figure_write(figure, prefix, error);
}

/* Every grid by SQNR and |1 - alpha|, with the front of those that none beats in both. */
enum nib_status nib_plot_pareto(const struct nib_table *grids, const char *prefix, struct nib_error *error) {
    size_t label, name, pareto, sqnr, loss, rank, data, rows = nib_table_rows(grids);
    bool found = nib_table_find_column(grids, "grid", &label) && nib_table_find_column(grids, "name", &name) &&
                 nib_table_find_column(grids, "pareto", &pareto) && nib_table_find_column(grids, "sqnr_db", &sqnr) &&
                 nib_table_find_column(grids, "one_minus_alpha", &loss) && nib_table_find_column(grids, "rank", &rank) &&
                 nib_table_find_column(grids, "data", &data);
    if (!found || rows < 2) return not_that("grids", error);
    size_t end = 1; /* of the first ranking */
    while (end < rows && nib_table_integer(grids, end, rank) != 1) end++;
    struct nib_figure *figure = NULL;
    enum nib_status status = nib_figure_new("pareto", &figure, error);
    if (status != NIB_OK) return status;
    nib_figure_size(figure, 14, 9.5);
    nib_figure_text(figure, "density", nib_table_text(grids, 0, data));
    nib_figure_block(figure, "All");
    for (size_t i = 0; i < end; i++)
        nib_figure_line(figure, "%.8g %.8g", nib_table_real(grids, i, sqnr), fabs(nib_table_real(grids, i, loss)));
    nib_figure_end(figure);
    nib_figure_block(figure, "Front");            /* in the order of SQNR, which ranks under the usual objective */
    double below = INFINITY, labelled = INFINITY; /* a label needs room below the one before */
    for (;;) {
        size_t next = end;
        for (size_t i = 0; i < end; i++) {
            double x = nib_table_real(grids, i, sqnr);
            if (nib_table_integer(grids, i, pareto) && x < below &&
                (next == end || x > nib_table_real(grids, next, sqnr)))
                next = i;
        }
        if (next == end) break;
        char quoted[160];
        below = nib_table_real(grids, next, sqnr);
        double height = fabs(nib_table_real(grids, next, loss));
        bool room = height < 0.6 * labelled && nib_table_text(grids, next, name)[0] == '\0';
        if (room) labelled = height;
        nib_figure_line(figure, "%.8g %.8g %s", below, height,
                        nib_figure_quote(room ? nib_table_text(grids, next, label) : "", quoted));
    }
    nib_figure_end(figure);
    nib_figure_block(figure, "Known");
    for (size_t i = 0; i < end; i++) {
        char quoted[160];
        if (nib_table_text(grids, i, name)[0] == '\0') continue;
        nib_figure_line(figure, "%.8g %.8g %s", nib_table_real(grids, i, sqnr), fabs(nib_table_real(grids, i, loss)),
                        nib_figure_quote(nib_table_text(grids, i, name), quoted));
    }
    nib_figure_line(figure, "nan nan \"\"");
    nib_figure_end(figure);
    return nib_figure_write(figure, prefix, error);
}

/* One side of a heat map: names that it owns. */
enum { SIDE = 64, NAME = 112 };
struct side {
    char name[SIDE][NAME];
    size_t count;
};

static size_t place_of(struct side *side, const char *name) {
    for (size_t i = 0; i < side->count; i++)
        if (strcmp(side->name[i], name) == 0) return i;
    if (side->count < SIDE) snprintf(side->name[side->count], NAME, "%s", name);
    return side->count < SIDE ? side->count++ : SIZE_MAX;
}

static void write_side(struct nib_figure *figure, const char *block, const struct side *side) {
    nib_figure_block(figure, block);
    for (size_t i = 0; i < side->count; i++) {
        char quoted[160];
        nib_figure_line(figure, "%zu %s", i, nib_figure_quote(side->name[i], quoted));
    }
    nib_figure_end(figure);
}

struct heat_columns {
    size_t label, sqnr, data, block, scale, rotation;
};

/* False when there are too many rows or columns. */
static bool write_cells(struct nib_figure *figure, const struct nib_table *grids, const struct heat_columns *c,
                        struct side sides[2]) {
    nib_figure_block(figure, "Cells");
    for (size_t i = 0; i < nib_table_rows(grids); i++) {
        char across[NAME], down[NAME];
        const char *rotation = nib_table_text(grids, i, c->rotation);
        bool rotated = strcmp(rotation, "none") != 0;
        snprintf(across, sizeof across, "%.60s, %.30s", nib_table_text(grids, i, c->label),
                 nib_table_text(grids, i, c->scale));
        snprintf(down, sizeof down, "%.40s, %lld%s%.30s", nib_table_text(grids, i, c->data),
                 (long long)nib_table_integer(grids, i, c->block), rotated ? ", " : "", rotated ? rotation : "");
        size_t x = place_of(&sides[0], across), y = place_of(&sides[1], down);
        if (x == SIZE_MAX || y == SIZE_MAX) return false;
        nib_figure_line(figure, "%zu %zu %.6g", x, y, nib_table_real(grids, i, c->sqnr));
    }
    nib_figure_end(figure);
    return true;
}

/* SQNR of each grid and scale format (across) on each density and block size (down). */
enum nib_status nib_plot_heat(const struct nib_table *grids, const char *prefix, struct nib_error *error) {
    struct heat_columns c;
    bool found = nib_table_find_column(grids, "grid", &c.label) && nib_table_find_column(grids, "sqnr_db", &c.sqnr) &&
                 nib_table_find_column(grids, "data", &c.data) && nib_table_find_column(grids, "block", &c.block) &&
                 nib_table_find_column(grids, "scale", &c.scale) && nib_table_find_column(grids, "rotation", &c.rotation);
    if (!found || nib_table_rows(grids) == 0) return not_that("grids", error);
    struct nib_figure *figure = NULL;
    struct side *sides = nib_alloc(2, sizeof *sides, "names of a figure", error);
    if (sides == NULL) return NIB_ENOMEM;
    enum nib_status status = nib_figure_new("sqnr-map", &figure, error);
    if (status == NIB_OK && !write_cells(figure, grids, &c, sides)) {
        nib_figure_free(figure);
        status = nib_fail(error, NIB_EINVAL, "a heat map has at most %d rows and columns", SIDE);
    }
    if (status == NIB_OK) {
        nib_figure_size(figure, 6.5 + 1.5 * (double)sides[0].count, 5 + 0.75 * (double)sides[1].count);
        nib_figure_number(figure, "columns", (double)sides[0].count);
        nib_figure_number(figure, "lines", (double)sides[1].count);
        write_side(figure, "Across", &sides[0]);
        write_side(figure, "Down", &sides[1]);
        status = nib_figure_write(figure, prefix, error);
    }
    free(sides);
    return status;
}

/* Bias and coherent loss of each grid along a family of densities, by the crest factor of its blocks. */
enum nib_status nib_plot_crest(const struct nib_table *family, const char *prefix, struct nib_error *error) {
    enum { MOST = 7 };
    size_t grid, crest, bias, loss, sqnr, rows = nib_table_rows(family);
    bool found = nib_table_find_column(family, "grid", &grid) && nib_table_find_column(family, "crest", &crest) &&
                 nib_table_find_column(family, "b_relative", &bias) &&
                 nib_table_find_column(family, "one_minus_alpha", &loss) &&
                 nib_table_find_column(family, "sqnr_db", &sqnr);
    if (!found || rows == 0) return not_that("densities by crest factor", error);
    struct nib_plot_names names = {.count = 0};
    struct nib_figure *figure = NULL;
    for (size_t i = 0; i < rows; i++) nib_plot_index_of(&names, nib_table_text(family, i, grid));
    if (names.count > MOST)
        return nib_fail(error, NIB_EINVAL, "this figure holds at most %d grids, not %zu", MOST, names.count);
    enum nib_status status = nib_figure_new("crest", &figure, error);
    if (status != NIB_OK) return status;
    nib_figure_size(figure, 14, 15);
    nib_figure_number(figure, "grids", (double)names.count);
    for (size_t g = 0; g < names.count; g++) {
        char block[32];
        snprintf(block, sizeof block, "Grid%zu", g + 1);
        nib_figure_block(figure, block);
        for (size_t i = 0; i < rows; i++)
            if (nib_table_is(family, i, grid, names.name[g]))
                nib_figure_line(figure, "%.8g %.8g %.8g %.8g", nib_table_real(family, i, crest),
                                nib_table_real(family, i, bias), nib_table_real(family, i, loss),
                                nib_table_real(family, i, sqnr));
        nib_figure_end(figure);
    }
    write_names(figure, &names);
    return nib_figure_write(figure, prefix, error);
}
