#include "format/yaml.h"

#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* Far above what any format needs, far below what could hurt. */
enum { DEEPEST = 16, MOST_KEYS = 512, MOST_ITEMS = 65536 };

struct nib_yaml_node {
    enum nib_yaml_kind kind;
    int line;
    size_t count, capacity;
    char *text;                          /* scalar */
    const struct nib_yaml_node **values; /* items, or the values of pairs */
    const struct nib_yaml_node **keys;   /* mapping: scalars, beside values */
    struct nib_yaml_node *next_allocated;
};

struct nib_yaml {
    char label[256];
    const struct nib_yaml_node *root;
    struct nib_yaml_node *allocated; /* every node, for freeing without recursion */
};

struct builder {
    yaml_parser_t parser;
    struct nib_yaml *document;
    const char *text;
    size_t length;
    struct nib_error *error;
};

static enum nib_status fail_out_of_memory(struct builder *b) {
    return nib_fail_at(b->error, NIB_ENOMEM, b->document->label, 0, "out of memory");
}

static int line_of_offset(const char *text, size_t length, size_t offset) {
    int line = 1;
    for (size_t i = 0; i < offset && i < length; i++) line += text[i] == '\n';
    return line;
}

static enum nib_status fail_in_parser(struct builder *b) {
    const yaml_parser_t *parser = &b->parser;
    const char *problem = parser->problem != NULL ? parser->problem : "not YAML";
    if (parser->error == YAML_MEMORY_ERROR) return fail_out_of_memory(b);
    int line = parser->error == YAML_READER_ERROR ? line_of_offset(b->text, b->length, parser->problem_offset)
                                                  : (int)parser->problem_mark.line + 1;
    return nib_fail_at(b->error, NIB_ESYNTAX, b->document->label, line, "not valid YAML: %s", problem);
}

static enum nib_status next_event(struct builder *b, yaml_event_t *event) {
    if (!yaml_parser_parse(&b->parser, event)) return fail_in_parser(b);
    return NIB_OK;
}

static struct nib_yaml_node *new_node(struct builder *b, enum nib_yaml_kind kind, const yaml_event_t *event) {
    struct nib_yaml_node *node = nib_alloc(1, sizeof *node, "a YAML node", b->error);
    if (node == NULL) return NULL;
    node->kind = kind;
    node->line = (int)event->start_mark.line + 1;
    node->next_allocated = b->document->allocated;
    b->document->allocated = node;
    return node;
}

static enum nib_status grow(struct builder *b, struct nib_yaml_node *node) {
    if (node->count < node->capacity) return NIB_OK;
    size_t capacity = node->capacity == 0 ? 8 : 2 * node->capacity;
    const struct nib_yaml_node **values = realloc(node->values, capacity * sizeof *values);
    if (values == NULL) return fail_out_of_memory(b);
    node->values = values;
    if (node->kind == NIB_YAML_MAPPING) {
        const struct nib_yaml_node **keys = realloc(node->keys, capacity * sizeof *keys);
        if (keys == NULL) return fail_out_of_memory(b);
        node->keys = keys;
    }
    node->capacity = capacity;
    return NIB_OK;
}

static enum nib_status refuse_decoration(struct builder *b, const yaml_event_t *event, const yaml_char_t *anchor,
                                         const yaml_char_t *tag) {
    int line = (int)event->start_mark.line + 1;
    if (anchor != NULL)
        return nib_fail_at(b->error, NIB_ESYNTAX, b->document->label, line, "anchors are not used in format files: &%s",
                           (const char *)anchor);
    if (tag != NULL)
        return nib_fail_at(b->error, NIB_ESYNTAX, b->document->label, line, "tags are not used in format files: %s",
                           (const char *)tag);
    return NIB_OK;
}

static enum nib_status read_scalar(struct builder *b, const yaml_event_t *event, const struct nib_yaml_node **out) {
    const char *text = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    struct nib_yaml_node *node = new_node(b, NIB_YAML_SCALAR, event);
    if (node == NULL) return NIB_ENOMEM;
    if (memchr(text, '\0', length) != NULL)
        return nib_fail_at(b->error, NIB_ESYNTAX, b->document->label, node->line, "a NUL character in a value");
    node->text = nib_alloc_raw(length + 1, 1, "a YAML value", b->error);
    if (node->text == NULL) return NIB_ENOMEM;
    memcpy(node->text, text, length);
    node->text[length] = '\0';
    *out = node;
    return NIB_OK;
}

