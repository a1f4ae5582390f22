/* Matrix units: from YAML to an immutable object. */
#include <nibble/unit.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "format/registry.h"
#include "format/yaml.h"
#include "unit/unit_ref.h"

static const char *const kinds[] = {"unit", NULL};
static const char *const evidences[] = {"hardware", "published", "extrapolated", NULL};
static const char *const models[] = {"t-fdpa", "st-fdpa",      "gst-fdpa", "split-t-fdpa", "integer", "fma-chain",
                                     "e-fdpa", "ftz-pairwise", "tr-fdpa",  "gtr-fdpa",     NULL};
static const char *const accumulators[] = {"fp32", "fp16", "s32", "fp64", NULL};
static const char *const roundings[] = {"rz-fp32", "rz-e8m13", "rne-fp16", "rne-fp32", "rne-fp64", "exact", NULL};
static const char *const scales[] = {"none", "ue8m0", "ue4m3", NULL};

const char *nib_unit_model_name(enum nib_unit_model model) { return models[model]; }
const char *nib_evidence_name(enum nib_evidence evidence) { return evidences[evidence]; }
const char *nib_unit_builtin(size_t i) { return nib_registry_name("units", i); }

unsigned nib_accumulator_bytes(enum nib_accumulator accumulator) {
    return accumulator == NIB_ACC_FP16 ? 2 : accumulator == NIB_ACC_FP64 ? 8 : 4;
}

struct unit_file {
    int kind, evidence, model, accumulator, rounding, scale;
    char title[96], source[200], architecture[64], instruction[96], verified_by[160];
    const struct nib_yaml_node *operands;
    bool mixed, saturate;
    int64_t k, block, fraction_bits, second_fraction_bits, e_zero, scale_block, group;
};

#define PLACE(member) offsetof(struct unit_file, member), sizeof(((struct unit_file *)0)->member)
static const struct nib_field fields[] = {
    {"kind", NIB_FIELD_CHOICE, true, PLACE(kind), 0, 0, kinds},
    {"title", NIB_FIELD_TEXT, true, PLACE(title), 0, 0, NULL},
    {"source", NIB_FIELD_TEXT, true, PLACE(source), 0, 0, NULL},
    {"architecture", NIB_FIELD_TEXT, true, PLACE(architecture), 0, 0, NULL},
    {"instruction", NIB_FIELD_TEXT, true, PLACE(instruction), 0, 0, NULL},
    {"evidence", NIB_FIELD_CHOICE, true, PLACE(evidence), 0, 0, evidences},
    {"verified_by", NIB_FIELD_TEXT, true, PLACE(verified_by), 0, 0, NULL},
    {"model", NIB_FIELD_CHOICE, true, PLACE(model), 0, 0, models},
    {"operands", NIB_FIELD_NODE, true, PLACE(operands), 0, 0, NULL},
    {"mixed", NIB_FIELD_BOOL, false, PLACE(mixed), 0, 0, NULL},
    {"accumulator", NIB_FIELD_CHOICE, true, PLACE(accumulator), 0, 0, accumulators},
    {"rounding", NIB_FIELD_CHOICE, true, PLACE(rounding), 0, 0, roundings},
    {"k", NIB_FIELD_INTEGER, true, PLACE(k), 1, NIB_UNIT_BLOCK_MAX, NULL},
    {"block", NIB_FIELD_INTEGER, true, PLACE(block), 1, NIB_UNIT_BLOCK_MAX, NULL},
    {"fraction_bits", NIB_FIELD_INTEGER, false, PLACE(fraction_bits), 1, 40, NULL},
    {"second_fraction_bits", NIB_FIELD_INTEGER, false, PLACE(second_fraction_bits), 1, 48, NULL},
    {"e_zero", NIB_FIELD_INTEGER, false, PLACE(e_zero), -400, 0, NULL},
    {"scale", NIB_FIELD_CHOICE, false, PLACE(scale), 0, 0, scales},
    {"scale_block", NIB_FIELD_INTEGER, false, PLACE(scale_block), 1, NIB_UNIT_BLOCK_MAX, NULL},
    {"group", NIB_FIELD_INTEGER, false, PLACE(group), 1, NIB_UNIT_BLOCK_MAX, NULL},
    {"saturate", NIB_FIELD_BOOL, false, PLACE(saturate), 0, 0, NULL},
    {NULL, NIB_FIELD_NODE, false, 0, 0, 0, 0, NULL},
};
#undef PLACE

