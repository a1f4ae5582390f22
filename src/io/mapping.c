#include "io/mapping.h"

#include "base/error.h"
#include "base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static enum nib_status map(const char *path, int descriptor, struct nib_mapping *mapping, struct nib_error *error) {
    struct stat before, after;
    if (fstat(descriptor, &before) != 0)
        return nib_fail_at(error, NIB_EIO, path, 0, "cannot read: %s", strerror(errno));
    if (S_ISDIR(before.st_mode)) return nib_fail_at(error, NIB_EIO, path, 0, "is a directory, not a file");
    if (!S_ISREG(before.st_mode)) return nib_fail_at(error, NIB_EIO, path, 0, "is not a regular file");
    if (before.st_size == 0) return nib_fail_at(error, NIB_ESYNTAX, path, 0, "is empty");
    if ((uintmax_t)before.st_size > SIZE_MAX)
        return nib_fail_at(error, NIB_EIO, path, 0, "is too large for this machine");
    void *data = mmap(NULL, (size_t)before.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) return nib_fail_at(error, NIB_EIO, path, 0, "cannot map: %s", strerror(errno));
    mapping->data = data;
    mapping->size = (uint64_t)before.st_size;
    if (fstat(descriptor, &after) != 0 || after.st_size < before.st_size)
        return nib_fail_at(error, NIB_EIO, path, 0, "shrank while it was opened");
    return NIB_OK;
}

enum nib_status nib_mapping_open(const char *path, struct nib_mapping **out, struct nib_error *error) {
    if (path[0] == '\0') return nib_fail(error, NIB_EIO, "the name of a file is empty");
    /* O_NONBLOCK: opening a pipe must not wait for a writer; regular files ignore it. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return nib_fail_at(error, NIB_EIO, path, 0, "cannot open: %s", strerror(errno));
    struct nib_mapping *mapping = nib_alloc(1, sizeof *mapping, path, error);
    enum nib_status status = NIB_ENOMEM;
    if (mapping != NULL) {
        mapping->path = strdup(path);
        status = mapping->path == NULL ? nib_fail_at(error, NIB_ENOMEM, path, 0, "out of memory")
                                       : map(path, descriptor, mapping, error);
    }
    close(descriptor);
    if (status != NIB_OK) {
        nib_mapping_close(mapping);
        return status;
    }
    *out = mapping;
    return NIB_OK;
}

void nib_mapping_release(const struct nib_mapping *mapping, const void *data, uint64_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), base = (uintptr_t)mapping->data;
    uintptr_t first = (uintptr_t)data, last = first + (uintptr_t)bytes;
    if (first < base || last > base + (uintptr_t)mapping->size) return;
    first -= first % page; /* what stands before it has been used, too */
    last -= last % page;
    union {
        uintptr_t number;
        void *plain;
    } address = {first};
    if (last > first) madvise(address.plain, (size_t)(last - first), MADV_DONTNEED);
}

void nib_mapping_close(struct nib_mapping *mapping) {
    if (mapping == NULL) return;
    if (mapping->data != NULL) {
        union {
            const uint8_t *read_only;
            void *plain;
        } address = {mapping->data};
        munmap(address.plain, (size_t)mapping->size);
    }
    free(mapping->path);
    free(mapping);
}
