/* Bucket utilization of the raw tensor against what a rotation does to SQNR: UFP4's figure 2. */
#include "plot/figure.h"

#include "base/error.h"
#include "base/table.h"
#include "plot/names.h"
#include <math.h>
#include <stdio.h>

enum nib_status nib_plot_usage(const struct nib_table *totals, const char *prefix, struct nib_error *error) {
    size_t view, quantizer, rotation, use, sqnr, operand, layer, rows = nib_table_rows(totals);
    bool found = nib_table_find_column(totals, "view", &view) && nib_table_find_column(totals, "quantizer", &quantizer) &&
                 nib_table_find_column(totals, "rotation", &rotation) && nib_table_find_column(totals, "b_eff", &use) &&
                 nib_table_find_column(totals, "sqnr_db", &sqnr) && nib_table_find_column(totals, "operand", &operand) &&
                 nib_table_find_column(totals, "layer", &layer);
    struct nib_plot_names quantizers = {.count = 0}, rotations = {.count = 0};
    for (size_t i = 0; found && i < rows; i++) {
        nib_plot_index_of(&quantizers, nib_table_text(totals, i, quantizer));
        nib_plot_index_of(&rotations, nib_table_text(totals, i, rotation));
    }
    if (!found || rotations.count < 2)
        return nib_fail(error, NIB_EINVAL, "this figure is of a bias report with a rotation beside \"none\"");
    struct nib_figure *figure = NULL;
    enum nib_status status = nib_figure_new("usage", &figure, error);
    if (status != NIB_OK) return status;
    int64_t deepest = 1;
    for (size_t i = 0; i < rows; i++)
        if (nib_table_integer(totals, i, layer) > deepest) deepest = nib_table_integer(totals, i, layer);
    nib_figure_size(figure, 14, 10);
    nib_figure_text(figure, "rotation", rotations.name[rotations.count - 1]);
    static const char *const blocks[2][4] = {{"FirstW", "FirstX", "FirstD", "FirstOther"},
                                             {"SecondW", "SecondX", "SecondD", "SecondOther"}};
    static const char *const symbols[] = {"w", "x", "dy", ""};
    for (size_t q = 0; q < 2; q++)
        for (size_t o = 0; o < 4; o++) {
            nib_figure_block(figure, blocks[q][o]);
            for (size_t i = 0; q < quantizers.count && i < rows;
                 i++) { /* rows of a view and quantizer run over rotations */
                if (!nib_table_is(totals, i, quantizer, quantizers.name[q]) || !nib_table_is(totals, i, operand, symbols[o]) ||
                    !nib_table_is(totals, i, rotation, rotations.name[0]))
                    continue;
                size_t turned = i + rotations.count - 1;
                double depth = (double)nib_table_integer(totals, i, layer) / (double)deepest;
                nib_figure_line(figure, "%.6g %.6g %.4g", nib_table_real(totals, i, use),
                                nib_table_real(totals, turned, sqnr) - nib_table_real(totals, i, sqnr), fmax(0, depth));
            }
            nib_figure_line(figure, "nan nan nan");
            nib_figure_end(figure);
        }
    nib_figure_text(figure, "first", quantizers.name[0]);
    nib_figure_text(figure, "second", quantizers.count > 1 ? quantizers.name[1] : "");
    return nib_figure_write(figure, prefix, error);
}
