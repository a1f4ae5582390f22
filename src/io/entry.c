#include "io/entry.h"

#include "base/error.h"
#include <stdlib.h>
#include <string.h>

struct nib_entry *nib_file_add(struct nib_file *file, const char *name, const char *path, struct nib_error *error) {
    if (file->count == file->capacity) {
        size_t capacity = file->capacity == 0 ? 16 : 2 * file->capacity;
        struct nib_entry *entries = realloc(file->entries, capacity * sizeof *entries);
        if (entries == NULL) {
            nib_fail_at(error, NIB_ENOMEM, path, 0, "out of memory");
            return NULL;
        }
        file->entries = entries;
        file->capacity = capacity;
    }
    struct nib_entry *entry = &file->entries[file->count];
    memset(entry, 0, sizeof *entry);
    entry->path = path;
    entry->name = strdup(name);
    if (entry->name == NULL) {
        nib_fail_at(error, NIB_ENOMEM, path, 0, "out of memory");
        return NULL;
    }
    file->count++;
    return entry;
}

enum nib_status nib_file_adopt(struct nib_file *file, struct nib_mapping *mapping, struct nib_error *error) {
    struct nib_mapping **mappings = realloc(file->mappings, (file->mapping_count + 1) * sizeof *mappings);
    if (mappings == NULL) {
        nib_mapping_close(mapping);
        return nib_fail(error, NIB_ENOMEM, "out of memory");
    }
    file->mappings = mappings;
    file->mappings[file->mapping_count++] = mapping;
    return NIB_OK;
}

enum nib_status nib_file_add_metadata(struct nib_file *file, const char *key, const char *value,
                                      struct nib_error *error) {
    if (file->metadata_count == file->metadata_capacity) {
        size_t capacity = file->metadata_capacity == 0 ? 16 : 2 * file->metadata_capacity;
        char **metadata = realloc(file->metadata, capacity * sizeof *metadata);
        if (metadata == NULL) return nib_fail_at(error, NIB_ENOMEM, file->path, 0, "out of memory");
        file->metadata = metadata;
        file->metadata_capacity = capacity;
    }
    char *key_copy = nib_text_clean(key), *value_copy = NULL, *owned = NULL;
    const char *valid = nib_utf8(value, &owned);
    if (valid != NULL) value_copy = owned != NULL ? owned : strdup(valid);
    if (key_copy == NULL || value_copy == NULL) {
        free(key_copy);
        free(value_copy);
        return nib_fail_at(error, NIB_ENOMEM, file->path, 0, "out of memory");
    }
    file->metadata[file->metadata_count++] = key_copy;
    file->metadata[file->metadata_count++] = value_copy;
    return NIB_OK;
}

const char *nib_file_kind(const struct nib_file *file) { return file->kind; }

const char *nib_file_metadata(const struct nib_file *file, const char *key) {
    for (size_t i = 0; i + 1 < file->metadata_count; i += 2)
        if (strcmp(file->metadata[i], key) == 0) return file->metadata[i + 1];
    return NULL;
}

bool nib_entry_count(struct nib_entry *entry) {
    uint64_t product = 1;
    for (unsigned i = 0; i < entry->rank; i++)
        if (__builtin_mul_overflow(product, entry->shape[i], &product)) return false;
    entry->elements = product;
    return true;
}
