#include "format/quantizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "core/round.h"
#include "format/registry.h"
#include "format/share.h"
#include "format/yaml.h"

enum { NIB_BASE_DEPTH = 8 };

void nib_quantizer_close(const struct nib_quantizer *quantizer) {
    if (quantizer == NULL) return;
    struct nib_quantizer *mine = (struct nib_quantizer *)(uintptr_t)quantizer;
    nib_block_close(mine->block);
    free(mine->text);
    free(mine);
}

/* The rounding rule and the codes of special values follow from the element and the axes. */
static void finish(struct nib_quantizer *q) {
    static const enum nib_rounding modes[NIB_AXIS_rounding_COUNT] = {
        [NIB_ROUNDING_RNA] = NIB_RNA, [NIB_ROUNDING_RNA_HALF_INPUT] = NIB_RNA, [NIB_ROUNDING_RNZ] = NIB_RNZ,
        [NIB_ROUNDING_RTZ] = NIB_RTZ, [NIB_ROUNDING_RTZ_LOG2_INPUT] = NIB_RTZ, [NIB_ROUNDING_SR] = NIB_RTZ,
    }; /* the others: NIB_RNE */
    const struct nib_element *element = q->block->element;
    nib_rule_compile(element, modes[q->axes.rounding], &q->rule);
    q->code_of_min = element->code_of_rank[0];
    q->code_of_max = element->code_of_rank[element->levels - 1];
    q->code_of_zero = (uint8_t)nib_round_code(&q->rule, 0);
    q->code_of_minus_zero = (uint8_t)nib_round_code(&q->rule, 0x80000000u);
    for (size_t i = 0; i < nib_axis_count; i++) {
        char buffer[NIB_AXIS_TEXT];
        if (nib_axis_table[i].is_number)
            snprintf(q->value_text[i], NIB_AXIS_TEXT, "%s", nib_axes_get(&q->axes, i, buffer));
    }
}

/* The resolved file: what `base:` and defaults left unsaid is written out. */
static enum nib_status write_text(struct nib_quantizer *q, struct nib_error *error) {
    size_t size = 0;
    FILE *out = open_memstream(&q->text, &size);
    if (out == NULL) return nib_fail(error, NIB_ENOMEM, "out of memory for the text of quantizer %s", q->name);
    fprintf(out, "kind: quantizer\ntitle: \"%s\"\nsource: \"%s\"\ndevice: %s\nverified: %s\n", q->title, q->source,
            q->device, q->verified ? "true" : "false");
    if (q->verified_by[0] != '\0') fprintf(out, "verified_by: \"%s\"\n", q->verified_by);
    if (q->note[0] != '\0') fprintf(out, "note: \"%s\"\n", q->note);
    fprintf(out, "block: %s\naxes:\n", q->block->name);
    const char *axis, *value;
    for (size_t i = 0; nib_quantizer_axis(q, i, &axis, &value); i++) fprintf(out, "  %s: %s\n", axis, value);
    if (fclose(out) != 0) return nib_fail(error, NIB_ENOMEM, "out of memory for the text of quantizer %s", q->name);
    nib_sha256_hex(q->text, strlen(q->text), q->sha256);
    return NIB_OK;
}

bool nib_quantizer_axis(const struct nib_quantizer *q, size_t i, const char **axis, const char **value) {
    for (size_t k = 0; k < nib_axis_count; k++) {
        if (!nib_axes_hold(&q->axes, k, q->block) || i-- > 0) continue;
        char buffer[NIB_AXIS_TEXT];
        *axis = nib_axis_table[k].name;
        *value = nib_axis_table[k].is_number ? q->value_text[k] : nib_axes_get(&q->axes, k, buffer);
        return true;
    }
    return false;
}

static const char *const quantizer_kinds[] = {"quantizer", NULL};
static const char *const device_names[] = {"any", "cuda", "cpu", NULL};

struct quantizer_file {
    int kind;
    char title[96], source[200], verified_by[240], note[240], block[256], base[256];
    int device;
    bool verified;
    const struct nib_yaml_node *axes;
};

