/* nibble inspect: what a file holds, and which checkpoint convention it follows. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "cli/output.h"
#include "core/widen.h"
#include "io/convention.h"
#include "io/decode.h"
#include "io/json_out.h"
#include "io/locator.h"

struct arguments {
    const char *dtype;
    bool packed, unpacked;
    int64_t values;
};

static const struct arguments defaults = {.values = 0};

static const struct nib_option options[] = {
    NIB_OPT_INTEGER(struct arguments, values, "values", 'n', "N", 0, 1 << 20, "also the first N values of each tensor"),
    NIB_OPT_TEXT(struct arguments, dtype, "dtype", 0, "FORMAT",
                 "what bytes stand for where the file does not say: e2m1, e4m3, e8m0, ..."),
    NIB_OPT_FLAG(struct arguments, packed, "packed", 0, "two 4-bit codes a byte, the even element in the low bits"),
    NIB_OPT_FLAG(struct arguments, unpacked, "unpacked", 0, "one 4-bit code a byte, in the low bits"),
    NIB_OPT_END,
};

static const struct nib_example examples[] = {
    {"nibble inspect data/bytelm-8m.safetensors", "names, types and shapes of all tensors"},
    {"nibble inspect 'data/bytelm-8m.safetensors:*.q_proj.weight' --values 4", "and how some of them begin"},
    {"nibble inspect codes.npy --dtype e2m1 --unpacked --values 8", "an array of 4-bit codes, as ml_dtypes saves it"},
    {NULL, NULL},
};

/* One call: the open file, the tensors that were asked for, and what is known about them. */
struct inspection {
    struct nib_file *file;
    size_t *indices, count;
    struct nib_stored_weight *weights;
    size_t weight_count;
    struct nib_decoder decoder;
    bool decodes;
};

/* The shape of the values of tensor i, and how many there are. */
static uint64_t logical_shape(const struct inspection *inspection, size_t i, unsigned *rank,
                              uint64_t shape[NIB_ENTRY_RANK]) {
    const struct nib_entry *entry = &inspection->file->entries[i];
    uint64_t count = 1;
    *rank = entry->rank;
    memcpy(shape, entry->shape, sizeof entry->shape);
    for (size_t k = 0; k < inspection->weight_count; k++)
        if (inspection->weights[k].packed == i && inspection->weights[k].problem[0] == '\0') {
            *rank = inspection->weights[k].rank;
            memcpy(shape, inspection->weights[k].shape, sizeof entry->shape);
        }
    if (inspection->decodes && inspection->decoder.packing == NIB_PACKED && entry->item_bytes == 1)
        nib_unpacked_shape(entry, shape);
    for (unsigned k = 0; k < *rank; k++) count *= shape[k];
    return count;
}

static const char *shape_text(unsigned rank, const uint64_t *shape, char out[192]) {
    size_t length = 0;
    if (rank == 0) return "scalar";
    for (unsigned i = 0; i < rank; i++)
        length += (size_t)snprintf(out + length, 192 - length, "%s%llu", i == 0 ? "" : "x", (unsigned long long)shape[i]);
    return out;
}

/* Names come from the file: nothing in them may steer the terminal. */
static void set_name(struct nib_table *table, size_t row, size_t column, const char *text) {
    char *clean = nib_text_clean(text);
    nib_table_set_text(table, row, column, clean == NULL ? "?" : clean);
    free(clean);
}

/* Provenance stands below as metadata; in the list it would only be in the way. */
static bool is_provenance(const struct nib_file *file, const struct nib_entry *entry) {
    return strcmp(file->kind, "hdf5") == 0 && strncmp(entry->name, "provenance/", 11) == 0;
}

