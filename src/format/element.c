/* Element formats: from YAML or levels to an immutable object. */
#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/sha256.h"
#include "core/key.h"
#include "format/element_rule.h"
#include "format/registry.h"
#include "format/share.h"
#include "format/yaml.h"
#include <math.h>
#include <nibble/element.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNUSED = 255 };

static int compare_levels(const void *a, const void *b) {
    int32_t x = nib_key_of_bits(nib_bits_of_float(*(const float *)a));
    int32_t y = nib_key_of_bits(nib_bits_of_float(*(const float *)b));
    return (x > y) - (x < y);
}

/* code = magnitude code | sign << 3, magnitudes ascending from code 0. */
static bool is_symmetric(const struct nib_element *e) {
    unsigned half = e->levels / 2;
    if (e->levels % 2 != 0) return false;
    for (unsigned code = 0; code < 8; code++) {
        uint32_t positive = nib_bits_of_float(e->level[code]), negative = nib_bits_of_float(e->level[code | 8]);
        bool used = e->rank_of_code[code] != UNUSED, mirror = e->rank_of_code[code | 8] != UNUSED;
        if (used != (code < half) || mirror != used) return false;
        if (!used) continue;
        if (positive >> 31 != 0 || negative != (positive | 0x80000000)) return false;
        if (code > 0 && positive <= nib_bits_of_float(e->level[code - 1])) return false;
    }
    return true;
}

/* Everything that follows from `level` and the ranks' order. */
static void derive(struct nib_element *e) {
    float sorted[NIB_CODES], magnitude[NIB_CODES];
    e->levels = 0;
    for (unsigned code = 0; code < NIB_CODES; code++)
        if (!isnan(e->level[code])) sorted[e->levels++] = e->level[code];
    qsort(sorted, e->levels, sizeof *sorted, compare_levels);
    memset(e->rank_of_code, UNUSED, sizeof e->rank_of_code);
    memset(e->magnitude_of_code, UNUSED, sizeof e->magnitude_of_code);
    for (unsigned rank = 0; rank < e->levels; rank++) {
        e->level_of_rank[rank] = sorted[rank];
        magnitude[rank] = fabsf(sorted[rank]);
        for (unsigned code = 0; code < NIB_CODES; code++)
            if (!isnan(e->level[code]) && nib_bits_of_float(e->level[code]) == nib_bits_of_float(sorted[rank])) {
                e->code_of_rank[rank] = (uint8_t)code;
                e->rank_of_code[code] = (uint8_t)rank;
            }
    }
    qsort(magnitude, e->levels, sizeof *magnitude, compare_levels);
    e->magnitudes = 0;
    for (unsigned i = 0; i < e->levels; i++) {
        if (e->magnitudes > 0 && magnitude[i] == magnitude[e->magnitudes - 1]) continue;
        magnitude[e->magnitudes++] = magnitude[i];
    }
    for (unsigned code = 0; code < NIB_CODES; code++)
        for (unsigned m = 0; m < e->magnitudes; m++)
            if (fabsf(e->level[code]) == magnitude[m]) e->magnitude_of_code[code] = (uint8_t)m;
    e->max_magnitude = magnitude[e->magnitudes - 1];
    e->emax = e->max_magnitude > 0 ? ilogbf(e->max_magnitude) : 0;
    for (unsigned code = 0; code < NIB_CODES; code++)
        if (nib_bits_of_float(e->level[code]) == 0x80000000) e->has_negative_zero = true;
    e->symmetric = is_symmetric(e);
}

/* What is on the heap: the element first, the text last. */
struct held_element {
    struct nib_element element;
    atomic_uint holders;
    char text[];
};

static struct held_element *holder_of(const struct nib_element *element) {
    return (struct held_element *)(uintptr_t)element; /* const for its readers only */
}

static enum nib_status publish(const struct nib_element *e, const char *text, size_t length,
                               const struct nib_element **out, struct nib_error *error) {
    struct held_element *held = nib_alloc(1, sizeof *held + length + 1, "an element format", error);
    if (held == NULL) return NIB_ENOMEM;
    memcpy(held->text, text, length); /* the NUL is there */
    held->element = *e;
    held->element.text = held->text;
    nib_sha256_hex(text, length, held->element.sha256);
    atomic_init(&held->holders, 1);
    *out = &held->element;
    return NIB_OK;
}

static enum nib_status read_level(const struct nib_yaml *document, const struct nib_yaml_node *node, float *out,
                                  struct nib_error *error) {
    const char *text = nib_yaml_scalar(node), *label = nib_yaml_label(document);
    int line = nib_yaml_line(node);
    float nearest;
    if (text == NULL) return nib_fail_at(error, NIB_ESYNTAX, label, line, "a level must be a single number");
    if (strcmp(text, "-") == 0 || strcmp(text, "null") == 0 || strcmp(text, "~") == 0) {
        *out = NAN;
        return NIB_OK;
    }
    if (nib_number_exact_float(text, out)) return NIB_OK;
    if (nib_number_float(text, &nearest))
        return nib_fail_at(error, NIB_ESYNTAX, label, line,
                           "level %.60s is not exactly a binary32 number; the nearest one is %a", text,
                           (double)nearest);
    return nib_fail_at(error, NIB_ESYNTAX, label, line,
                       "level \"%.40s\" is not a finite number (decimal or hexadecimal; - marks an unused code)", text);
}