#define PLACE(member) offsetof(struct quantizer_file, member), sizeof(((struct quantizer_file *)0)->member)
static const struct nib_field quantizer_fields[] = {
    {"kind", NIB_FIELD_CHOICE, true, PLACE(kind), 0, 0, quantizer_kinds},
    {"title", NIB_FIELD_TEXT, true, PLACE(title), 0, 0, NULL},
    {"source", NIB_FIELD_TEXT, true, PLACE(source), 0, 0, NULL},
    {"verified_by", NIB_FIELD_TEXT, false, PLACE(verified_by), 0, 0, NULL},
    {"note", NIB_FIELD_TEXT, false, PLACE(note), 0, 0, NULL},
    {"block", NIB_FIELD_TEXT, false, PLACE(block), 0, 0, NULL},
    {"base", NIB_FIELD_TEXT, false, PLACE(base), 0, 0, NULL},
    {"device", NIB_FIELD_CHOICE, true, PLACE(device), 0, 0, device_names},
    {"verified", NIB_FIELD_BOOL, true, PLACE(verified), 0, 0, NULL},
    {"axes", NIB_FIELD_NODE, false, PLACE(axes), 0, 0, NULL},
    {NULL, NIB_FIELD_TEXT, false, 0, 0, 0, 0, NULL},
};
#undef PLACE

static enum nib_status parse(const char *text, size_t length, const char *label, int depth, struct nib_quantizer **out,
                             struct nib_error *error);

static enum nib_status open_named(const char *name_or_path, int depth, struct nib_quantizer **out,
                                  struct nib_error *error) {
    struct nib_registry_text file;
    enum nib_status status = nib_registry_read("quantizers", name_or_path, &file, error);
    if (status != NIB_OK) return status;
    status = parse(file.text, file.length, file.label, depth, out, error);
    free(file.text);
    return status;
}

/* Takes over what the base fixed, as far as it applies to this block format. */
static void inherit(struct nib_quantizer *q, const struct nib_quantizer *base) {
    for (size_t i = 0; i < nib_axis_count; i++)
        if (base->given[i] && nib_axes_hold(&base->axes, i, q->block)) {
            nib_axes_copy(&q->axes, &base->axes, i);
            q->given[i] = true;
        }
}

static enum nib_status read_axes(struct nib_quantizer *q, const struct nib_yaml *document,
                                 const struct nib_yaml_node *axes, struct nib_error *error) {
    if (axes == NULL) return NIB_OK;
    const char *label = nib_yaml_label(document);
    if (nib_yaml_kind_of(axes) != NIB_YAML_MAPPING)
        return nib_fail_at(error, NIB_ESYNTAX, label, nib_yaml_line(axes), "axes: expected a mapping of axis: choice");
    for (size_t i = 0; i < nib_yaml_count(axes); i++) {
        const struct nib_yaml_node *value = nib_yaml_value(axes, i);
        const char *axis = nib_yaml_key(axes, i);
        if (nib_yaml_scalar(value) == NULL)
            return nib_fail_at(error, NIB_ESYNTAX, label, nib_yaml_line(value), "axis %s: expected one choice", axis);
        enum nib_status status =
            nib_axes_set(&q->axes, q->block, axis, nib_yaml_scalar(value), label, nib_yaml_key_line(axes, i), error);
        if (status != NIB_OK) {
            if (error != NULL) error->status = NIB_ESYNTAX;
            return NIB_ESYNTAX;
        }
        q->given[nib_axis_find(axis)] = true;
    }
    return NIB_OK;
}

