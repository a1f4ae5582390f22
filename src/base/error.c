#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void NIB_PRINTF(5, 0) record(struct nib_error *error, enum nib_status status, const char *file, int line,
                                    const char *format, va_list arguments) {
    if (error == NULL) return;
    error->status = status;
    error->line = line;
    snprintf(error->file, sizeof error->file, "%s", file);
    vsnprintf(error->text, sizeof error->text, format, arguments);
}

enum nib_status nib_fail(struct nib_error *error, enum nib_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    record(error, status, "", 0, format, arguments);
    va_end(arguments);
    return status;
}

enum nib_status nib_fail_at(struct nib_error *error, enum nib_status status, const char *file, int line,
                            const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    record(error, status, file, line, format, arguments);
    va_end(arguments);
    return status;
}

int nib_error_format(const struct nib_error *error, char *buffer, unsigned size) {
    if (error->file[0] == '\0') return snprintf(buffer, size, "%s", error->text);
    if (error->line == 0) return snprintf(buffer, size, "%s: %s", error->file, error->text);
    return snprintf(buffer, size, "%s:%d: %s", error->file, error->line, error->text);
}
