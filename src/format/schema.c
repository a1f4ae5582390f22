/* nib_yaml_read: from a mapping to a struct, by a table. */
#include "base/error.h"
#include "base/number.h"
#include "base/suggest.h"
#include "format/yaml.h"
#include <stdio.h>
#include <string.h>

static const char *known_key(size_t i, const void *context) {
    const struct nib_field *fields = context;
    return fields[i].key;
}

static const char *known_choice(size_t i, const void *context) {
    const char *const *choices = context;
    return choices[i];
}

/* "a, b, c" of a list that ends with NULL; cut off where the buffer ends. */
static void join(char *buffer, size_t size, const char *(*item)(size_t i, const void *context), const void *context) {
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t i = 0; item(i, context) != NULL && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", i == 0 ? "" : ", ", item(i, context));
}

static enum nib_status unknown_key(const struct nib_yaml *document, const struct nib_yaml_node *mapping, size_t i,
                                   const struct nib_field *fields, struct nib_error *error) {
    char known[256];
    const char *key = nib_yaml_key(mapping, i), *near = nib_suggest(key, known_key, fields);
    join(known, sizeof known, known_key, fields);
    return nib_fail_at(error, NIB_ESYNTAX, nib_yaml_label(document), nib_yaml_key_line(mapping, i),
                       "unknown key \"%.40s\"%s%s%s; expected one of: %s", key, near != NULL ? ", did you mean \"" : "",
                       near != NULL ? near : "", near != NULL ? "\"?" : "", known);
}

static enum nib_status read_choice(const struct nib_yaml *document, const struct nib_yaml_node *node,
                                   const struct nib_field *field, int *out, struct nib_error *error) {
    const char *text = nib_yaml_scalar(node);
    char known[256];
    for (int i = 0; field->choices[i] != NULL; i++)
        if (strcmp(field->choices[i], text) == 0) {
            *out = i;
            return NIB_OK;
        }
    const char *near = nib_suggest(text, known_choice, field->choices);
    join(known, sizeof known, known_choice, field->choices);
    return nib_fail_at(error, NIB_ESYNTAX, nib_yaml_label(document), nib_yaml_line(node),
                       "%s \"%.40s\" is not known%s%s%s; expected one of: %s", field->key, text,
                       near != NULL ? ", did you mean \"" : "", near != NULL ? near : "", near != NULL ? "\"?" : "",
                       known);
}

static enum nib_status read_field(const struct nib_yaml *document, const struct nib_yaml_node *node,
                                  const struct nib_field *field, void *record, struct nib_error *error) {
    char *place = (char *)record + field->offset;
    const char *label = nib_yaml_label(document), *text = nib_yaml_scalar(node);
    int line = nib_yaml_line(node);
    if (field->type == NIB_FIELD_NODE) {
        memcpy(place, &node, sizeof(const struct nib_yaml_node *));
        return NIB_OK;
    }
    if (text == NULL)
        return nib_fail_at(error, NIB_ESYNTAX, label, line, "%s must be a single value, not a list or a mapping",
                           field->key);
    switch (field->type) {
    case NIB_FIELD_TEXT: {
        size_t length = strlen(text);
        if (length == 0) return nib_fail_at(error, NIB_ESYNTAX, label, line, "%s is empty", field->key);
        if (length >= field->size)
            return nib_fail_at(error, NIB_ESYNTAX, label, line, "%s is %zu bytes long; at most %zu fit", field->key,
                               length, field->size - 1);
        memcpy(place, text, length + 1);
        return NIB_OK;
    }
    case NIB_FIELD_INTEGER: {
        int64_t value;
        if (!nib_number_integer(text, field->low, field->high, &value))
            return nib_fail_at(error, NIB_ESYNTAX, label, line,
                               "%s is \"%.40s\"; expected an integer from %lld to %lld", field->key, text,
                               (long long)field->low, (long long)field->high);
        memcpy(place, &value, sizeof value);
        return NIB_OK;
    }
    case NIB_FIELD_REAL: {
        double value;
        if (!nib_number_double(text, &value))
            return nib_fail_at(error, NIB_ESYNTAX, label, line,
                               "%s is \"%.40s\"; expected a finite number, decimal or hexadecimal", field->key, text);
        memcpy(place, &value, sizeof value);
        return NIB_OK;
    }
    case NIB_FIELD_BOOL: {
        bool value = strcmp(text, "true") == 0;
        if (!value && strcmp(text, "false") != 0)
            return nib_fail_at(error, NIB_ESYNTAX, label, line, "%s is \"%.40s\"; expected true or false", field->key,
                               text);
        memcpy(place, &value, sizeof value);
        return NIB_OK;
    }
    case NIB_FIELD_CHOICE: {
        int value = 0;
        enum nib_status status = read_choice(document, node, field, &value, error);
        if (status == NIB_OK) memcpy(place, &value, sizeof value);
        return status;
    }
    case NIB_FIELD_NODE: break;
    }
    return NIB_OK;
}

enum nib_status nib_yaml_read(const struct nib_yaml *document, const struct nib_yaml_node *mapping,
                              const struct nib_field *fields, void *record, struct nib_error *error) {
    const char *label = nib_yaml_label(document);
    char known[256];
    if (nib_yaml_kind_of(mapping) != NIB_YAML_MAPPING) {
        join(known, sizeof known, known_key, fields);
        return nib_fail_at(error, NIB_ESYNTAX, label, nib_yaml_line(mapping), "expected keys with values: %s", known);
    }
    for (size_t i = 0; i < nib_yaml_count(mapping); i++) {
        const struct nib_field *field = fields;
        while (field->key != NULL && strcmp(field->key, nib_yaml_key(mapping, i)) != 0) field++;
        if (field->key == NULL) return unknown_key(document, mapping, i, fields, error);
        enum nib_status status = read_field(document, nib_yaml_value(mapping, i), field, record, error);
        if (status != NIB_OK) return status;
    }
    for (const struct nib_field *field = fields; field->key != NULL; field++)
        if (field->required && nib_yaml_get(mapping, field->key) == NULL)
            return nib_fail_at(error, NIB_ESYNTAX, label, nib_yaml_line(mapping), "missing key \"%s\"", field->key);
    return NIB_OK;
}

enum nib_status nib_yaml_blame(const struct nib_yaml *document, const char *key, enum nib_status status,
                               struct nib_error *error) {
    if (status != NIB_ENOTFOUND) return status;
    if (error == NULL) return NIB_ESYNTAX;
    char text[sizeof error->text];
    memcpy(text, error->text, sizeof text);
    const struct nib_yaml_node *node = nib_yaml_get(nib_yaml_root(document), key);
    return nib_fail_at(error, NIB_ESYNTAX, nib_yaml_label(document), node != NULL ? nib_yaml_line(node) : 0, "%s",
                       text);
}
