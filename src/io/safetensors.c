/* .safetensors: a little-endian 64-bit header length, a JSON object, and the bytes of all tensors without a gap. */
#include "io/entry.h"

#include "base/error.h"
#include "base/memory.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_HEADER = 100000000 };

static const struct dtype {
    const char *name;
    unsigned bits;
    enum nib_storage storage;
} dtypes[] = {
    {"BOOL", 8, NIB_STORED_BYTES},        {"F4", 4, NIB_STORED_BYTES},          {"F6_E2M3", 6, NIB_STORED_BYTES},
    {"F6_E3M2", 6, NIB_STORED_BYTES},     {"U8", 8, NIB_STORED_BYTES},          {"I8", 8, NIB_STORED_BYTES},
    {"F8_E5M2", 8, NIB_STORED_BYTES},     {"F8_E4M3", 8, NIB_STORED_BYTES},     {"F8_E8M0", 8, NIB_STORED_BYTES},
    {"F8_E4M3FNUZ", 8, NIB_STORED_BYTES}, {"F8_E5M2FNUZ", 8, NIB_STORED_BYTES}, {"I16", 16, NIB_STORED_BYTES},
    {"U16", 16, NIB_STORED_BYTES},        {"F16", 16, NIB_STORED_F16},          {"BF16", 16, NIB_STORED_BF16},
    {"I32", 32, NIB_STORED_BYTES},        {"U32", 32, NIB_STORED_BYTES},        {"F32", 32, NIB_STORED_F32},
    {"C64", 64, NIB_STORED_BYTES},        {"F64", 64, NIB_STORED_F64},          {"I64", 64, NIB_STORED_BYTES},
    {"U64", 64, NIB_STORED_BYTES},
};

static uint64_t load_u64(const uint8_t *bytes) {
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--) value = value << 8 | bytes[i];
    return value;
}

static bool read_count(const json_t *value, uint64_t *out) {
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static enum nib_status read_metadata(struct nib_file *file, json_t *object, struct nib_error *error) {
    const char *path = file->mappings[file->mapping_count - 1]->path, *key;
    json_t *value;
    if (!json_is_object(object))
        return nib_fail_at(error, NIB_ESYNTAX, path, 0, "__metadata__ is not an object of strings");
    json_object_foreach(object, key, value) {
        if (!json_is_string(value))
            return nib_fail_at(error, NIB_ESYNTAX, path, 0, "__metadata__ is not an object of strings");
        enum nib_status status = nib_file_add_metadata(file, key, json_string_value(value), error);
        if (status != NIB_OK) return status;
    }
    return NIB_OK;
}

static enum nib_status read_tensor(struct nib_file *file, const struct nib_mapping *mapping, uint64_t start,
                                   const char *name, const json_t *object, struct nib_error *error) {
    char shown[80];
    const char *path = mapping->path;
    nib_printable(name, shown);
    if (!json_is_object(object))
        return nib_fail_at(error, NIB_ESYNTAX, path, 0, "tensor \"%s\" is not described by a JSON object", shown);
    const json_t *dtype_json = json_object_get(object, "dtype"), *shape = json_object_get(object, "shape"),
                 *offsets = json_object_get(object, "data_offsets");
    if (!json_is_string(dtype_json))
        return nib_fail_at(error, NIB_ESYNTAX, path, 0, "tensor \"%s\" has no \"dtype\" string", shown);
    const struct dtype *dtype = NULL;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, json_string_value(dtype_json)) == 0) dtype = &dtypes[i];
    if (dtype == NULL) {
        char value[80];
        return nib_fail_at(error, NIB_ESYNTAX, path, 0, "tensor \"%s\" has the unknown dtype \"%s\"", shown,
                           nib_printable(json_string_value(dtype_json), value));
    }
    if (!json_is_array(shape))
        return nib_fail_at(error, NIB_ESYNTAX, path, 0, "tensor \"%s\" has no \"shape\" array", shown);
    if (json_array_size(shape) > NIB_ENTRY_RANK)
        return nib_fail_at(error, NIB_ESYNTAX, path, 0, "tensor \"%s\" has %zu dimensions; at most %d are supported",
                           shown, json_array_size(shape), NIB_ENTRY_RANK);
    struct nib_entry *entry = nib_file_add(file, name, path, error);
    if (entry == NULL) return NIB_ENOMEM;
    strcpy(entry->dtype, dtype->name);
    entry->storage = dtype->storage;
    entry->item_bytes = dtype->bits % 8 == 0 ? dtype->bits / 8 : 0;
    entry->rank = (unsigned)json_array_size(shape);
    for (unsigned i = 0; i < entry->rank; i++)
        if (!read_count(json_array_get(shape, i), &entry->shape[i]))
            return nib_fail_at(error, NIB_ESYNTAX, path, 0,
                               "tensor \"%s\": dimension %u of the shape is not a non-negative integer", shown, i);
    uint64_t bits, begin, end;
    if (!nib_entry_count(entry) || __builtin_mul_overflow(entry->elements, dtype->bits, &bits))
        return nib_fail_at(error, NIB_EINCONSISTENT, path, 0, "tensor \"%s\": the shape overflows 64 bits", shown);
    if (bits % 8 != 0)
        return nib_fail_at(error, NIB_EINCONSISTENT, path, 0, "tensor \"%s\": %llu values of %s do not fill whole bytes",
                           shown, (unsigned long long)entry->elements, dtype->name);
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 || !read_count(json_array_get(offsets, 0), &begin) ||
        !read_count(json_array_get(offsets, 1), &end))
        return nib_fail_at(error, NIB_ESYNTAX, path, 0,
                           "tensor \"%s\": \"data_offsets\" is not an array of two non-negative integers", shown);
    uint64_t available = mapping->size - start;
    if (begin > end)
        return nib_fail_at(error, NIB_EINCONSISTENT, path, 0, "tensor \"%s\" ends at %llu before it begins at %llu", shown,
                           (unsigned long long)end, (unsigned long long)begin);
    if (end > available)
        return nib_fail_at(error, NIB_EINCONSISTENT, path, 0,
                           "is truncated: tensor \"%s\" ends at byte %llu of the data, of which there are %llu", shown,
                           (unsigned long long)end, (unsigned long long)available);
    if (end - begin != bits / 8)
        return nib_fail_at(error, NIB_EINCONSISTENT, path, 0,
                           "tensor \"%s\" takes %llu bytes, but its shape and dtype %s need %llu", shown,
                           (unsigned long long)(end - begin), dtype->name, (unsigned long long)(bits / 8));
    entry->bytes = end - begin;
    entry->data = mapping->data + start + begin;
    return NIB_OK;
}

