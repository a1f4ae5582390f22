/* The measures of a stack as tables and as a result file. */
#include "job/stack.h"

#include "base/error.h"
#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *operand_name(int slot) {
    static const char *const names[NIB_SLOTS] = {"x", "w", "dy", "w", "dy", "x"};
    return slot < 0 ? "" : names[slot];
}

void nib_stack_row(struct nib_table *table, size_t row, size_t at, const struct nib_depth_record *r) {
    struct nib_quantizer_info info = {.name = ""};
    if (r->quantizer != NULL) nib_quantizer_describe(r->quantizer, &info);
    nib_table_set_text(table, row, at + NIB_STACK_PART, nib_depth_part_name(r->part));
    nib_table_set_integer(table, row, at + NIB_STACK_LAYER, r->layer);
    nib_table_set_text(table, row, at + NIB_STACK_MODULE, r->module);
    nib_table_set_text(table, row, at + NIB_STACK_PASS, r->pass < 0 ? "" : nib_pass_name((enum nib_pass)r->pass));
    nib_table_set_text(table, row, at + NIB_STACK_OPERAND, operand_name(r->slot));
    nib_table_set_text(table, row, at + NIB_STACK_QUANTIZER, info.name);
    for (size_t q = 0; q < NIB_DEPTH_QUANTITIES; q++) {
        nib_table_set_real(table, row, at + NIB_STACK_FIRST + 2 * q, r->value[q].value);
        nib_table_set_real(table, row, at + NIB_STACK_FIRST + 2 * q + 1, r->value[q].error);
    }
}

static const struct nib_column columns[] = {{"case", "recipe", "", "recipe", NIB_COLUMN_TEXT, 0}, NIB_STACK_COLUMNS};

static enum nib_status table_of(const struct nib_stack_report *report, const struct nib_recipe *const *recipes,
                                const char *name, const bool wanted[NIB_DEPTH_PARTS], struct nib_table **out,
                                struct nib_error *error) {
    struct nib_table *table = NULL;
    enum nib_status status = nib_table_new(name, columns, sizeof columns / sizeof *columns, &table, error);
    if (status != NIB_OK) return status;
    for (size_t i = 0; i < report->recipes; i++)
        for (size_t k = 0; k < report->records; k++) {
            const struct nib_depth_record *record = nib_stack_record(report, i, k);
            if (!wanted[record->part]) continue;
            size_t row = nib_table_row(table);
            if (row == SIZE_MAX) {
                nib_table_free(table);
                return nib_fail(error, NIB_ENOMEM, "result table: out of memory");
            }
            nib_table_set_text(table, row, 0, nib_recipe_name(recipes[i]));
            nib_stack_row(table, row, 1, record);
        }
    *out = table;
    return NIB_OK;
}

enum nib_status nib_stack_table(const struct nib_stack_report *report, const struct nib_recipe *const *recipes,
                                enum nib_depth_part part, struct nib_table **out, struct nib_error *error) {
    bool wanted[NIB_DEPTH_PARTS];
    for (int i = 0; i < NIB_DEPTH_PARTS; i++) wanted[i] = part == NIB_DEPTH_PARTS || i == (int)part;
    return table_of(report, recipes, part == NIB_DEPTH_PARTS ? "stack" : nib_depth_part_name(part), wanted, out, error);
}

enum nib_status nib_stack_table_of_parts(const struct nib_stack_report *report, const struct nib_recipe *const *recipes,
                                         const bool wanted[NIB_DEPTH_PARTS], struct nib_table **out,
                                         struct nib_error *error) {
    return table_of(report, recipes, "stack", wanted, out, error);
}

struct writer {
    const struct nib_stack_report *report;
    const struct nib_recipe *const *recipes;
    struct nib_result *file;
    struct nib_error *error;
    enum nib_status status;
};

static void texts(struct writer *w, const char *group, const char *scale, const char *long_name,
                  const char *const *values, size_t count) {
    if (w->status == NIB_OK)
        w->status = nib_result_text_scale(w->file, group, scale, long_name, values, count, w->error);
}

static void layers(struct writer *w, const char *group, const char *scale, const char *long_name, size_t count) {
    if (w->status == NIB_OK) w->status = nib_result_index_scale(w->file, group, scale, long_name, count, w->error);
}

static void recipes(struct writer *w, const char *group) {
    const char **names = nib_alloc(w->report->recipes, sizeof *names, "names of recipes", w->error);
    if (names == NULL) w->status = NIB_ENOMEM;
    for (size_t i = 0; names != NULL && i < w->report->recipes; i++) names[i] = nib_recipe_name(w->recipes[i]);
    texts(w, group, "recipe", "recipe", names, w->report->recipes);
    free(names);
}

/* Every quantity that a part has anywhere, over recipe and up to three scales that its records run over, the first one
 * slowest. `from` and `count`: records of the part within a recipe. */
