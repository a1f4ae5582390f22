/* GGUF, versions 2 and 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): key-value pairs, tensor
 * descriptions, and aligned data. Floats can be viewed; block-quantized tensors are read as bytes. */
#include "io/entry.h"

#include "base/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct block_type {
    uint32_t number;
    const char *name;
    unsigned values, bytes;      /* of one block */
    enum nib_storage storage;
} types[] = {
    {0, "F32", 1, 4, NIB_STORED_F32},    {1, "F16", 1, 2, NIB_STORED_F16}, {2, "Q4_0", 32, 18, 0},
    {3, "Q4_1", 32, 20, 0},              {6, "Q5_0", 32, 22, 0},           {7, "Q5_1", 32, 24, 0},
    {8, "Q8_0", 32, 34, 0},              {10, "Q2_K", 256, 84, 0},         {11, "Q3_K", 256, 110, 0},
    {12, "Q4_K", 256, 144, 0},           {13, "Q5_K", 256, 176, 0},        {14, "Q6_K", 256, 210, 0},
    {16, "IQ2_XXS", 256, 66, 0},         {17, "IQ2_XS", 256, 74, 0},       {18, "IQ3_XXS", 256, 98, 0},
    {19, "IQ1_S", 256, 50, 0},           {20, "IQ4_NL", 32, 18, 0},        {21, "IQ3_S", 256, 110, 0},
    {22, "IQ2_S", 256, 82, 0},           {23, "IQ4_XS", 256, 136, 0},      {24, "I8", 1, 1, 0},
    {25, "I16", 1, 2, 0},                {26, "I32", 1, 4, 0},             {27, "I64", 1, 8, 0},
    {28, "F64", 1, 8, NIB_STORED_F64},   {29, "IQ1_M", 256, 56, 0},        {30, "BF16", 1, 2, NIB_STORED_BF16},
    {34, "TQ1_0", 256, 54, 0},           {35, "TQ2_0", 256, 66, 0},        {39, "MXFP4", 32, 17, 0},
    {40, "NVFP4", 64, 36, 0},            {41, "Q1_0", 128, 18, 0},
};

