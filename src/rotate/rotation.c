/* Rotations from YAML. */
#include "rotate/rotation.h"

#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/path.h"
#include "base/sha256.h"
#include "base/suggest.h"
#include "format/embedded.h"
#include "format/yaml.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"rotation", NULL};
static const char *const evaluations[] = {"butterfly", NULL};
static const char *const normalizations[] = {"orthonormal", "none", NULL};
static const char *const outputs[] = {"fp32", "bf16", NULL};

struct record {
    char title[96], source[160];
    int kind, evaluation, normalization, output;
    int64_t size;
    const struct nib_yaml_node *signs;
};

#define PLACE(member) offsetof(struct record, member), sizeof(((struct record *)0)->member)
static const struct nib_field fields[] = {
    {"kind", NIB_FIELD_CHOICE, true, PLACE(kind), 0, 0, kinds},
    {"title", NIB_FIELD_TEXT, true, PLACE(title), 0, 0, NULL},
    {"source", NIB_FIELD_TEXT, true, PLACE(source), 0, 0, NULL},
    {"size", NIB_FIELD_INTEGER, true, PLACE(size), 1, NIB_ROTATION_MAX, NULL},
    {"signs", NIB_FIELD_NODE, false, PLACE(signs), 0, 0, NULL},
    {"evaluation", NIB_FIELD_CHOICE, false, PLACE(evaluation), 0, 0, evaluations},
    {"normalization", NIB_FIELD_CHOICE, false, PLACE(normalization), 0, 0, normalizations},
    {"output", NIB_FIELD_CHOICE, false, PLACE(output), 0, 0, outputs},
    {NULL, NIB_FIELD_NODE, false, 0, 0, 0, 0, NULL},
};
#undef PLACE

static enum nib_status read_signs(const struct nib_yaml *document, const struct nib_yaml_node *node,
                                  struct nib_rotation *rotation, struct nib_error *error) {
    const char *label = nib_yaml_label(document);
    if (nib_yaml_kind_of(node) != NIB_YAML_SEQUENCE || nib_yaml_count(node) != rotation->size)
        return nib_fail_at(error, NIB_ESYNTAX, label, nib_yaml_line(node),
                           "signs must be a list of %u numbers, each 1 or -1", rotation->size);
    for (unsigned i = 0; i < rotation->size; i++) {
        const struct nib_yaml_node *item = nib_yaml_item(node, i);
        const char *text = nib_yaml_scalar(item);
        int64_t sign = 0;
        if (text == NULL || !nib_number_integer(text, -1, 1, &sign) || sign == 0)
            return nib_fail_at(error, NIB_ESYNTAX, label, nib_yaml_line(item), "sign %u is \"%s\"; expected 1 or -1", i,
                               text == NULL ? "a collection" : text);
        rotation->sign[i] = (float)sign;
    }
    return NIB_OK;
}

static enum nib_status fill(const struct nib_yaml *document, struct nib_rotation *rotation, struct nib_error *error) {
    struct record record = {.signs = NULL};
    const struct nib_yaml_node *root = nib_yaml_root(document);
    enum nib_status status = nib_yaml_read(document, root, fields, &record, error);
    if (status != NIB_OK) return status;
    if ((record.size & (record.size - 1)) != 0)
        return nib_fail_at(error, NIB_ESYNTAX, nib_yaml_label(document), nib_yaml_line(nib_yaml_get(root, "size")),
                           "size is %lld; expected a power of two, 1 to %d", (long long)record.size, NIB_ROTATION_MAX);
    memcpy(rotation->title, record.title, sizeof rotation->title);
    memcpy(rotation->source, record.source, sizeof rotation->source);
    rotation->size = (unsigned)record.size;
    rotation->evaluation = record.evaluation;
    rotation->normalization = record.normalization;
    rotation->output = record.output;
    rotation->factor = record.normalization == NIB_NORMALIZATION_NONE ? 1.0f : (float)(1 / sqrt((double)record.size));
    for (unsigned i = 0; i < rotation->size; i++) rotation->sign[i] = 1.0f;
    return record.signs == NULL ? NIB_OK : read_signs(document, record.signs, rotation, error);
}

