/* The public face of the readers: recognise, find, view. */
#include <nibble/tensor.h>

#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/suggest.h"
#include "io/entry.h"
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the readers view little-endian files in place; a big-endian machine needs conversions that are not here"
#endif

typedef enum nib_status reader(struct nib_file *file, struct nib_error *error);

static bool starts(const struct nib_mapping *mapping, const char *magic, size_t length) {
    return mapping->size >= length && memcmp(mapping->data, magic, length) == 0;
}

/* JSON text: '{' first, and no NUL soon after, which a safetensors header length always has. */
static bool looks_like_json(const struct nib_mapping *mapping) {
    size_t i = 0, limit = mapping->size < 4096 ? (size_t)mapping->size : 4096;
    while (i < limit && memchr(" \t\r\n", mapping->data[i], 4) != NULL) i++;
    return i < limit && mapping->data[i] == '{' && memchr(mapping->data, 0, limit < i + 8 ? limit : i + 8) == NULL;
}

/* The signature stands at the start, or after a user block of 512, 1024, 2048, ... bytes. */
static bool looks_like_hdf5(const struct nib_mapping *mapping) {
    static const char signature[] = "\x89HDF\r\n\x1a\n";
    for (uint64_t at = 0; at + 8 <= mapping->size; at = at == 0 ? 512 : 2 * at)
        if (memcmp(mapping->data + at, signature, 8) == 0) return true;
    return false;
}

static enum nib_status recognise(const struct nib_mapping *mapping, reader **out, struct nib_error *error) {
    if (starts(mapping, "\x93NUMPY", 6)) {
        *out = nib_npy_read;
    } else if (starts(mapping, "PK\x03\x04", 4) || starts(mapping, "PK\x05\x06", 4)) {
        *out = nib_npz_read;
    } else if (starts(mapping, "GGUF", 4)) {
        *out = nib_gguf_read;
    } else if (looks_like_hdf5(mapping)) {
        *out = nib_hdf5_read;
    } else if (looks_like_json(mapping)) {
        *out = nib_shards_read;
    } else if (starts(mapping, "\x80", 1) && mapping->size > 1 && mapping->data[1] >= 2 && mapping->data[1] <= 5 &&
               (mapping->size < 9 || mapping->data[8] != '{')) {
        return nib_fail_at(error, NIB_ESYNTAX, mapping->path, 0, "is a Python pickle, which is not read; convert it to "
                                                                 ".safetensors");
    } else if (mapping->size < 8 || (mapping->size > 8 && mapping->data[8] == '{') ||
               (mapping->size == 8 && mapping->data[6] == 0 && mapping->data[7] == 0)) {
        *out = nib_safetensors_read;
    } else {
        return nib_fail_at(error, NIB_ESYNTAX, mapping->path, 0,
                           "is in no format that is read (.safetensors, its shard index, .npy, .npz, .gguf, .h5); "
                           "numpy.save makes an .npy of raw bytes");
    }
    return NIB_OK;
}

/* A folder stands for the model in it. */
static char *path_in_folder(const char *path, struct nib_error *error) {
    static const char *const names[] = {"model.safetensors.index.json", "model.safetensors"};
    struct stat about;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(path);
        char *full = nib_alloc(length + strlen(names[i]) + 2, 1, path, error);
        if (full == NULL) return NULL;
        memcpy(full, path, length);
        full[length] = '/';
        strcpy(full + length + 1, names[i]);
        if (stat(full, &about) == 0) return full;
        free(full);
    }
    nib_fail_at(error, NIB_EIO, path, 0, "is a directory without model.safetensors.index.json or model.safetensors");
    return NULL;
}

static enum nib_status no_tensor(const struct nib_file *file, size_t i, struct nib_error *error) {
    return nib_fail_at(error, NIB_EINVAL, file->path, 0, "has no tensor number %zu; there are %zu", i, file->count);
}

enum nib_status nib_file_open(const char *path, struct nib_file **out, struct nib_error *error) {
    struct stat about;
    struct nib_mapping *mapping = NULL;
    reader *read = NULL;
    if (path == NULL || out == NULL) return nib_fail(error, NIB_EINVAL, "the name of the file or the result is NULL");
    enum nib_status status = NIB_OK;
    struct nib_file *file = nib_alloc(1, sizeof *file, path, error);
    if (file == NULL) return NIB_ENOMEM;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        file->path = path_in_folder(path, error);
        if (file->path == NULL) status = NIB_EIO;
    } else if ((file->path = strdup(path)) == NULL) {
        status = nib_fail_at(error, NIB_ENOMEM, path, 0, "out of memory");
    }
    if (status == NIB_OK) status = nib_mapping_open(file->path, &mapping, error);
    if (status == NIB_OK) status = nib_file_adopt(file, mapping, error);
    if (status == NIB_OK) status = recognise(mapping, &read, error);
    if (status == NIB_OK) status = read(file, error);
    if (status != NIB_OK) {
        nib_file_close(file);
        return status;
    }
    *out = file;
    return NIB_OK;
}