#define BIT(operand) (1u << NIB_OPERAND_##operand)
enum {
    FP4_TO_FP8 = BIT(E2M1) | BIT(E2M3) | BIT(E3M2) | BIT(E4M3) | BIT(E5M2) | BIT(E4M3FNUZ) | BIT(E5M2FNUZ),
    UP_TO_TF32 = FP4_TO_FP8 | BIT(FP16) | BIT(BF16) | BIT(TF32),
};
enum { WANTS_F = 1, WANTS_F2 = 2, WANTS_E_ZERO = 4, WANTS_SCALE = 8, WANTS_GROUP = 16 };
/* What each model reads, and which parameters it has. */
static const struct {
    uint32_t operands;
    unsigned wants;
} requirements[NIB_UNIT_MODELS] = {
    [NIB_UNIT_T_FDPA] = {UP_TO_TF32, WANTS_F | WANTS_E_ZERO},
    [NIB_UNIT_ST_FDPA] = {UP_TO_TF32, WANTS_F | WANTS_E_ZERO | WANTS_SCALE},
    [NIB_UNIT_GST_FDPA] = {BIT(E2M1), WANTS_F | WANTS_E_ZERO | WANTS_SCALE | WANTS_GROUP},
    [NIB_UNIT_SPLIT_T_FDPA] = {BIT(E4M3) | BIT(E5M2), WANTS_F | WANTS_E_ZERO},
    [NIB_UNIT_INTEGER] = {BIT(S4) | BIT(S8), 0},
    [NIB_UNIT_FMA_CHAIN] = {BIT(FP32) | BIT(FP64), 0},
    [NIB_UNIT_E_FDPA] = {UP_TO_TF32, 0},
    [NIB_UNIT_FTZ_PAIRWISE] = {BIT(FP16) | BIT(BF16), 0},
    [NIB_UNIT_TR_FDPA] = {UP_TO_TF32, WANTS_F | WANTS_F2},
    [NIB_UNIT_GTR_FDPA] = {UP_TO_TF32, WANTS_F | WANTS_F2},
};

static enum nib_status read_operands(const struct nib_yaml *document, const struct nib_yaml_node *node,
                                     struct nib_unit *unit, struct nib_error *error) {
    const char *label = nib_yaml_label(document);
    if (nib_yaml_kind_of(node) != NIB_YAML_SEQUENCE || nib_yaml_count(node) == 0)
        return nib_fail_at(error, NIB_ESYNTAX, label, nib_yaml_line(node), "expected a list of operand formats");
    for (size_t i = 0; i < nib_yaml_count(node); i++) {
        const struct nib_yaml_node *item = nib_yaml_item(node, i);
        const char *name = nib_yaml_scalar(item);
        enum nib_operand operand;
        struct nib_error inner;
        if (name == NULL || nib_operand_parse(name, &operand, &inner) != NIB_OK)
            return nib_fail_at(error, NIB_ESYNTAX, label, nib_yaml_line(item), "%s",
                               name == NULL ? "expected the name of an operand format" : inner.text);
        if ((requirements[unit->model].operands >> operand & 1) == 0)
            return nib_fail_at(error, NIB_ESYNTAX, label, nib_yaml_line(item), "the model %s does not read %s operands",
                               models[unit->model], name);
        unit->operands |= 1u << operand;
    }
    return NIB_OK;
}

