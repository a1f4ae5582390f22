/* Scale formats: from YAML to an immutable object, and its codec. */
#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "core/scale_codec.h"
#include "format/registry.h"
#include "format/share.h"
#include "format/yaml.h"
#include <math.h>
#include <nibble/scale.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPECIALS_IEEE, SPECIALS_FN };

/* What is on the heap: the scale first, the text last. */
struct held_scale {
    struct nib_scale scale;
    atomic_uint holders;
    char text[];
};

static struct held_scale *holder_of(const struct nib_scale *scale) {
    return (struct held_scale *)(uintptr_t)scale; /* const for its readers only */
}

struct scale_file {
    int kind;
    char title[96], source[160];
    const struct nib_yaml_node *rule;
    double max, min;
};
struct rule_file {
    int type;
    bool sign;
    int64_t ebits, mbits, bias;
    int specials;
};

static const char *const scale_kinds[] = {"scale", NULL};
static const char *const rule_types[] = {"power-of-two", "minifloat", "bfloat16", "binary32", "hif4", NULL};
/* ieee: the top exponent holds infinity and NaN. fn: only the top code is NaN, no infinity. */
static const char *const special_choices[] = {"ieee", "fn", NULL};

#define PLACE(member) offsetof(struct scale_file, member), sizeof(((struct scale_file *)0)->member)
static const struct nib_field scale_fields[] = {
    {"kind", NIB_FIELD_CHOICE, true, PLACE(kind), 0, 0, scale_kinds},
    {"title", NIB_FIELD_TEXT, true, PLACE(title), 0, 0, NULL},
    {"source", NIB_FIELD_TEXT, true, PLACE(source), 0, 0, NULL},
    {"rule", NIB_FIELD_NODE, true, PLACE(rule), 0, 0, NULL},
    {"max", NIB_FIELD_REAL, false, PLACE(max), 0, 0, NULL},
    {"min", NIB_FIELD_REAL, false, PLACE(min), 0, 0, NULL},
    {NULL, NIB_FIELD_NODE, false, 0, 0, 0, 0, NULL},
};
#undef PLACE
#define PLACE(member) offsetof(struct rule_file, member), sizeof(((struct rule_file *)0)->member)
static const struct nib_field plain_fields[] = {
    {"type", NIB_FIELD_CHOICE, true, PLACE(type), 0, 0, rule_types},
    {NULL, NIB_FIELD_NODE, false, 0, 0, 0, 0, NULL},
};
static const struct nib_field minifloat_fields[] = {
    {"type", NIB_FIELD_CHOICE, true, PLACE(type), 0, 0, rule_types},
    {"sign", NIB_FIELD_BOOL, true, PLACE(sign), 0, 0, NULL},
    {"ebits", NIB_FIELD_INTEGER, true, PLACE(ebits), 1, 8, NULL},
    {"mbits", NIB_FIELD_INTEGER, true, PLACE(mbits), 0, 14, NULL},
    {"bias", NIB_FIELD_INTEGER, true, PLACE(bias), -64, 126, NULL},
    {"specials", NIB_FIELD_CHOICE, true, PLACE(specials), 0, 0, special_choices},
    {NULL, NIB_FIELD_NODE, false, 0, 0, 0, 0, NULL},
};
#undef PLACE

static enum nib_status set_minifloat(const struct nib_yaml *document, int line, const struct rule_file *rule,
                                     struct nib_scale *s, struct nib_error *error) {
    const char *label = nib_yaml_label(document);
    int width = (int)(rule->ebits + rule->mbits) + rule->sign;
    if (width != 8 && width != 16)
        return nib_fail_at(error, NIB_ESYNTAX, label, line, "sign, ebits and mbits make %d bits; expected 8 or 16", width);
    if (rule->mbits == 0)
        return nib_fail_at(error, NIB_ESYNTAX, label, line,
                           "a minifloat scale needs a mantissa bit; powers of two have the type power-of-two");
    if (rule->ebits == 1 && rule->specials == SPECIALS_IEEE)
        return nib_fail_at(error, NIB_ESYNTAX, label, line, "one exponent bit leaves no numbers with ieee specials");
    s->kind = NIB_SCALE_MINIFLOAT;
    s->bits = (unsigned)width;
    s->has_sign = rule->sign;
    s->ebits = (int)rule->ebits;
    s->mbits = (int)rule->mbits;
    s->bias = (int)rule->bias;
    s->nan_code = (1u << (s->ebits + s->mbits)) - 1;
    s->max_code = rule->specials == SPECIALS_FN ? s->nan_code - 1 : s->nan_code - (1u << s->mbits);
    /* The codec works on normal binary32 numbers. */
    int lowest = 1 - s->bias - s->mbits, highest = (int)(s->max_code >> s->mbits) - s->bias;
    if (lowest < -126 || highest > 127)
        return nib_fail_at(error, NIB_ESYNTAX, label, line,
                           "numbers from 2^%d to 2^%d; expected within the normal binary32 range, 2^-126 to 2^127",
                           lowest, highest);
    return NIB_OK;
}

