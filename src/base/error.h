/* Filling in a struct nib_error. */
#ifndef NIB_BASE_ERROR_H
#define NIB_BASE_ERROR_H

#include <nibble/status.h>

/* Records the failure (error may be NULL) and returns the status, so that callers can write
 * `return nib_fail(error, NIB_EINVAL, "...", ...);`. */
enum nib_status nib_fail(struct nib_error *error, enum nib_status status, const char *format, ...) NIB_PRINTF(3, 4);
/* The same with a place; line 0 means none. */
enum nib_status nib_fail_at(struct nib_error *error, enum nib_status status, const char *file, int line,
                            const char *format, ...) NIB_PRINTF(5, 6);

#endif