static enum nib_status tensor_table(const struct inspection *inspection, bool whole, struct nib_table **out,
                                    struct nib_error *error) {
    static const struct nib_column columns[] = {
        {"tensor", "tensor", "", "name", NIB_COLUMN_TEXT, 0},
        {"dtype", "dtype", "", "type as the file calls it", NIB_COLUMN_TEXT, 0},
        {"shape", "shape", "", "shape as the file says it", NIB_COLUMN_TEXT, 0},
        {"logical_shape", "of values", "", "shape of the values", NIB_COLUMN_TEXT, 0},
        {"values", "values", "1", "number of values", NIB_COLUMN_INTEGER, 0},
        {"bytes", "bytes", "byte", "size in the file", NIB_COLUMN_INTEGER, 0},
        {"file", "file", "", "file that holds it", NIB_COLUMN_TEXT, 0}};
    struct nib_table *table;
    enum nib_status status = nib_table_new("tensors", columns, 7, &table, error);
    if (status != NIB_OK) return status;
    for (size_t i = 0; i < inspection->count; i++) {
        const struct nib_entry *entry = &inspection->file->entries[inspection->indices[i]];
        uint64_t shape[NIB_ENTRY_RANK];
        unsigned rank;
        char text[192];
        if (!whole && is_provenance(inspection->file, entry)) continue;
        size_t row = nib_table_row(table);
        if (row == SIZE_MAX) {
            nib_table_free(table);
            return nib_fail(error, NIB_ENOMEM, "out of memory");
        }
        set_name(table, row, 0, entry->name);
        nib_table_set_text(table, row, 1, entry->dtype);
        nib_table_set_text(table, row, 2, shape_text(entry->rank, entry->shape, text));
        nib_table_set_integer(table, row, 4, (int64_t)logical_shape(inspection, inspection->indices[i], &rank, shape));
        nib_table_set_text(table, row, 3, shape_text(rank, shape, text));
        nib_table_set_integer(table, row, 5, (int64_t)entry->bytes);
        nib_table_set_text(table, row, 6, entry->path);
    }
    *out = table;
    return NIB_OK;
}

static enum nib_status weight_table(const struct inspection *inspection, struct nib_table **out,
                                    struct nib_error *error) {
    static const struct nib_column columns[] = {
        {"weight", "weight", "", "name without suffixes", NIB_COLUMN_TEXT, 0},
        {"convention", "convention", "", "who stores weights like this", NIB_COLUMN_TEXT, 0},
        {"shape", "shape", "", "shape of the values", NIB_COLUMN_TEXT, 0},
        {"block", "block", "1", "values under one scale", NIB_COLUMN_INTEGER, 0},
        {"scale_format", "scale", "", "format of the block scales", NIB_COLUMN_TEXT, 0},
        {"decode", "value", "", "how a value is made", NIB_COLUMN_TEXT, 0},
        {"problem", "remark", "", "why the parts do not fit, or what the file does not say", NIB_COLUMN_TEXT, 0}};
    struct nib_table *table;
    enum nib_status status = nib_table_new("weights", columns, 7, &table, error);
    if (status != NIB_OK) return status;
    for (size_t i = 0; i < inspection->weight_count; i++) {
        const struct nib_stored_weight *weight = &inspection->weights[i];
        char text[192];
        size_t row = nib_table_row(table);
        if (row == SIZE_MAX) {
            nib_table_free(table);
            return nib_fail(error, NIB_ENOMEM, "out of memory");
        }
        set_name(table, row, 0, weight->name);
        nib_table_set_text(table, row, 1, weight->convention);
        nib_table_set_text(table, row, 2, shape_text(weight->rank, weight->shape, text));
        nib_table_set_integer(table, row, 3, weight->block);
        nib_table_set_text(table, row, 4, weight->scale_format);
        nib_table_set_text(table, row, 5, weight->decode);
        nib_table_set_text(table, row, 6, weight->problem[0] != '\0' ? weight->problem : weight->note);
    }
    *out = table;
    return NIB_OK;
}