static enum nib_status read_node(struct builder *b, const yaml_event_t *event, int depth,
                                 const struct nib_yaml_node **out);

static enum nib_status read_sequence(struct builder *b, const yaml_event_t *start, int depth,
                                     const struct nib_yaml_node **out) {
    struct nib_yaml_node *node = new_node(b, NIB_YAML_SEQUENCE, start);
    enum nib_status status = node == NULL ? NIB_ENOMEM : NIB_OK;
    bool more = true;
    while (status == NIB_OK && more) {
        yaml_event_t event;
        const struct nib_yaml_node *item;
        if ((status = next_event(b, &event)) != NIB_OK) return status;
        if (event.type == YAML_SEQUENCE_END_EVENT)
            more = false;
        else if (node->count == MOST_ITEMS)
            status = nib_fail_at(b->error, NIB_ESYNTAX, b->document->label, node->line, "more than %d items",
                                 (int)MOST_ITEMS);
        else if ((status = read_node(b, &event, depth + 1, &item)) == NIB_OK && (status = grow(b, node)) == NIB_OK)
            node->values[node->count++] = item;
        yaml_event_delete(&event);
    }
    if (status == NIB_OK) *out = node;
    return status;
}

static enum nib_status check_key(struct builder *b, const struct nib_yaml_node *mapping,
                                 const struct nib_yaml_node *key) {
    const char *label = b->document->label;
    if (key->kind != NIB_YAML_SCALAR)
        return nib_fail_at(b->error, NIB_ESYNTAX, label, key->line, "a key must be a word, not a list or a mapping");
    if (mapping->count == MOST_KEYS)
        return nib_fail_at(b->error, NIB_ESYNTAX, label, key->line, "more than %d keys", (int)MOST_KEYS);
    for (size_t i = 0; i < mapping->count; i++)
        if (strcmp(mapping->keys[i]->text, key->text) == 0)
            return nib_fail_at(b->error, NIB_ESYNTAX, label, key->line, "key \"%s\" was already given on line %d",
                               key->text, mapping->keys[i]->line);
    return NIB_OK;
}

static enum nib_status read_mapping(struct builder *b, const yaml_event_t *start, int depth,
                                    const struct nib_yaml_node **out) {
    struct nib_yaml_node *node = new_node(b, NIB_YAML_MAPPING, start);
    enum nib_status status = node == NULL ? NIB_ENOMEM : NIB_OK;
    const struct nib_yaml_node *key = NULL;
    bool more = true;
    while (status == NIB_OK && more) {
        yaml_event_t event;
        const struct nib_yaml_node *child;
        if ((status = next_event(b, &event)) != NIB_OK) return status;
        if (event.type == YAML_MAPPING_END_EVENT) {
            more = false;
        } else if ((status = read_node(b, &event, depth + 1, &child)) == NIB_OK) {
            if (key == NULL) {
                status = check_key(b, node, child);
                key = child;
            } else if ((status = grow(b, node)) == NIB_OK) {
                node->keys[node->count] = key;
                node->values[node->count++] = child;
                key = NULL;
            }
        }
        yaml_event_delete(&event);
    }
    if (status == NIB_OK) *out = node;
    return status;
}

/* `event` begins the node and stays the caller's to delete. */
static enum nib_status read_node(struct builder *b, const yaml_event_t *event, int depth,
                                 const struct nib_yaml_node **out) {
    enum nib_status status;
    int line = (int)event->start_mark.line + 1;
    if (depth > DEEPEST)
        return nib_fail_at(b->error, NIB_ESYNTAX, b->document->label, line, "nested deeper than %d levels",
                           (int)DEEPEST);
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        status = refuse_decoration(b, event, event->data.scalar.anchor, event->data.scalar.tag);
        return status != NIB_OK ? status : read_scalar(b, event, out);
    case YAML_SEQUENCE_START_EVENT:
        status = refuse_decoration(b, event, event->data.sequence_start.anchor, event->data.sequence_start.tag);
        return status != NIB_OK ? status : read_sequence(b, event, depth, out);
    case YAML_MAPPING_START_EVENT:
        status = refuse_decoration(b, event, event->data.mapping_start.anchor, event->data.mapping_start.tag);
        return status != NIB_OK ? status : read_mapping(b, event, depth, out);
    case YAML_ALIAS_EVENT:
        return nib_fail_at(b->error, NIB_ESYNTAX, b->document->label, line, "aliases are not used in format files: *%s",
                           (const char *)event->data.alias.anchor);
    default:
        return nib_fail_at(b->error, NIB_ESYNTAX, b->document->label, line,
                           "not valid YAML: a value was expected here");
    }
}

