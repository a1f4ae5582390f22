/* nibble identify: which quantizer made a dump. */
#include <inttypes.h>
#include <nibble/compare.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/axis.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/input.h"
#include "cli/lists.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "format/registry.h"
#include "io/json_out.h"
#include "io/locator.h"

struct arguments {
    const char *input;
    struct nib_texts quantizers;
    int64_t most;
};
static const struct arguments defaults = {.most = 5};
static const struct nib_option options[] = {
    NIB_OPT_TEXT(struct arguments, input, "input", 'i', "FILE[:tensor]", "what was quantized; by default tensor x of the dump"),
    NIB_OPT_LIST(struct arguments, quantizers, "quantizer", 'q', "QUANTIZER", "try these alone; by default all built-in ones"),
    NIB_OPT_INTEGER(struct arguments, most, "most", 'n', "N", 1, 1000, "how many that come near to list"),
    NIB_OPT_END};

enum { QUANTIZER, AXIS, LAYOUT, COMPARED, DIFFERING, SHARE, FIRST, VERIFIED, COLUMNS };
static const struct nib_column columns[COLUMNS] = {
    [QUANTIZER] = {"quantizer", "quantizer", "", "name of the quantizer", NIB_COLUMN_TEXT, 0},
    [AXIS] = {"axis", "axis", "", "direction of the blocks", NIB_COLUMN_TEXT, 0},
    [LAYOUT] = {"layout", "layout", "", "what is not written the usual way", NIB_COLUMN_TEXT, 0},
    [COMPARED] = {"compared", "compared", "1", "items of the dump that it makes", NIB_COLUMN_INTEGER, 0},
    [DIFFERING] = {"differing", "differing", "1", "items that differ", NIB_COLUMN_INTEGER, 0},
    [SHARE] = {"share", "share", "1", "their share", NIB_COLUMN_REAL, -3},
    [FIRST] = {"first", "first in", "", "the earliest stage that differs", NIB_COLUMN_TEXT, 0},
    [VERIFIED] = {"verified", "verified", "", "yes where outputs of the real implementation are reproduced",
                  NIB_COLUMN_TEXT, 0},
};

struct identification {
    struct nib_dump *dump;
    const struct nib_part *parts;
    size_t part_count;
    struct nib_input input;
    struct nib_quantizers quantizers;
    struct nib_candidate *candidates;
};

/* The input is on the command line, or in the dump. */
static enum nib_status open_input(const struct nib_call *call, struct identification *it, struct nib_error *error) {
    const struct arguments *a = call->options;
    char place[1100];
    bool inside = false;
    for (size_t i = 0; i < it->part_count; i++) inside = inside || strcmp(it->parts[i].name, "x") == 0;
    if (a->input == NULL && !inside)
        return nib_fail_at(error, NIB_EINVAL, call->values[0], 0, "no tensor x; --input says what was quantized");
    static const struct nib_texts none;
    struct nib_locator dump;
    enum nib_status status = nib_locator_parse(call->values[0], &dump, error);
    if (status != NIB_OK) return status;
    snprintf(place, sizeof place, "%s:x", dump.path);
    nib_locator_free(&dump);
    return nib_input_open(a->input != NULL ? a->input : place, &none, NULL, false, &it->input, error);
}

/* Those of the command line, or all built-in ones. */
static enum nib_status open_quantizers(const struct nib_call *call, struct identification *it,
                                       struct nib_error *error) {
    static const struct nib_texts none;
    const struct arguments *a = call->options;
    const char **names = NULL;
    size_t count = a->quantizers.count;
    while (a->quantizers.count == 0 && nib_registry_name("quantizers", count) != NULL) count++;
    it->candidates = nib_alloc(2 * count, sizeof *it->candidates, "candidates", error);
    if (it->candidates == NULL || (names = nib_alloc(count, sizeof *names, "names", error)) == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < count; i++)
        names[i] = a->quantizers.count > 0 ? a->quantizers.item[i] : nib_registry_name("quantizers", i);
    enum nib_status status = nib_quantizers_open(names, count, &none, &it->quantizers, error);
    free(names);
    return status;
}

