/* Recipes from YAML. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "format/quantizer.h"
#include "format/registry.h"
#include "format/yaml.h"
#include "gemm/operand.h"
#include "stack/recipe.h"

static const char *const kinds[] = {"recipe", NULL};
static const char *const signs_names[] = {"fixed", "none", "drawn", NULL};
static const char *const source_names[] = {"original", "dequantized", "same", NULL};

struct file {
    int kind;
    char title[96], source[240], leaves_out[400];
    const struct nib_yaml_node *pass[NIB_PASSES], *high_precision;
};
#define PLACE(type, member) offsetof(type, member), sizeof(((type *)0)->member)
#define NODE(type, key, member) {key, NIB_FIELD_NODE, false, PLACE(type, member), 0, 0, NULL}
#define END {NULL, NIB_FIELD_NODE, false, 0, 0, 0, 0, NULL}
static const struct nib_field file_fields[] = {
    {"kind", NIB_FIELD_CHOICE, true, PLACE(struct file, kind), 0, 0, kinds},
    {"title", NIB_FIELD_TEXT, true, PLACE(struct file, title), 0, 0, NULL},
    {"source", NIB_FIELD_TEXT, true, PLACE(struct file, source), 0, 0, NULL},
    {"leaves_out", NIB_FIELD_TEXT, false, PLACE(struct file, leaves_out), 0, 0, NULL},
    NODE(struct file, "fprop", pass[NIB_PASS_FPROP]),
    NODE(struct file, "dgrad", pass[NIB_PASS_DGRAD]),
    NODE(struct file, "wgrad", pass[NIB_PASS_WGRAD]),
    NODE(struct file, "high_precision", high_precision),
    END};

struct pass {
    char rotation[256];
    int signs;
    double output_factor;
    bool pad;
    const struct nib_yaml_node *operand[2], *surrogate;
};
#define PASS_COMMON                                                                                                    \
    {"rotation", NIB_FIELD_TEXT, false, PLACE(struct pass, rotation), 0, 0, NULL},                                     \
        {"signs", NIB_FIELD_CHOICE, false, PLACE(struct pass, signs), 0, 0, signs_names},                              \
        {"output_factor", NIB_FIELD_REAL, false, PLACE(struct pass, output_factor), 0, 0, NULL},                        \
        {"pad", NIB_FIELD_BOOL, false, PLACE(struct pass, pad), 0, 0, NULL}
static const struct nib_field fprop_fields[] = {
    PASS_COMMON, NODE(struct pass, "x", operand[0]), NODE(struct pass, "w", operand[1]), END};
static const struct nib_field dgrad_fields[] = {
    PASS_COMMON, NODE(struct pass, "dy", operand[0]), NODE(struct pass, "w", operand[1]), END};
static const struct nib_field wgrad_fields[] = {PASS_COMMON, NODE(struct pass, "dy", operand[0]),
                                                NODE(struct pass, "x", operand[1]),
                                                NODE(struct pass, "surrogate", surrogate), END};

struct operand {
    char quantizer[256];
    const struct nib_yaml_node *set, *clamp, *gptq, *ternary;
    int source;
    double factor;
    bool mask;
};
#define OPERAND_COMMON                                                                                                 \
    {"quantizer", NIB_FIELD_TEXT, false, PLACE(struct operand, quantizer), 0, 0, NULL},                                \
        NODE(struct operand, "set", set),                                                                              \
        {"factor", NIB_FIELD_REAL, false, PLACE(struct operand, factor), 0, 0, NULL}
static const struct nib_field x_fields[] = {
    OPERAND_COMMON,
    {"mask", NIB_FIELD_BOOL, false, PLACE(struct operand, mask), 0, 0, NULL},
    NODE(struct operand, "clamp", clamp),
    END};
static const struct nib_field w_fields[] = {
    OPERAND_COMMON,
    {"mask", NIB_FIELD_BOOL, false, PLACE(struct operand, mask), 0, 0, NULL},
    NODE(struct operand, "gptq", gptq),
    NODE(struct operand, "ternary", ternary),
    END};
static const struct nib_field dy_fields[] = {OPERAND_COMMON, END};
static const struct nib_field again_fields[] = {
    OPERAND_COMMON, {"source", NIB_FIELD_CHOICE, false, PLACE(struct operand, source), 0, 0, source_names}, END};
static const struct nib_field *const operand_fields[NIB_SLOTS] = {
    [NIB_SLOT_FPROP_X] = x_fields,   [NIB_SLOT_FPROP_W] = w_fields,  [NIB_SLOT_DGRAD_DY] = dy_fields,
    [NIB_SLOT_DGRAD_W] = again_fields, [NIB_SLOT_WGRAD_DY] = dy_fields, [NIB_SLOT_WGRAD_X] = again_fields};

struct reading {
    const struct nib_yaml *document;
    const char *label;
    struct nib_recipe *recipe;
    struct nib_error *error;
};

static enum nib_status refuse(const struct reading *r, const struct nib_yaml_node *node, const char *what,
                              const char *expected) {
    return nib_fail_at(r->error, NIB_ESYNTAX, r->label, nib_yaml_line(node), "%s: expected %s", what, expected);
}

/* A format that does not exist, or settings that do not fit, are this file's mistake. */
static enum nib_status blame(const struct reading *r, const struct nib_yaml_node *node, enum nib_status status) {
    if (status == NIB_OK || r->error == NULL || (status != NIB_ENOTFOUND && status != NIB_EINVAL)) return status;
    char text[sizeof r->error->text];
    memcpy(text, r->error->text, sizeof text);
    return nib_fail_at(r->error, NIB_ESYNTAX, r->label, nib_yaml_line(node), "%s", text);
}

