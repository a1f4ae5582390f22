/* nibble compare: two quantized tensors, bit by bit. */
#include <nibble/compare.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/output.h"
#include "io/json_out.h"

enum { STAGE, PART, COMPARED, DIFFERING, BYTES, BITS, FIRST, BITS_A, BITS_B, VALUE_A, VALUE_B, REMARK, COLUMNS };
static const struct nib_column columns[COLUMNS] = {
    [STAGE] = {"stage", "stage", "", "stage of the quantizer, in the order of computation", NIB_COLUMN_TEXT, 0},
    [PART] = {"part", "part", "", "what is compared", NIB_COLUMN_TEXT, 0},
    [COMPARED] = {"compared", "compared", "1", "items on each side", NIB_COLUMN_INTEGER, 0},
    [DIFFERING] = {"differing", "differing", "1", "items that differ", NIB_COLUMN_INTEGER, 0},
    [BYTES] = {"bytes", "bytes", "1", "bytes that differ", NIB_COLUMN_INTEGER, 0},
    [BITS] = {"bits", "bits", "1", "bits that differ", NIB_COLUMN_INTEGER, 0},
    [FIRST] = {"first", "first at", "", "position of the first difference, counted from 0", NIB_COLUMN_TEXT, 0},
    [BITS_A] = {"bits_a", "A", "", "its bits on side A", NIB_COLUMN_TEXT, 0},
    [BITS_B] = {"bits_b", "B", "", "its bits on side B", NIB_COLUMN_TEXT, 0},
    [VALUE_A] = {"value_a", "A is", "1", "the same as a number", NIB_COLUMN_REAL, -9},
    [VALUE_B] = {"value_b", "B is", "1", "the same as a number", NIB_COLUMN_REAL, -9},
    [REMARK] = {"remark", "remark", "", "why nothing was compared; in which layout both are equal", NIB_COLUMN_TEXT, 0},
};

