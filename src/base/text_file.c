#include "base/text_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/path.h"

enum nib_status nib_text_file_write(const char *path, const char *text, struct nib_error *error) {
    enum nib_status status = nib_path_check_target(path, error);
    if (status != NIB_OK) return status;
    size_t size = strlen(path) + sizeof ".part";
    char *part = nib_alloc(size, 1, "file name", error);
    if (part == NULL) return NIB_ENOMEM;
    snprintf(part, size, "%s.part", path);
    FILE *stream = fopen(part, "w");
    bool written = stream != NULL && fputs(text, stream) >= 0 && fflush(stream) == 0;
    int why = errno;
    if (stream != NULL && fclose(stream) != 0 && written) {
        written = false;
        why = errno;
    }
    if (written && rename(part, path) != 0) {
        written = false;
        why = errno;
    }
    if (!written && stream != NULL) unlink(part);
    free(part);
    return written ? NIB_OK : nib_fail_at(error, NIB_EIO, path, 0, "cannot be written: %s", strerror(why));
}