enum { SETTINGS = 16 };
static enum nib_status open_quantizer(const struct reading *r, const struct nib_yaml_node *node,
                                      const struct operand *given, struct nib_operand_rule *rule) {
    const struct nib_yaml_node *set = given->set;
    const char *settings[SETTINGS];
    size_t count = 0;
    if (set != NULL && nib_yaml_kind_of(set) != NIB_YAML_SEQUENCE)
        return refuse(r, set, "set", "a list of axis=value");
    if (set != NULL && nib_yaml_count(set) > SETTINGS) return refuse(r, set, "set", "at most 16 settings");
    for (; set != NULL && count < nib_yaml_count(set); count++)
        if ((settings[count] = nib_yaml_scalar(nib_yaml_item(set, count))) == NULL)
            return refuse(r, set, "set", "a list of axis=value");
    char place[600];
    nib_registry_resolve(r->label, given->quantizer, place, sizeof place);
    enum nib_status status = nib_quantizer_open(place, &rule->quantizer, r->error);
    if (status != NIB_OK) return blame(r, nib_yaml_get(node, "quantizer"), status);
    if (count == 0) return NIB_OK;
    const struct nib_quantizer *base = rule->quantizer;
    rule->quantizer = NULL;
    status = nib_quantizer_with(base, settings, count, &rule->quantizer, r->error);
    size_t wrong = 0; /* the first setting that does not go with those before it */
    const struct nib_quantizer *right;
    while (status != NIB_OK && wrong + 1 < count && nib_quantizer_with(base, settings, wrong + 1, &right, NULL) == NIB_OK) {
        nib_quantizer_close(right);
        wrong++;
    }
    nib_quantizer_close(base);
    return blame(r, nib_yaml_item(set, wrong), status);
}

static enum nib_status read_clamp(const struct reading *r, const struct nib_yaml_node *node,
                                  struct nib_operand_rule *rule) {
    struct clamp {
        double quantile;
        bool residual;
    } clamp = {0};
    static const struct nib_field fields[] = {
        {"quantile", NIB_FIELD_REAL, true, PLACE(struct clamp, quantile), 0, 0, NULL},
        {"residual", NIB_FIELD_BOOL, false, PLACE(struct clamp, residual), 0, 0, NULL},
        END};
    enum nib_status status = nib_yaml_read(r->document, node, fields, &clamp, r->error);
    if (status != NIB_OK) return status;
    if (!(clamp.quantile > 0.5 && clamp.quantile < 1))
        return refuse(r, nib_yaml_get(node, "quantile"), "quantile", "a number above 0.5 and below 1");
    rule->quantile = clamp.quantile;
    rule->residual = clamp.residual;
    return NIB_OK;
}

