#include "io/locator.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/entry.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool exists(const char *path) { return access(path, F_OK) == 0; }

enum nib_status nib_locator_parse(const char *text, struct nib_locator *out, struct nib_error *error) {
    size_t length = strlen(text);
    char *path = nib_alloc(length + 1, 1, "file name", error), *tensor = nib_alloc(length + 1, 1, "tensor name", error);
    if (path == NULL || tensor == NULL) {
        free(path);
        free(tensor);
        return NIB_ENOMEM;
    }
    strcpy(path, text);
    if (!exists(path)) {
        bool found = false;
        for (size_t i = length; i-- > 0 && !found;) {
            if (text[i] != ':') continue;
            path[i] = '\0';
            found = exists(path);
            if (found)
                strcpy(tensor, text + i + 1);
            else
                path[i] = ':';
        }
        char *last = strrchr(path, ':');
        if (!found && last != NULL && strchr(last, '/') == NULL) {
            strcpy(tensor, last + 1);
            *last = '\0';
        }
    }
    out->path = path;
    out->tensor = tensor;
    return NIB_OK;
}

void nib_locator_free(struct nib_locator *locator) {
    free(locator->path);
    free(locator->tensor);
    locator->path = locator->tensor = NULL;
}

static enum nib_status choose(const struct nib_file *file, const char *tensor, bool one, size_t **indices,
                              size_t *count, struct nib_error *error) {
    if (tensor[0] != '\0' || one) {
        size_t *found, found_count;
        enum nib_status status;
        if (tensor[0] == '\0') {
            size_t only;
            if ((status = nib_file_find(file, "", &only, error)) != NIB_OK) return status;
            tensor = "*";
        }
        if ((status = nib_file_match(file, tensor, &found, &found_count, error)) != NIB_OK) return status;
        if (one && found_count > 1) {
            char shown[80], first[80], second[80];
            status = nib_fail_at(error, NIB_EINVAL, file->path, 0,
                                 "\"%s\" matches %zu tensors (\"%s\", \"%s\"%s); expected exactly one",
                                 nib_printable(tensor, shown), found_count,
                                 nib_printable(file->entries[found[0]].name, first),
                                 nib_printable(file->entries[found[1]].name, second), found_count > 2 ? ", ..." : "");
            free(found);
            return status;
        }
        *indices = found;
        *count = found_count;
        return NIB_OK;
    }
    size_t *all = nib_alloc_raw(file->count, sizeof *all, file->path, error);
    if (all == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < file->count; i++) all[i] = i;
    *indices = all;
    *count = file->count;
    return NIB_OK;
}

enum nib_status nib_locator_open(const char *text, bool one, struct nib_file **file, size_t **indices, size_t *count,
                                 struct nib_error *error) {
    struct nib_locator locator;
    struct nib_file *opened;
    enum nib_status status = nib_locator_parse(text, &locator, error);
    if (status != NIB_OK) return status;
    status = nib_file_open(locator.path, &opened, error);
    if (status == NIB_OK) {
        status = choose(opened, locator.tensor, one, indices, count, error);
        if (status == NIB_OK)
            *file = opened;
        else
            nib_file_close(opened);
    }
    nib_locator_free(&locator);
    return status;
}
