#include "experiment/store.h"

#include "base/error.h"
#include "base/memory.h"
#include "experiment/pack.h"
#include "experiment/run.h"
#include "io/entry.h"
#include <nibble/tensor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* Column of an axis in the results table, and of a measure. */
static size_t axis_column(size_t axis) { return 1 + axis; }
static size_t measure_column(const struct nib_experiment *e, size_t kept) { return 1 + e->axes + kept; }

static enum nib_column_type axis_type(const struct nib_parameter *parameter) {
    return parameter->type == NIB_PARAMETER_INTEGER ? NIB_COLUMN_INTEGER
           : parameter->type == NIB_PARAMETER_REAL  ? NIB_COLUMN_REAL
                                                    : NIB_COLUMN_TEXT;
}

struct place {
    const struct nib_experiment *experiment;
    size_t point;
};

static void set_axes(void *context, struct nib_table *table, size_t row) {
    const struct place *place = context;
    const struct nib_experiment *e = place->experiment;
    nib_table_set_integer(table, row, 0, (int64_t)place->point);
    for (size_t i = 0; i < e->axes; i++) {
        const struct nib_argument *value = &e->axis[i].values[nib_experiment_place(e, place->point, i)];
        switch (nib_table_column(table, axis_column(i))->type) {
        case NIB_COLUMN_INTEGER: nib_table_set_integer(table, row, axis_column(i), value->integer); break;
        case NIB_COLUMN_REAL: nib_table_set_real(table, row, axis_column(i), value->real); break;
        case NIB_COLUMN_TEXT: nib_table_set_text(table, row, axis_column(i), value->text); break;
        }
    }
}

enum nib_status nib_run_table(const struct nib_experiment *e, const struct nib_run_result *result,
                              struct nib_table **out, struct nib_error *error) {
    struct nib_column columns[1 + NIB_EXPERIMENT_AXES + NIB_EXPERIMENT_COLUMNS] = {
        {"point", "point", "1", "number of the point", NIB_COLUMN_INTEGER, 0}};
    for (size_t i = 0; i < e->axes; i++) {
        const struct nib_parameter *p = &e->job.parameters[e->axis[i].parameter];
        enum nib_column_type type = axis_type(p);
        columns[axis_column(i)] =
            (struct nib_column){p->name, p->name, type == NIB_COLUMN_TEXT ? "" : "1", p->help, type, -6};
    }
    for (size_t i = 0; i < e->kept; i++) columns[measure_column(e, i)] = e->job.columns[e->keep[i]];
    struct nib_table *table = NULL;
    enum nib_status status = nib_table_new("points", columns, measure_column(e, e->kept), &table, error);
    for (size_t point = 0; status == NIB_OK && point < e->points; point++) {
        struct place place = {e, point};
        if (result->bytes[point] == NULL) continue; /* of another shard */
        status =
            nib_unpack(result->bytes[point], result->size[point], table, measure_column(e, 0), set_axes, &place, error);
    }
    if (status == NIB_OK)
        *out = table;
    else
        nib_table_free(table);
    return status;
}

static bool is_exact(const struct nib_experiment *e, const char *column) {
    for (size_t i = 0; e->job.inexact != NULL && e->job.inexact[i] != NULL; i++)
        if (strcmp(e->job.inexact[i], column) == 0) return false;
    return true;
}

static void add_digest(struct nib_table *table, const char *name, bool exact, XXH128_hash_t hash) {
    char text[33];
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, hash);
    for (size_t i = 0; i < 16; i++) sprintf(text + 2 * i, "%02x", canonical.digest[i]);
    size_t row = nib_table_row(table);
    if (row == SIZE_MAX) return;
    nib_table_set_text(table, row, NIB_DIGEST_DATASET, name);
    nib_table_set_text(table, row, NIB_DIGEST_EXACT, exact ? "yes" : "no");
    nib_table_set_text(table, row, NIB_DIGEST_XXH3, text);
}