/* One scale a block, in one part, below at most one of the tensor: w/s is known without the quantizer's own arithmetic. */
static bool has_plain_scales(const struct nib_quantizer *q) {
    return q->axes.procedure == NIB_PROCEDURE_AXES && q->axes.select != NIB_SELECT_IF4 &&
           q->axes.select != NIB_SELECT_IF4_TWICE && nib_scale_parts(q->block->scale) == 1 &&
           (!q->block->has_tensor_scale || q->axes.tensor_scope == NIB_TENSOR_SCOPE_TENSOR);
}

static enum nib_status read_gptq(const struct reading *r, const struct nib_yaml_node *node,
                                 struct nib_operand_rule *rule) {
    struct gptq {
        double damping;
    } gptq = {.damping = 0.01};
    static const struct nib_field fields[] = {
        {"damping", NIB_FIELD_REAL, true, PLACE(struct gptq, damping), 0, 0, NULL}, END};
    enum nib_status status = nib_yaml_read(r->document, node, fields, &gptq, r->error);
    if (status != NIB_OK) return status;
    if (!(gptq.damping > 0 && gptq.damping <= 1))
        return refuse(r, nib_yaml_get(node, "damping"), "damping", "a number above 0 and at most 1");
    const struct nib_quantizer *q = rule->quantizer;
    if (q == NULL || nib_axes_stochastic(&q->axes) || q->axes.procedure != NIB_PROCEDURE_AXES ||
        q->axes.select != NIB_SELECT_NONE || q->axes.rounding == NIB_ROUNDING_ARGMIN || !nib_gemm_takes_codes_of(q))
        return refuse(r, node, "gptq", "a quantizer that rounds to nearest under one scale of a block");
    rule->method = NIB_METHOD_GPTQ;
    rule->damping = gptq.damping;
    return NIB_OK;
}

static enum nib_status read_ternary(const struct reading *r, const struct nib_yaml_node *node,
                                    struct nib_operand_rule *rule) {
    struct ternary {
        int64_t block, iterations;
    } ternary = {0};
    static const struct nib_field fields[] = {
        {"block", NIB_FIELD_INTEGER, true, PLACE(struct ternary, block), 2, 65536, NULL},
        {"iterations", NIB_FIELD_INTEGER, true, PLACE(struct ternary, iterations), 0, 1000, NULL},
        END};
    enum nib_status status = nib_yaml_read(r->document, node, fields, &ternary, r->error);
    rule->method = NIB_METHOD_TERNARY;
    rule->ternary_block = (unsigned)ternary.block;
    rule->ternary_iterations = (unsigned)ternary.iterations;
    return status;
}

static bool is_factor(double x) { return x >= 0x1p-20 && x <= 0x1p20; }

static enum nib_status read_operand(const struct reading *r, const struct nib_yaml_node *node, enum nib_slot slot) {
    struct operand given = {.factor = 1};
    struct nib_operand_rule *rule = &r->recipe->slot[slot];
    enum nib_status status = nib_yaml_read(r->document, node, operand_fields[slot], &given, r->error);
    if (status != NIB_OK) return status;
    bool named = given.quantizer[0] != '\0';
    rule->source = given.source;
    rule->mask = given.mask;
    if (!is_factor(given.factor))
        return refuse(r, nib_yaml_get(node, "factor"), "factor", "a number from 2^-20 to 2^20");
    rule->factor = (float)given.factor;
    if (given.source == NIB_SOURCE_SAME && (named || given.set != NULL || given.factor != 1))
        return refuse(r, node, "source: same", "no quantizer, set or factor beside it, because the codes stay");
    if (given.ternary != NULL && (named || given.mask || given.factor != 1 || given.gptq != NULL))
        return refuse(r, node, "ternary", "no quantizer, mask, factor or gptq beside it");
    if (!named && given.set != NULL) return refuse(r, given.set, "set", "a quantizer that it changes");
    if (!named && given.source != NIB_SOURCE_SAME && given.ternary == NULL)
        return refuse(r, node, nib_slot_name(slot), "a quantizer (an operand in high precision is left out)");
    if (given.source != NIB_SOURCE_ORIGINAL && !r->recipe->slot[nib_slot_forward(slot)].quantized)
        return refuse(r, nib_yaml_get(node, "source"), "source",
                      "a quantized operand of fprop to take the values from");
    rule->quantized = true;
    if (named) status = open_quantizer(r, node, &given, rule);
    if (status == NIB_OK && given.mask && !has_plain_scales(rule->quantizer))
        return refuse(r, nib_yaml_get(node, "mask"), "mask", "a quantizer with one scale of a block and at most one of the tensor");
    if (status == NIB_OK && given.clamp != NULL) status = read_clamp(r, given.clamp, rule);
    if (status == NIB_OK && given.gptq != NULL) status = read_gptq(r, given.gptq, rule);
    if (status == NIB_OK && given.ternary != NULL) status = read_ternary(r, given.ternary, rule);
    return status;
}

