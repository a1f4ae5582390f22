/* Allocation with overflow checks. */
#ifndef NIB_BASE_MEMORY_H
#define NIB_BASE_MEMORY_H

#include <stddef.h>
#include <nibble/status.h>

/* count * size zeroed bytes, 64-byte aligned, or NULL with the error set; free() releases it.
 * `what` names the thing in the message ("scales of a 3x5 tensor"). A count of 0 gives a valid pointer. */
void *nib_alloc(size_t count, size_t size, const char *what, struct nib_error *error);
/* The same without zeroing, for buffers that are written whole. */
void *nib_alloc_raw(size_t count, size_t size, const char *what, struct nib_error *error);

#endif