enum nib_status nib_result_digests(const struct nib_experiment *e, const struct nib_table *results,
                                   struct nib_table **out, struct nib_error *error) {
    static const struct nib_column columns[] = {
        {"dataset", "dataset", "", "dataset of this file", NIB_COLUMN_TEXT, 0},
        {"exact", "exact", "", "whether the bits are the same on every machine", NIB_COLUMN_TEXT, 0},
        {"xxh3_128", "XXH3-128", "", "XXH3-128 of the cells: 8 little-endian bytes, or length (4 bytes) and letters",
         NIB_COLUMN_TEXT, 0}};
    struct nib_table *table = NULL;
    XXH3_state_t *all = XXH3_createState();
    if (all == NULL) return nib_fail(error, NIB_ENOMEM, "digests: out of memory");
    XXH3_128bits_reset(all);
    enum nib_status status = nib_table_new("digests", columns, 3, &table, error);
    for (size_t i = 0; status == NIB_OK && i < nib_table_columns(results); i++) {
        uint8_t *bytes = NULL;
        size_t size = 0;
        char name[96];
        const char *column = nib_table_column(results, i)->name;
        status = nib_pack(results, &i, 1, &bytes, &size, error);
        if (status != NIB_OK) break;
        snprintf(name, sizeof name, "points/%s", column);
        XXH3_128bits_update(all, name, strlen(name) + 1);
        XXH3_128bits_update(all, bytes, size);
        add_digest(table, name, i < measure_column(e, 0) || is_exact(e, column), XXH3_128bits(bytes + 8, size - 8));
        free(bytes);
    }
    if (status == NIB_OK) add_digest(table, "all", false, XXH3_128bits_digest(all));
    if (status == NIB_OK && nib_table_rows(table) != nib_table_columns(results) + 1)
        status = nib_fail(error, NIB_ENOMEM, "digests: out of memory");
    XXH3_freeState(all);
    if (status == NIB_OK)
        *out = table;
    else
        nib_table_free(table);
    return status;
}

static enum nib_status store_axis(const struct nib_experiment *e, size_t axis, struct nib_result *file,
                                  struct nib_error *error) {
    const struct nib_experiment_axis *a = &e->axis[axis];
    const struct nib_parameter *p = &e->job.parameters[a->parameter];
    const char **texts = nib_alloc(a->count, sizeof *texts, "an axis", error);
    int64_t *integers = nib_alloc(a->count, sizeof *integers, "an axis", error);
    double *reals = nib_alloc(a->count, sizeof *reals, "an axis", error);
    enum nib_status status = texts == NULL || integers == NULL || reals == NULL ? NIB_ENOMEM : NIB_OK;
    for (size_t i = 0; status == NIB_OK && i < a->count; i++) {
        texts[i] = a->values[i].text;
        integers[i] = a->values[i].integer;
        reals[i] = a->values[i].real;
    }
    if (status == NIB_OK) switch (axis_type(p)) {
        case NIB_COLUMN_INTEGER:
            status = nib_result_integer_scale(file, "grid", p->name, "1", p->help, integers, a->count, error);
            break;
        case NIB_COLUMN_REAL:
            status = nib_result_real_scale(file, "grid", p->name, "1", p->help, reals, a->count, error);
            break;
        case NIB_COLUMN_TEXT:
            status = nib_result_text_scale(file, "grid", p->name, p->help, texts, a->count, error);
            break;
        }
    free(reals);
    free(integers);
    free(texts);
    return status;
}

static enum nib_status store_measure(const struct nib_experiment *e, const struct nib_table *results, size_t kept,
                                     struct nib_result *file, struct nib_error *error) {
    const struct nib_column *column = &e->job.columns[e->keep[kept]];
    size_t place = measure_column(e, kept);
    void *data = nib_alloc(e->points, 8, "a dataset", error);
    if (data == NULL) return NIB_ENOMEM;
    struct nib_result_array array = {.group = "grid",
                                     .name = column->name,
                                     .units = column->type == NIB_COLUMN_TEXT ? NULL : column->units,
                                     .long_name = column->long_name,
                                     .rank = (unsigned)e->axes,
                                     .data = data};
    for (size_t i = 0; i < e->axes; i++) array.scales[i] = e->job.parameters[e->axis[i].parameter].name;
    for (size_t i = 0; i < e->points; i++) switch (column->type) {
        case NIB_COLUMN_INTEGER: ((int64_t *)data)[i] = nib_table_integer(results, i, place); break;
        case NIB_COLUMN_REAL: ((double *)data)[i] = nib_table_real(results, i, place); break;
        case NIB_COLUMN_TEXT: ((const char **)data)[i] = nib_table_text(results, i, place); break;
        }
    array.type = column->type == NIB_COLUMN_INTEGER ? NIB_RESULT_I64
                 : column->type == NIB_COLUMN_REAL  ? NIB_RESULT_F64
                                                    : NIB_RESULT_TEXT;
    enum nib_status status = nib_result_array(file, &array, error);
    free(data);
    return status;
}

static bool one_row_each(const struct nib_experiment *e, const struct nib_table *results) {
    if (nib_table_rows(results) != e->points) return false;
    for (size_t i = 0; i < e->points; i++)
        if (nib_table_integer(results, i, 0) != (int64_t)i) return false;
    return true;
}

