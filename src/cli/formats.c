#include "cli/formats.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "base/suggest.h"
#include "format/embedded.h"
#include "format/registry.h"
#include "format/yaml.h"

const char *nib_format_kind(const char *word) {
    const char *kind;
    size_t length = strlen(word);
    for (size_t i = 0; (kind = nib_registry_kind(i)) != NULL; i++) {
        bool singular = strncmp(kind, word, length) == 0 && strcmp(kind + length, "s") == 0;
        if (singular || strcmp(kind, word) == 0) return kind;
    }
    return NULL;
}

static bool allowed(const char *kind, const char *const *kinds) {
    if (kinds == NULL) return true;
    for (; *kinds != NULL; kinds++)
        if (strcmp(kind, *kinds) == 0) return true;
    return false;
}

static int singular(const char *kind) {
    return (int)strlen(kind) - 1;
}

static enum nib_status refuse_kind(const char *word, const char *kind, const char *const *kinds,
                                   struct nib_error *error) {
    char expected[128];
    size_t used = 0;
    for (size_t i = 0; kinds[i] != NULL && used < sizeof expected; i++)
        used += (size_t)snprintf(expected + used, sizeof expected - used, "%s%.*s", i == 0 ? "" : " or ",
                                 singular(kinds[i]), kinds[i]);
    return nib_fail(error, NIB_EINVAL, "%s is in %s; expected a format of kind %s", word, kind, expected);
}

/* The file says itself what it is. */
static enum nib_status find_file(const char *path, const char *const *kinds, struct nib_format_name *out,
                                 struct nib_error *error) {
    char *text;
    size_t length;
    struct nib_yaml *document;
    enum nib_status status = nib_path_read_text(path, &text, &length, error);
    if (status != NIB_OK) return status;
    status = nib_yaml_parse(text, length, path, &document, error);
    free(text);
    if (status != NIB_OK) return status;
    const struct nib_yaml_node *node = nib_yaml_get(nib_yaml_root(document), "kind");
    const char *word = node != NULL ? nib_yaml_scalar(node) : NULL, *kind = word != NULL ? nib_format_kind(word) : NULL;
    if (word == NULL)
        status = nib_fail_at(error, NIB_ESYNTAX, path, 1, "missing key \"kind\"");
    else if (kind == NULL)
        status = nib_fail_at(error, NIB_ESYNTAX, path, nib_yaml_line(node), "kind \"%.40s\" is not known", word);
    else if (!allowed(kind, kinds))
        status = refuse_kind(path, kind, kinds, error);
    else {
        snprintf(out->kind, sizeof out->kind, "%s", kind);
        snprintf(out->name, sizeof out->name, "%s", path);
    }
    nib_yaml_free(document);
    return status;
}

static enum nib_status find_in_kind(const char *kind, const char *name, struct nib_format_name *out,
                                    struct nib_error *error) {
    if (nib_embedded_find(kind, name) == NULL) {
        const char *near = nib_registry_suggest(kind, name);
        return nib_fail(error, NIB_ENOTFOUND, "no %.*s \"%s\"%s%s%s", singular(kind), kind, name,
                        near != NULL ? "; did you mean \"" : "; 'nibble list' names them", near != NULL ? near : "",
                        near != NULL ? "\"?" : "");
    }
    snprintf(out->kind, sizeof out->kind, "%s", kind);
    snprintf(out->name, sizeof out->name, "%s", name);
    return NIB_OK;
}

static const char *any_name(size_t i, const void *kinds) {
    for (size_t k = 0; k < nib_embedded_count; k++)
        if (allowed(nib_embedded_formats[k].kind, kinds) && i-- == 0) return nib_embedded_formats[k].name;
    return NULL;
}

static enum nib_status find_anywhere(const char *word, const char *const *kinds, struct nib_format_name *out,
                                     struct nib_error *error) {
    const char *kind, *found = NULL, *second = NULL;
    for (size_t i = 0; (kind = nib_registry_kind(i)) != NULL; i++) {
        if (!allowed(kind, kinds) || nib_embedded_find(kind, word) == NULL) continue;
        if (found == NULL)
            found = kind;
        else if (second == NULL)
            second = kind;
    }
    if (second != NULL)
        return nib_fail(error, NIB_EINVAL, "%s is the name of two formats; give %s/%s or %s/%s", word, found, word,
                        second, word);
    if (found != NULL) return find_in_kind(found, word, out, error);
    const char *near = nib_suggest(word, any_name, kinds);
    return nib_fail(error, NIB_ENOTFOUND, "no format \"%s\"%s%s%s", word,
                    near != NULL ? "; did you mean \"" : "; 'nibble list' names them, and a file is given by its path",
                    near != NULL ? near : "", near != NULL ? "\"?" : "");
}

enum nib_status nib_format_find(const char *word, const char *const *kinds, struct nib_format_name *out,
                                struct nib_error *error) {
    const char *slash = strchr(word, '/');
    char prefix[24];
    if (strlen(word) >= sizeof out->name) return nib_fail(error, NIB_EINVAL, "the name \"%.40s...\" is too long", word);
    if (nib_path_is_file(word)) return find_file(word, kinds, out, error);
    if (slash == NULL) return find_anywhere(word, kinds, out, error);
    snprintf(prefix, sizeof prefix, "%.*s", (int)(slash - word), word);
    const char *kind = nib_format_kind(prefix);
    if (kind == NULL) return find_file(word, kinds, out, error);
    if (!allowed(kind, kinds)) return refuse_kind(word, kind, kinds, error);
    return find_in_kind(kind, slash + 1, out, error);
}
