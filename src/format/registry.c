#include "format/registry.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/path.h"
#include "base/suggest.h"
#include "format/embedded.h"
#include <stdio.h>
#include <string.h>

/* The table is sorted by kind, so a new kind begins wherever the word changes. */
const char *nib_registry_kind(size_t i) {
    for (size_t k = 0; k < nib_embedded_count; k++) {
        bool first = k == 0 || strcmp(nib_embedded_formats[k].kind, nib_embedded_formats[k - 1].kind) != 0;
        if (first && i-- == 0) return nib_embedded_formats[k].kind;
    }
    return NULL;
}

const char *nib_registry_name(const char *kind, size_t i) {
    for (size_t k = 0; k < nib_embedded_count; k++)
        if (strcmp(nib_embedded_formats[k].kind, kind) == 0 && i-- == 0) return nib_embedded_formats[k].name;
    return NULL;
}

static const char *name_of_kind(size_t i, const void *kind) {
    return nib_registry_name(kind, i);
}

const char *nib_registry_suggest(const char *kind, const char *name) {
    return nib_suggest(name, name_of_kind, kind);
}

void nib_registry_name_of(const char *label, char name[40]) {
    const char *slash = strrchr(label, '/'), *base = slash != NULL ? slash + 1 : label;
    size_t length = strlen(base);
    if (length > 5 && strcmp(base + length - 5, ".yaml") == 0) length -= 5;
    if (length > 39) length = 39;
    memcpy(name, base, length);
    name[length] = '\0';
}

static enum nib_status not_found(const char *kind, const char *name, struct nib_error *error) {
    const char *near = nib_registry_suggest(kind, name);
    int singular = (int)strlen(kind) - 1;
    if (near != NULL)
        return nib_fail(error, NIB_ENOTFOUND, "no %.*s \"%.80s\"; did you mean \"%s\"?", singular, kind, name, near);
    return nib_fail(error, NIB_ENOTFOUND,
                    "no %.*s \"%.80s\"; `nibble list %s` names them, and a file is given by its path", singular, kind,
                    name, kind);
}

enum nib_status nib_registry_read(const char *kind, const char *name_or_path, struct nib_registry_text *out,
                                  struct nib_error *error) {
    struct nib_registry_text result = {.text = NULL};
    if (nib_path_is_file(name_or_path) || strchr(name_or_path, '/') != NULL) {
        enum nib_status status = nib_path_read_text(name_or_path, &result.text, &result.length, error);
        if (status != NIB_OK) return status;
        snprintf(result.label, sizeof result.label, "%s", name_or_path);
    } else {
        const struct nib_embedded *built_in = nib_embedded_find(kind, name_or_path);
        if (built_in == NULL) return not_found(kind, name_or_path, error);
        result.text = nib_alloc_raw(built_in->length + 1, 1, name_or_path, error);
        if (result.text == NULL) return NIB_ENOMEM;
        memcpy(result.text, built_in->text, built_in->length + 1);
        result.length = built_in->length;
        result.built_in = true;
        snprintf(result.label, sizeof result.label, "%s/%s", kind, name_or_path);
    }
    nib_registry_name_of(name_or_path, result.name);
    *out = result;
    return NIB_OK;
}

void nib_registry_resolve(const char *label, const char *name, char *out, size_t size) {
    const char *slash = strrchr(label, '/');
    if (nib_path_is_file(name) && name[0] != '/' && slash != NULL)
        snprintf(out, size, "%.*s/%s", (int)(slash - label), label, name);
    else
        snprintf(out, size, "%s", name);
}