/* The first values of tensor i: codes where the bytes are decoded, otherwise none. *codes may come back NULL. */
static enum nib_status first_values(const struct inspection *inspection, size_t i, uint64_t limit, uint8_t **codes,
                                    float **values, size_t *count, struct nib_error *error) {
    uint64_t shape[NIB_ENTRY_RANK], total;
    unsigned rank;
    struct nib_view view;
    const void *bytes;
    uint64_t size;
    const struct nib_entry *entry = &inspection->file->entries[i];
    total = logical_shape(inspection, i, &rank, shape);
    size_t wanted = (size_t)(total < limit ? total : limit);
    bool decode = inspection->decodes && entry->storage == NIB_STORED_BYTES;
    enum nib_status status;
    *codes = NULL;
    if (decode && entry->item_bytes != 1)
        return nib_fail_at(error, NIB_EINVAL, entry->path, 0, "tensor \"%s\" has dtype %s; --dtype reads single bytes",
                           entry->name, entry->dtype);
    if (decode)
        status = nib_file_bytes(inspection->file, i, &bytes, &size, error);
    else
        status = nib_file_view(inspection->file, i, true, &view, error);
    if (status != NIB_OK) return status;
    float *decoded = nib_alloc_raw(wanted, sizeof *decoded, "first values", error);
    uint8_t *code = decode ? nib_alloc_raw(wanted, 1, "first codes", error) : NULL;
    if (decoded == NULL || (decode && code == NULL))
        status = NIB_ENOMEM;
    else if (decode)
        status = nib_decode(&inspection->decoder, bytes, 0, wanted, code, decoded, error);
    else if (wanted > 0)
        nib_widen(view, 0, wanted, decoded);
    if (status != NIB_OK) {
        free(decoded);
        free(code);
        return status;
    }
    *values = decoded;
    *codes = code;
    *count = wanted;
    return NIB_OK;
}

static enum nib_status value_table(const struct inspection *inspection, uint64_t limit, struct nib_table **out,
                                   struct nib_error *error) {
    static const struct nib_column columns[] = {{"tensor", "tensor", "", "name", NIB_COLUMN_TEXT, 0},
                                                {"index", "index", "1", "row-major position", NIB_COLUMN_INTEGER, 0},
                                                {"code", "code", "", "code, in hexadecimal", NIB_COLUMN_TEXT, 0},
                                                {"value", "value", "1", "value", NIB_COLUMN_REAL, -9}};
    struct nib_table *table;
    enum nib_status status = nib_table_new("values", columns, 4, &table, error);
    if (status != NIB_OK) return status;
    for (size_t i = 0; i < inspection->count && status == NIB_OK; i++) {
        uint8_t *codes;
        float *values;
        size_t count;
        char text[16] = "";
        status = first_values(inspection, inspection->indices[i], limit, &codes, &values, &count, error);
        if (status != NIB_OK) break;
        for (size_t k = 0; k < count && status == NIB_OK; k++) {
            size_t row = nib_table_row(table);
            if (row == SIZE_MAX) {
                status = nib_fail(error, NIB_ENOMEM, "out of memory");
                break;
            }
            if (codes != NULL) snprintf(text, sizeof text, "0x%X", codes[k]);
            set_name(table, row, 0, inspection->file->entries[inspection->indices[i]].name);
            nib_table_set_integer(table, row, 1, (int64_t)k);
            nib_table_set_text(table, row, 2, text);
            nib_table_set_real(table, row, 3, (double)values[k]);
        }
        free(codes);
        free(values);
    }
    if (status != NIB_OK)
        nib_table_free(table);
    else
        *out = table;
    return status;
}

static void print_metadata(const struct nib_call *call, const struct nib_file *file) {
    enum { LONGEST = 400 };
    struct nib_style style = nib_output_style(call, stdout);
    if (file->metadata_count == 0) return;
    printf("\n%sMetadata%s\n\n", style.bold, style.plain);
    for (size_t i = 0; i + 1 < file->metadata_count; i += 2) {
        char key[80], *value = nib_text_clean(file->metadata[i + 1]);
        const char *shown = value == NULL ? "?" : value;
        size_t length = strlen(shown);
        bool cut = length > LONGEST;
        if (cut) length = LONGEST;
        while (cut && length > 0 && ((unsigned char)shown[length] & 0xc0) == 0x80) length--;
        printf("  %s: %.*s%s\n", nib_printable(file->metadata[i], key), (int)length, shown, cut ? "..." : "");
        free(value);
    }
}

