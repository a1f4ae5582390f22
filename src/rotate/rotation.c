/* Rotations from YAML. */
#include "rotate/rotation.h"

#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/path.h"
#include "base/sha256.h"
#include "base/suggest.h"
#include "core/philox.h"
#include "format/embedded.h"
#include "format/yaml.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"rotation", NULL};
static const char *const evaluations[] = {"butterfly", "sequential", "runs", "parity", "exact", "unit", NULL};
static const char *const normalizations[] = {"orthonormal", "none", NULL};
static const char *const outputs[] = {"fp32", "bf16", NULL};
static const char *const operands[] = {"bf16", "tf32", NULL};

struct record {
    char title[96], source[160];
    int kind, evaluation, normalization, output, stages, operand;
    int64_t size, base, points;
    double factor;
    bool inverse, flush;
    char unit[256];
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
    {"base", NIB_FIELD_INTEGER, false, PLACE(base), 1, 40, NULL},
    {"factor", NIB_FIELD_REAL, false, PLACE(factor), 0, 0, NULL},
    {"inverse", NIB_FIELD_BOOL, false, PLACE(inverse), 0, 0, NULL},
    {"flush", NIB_FIELD_BOOL, false, PLACE(flush), 0, 0, NULL},
    {"unit", NIB_FIELD_TEXT, false, PLACE(unit), 0, 0, NULL},
    {"operand", NIB_FIELD_CHOICE, false, PLACE(operand), 0, 0, operands},
    {"points", NIB_FIELD_INTEGER, false, PLACE(points), 2, NIB_POINTS_MOST, NULL},
    {"stages", NIB_FIELD_CHOICE, false, PLACE(stages), 0, 0, outputs},
    {NULL, NIB_FIELD_NODE, false, 0, 0, 0, 0, NULL},
};
#undef PLACE

/* {seed: N}: sign i is bit i mod 128 of the Philox4x32-10 block with key = N and counter = (i / 128, 0), 1 being
 * minus. */
static enum nib_status draw_signs(const struct nib_yaml *document, const struct nib_yaml_node *node,
                                  struct nib_rotation *rotation, struct nib_error *error) {
    struct {
        int64_t seed;
    } drawn = {0};
    const struct nib_field seed_field[] = {{"seed", NIB_FIELD_INTEGER, true, 0, sizeof drawn.seed, 0, INT64_MAX, NULL},
                                           {NULL, NIB_FIELD_NODE, false, 0, 0, 0, 0, NULL}};
    enum nib_status status = nib_yaml_read(document, node, seed_field, &drawn, error);
    for (unsigned i = 0; i < rotation->size && status == NIB_OK; i++) {
        struct nib_philox_block block = nib_philox((uint64_t)drawn.seed, i / 128, 0);
        rotation->sign[i] = block.word[i % 128 / 32] >> i % 32 & 1 ? -1.0f : 1.0f;
    }
    return status;
}

static enum nib_status read_signs(const struct nib_yaml *document, const struct nib_yaml_node *node,
                                  struct nib_rotation *rotation, struct nib_error *error) {
    const char *label = nib_yaml_label(document);
    if (nib_yaml_kind_of(node) == NIB_YAML_MAPPING) return draw_signs(document, node, rotation, error);
    if (nib_yaml_kind_of(node) != NIB_YAML_SEQUENCE || nib_yaml_count(node) != rotation->size)
        return nib_fail_at(error, NIB_ESYNTAX, label, nib_yaml_line(node),
                           "signs must be a list of %u numbers, each 1 or -1, or {seed: N}", rotation->size);
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

static bool is_power(uint64_t n) { return n > 0 && (n & (n - 1)) == 0; }

static const unsigned bases[] = {1, 40, 28, 20, 12};

/* size = base * 2^k: whether it is, by the largest base unless one is asked for. */
static bool split_size(int64_t size, int64_t asked, unsigned *base) {
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        if (size % bases[i] != 0 || (asked != 0 && asked != bases[i])) continue;
        uint64_t power = (uint64_t)size / bases[i];
        if (!is_power(power) || power > NIB_ROTATION_POWER_MAX) continue;
        *base = bases[i];
        return true;
    }
    return false;
}

static enum nib_status set_size(const struct nib_yaml *document, const struct record *record, struct nib_rotation *rotation,
                                struct nib_error *error) {
    const struct nib_yaml_node *root = nib_yaml_root(document);
    rotation->size = (unsigned)record->size;
    if (split_size(record->size, record->base, &rotation->base)) return NIB_OK;
    int line = nib_yaml_line(nib_yaml_get(root, record->base != 0 ? "base" : "size"));
    bool known = false;
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) known |= record->base == 0 || record->base == bases[i];
    if (!known)
        return nib_fail_at(error, NIB_ESYNTAX, nib_yaml_label(document), line, "base is %lld; expected 1, 12, 20, 28 or 40",
                           (long long)record->base);
    int64_t next = record->size;
    while (next < NIB_ROTATION_MAX && !split_size(next, record->base, &rotation->base)) next++;
    if (!split_size(next, record->base, &rotation->base)) next = NIB_ROTATION_POWER_MAX * (record->base > 0 ? record->base : 1);
    return nib_fail_at(error, NIB_ESYNTAX, nib_yaml_label(document), line,
                       "size %lld has no matrix here; the next one is %lld (1, 12, 20, 28 or 40 times a power of two, at "
                       "most %d)", (long long)record->size, (long long)next, NIB_ROTATION_POWER_MAX);
}