static enum nib_status read_levels(const struct nib_yaml *document, const struct nib_yaml_node *list,
                                   float level[NIB_CODES], int line_of_code[NIB_CODES], struct nib_error *error) {
    const char *label = nib_yaml_label(document);
    if (nib_yaml_kind_of(list) != NIB_YAML_SEQUENCE || nib_yaml_count(list) != NIB_CODES)
        return nib_fail_at(error, NIB_ESYNTAX, label, nib_yaml_line(list),
                           "%zu levels; expected a list of 16, in code order (- marks an unused code)",
                           nib_yaml_kind_of(list) == NIB_YAML_SEQUENCE ? nib_yaml_count(list) : (size_t)1);
    unsigned used = 0;
    for (unsigned code = 0; code < NIB_CODES; code++) {
        const struct nib_yaml_node *item = nib_yaml_item(list, code);
        enum nib_status status = read_level(document, item, &level[code], error);
        if (status != NIB_OK) return status;
        line_of_code[code] = nib_yaml_line(item);
        used += !isnan(level[code]);
        for (unsigned other = 0; other < code; other++)
            if (!isnan(level[code]) && nib_bits_of_float(level[other]) == nib_bits_of_float(level[code]))
                return nib_fail_at(error, NIB_ESYNTAX, label, line_of_code[code],
                                   "codes %u and %u have the same level %.9g; use - for an unused code", other, code,
                                   (double)level[code]);
    }
    if (used < 2)
        return nib_fail_at(error, NIB_ESYNTAX, label, nib_yaml_line(list), "%u level in use; expected 2 to 16", used);
    return NIB_OK;
}

static enum nib_status check_agreement(const struct nib_yaml *document, const float level[NIB_CODES],
                                       const float by_rule[NIB_CODES], const int line_of_code[NIB_CODES],
                                       struct nib_error *error) {
    for (unsigned code = 0; code < NIB_CODES; code++) {
        bool unused = isnan(level[code]), unused_by_rule = isnan(by_rule[code]);
        if (unused && unused_by_rule) continue;
        if (!unused && !unused_by_rule && nib_bits_of_float(level[code]) == nib_bits_of_float(by_rule[code])) continue;
        char listed[32] = "unused", ruled[32] = "unused";
        if (!unused) snprintf(listed, sizeof listed, "%.9g", (double)level[code]);
        if (!unused_by_rule) snprintf(ruled, sizeof ruled, "%.9g", (double)by_rule[code]);
        return nib_fail_at(error, NIB_EINCONSISTENT, nib_yaml_label(document), line_of_code[code],
                           "the level of code %u is %s here and %s by the rule", code, listed, ruled);
    }
    return NIB_OK;
}

struct element_file {
    int kind;
    char title[96], source[160];
    const struct nib_yaml_node *rule, *levels;
};

static const char *const element_kinds[] = {"element", NULL};
#define PLACE(member) offsetof(struct element_file, member), sizeof(((struct element_file *)0)->member)
static const struct nib_field element_fields[] = {
    {"kind", NIB_FIELD_CHOICE, true, PLACE(kind), 0, 0, element_kinds},
    {"title", NIB_FIELD_TEXT, true, PLACE(title), 0, 0, NULL},
    {"source", NIB_FIELD_TEXT, true, PLACE(source), 0, 0, NULL},
    {"rule", NIB_FIELD_NODE, false, PLACE(rule), 0, 0, NULL},
    {"levels", NIB_FIELD_NODE, false, PLACE(levels), 0, 0, NULL},
    {NULL, NIB_FIELD_NODE, false, 0, 0, 0, 0, NULL},
};
#undef PLACE

static enum nib_status read_element(const struct nib_yaml *document, struct nib_element *e, struct nib_error *error) {
    struct element_file file = {.rule = NULL};
    float by_rule[NIB_CODES];
    int line_of_code[NIB_CODES];
    enum nib_status status = nib_yaml_read(document, nib_yaml_root(document), element_fields, &file, error);
    if (status != NIB_OK) return status;
    if (file.rule == NULL && file.levels == NULL)
        return nib_fail_at(error, NIB_ESYNTAX, nib_yaml_label(document), 1, "missing key: rule or levels (or both)");
    memcpy(e->title, file.title, sizeof e->title);
    memcpy(e->source, file.source, sizeof e->source);
    if (file.rule != NULL) {
        status = nib_element_rule_levels(document, file.rule, by_rule, error);
        if (status != NIB_OK) return status;
        memcpy(e->level, by_rule, sizeof e->level);
    }
    if (file.levels != NULL) {
        status = read_levels(document, file.levels, e->level, line_of_code, error);
        if (status == NIB_OK && file.rule != NULL)
            status = check_agreement(document, e->level, by_rule, line_of_code, error);
    }
    return status;
}

