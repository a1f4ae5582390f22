#include "io/tokens.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/locator.h"
#include "io/mapping.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every array format that is read has a NUL this early. */
static bool is_text(const struct nib_mapping *mapping) {
    size_t count = mapping->size < 64 ? (size_t)mapping->size : 64;
    return memchr(mapping->data, 0, count) == NULL;
}

static enum nib_status refuse(const char *path, size_t at, uint64_t id, unsigned vocabulary, struct nib_error *error) {
    return nib_fail_at(error, NIB_EINCONSISTENT, path, 0, "token %zu is %llu; the vocabulary has %u", at,
                       (unsigned long long)id, vocabulary);
}

static enum nib_status read_text(const char *path, unsigned vocabulary, struct nib_tokens *out,
                                 struct nib_error *error) {
    struct nib_mapping *mapping;
    enum nib_status status = nib_mapping_open(path, &mapping, error);
    if (status != NIB_OK) return status;
    size_t count = (size_t)mapping->size;
    uint32_t *ids = nib_alloc_raw(count, sizeof *ids, "tokens", error);
    if (ids == NULL) status = NIB_ENOMEM;
    for (size_t i = 0; i < count && status == NIB_OK; i++) {
        ids[i] = mapping->data[i];
        if (ids[i] >= vocabulary) status = refuse(path, i, ids[i], vocabulary, error);
    }
    nib_mapping_close(mapping);
    if (status != NIB_OK) {
        free(ids);
        return status;
    }
    *out = (struct nib_tokens){1, count, ids};
    return NIB_OK;
}

/* Bytes of an integer type, and whether it has a sign; 0 for any other. */
static unsigned integer_bytes(const char *dtype, bool *is_signed) {
    static const struct {
        const char *name;
        unsigned bytes;
        bool is_signed;
    } types[] = {{"U8", 1, false},  {"U16", 2, false}, {"U32", 4, false}, {"U64", 8, false},
                 {"I8", 1, true},   {"I16", 2, true},  {"I32", 4, true},  {"I64", 8, true},
                 {"|u1", 1, false}, {"<u2", 2, false}, {"<u4", 4, false}, {"<u8", 8, false},
                 {"|i1", 1, true},  {"<i2", 2, true},  {"<i4", 4, true},  {"<i8", 8, true}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(dtype, types[i].name) == 0) {
            *is_signed = types[i].is_signed;
            return types[i].bytes;
        }
    return 0;
}

static enum nib_status fill(const struct nib_tensor_info *info, const uint8_t *data, unsigned bytes, bool is_signed,
                            unsigned vocabulary, uint32_t *ids, size_t count, struct nib_error *error) {
    for (size_t i = 0; i < count; i++) {
        uint64_t id = 0;
        memcpy(&id, data + i * bytes, bytes);
        if (is_signed && (data[i * bytes + bytes - 1] & 0x80) != 0)
            return nib_fail_at(error, NIB_EINCONSISTENT, info->path, 0, "token %zu is negative", i);
        if (id >= vocabulary) return refuse(info->path, i, id, vocabulary, error);
        ids[i] = (uint32_t)id;
    }
    return NIB_OK;
}

static enum nib_status read_tensor(struct nib_file *file, size_t at, unsigned vocabulary, struct nib_tokens *out,
                                   struct nib_error *error) {
    struct nib_tensor_info info;
    const void *data;
    uint64_t size;
    bool is_signed;
    nib_file_tensor(file, at, &info);
    unsigned bytes = integer_bytes(info.dtype, &is_signed);
    if (bytes == 0)
        return nib_fail_at(error, NIB_EINVAL, info.path, 0, "tensor \"%.80s\" has dtype %s; tokens are integers",
                           info.name, info.dtype);
    if (info.rank < 1 || info.rank > 2)
        return nib_fail_at(error, NIB_EINVAL, info.path, 0,
                           "tensor \"%.80s\" has %u dimensions; tokens have one or two", info.name, info.rank);
    enum nib_status status = nib_file_bytes(file, at, &data, &size, error);
    if (status != NIB_OK) return status;
    size_t count = (size_t)(size / bytes);
    uint32_t *ids = nib_alloc_raw(count, sizeof *ids, "tokens", error);
    if (ids == NULL) return NIB_ENOMEM;
    status = fill(&info, data, bytes, is_signed, vocabulary, ids, count, error);
    if (status != NIB_OK) {
        free(ids);
        return status;
    }
    size_t cols = (size_t)info.shape[info.rank - 1];
    *out = (struct nib_tokens){info.rank == 1 ? 1 : (size_t)info.shape[0], cols, ids};
    return NIB_OK;
}

enum nib_status nib_tokens_read(const char *locator, unsigned vocabulary, struct nib_tokens *out,
                                struct nib_error *error) {
    struct nib_locator parts;
    struct nib_mapping *mapping;
    enum nib_status status = nib_locator_parse(locator, &parts, error);
    if (status != NIB_OK) return status;
    bool text = parts.tensor[0] == '\0';
    if (text && (status = nib_mapping_open(parts.path, &mapping, error)) == NIB_OK) {
        text = is_text(mapping);
        nib_mapping_close(mapping);
    }
    if (status == NIB_OK && text) {
        status = read_text(parts.path, vocabulary, out, error);
    } else if (status == NIB_OK) {
        struct nib_file *file;
        size_t *indices, count;
        status = nib_locator_open(locator, true, &file, &indices, &count, error);
        if (status == NIB_OK) {
            status = read_tensor(file, indices[0], vocabulary, out, error);
            free(indices);
            nib_file_close(file);
        }
    }
    nib_locator_free(&parts);
    return status;
}

void nib_tokens_clear(struct nib_tokens *tokens) {
    free(tokens->ids);
    *tokens = (struct nib_tokens){0};
}

enum nib_status nib_tokens_sequences(const struct nib_tokens *tokens, size_t sequences, size_t length, uint32_t **out,
                                     struct nib_error *error) {
    size_t size = length + 1;
    if (sequences == 0 || length == 0)
        return nib_fail(error, NIB_EINVAL, "no tokens: %zu sequences of %zu", sequences, length);
    bool fits = tokens->rows == 1 ? tokens->cols >= 1 && (tokens->cols - 1) / length >= sequences
                                  : tokens->rows >= sequences && tokens->cols >= size;
    if (!fits)
        return nib_fail(error, NIB_EINVAL,
                        "%zu sequences of %zu tokens and the target of the last need more than there is (%zu x %zu)",
                        sequences, length, tokens->rows, tokens->cols);
    uint32_t *ids = nib_alloc_raw(sequences * size, sizeof *ids, "tokens", error);
    if (ids == NULL) return NIB_ENOMEM;
    for (size_t s = 0; s < sequences; s++)
        memcpy(ids + s * size, tokens->ids + s * (tokens->rows == 1 ? length : tokens->cols), size * sizeof *ids);
    *out = ids;
    return NIB_OK;
}