static enum nib_status fill(struct nib_quantizer *q, const struct nib_yaml *document, int depth,
                            struct nib_error *error) {
    struct quantizer_file file = {0};
    const struct nib_yaml_node *root = nib_yaml_root(document);
    enum nib_status status = nib_yaml_read(document, root, quantizer_fields, &file, error);
    if (status != NIB_OK) return status;
    const char *label = nib_yaml_label(document);
    if (file.block[0] == '\0' && file.base[0] == '\0')
        return nib_fail_at(error, NIB_ESYNTAX, label, nib_yaml_line(root), "expected a block: or a base: that has one");
    if (depth >= NIB_BASE_DEPTH)
        return nib_fail_at(error, NIB_EINCONSISTENT, label, nib_yaml_line(root), "more than %d base: files in a row",
                           NIB_BASE_DEPTH);
    struct nib_quantizer *base = NULL;
    char place[600];
    if (file.base[0] != '\0') {
        nib_registry_resolve(label, file.base, place, sizeof place);
        status = open_named(place, depth + 1, &base, error);
        if (status != NIB_OK) return nib_yaml_blame(document, "base", status, error);
    }
    if (file.block[0] != '\0') {
        nib_registry_resolve(label, file.block, place, sizeof place);
        status = nib_yaml_blame(document, "block", nib_block_open(place, &q->block, error), error);
    } else
        q->block = nib_block_share(base->block);
    if (status == NIB_OK && q->block->block_rows > NIB_BLOCK_ROWS_MAX)
        status =
            nib_fail_at(error, NIB_EINVAL, label, nib_yaml_line(root), "block format %s spans %u lines; at most %d",
                        q->block->name, q->block->block_rows, NIB_BLOCK_ROWS_MAX);
    if (status == NIB_OK) {
        snprintf(q->title, sizeof q->title, "%s", file.title);
        snprintf(q->source, sizeof q->source, "%s", file.source);
        snprintf(q->device, sizeof q->device, "%s", device_names[file.device]);
        snprintf(q->verified_by, sizeof q->verified_by, "%s", file.verified_by);
        snprintf(q->note, sizeof q->note, "%s", file.note);
        q->verified = file.verified;
        nib_axes_default(&q->axes, q->block);
        if (base != NULL) inherit(q, base);
        status = read_axes(q, document, file.axes, error);
    }
    nib_quantizer_close(base);
    return status;
}

static enum nib_status parse(const char *text, size_t length, const char *label, int depth, struct nib_quantizer **out,
                             struct nib_error *error) {
    struct nib_yaml *document;
    enum nib_status status = nib_yaml_parse(text, length, label, &document, error);
    if (status != NIB_OK) return status;
    struct nib_quantizer *q = nib_alloc(1, sizeof *q, "a quantizer", error);
    if (q == NULL) {
        nib_yaml_free(document);
        return NIB_ENOMEM;
    }
    char name[40];
    nib_registry_name_of(label, name);
    snprintf(q->name, sizeof q->name, "%s", name);
    status = fill(q, document, depth, error);
    nib_yaml_free(document);
    if (status == NIB_OK && (q->text = strndup(text, length)) == NULL)
        status = nib_fail(error, NIB_ENOMEM, "out of memory for quantizer %s", label);
    if (status != NIB_OK) {
        nib_quantizer_close(q);
        return status;
    }
    nib_sha256_hex(text, length, q->sha256);
    finish(q);
    *out = q;
    return NIB_OK;
}

enum nib_status nib_quantizer_parse(const char *text, size_t length, const char *label,
                                    const struct nib_quantizer **out, struct nib_error *error) {
    struct nib_quantizer *q;
    enum nib_status status = parse(text, length, label, 0, &q, error);
    if (status == NIB_OK) *out = q;
    return status;
}

/* Splits "axis=value" and sets it; the axis is marked as given. */
static enum nib_status apply_setting(struct nib_quantizer *q, const char *setting, struct nib_error *error) {
    const char *equals = strchr(setting, '=');
    char axis[48];
    if (equals == NULL || equals == setting || (size_t)(equals - setting) >= sizeof axis)
        return nib_fail(error, NIB_EINVAL, "\"%s\": expected axis=value", setting);
    snprintf(axis, sizeof axis, "%.*s", (int)(equals - setting), setting);
    enum nib_status status = nib_axes_set(&q->axes, q->block, axis, equals + 1, "", 0, error);
    if (status == NIB_OK) q->given[nib_axis_find(axis)] = true;
    return status;
}

