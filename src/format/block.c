/* Block formats: an element, a scale and a shape. */
#include "base/error.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/sha256.h"
#include "format/registry.h"
#include "format/share.h"
#include "format/yaml.h"
#include <nibble/quantizer.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_EXTENT = 1 << 16 };

/* What is on the heap: the block first, the text last. */
struct held_block {
    struct nib_block block;
    atomic_uint holders;
    char text[];
};

static struct held_block *holder_of(const struct nib_block *block) {
    return (struct held_block *)(uintptr_t)block; /* const for its readers only */
}

struct block_file {
    int kind;
    char title[96], source[160], element[256], scale[256], shape[32];
    int tensor_scale;
};

static const char *const block_kinds[] = {"block", NULL};
static const char *const tensor_scales[] = {"none", "fp32", NULL};

#define PLACE(member) offsetof(struct block_file, member), sizeof(((struct block_file *)0)->member)
static const struct nib_field block_fields[] = {
    {"kind", NIB_FIELD_CHOICE, true, PLACE(kind), 0, 0, block_kinds},
    {"title", NIB_FIELD_TEXT, true, PLACE(title), 0, 0, NULL},
    {"source", NIB_FIELD_TEXT, true, PLACE(source), 0, 0, NULL},
    {"element", NIB_FIELD_TEXT, true, PLACE(element), 0, 0, NULL},
    {"scale", NIB_FIELD_TEXT, true, PLACE(scale), 0, 0, NULL},
    {"shape", NIB_FIELD_TEXT, true, PLACE(shape), 0, 0, NULL},
    {"tensor_scale", NIB_FIELD_CHOICE, true, PLACE(tensor_scale), 0, 0, tensor_scales},
    {NULL, NIB_FIELD_NODE, false, 0, 0, 0, 0, NULL},
};
#undef PLACE

/* "1x16": across the reduction axis, then along it. */
static enum nib_status read_shape(const struct nib_yaml *document, const char *shape, struct nib_block *block,
                                  struct nib_error *error) {
    char rows_text[32];
    int64_t rows = 0, cols = 0;
    const char *times = strchr(shape, 'x');
    if (times != NULL) snprintf(rows_text, sizeof rows_text, "%.*s", (int)(times - shape), shape);
    if (times == NULL || !nib_number_integer(rows_text, 1, LARGEST_EXTENT, &rows) ||
        !nib_number_integer(times + 1, 1, LARGEST_EXTENT, &cols))
        return nib_fail_at(
            error, NIB_ESYNTAX, nib_yaml_label(document), nib_yaml_line(nib_yaml_get(nib_yaml_root(document), "shape")),
            "shape is \"%s\"; expected ROWSxCOLS such as 1x16, extents from 1 to %d", shape, (int)LARGEST_EXTENT);
    block->block_rows = (unsigned)rows;
    block->block_cols = (unsigned)cols;
    return NIB_OK;
}

static enum nib_status open_parts(const struct nib_yaml *document, const struct block_file *file,
                                  struct nib_block *block, struct nib_error *error) {
    char place[600];
    const char *label = nib_yaml_label(document);
    nib_registry_resolve(label, file->element, place, sizeof place);
    enum nib_status status = nib_element_open(place, &block->element, error);
    if (status != NIB_OK) return nib_yaml_blame(document, "element", status, error);
    nib_registry_resolve(label, file->scale, place, sizeof place);
    status = nib_scale_open(place, &block->scale, error);
    if (status != NIB_OK) {
        nib_element_close(block->element);
        block->element = NULL;
        return nib_yaml_blame(document, "scale", status, error);
    }
    return NIB_OK;
}

static enum nib_status read_block(const struct nib_yaml *document, struct nib_block *block, struct nib_error *error) {
    struct block_file file = {.kind = 0};
    enum nib_status status = nib_yaml_read(document, nib_yaml_root(document), block_fields, &file, error);
    if (status == NIB_OK) status = read_shape(document, file.shape, block, error);
    if (status == NIB_OK) status = open_parts(document, &file, block, error);
    if (status != NIB_OK) return status;
    memcpy(block->title, file.title, sizeof block->title);
    memcpy(block->source, file.source, sizeof block->source);
    block->has_tensor_scale = file.tensor_scale == 1;
    return NIB_OK;
}

/* The text is in place. */
static const struct nib_block *publish(struct held_block *held, const char *name) {
    struct nib_block *block = &held->block;
    block->bits_per_value = 4 + (float)block->scale->bits / ((float)block->block_rows * (float)block->block_cols);
    snprintf(block->name, sizeof block->name, "%s", name);
    block->text = held->text;
    nib_sha256_hex(held->text, strlen(held->text), block->sha256);
    atomic_init(&held->holders, 1);
    return block;
}

static enum nib_status parse_named(const char *text, size_t length, const char *label, const char *name,
                                   const struct nib_block **out, struct nib_error *error) {
    struct nib_yaml *document;
    enum nib_status status = nib_yaml_parse(text, length, label, &document, error);
    if (status != NIB_OK) return status;
    struct held_block *held = nib_alloc(1, sizeof *held + length + 1, "a block format", error);
    if (held == NULL) status = NIB_ENOMEM;
    if (status == NIB_OK) status = read_block(document, &held->block, error);
    nib_yaml_free(document);
    if (status != NIB_OK) {
        free(held);
        return status;
    }
    memcpy(held->text, text, length); /* the NUL is there */
    *out = publish(held, name);
    return NIB_OK;
}

enum nib_status nib_block_parse(const char *text, size_t length, const char *label, const struct nib_block **out,
                                struct nib_error *error) {
    char name[40];
    nib_registry_name_of(label, name);
    return parse_named(text, length, label, name, out, error);
}

enum nib_status nib_block_open(const char *name_or_path, const struct nib_block **out, struct nib_error *error) {
    struct nib_registry_text source;
    enum nib_status status = nib_registry_read("blocks", name_or_path, &source, error);
    if (status != NIB_OK) return status;
    status = parse_named(source.text, source.length, source.label, source.name, out, error);
    free(source.text);
    return status;
}

enum nib_status nib_block_of_grid(const struct nib_element *element, const struct nib_scale *scale, unsigned block_size,
                                  const struct nib_block **out, struct nib_error *error) {
    enum { TEXT = 512 };
    char name[40];
    struct held_block *held = nib_alloc(1, sizeof *held + TEXT, "a block format", error);
    if (held == NULL) return NIB_ENOMEM;
    struct nib_block *block = &held->block;
    snprintf(name, sizeof name, "%.24s-%.12s", element->name, scale->name);
    snprintf(block->title, sizeof block->title, "%.39s, one %.15s scale per %u", element->name, scale->name,
             block_size);
    snprintf(block->source, sizeof block->source, "made of an element and a scale format");
    snprintf(held->text, TEXT,
             "kind: block\ntitle: %s\nsource: %s\nelement: %s\nscale: %s\nshape: 1x%u\ntensor_scale: none\n",
             block->title, block->source, element->name, scale->name, block_size);
    block->element = nib_element_share(element);
    block->scale = nib_scale_share(scale);
    block->block_rows = 1;
    block->block_cols = block_size;
    *out = publish(held, name);
    return NIB_OK;
}

const struct nib_block *nib_block_share(const struct nib_block *block) {
    atomic_fetch_add(&holder_of(block)->holders, 1);
    return block;
}

void nib_block_close(const struct nib_block *block) {
    if (block == NULL || atomic_fetch_sub(&holder_of(block)->holders, 1) != 1) return;
    nib_element_close(block->element);
    nib_scale_close(block->scale);
    free(holder_of(block));
}
