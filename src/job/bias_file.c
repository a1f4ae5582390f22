#include "job/bias_file.h"

#include "base/axis.h"
#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One group being written; the first failure stops everything after it. */
struct writer {
    const struct nib_bias_result *bias;
    struct nib_result *file;
    struct nib_error *error;
    enum nib_status status;
    size_t views, quantizers, rotations;
    const char **texts;  /* scratch: one per view, quantizer or rotation */
    int64_t *integers;   /* scratch: one per view, quantizer, rotation and scale bin */
    double *reals;       /* the same */
};

static const char *const by_measurement[] = {"view", "quantizer", "rotation"};

static void put(struct writer *w, const char *group, const char *name, const char *units, const char *long_name,
                enum nib_result_type type, unsigned rank, const void *data) {
    if (w->status != NIB_OK) return;
    struct nib_result_array array = {.group = group, .name = name, .units = units, .long_name = long_name, .type = type,
                                     .rank = rank, .data = data};
    for (unsigned i = 0; i < rank && i < 3; i++) array.scales[i] = by_measurement[i];
    if (rank == 4) array.scales[3] = strcmp(group, "levels") == 0 ? "code" : "scale_bin";
    w->status = nib_result_array(w->file, &array, w->error);
}

/* Texts of the views: what a coordinate along "view" holds. */
typedef const char *text_of(const struct nib_bias_view *view);
static const char *tensor_text(const struct nib_bias_view *view) { return view->tensor; }
static const char *module_text(const struct nib_bias_view *view) { return view->module; }
static const char *file_text(const struct nib_bias_view *view) { return view->file; }
static const char *axis_text(const struct nib_bias_view *view) { return nib_axis_names[view->axis]; }
static const char *gemm_text(const struct nib_bias_view *view) {
    return view->gemm == NIB_GEMM_NONE ? "" : nib_gemm_names[view->gemm];
}
static const char *operand_text(const struct nib_bias_view *view) {
    return view->operand == NIB_OPERAND_NONE ? "" : nib_operand_names[view->operand];
}

static void put_texts(struct writer *w, const char *group, const char *name, const char *long_name, text_of *text) {
    for (size_t v = 0; v < w->views; v++) w->texts[v] = text(nib_bias_view_at(w->bias, v));
    put(w, group, name, NULL, long_name, NIB_RESULT_TEXT, 1, w->texts);
}

static void put_integers(struct writer *w, const char *group, const char *name, const char *long_name, int which) {
    for (size_t v = 0; v < w->views; v++) {
        const struct nib_bias_view *view = nib_bias_view_at(w->bias, v);
        w->integers[v] = which == 0 ? view->layer : which == 1 ? (int64_t)view->rows : (int64_t)view->cols;
    }
    put(w, group, name, "1", long_name, NIB_RESULT_I64, 1, w->integers);
}

/* The dimension scales of a group, and what is known of each view. */
static void begin_group(struct writer *w, const char *group) {
    char(*labels)[400] = nib_alloc(w->views, sizeof *labels, "labels", w->error);
    if (labels == NULL) {
        w->status = NIB_ENOMEM;
        return;
    }
    for (size_t v = 0; v < w->views; v++) {
        nib_bias_label_of(nib_bias_view_at(w->bias, v), labels[v], sizeof labels[v]);
        w->texts[v] = labels[v];
    }
    if (w->status == NIB_OK)
        w->status =
            nib_result_text_scale(w->file, group, "view", "tensor and axis of reduction", w->texts, w->views, w->error);
    for (size_t q = 0; q < w->quantizers; q++) w->texts[q] = nib_bias_quantizer_name(w->bias, q);
    if (w->status == NIB_OK)
        w->status = nib_result_text_scale(w->file, group, "quantizer", "quantizer", w->texts, w->quantizers, w->error);
    for (size_t r = 0; r < w->rotations; r++) w->texts[r] = nib_bias_rotation_name(w->bias, r);
    if (w->status == NIB_OK)
        w->status = nib_result_text_scale(w->file, group, "rotation", "rotation before the quantizer", w->texts,
                                          w->rotations, w->error);
    free(labels);
    put_texts(w, group, "tensor", "name of the tensor", tensor_text);
    put_texts(w, group, "module", "linear layer within its transformer layer", module_text);
    put_texts(w, group, "gemm", "fprop, dgrad or wgrad", gemm_text);
    put_texts(w, group, "operand", "x, w or dy", operand_text);
    put_texts(w, group, "axis", "axis of reduction: cols or rows", axis_text);
    put_texts(w, group, "file", "file of the tensor", file_text);
    put_integers(w, group, "layer", "layer, -1 where the name has none", 0);
    put_integers(w, group, "rows", "rows of the tensor", 1);
    put_integers(w, group, "cols", "columns of the tensor", 2);
}

static const struct nib_bias_entry *entry_at(const struct writer *w, size_t i) {
    size_t q = i / w->rotations % w->quantizers;
    return nib_bias_entry_at(w->bias, i / w->rotations / w->quantizers, i % w->rotations, q);
}

static const struct nib_estimate *estimates_of(const struct nib_bias_entry *entry, int which) {
    return which == 0 ? entry->estimate : which == 1 ? entry->by_rotation : entry->by_quantizer;
}