/* The name of "dir/rht16.yaml" is "rht16". */
static void name_from_label(const char *label, char *name, size_t size) {
    const char *slash = strrchr(label, '/');
    const char *first = slash == NULL ? label : slash + 1;
    size_t length = strlen(first);
    if (length > 5 && strcmp(first + length - 5, ".yaml") == 0) length -= 5;
    if (length >= size) length = size - 1;
    memcpy(name, first, length);
    name[length] = '\0';
}

enum nib_status nib_rotation_parse(const char *text, size_t length, const char *label,
                                   const struct nib_rotation **out, struct nib_error *error) {
    struct nib_rotation *rotation = nib_alloc(1, sizeof *rotation, "a rotation", error);
    if (rotation == NULL) return NIB_ENOMEM;
    name_from_label(label, rotation->name, sizeof rotation->name);
    rotation->text = nib_alloc(length + 1, 1, "the text of a rotation", error);
    enum nib_status status = rotation->text == NULL ? NIB_ENOMEM : NIB_OK;
    struct nib_yaml *document = NULL;
    if (status == NIB_OK) {
        memcpy(rotation->text, text, length);
        nib_sha256_hex(text, length, rotation->sha256);
        status = nib_yaml_parse(text, length, label, &document, error);
    }
    struct nib_fpenv saved = nib_fpenv_enter(); /* for the factor */
    if (status == NIB_OK) status = fill(document, rotation, error);
    nib_fpenv_leave(saved);
    if (document != NULL) nib_yaml_free(document);
    if (status == NIB_OK)
        *out = rotation;
    else
        nib_rotation_close(rotation);
    return status;
}

static const char *built_in(size_t i, const void *context) {
    (void)context;
    for (size_t k = 0; k < nib_embedded_count; k++)
        if (strcmp(nib_embedded_formats[k].kind, "rotations") == 0 && i-- == 0) return nib_embedded_formats[k].name;
    return NULL;
}

enum nib_status nib_rotation_open(const char *name_or_path, const struct nib_rotation **out, struct nib_error *error) {
    if (nib_path_is_file(name_or_path)) {
        char *text = NULL;
        size_t length = 0;
        enum nib_status status = nib_path_read_text(name_or_path, &text, &length, error);
        if (status == NIB_OK) status = nib_rotation_parse(text, length, name_or_path, out, error);
        free(text);
        return status;
    }
    const struct nib_embedded *embedded = nib_embedded_find("rotations", name_or_path);
    if (embedded == NULL) {
        const char *near = nib_suggest(name_or_path, built_in, NULL);
        return nib_fail(error, NIB_ENOTFOUND, "no rotation \"%s\"%s%s%s", name_or_path,
                        near == NULL ? "; `nibble list rotations` names them" : "; did you mean \"",
                        near == NULL ? "" : near, near == NULL ? "" : "\"?");
    }
    char label[80];
    snprintf(label, sizeof label, "rotations/%s", embedded->name);
    return nib_rotation_parse(embedded->text, embedded->length, label, out, error);
}

void nib_rotation_close(const struct nib_rotation *rotation) {
    if (rotation == NULL) return;
    free(rotation->text);
    struct nib_rotation *own;
    memcpy(&own, &rotation, sizeof own);
    free(own);
}

const char *nib_rotation_name(const struct nib_rotation *rotation) { return rotation->name; }
unsigned nib_rotation_size(const struct nib_rotation *rotation) { return rotation->size; }
const char *nib_rotation_text(const struct nib_rotation *rotation) { return rotation->text; }
const char *nib_rotation_sha256(const struct nib_rotation *rotation) { return rotation->sha256; }