/* An axis twice is a mistake: nobody can mean both values. */
static enum nib_status check_once(const char *const *settings, size_t i, struct nib_error *error) {
    size_t length = strcspn(settings[i], "=") + 1;
    for (size_t k = 0; k < i; k++)
        if (strncmp(settings[k], settings[i], length) == 0)
            return nib_fail(error, NIB_EINVAL, "axis %.*s is set twice: %.60s and %.60s", (int)length - 1, settings[i],
                            settings[k], settings[i]);
    return NIB_OK;
}

enum nib_status nib_quantizer_with(const struct nib_quantizer *base, const char *const *settings, size_t count,
                                   const struct nib_quantizer **out, struct nib_error *error) {
    struct nib_quantizer *q = nib_alloc(1, sizeof *q, "a quantizer", error);
    if (q == NULL) return NIB_ENOMEM;
    *q = *base;
    q->text = NULL;
    q->block = nib_block_share(base->block);
    enum nib_status status = NIB_OK;
    for (size_t i = 0; i < count && status == NIB_OK; i++) {
        status = check_once(settings, i, error);
        if (status == NIB_OK) status = apply_setting(q, settings[i], error);
        size_t used = strlen(q->name);
        snprintf(q->name + used, sizeof q->name - used, "%s%s", i == 0 ? "+" : ",", settings[i]);
    }
    if (status == NIB_OK && count > 0) {
        q->verified = false;
        snprintf(q->verified_by, sizeof q->verified_by, "%.80s with axes changed", base->name);
        if (base->note[0] != '\0') snprintf(q->note, sizeof q->note, "%.64s: %.240s", base->name, base->note);
    }
    if (status == NIB_OK) {
        finish(q);
        status = write_text(q, error);
    }
    if (status != NIB_OK) {
        nib_quantizer_close(q);
        return status;
    }
    *out = q;
    return NIB_OK;
}

void nib_quantizer_describe(const struct nib_quantizer *q, struct nib_quantizer_info *out) {
    *out = (struct nib_quantizer_info){.name = q->name,
                                       .title = q->title,
                                       .source = q->source,
                                       .device = q->device,
                                       .verified = q->verified,
                                       .verified_by = q->verified_by,
                                       .note = q->note,
                                       .block = q->block,
                                       .text = q->text,
                                       .sha256 = q->sha256};
}

enum nib_status nib_quantizer_of_grid(const struct nib_element *element, const struct nib_scale *scale,
                                      unsigned block_size, const struct nib_quantizer **out, struct nib_error *error) {
    if (block_size < 1 || block_size > 1 << 16)
        return nib_fail(error, NIB_EINVAL, "block size %u: expected 1 to 65536", block_size);
    struct nib_quantizer *q = nib_alloc(1, sizeof *q, "a quantizer", error);
    if (q == NULL) return NIB_ENOMEM;
    enum nib_status status = nib_block_of_grid(element, scale, block_size, &q->block, error);
    if (status == NIB_OK) {
        snprintf(q->name, sizeof q->name, "%s", q->block->name);
        snprintf(q->title, sizeof q->title, "%s", q->block->title);
        snprintf(q->source, sizeof q->source,
                 "in the manner of UFP4, arXiv 2606.20381: decode scale amax / largest level");
        snprintf(q->device, sizeof q->device, "any");
        snprintf(q->verified_by, sizeof q->verified_by, "a grid to explore, no real implementation");
        nib_axes_default(&q->axes, q->block);
        q->axes.block_scale = NIB_BLOCK_SCALE_B_OVER_Q;
        if (scale->kind == NIB_SCALE_E8M0) q->axes.scale_rounding = NIB_SCALE_ROUND_UP;
        q->axes.element_scale = NIB_ELEMENT_X_OVER_S;
        q->axes.zero_scale = NIB_ZERO_SCALE_X0;
        finish(q);
        status = write_text(q, error);
    }
    if (status != NIB_OK) {
        nib_quantizer_close(q);
        return status;
    }
    *out = q;
    return NIB_OK;
}
