/* What nibble inspect shows: tensors, FP4 weights and first values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "cli/inspect.h"
#include "core/widen.h"

uint64_t nib_inspection_shape(const struct nib_inspection *inspection, size_t i, unsigned *rank,
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
        length +=
            (size_t)snprintf(out + length, 192 - length, "%s%llu", i == 0 ? "" : "x", (unsigned long long)shape[i]);
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

enum nib_status nib_inspection_tensors(const struct nib_inspection *inspection, bool whole, struct nib_table **out,
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
        nib_table_set_integer(table, row, 4,
                              (int64_t)nib_inspection_shape(inspection, inspection->indices[i], &rank, shape));
        nib_table_set_text(table, row, 3, shape_text(rank, shape, text));
        nib_table_set_integer(table, row, 5, (int64_t)entry->bytes);
        nib_table_set_text(table, row, 6, entry->path);
    }
    *out = table;
    return NIB_OK;
}

enum nib_status nib_inspection_weights(const struct nib_inspection *inspection, struct nib_table **out,
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

enum nib_status nib_inspection_first(const struct nib_inspection *inspection, size_t i, uint64_t limit, uint8_t **codes,
                                     float **values, size_t *count, struct nib_error *error) {
    uint64_t shape[NIB_ENTRY_RANK], total;
    unsigned rank;
    struct nib_view view;
    const void *bytes;
    uint64_t size;
    const struct nib_entry *entry = &inspection->file->entries[i];
    total = nib_inspection_shape(inspection, i, &rank, shape);
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

enum nib_status nib_inspection_values(const struct nib_inspection *inspection, uint64_t limit, struct nib_table **out,
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
        status = nib_inspection_first(inspection, inspection->indices[i], limit, &codes, &values, &count, error);
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
