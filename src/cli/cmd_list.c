/* nibble list: every format that is built in. */
#include <string.h>

#include "base/error.h"
#include "cli/formats.h"
#include "cli/output.h"
#include "format/axes.h"
#include "format/embedded.h"
#include "format/registry.h"
#include "format/yaml.h"
#include "job/job.h"

enum { KIND, NAME, VERIFIED, TITLE, COLUMNS };
static const struct nib_column columns[COLUMNS] = {
    [KIND] = {"kind", "kind", "", "kind of format", NIB_COLUMN_TEXT, 0},
    [NAME] = {"name", "name", "", "name to give to other commands", NIB_COLUMN_TEXT, 0},
    [VERIFIED] = {"verified", "verified", "",
                  "of quantizers: whether outputs of the real implementation are reproduced", NIB_COLUMN_TEXT, 0},
    [TITLE] = {"title", "title", "", "what it is", NIB_COLUMN_TEXT, 0},
};

static enum nib_status add(struct nib_table *table, const char *kind, const char *name, const char *verified,
                           const char *title, struct nib_error *error) {
    size_t row = nib_table_row(table);
    if (row == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "out of memory");
    nib_table_set_text(table, row, KIND, kind);
    nib_table_set_text(table, row, NAME, name);
    nib_table_set_text(table, row, VERIFIED, verified);
    nib_table_set_text(table, row, TITLE, title);
    return NIB_OK;
}

/* Only the title is wanted, so the file is not opened as what it is. */
static enum nib_status add_built_in(struct nib_table *table, const struct nib_embedded *format,
                                    struct nib_error *error) {
    struct nib_yaml *document;
    enum nib_status status = nib_yaml_parse(format->text, format->length, format->name, &document, error);
    if (status != NIB_OK) return status;
    const struct nib_yaml_node *node = nib_yaml_get(nib_yaml_root(document), "title");
    const char *title = node != NULL ? nib_yaml_scalar(node) : NULL;
    node = strcmp(format->kind, "quantizers") == 0 ? nib_yaml_get(nib_yaml_root(document), "verified") : NULL;
    const char *mark = node == NULL ? "" : strcmp(nib_yaml_scalar(node), "true") == 0 ? "yes" : "no";
    status = add(table, format->kind, format->name, mark, title != NULL ? title : "", error);
    nib_yaml_free(document);
    return status;
}

static enum nib_status fill_formats(struct nib_table *table, const char *kind, struct nib_error *error) {
    enum nib_status status = NIB_OK;
    for (size_t i = 0; i < nib_embedded_count && status == NIB_OK; i++)
        if (kind == NULL || strcmp(nib_embedded_formats[i].kind, kind) == 0)
            status = add_built_in(table, &nib_embedded_formats[i], error);
    return status;
}

static enum nib_status fill_axes(struct nib_table *table, struct nib_error *error) {
    enum nib_status status = NIB_OK;
    for (size_t i = 0; i < nib_axis_count && status == NIB_OK; i++)
        status = add(table, "axes", nib_axis_table[i].name, "", nib_axis_table[i].what, error);
    return status;
}

static enum nib_status fill_jobs(struct nib_table *table, struct nib_error *error) {
    struct nib_job job;
    enum nib_status status = NIB_OK;
    for (size_t i = 0; nib_job_at(i, &job) && status == NIB_OK; i++)
        status = add(table, "jobs", job.name, "", job.summary, error);
    return status;
}

static enum nib_status refuse(const char *word, struct nib_error *error) {
    char known[256] = "";
    for (size_t i = 0; nib_registry_kind(i) != NULL; i++) {
        strncat(known, nib_registry_kind(i), sizeof known - strlen(known) - 1);
        strncat(known, ", ", sizeof known - strlen(known) - 1);
    }
    return nib_fail(error, NIB_EINVAL, "unknown kind \"%s\"; expected one of: %saxes, jobs", word, known);
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    const char *word = call->value_count > 0 ? call->values[0] : NULL,
               *kind = word == NULL ? NULL : nib_format_kind(word);
    bool axes = word != NULL && strcmp(word, "axes") == 0, jobs = word != NULL && strcmp(word, "jobs") == 0;
    if (word != NULL && kind == NULL && !axes && !jobs) return refuse(word, error);
    struct nib_table *table;
    enum nib_status status = nib_table_new("formats", columns, COLUMNS, &table, error);
    if (status != NIB_OK) return status;
    bool hidden[COLUMNS] = {[KIND] = true, [VERIFIED] = kind == NULL || strcmp(kind, "quantizers") != 0};
    struct nib_layout layout = {.grouped = word == NULL, .group = KIND, .hidden = word == NULL ? NULL : hidden};
    status = axes ? fill_axes(table, error) : jobs ? fill_jobs(table, error) : fill_formats(table, kind, error);
    if (status == NIB_OK) status = nib_output_table(call, table, &layout, error);
    nib_table_free(table);
    return status;
}

static const struct nib_example examples[] = {
    {"nibble list", "everything"},
    {"nibble list quantizers", "the quantizers"},
    {"nibble list axes", "the arithmetic choices in which quantizers differ"},
    {NULL, NULL},
};

NIB_COMMAND(list) = {
    .values = "[KIND]",
    .most = 1,
    .description =
        "Names the built-in formats, each with its title. KIND is elements, scales, blocks, quantizers, "
        "rotations, recipes, units, ..., or axes for the choices that --set takes. A format file of your own needs no "
        "listing: give its path wherever a name is asked for.",
    .takes = NIB_TAKES_JSON,
    .examples = examples,
    .run = run,
};
