/* The result of nibble inspect as JSON. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "cli/inspect.h"
#include "cli/output.h"
#include "io/json_out.h"

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

static enum nib_status json_tensor(struct nib_json *json, const struct nib_inspection *inspection, size_t i,
                                   int64_t limit, struct nib_error *error) {
    const struct nib_entry *entry = &inspection->file->entries[i];
    uint64_t shape[NIB_ENTRY_RANK];
    unsigned rank;
    uint64_t values = nib_inspection_shape(inspection, i, &rank, shape);
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
        status = nib_inspection_first(inspection, i, (uint64_t)limit, &codes, &first, &count, error);
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

enum nib_status nib_inspection_json(const struct nib_call *call, const struct nib_inspection *inspection, int64_t limit,
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