static void set_row(struct nib_table *table, size_t row, const struct nib_candidate *c) {
    struct nib_quantizer_info info;
    nib_quantizer_describe(c->quantizer, &info);
    nib_table_set_text(table, row, QUANTIZER, info.name);
    nib_table_set_text(table, row, AXIS, nib_axis_names[c->axis]);
    nib_table_set_text(table, row, LAYOUT, c->layout);
    nib_table_set_integer(table, row, COMPARED, (int64_t)c->compared);
    nib_table_set_integer(table, row, DIFFERING, (int64_t)c->differing);
    nib_table_set_real(table, row, SHARE, c->compared > 0 ? (double)c->differing / (double)c->compared : 0);
    nib_table_set_text(table, row, FIRST, c->differing > 0 ? nib_stage_name(c->first) : "");
    nib_table_set_text(table, row, VERIFIED, info.verified ? "yes" : "no");
}

/* Scales alone would fit many quantizers. */
static bool has_codes(const struct identification *it) {
    for (size_t i = 0; i < it->part_count; i++) {
        enum nib_stage stage = it->parts[i].stage;
        bool telling = stage == NIB_STAGE_CODES || stage == NIB_STAGE_PACKED || stage == NIB_STAGE_VALUES;
        if (telling && nib_identify_uses(&it->parts[i])) return true;
    }
    return false;
}

static bool is_ignored(const struct identification *it, size_t i) {
    return !nib_identify_uses(&it->parts[i]) && strcmp(it->parts[i].name, "x") != 0;
}

static void note_ignored(const struct nib_call *call, const struct identification *it) {
    char text[400] = "";
    size_t used = 0;
    for (size_t i = 0; i < it->part_count && used < sizeof text; i++)
        if (is_ignored(it, i))
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? ", " : "", it->parts[i].name);
    if (used > 0) nib_output_note(call, "not looked at, the names not being known: %s", text);
}

/* What to make of the result. */
static void note_result(const struct nib_call *call, const struct identification *it, size_t exact) {
    const struct nib_candidate *best = &it->candidates[0];
    if (best->differing > best->compared / 2)
        nib_output_note(call,
                        "more than half differs from the nearest too: the input probably does not belong to this dump");
    if (call->common.json || call->common.tsv) return;
    struct nib_quantizer_info a, b;
    const struct arguments *arguments = call->options;
    if (exact == 0 && best->differing <= best->compared / 2 && arguments->input != NULL) {
        nib_quantizer_describe(best->quantizer, &a);
        nib_output_note(call, "`nibble quantize -q %s%s '%s' --json > nearest.json; nibble compare nearest.json '%s'` shows where",
                        a.name, best->axis == NIB_ALONG_ROWS ? " --axis rows" : "", arguments->input, call->values[0]);
    }
    for (size_t i = 1; i < exact; i++) {
        if (it->candidates[i].quantizer == best->quantizer) continue;
        nib_quantizer_describe(best->quantizer, &a);
        nib_quantizer_describe(it->candidates[i].quantizer, &b);
        nib_output_note(call, "`nibble witness %s %s` prints an input that separates the two, where there is one",
                        a.name, b.name);
        return;
    }
}

static enum nib_status print_json(const struct nib_call *call, const struct identification *it, size_t exact,
                                  const struct nib_table *table, struct nib_error *error) {
    struct nib_json *json;
    enum nib_status status = nib_output_json(call, &json, error);
    if (status != NIB_OK) return status;
    const struct nib_candidate *best = &it->candidates[0];
    nib_json_text(json, "verdict", exact == 0 ? "none" : has_codes(it) ? "exact" : "partial");
    nib_json_unsigned(json, "tried", 2 * it->quantizers.count);
    nib_json_unsigned(json, "exact", exact);
    nib_json_unsigned(json, "compared", best->compared);
    nib_json_unsigned(json, "differing", best->differing);
    if (best->differing > 0)
        nib_json_text(json, "first", nib_stage_name(best->first));
    else
        nib_json_null(json, "first");
    nib_json_array(json, "ignored");
    for (size_t i = 0; i < it->part_count; i++)
        if (is_ignored(it, i)) nib_json_text(json, NULL, it->parts[i].name);
    nib_json_close(json);
    nib_json_table(json, "rows", table);
    nib_json_end(json);
    return NIB_OK;
}