enum value_type { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, VALUE_TYPES };
static const unsigned char value_bytes[VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

struct cursor {
    const uint8_t *data;
    uint64_t at, size;
    const char *path;
    struct nib_error *error;
};

static enum nib_status truncated(const struct cursor *cursor) {
    return nib_fail_at(cursor->error, NIB_ESYNTAX, cursor->path, 0, "is truncated: the GGUF header goes beyond its %llu bytes",
                       (unsigned long long)cursor->size);
}

/* Little-endian integers of 1 to 8 bytes. */
static bool take(struct cursor *cursor, unsigned bytes, uint64_t *out) {
    uint64_t value = 0;
    if (cursor->size - cursor->at < bytes) return false;
    for (unsigned i = bytes; i-- > 0;) value = value << 8 | cursor->data[cursor->at + i];
    cursor->at += bytes;
    *out = value;
    return true;
}

static bool take_string(struct cursor *cursor, const char **out, uint64_t *length) {
    if (!take(cursor, 8, length) || *length > cursor->size - cursor->at) return false;
    *out = (const char *)cursor->data + cursor->at;
    cursor->at += *length;
    return true;
}

static bool skip_string(struct cursor *cursor) {
    const char *text;
    uint64_t length;
    return take_string(cursor, &text, &length);
}

/* Arrays are skipped; arrays of arrays are legal but nobody writes them. */
static bool skip_array(struct cursor *cursor) {
    uint64_t type, count, bytes;
    if (!take(cursor, 4, &type) || !take(cursor, 8, &count) || type >= VALUE_TYPES || type == ARRAY) return false;
    if (type != STRING) {
        if (__builtin_mul_overflow(count, value_bytes[type], &bytes) || bytes > cursor->size - cursor->at) return false;
        cursor->at += bytes;
        return true;
    }
    for (uint64_t i = 0; i < count; i++)
        if (!skip_string(cursor)) return false;
    return true;
}

/* A scalar as text. */
static bool format_value(uint64_t type, uint64_t bits, char text[64]) {
    int64_t integer = 0;
    float single;
    double real;
    uint32_t low = (uint32_t)bits;
    switch (type) {
    case U8: case U16: case U32: case U64: snprintf(text, 64, "%llu", (unsigned long long)bits); return true;
    case I8: integer = (int8_t)bits; break;
    case I16: integer = (int16_t)bits; break;
    case I32: integer = (int32_t)bits; break;
    case I64: integer = (int64_t)bits; break;
    case BOOL: strcpy(text, bits != 0 ? "true" : "false"); return true;
    case F32: memcpy(&single, &low, 4); snprintf(text, 64, "%.9g", (double)single); return true;
    case F64: memcpy(&real, &bits, 8); snprintf(text, 64, "%.17g", real); return true;
    default: return false;
    }
    snprintf(text, 64, "%lld", (long long)integer);
    return true;
}

static enum nib_status read_pair(struct nib_file *file, struct cursor *cursor, uint64_t *alignment) {
    const char *key, *text;
    uint64_t key_length, type, bits, length;
    if (!take_string(cursor, &key, &key_length) || !take(cursor, 4, &type)) return truncated(cursor);
    if (memchr(key, 0, key_length) != NULL || key_length > 65535)
        return nib_fail_at(cursor->error, NIB_ESYNTAX, cursor->path, 0, "a GGUF key is too long or holds NUL");
    char buffer[64], *name = strndup(key, key_length), *value = NULL;
    enum nib_status status = NIB_OK;
    if (name == NULL) return nib_fail(cursor->error, NIB_ENOMEM, "out of memory");
    if (type >= VALUE_TYPES) {
        char shown[80];
        status = nib_fail_at(cursor->error, NIB_ESYNTAX, cursor->path, 0, "GGUF key \"%s\" has the unknown value type %llu",
                             nib_printable(name, shown), (unsigned long long)type);
    } else if (type == ARRAY) {
        if (!skip_array(cursor)) status = truncated(cursor);
    } else if (type == STRING) {
        if (!take_string(cursor, &text, &length))
            status = truncated(cursor);
        else if ((value = strndup(text, length)) == NULL)
            status = nib_fail(cursor->error, NIB_ENOMEM, "out of memory");
        else
            status = nib_file_add_metadata(file, name, value, cursor->error);
    } else if (!take(cursor, value_bytes[type], &bits)) {
        status = truncated(cursor);
    } else if (format_value(type, bits, buffer)) {
        status = nib_file_add_metadata(file, name, buffer, cursor->error);
        if (strcmp(name, "general.alignment") == 0) *alignment = type == U32 ? bits : 0;
    }
    free(name);
    free(value);
    return status;
}

static enum nib_status read_tensor(struct nib_file *file, struct cursor *cursor) {
    const char *text;
    char shown[80];
    uint64_t length, rank, number, offset, sizes[NIB_ENTRY_RANK];
    if (!take_string(cursor, &text, &length) || !take(cursor, 4, &rank)) return truncated(cursor);
    char *name = strndup(text, length);
    if (name == NULL) return nib_fail(cursor->error, NIB_ENOMEM, "out of memory");
    bool is_text = strlen(name) == length && nib_is_utf8(name);
    struct nib_entry *entry = nib_file_add(file, name, cursor->path, cursor->error);
    nib_printable(name, shown);
    free(name);
    if (entry == NULL) return NIB_ENOMEM;
    if (!is_text)
        return nib_fail_at(cursor->error, NIB_ESYNTAX, cursor->path, 0, "tensor name \"%s\" is not UTF-8 text", shown);
    if (rank > NIB_ENTRY_RANK)
        return nib_fail_at(cursor->error, NIB_ESYNTAX, cursor->path, 0,
                           "tensor \"%s\" has %llu dimensions; at most %d are supported", shown, (unsigned long long)rank,
                           NIB_ENTRY_RANK);
    for (uint64_t i = 0; i < rank; i++)
        if (!take(cursor, 8, &sizes[i])) return truncated(cursor);
    if (!take(cursor, 4, &number) || !take(cursor, 8, &offset)) return truncated(cursor);
    const struct block_type *type = NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == number) type = &types[i];
    if (type == NULL)
        return nib_fail_at(cursor->error, NIB_ESYNTAX, cursor->path, 0, "tensor \"%s\" has the unknown type %llu", shown,
                           (unsigned long long)number);
    strcpy(entry->dtype, type->name);
    entry->storage = type->storage;
    entry->item_bytes = type->values == 1 ? type->bytes : 0;
    entry->rank = (unsigned)rank;
    for (unsigned i = 0; i < entry->rank; i++) entry->shape[i] = sizes[rank - 1 - i]; /* GGUF: fastest first */
    uint64_t row = entry->rank == 0 ? 1 : entry->shape[entry->rank - 1];
    if (!nib_entry_count(entry) || __builtin_mul_overflow(entry->elements / type->values, type->bytes, &entry->bytes))
        return nib_fail_at(cursor->error, NIB_EINCONSISTENT, cursor->path, 0, "tensor \"%s\": the shape overflows 64 bits",
                           shown);
    if (row % type->values != 0)
        return nib_fail_at(cursor->error, NIB_EINCONSISTENT, cursor->path, 0,
                           "tensor \"%s\": rows of %llu values are no whole blocks of %s (%u values)", shown,
                           (unsigned long long)row, type->name, type->values);
    entry->location = (size_t)offset; /* relative; turned into an address once the data start is known */
    return NIB_OK;
}