static void put_statistics(struct writer *w, const char *group, int which) {
    static const struct {
        const char *name, *error_name, *units, *long_name, *error_long_name;
    } rows[] = {
#define ROW(field, heading, units, digits, long_name)                                                                  \
    {#field, #field "_se", units, long_name, "standard error: " long_name},
        NIB_STATISTIC_LIST(ROW)
#undef ROW
    };
    size_t count = w->views * w->quantizers * w->rotations;
    for (size_t s = 0; s < NIB_STATISTICS; s++) {
        for (size_t i = 0; i < count; i++) w->reals[i] = estimates_of(entry_at(w, i), which)[s].value;
        put(w, group, rows[s].name, rows[s].units, rows[s].long_name, NIB_RESULT_F64, 3, w->reals);
        for (size_t i = 0; i < count; i++) w->reals[i] = estimates_of(entry_at(w, i), which)[s].error;
        put(w, group, rows[s].error_name, rows[s].units, rows[s].error_long_name, NIB_RESULT_F64, 3, w->reals);
    }
}

static void put_counts(struct writer *w) {
    size_t count = w->views * w->quantizers * w->rotations;
#define COUNT(field, name, long_name)                                                                       \
    do {                                                                                                    \
        for (size_t i = 0; i < count; i++) w->integers[i] = (int64_t)entry_at(w, i)->field;                 \
        put(w, "tensors", name, "1", long_name, NIB_RESULT_I64, 3, w->integers);                            \
    } while (0)
    COUNT(total.count, "count", "finite elements");
    COUNT(total.nan_count, "nan_count", "NaN elements");
    COUNT(total.inf_count, "inf_count", "infinite elements");
    COUNT(total.zero_scale_count, "zero_scale_count", "finite elements in blocks with decode scale 0");
    COUNT(total.bad_scale_count, "bad_scale_count", "finite elements in blocks with a decode scale that is not finite");
    COUNT(batches, "batches", "batches behind the standard errors");
#undef COUNT
}

static void put_levels(struct writer *w) {
    begin_group(w, "levels");
    if (w->status == NIB_OK)
        w->status = nib_result_index_scale(w->file, "levels", "code", "4-bit code", NIB_CODES, w->error);
    size_t count = w->views * w->quantizers * w->rotations;
    for (size_t i = 0; i < count * NIB_CODES; i++)
        w->integers[i] = (int64_t)entry_at(w, i / NIB_CODES)->level[i % NIB_CODES].count;
    put(w, "levels", "count", "1", "elements that were given this code", NIB_RESULT_I64, 4, w->integers);
#define REAL(field, name, long_name)                                                                        \
    do {                                                                                                    \
        for (size_t i = 0; i < count * NIB_CODES; i++)                                                      \
            w->reals[i] = entry_at(w, i / NIB_CODES)->level[i % NIB_CODES].field;                           \
        put(w, "levels", name, "1", long_name, NIB_RESULT_F64, 4, w->reals);                                \
    } while (0)
    REAL(share.value, "share", "share of the elements that have a level");
    REAL(share.error, "share_se", "standard error: share of the elements that have a level");
    REAL(error.value, "error", "mean of rho(t) - t, t = |x|/s");
    REAL(error.error, "error_se", "standard error: mean of rho(t) - t");
#undef REAL
    for (size_t i = 0; i < w->quantizers * NIB_CODES; i++)
        w->reals[i] = (double)nib_bias_element(w->bias, i / NIB_CODES)->level[i % NIB_CODES];
    struct nib_result_array level = {"levels", "level", "1", "value of the code in units of the decode scale",
                                     NIB_RESULT_F64, 2, {"quantizer", "code"}, w->reals};
    if (w->status == NIB_OK) w->status = nib_result_array(w->file, &level, w->error);
}

static void put_scales(struct writer *w) {
    begin_group(w, "scales");
    if (w->status == NIB_OK)
        w->status =
            nib_result_index_scale(w->file, "scales", "scale_bin",
                                   "code of an 8-bit scale, exponent field of a wider one", NIB_SCALE_BINS, w->error);
    for (size_t i = 0; i < w->views * w->quantizers * w->rotations * NIB_SCALE_BINS; i++)
        w->integers[i] = (int64_t)entry_at(w, i / NIB_SCALE_BINS)->scale_count[i % NIB_SCALE_BINS];
    put(w, "scales", "blocks", "1", "blocks by decode scale", NIB_RESULT_I64, 4, w->integers);
}

enum nib_status nib_bias_store(const struct nib_bias_result *bias, struct nib_result *file, struct nib_error *error) {
    struct writer w = {.bias = bias, .file = file, .error = error, .views = nib_bias_views(bias),
                       .quantizers = nib_bias_quantizers(bias), .rotations = nib_bias_rotations(bias)};
    size_t count = w.views * w.quantizers * w.rotations * NIB_SCALE_BINS;
    w.texts = nib_alloc(w.views + w.quantizers + w.rotations, sizeof *w.texts, "labels", error);
    w.integers = nib_alloc(count, sizeof *w.integers, "results", error);
    w.reals = nib_alloc(count, sizeof *w.reals, "results", error);
    struct nib_table *summary = NULL;
    w.status =
        w.texts == NULL || w.integers == NULL || w.reals == NULL ? NIB_ENOMEM : nib_bias_summary(bias, &summary, error);
    if (w.status == NIB_OK) w.status = nib_result_table(file, "summary", summary, error);
    if (w.status == NIB_OK) {
        begin_group(&w, "tensors");
        put_statistics(&w, "tensors", 0);
        put_counts(&w);
    }
    if (w.status == NIB_OK && w.rotations > 1) {
        begin_group(&w, "by_rotation");
        put_statistics(&w, "by_rotation", 1);
    }
    if (w.status == NIB_OK && w.quantizers > 1) {
        begin_group(&w, "by_quantizer");
        put_statistics(&w, "by_quantizer", 2);
    }
    if (w.status == NIB_OK) put_levels(&w);
    if (w.status == NIB_OK) put_scales(&w);
    nib_table_free(summary);
    free(w.reals);
    free(w.integers);
    free(w.texts);
    return w.status;
}