static enum nib_status print(const struct nib_call *call, const struct identification *it, size_t exact,
                             struct nib_error *error) {
    const struct arguments *a = call->options;
    struct nib_table *table;
    enum nib_status status = nib_table_new("identify", columns, COLUMNS, &table, error);
    if (status != NIB_OK) return status;
    size_t shown = exact > 0 ? exact : (size_t)a->most;
    if (shown > 2 * it->quantizers.count) shown = 2 * it->quantizers.count;
    for (size_t i = 0; i < shown && status == NIB_OK; i++) {
        size_t row = nib_table_row(table);
        if (row == SIZE_MAX)
            status = nib_fail(error, NIB_ENOMEM, "out of memory");
        else
            set_row(table, row, &it->candidates[i]);
    }
    const char *built_in = a->quantizers.count == 0 ? "built-in " : "";
    char headline[120];
    if (exact > 0 && !has_codes(it))
        snprintf(headline, sizeof headline, "scales equal; no codes compared: %zu of %zu %squantizers and axes fit",
                 exact, 2 * it->quantizers.count, built_in);
    else if (exact > 0)
        snprintf(headline, sizeof headline, "exact: %zu of %zu %squantizers and axes give every byte", exact,
                 2 * it->quantizers.count, built_in);
    else
        snprintf(headline, sizeof headline, "no exact match among %zu %squantizers along both axes; the nearest",
                 it->quantizers.count, built_in);
    if (status == NIB_OK && call->common.json)
        status = print_json(call, it, exact, table, error);
    else if (status == NIB_OK)
        status = nib_output_table(call, table, &(struct nib_layout){.headline = headline}, error);
    if (status == NIB_OK) {
        note_ignored(call, it);
        note_result(call, it, exact);
    }
    nib_table_free(table);
    return status;
}

static void show_step(void *context, size_t done, size_t total) {
    struct nib_progress *progress = context;
    progress->total = total;
    nib_progress_step(progress, done - progress->done, NULL);
}

static enum nib_status search(const struct nib_call *call, struct identification *it, struct nib_error *error) {
    struct nib_progress progress;
    nib_progress_start(&progress, call, "quantizers", 2 * it->quantizers.count);
    enum nib_status status =
        nib_identify_shown(it->input.view, it->parts, it->part_count, it->quantizers.item, it->quantizers.count,
                           (int)call->common.threads, it->candidates, show_step, &progress, error);
    nib_progress_end(&progress);
    return status;
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    struct identification it = {.dump = NULL};
    enum nib_status status = nib_dump_open(call->values[0], &it.dump, error);
    if (status == NIB_OK) {
        it.parts = nib_dump_parts(it.dump, &it.part_count);
        status = open_input(call, &it, error);
    }
    if (status == NIB_OK) status = open_quantizers(call, &it, error);
    if (status == NIB_OK) status = search(call, &it, error);
    size_t exact = 0;
    while (status == NIB_OK && exact < 2 * it.quantizers.count && it.candidates[exact].differing == 0) exact++;
    if (status == NIB_OK) status = print(call, &it, exact, error);
    if (status == NIB_OK && (exact == 0 || !has_codes(&it))) call->check_failed = true;
    nib_quantizers_close(&it.quantizers);
    free(it.candidates);
    nib_input_close(&it.input);
    nib_dump_close(it.dump);
    return status;
}

static const struct nib_example examples[] = {
    {"nibble identify dump.safetensors", "a dump that holds its input as tensor x"},
    {"nibble identify dump.npz --input weights.safetensors:layer.0", "the input from elsewhere"},
    {"nibble identify fp4.safetensors:layers.0.q_proj --input bf16.safetensors:layers.0.q_proj.weight",
     "one weight of an FP4 checkpoint"},
    {NULL, NULL},
};

NIB_COMMAND(identify) = {
    .values = "DUMP[:weight]",
    .least = 1,
    .most = 1,
    .description =
        "Tries every built-in quantizer along both axes on the input of a dump and says which give its bytes. What is looked at "
        "are codes, packed bytes, scales, tensor scales and dequantized values, under their usual names (codes, packed, "
        "weight_packed, qdata, scales, scale, weight_scale, amax, dequantized; layer.0.weight_packed too), each in the layout that "
        "fits best: the first element in the low or the high nibble, scales in rows or in the 128x4 layout of tensor cores, whole "
        "blocks of FBGEMM or ggml. A tensor amax in the dump is taken over, since callers often hand it in.\n"
        "Of a checkpoint, DUMP:WEIGHT chooses one weight, by what the names of its tensors begin with; DUMP.npy:packed says "
        "what the array of an .npy is. Where nothing fits, 'nibble compare' of the nearest and the dump shows the first difference.\n"
        "The exit code is 0 where one fits exactly; otherwise it is 1, and the nearest are listed. It is 1 "
        "too where the dump holds scales alone: they would fit many.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct arguments),
    .takes = NIB_TAKES_JSON | NIB_TAKES_THREADS,
    .examples = examples,
    .run = run,
};
