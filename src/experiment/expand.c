/* What one text of an axis stands for: one value, or all tensors that a glob matches. */
#include "experiment/experiment.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/path.h"
#include "io/locator.h"
#include "job/view_of.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum nib_status add(struct nib_experiment *e, struct nib_experiment_axis *axis, const char *text,
                           const char *path, struct nib_error *error) {
    if ((axis->count & (axis->count - 1)) == 0) { /* full at each power of two */
        size_t capacity = axis->count == 0 ? 1 : 2 * axis->count;
        struct nib_argument *values = realloc(axis->values, capacity * sizeof *values);
        if (values == NULL) return nib_fail(error, NIB_ENOMEM, "experiment: out of memory");
        axis->values = values;
    }
    char *own = nib_experiment_keep(e, text, error);
    char *own_path = own == NULL ? NULL : path == NULL ? own : nib_experiment_keep(e, path, error);
    if (own_path == NULL) return NIB_ENOMEM;
    struct nib_argument argument;
    enum nib_status status = nib_argument_parse(&e->job.parameters[axis->parameter], own, &argument, error);
    if (status != NIB_OK) return status;
    argument.path = own_path;
    axis->values[axis->count++] = argument;
    return NIB_OK;
}

/* `path` seen from `folder`; the caller frees it. */
static char *resolve(const char *folder, const char *path, struct nib_error *error) {
    char *full = nib_alloc(strlen(folder) + strlen(path) + 1, 1, path, error);
    if (full != NULL) sprintf(full, "%s%s", path[0] == '/' ? "" : folder, path);
    return full;
}

static enum nib_status add_tensor(struct nib_experiment *e, struct nib_experiment_axis *axis, const char *file,
                                  const char *resolved, const char *name, struct nib_error *error) {
    size_t length = strlen(name) + 2;
    char *text = nib_alloc(strlen(file) + length, 1, name, error);
    char *path = nib_alloc(strlen(resolved) + length, 1, name, error);
    enum nib_status status = text == NULL || path == NULL ? NIB_ENOMEM : NIB_OK;
    if (status == NIB_OK) {
        const char *colon = name[0] == '\0' ? "" : ":";
        sprintf(text, "%s%s%s", file, colon, name);
        sprintf(path, "%s%s%s", resolved, colon, name);
        status = add(e, axis, text, path, error);
    }
    free(text);
    free(path);
    return status;
}

/* FILE means the tensors of linear layers, FILE:glob what it matches. */
static enum nib_status add_tensors(struct nib_experiment *e, struct nib_experiment_axis *axis, const char *folder,
                                   const char *text, struct nib_error *error) {
    char *full = resolve(folder, text, error);
    if (full == NULL) return NIB_ENOMEM;
    struct nib_locator locator = {0};
    struct nib_file *file = NULL;
    size_t *indices = NULL, count = 0, before = axis->count;
    enum nib_status status = nib_locator_parse(full, &locator, error);
    bool bare = status == NIB_OK && locator.tensor[0] == '\0';
    if (status == NIB_OK) status = nib_locator_open(full, false, &file, &indices, &count, error);
    const char *resolved = status == NIB_OK ? locator.path : "";
    char *written = status != NIB_OK ? NULL : strndup(text, strlen(resolved) + strlen(text) - strlen(full));
    if (status == NIB_OK && written == NULL) status = nib_fail(error, NIB_ENOMEM, "experiment: out of memory");
    bool only = status == NIB_OK && nib_file_count(file) == 1;
    for (size_t i = 0; status == NIB_OK && i < count; i++) {
        struct nib_tensor_info info;
        struct nib_tensor_role role;
        nib_file_tensor(file, indices[i], &info);
        nib_tensor_role_of(&info, &role);
        if (!bare || only || role.linear) status = add_tensor(e, axis, written, resolved, info.name, error);
    }
    if (status == NIB_OK && axis->count == before)
        status = nib_fail_at(error, NIB_EINVAL, full, 0, "no tensor is of a linear layer; name them as in FILE:glob");
    free(written);
    free(indices);
    if (file != NULL) nib_file_close(file);
    nib_locator_free(&locator);
    free(full);
    return status;
}

enum nib_status nib_experiment_expand(struct nib_experiment *e, struct nib_experiment_axis *axis, const char *folder,
                                      const char *text, struct nib_error *error) {
    const struct nib_parameter *parameter = &e->job.parameters[axis->parameter];
    if (parameter->type == NIB_PARAMETER_TENSOR && text[0] != '\0') return add_tensors(e, axis, folder, text, error);
    bool path =
        parameter->type == NIB_PARAMETER_FILE || (parameter->type == NIB_PARAMETER_FORMAT && nib_path_is_file(text));
    if (!path || text[0] == '\0') return add(e, axis, text, NULL, error);
    char *full = resolve(folder, text, error);
    if (full == NULL) return NIB_ENOMEM;
    enum nib_status status = add(e, axis, text, full, error);
    free(full);
    return status;
}
