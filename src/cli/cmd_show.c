/* nibble show: one format, as the file that describes it and as what follows from it. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "cli/formats.h"
#include "cli/output.h"
#include "cli/show.h"
#include "format/axes.h"
#include "format/registry.h"
#include "io/json_out.h"
#include <nibble/quantizer.h>

static const char *const modes[] = {"rne", "rna", "rnz", "rtz", NULL};

struct arguments {
    int mode;
};
static const struct arguments defaults = {.mode = NIB_RNE};
static const struct nib_option options[] = {NIB_OPT_CHOICE(struct arguments, mode, "mode", 'm', "MODE", modes,
                                                           "rounding mode of the bins of an element format"),
                                            NIB_OPT_END};

void nib_show_fact(struct nib_shown *shown, const char *name, const char *format, ...) {
    if (shown->fact_count == NIB_SHOW_FACTS) return;
    struct nib_show_fact *fact = &shown->fact[shown->fact_count++];
    va_list arguments;
    va_start(arguments, format);
    fact->name = name;
    vsnprintf(fact->value, sizeof fact->value, format, arguments);
    va_end(arguments);
}

enum nib_status nib_show_keep(struct nib_shown *shown, const char *text, struct nib_error *error) {
    shown->text = strdup(text);
    return shown->text != NULL ? NIB_OK : nib_fail(error, NIB_ENOMEM, "out of memory");
}

static enum nib_status show_block(const struct nib_format_name *place, struct nib_shown *shown,
                                  struct nib_error *error) {
    const struct nib_block *b;
    enum nib_status status = nib_block_open(place->name, &b, error);
    if (status != NIB_OK) return status;
    nib_show_fact(shown, "bits_per_value", "%.9g", (double)b->bits_per_value);
    nib_show_fact(shown, "largest_level", "%.9g", (double)b->element->max_magnitude);
    nib_show_fact(shown, "largest_block_scale", "%.9g", (double)b->scale->max_value);
    status = nib_show_keep(shown, b->text, error);
    nib_block_close(b);
    return status;
}

/* The resolved file: what its base and the defaults leave unsaid is written out. */
static enum nib_status show_quantizer(const struct nib_format_name *place, struct nib_shown *shown,
                                      struct nib_error *error) {
    static const struct nib_column columns[] = {
        {"axis", "axis", "", "arithmetic choice", NIB_COLUMN_TEXT, 0},
        {"value", "value", "", "what this quantizer does", NIB_COLUMN_TEXT, 0},
        {"meaning", "meaning", "", "in words", NIB_COLUMN_TEXT, 0},
    };
    const struct nib_quantizer *q;
    struct nib_quantizer_info info;
    enum nib_status status = nib_quantizer_open(place->name, &q, error);
    if (status != NIB_OK) return status;
    nib_quantizer_describe(q, &info);
    status = nib_show_keep(shown, info.text, error);
    if (status == NIB_OK) status = nib_table_new("axes", columns, 3, &shown->table, error);
    const char *axis, *value;
    for (size_t i = 0; status == NIB_OK && nib_quantizer_axis(q, i, &axis, &value); i++) {
        const struct nib_axis_info *known = &nib_axis_table[nib_axis_find(axis)];
        const char *meaning = known->what;
        for (size_t c = 0; c < known->count; c++)
            if (strcmp(known->choices[c].name, value) == 0) meaning = known->choices[c].what;
        size_t row = nib_table_row(shown->table);
        if (row == SIZE_MAX) {
            status = nib_fail(error, NIB_ENOMEM, "out of memory");
            break;
        }
        nib_table_set_text(shown->table, row, 0, axis);
        nib_table_set_text(shown->table, row, 1, value);
        nib_table_set_text(shown->table, row, 2, meaning);
    }
    nib_quantizer_close(q);
    return status;
}

/* Kinds that have nothing to add to their file. */
static enum nib_status show_file(const struct nib_format_name *place, struct nib_shown *shown,
                                 struct nib_error *error) {
    struct nib_registry_text source;
    enum nib_status status = nib_registry_read(place->kind, place->name, &source, error);
    if (status != NIB_OK) return status;
    shown->text = source.text;
    return NIB_OK;
}

static enum nib_status fill(const struct nib_call *call, const struct nib_format_name *place, struct nib_shown *shown,
                            struct nib_error *error) {
    const struct arguments *arguments = call->options;
    bool all = place->name[0] == '\0';
    if (strcmp(place->kind, "axes") == 0)
        return all ? nib_show_axes(shown, error) : nib_show_axis(place->name, shown, error);
    if (strcmp(place->kind, "jobs") == 0)
        return all ? nib_show_jobs(shown, error) : nib_show_job(place->name, shown, error);
    if (strcmp(place->kind, "elements") == 0)
        return nib_show_element(place->name, (enum nib_rounding)arguments->mode, shown, error);
    if (strcmp(place->kind, "scales") == 0) return nib_show_scale(place->name, shown, error);
    if (strcmp(place->kind, "blocks") == 0) return show_block(place, shown, error);
    if (strcmp(place->kind, "quantizers") == 0) return show_quantizer(place, shown, error);
    if (strcmp(place->kind, "recipes") == 0) return nib_show_recipe(place->name, shown, error);
    return show_file(place, shown, error);
}