static enum nib_status store_texts(const struct nib_experiment *e, struct nib_result *file, struct nib_error *error) {
    char *folder = realpath(e->folder[0] == '\0' ? "." : e->folder, NULL);
    char *settings_folder = realpath(e->settings_folder[0] == '\0' ? "." : e->settings_folder, NULL);
    const struct {
        const char *group, *name, *value;
    } texts[] = {{"", "job", e->job.name},
                 {"provenance", "experiment_file", e->label},
                 {"provenance", "experiment_folder", folder == NULL ? e->folder : folder},
                 {"provenance", "experiment_identity", e->identity},
                 {"provenance", "experiment_settings", e->settings},
                 {"provenance", "working_folder", settings_folder == NULL ? e->settings_folder : settings_folder},
                 {"provenance", "experiment", e->text}};
    enum nib_status status = NIB_OK;
    for (size_t i = 0; status == NIB_OK && i < sizeof texts / sizeof *texts; i++)
        status = nib_result_text_attribute(file, texts[i].group, NULL, texts[i].name, texts[i].value, error);
    free(settings_folder);
    free(folder);
    return status;
}

enum nib_status nib_experiment_store(const struct nib_experiment *e, const struct nib_table *results,
                                     const struct nib_table *digests, struct nib_result *file,
                                     struct nib_error *error) {
    enum nib_status status = nib_result_table(file, "points", results, error);
    if (status == NIB_OK) status = nib_result_integer_attribute(file, "points", NULL, "axes", (int64_t)e->axes, error);
    if (status == NIB_OK && e->axes > 0 && one_row_each(e, results)) {
        for (size_t i = 0; status == NIB_OK && i < e->axes; i++) status = store_axis(e, i, file, error);
        for (size_t i = 0; status == NIB_OK && i < e->kept; i++) status = store_measure(e, results, i, file, error);
    }
    if (status == NIB_OK) status = nib_result_table(file, "provenance/digests", digests, error);
    if (status == NIB_OK) status = store_texts(e, file, error);
    return status;
}

static enum nib_status take_pairs(const struct nib_file *file, const char *prefix, struct nib_table *table,
                                  struct nib_error *error) {
    size_t length = strlen(prefix);
    for (size_t i = 0; i + 1 < file->metadata_count; i += 2) {
        if (strncmp(file->metadata[i], prefix, length) != 0) continue;
        size_t row = nib_table_row(table);
        if (row == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "provenance: out of memory");
        nib_table_set_text(table, row, 0, file->metadata[i] + length);
        nib_table_set_text(table, row, 1, file->metadata[i + 1]);
    }
    return NIB_OK;
}

static char *copy_of(const struct nib_file *file, const char *key) {
    const char *value = nib_file_metadata(file, key);
    return strdup(value == NULL ? "" : value);
}

enum nib_status nib_experiment_read(const char *path, struct nib_stored_experiment *out, struct nib_error *error) {
    static const struct nib_column columns[] = {{"name", "name", "", "name", NIB_COLUMN_TEXT, 0},
                                                {"digest", "digest", "", "digest", NIB_COLUMN_TEXT, 0}};
    struct nib_file *file = NULL;
    struct nib_stored_experiment stored = {.identity = ""};
    enum nib_status status = nib_file_open(path, &file, error);
    if (status != NIB_OK) return status;
    if (strcmp(file->kind, "hdf5") != 0)
        status = nib_fail_at(error, NIB_ESYNTAX, path, 0, "is not a result file of nibble (it is %s)", file->kind);
    if (status == NIB_OK) status = nib_table_new("digests", columns, 2, &stored.digests, error);
    if (status == NIB_OK) status = nib_table_new("inputs", columns, 2, &stored.inputs, error);
    if (status == NIB_OK) status = nib_table_new("formats", columns, 2, &stored.formats, error);
    if (status == NIB_OK) status = take_pairs(file, "provenance/digests/", stored.digests, error);
    if (status == NIB_OK) status = take_pairs(file, "provenance/inputs/", stored.inputs, error);
    if (status == NIB_OK) status = take_pairs(file, "provenance/formats/", stored.formats, error);
    if (status == NIB_OK) {
        const char *identity = nib_file_metadata(file, "provenance/experiment_identity");
        snprintf(stored.identity, sizeof stored.identity, "%s", identity == NULL ? "" : identity);
        stored.text = copy_of(file, "provenance/experiment");
        stored.settings = copy_of(file, "provenance/experiment_settings");
        stored.folder = copy_of(file, "provenance/experiment_folder");
        stored.working_folder = copy_of(file, "provenance/working_folder");
        stored.command_line = copy_of(file, "provenance/command_line");
        if (stored.text == NULL || stored.settings == NULL || stored.folder == NULL || stored.command_line == NULL ||
            stored.working_folder == NULL)
            status = nib_fail(error, NIB_ENOMEM, "provenance: out of memory");
    }
    nib_file_close(file);
    if (status == NIB_OK)
        *out = stored;
    else
        nib_stored_experiment_free(&stored);
    return status;
}

void nib_stored_experiment_free(struct nib_stored_experiment *stored) {
    free(stored->text);
    free(stored->settings);
    free(stored->folder);
    free(stored->command_line);
    free(stored->working_folder);
    nib_table_free(stored->digests);
    nib_table_free(stored->inputs);
    nib_table_free(stored->formats);
    *stored = (struct nib_stored_experiment){.identity = ""};
}