static enum nib_status print_text(struct nib_call *call, const struct inspection *inspection, int64_t limit,
                                  struct nib_error *error) {
    const struct nib_file *file = inspection->file;
    struct nib_table *tensors = NULL, *weights = NULL, *values = NULL;
    uint64_t bytes = 0;
    char headline[1200];
    for (size_t i = 0; i < file->mapping_count; i++) bytes += file->mappings[i]->size;
    enum nib_status status = tensor_table(inspection, call->common.tsv || inspection->count < file->count, &tensors, error);
    if (status == NIB_OK) status = weight_table(inspection, &weights, error);
    if (status == NIB_OK && limit > 0) status = value_table(inspection, (uint64_t)limit, &values, error);
    if (status == NIB_OK && call->common.tsv) {
        status = nib_output_table(call, values != NULL ? values : tensors, NULL, error);
    } else if (status == NIB_OK) {
        bool hidden[7] = {[3] = true, [6] = file->mapping_count < 2};
        for (size_t i = 0; i < nib_table_rows(tensors); i++)
            if (strcmp(nib_table_text(tensors, i, 2), nib_table_text(tensors, i, 3)) != 0) hidden[3] = false;
        snprintf(headline, sizeof headline, "%s: %s, %zu %s, %llu bytes", file->path, file->kind, file->count,
                 file->count == 1 ? "tensor" : "tensors", (unsigned long long)bytes);
        struct nib_layout layout = {.headline = headline, .hidden = hidden};
        nib_output_aligned(call, tensors, &layout, stdout);
        if (inspection->weight_count > 0) {
            const bool none[7] = {false};
            fputc('\n', stdout);
            nib_output_aligned(call, weights, &(struct nib_layout){.headline = "FP4 weights", .hidden = none}, stdout);
        }
        if (values != NULL) {
            const bool columns[4] = {[0] = inspection->count == 1, [2] = !inspection->decodes};
            fputc('\n', stdout);
            nib_output_aligned(call, values, &(struct nib_layout){.headline = "First values", .hidden = columns}, stdout);
        }
        print_metadata(call, file);
    }
    nib_table_free(tensors);
    nib_table_free(weights);
    nib_table_free(values);
    return status;
}

static void json_shape(struct nib_json *json, const char *key, unsigned rank, const uint64_t *shape) {
    nib_json_array(json, key);
    for (unsigned i = 0; i < rank; i++) nib_json_unsigned(json, NULL, shape[i]);
    nib_json_close(json);
}

/* The name of tensor `at`, null for SIZE_MAX. */
static void json_name(struct nib_json *json, const char *key, const struct nib_file *file, size_t at) {
    char *owned = NULL;
    const char *name = at == SIZE_MAX ? NULL : nib_utf8(file->entries[at].name, &owned);
    if (name == NULL)
        nib_json_null(json, key);
    else
        nib_json_text(json, key, name);
    free(owned);
}

static enum nib_status json_tensor(struct nib_json *json, const struct inspection *inspection, size_t i, int64_t limit,
                                   struct nib_error *error) {
    const struct nib_entry *entry = &inspection->file->entries[i];
    uint64_t shape[NIB_ENTRY_RANK];
    unsigned rank;
    uint64_t values = logical_shape(inspection, i, &rank, shape);
    enum nib_status status = NIB_OK;
    nib_json_object(json, NULL);
    json_name(json, "name", inspection->file, i);
    nib_json_text(json, "dtype", entry->dtype);
    json_shape(json, "shape", entry->rank, entry->shape);
    json_shape(json, "logical_shape", rank, shape);
    nib_json_unsigned(json, "values", values);
    nib_json_unsigned(json, "bytes", entry->bytes);
    nib_json_text(json, "file", entry->path);
    if (limit > 0) {
        uint8_t *codes;
        float *first;
        size_t count;
        status = first_values(inspection, i, (uint64_t)limit, &codes, &first, &count, error);
        if (status == NIB_OK) {
            if (codes != NULL) nib_json_bytes(json, "first_codes", codes, count);
            nib_json_floats(json, "first_values", first, count);
            free(codes);
            free(first);
        }
    }
    nib_json_close(json);
    return status;
}

