#include "base/path.h"

#include "base/error.h"
#include "base/memory.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGEST_TEXT = 1 << 20 };

bool nib_path_is_file(const char *name) {
    size_t length = strlen(name);
    if (name[0] == '/' || name[0] == '.') return true;
    return length > 5 && strcmp(name + length - 5, ".yaml") == 0;
}

enum nib_status nib_path_read_text(const char *path, char **text, size_t *length, struct nib_error *error) {
    struct stat status;
    if (path[0] == '\0') return nib_fail(error, NIB_EIO, "the name of a file is empty");
    FILE *file = fopen(path, "rb");
    if (file == NULL) return nib_fail_at(error, NIB_EIO, path, 0, "cannot open: %s", strerror(errno));
    enum nib_status result = NIB_OK;
    char *buffer = NULL;
    size_t size = 0;
    if (fstat(fileno(file), &status) != 0 || S_ISDIR(status.st_mode))
        result = nib_fail_at(error, NIB_EIO, path, 0, "is a directory, not a file");
    else if (status.st_size > LARGEST_TEXT)
        result = nib_fail_at(error, NIB_ESYNTAX, path, 0, "is too large for a format file (more than 1 MiB)");
    else if ((buffer = nib_alloc(LARGEST_TEXT + 2, 1, path, error)) == NULL)
        result = NIB_ENOMEM;
    else {
        size = fread(buffer, 1, LARGEST_TEXT + 1, file);
        if (ferror(file))
            result = nib_fail_at(error, NIB_EIO, path, 0, "cannot read: %s", strerror(errno));
        else if (size == 0)
            result = nib_fail_at(error, NIB_ESYNTAX, path, 0, "is empty");
        else if (memchr(buffer, '\0', size) != NULL)
            result = nib_fail_at(error, NIB_ESYNTAX, path, 0, "holds NUL bytes; expected YAML text");
    }
    fclose(file);
    if (result != NIB_OK) {
        free(buffer);
        return result;
    }
    *text = buffer;
    *length = size;
    return NIB_OK;
}

char *nib_path_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL) return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

enum nib_status nib_path_check_target(const char *path, struct nib_error *error) {
    struct stat about;
    if (path[0] == '\0') return nib_fail(error, NIB_EINVAL, "the name of a file to write is empty");
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return nib_fail_at(error, NIB_EIO, path, 0, "is a directory; expected the name of a file");
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        return nib_fail_at(error, NIB_EIO, path, 0, "is not a regular file; what is there would be replaced");
    char *folder = nib_path_folder(path);
    if (folder == NULL) return nib_fail(error, NIB_ENOMEM, "out of memory");
    enum nib_status status = NIB_OK;
    if (stat(folder, &about) != 0)
        status = nib_fail_at(error, NIB_EIO, path, 0, "cannot write into folder \"%s\": %s", folder, strerror(errno));
    else if (!S_ISDIR(about.st_mode))
        status = nib_fail_at(error, NIB_EIO, path, 0, "\"%s\" is not a folder", folder);
    else if (access(folder, W_OK | X_OK) != 0)
        status = nib_fail_at(error, NIB_EIO, path, 0, "cannot write into folder \"%s\": %s", folder, strerror(errno));
    free(folder);
    return status;
}
