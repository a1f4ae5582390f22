#include "base/memory.h"

#include "base/error.h"
#include <stdlib.h>
#include <string.h>

void *nib_alloc_raw(size_t count, size_t size, const char *what, struct nib_error *error) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > (size_t)-1 / 2) {
        nib_fail(error, NIB_ENOMEM, "%s: %zu items of %zu bytes are more than memory can address", what, count, size);
        return NULL;
    }
    void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (memory == NULL) nib_fail(error, NIB_ENOMEM, "%s: out of memory (%zu bytes)", what, bytes);
    return memory;
}

void *nib_alloc(size_t count, size_t size, const char *what, struct nib_error *error) {
    void *memory = nib_alloc_raw(count, size, what, error);
    if (memory != NULL) memset(memory, 0, count * size);
    return memory;
}
