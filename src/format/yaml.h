/* YAML through libyaml: documents whose nodes know their lines, and a table-driven schema that
 * rejects unknown, duplicate and missing keys and says what was expected. */
#ifndef NIB_FORMAT_YAML_H
#define NIB_FORMAT_YAML_H

#include <stddef.h>
#include <nibble/status.h>

struct nib_yaml;      /* a parsed document */
struct nib_yaml_node; /* a scalar, a sequence or a mapping in it */

/* Parses one document whose root is a mapping. `label` stands for the file in errors. Anchors,
 * aliases, tags and a second document are refused; duplicate keys too. */
enum nib_status nib_yaml_parse(const char *text, size_t length, const char *label, struct nib_yaml **out,
                               struct nib_error *error);
void nib_yaml_free(struct nib_yaml *document);
const struct nib_yaml_node *nib_yaml_root(const struct nib_yaml *document);
const char *nib_yaml_label(const struct nib_yaml *document);

enum nib_yaml_kind { NIB_YAML_SCALAR, NIB_YAML_SEQUENCE, NIB_YAML_MAPPING };
enum nib_yaml_kind nib_yaml_kind_of(const struct nib_yaml_node *node);
int nib_yaml_line(const struct nib_yaml_node *node);           /* 1-based */
const char *nib_yaml_scalar(const struct nib_yaml_node *node); /* NULL unless a scalar */
size_t nib_yaml_count(const struct nib_yaml_node *node);       /* items or pairs */
const struct nib_yaml_node *nib_yaml_item(const struct nib_yaml_node *sequence, size_t i);
const char *nib_yaml_key(const struct nib_yaml_node *mapping, size_t i);
int nib_yaml_key_line(const struct nib_yaml_node *mapping, size_t i);
const struct nib_yaml_node *nib_yaml_value(const struct nib_yaml_node *mapping, size_t i);
const struct nib_yaml_node *nib_yaml_get(const struct nib_yaml_node *mapping, const char *key); /* or NULL */

/* A schema is an array of fields ended by one whose key is NULL; each binds a key to a place in a
 * struct. */
enum nib_field_type {
    NIB_FIELD_TEXT,    /* char[size]; too long is an error */
    NIB_FIELD_INTEGER, /* int64_t in [low, high] */
    NIB_FIELD_REAL,    /* double; decimal or hexadecimal */
    NIB_FIELD_BOOL,    /* bool; exactly true or false */
    NIB_FIELD_CHOICE,  /* int; index into `choices` (NULL-terminated) */
    NIB_FIELD_NODE     /* const struct nib_yaml_node *, read by the caller */
};
struct nib_field {
    const char *key;
    enum nib_field_type type;
    bool required;
    size_t offset, size;
    int64_t low, high;
    const char *const *choices;
};
/* Reads a mapping into `record`; absent optional fields are left alone. Errors carry the line and
 * list what was expected (the known keys, the choices, the range), with a suggestion for typos. */
enum nib_status nib_yaml_read(const struct nib_yaml *document, const struct nib_yaml_node *mapping,
                              const struct nib_field *fields, void *record, struct nib_error *error);

/* A name that is given under `key` but does not exist (NIB_ENOTFOUND) is this file's mistake: NIB_ESYNTAX on its line.
 * Other statuses pass through. */
enum nib_status nib_yaml_blame(const struct nib_yaml *document, const char *key, enum nib_status status,
                               struct nib_error *error);

#endif
