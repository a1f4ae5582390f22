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

/* Whether a line of the text is "key: value". */
static bool says(const char *text, const char *key, const char *value) {
    size_t length = strlen(key), size = strlen(value);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) != 0 || line[length] != ':') continue;
        const char *at = line + length + 1;
        at += strspn(at, " ");
        if (strncmp(at, value, size) == 0 && (at[size] == '\0' || at[size] == '\n' || at[size] == ' ')) return true;
    }
    return false;
}

/* The built-in of that kind that a text names under a key; NULL where it has no such key. */
static const struct nib_embedded *named(const struct nib_embedded *by, const char *key, const char *kind) {
    for (size_t k = 0; k < nib_embedded_count; k++) {
        const struct nib_embedded *it = &nib_embedded_formats[k];
        if (strcmp(it->kind, kind) == 0 && says(by->text, key, it->name)) return it;
    }
    return NULL;
}

/* Whether a built-in quantizer is made of that block or element, itself or by the one that it changes. */
static bool is_made_of(const struct nib_embedded *quantizer, const char *kind, const char *name) {
    const struct nib_embedded *block = named(quantizer, "block", "blocks");
    for (int depth = 0; block == NULL && depth < 8 && quantizer != NULL; depth++) {
        quantizer = named(quantizer, "base", "quantizers");
        if (quantizer != NULL) block = named(quantizer, "block", "blocks");
    }
    if (block == NULL) return false;
    return strcmp(kind, "blocks") == 0 ? strcmp(block->name, name) == 0 : says(block->text, "element", name);
}

static bool ends_with(const char *text, const char *ending) {
    size_t length = strlen(text), size = strlen(ending);
    return length > size && strcmp(text + length - size, ending) == 0;
}

/* "a, b, c and 20 more"; those called after the block come first. */
static void list_users(const char *kind, const char *name, char *out, size_t size) {
    enum { MOST = 6 };
    size_t users = 0, used = 0;
    out[0] = '\0';
    for (int called_after = 1; called_after >= 0; called_after--)
        for (size_t k = 0; k < nib_embedded_count; k++) {
            const struct nib_embedded *q = &nib_embedded_formats[k];
            if (strcmp(q->kind, "quantizers") != 0 || ends_with(q->name, name) != (called_after == 1)) continue;
            if (!is_made_of(q, kind, name) || users++ >= MOST || used >= size) continue;
            used += (size_t)snprintf(out + used, size - used, "%s%s", used > 0 ? ", " : "", q->name);
        }
    if (users > MOST && used < size) snprintf(out + used, size - used, " and %zu more", users - MOST);
}

/* A name of another kind: a block where a quantizer is wanted. */
static enum nib_status not_of_kind(const char *kind, const char *other, const char *name, struct nib_error *error) {
    char users[240] = "";
    int singular = (int)strlen(kind) - 1, other_singular = (int)strlen(other) - 1;
    bool part = strcmp(other, "blocks") == 0 || strcmp(other, "elements") == 0;
    if (strcmp(kind, "quantizers") == 0 && part) list_users(other, name, users, sizeof users);
    if (users[0] != '\0')
        return nib_fail(error, NIB_ENOTFOUND, "no quantizer \"%.80s\", which is a%s %.*s; quantizers that use it: %s", name,
                        other[0] == 'e' ? "n" : "", other_singular, other, users);
    return nib_fail(error, NIB_ENOTFOUND, "no %.*s \"%.80s\", though there is a%s %.*s of that name; `nibble list %s` names them",
                    singular, kind, name, other[0] == 'e' ? "n" : "", other_singular, other, kind);
}

static enum nib_status not_found(const char *kind, const char *name, struct nib_error *error) {
    const char *near = nib_registry_suggest(kind, name), *other;
    int singular = (int)strlen(kind) - 1;
    for (size_t i = 0; (other = nib_registry_kind(i)) != NULL; i++)
        if (nib_embedded_find(other, name) != NULL && strcmp(other, kind) != 0) return not_of_kind(kind, other, name, error);
    if (near != NULL)
        return nib_fail(error, NIB_ENOTFOUND, "no %.*s \"%.80s\"; did you mean \"%s\"?", singular, kind, name, near);
    return nib_fail(error, NIB_ENOTFOUND,
                    "no %.*s \"%.80s\"; `nibble list %s` names them, and a file is given by its path", singular, kind,
                    name, kind);
}

enum nib_status nib_registry_read(const char *kind, const char *name_or_path, struct nib_registry_text *out,
                                  struct nib_error *error) {
    struct nib_registry_text result = {.text = NULL};
    if (name_or_path == NULL) return nib_fail(error, NIB_EINVAL, "the name of a format is NULL");
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