static int by_name(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static enum nib_status check_names(const struct nib_file *file, struct nib_error *error) {
    char shown[80];
    const char **names = malloc((file->count + 1) * sizeof *names);
    if (names == NULL) return nib_fail(error, NIB_ENOMEM, "out of memory");
    for (size_t i = 0; i < file->count; i++) names[i] = file->entries[i].name;
    qsort(names, file->count, sizeof *names, by_name);
    enum nib_status status = NIB_OK;
    for (size_t i = 1; i < file->count && status == NIB_OK; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = nib_fail_at(error, NIB_ESYNTAX, file->path, 0, "tensor \"%s\" is there twice",
                                 nib_printable(names[i], shown));
    free(names);
    return status;
}

static int by_place(const void *left, const void *right) {
    const struct nib_entry *a = *(const struct nib_entry *const *)left, *b = *(const struct nib_entry *const *)right;
    if (a->location != b->location) return a->location < b->location ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static enum nib_status place(struct nib_file *file, const struct cursor *cursor, uint64_t alignment) {
    char shown[80], other[80];
    const char *path = cursor->path;
    uint64_t start = (cursor->at + alignment - 1) / alignment * alignment;
    uint64_t available = start <= cursor->size ? cursor->size - start : 0;
    const struct nib_entry **order = malloc((file->count + 1) * sizeof *order);
    if (order == NULL) return nib_fail(cursor->error, NIB_ENOMEM, "out of memory");
    enum nib_status status = NIB_OK;
    for (size_t i = 0; i < file->count && status == NIB_OK; i++) {
        struct nib_entry *entry = &file->entries[i];
        order[i] = entry;
        if (entry->location % alignment != 0)
            status = nib_fail_at(cursor->error, NIB_EINCONSISTENT, path, 0,
                                 "tensor \"%s\": offset %zu is no multiple of the alignment %llu",
                                 nib_printable(entry->name, shown), entry->location, (unsigned long long)alignment);
        else if (entry->location > available || entry->bytes > available - entry->location)
            status = nib_fail_at(cursor->error, NIB_EINCONSISTENT, path, 0,
                                 "is truncated: tensor \"%s\" goes beyond the %llu bytes of data",
                                 nib_printable(entry->name, shown), (unsigned long long)available);
        else
            entry->data = cursor->data + (available == 0 ? cursor->size : start + entry->location);
    }
    if (status == NIB_OK) qsort(order, file->count, sizeof *order, by_place);
    for (size_t i = 1; i < file->count && status == NIB_OK; i++)
        if (order[i]->location - order[i - 1]->location < order[i - 1]->bytes)
            status = nib_fail_at(cursor->error, NIB_EINCONSISTENT, path, 0, "tensors \"%s\" and \"%s\" overlap",
                                 nib_printable(order[i - 1]->name, other), nib_printable(order[i]->name, shown));
    free(order);
    return status;
}

enum nib_status nib_gguf_read(struct nib_file *file, struct nib_error *error) {
    const struct nib_mapping *mapping = file->mappings[0];
    struct cursor cursor = {mapping->data, 4, mapping->size, mapping->path, error};
    uint64_t version, tensors, pairs, alignment = 32;
    enum nib_status status = NIB_OK;
    file->kind = "gguf";
    if (!take(&cursor, 4, &version)) return truncated(&cursor);
    if (version != 2 && version != 3)
        return nib_fail_at(error, NIB_ESYNTAX, mapping->path, 0,
                           (version & 0xffff) == 0 ? "is a big-endian GGUF file, which is not read"
                                                   : "GGUF version %llu is not 2 or 3",
                           (unsigned long long)version);
    if (!take(&cursor, 8, &tensors) || !take(&cursor, 8, &pairs)) return truncated(&cursor);
    for (uint64_t i = 0; i < pairs && status == NIB_OK; i++) status = read_pair(file, &cursor, &alignment);
    if (status == NIB_OK && (alignment == 0 || alignment % 8 != 0 || alignment > 1 << 20))
        status = nib_fail_at(error, NIB_ESYNTAX, mapping->path, 0, "general.alignment is not a multiple of 8 up to 1 MiB");
    for (uint64_t i = 0; i < tensors && status == NIB_OK; i++) status = read_tensor(file, &cursor);
    if (status == NIB_OK) status = check_names(file, error);
    if (status == NIB_OK) status = place(file, &cursor, alignment);
    return status;
}