static enum nib_status print_json(struct nib_call *call, const struct inspection *inspection, int64_t limit,
                                  struct nib_error *error) {
    const struct nib_file *file = inspection->file;
    char schema[64], *text = NULL;
    size_t size;
    struct nib_json *json;
    FILE *stream = open_memstream(&text, &size); /* so that an error in the middle prints nothing */
    if (stream == NULL) return nib_fail(error, NIB_ENOMEM, "out of memory");
    nib_output_schema(call, schema);
    enum nib_status status = nib_json_begin(stream, schema, &json, error);
    if (status == NIB_OK) {
        nib_json_text(json, "file", file->path);
        nib_json_text(json, "kind", file->kind);
        nib_json_array(json, "tensors");
        for (size_t i = 0; i < inspection->count && status == NIB_OK; i++)
            status = json_tensor(json, inspection, inspection->indices[i], limit, error);
        nib_json_close(json);
        nib_json_array(json, "weights");
        for (size_t i = 0; i < inspection->weight_count; i++) {
            const struct nib_stored_weight *weight = &inspection->weights[i];
            nib_json_object(json, NULL);
            nib_json_text(json, "name", weight->name);
            nib_json_text(json, "convention", weight->convention);
            json_shape(json, "shape", weight->rank, weight->shape);
            nib_json_unsigned(json, "block", weight->block);
            nib_json_text(json, "scale_format", weight->scale_format);
            nib_json_text(json, "decode", weight->decode);
            json_name(json, "packed", file, weight->packed);
            json_name(json, "scale", file, weight->scale);
            json_name(json, "global_scale", file, weight->global);
            nib_json_text(json, "problem", weight->problem);
            nib_json_text(json, "note", weight->note);
            nib_json_close(json);
        }
        nib_json_close(json);
        nib_json_object(json, "metadata");
        for (size_t i = 0; i + 1 < file->metadata_count; i += 2)
            nib_json_text(json, file->metadata[i], file->metadata[i + 1]);
        nib_json_close(json);
        nib_json_end(json);
    }
    if (fclose(stream) != 0 && status == NIB_OK) status = nib_fail(error, NIB_ENOMEM, "out of memory");
    if (status == NIB_OK) fwrite(text, 1, size, stdout);
    free(text);
    return status;
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    const struct arguments *arguments = call->options;
    struct inspection inspection = {0};
    enum nib_packing packing = arguments->packed     ? NIB_PACKED
                               : arguments->unpacked ? NIB_UNPACKED
                                                     : NIB_PACKING_UNSAID;
    if (arguments->packed && arguments->unpacked)
        return nib_fail(error, NIB_EINVAL, "--packed and --unpacked exclude each other");
    if (packing != NIB_PACKING_UNSAID && arguments->dtype == NULL)
        return nib_fail(error, NIB_EINVAL, "--packed and --unpacked need --dtype");
    enum nib_status status = NIB_OK;
    if (arguments->dtype != NULL) {
        status = nib_decoder_open(arguments->dtype, packing, &inspection.decoder, error);
        if (status != NIB_OK) return status;
        inspection.decodes = true;
    }
    status = nib_locator_open(call->values[0], false, &inspection.file, &inspection.indices, &inspection.count, error);
    if (status == NIB_OK)
        status = nib_stored_weights_find(inspection.file, &inspection.weights, &inspection.weight_count, error);
    if (status == NIB_OK)
        status = call->common.json ? print_json(call, &inspection, arguments->values, error)
                                   : print_text(call, &inspection, arguments->values, error);
    for (size_t i = 0; i < inspection.weight_count; i++)
        if (inspection.weights[i].problem[0] != '\0') call->check_failed = true;
    nib_stored_weights_free(inspection.weights, inspection.weight_count);
    free(inspection.indices);
    nib_file_close(inspection.file);
    nib_decoder_close(&inspection.decoder);
    return status;
}

NIB_COMMAND(inspect) = {
    .values = "FILE[:tensor]",
    .least = 1,
    .most = 1,
    .description =
        "Lists the tensors of a file (.safetensors, a shard index or a folder with one, .npy, .npz, .gguf, .h5; told apart "
        "by content) with types, shapes and sizes. Where tensors belong together as an FP4 weight, in the manner of "
        "compressed-tensors, ModelOpt, TransformerEngine, torchao, gpt-oss or GGUF, it says which convention that is and how "
        "a value is decoded; parts whose shapes do not fit make the exit code 1. Of a result file of nibble it shows where "
        "the result comes from.\n\n"
        "Shapes are shown as the file says them. Where storage counts bytes and a byte holds two values, the shape of the "
        "values stands beside it.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct arguments),
    .takes = NIB_TAKES_JSON,
    .examples = examples,
    .run = run,
};
