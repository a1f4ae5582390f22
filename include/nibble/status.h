/* Status codes and the error record that every nibble function reports through. */
#ifndef NIBBLE_STATUS_H
#define NIBBLE_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include <nibble/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NAME, exit code of the command line, meaning */
#define NIB_STATUS_LIST(X)                                                                        \
    X(OK, 0, "success")                                                                           \
    X(EINVAL, 2, "invalid argument")                                                              \
    X(ENOTFOUND, 2, "no such format, tensor or axis")                                             \
    X(ESYNTAX, 3, "malformed file")                                                               \
    X(EINCONSISTENT, 3, "contents contradict each other")                                         \
    X(EIO, 3, "input or output failed")                                                           \
    X(ENOMEM, 3, "out of memory")                                                                 \
    X(EUNAVAILABLE, 4, "not available on this machine")                                           \
    X(ECONVERGE, 5, "numerical method did not converge")                                          \
    X(EINTERRUPTED, 130, "interrupted")

enum nib_status {
#define NIB_STATUS_ENUM(name, exit_code, text) NIB_##name,
    NIB_STATUS_LIST(NIB_STATUS_ENUM)
#undef NIB_STATUS_ENUM
};

/* What went wrong, and where. `file` may be a path or a built-in name such as "elements/e2m1";
 * `line` is 1-based, 0 when no line applies. Functions take a pointer that may be NULL. */
struct nib_error {
    enum nib_status status;
    int line;
    char file[256];
    char text[512];
};

/* "NIB_ESYNTAX" for NIB_ESYNTAX; never NULL. */
NIB_API const char *nib_status_name(enum nib_status status);
NIB_API const char *nib_status_text(enum nib_status status);
/* The exit code that the command line uses for a status. */
NIB_API int nib_status_exit_code(enum nib_status status);

/* One line, "file:line: text" with the parts that are known; returns the length that the whole
 * line needs (as snprintf does). */
NIB_API int nib_error_format(const struct nib_error *error, char *buffer, unsigned size);

#ifdef __cplusplus
}
#endif
#endif