static enum nib_status parse_named(const char *text, size_t length, const char *label, const char *name,
                                   const struct nib_element **out, struct nib_error *error) {
    struct nib_element e = {.levels = 0};
    struct nib_yaml *document;
    enum nib_status status = nib_yaml_parse(text, length, label, &document, error);
    if (status != NIB_OK) return status;
    snprintf(e.name, sizeof e.name, "%s", name);
    struct nib_fpenv saved = nib_fpenv_enter();
    status = read_element(document, &e, error);
    if (status == NIB_OK) derive(&e);
    nib_fpenv_leave(saved);
    nib_yaml_free(document);
    if (status != NIB_OK) return status;
    return publish(&e, text, length, out, error);
}

enum nib_status nib_element_parse(const char *text, size_t length, const char *label, const struct nib_element **out,
                                  struct nib_error *error) {
    char name[40];
    nib_registry_name_of(label, name);
    return parse_named(text, length, label, name, out, error);
}

enum nib_status nib_element_open(const char *name_or_path, const struct nib_element **out, struct nib_error *error) {
    struct nib_registry_text source;
    enum nib_status status = nib_registry_read("elements", name_or_path, &source, error);
    if (status != NIB_OK) return status;
    status = parse_named(source.text, source.length, source.label, source.name, out, error);
    free(source.text);
    return status;
}

/* The YAML that describes the levels, so that a grid made in memory can be saved and read again. */
static int write_text(const struct nib_element *e, char *text, size_t size) {
    int used =
        snprintf(text, size, "kind: element\ntitle: grid of %u levels\nsource: given as levels\nlevels: [", e->levels);
    for (unsigned code = 0; code < NIB_CODES; code++) {
        const char *separator = code == 0 ? "" : ", ";
        if (isnan(e->level[code]))
            used += snprintf(text + used, size - (size_t)used, "%snull", separator);
        else
            used += snprintf(text + used, size - (size_t)used, "%s%a", separator, (double)e->level[code]);
    }
    return used + snprintf(text + used, size - (size_t)used, "]\n");
}

static enum nib_status from_levels(const char *name, const float *levels, unsigned count,
                                   const struct nib_element **out, struct nib_error *error) {
    struct nib_element e = {.levels = 0};
    char text[1024];
    if (count < 2 || count > NIB_CODES) return nib_fail(error, NIB_EINVAL, "%u levels; expected 2 to 16", count);
    for (unsigned i = 0; i < count; i++) {
        if (!isfinite(levels[i])) return nib_fail(error, NIB_EINVAL, "level %u is not finite", i + 1);
        if (i > 0 && compare_levels(&levels[i - 1], &levels[i]) >= 0)
            return nib_fail(error, NIB_EINVAL, "levels must ascend: level %u (%.9g) does not exceed level %u (%.9g)",
                            i + 1, (double)levels[i], i, (double)levels[i - 1]);
    }
    /* A zero in a symmetric grid stands for both zeros. */
    unsigned zeros = 0, magnitudes = 0;
    bool symmetric = true;
    for (unsigned i = 0; i < count; i++) {
        symmetric = symmetric && levels[i] == -levels[count - 1 - i];
        zeros += levels[i] == 0;
        magnitudes += levels[i] > 0;
    }
    magnitudes += zeros > 0;
    snprintf(e.name, sizeof e.name, "%s", name);
    snprintf(e.title, sizeof e.title, "grid of %u levels", count);
    snprintf(e.source, sizeof e.source, "given as levels");
    for (unsigned code = 0; code < NIB_CODES; code++) e.level[code] = NAN;
    if (symmetric && magnitudes <= 8)
        for (unsigned m = 0; m < magnitudes; m++) {
            e.level[m] = fabsf(levels[count - magnitudes + m]);
            e.level[m | 8] = -e.level[m];
        }
    else
        for (unsigned i = 0; i < count; i++) e.level[i] = levels[i];
    derive(&e);
    int length = write_text(&e, text, sizeof text);
    return publish(&e, text, (size_t)length, out, error);
}

enum nib_status nib_element_from_levels(const char *name, const float *levels, unsigned count,
                                        const struct nib_element **out, struct nib_error *error) {
    struct nib_fpenv saved = nib_fpenv_enter();
    enum nib_status status = from_levels(name, levels, count, out, error);
    nib_fpenv_leave(saved);
    return status;
}

const struct nib_element *nib_element_share(const struct nib_element *element) {
    atomic_fetch_add(&holder_of(element)->holders, 1);
    return element;
}

void nib_element_close(const struct nib_element *element) {
    if (element != NULL && atomic_fetch_sub(&holder_of(element)->holders, 1) == 1) free(holder_of(element));
}