void nib_file_close(struct nib_file *file) {
    if (file == NULL) return;
    for (size_t i = 0; i < file->count; i++) {
        free(file->entries[i].name);
        free(file->entries[i].owned);
        free(file->entries[i].cast);
    }
    for (size_t i = 0; i < file->metadata_count; i++) free(file->metadata[i]);
    for (size_t i = 0; i < file->mapping_count; i++) nib_mapping_close(file->mappings[i]);
    free(file->entries);
    free(file->metadata);
    free(file->mappings);
    free(file->path);
    free(file);
}

void nib_file_release(const struct nib_file *file, const void *data, uint64_t bytes) {
    for (size_t i = 0; i < file->mapping_count; i++) nib_mapping_release(file->mappings[i], data, bytes);
}

size_t nib_file_count(const struct nib_file *file) { return file->count; }

void nib_file_tensor(const struct nib_file *file, size_t i, struct nib_tensor_info *out) {
    *out = (struct nib_tensor_info){.name = "", .dtype = "", .path = ""};
    if (i >= file->count) return;
    const struct nib_entry *entry = &file->entries[i];
    *out = (struct nib_tensor_info){.name = entry->name, .dtype = entry->dtype, .rank = entry->rank,
                                    .bytes = entry->bytes, .path = entry->path};
    memcpy(out->shape, entry->shape, sizeof out->shape);
}

static const char *name_of(size_t i, const void *context) {
    const struct nib_file *file = context;
    return i < file->count ? file->entries[i].name : NULL;
}

enum nib_status nib_file_find(const struct nib_file *file, const char *name, size_t *out, struct nib_error *error) {
    char shown[80], other[80];
    if (file == NULL || name == NULL || out == NULL)
        return nib_fail(error, NIB_EINVAL, "the file, the name of the tensor or its place is NULL");
    if (name[0] == '\0') {
        if (file->count == 1) {
            *out = 0;
            return NIB_OK;
        }
        if (file->count == 0) return nib_fail_at(error, NIB_ENOTFOUND, file->path, 0, "holds no tensor");
        return nib_fail_at(error, NIB_ENOTFOUND, file->path, 0, "holds %zu tensors; name one, as in FILE:%s",
                           file->count, nib_printable(file->entries[0].name, shown));
    }
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->entries[i].name, name) == 0) {
            *out = i;
            return NIB_OK;
        }
    const char *nearest = nib_suggest(name, name_of, file);
    if (nearest == NULL || nearest[0] == '\0')
        return nib_fail_at(error, NIB_ENOTFOUND, file->path, 0, "has no tensor \"%s\"", nib_printable(name, shown));
    return nib_fail_at(error, NIB_ENOTFOUND, file->path, 0, "has no tensor \"%s\"; did you mean \"%s\"?",
                       nib_printable(name, shown), nib_printable(nearest, other));
}

enum nib_status nib_file_match(const struct nib_file *file, const char *glob, size_t **indices, size_t *count,
                               struct nib_error *error) {
    char shown[80];
    size_t *found = nib_alloc_raw(file->count, sizeof *found, file->path, error), found_count = 0;
    if (found == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(glob, file->entries[i].name) == 0 || fnmatch(glob, file->entries[i].name, FNM_NOESCAPE) == 0)
            found[found_count++] = i;
    if (found_count == 0) {
        size_t ignored;
        free(found);
        if (glob[strcspn(glob, "*?[")] == '\0') return nib_file_find(file, glob, &ignored, error);
        return nib_fail_at(error, NIB_ENOTFOUND, file->path, 0, "no tensor name matches \"%s\"",
                           nib_printable(glob, shown));
    }
    *indices = found;
    *count = found_count;
    return NIB_OK;
}

/* Column-major to row-major: walk the source in order and keep the target offset by an odometer. */
static void reorder(const struct nib_entry *entry, const uint8_t *from, uint8_t *to) {
    uint64_t step[NIB_ENTRY_RANK], position[NIB_ENTRY_RANK] = {0}, offset = 0, product = 1;
    for (unsigned i = entry->rank; i-- > 0;) {
        step[i] = product;
        product *= entry->shape[i];
    }
    for (uint64_t n = 0; n < entry->elements; n++) {
        memcpy(to + offset * entry->item_bytes, from + n * entry->item_bytes, entry->item_bytes);
        for (unsigned i = 0; i < entry->rank; i++) {
            offset += step[i];
            if (++position[i] < entry->shape[i]) break;
            offset -= step[i] * entry->shape[i];
            position[i] = 0;
        }
    }
}