static enum nib_status read_surrogate(const struct reading *r, const struct nib_yaml_node *node,
                                      struct nib_pass_rule *rule) {
    struct surrogate {
        int64_t power;
        double cap;
    } given = {0};
    static const struct nib_field fields[] = {
        {"power", NIB_FIELD_INTEGER, true, PLACE(struct surrogate, power), 1, 100, NULL},
        {"cap", NIB_FIELD_REAL, true, PLACE(struct surrogate, cap), 0, 0, NULL},
        END};
    enum nib_status status = nib_yaml_read(r->document, node, fields, &given, r->error);
    if (status != NIB_OK) return status;
    if (!(given.cap >= 1 && given.cap <= 1000)) return refuse(r, node, "cap", "a number from 1 to 1000");
    if (r->recipe->slot[NIB_SLOT_FPROP_W].quantizer == NULL)
        return refuse(r, node, "surrogate", "a quantized fprop.w whose gradient it estimates");
    if (!has_plain_scales(r->recipe->slot[NIB_SLOT_FPROP_W].quantizer))
        return refuse(r, node, "surrogate", "an fprop.w with one scale of a block and at most one of the tensor");
    if (r->recipe->pass[NIB_PASS_FPROP].rotation != NULL)
        return refuse(r, node, "surrogate", "an fprop without rotation");
    rule->surrogate = (int)given.power;
    rule->surrogate_cap = (float)given.cap;
    return NIB_OK;
}

static enum nib_status read_pass(const struct reading *r, const struct nib_yaml_node *node, enum nib_pass pass) {
    static const struct nib_field *const fields[NIB_PASSES] = {fprop_fields, dgrad_fields, wgrad_fields};
    struct pass given = {.output_factor = 1};
    struct nib_pass_rule *rule = &r->recipe->pass[pass];
    enum nib_status status = nib_yaml_read(r->document, node, fields[pass], &given, r->error);
    if (status != NIB_OK) return status;
    if (!is_factor(given.output_factor))
        return refuse(r, nib_yaml_get(node, "output_factor"), "output_factor", "a number from 2^-20 to 2^20");
    rule->output_factor = (float)given.output_factor;
    rule->signs = given.signs;
    rule->pad = given.pad;
    if (nib_yaml_get(node, "signs") != NULL && given.rotation[0] == '\0')
        return refuse(r, nib_yaml_get(node, "signs"), "signs", "a rotation that they belong to");
    if (given.rotation[0] != '\0') {
        char place[600];
        nib_registry_resolve(r->label, given.rotation, place, sizeof place);
        status = blame(r, nib_yaml_get(node, "rotation"), nib_rotation_open(place, &rule->rotation, r->error));
    }
    for (int i = 0; i < 2 && status == NIB_OK; i++)
        if (given.operand[i] != NULL) status = read_operand(r, given.operand[i], (enum nib_slot)(2 * pass + i));
    if (status == NIB_OK && given.surrogate != NULL) status = read_surrogate(r, given.surrogate, rule);
    return status;
}

static enum nib_status read_modules(const struct reading *r, const struct nib_yaml_node *list) {
    if (nib_yaml_kind_of(list) != NIB_YAML_SEQUENCE) return refuse(r, list, "modules", "a list of linear layers");
    for (size_t i = 0; i < nib_yaml_count(list); i++) {
        const char *word = nib_yaml_scalar(nib_yaml_item(list, i));
        int module = 0;
        while (module < NIB_MODULES && (word == NULL || strcmp(word, nib_module_name(module)) != 0)) module++;
        if (module == NIB_MODULES) {
            char known[256] = "";
            for (int k = 0; k < NIB_MODULES; k++) {
                size_t used = strlen(known);
                snprintf(known + used, sizeof known - used, "%s%s", k > 0 ? ", " : "one of ", nib_module_name(k));
            }
            return refuse(r, nib_yaml_item(list, i), "modules", known);
        }
        r->recipe->high[module] = true;
    }
    return NIB_OK;
}