/* Entries by place in the data; an empty tensor comes before the one that starts at the same byte. */
static int by_place(const void *left, const void *right) {
    const struct nib_entry *a = *(const struct nib_entry *const *)left, *b = *(const struct nib_entry *const *)right;
    if (a->data != b->data) return a->data < b->data ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static enum nib_status check_coverage(const struct nib_file *file, const struct nib_mapping *mapping, size_t first,
                                      uint64_t start, struct nib_error *error) {
    size_t count = file->count - first;
    const struct nib_entry **order = nib_alloc_raw(count, sizeof *order, mapping->path, error);
    if (order == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < count; i++) order[i] = &file->entries[first + i];
    qsort(order, count, sizeof *order, by_place);
    const uint8_t *at = mapping->data + start, *end = mapping->data + mapping->size;
    enum nib_status status = NIB_OK;
    char shown[80], other[80];
    for (size_t i = 0; i < count && status == NIB_OK; i++) {
        if (order[i]->data < at)
            status = nib_fail_at(error, NIB_EINCONSISTENT, mapping->path, 0, "tensors \"%s\" and \"%s\" overlap",
                                 nib_printable(order[i - 1]->name, other), nib_printable(order[i]->name, shown));
        else if (order[i]->data > at)
            status = nib_fail_at(error, NIB_EINCONSISTENT, mapping->path, 0,
                                 "%llu bytes before tensor \"%s\" belong to no tensor",
                                 (unsigned long long)(order[i]->data - at), nib_printable(order[i]->name, shown));
        at = order[i]->data + order[i]->bytes;
    }
    if (status == NIB_OK && at != end)
        status = nib_fail_at(error, NIB_EINCONSISTENT, mapping->path, 0, "%llu bytes at the end belong to no tensor",
                             (unsigned long long)(end - at));
    free(order);
    return status;
}

enum nib_status nib_safetensors_read(struct nib_file *file, struct nib_error *error) {
    const struct nib_mapping *mapping = file->mappings[file->mapping_count - 1];
    const char *path = mapping->path;
    file->kind = "safetensors";
    if (mapping->size < 8) return nib_fail_at(error, NIB_ESYNTAX, path, 0, "is truncated: shorter than 8 bytes");
    uint64_t length = load_u64(mapping->data);
    if (length > LARGEST_HEADER)
        return nib_fail_at(error, NIB_ESYNTAX, path, 0, "header of %llu bytes is larger than the %d that are allowed",
                           (unsigned long long)length, LARGEST_HEADER);
    if (length > mapping->size - 8)
        return nib_fail_at(error, NIB_ESYNTAX, path, 0, "is truncated: the header needs %llu bytes, %llu are there",
                           (unsigned long long)length, (unsigned long long)(mapping->size - 8));
    if (length == 0 || mapping->data[8] != '{')
        return nib_fail_at(error, NIB_ESYNTAX, path, 0, "the header is not a JSON object");
    json_error_t why;
    json_t *header = json_loadb((const char *)mapping->data + 8, (size_t)length, JSON_REJECT_DUPLICATES, &why);
    if (header == NULL) {
        char text[80];
        return nib_fail_at(error, NIB_ESYNTAX, path, 0, "header: %s (at its byte %d)", nib_printable(why.text, text),
                           why.position);
    }
    enum nib_status status = NIB_OK;
    size_t first = file->count;
    if (!json_is_object(header)) status = nib_fail_at(error, NIB_ESYNTAX, path, 0, "the header is not a JSON object");
    const char *name;
    json_t *value;
    if (status == NIB_OK) json_object_foreach(header, name, value) {
        status = strcmp(name, "__metadata__") == 0 ? read_metadata(file, value, error)
                                                   : read_tensor(file, mapping, 8 + length, name, value, error);
        if (status != NIB_OK) break;
    }
    json_decref(header);
    if (status == NIB_OK) status = check_coverage(file, mapping, first, 8 + length, error);
    return status;
}
