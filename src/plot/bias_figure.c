/* The figure of a bias report: where each tensor stands, and what the rotation does to it. */
#include "plot/figure.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/table.h"
#include "plot/names.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Columns of the table by name, and its shape: rows run over views, quantizers, rotations. */
struct report {
    const struct nib_table *table;
    size_t view, module, layer, gemm, operand, axis, quantizer, rotation, sqnr, sqnr_se, loss, loss_se;
    size_t views, quantizers, rotations;
};

static bool read_shape(struct report *r) {
    const struct nib_table *t = r->table;
    bool found = nib_table_find_column(t, "view", &r->view) && nib_table_find_column(t, "module", &r->module) &&
                 nib_table_find_column(t, "layer", &r->layer) && nib_table_find_column(t, "gemm", &r->gemm) &&
                 nib_table_find_column(t, "operand", &r->operand) && nib_table_find_column(t, "axis", &r->axis) &&
                 nib_table_find_column(t, "quantizer", &r->quantizer) && nib_table_find_column(t, "rotation", &r->rotation) &&
                 nib_table_find_column(t, "sqnr_db", &r->sqnr) && nib_table_find_column(t, "sqnr_db_se", &r->sqnr_se) &&
                 nib_table_find_column(t, "one_minus_alpha", &r->loss) && nib_table_find_column(t, "one_minus_alpha_se", &r->loss_se);
    size_t rows = nib_table_rows(t);
    if (!found || rows == 0) return false;
    size_t each = 1;
    r->rotations = 1;
    while (each < rows && nib_table_is(t, each, r->view, nib_table_text(t, 0, r->view))) each++;
    while (r->rotations < each &&
           strcmp(nib_table_text(t, r->rotations, r->quantizer), nib_table_text(t, 0, r->quantizer)) == 0)
        r->rotations++;
    r->quantizers = each / r->rotations;
    r->views = rows / each;
    return r->quantizers * r->rotations * r->views == rows;
}

static size_t row_of(const struct report *r, size_t view, size_t quantizer, size_t rotation) {
    return (view * r->quantizers + quantizer) * r->rotations + rotation;
}

static void class_of(const struct report *r, size_t view, char out[64]) {
    size_t row = row_of(r, view, 0, 0);
    const char *operand = nib_table_text(r->table, row, r->operand), *gemm = nib_table_text(r->table, row, r->gemm);
    const char *symbol = strcmp(operand, "w") == 0 ? "W" : strcmp(operand, "x") == 0 ? "X" : "dY";
    if (gemm[0] == '\0')
        snprintf(out, 64, "along %s", nib_table_text(r->table, row, r->axis));
    else
        snprintf(out, 64, "%s %s", symbol, gemm);
}

/* "q_proj" of "self_attn.q_proj"; the tensor's own name where there is no module. */
static const char *module_of(const struct report *r, size_t view, char out[80]) {
    size_t row = row_of(r, view, 0, 0);
    const char *module = nib_table_text(r->table, row, r->module);
    if (module[0] == '\0') module = nib_table_text(r->table, row, r->view);
    const char *dot = strrchr(module, '.');
    snprintf(out, 80, "%.79s", dot != NULL && dot[1] != '\0' && strchr(module, '/') == NULL ? dot + 1 : module);
    char *comma = strchr(out, ',');
    if (comma != NULL) *comma = '\0';
    return out;
}

/* A view on the axis: sorted by class, then module, each in the order of appearance, then layer. */
struct place {
    size_t view, class, module;
    int64_t layer;
    double x;
};

static int by_place(const void *left, const void *right) {
    const struct place *a = left, *b = right;
    if (a->class != b->class) return a->class < b->class ? -1 : 1;
    if (a->module != b->module) return a->module < b->module ? -1 : 1;
    if (a->layer != b->layer) return a->layer < b->layer ? -1 : 1;
    return a->view < b->view ? -1 : 1;
}

/* Small classes get wider steps, so that their names fit. */
static double lay_out(const struct report *r, struct place *places) {
    char one[80], other[80];
    for (size_t v = 0; v < r->views; v++) {
        places[v] = (struct place){v, v, v, nib_table_integer(r->table, row_of(r, v, 0, 0), r->layer), 0};
        class_of(r, v, one);
        for (size_t w = 0; w < v && places[v].class == v; w++) {
            class_of(r, w, other);
            if (strcmp(one, other) == 0) places[v].class = places[w].class;
        }
        module_of(r, v, one);
        for (size_t w = 0; w < v && places[v].module == v; w++)
            if (places[w].class == places[v].class && strcmp(one, module_of(r, w, other)) == 0)
                places[v].module = places[w].module;
    }
    qsort(places, r->views, sizeof *places, by_place);
    double x = 0;
    for (size_t i = 0, size = 0; i < r->views; i++) {
        bool new_class = i == 0 || places[i].class != places[i - 1].class;
        if (new_class)
            for (size = 0; i + size < r->views && places[i + size].class == places[i].class;) size++;
        double step = size < 40 ? 2 : 1;
        if (i > 0) x += new_class ? 3 : step + (places[i].module != places[i - 1].module);
        places[i].x = x;
    }
    return x + 1;
}