/* What is not the file stands behind "# ", so that the output is the file again. */
static enum nib_status print_text(const struct nib_call *call, const struct nib_shown *shown, struct nib_error *error) {
    const char *comment = shown->text != NULL ? "# " : "";
    if (shown->text != NULL) fputs(shown->text, stdout);
    if (shown->text != NULL && (shown->fact_count > 0 || shown->table != NULL)) puts("#");
    for (size_t i = 0; i < shown->fact_count; i++)
        printf("%s%s: %s\n", comment, shown->fact[i].name, shown->fact[i].value);
    if (shown->table == NULL || nib_table_rows(shown->table) == 0) return NIB_OK;
    char *block = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&block, &size);
    if (stream == NULL) return nib_fail(error, NIB_ENOMEM, "out of memory");
    struct nib_layout layout = {.hidden = shown->hidden};
    nib_output_aligned(call, shown->table, &layout, stream);
    if (fclose(stream) != 0) return nib_fail(error, NIB_ENOMEM, "out of memory");
    for (char *line = block, *next; *line != '\0'; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        printf("%s%s\n", comment, line);
        if (next == NULL) break;
    }
    free(block);
    return NIB_OK;
}

/* A number as a number; a digest is none, even should it look like one. */
static void print_fact(struct nib_json *json, const struct nib_show_fact *fact) {
    double value;
    if (strlen(fact->value) < 32 && nib_number_double(fact->value, &value))
        nib_json_real(json, fact->name, value);
    else
        nib_json_text(json, fact->name, fact->value);
}

static enum nib_status print_json(const struct nib_call *call, const struct nib_format_name *place,
                                  const struct nib_shown *shown, struct nib_error *error) {
    struct nib_json *json;
    enum nib_status status = nib_output_json(call, &json, error);
    if (status != NIB_OK) return status;
    nib_json_text(json, "kind", place->kind);
    if (place->name[0] != '\0') nib_json_text(json, "name", place->name);
    for (size_t i = 0; i < shown->fact_count; i++) print_fact(json, &shown->fact[i]);
    if (shown->text != NULL) nib_json_text(json, "text", shown->text);
    if (shown->all != NULL || shown->table != NULL)
        nib_json_table(json, "rows", shown->all != NULL ? shown->all : shown->table);
    nib_json_end(json);
    return NIB_OK;
}

static enum nib_status print(const struct nib_call *call, const struct nib_format_name *place,
                             const struct nib_shown *shown, struct nib_error *error) {
    const struct nib_table *table = shown->all != NULL ? shown->all : shown->table;
    if (call->common.json) return print_json(call, place, shown, error);
    if (call->common.tsv && table == NULL)
        return nib_fail(error, NIB_EINVAL, "%s/%s has no table; leave out --tsv", place->kind, place->name);
    if (call->common.tsv) return nib_output_table(call, table, NULL, error);
    return print_text(call, shown, error);
}

/* "axes", "axes/NAME", "jobs" and "jobs/NAME" are no formats. */
static bool find_choice(const char *word, struct nib_format_name *out) {
    static const char *const kinds[] = {"axes", "jobs"};
    for (size_t i = 0; i < 2; i++) {
        if (strncmp(word, kinds[i], 4) != 0 || (word[4] != '\0' && word[4] != '/')) continue;
        snprintf(out->kind, sizeof out->kind, "%s", kinds[i]);
        snprintf(out->name, sizeof out->name, "%s", word[4] == '\0' ? "" : word + 5);
        return true;
    }
    return false;
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    struct nib_format_name place;
    struct nib_shown shown = {.text = NULL};
    const char *word = call->values[0], *kind = nib_format_kind(word);
    enum nib_status status = NIB_OK;
    if (kind != NULL)
        status = nib_fail(error, NIB_EINVAL, "which of the %s? 'nibble list %s' names them", kind, kind);
    else if (!find_choice(word, &place))
        status = nib_format_find(word, NULL, &place, error);
    if (status == NIB_OK) status = fill(call, &place, &shown, error);
    if (status == NIB_OK) status = print(call, &place, &shown, error);
    free(shown.text);
    nib_table_free(shown.table);
    nib_table_free(shown.all);
    return status;
}

static const struct nib_example examples[] = {
    {"nibble show e2m1", "the levels of an element format, their bins and their bias"},
    {"nibble show scales/e4m3 --tsv", "every code of a scale format"},
    {"nibble show quantizers/te-nvfp4", "every arithmetic choice of a quantizer"},
    {"nibble show axes", "every arithmetic choice that --set changes, in one line each"},
    {"nibble show recipes/nvfp4", "what a recipe does to the six operands of a linear layer"},
    {"nibble show axes/block_scale", "the choices of one axis"},
    {"nibble show jobs/bias", "what an experiment can sweep and keep; how files and tables name each measure"},
    {NULL, NULL},
};

NIB_COMMAND(show) = {
    .values = "[KIND/]NAME",
    .least = 1,
    .most = 1,
    .description =
        "Prints one format as the YAML that describes it, followed, as comments, by what comes out of it: for an "
        "element "
        "the levels with their codes and rounding bins; for a scale its range; for a quantizer every arithmetic choice "
        "(the YAML is then the resolved one); for a recipe what it does to each operand of a linear layer. The output is itself a format file.\n"
        "The bias of a level is E[|level| - |x|] over its bin for a locally uniform density, which is equation (2) of "
        "the "
        "UFP4 paper where a bin has a level on both sides.\n"
        "A name that two kinds have must be given as KIND/NAME. A path shows a file of your own.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct arguments),
    .takes = NIB_TAKES_JSON,
    .examples = examples,
    .run = run,
};
