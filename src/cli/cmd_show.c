/* nibble show: one format, as the file that describes it and as what follows from it. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "base/suggest.h"
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

static const char *axis_name(size_t i, const void *context) {
    (void)context;
    return i < nib_axis_count ? nib_axis_table[i].name : NULL;
}

static enum nib_status show_axis(const char *name, struct nib_shown *shown, struct nib_error *error) {
    static const struct nib_column columns[] = {
        {"choice", "choice", "", "value of the axis", NIB_COLUMN_TEXT, 0},
        {"applies", "applies when", "", "condition on the block format", NIB_COLUMN_TEXT, 0},
        {"meaning", "meaning", "", "what it does", NIB_COLUMN_TEXT, 0},
    };
    size_t index = nib_axis_find(name);
    if (index == nib_axis_count) {
        const char *near = nib_suggest(name, axis_name, NULL);
        return nib_fail(error, NIB_ENOTFOUND, "no axis \"%s\"%s%s%s", name,
                        near != NULL ? "; did you mean \"" : "; 'nibble list axes' names them", near != NULL ? near : "",
                        near != NULL ? "\"?" : "");
    }
    const struct nib_axis_info *axis = &nib_axis_table[index];
    nib_show_fact(shown, "axis", "%s", axis->name);
    nib_show_fact(shown, "decides", "%s", axis->what);
    nib_show_fact(shown, "applies_when", "%s", nib_applies_text(axis->applies));
    if (axis->is_number) nib_show_fact(shown, "value", "a number");
    enum nib_status status = nib_table_new("choices", columns, 3, &shown->table, error);
    for (size_t c = 0; c < axis->count && status == NIB_OK; c++) {
        size_t row = nib_table_row(shown->table);
        if (row == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "out of memory");
        nib_table_set_text(shown->table, row, 0, axis->choices[c].name);
        nib_table_set_text(shown->table, row, 1, nib_applies_text(axis->choices[c].applies));
        nib_table_set_text(shown->table, row, 2, axis->choices[c].what);
    }
    return status;
}

/* All axes, in the order in which a quantizer computes. */
static enum nib_status show_axes(struct nib_shown *shown, struct nib_error *error) {
    static const struct nib_column columns[] = {
        {"axis", "axis", "", "arithmetic choice", NIB_COLUMN_TEXT, 0},
        {"choices", "choices", "", "how many there are, or a number", NIB_COLUMN_TEXT, 0},
        {"applies", "applies when", "", "condition on the block format", NIB_COLUMN_TEXT, 0},
        {"decides", "decides", "", "what it decides", NIB_COLUMN_TEXT, 0},
    };
    static const bool hidden[] = {false, false, true, false};
    enum nib_status status = nib_table_new("axes", columns, 4, &shown->table, error);
    shown->hidden = hidden;
    for (size_t i = 0; status == NIB_OK && i < nib_axis_count; i++) {
        const struct nib_axis_info *axis = &nib_axis_table[i];
        char count[24] = "a number";
        size_t row = nib_table_row(shown->table);
        if (row == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "out of memory");
        if (!axis->is_number) snprintf(count, sizeof count, "%zu", axis->count);
        nib_table_set_text(shown->table, row, 0, axis->name);
        nib_table_set_text(shown->table, row, 1, count);
        nib_table_set_text(shown->table, row, 2, nib_applies_text(axis->applies));
        nib_table_set_text(shown->table, row, 3, axis->what);
    }
    return status;
}

static enum nib_status fill(const struct nib_call *call, const struct nib_format_name *place, struct nib_shown *shown,
                            struct nib_error *error) {
    const struct arguments *arguments = call->options;
    if (strcmp(place->kind, "axes") == 0 && place->name[0] == '\0') return show_axes(shown, error);
    if (strcmp(place->kind, "axes") == 0) return show_axis(place->name, shown, error);
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

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    struct nib_format_name place = {.kind = "axes"};
    struct nib_shown shown = {.text = NULL};
    const char *word = call->values[0];
    enum nib_status status = NIB_OK;
    if (strcmp(word, "axes") == 0)
        place.name[0] = '\0';
    else if (strncmp(word, "axes/", 5) == 0)
        snprintf(place.name, sizeof place.name, "%s", word + 5);
    else if (nib_format_kind(word) != NULL)
        status = nib_fail(error, NIB_EINVAL, "which of the %s? 'nibble list %s' names them", nib_format_kind(word), nib_format_kind(word));
    else
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