/* Stream start, document start, the root, document end, stream end. */
static enum nib_status read_document(struct builder *b) {
    const char *label = b->document->label;
    bool seen = false;
    for (;;) {
        yaml_event_t event;
        enum nib_status status = next_event(b, &event);
        if (status != NIB_OK) return status;
        yaml_event_type_t type = event.type;
        int line = (int)event.start_mark.line + 1;
        if (type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_END_EVENT || type == YAML_STREAM_END_EVENT ||
            (type == YAML_DOCUMENT_START_EVENT && !seen))
            ;
        else if (type == YAML_DOCUMENT_START_EVENT)
            status = nib_fail_at(b->error, NIB_ESYNTAX, label, line, "a second document begins here; expected one");
        else {
            seen = true;
            status = read_node(b, &event, 0, &b->document->root);
        }
        yaml_event_delete(&event);
        if (status != NIB_OK) return status;
        if (type == YAML_STREAM_END_EVENT) break;
    }
    if (b->document->root == NULL)
        return nib_fail_at(b->error, NIB_ESYNTAX, label, 1, "holds no document; expected keys with values");
    if (b->document->root->kind != NIB_YAML_MAPPING)
        return nib_fail_at(b->error, NIB_ESYNTAX, label, b->document->root->line, "expected \"key: value\" lines, such as \"kind: element\"");
    return NIB_OK;
}

enum nib_status nib_yaml_parse(const char *text, size_t length, const char *label, struct nib_yaml **out,
                               struct nib_error *error) {
    struct builder b = {.text = text, .length = length, .error = error};
    b.document = nib_alloc(1, sizeof *b.document, "a YAML document", error);
    if (b.document == NULL) return NIB_ENOMEM;
    strncpy(b.document->label, label, sizeof b.document->label - 1);
    enum nib_status status;
    if (!yaml_parser_initialize(&b.parser)) {
        status = fail_out_of_memory(&b);
    } else {
        yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&b.parser, (const unsigned char *)text, length);
        status = read_document(&b);
        yaml_parser_delete(&b.parser);
    }
    if (status != NIB_OK) {
        nib_yaml_free(b.document);
        return status;
    }
    *out = b.document;
    return NIB_OK;
}

void nib_yaml_free(struct nib_yaml *document) {
    if (document == NULL) return;
    for (struct nib_yaml_node *node = document->allocated, *next; node != NULL; node = next) {
        next = node->next_allocated;
        free(node->text);
        free(node->values);
        free(node->keys);
        free(node);
    }
    free(document);
}

const struct nib_yaml_node *nib_yaml_root(const struct nib_yaml *document) {
    return document->root;
}
const char *nib_yaml_label(const struct nib_yaml *document) {
    return document->label;
}

enum nib_yaml_kind nib_yaml_kind_of(const struct nib_yaml_node *node) {
    return node->kind;
}
int nib_yaml_line(const struct nib_yaml_node *node) {
    return node->line;
}
const char *nib_yaml_scalar(const struct nib_yaml_node *node) {
    return node->kind == NIB_YAML_SCALAR ? node->text : NULL;
}
size_t nib_yaml_count(const struct nib_yaml_node *node) {
    return node->count;
}
const struct nib_yaml_node *nib_yaml_item(const struct nib_yaml_node *sequence, size_t i) {
    return sequence->values[i];
}
const char *nib_yaml_key(const struct nib_yaml_node *mapping, size_t i) {
    return mapping->keys[i]->text;
}
int nib_yaml_key_line(const struct nib_yaml_node *mapping, size_t i) {
    return mapping->keys[i]->line;
}
const struct nib_yaml_node *nib_yaml_value(const struct nib_yaml_node *mapping, size_t i) {
    return mapping->values[i];
}
const struct nib_yaml_node *nib_yaml_get(const struct nib_yaml_node *mapping, const char *key) {
    if (mapping->kind != NIB_YAML_MAPPING) return NULL;
    for (size_t i = 0; i < mapping->count; i++)
        if (strcmp(mapping->keys[i]->text, key) == 0) return mapping->values[i];
    return NULL;
}