static enum nib_status read_rule(const struct nib_yaml *document, const struct nib_yaml_node *node, struct nib_scale *s,
                                 struct nib_error *error) {
    struct rule_file rule = {.type = NIB_SCALE_FP32};
    const struct nib_yaml_node *type = nib_yaml_get(node, "type");
    const char *word = type != NULL ? nib_yaml_scalar(type) : NULL;
    bool minifloat = word != NULL && strcmp(word, rule_types[NIB_SCALE_MINIFLOAT]) == 0;
    enum nib_status status = nib_yaml_read(document, node, minifloat ? minifloat_fields : plain_fields, &rule, error);
    if (status != NIB_OK) return status;
    s->kind = (enum nib_scale_kind)rule.type;
    switch (s->kind) {
    case NIB_SCALE_E8M0:
        s->bits = 8;
        s->ebits = 8;
        s->bias = 127;
        s->max_code = 0xFE;
        s->nan_code = 0xFF;
        break;
    case NIB_SCALE_MINIFLOAT:
        status = set_minifloat(document, nib_yaml_line(node), &rule, s, error);
        if (status != NIB_OK) return status;
        break;
    case NIB_SCALE_BF16:
        s->bits = 16;
        s->has_sign = true;
        s->ebits = 8;
        s->mbits = 7;
        s->bias = 127;
        s->max_code = 0x7F7F;
        s->nan_code = 0x7FC0;
        break;
    case NIB_SCALE_FP32:
        s->bits = 32;
        s->has_sign = true;
        s->ebits = 8;
        s->mbits = 23;
        s->bias = 127;
        s->max_code = 0x7F7FFFFF;
        s->nan_code = NIB_BITS_QUIET_NAN;
        break;
    case NIB_SCALE_HIF4:
        s->bits = 32;
        s->ebits = 6;
        s->mbits = 2;
        s->bias = 48;
        s->max_code = 0xFE;
        s->nan_code = 0xFF;
        break;
    }
    s->bytes = s->bits / 8;
    s->max_value = nib_scale_decode(s, s->max_code);
    return NIB_OK;
}

/* max and min, where given, must be what the rule says. */
static enum nib_status check_extreme(const struct nib_yaml *document, const char *key, double given, double by_rule,
                                     struct nib_error *error) {
    const struct nib_yaml_node *node = nib_yaml_get(nib_yaml_root(document), key);
    if (node == NULL || given == by_rule) return NIB_OK;
    return nib_fail_at(error, NIB_EINCONSISTENT, nib_yaml_label(document), nib_yaml_line(node),
                       "%s is %.9g here and %.9g by the rule", key, given, by_rule);
}

static enum nib_status read_scale(const struct nib_yaml *document, struct nib_scale *s, struct nib_error *error) {
    struct scale_file file = {.rule = NULL};
    enum nib_status status = nib_yaml_read(document, nib_yaml_root(document), scale_fields, &file, error);
    if (status == NIB_OK) status = read_rule(document, file.rule, s, error);
    if (status != NIB_OK) return status;
    memcpy(s->title, file.title, sizeof s->title);
    memcpy(s->source, file.source, sizeof s->source);
    status = check_extreme(document, "max", file.max, (double)s->max_value, error);
    if (status != NIB_OK) return status;
    bool from_zero = s->kind == NIB_SCALE_E8M0 || s->kind == NIB_SCALE_HIF4; /* code 0 is no zero */
    float smallest = nib_scale_decode(s, from_zero ? 0 : 1);
    return check_extreme(document, "min", file.min, (double)smallest, error);
}