/* Each parameter is given exactly where the model has it. */
static enum nib_status check_presence(const struct nib_yaml *document, enum nib_unit_model model,
                                      struct nib_error *error) {
    static const struct {
        const char *key;
        unsigned want;
    } keys[] = {{"fraction_bits", WANTS_F}, {"second_fraction_bits", WANTS_F2}, {"e_zero", WANTS_E_ZERO},
                {"scale", WANTS_SCALE},     {"scale_block", WANTS_SCALE},       {"group", WANTS_GROUP}};
    const struct nib_yaml_node *root = nib_yaml_root(document);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct nib_yaml_node *node = nib_yaml_get(root, keys[i].key);
        bool wanted = (requirements[model].wants & keys[i].want) != 0;
        if (wanted && node == NULL)
            return nib_fail_at(error, NIB_ESYNTAX, nib_yaml_label(document), nib_yaml_line(root),
                               "the model %s needs the key \"%s\"", models[model], keys[i].key);
        if (!wanted && node != NULL)
            return nib_fail_at(error, NIB_ESYNTAX, nib_yaml_label(document), nib_yaml_line(node),
                               "the model %s has no key \"%s\"", models[model], keys[i].key);
    }
    return NIB_OK;
}

/* The first rule that the numbers break, or NULL. */
static const char *contradiction(const struct nib_unit *u) {
    static const enum nib_unit_rounding by_accumulator[] = {NIB_RZ_FP32, NIB_RNE_FP16, NIB_EXACT_S32, NIB_RNE_FP64};
    bool fp32 = u->rounding == NIB_RZ_FP32 || u->rounding == NIB_RZ_E8M13 || u->rounding == NIB_RNE_FP32;
    bool amd = u->model >= NIB_UNIT_E_FDPA;
    if (u->accumulator == NIB_ACC_FP32 ? !fp32 : u->rounding != by_accumulator[u->accumulator])
        return "the rounding does not fit the accumulator";
    if (amd && u->rounding != NIB_RNE_FP32) return "this model rounds by rne-fp32";
    if ((u->model == NIB_UNIT_INTEGER) != (u->accumulator == NIB_ACC_S32))
        return "integers, and only they, accumulate in s32";
    if (u->saturate && u->model != NIB_UNIT_INTEGER) return "only integers saturate";
    if (u->k % u->block != 0) return "k must be a multiple of block";
    if (u->model == NIB_UNIT_FMA_CHAIN) {
        if (u->block != 1) return "a chain of multiply-adds has blocks of 1";
        if (u->operands != (u->accumulator == NIB_ACC_FP64 ? BIT(FP64) : BIT(FP32)))
            return "a chain of multiply-adds has one format throughout";
        if (u->accumulator == NIB_ACC_FP32 && u->rounding != NIB_RNE_FP32) return "this model rounds by rne-fp32";
    } else if (u->accumulator == NIB_ACC_FP64)
        return "only a chain of multiply-adds accumulates in fp64";
    if (u->model == NIB_UNIT_FTZ_PAIRWISE && u->block != 2 && u->block != 4)
        return "pairwise sums have blocks of 2 or 4";
    if (u->model == NIB_UNIT_SPLIT_T_FDPA && (u->block != u->k || u->k % 4 != 0))
        return "the split model has one block, a multiple of 4";
    if (u->second_fraction_bits != 0 && u->second_fraction_bits < u->fraction_bits)
        return "second_fraction_bits must not be smaller than fraction_bits";
    if (u->model == NIB_UNIT_ST_FDPA && (u->scale != NIB_UNIT_SCALE_UE8M0 || u->scale_block % u->block != 0))
        return "the model st-fdpa takes ue8m0 scales of whole blocks";
    if (u->model == NIB_UNIT_GST_FDPA &&
        (u->scale == NIB_UNIT_SCALE_NONE || u->scale_block % u->group != 0 || u->block % u->scale_block != 0))
        return "block must be a multiple of scale_block, and that of group";
    return NULL;
}