/* The bytes in row-major order; in a copy where the file has them otherwise, or at an odd address. */
static enum nib_status fetch(struct nib_file *file, struct nib_entry *entry, size_t alignment, const uint8_t **out,
                             struct nib_error *error) {
    if (entry->owned == NULL && entry->data == NULL && file->load != NULL) {
        enum nib_status status = file->load(file, entry, error);
        if (status != NIB_OK) return status;
    }
    const uint8_t *source = entry->owned != NULL ? entry->owned : entry->data;
    bool must_reorder = entry->fortran_order && entry->rank > 1;
    if (must_reorder || (uintptr_t)source % alignment != 0) {
        uint8_t *copy = nib_alloc_raw((size_t)entry->bytes, 1, "copy of a tensor", error);
        if (copy == NULL) return NIB_ENOMEM;
        if (must_reorder)
            reorder(entry, source, copy);
        else
            memcpy(copy, source, (size_t)entry->bytes);
        entry->fortran_order = false;
        free(entry->owned);
        entry->owned = copy;
        source = copy;
    }
    *out = source;
    return NIB_OK;
}

static enum nib_status cast(struct nib_entry *entry, const uint8_t *bytes, struct nib_error *error) {
    if (entry->cast != NULL) return NIB_OK;
    float *values = nib_alloc_raw((size_t)entry->elements, sizeof *values, "binary32 copy of a tensor", error);
    if (values == NULL) return NIB_ENOMEM;
    struct nib_fpenv saved = nib_fpenv_enter();
    for (uint64_t i = 0; i < entry->elements; i++) {
        double value;
        memcpy(&value, bytes + 8 * i, 8);
        values[i] = (float)value;
    }
    nib_fpenv_leave(saved);
    entry->cast = values;
    return NIB_OK;
}

enum nib_status nib_file_view(struct nib_file *file, size_t i, bool cast_f64, struct nib_view *out,
                              struct nib_error *error) {
    if (file == NULL || out == NULL) return nib_fail(error, NIB_EINVAL, "the file or the view is NULL");
    if (i >= file->count) return no_tensor(file, i, error);
    struct nib_entry *entry = &file->entries[i];
    char name[80], shown[96] = "the array";
    const uint8_t *bytes;
    if (entry->name[0] != '\0') snprintf(shown, sizeof shown, "tensor \"%s\"", nib_printable(entry->name, name));
    if (entry->storage == NIB_STORED_F64 && !cast_f64)
        return nib_fail_at(error, NIB_EINVAL, entry->path, 0,
                           "%s is binary64 (%s); it is rounded to binary32 only with --cast fp32", shown,
                           entry->dtype);
    if (entry->storage == NIB_STORED_BYTES && (strcmp(entry->dtype + 1, "V1") == 0 || strcmp(entry->dtype, "<f1") == 0))
        return nib_fail_at(error, NIB_EINVAL, entry->path, 0,
                           "%s: dtype %s may be any 8-bit or 4-bit type of ml_dtypes; say which with --dtype "
                           "and --packed or --unpacked",
                           shown, entry->dtype);
    if (entry->storage == NIB_STORED_BYTES)
        return nib_fail_at(error, NIB_EINVAL, entry->path, 0,
                           "%s has dtype %s; expected fp32, bf16 or fp16 values", shown, entry->dtype);
    enum nib_status status = fetch(file, entry, entry->item_bytes, &bytes, error);
    if (status == NIB_OK && entry->storage == NIB_STORED_F64) status = cast(entry, bytes, error);
    if (status != NIB_OK) return status;
    struct nib_view view = {.data = entry->storage == NIB_STORED_F64 ? (const void *)entry->cast : bytes,
                            .dtype = entry->storage == NIB_STORED_BF16  ? NIB_BF16
                                     : entry->storage == NIB_STORED_F16 ? NIB_F16
                                                                        : NIB_F32};
    view.cols = entry->rank == 0 ? 1 : (size_t)entry->shape[entry->rank - 1];
    view.rows = entry->elements == 0 ? 0 : (size_t)(entry->elements / view.cols);
    view.stride = view.cols;
    *out = view;
    return NIB_OK;
}

enum nib_status nib_file_bytes(struct nib_file *file, size_t i, const void **data, uint64_t *bytes,
                               struct nib_error *error) {
    const uint8_t *source;
    if (i >= file->count) return no_tensor(file, i, error);
    enum nib_status status = fetch(file, &file->entries[i], 1, &source, error);
    if (status != NIB_OK) return status;
    *data = source;
    *bytes = file->entries[i].bytes;
    return NIB_OK;
}