static enum nib_status parse_named(const char *text, size_t length, const char *label, const char *name,
                                   const struct nib_scale **out, struct nib_error *error) {
    struct nib_scale s = {.bits = 0};
    struct nib_yaml *document;
    enum nib_status status = nib_yaml_parse(text, length, label, &document, error);
    if (status != NIB_OK) return status;
    snprintf(s.name, sizeof s.name, "%s", name);
    struct nib_fpenv saved = nib_fpenv_enter();
    status = read_scale(document, &s, error);
    nib_fpenv_leave(saved);
    nib_yaml_free(document);
    if (status != NIB_OK) return status;
    struct held_scale *held = nib_alloc(1, sizeof *held + length + 1, "a scale format", error);
    if (held == NULL) return NIB_ENOMEM;
    memcpy(held->text, text, length); /* the NUL is there */
    held->scale = s;
    held->scale.text = held->text;
    nib_sha256_hex(text, length, held->scale.sha256);
    atomic_init(&held->holders, 1);
    *out = &held->scale;
    return NIB_OK;
}

enum nib_status nib_scale_parse(const char *text, size_t length, const char *label, const struct nib_scale **out,
                                struct nib_error *error) {
    char name[40];
    nib_registry_name_of(label, name);
    return parse_named(text, length, label, name, out, error);
}

enum nib_status nib_scale_open(const char *name_or_path, const struct nib_scale **out, struct nib_error *error) {
    struct nib_registry_text source;
    enum nib_status status = nib_registry_read("scales", name_or_path, &source, error);
    if (status != NIB_OK) return status;
    status = parse_named(source.text, source.length, source.label, source.name, out, error);
    free(source.text);
    return status;
}

const struct nib_scale *nib_scale_share(const struct nib_scale *scale) {
    atomic_fetch_add(&holder_of(scale)->holders, 1);
    return scale;
}

void nib_scale_close(const struct nib_scale *scale) {
    if (scale != NULL && atomic_fetch_sub(&holder_of(scale)->holders, 1) == 1) free(holder_of(scale));
}

uint32_t nib_scale_encode(const struct nib_scale *scale, enum nib_scale_rounding mode, float value) {
    uint32_t bits = nib_bits_of_float(value), magnitude = bits & NIB_BITS_MAGNITUDE;
    switch (scale->kind) {
    case NIB_SCALE_E8M0: return nib_e8m0_encode(bits, mode);
    case NIB_SCALE_BF16: return nib_bf16_encode(bits, mode);
    case NIB_SCALE_HIF4: return nib_e6m2_encode(bits, mode);
    case NIB_SCALE_FP32:
        if (magnitude > NIB_BITS_INFINITY) return scale->nan_code;
        return magnitude > scale->max_code ? (bits & 0x80000000) | scale->max_code : bits;
    case NIB_SCALE_MINIFLOAT: break;
    }
    uint32_t code = nib_minifloat_encode(bits, scale->mbits, scale->bias, scale->max_code, scale->nan_code, mode);
    bool negative = scale->has_sign && bits >> 31 != 0 && code != scale->nan_code;
    return code | (uint32_t)negative << (scale->bits - 1);
}

float nib_scale_decode(const struct nib_scale *scale, uint32_t code) {
    switch (scale->kind) {
    case NIB_SCALE_E8M0: return nib_float_of_bits(nib_e8m0_decode(code & 0xFF));
    case NIB_SCALE_BF16: return nib_float_of_bits(nib_bf16_decode(code & 0xFFFF));
    case NIB_SCALE_FP32: return nib_float_of_bits(code);
    case NIB_SCALE_HIF4: return nib_float_of_bits(nib_e6m2_decode(code & 0xFF));
    case NIB_SCALE_MINIFLOAT: break;
    }
    unsigned top = scale->bits - 1;
    uint32_t mask = (scale->has_sign ? 1u << top : 2u << top) - 1, sign = scale->has_sign ? code >> top & 1 : 0;
    return nib_float_of_bits(nib_minifloat_decode(code & mask, scale->mbits, scale->bias, scale->max_code) | sign
                                                                                                                 << 31);
}

unsigned nib_scale_parts(const struct nib_scale *scale) {
    return scale->kind == NIB_SCALE_HIF4 ? 16 : 1;
}

float nib_scale_decode_part(const struct nib_scale *scale, uint32_t code, unsigned part) {
    float value = nib_scale_decode(scale, code);
    if (scale->kind != NIB_SCALE_HIF4) return value;
    uint32_t doublings = (code >> (8 + part / 2) & 1) + (code >> (16 + part) & 1);
    return value * (float)(1u << doublings);
}
