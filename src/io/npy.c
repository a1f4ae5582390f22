/* .npy: one array. */
#include "io/npy_header.h"

#include "base/error.h"

enum nib_status nib_npy_read(struct nib_file *file, struct nib_error *error) {
    const struct nib_mapping *mapping = file->mappings[0];
    uint64_t start;
    file->kind = "npy";
    struct nib_entry *entry = nib_file_add(file, "", mapping->path, error);
    if (entry == NULL) return NIB_ENOMEM;
    enum nib_status status =
        nib_npy_header_read(mapping->data, mapping->size, mapping->path, "", entry, &start, error);
    if (status != NIB_OK) return status;
    uint64_t available = mapping->size - start;
    if (entry->bytes > available)
        return nib_fail_at(error, NIB_EINCONSISTENT, mapping->path, 0,
                           "is truncated: the array needs %llu bytes, %llu are there", (unsigned long long)entry->bytes,
                           (unsigned long long)available);
    if (entry->bytes < available)
        return nib_fail_at(error, NIB_EINCONSISTENT, mapping->path, 0, "%llu bytes follow the array",
                           (unsigned long long)(available - entry->bytes));
    entry->data = mapping->data + start;
    return NIB_OK;
}