static void write_axis(const struct report *r, const struct place *places, double end, struct nib_figure *figure) {
    char name[80], quoted[160];
    nib_figure_block(figure, "Classes");
    for (size_t i = 0, first = 0; i < r->views; i++) {
        if (i + 1 < r->views && places[i + 1].class == places[i].class) continue;
        class_of(r, places[i].view, name);
        nib_figure_line(figure, "%.6g %.6g %s", first == 0 ? -1 : places[first].x - 1.5,
                        i + 1 == r->views ? end : places[i].x + 1.5, nib_figure_quote(name, quoted));
        first = i + 1;
    }
    nib_figure_end(figure);
    nib_figure_block(figure, "Modules");
    for (size_t i = 0, first = 0; i < r->views; i++) {
        if (i + 1 < r->views && places[i + 1].module == places[i].module) continue;
        nib_figure_line(figure, "%.6g %s", (places[first].x + places[i].x) / 2,
                        nib_figure_quote(module_of(r, places[i].view, name), quoted));
        first = i + 1;
    }
    nib_figure_end(figure);
}

static void write_quantizer(const struct report *r, const struct place *places, size_t q, struct nib_figure *figure) {
    if (q > 0) nib_figure_line(figure, "\n");
    for (size_t i = 0; i < r->views; i++) {
        double v[8];
        size_t column[4] = {r->sqnr, r->sqnr_se, r->loss, r->loss_se};
        for (size_t k = 0; k < 8; k++) {
            size_t rotation = k / 2 % 2 == 0 ? 0 : r->rotations - 1;
            bool there = rotation > 0 || k / 2 % 2 == 0;
            v[k] = there ? nib_table_real(r->table, row_of(r, places[i].view, q, rotation), column[k / 4 * 2 + k % 2]) : NAN;
            if (k % 2 == 1 && !isnan(v[k - 1]) && isnan(v[k])) v[k] = 0; /* no error is known: no bar */
        }
        nib_figure_line(figure, "%.6g %.8g %.4g %.8g %.4g %.8g %.4g %.8g %.4g", places[i].x, v[0], v[1], v[2], v[3], v[4],
                        v[5], v[6], v[7]);
    }
}

enum nib_status nib_plot_bias(const struct nib_table *totals, const char *prefix, struct nib_error *error) {
    struct report r = {.table = totals};
    if (!read_shape(&r)) return nib_fail(error, NIB_EINVAL, "not the totals of a bias report");
    struct place *places = nib_alloc_raw(r.views, sizeof *places, "places of a figure", error);
    if (places == NULL) return NIB_ENOMEM;
    struct nib_figure *figure = NULL;
    enum nib_status status = nib_figure_new("bias", &figure, error);
    if (status == NIB_OK) {
        double end = lay_out(&r, places);
        const char *names[NIB_PLOT_QUANTIZERS];
        size_t drawn = r.quantizers < NIB_PLOT_QUANTIZERS ? r.quantizers : NIB_PLOT_QUANTIZERS;
        for (size_t q = 0; q < drawn; q++) names[q] = nib_table_text(totals, row_of(&r, 0, q, 0), r.quantizer);
        nib_figure_size(figure, 18, 10.5 + 0.5 * (double)((drawn + 1) / 2));
        nib_figure_texts(figure, "Names", names, drawn);
        nib_figure_number(figure, "quantizers", (double)drawn);
        nib_figure_text(figure, "rotation",
                        r.rotations < 2 ? "" : nib_table_text(totals, row_of(&r, 0, 0, r.rotations - 1), r.rotation));
        nib_figure_number(figure, "places", end);
        write_axis(&r, places, end, figure);
        nib_figure_block(figure, "Data");
        for (size_t q = 0; q < drawn; q++) write_quantizer(&r, places, q, figure);
        nib_figure_end(figure);
        status = nib_figure_write(figure, prefix, error);
    }
    free(places);
    return status;
}
