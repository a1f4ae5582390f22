#include "format/element_rule.h"

#include "base/error.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

enum rule_type { MINIFLOAT, TWOS_COMPLEMENT, SIGN_MAGNITUDE };
static const char *const rule_types[] = {"minifloat", "twos-complement", "sign-magnitude", NULL};

struct rule_file {
    int type;
    int64_t ebits, mbits, bias, min, max;
    double step;
};

#define PLACE(member) offsetof(struct rule_file, member), sizeof(((struct rule_file *)0)->member)
#define TYPE_FIELD                                                                                                     \
    { "type", NIB_FIELD_CHOICE, true, PLACE(type), 0, 0, rule_types }
#define END_FIELD                                                                                                      \
    { NULL, NIB_FIELD_NODE, false, 0, 0, 0, 0, NULL }

static const struct nib_field minifloat_fields[] = {
    TYPE_FIELD,
    {"ebits", NIB_FIELD_INTEGER, true, PLACE(ebits), 0, 3, NULL},
    {"mbits", NIB_FIELD_INTEGER, true, PLACE(mbits), 0, 3, NULL},
    {"bias", NIB_FIELD_INTEGER, true, PLACE(bias), -64, 64, NULL},
    END_FIELD,
};
static const struct nib_field twos_complement_fields[] = {
    TYPE_FIELD,
    {"min", NIB_FIELD_INTEGER, true, PLACE(min), -8, 0, NULL},
    {"max", NIB_FIELD_INTEGER, true, PLACE(max), 1, 7, NULL},
    {"step", NIB_FIELD_REAL, true, PLACE(step), 0, 0, NULL},
    END_FIELD,
};
static const struct nib_field sign_magnitude_fields[] = {
    TYPE_FIELD,
    {"max", NIB_FIELD_INTEGER, true, PLACE(max), 1, 7, NULL},
    {"step", NIB_FIELD_REAL, true, PLACE(step), 0, 0, NULL},
    END_FIELD,
};
static const struct nib_field *const fields_of_type[] = {minifloat_fields, twos_complement_fields,
                                                         sign_magnitude_fields};

static enum nib_status minifloat_levels(const struct nib_yaml *document, int line, const struct rule_file *rule,
                                        float level[NIB_CODES], struct nib_error *error) {
    if (rule->ebits + rule->mbits != 3)
        return nib_fail_at(error, NIB_ESYNTAX, nib_yaml_label(document), line,
                           "ebits + mbits is %d; expected 3 (and the sign makes 4 bits)",
                           (int)(rule->ebits + rule->mbits));
    for (int code = 0; code < 8; code++) {
        int exponent = code >> rule->mbits, mantissa = code & ((1 << rule->mbits) - 1);
        int significand = exponent > 0 ? mantissa + (1 << rule->mbits) : mantissa;
        int power = (exponent > 0 ? exponent : 1) - (int)rule->bias - (int)rule->mbits;
        level[code] = ldexpf((float)significand, power);
        level[code | 8] = -level[code];
    }
    return NIB_OK;
}

/* integer * step is exact in binary64 (4 bits by 24); it must also be a binary32 number. */
static enum nib_status set_multiple(const struct nib_yaml *document, int line, int64_t integer, double step,
                                    float *level, struct nib_error *error) {
    double value = (double)integer * step;
    if (!(step > 0) || (double)(float)step != step || (double)(float)value != value || (value == 0) != (integer == 0))
        return nib_fail_at(error, NIB_ESYNTAX, nib_yaml_label(document), line,
                           "step %.17g times %d is not a binary32 number", step, (int)integer);
    *level = (float)value;
    return NIB_OK;
}

static enum nib_status integer_levels(const struct nib_yaml *document, int line, const struct rule_file *rule,
                                      float level[NIB_CODES], struct nib_error *error) {
    for (int code = 0; code < NIB_CODES; code++) level[code] = NAN;
    enum nib_status status = NIB_OK;
    for (int64_t i = rule->type == TWOS_COMPLEMENT ? rule->min : 0; i <= rule->max && status == NIB_OK; i++) {
        float value = 0;
        status = set_multiple(document, line, i, rule->step, &value, error);
        if (status != NIB_OK) return status;
        level[i & 15] = value;
        if (rule->type == SIGN_MAGNITUDE) level[i | 8] = -value;
    }
    return status;
}

enum nib_status nib_element_rule_levels(const struct nib_yaml *document, const struct nib_yaml_node *rule,
                                        float level[NIB_CODES], struct nib_error *error) {
    struct rule_file file = {.type = MINIFLOAT};
    int line = nib_yaml_line(rule);
    const struct nib_yaml_node *type = nib_yaml_get(rule, "type");
    /* The type decides which keys are known, so it is read first and alone. */
    const char *word = type != NULL ? nib_yaml_scalar(type) : NULL;
    for (int i = 0; word != NULL && rule_types[i] != NULL; i++)
        if (strcmp(rule_types[i], word) == 0) file.type = i;
    enum nib_status status = nib_yaml_read(document, rule, fields_of_type[file.type], &file, error);
    if (status != NIB_OK) return status;
    if (file.type == MINIFLOAT) return minifloat_levels(document, line, &file, level, error);
    return integer_levels(document, line, &file, level, error);
}