static void arrays(struct writer *w, const char *group, size_t from, size_t count, const char *const scales[4]) {
    static const struct nib_column named[] = {NIB_DEPTH_LIST(NIB_STACK_COLUMN)};
    const struct nib_stack_report *report = w->report;
    double *value = nib_alloc(report->recipes * count, sizeof *value, "results", w->error);
    if (value == NULL) w->status = NIB_ENOMEM;
    for (size_t c = 0; w->status == NIB_OK && c < 2 * NIB_DEPTH_QUANTITIES; c++) {
        bool any = false;
        for (size_t i = 0; i < report->recipes; i++)
            for (size_t k = 0; k < count; k++) {
                const struct nib_estimate *e = &nib_stack_record(report, i, from + k)->value[c / 2];
                value[i * count + k] = c % 2 == 0 ? e->value : e->error;
                any = any || isfinite(value[i * count + k]);
            }
        if (!any) continue;
        struct nib_result_array array = {.group = group, .name = named[c].name, .units = named[c].units,
                                         .long_name = named[c].long_name, .type = NIB_RESULT_F64, .data = value};
        while (array.rank < 4 && scales[array.rank] != NULL) {
            array.scales[array.rank] = scales[array.rank];
            array.rank++;
        }
        w->status = nib_result_array(w->file, &array, w->error);
    }
    free(value);
}

static size_t first_of(const struct nib_stack_report *report, enum nib_depth_part part, size_t *count) {
    size_t first = 0;
    while (first < report->records && report->record[first].part < part) first++;
    *count = 0;
    while (first + *count < report->records && report->record[first + *count].part == part) ++*count;
    return first;
}

static void modules(struct writer *w, const char *group) {
    const char *names[NIB_MODULES];
    for (int i = 0; i < NIB_MODULES; i++) names[i] = nib_module_name((enum nib_module)i);
    recipes(w, group);
    layers(w, group, "layer", "layer, from 0", w->report->layers);
    texts(w, group, "module", "linear layer within its layer", names, NIB_MODULES);
}

static void put_operands(struct writer *w) {
    const char *names[NIB_SLOTS];
    size_t count, from = first_of(w->report, NIB_DEPTH_OPERAND, &count);
    for (int i = 0; i < NIB_SLOTS; i++) names[i] = nib_slot_name((enum nib_slot)i);
    modules(w, "operands");
    texts(w, "operands", "operand", "operand of a GEMM", names, w->report->backward ? NIB_SLOTS : 2);
    arrays(w, "operands", from, count, (const char *const[4]){"recipe", "layer", "module", "operand"});
}

static void put_products(struct writer *w) {
    const char *names[NIB_PASSES];
    size_t count, from = first_of(w->report, NIB_DEPTH_PRODUCT, &count);
    for (int i = 0; i < NIB_PASSES; i++) names[i] = nib_pass_name((enum nib_pass)i);
    modules(w, "products");
    texts(w, "products", "gemm", "GEMM", names, w->report->backward ? NIB_PASSES : 1);
    arrays(w, "products", from, count, (const char *const[4]){"recipe", "layer", "module", "gemm"});
}

/* Upwards after 1 to L layers; downwards from L to 0. */
static void put_streams(struct writer *w) {
    size_t count, from = first_of(w->report, NIB_DEPTH_STREAM, &count), up = w->report->layers, down = count - up;
    for (int way = 0; way < (down > 0 ? 2 : 1); way++) {
        const char *group = way == 0 ? "stream" : "stream_gradient";
        size_t length = way == 0 ? up : down;
        int64_t *passed = nib_alloc(length, sizeof *passed, "layers", w->error);
        if (passed == NULL) w->status = NIB_ENOMEM;
        recipes(w, group);
        for (size_t i = 0; passed != NULL && i < length; i++)
            passed[i] = w->report->record[from + (way == 0 ? 0 : up) + i].layer;
        if (w->status == NIB_OK)
            w->status =
                nib_result_integer_scale(w->file, group, "boundary", "1", "layers below it, 0 to all", passed, length, w->error);
        free(passed);
        arrays(w, group, from + (way == 0 ? 0 : up), length, (const char *const[4]){"recipe", "boundary"});
    }
}

static void put_weights(struct writer *w) {
    size_t count, from = first_of(w->report, NIB_DEPTH_WEIGHT, &count);
    if (count == 0) return;
    const char **names = nib_alloc(count, sizeof *names, "names of weights", w->error);
    if (names == NULL) w->status = NIB_ENOMEM;
    for (size_t i = 0; names != NULL && i < count; i++) names[i] = w->report->record[from + i].module;
    recipes(w, "weights");
    texts(w, "weights", "weight", "weight", names, count);
    free(names);
    arrays(w, "weights", from, count, (const char *const[4]){"recipe", "weight"});
}

enum nib_status nib_stack_store(const struct nib_stack_report *report, const struct nib_recipe *const *list,
                                struct nib_result *file, struct nib_error *error) {
    struct writer w = {report, list, file, error, NIB_OK};
    struct nib_table *table = NULL;
    w.status = nib_stack_table(report, list, NIB_DEPTH_SUMMARY, &table, error);
    if (w.status == NIB_OK) w.status = nib_result_table(file, "summary", table, error);
    nib_table_free(table);
    put_streams(&w);
    if (report->products) put_operands(&w);
    if (report->products) put_products(&w);
    put_weights(&w);
    return w.status;
}