static void shape_text(unsigned rank, const uint64_t *shape, char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    if (rank == 0) snprintf(out, size, "a number");
    for (unsigned i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%" PRIu64, i == 0 ? "" : "x", shape[i]);
}

/* "3,17": row-major index as coordinates. */
static void place_text(const struct nib_difference *d, char *out, size_t size) {
    uint64_t at[NIB_PART_RANK], index = d->first;
    for (unsigned i = d->rank; i-- > 0;) {
        at[i] = index % d->shape[i];
        index /= d->shape[i];
    }
    size_t used = 0;
    snprintf(out, size, "0");
    for (unsigned i = 0; i < d->rank && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%" PRIu64, i == 0 ? "" : ",", at[i]);
}

static void set_difference(struct nib_table *table, size_t row, const struct nib_difference *d) {
    char text[160];
    place_text(d, text, sizeof text);
    nib_table_set_text(table, row, FIRST, text);
    snprintf(text, sizeof text, "0x%0*" PRIX64, (int)d->width / 4, d->a);
    nib_table_set_text(table, row, BITS_A, text);
    snprintf(text, sizeof text, "0x%0*" PRIX64, (int)d->width / 4, d->b);
    nib_table_set_text(table, row, BITS_B, text);
    nib_table_set_real(table, row, VALUE_A, d->value_a);
    nib_table_set_real(table, row, VALUE_B, d->value_b);
}

static void set_row(struct nib_table *table, size_t row, const struct nib_difference *d) {
    char text[256], a[100], b[100];
    nib_table_set_text(table, row, STAGE, nib_stage_name(d->stage));
    nib_table_set_text(table, row, PART, d->name);
    nib_table_set_integer(table, row, COMPARED, (int64_t)d->compared);
    nib_table_set_integer(table, row, DIFFERING, (int64_t)d->items);
    nib_table_set_integer(table, row, BYTES, (int64_t)d->bytes);
    nib_table_set_integer(table, row, BITS, (int64_t)d->bits);
    if (d->only_a || d->only_b) nib_table_set_text(table, row, REMARK, d->only_a ? "only in A" : "only in B");
    if (d->items == 0) return;
    if (d->arrangement != NULL) nib_table_set_text(table, row, REMARK, d->arrangement);
    if (d->stage != NIB_STAGE_SHAPE) {
        set_difference(table, row, d);
        return;
    }
    shape_text(d->rank, d->shape, a, sizeof a);
    shape_text(d->rank_b, d->shape_b, b, sizeof b);
    snprintf(text, sizeof text, "%s and %s%s%s", a, b, d->arrangement != NULL ? "; " : "",
             d->arrangement != NULL ? d->arrangement : "");
    nib_table_set_text(table, row, REMARK, text);
}

/* Files that hold nothing of a quantizer are compared as they are; otherwise equal scales alone are no agreement. */
static bool is_partial(const struct nib_comparison *c) {
    bool quantized = false, alone = false;
    for (size_t i = 0; i < c->count; i++) {
        quantized = quantized || c->differences[i].stage != NIB_STAGE_OTHER;
        alone = alone || c->differences[i].only_a || c->differences[i].only_b;
    }
    return c->differing == 0 && !c->codes_compared && (quantized || alone);
}

/* "identical", "different", or "partial" where all that was compared agrees but no codes were. */
static const char *verdict_of(const struct nib_comparison *c) {
    return c->first != NULL ? "different" : is_partial(c) ? "partial" : "identical";
}

static void partial_text(const struct nib_comparison *c, char *out, size_t size) {
    enum nib_stage latest = NIB_STAGE_OTHER;
    for (size_t i = 0; i < c->count; i++)
        if (c->differences[i].compared > 0 && c->differences[i].stage < NIB_STAGE_OTHER)
            latest = c->differences[i].stage;
    snprintf(out, size, "%s equal; no codes compared",
             latest == NIB_STAGE_OTHER ? "what has the same name is" : nib_stage_name(latest));
}

static void headline_text(const struct nib_comparison *c, char *out, size_t size) {
    char a[100], b[100];
    if (is_partial(c)) {
        partial_text(c, out, size);
    } else if (c->first == NULL) {
        snprintf(out, size, "identical: 0 of %" PRIu64 " items differ", c->compared);
    } else if (c->first->stage == NIB_STAGE_SHAPE) {
        shape_text(c->first->rank, c->first->shape, a, sizeof a);
        shape_text(c->first->rank_b, c->first->shape_b, b, sizeof b);
        if (strcmp(a, b) == 0)
            snprintf(out, size, "different: the types do not agree: %s holds integers on one side alone",
                     c->first->name);
        else
            snprintf(out, size, "different: the shapes do not agree: %s is %s in A and %s in B", c->first->name, a, b);
    } else {
        snprintf(out, size, "different: %" PRIu64 " of %" PRIu64 " items, first in the stage: %s", c->differing,
                 c->compared, nib_stage_name(c->first->stage));
    }
}

static enum nib_status print_json(const struct nib_call *call, const struct nib_comparison *c,
                                  const struct nib_table *table, struct nib_error *error) {
    struct nib_json *json;
    enum nib_status status = nib_output_json(call, &json, error);
    if (status != NIB_OK) return status;
    nib_json_text(json, "verdict", verdict_of(c));
    nib_json_unsigned(json, "compared", c->compared);
    nib_json_unsigned(json, "differing", c->differing);
    if (c->first != NULL)
        nib_json_text(json, "first", nib_stage_name(c->first->stage));
    else
        nib_json_null(json, "first");
    nib_json_bool(json, "codes_compared", c->codes_compared);
    nib_json_table(json, "rows", table);
    nib_json_end(json);
    return NIB_OK;
}

static enum nib_status print(struct nib_call *call, const struct nib_comparison *comparison, struct nib_error *error) {
    struct nib_table *table;
    enum nib_status status = nib_table_new("compare", columns, COLUMNS, &table, error);
    if (status != NIB_OK) return status;
    bool hidden[COLUMNS] = {false}, remarks = false;
    for (size_t i = 0; i < comparison->count && status == NIB_OK; i++) {
        size_t row = nib_table_row(table);
        if (row == SIZE_MAX)
            status = nib_fail(error, NIB_ENOMEM, "out of memory");
        else
            set_row(table, row, &comparison->differences[i]);
        remarks = remarks || (row != SIZE_MAX && nib_table_text(table, row, REMARK)[0] != '\0');
    }
    for (int i = FIRST; i <= VALUE_B; i++) hidden[i] = comparison->differing == 0;
    hidden[REMARK] = !remarks;
    char headline[320];
    headline_text(comparison, headline, sizeof headline);
    struct nib_layout layout = {.headline = headline, .hidden = hidden};
    if (status == NIB_OK && call->common.json)
        status = print_json(call, comparison, table, error);
    else if (status == NIB_OK)
        status = nib_output_table(call, table, &layout, error);
    nib_table_free(table);
    return status;
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    struct nib_dump *a = NULL, *b = NULL;
    struct nib_comparison comparison = {0};
    enum nib_status status = nib_dump_open(call->values[0], &a, error);
    if (status == NIB_OK) status = nib_dump_open(call->values[1], &b, error);
    if (status == NIB_OK) {
        size_t count_a, count_b;
        const struct nib_part *parts_a = nib_dump_parts(a, &count_a), *parts_b = nib_dump_parts(b, &count_b);
        status = nib_compare(parts_a, count_a, parts_b, count_b, &comparison, error);
    }
    if (status == NIB_OK) status = print(call, &comparison, error);
    if (status == NIB_OK && (comparison.differing > 0 || is_partial(&comparison))) call->check_failed = true;
    nib_comparison_free(&comparison);
    nib_dump_close(a);
    nib_dump_close(b);
    return status;
}

static const struct nib_example examples[] = {
    {"nibble compare mine.json theirs.safetensors", "stage by stage: scales, codes, packed bytes, values"},
    {"nibble compare mine.json fp4.safetensors:layers.0.q_proj", "with one weight of a checkpoint"},
    {"nibble compare mine.json packed.npy:packed", "with packed bytes alone"},
    {NULL, NULL},
};

NIB_COMMAND(compare) = {
    .values = "A[:weight] B[:weight]",
    .least = 2,
    .most = 2,
    .description =
        "Compares two quantized tensors bit by bit, in the order in which a quantizer computes: shapes, tensor amax and scale, "
        "block scales, codes, packed bytes, dequantized values. For each it counts the items, bytes and bits that differ and "
        "shows the first difference; where all scales or packed bytes are the same in another layout (128x4 or 8x4 tiles, "
        "nibbles swapped), it says so, and 'nibble layout' converts. The exit code is 1 where anything differs, and where "
        "neither codes nor packed bytes nor "
        "values could be compared.\n"
        "A and B are JSON of 'nibble quantize', its HDF5, or tensor files (.safetensors, .npz, .npy, .h5). Parts are paired by "
        "name; usual names of others are understood (scale, X.weight_scale, qdata, X_blocks, value, amax, ...). A NaN equals a NaN at "
        "the same place; +0 and -0 differ.\n"
        "Of a checkpoint, FILE:WEIGHT chooses one weight, by what the names of its tensors begin with; FILE.npy:packed says what the "
        "array of an .npy is.",
    .takes = NIB_TAKES_JSON,
    .examples = examples,
    .run = run,
};