static enum nib_status set_unit(const struct nib_yaml *document, const struct record *record, struct nib_rotation *rotation,
                                struct nib_error *error) {
    const struct nib_yaml_node *root = nib_yaml_root(document);
    bool by_unit = record->evaluation == NIB_EVALUATION_UNIT;
    static const char *const keys[] = {"unit", "operand", "points", "stages"};
    for (size_t i = 0; i < 4 && !by_unit; i++)
        if (nib_yaml_get(root, keys[i]) != NULL)
            return nib_fail_at(error, NIB_ESYNTAX, nib_yaml_label(document), nib_yaml_line(nib_yaml_get(root, keys[i])),
                               "%s: needs evaluation: unit", keys[i]);
    if (!by_unit) return NIB_OK;
    if (record->unit[0] == '\0' || rotation->base != 1 || !is_power((uint64_t)record->points))
        return nib_fail_at(error, NIB_ESYNTAX, nib_yaml_label(document), nib_yaml_line(root),
                           "evaluation: unit needs unit: NAME, a size that is a power of two, and points: 2, 4, ... %d",
                           NIB_POINTS_MOST);
    rotation->points = (unsigned)record->points;
    rotation->stages = record->stages;
    rotation->operand = record->operand == 1 ? NIB_OPERAND_TF32 : NIB_OPERAND_BF16;
    enum nib_status status = nib_unit_open(record->unit, &rotation->unit, error);
    if (status == NIB_OK && (rotation->unit->accumulator != NIB_ACC_FP32 || rotation->unit->scale != NIB_UNIT_SCALE_NONE))
        status = nib_fail_at(error, NIB_EINVAL, nib_yaml_label(document), nib_yaml_line(nib_yaml_get(root, "unit")),
                             "unit %s: expected a binary32 accumulator and no scales", record->unit);
    unsigned depth = rotation->points < 16 ? 16 : rotation->points;
    if (status == NIB_OK) status = nib_unit_accepts(rotation->unit, rotation->operand, rotation->operand, depth, error);
    return status;
}

static enum nib_status fill(const struct nib_yaml *document, struct nib_rotation *rotation, struct nib_error *error) {
    struct record record = {.factor = NAN, .points = 16};
    const struct nib_yaml_node *root = nib_yaml_root(document);
    enum nib_status status = nib_yaml_read(document, root, fields, &record, error);
    if (status == NIB_OK) status = set_size(document, &record, rotation, error);
    if (status != NIB_OK) return status;
    memcpy(rotation->title, record.title, sizeof rotation->title);
    memcpy(rotation->source, record.source, sizeof rotation->source);
    rotation->evaluation = record.evaluation;
    rotation->normalization = record.normalization;
    rotation->output = record.output;
    rotation->inverse = record.inverse;
    rotation->flush = record.flush;
    rotation->own_factor = !isnan(record.factor);
    if (rotation->own_factor && !(record.factor > 0x1p-40 && record.factor < 0x1p40))
        return nib_fail_at(error, NIB_ESYNTAX, nib_yaml_label(document), nib_yaml_line(nib_yaml_get(root, "factor")),
                           "factor is %g; expected a number from 2^-40 to 2^40", record.factor);
    rotation->factor = rotation->own_factor                                  ? (float)record.factor
                       : record.normalization == NIB_NORMALIZATION_NONE ? 1.0f
                                                                             : (float)(1 / sqrt((double)record.size));
    rotation->sign = nib_alloc(rotation->size + 16, sizeof *rotation->sign, "signs", error);
    if (rotation->sign == NULL) return NIB_ENOMEM;
    for (unsigned i = 0; i < rotation->size; i++) rotation->sign[i] = 1.0f;
    status = set_unit(document, &record, rotation, error);
    return record.signs == NULL || status != NIB_OK ? status : read_signs(document, record.signs, rotation, error);
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
    if (name_or_path == NULL) return nib_fail(error, NIB_EINVAL, "the name of a rotation is NULL");
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
    free(rotation->sign);
    nib_unit_close(rotation->unit);
    struct nib_rotation *own;
    memcpy(&own, &rotation, sizeof own);
    free(own);
}

enum nib_status nib_rotation_inverse(const struct nib_rotation *rotation, const struct nib_rotation **out,
                                     struct nib_error *error) {
    const struct nib_rotation *copy;
    enum nib_status status = nib_rotation_parse(rotation->text, strlen(rotation->text), rotation->name, &copy, error);
    if (status != NIB_OK) return status;
    struct nib_rotation *own;
    memcpy(&own, &copy, sizeof own);
    own->inverse = !rotation->inverse;
    memcpy(own->sign, rotation->sign, rotation->size * sizeof *own->sign); /* they may be others than in the text */
    if (rotation->normalization == NIB_NORMALIZATION_NONE && !rotation->own_factor) {
        own->own_factor = true;
        own->factor = 1.0f / (float)rotation->size;
    } else if (rotation->own_factor)
        own->factor = (float)(1 / ((double)rotation->factor * rotation->size));
    *out = own;
    return NIB_OK;
}

enum nib_status nib_rotation_with_signs(const struct nib_rotation *rotation, const float *sign,
                                        const struct nib_rotation **out, struct nib_error *error) {
    const struct nib_rotation *copy;
    enum nib_status status = nib_rotation_parse(rotation->text, strlen(rotation->text), rotation->name, &copy, error);
    if (status != NIB_OK) return status;
    memcpy(copy->sign, sign, rotation->size * sizeof *sign);
    *out = copy;
    return NIB_OK;
}

const char *nib_rotation_name(const struct nib_rotation *rotation) { return rotation->name; }
unsigned nib_rotation_size(const struct nib_rotation *rotation) { return rotation->size; }
const char *nib_rotation_text(const struct nib_rotation *rotation) { return rotation->text; }
const char *nib_rotation_sha256(const struct nib_rotation *rotation) { return rotation->sha256; }