static enum nib_status read_unit(const struct nib_yaml *document, struct nib_unit *u, struct nib_error *error) {
    struct unit_file file = {.kind = 0};
    enum nib_status status = nib_yaml_read(document, nib_yaml_root(document), fields, &file, error);
    if (status != NIB_OK) return status;
    memcpy(u->title, file.title, sizeof u->title);
    memcpy(u->source, file.source, sizeof u->source);
    memcpy(u->architecture, file.architecture, sizeof u->architecture);
    memcpy(u->instruction, file.instruction, sizeof u->instruction);
    memcpy(u->verified_by, file.verified_by, sizeof u->verified_by);
    u->evidence = (enum nib_evidence)file.evidence;
    u->model = (enum nib_unit_model)file.model;
    u->accumulator = (enum nib_accumulator)file.accumulator;
    u->rounding = (enum nib_unit_rounding)file.rounding;
    u->scale = (enum nib_unit_scale)file.scale;
    u->mixed = file.mixed;
    u->saturate = file.saturate;
    u->k = (unsigned)file.k;
    u->block = (unsigned)file.block;
    u->fraction_bits = (int)file.fraction_bits;
    u->second_fraction_bits = (int)file.second_fraction_bits;
    u->e_zero = (int)file.e_zero;
    u->scale_block = (unsigned)file.scale_block;
    u->group = (unsigned)file.group;
    status = check_presence(document, u->model, error);
    if (status == NIB_OK) status = read_operands(document, file.operands, u, error);
    if (status != NIB_OK) return status;
    const char *wrong = contradiction(u);
    if (wrong == NULL) return NIB_OK;
    return nib_fail_at(error, NIB_EINCONSISTENT, nib_yaml_label(document), nib_yaml_line(nib_yaml_root(document)), "%s",
                       wrong);
}

static enum nib_status parse_named(const char *text, size_t length, const char *label, const char *name,
                                   const struct nib_unit **out, struct nib_error *error) {
    struct nib_unit unit = {.k = 0};
    struct nib_yaml *document;
    enum nib_status status = nib_yaml_parse(text, length, label, &document, error);
    if (status != NIB_OK) return status;
    snprintf(unit.name, sizeof unit.name, "%s", name);
    status = read_unit(document, &unit, error);
    nib_yaml_free(document);
    if (status != NIB_OK) return status;
    struct nib_unit *copy = nib_alloc(1, sizeof *copy + length + 1, "a matrix unit", error);
    if (copy == NULL) return NIB_ENOMEM;
    char *own_text = (char *)(copy + 1);
    memcpy(own_text, text, length);
    unit.text = own_text;
    nib_sha256_hex(text, length, unit.sha256);
    *copy = unit;
    *out = copy;
    return NIB_OK;
}

enum nib_status nib_unit_parse(const char *text, size_t length, const char *label, const struct nib_unit **out,
                               struct nib_error *error) {
    char name[40];
    nib_registry_name_of(label, name);
    return parse_named(text, length, label, name, out, error);
}

enum nib_status nib_unit_open(const char *name_or_path, const struct nib_unit **out, struct nib_error *error) {
    struct nib_registry_text source;
    enum nib_status status = nib_registry_read("units", name_or_path, &source, error);
    if (status != NIB_OK) return status;
    status = parse_named(source.text, source.length, source.label, source.name, out, error);
    free(source.text);
    return status;
}

void nib_unit_close(const struct nib_unit *unit) { free((void *)(uintptr_t)unit); }

static void list_operands(const struct nib_unit *unit, char *out, size_t size) {
    size_t length = 0;
    out[0] = 0;
    for (int i = 0; i < NIB_OPERANDS && length < size; i++)
        if (unit->operands >> i & 1)
            length += (size_t)snprintf(out + length, size - length, "%s%s", length != 0 ? ", " : "",
                                       nib_operand_name((enum nib_operand)i));
}

enum nib_status nib_unit_accepts(const struct nib_unit *unit, enum nib_operand a, enum nib_operand b, size_t k,
                                 struct nib_error *error) {
    char formats[128];
    list_operands(unit, formats, sizeof formats);
    if ((unit->operands >> a & 1) == 0 || (unit->operands >> b & 1) == 0)
        return nib_fail(error, NIB_EINVAL, "unit %s takes %s operands, not %s", unit->name, formats,
                        nib_operand_name((unit->operands >> a & 1) == 0 ? a : b));
    if (a != b && !unit->mixed)
        return nib_fail(error, NIB_EINVAL, "unit %s takes two operands of one format, not %s and %s", unit->name,
                        nib_operand_name(a), nib_operand_name(b));
    if (k == 0 || k % unit->k != 0)
        return nib_fail(error, NIB_EINVAL,
                        "K is %zu; expected a multiple of %u, the K of one %s instruction (%zu is next)", k, unit->k,
                        unit->name, (k / unit->k + 1) * unit->k);
    return NIB_OK;
}