static enum nib_status read_high_precision(const struct reading *r, const struct nib_yaml_node *node) {
    struct high {
        int64_t first, last;
        const struct nib_yaml_node *modules;
    } given = {0};
    static const struct nib_field fields[] = {
        {"first", NIB_FIELD_INTEGER, false, PLACE(struct high, first), 0, 10000, NULL},
        {"last", NIB_FIELD_INTEGER, false, PLACE(struct high, last), 0, 10000, NULL},
        NODE(struct high, "modules", modules),
        END};
    enum nib_status status = nib_yaml_read(r->document, node, fields, &given, r->error);
    if (status != NIB_OK) return status;
    r->recipe->first = (unsigned)given.first;
    r->recipe->last = (unsigned)given.last;
    return given.modules != NULL ? read_modules(r, given.modules) : NIB_OK;
}

/* A mask is laid over a gradient, so both must be in one basis. */
static enum nib_status check_masks(const struct reading *r, const struct nib_yaml_node *fprop) {
    static const enum nib_slot masked[] = {NIB_SLOT_FPROP_X, NIB_SLOT_FPROP_W};
    static const enum nib_slot behind[] = {NIB_SLOT_DGRAD_W, NIB_SLOT_WGRAD_X};
    const struct nib_recipe *recipe = r->recipe;
    for (int i = 0; i < 2; i++) {
        bool rotated = recipe->pass[NIB_PASS_FPROP].rotation != NULL;
        if (recipe->slot[masked[i]].mask && rotated != nib_recipe_inherits(recipe, behind[i]))
            return nib_fail_at(r->error, NIB_ESYNTAX, r->label, nib_yaml_line(fprop),
                               "%s: a mask behind a rotation expected %s to have source: dequantized or same",
                               nib_slot_name(masked[i]), nib_slot_name(behind[i]));
    }
    return NIB_OK;
}

/* What fprop multiplied in a rotated basis has no unpadded layout to be passed on in. */
static enum nib_status check_padding(const struct reading *r, const struct nib_yaml_node *fprop) {
    const struct nib_recipe *recipe = r->recipe;
    bool taken = nib_recipe_inherits(recipe, NIB_SLOT_DGRAD_W) || nib_recipe_inherits(recipe, NIB_SLOT_WGRAD_X);
    if (!recipe->pass[NIB_PASS_FPROP].pad || !taken) return NIB_OK;
    return refuse(r, nib_yaml_get(fprop, "pad"), "pad", "a backward pass with source: original behind a rotated fprop");
}

static enum nib_status fill(const struct reading *r) {
    struct file file = {0};
    struct nib_recipe *recipe = r->recipe;
    enum nib_status status = nib_yaml_read(r->document, nib_yaml_root(r->document), file_fields, &file, r->error);
    if (status != NIB_OK) return status;
    memcpy(recipe->title, file.title, sizeof recipe->title);
    memcpy(recipe->source, file.source, sizeof recipe->source);
    memcpy(recipe->leaves_out, file.leaves_out, sizeof recipe->leaves_out);
    for (int i = 0; i < NIB_SLOTS; i++) recipe->slot[i].factor = 1;
    for (int i = 0; i < NIB_PASSES; i++) recipe->pass[i].output_factor = 1;
    for (int i = 0; i < NIB_PASSES && status == NIB_OK; i++)
        if (file.pass[i] != NULL) status = read_pass(r, file.pass[i], (enum nib_pass)i);
    if (status == NIB_OK && file.high_precision != NULL) status = read_high_precision(r, file.high_precision);
    if (status == NIB_OK && file.pass[NIB_PASS_FPROP] != NULL) status = check_masks(r, file.pass[NIB_PASS_FPROP]);
    if (status == NIB_OK && file.pass[NIB_PASS_FPROP] != NULL) status = check_padding(r, file.pass[NIB_PASS_FPROP]);
    return status;
}

enum nib_status nib_recipe_read(const char *text, size_t length, const char *label, struct nib_recipe *recipe,
                                struct nib_error *error) {
    struct nib_yaml *document;
    enum nib_status status = nib_yaml_parse(text, length, label, &document, error);
    if (status != NIB_OK) return status;
    struct reading reading = {.document = document, .label = label, .recipe = recipe, .error = error};
    status = fill(&reading);
    nib_yaml_free(document);
    return status;
}
