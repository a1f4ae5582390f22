#include "format/axes.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/number.h"
#include "base/suggest.h"

#define NIB_AXIS(axis, applies, what) static const struct nib_axis_choice choices_##axis[] = {
#define NIB_CHOICE(constant, name, applies, what) {name, what, NIB_APPLIES_##applies},
#define NIB_AXIS_END(axis)                                                                                             \
    }                                                                                                                  \
    ;
#define NIB_NUMBER(axis, applies, fallback, what)
#include "format/axes.def"
#undef NIB_AXIS
#undef NIB_CHOICE
#undef NIB_AXIS_END
#undef NIB_NUMBER

#define COUNT(array) (sizeof(array) / sizeof *(array))

const struct nib_axis_info nib_axis_table[] = {
#define NIB_AXIS(axis, applies, what)                                                                                  \
    {#axis, what,           NIB_APPLIES_##applies, false, offsetof(struct nib_axes, axis),                             \
     0,     choices_##axis, COUNT(choices_##axis)},
#define NIB_CHOICE(constant, name, applies, what)
#define NIB_AXIS_END(axis)
#define NIB_NUMBER(axis, applies, fallback, what)                                                                      \
    {#axis, what, NIB_APPLIES_##applies, true, offsetof(struct nib_axes, axis), fallback, NULL, 0},
#include "format/axes.def"
#undef NIB_AXIS
#undef NIB_CHOICE
#undef NIB_AXIS_END
#undef NIB_NUMBER
};
const size_t nib_axis_count = COUNT(nib_axis_table);

bool nib_axes_stochastic(const struct nib_axes *axes) {
    return axes->rounding == NIB_ROUNDING_SR;
}

unsigned nib_axes_random_bytes(const struct nib_axes *axes) {
    if (axes->sr_form == NIB_SR_TE) return 1;
    return axes->sr_form < NIB_SR_TE ? 1u << axes->sr_bits : 4;
}

/* Whether a condition on stochastic rounding holds; others always do here. */
static bool stochastic_holds(enum nib_applies applies, const struct nib_axes *axes) {
    if (applies == NIB_APPLIES_SR_BITS) return nib_axes_stochastic(axes) && axes->sr_form < NIB_SR_TE;
    return applies != NIB_APPLIES_SR || nib_axes_stochastic(axes);
}

static bool is_e2m1(const struct nib_element *element) {
    static const float levels[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    bool same = element->symmetric && element->has_negative_zero;
    for (int i = 0; i < 8; i++) same = same && element->level[i] == levels[i];
    return same;
}

/* Sign and magnitude, as int4-quarter. */
static bool has_equal_steps(const struct nib_element *element) {
    bool equal = element->symmetric && element->has_negative_zero;
    for (int i = 0; i < 8; i++) equal = equal && element->level[i] == (float)i * element->level[1];
    return equal;
}

bool nib_axis_applies(enum nib_applies applies, const struct nib_block *block) {
    switch (applies) {
    case NIB_APPLIES_TENSOR: return block->has_tensor_scale;
    case NIB_APPLIES_NO_TENSOR: return !block->has_tensor_scale;
    case NIB_APPLIES_E8M0: return block->scale->kind == NIB_SCALE_E8M0;
    case NIB_APPLIES_ONE_LINE: return block->has_tensor_scale && block->block_rows == 1;
    case NIB_APPLIES_NOT_E8M0: return block->scale->kind != NIB_SCALE_E8M0;
    case NIB_APPLIES_E2M1:
    case NIB_APPLIES_E2M1_SR: return is_e2m1(block->element);
    case NIB_APPLIES_HIF4:
        return block->scale->kind == NIB_SCALE_HIF4 && block->block_rows == 1 && block->block_cols == 64 &&
               block->element->level[1] == 0.25f && has_equal_steps(block->element);
    case NIB_APPLIES_FLOOR_ADD: return is_e2m1(block->element) || has_equal_steps(block->element);
    case NIB_APPLIES_SR:
    case NIB_APPLIES_SR_BITS:
    case NIB_APPLIES_SELECT:
    case NIB_APPLIES_ANY: break;
    }
    return true;
}

const char *nib_applies_text(enum nib_applies applies) {
    switch (applies) {
    case NIB_APPLIES_TENSOR: return "a block format with a tensor scale";
    case NIB_APPLIES_NO_TENSOR: return "a block format without a tensor scale";
    case NIB_APPLIES_E8M0: return "an E8M0 block scale";
    case NIB_APPLIES_ONE_LINE: return "a tensor scale over blocks of one line";
    case NIB_APPLIES_NOT_E8M0: return "a block scale other than E8M0";
    case NIB_APPLIES_SR: return "stochastic rounding, set before it";
    case NIB_APPLIES_SR_BITS: return "stochastic rounding, set before it, in a form that takes any number of bits";
    case NIB_APPLIES_E2M1:
    case NIB_APPLIES_E2M1_SR: return "E2M1 elements";
    case NIB_APPLIES_FLOOR_ADD: return "E2M1 elements, or equal steps with a sign and a magnitude";
    case NIB_APPLIES_HIF4: return "HiF4 scales over 1x64 elements in quarters";
    case NIB_APPLIES_SELECT: return "a choice of select other than none, set before it";
    case NIB_APPLIES_ANY: break;
    }
    return "any block format";
}

static int *choice_of(struct nib_axes *axes, const struct nib_axis_info *axis) {
    return (int *)(void *)((char *)axes + axis->offset);
}
static float *number_of(struct nib_axes *axes, const struct nib_axis_info *axis) {
    return (float *)(void *)((char *)axes + axis->offset);
}

void nib_axes_default(struct nib_axes *axes, const struct nib_block *block) {
    memset(axes, 0, sizeof *axes);
    for (size_t i = 0; i < nib_axis_count; i++) {
        const struct nib_axis_info *axis = &nib_axis_table[i];
        if (axis->is_number) {
            *number_of(axes, axis) = axis->fallback;
            continue;
        }
        for (size_t c = axis->count; c-- > 0;)
            if (nib_axis_applies(axis->choices[c].applies, block)) *choice_of(axes, axis) = (int)c;
    }
    axes->block_target = block->element->max_magnitude;
    axes->tensor_target = block->element->max_magnitude * block->scale->max_value;
}

size_t nib_axis_find(const char *name) {
    size_t i = 0;
    while (i < nib_axis_count && strcmp(nib_axis_table[i].name, name) != 0) i++;
    return i;
}

void nib_axes_copy(struct nib_axes *to, const struct nib_axes *from, size_t index) {
    const struct nib_axis_info *axis = &nib_axis_table[index];
    if (axis->is_number)
        *number_of(to, axis) = *(const float *)(const void *)((const char *)from + axis->offset);
    else
        *choice_of(to, axis) = *(const int *)(const void *)((const char *)from + axis->offset);
}

bool nib_axes_hold(const struct nib_axes *axes, size_t index, const struct nib_block *block) {
    const struct nib_axis_info *axis = &nib_axis_table[index];
    if (!nib_axis_applies(axis->applies, block)) return false;
    if (!stochastic_holds(axis->applies, axes)) return false;
    if (axis->applies == NIB_APPLIES_SELECT && axes->select == NIB_SELECT_NONE) return false;
    if (axes->procedure != NIB_PROCEDURE_AXES && axis->offset != offsetof(struct nib_axes, procedure)) return false;
    if (axis->is_number) return true;
    int choice = *(const int *)(const void *)((const char *)axes + axis->offset);
    return nib_axis_applies(axis->choices[choice].applies, block);
}

static const char *axis_candidate(size_t i, const void *context) {
    (void)context;
    return i < nib_axis_count ? nib_axis_table[i].name : NULL;
}

/* "a, b, c" of the choices that apply. */
static void list_choices(const struct nib_axis_info *axis, const struct nib_block *block, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t c = 0; c < axis->count && used < size; c++)
        if (nib_axis_applies(axis->choices[c].applies, block))
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", axis->choices[c].name);
}

static enum nib_status set_number(struct nib_axes *axes, const struct nib_axis_info *axis, const char *value,
                                  const char *file, int line, struct nib_error *error) {
    float number;
    if (strcmp(value, "inf") == 0)
        number = INFINITY;
    else if (!nib_number_exact_float(value, &number) || number < 0)
        return nib_fail_at(error, NIB_EINVAL, file, line,
                           "axis %s: \"%s\" is not a number that binary32 holds exactly, at least 0 (or inf)",
                           axis->name, value);
    *number_of(axes, axis) = number;
    return NIB_OK;
}

enum nib_status nib_axes_set(struct nib_axes *axes, const struct nib_block *block, const char *axis_name,
                             const char *value, const char *file, int line, struct nib_error *error) {
    size_t found = nib_axis_find(axis_name);
    if (found == nib_axis_count) {
        const char *near = nib_suggest(axis_name, axis_candidate, NULL);
        return nib_fail_at(error, NIB_EINVAL, file, line, "no axis \"%s\"%s%s%s", axis_name,
                           near ? "; did you mean \"" : "; `nibble list axes` names them", near ? near : "",
                           near ? "\"?" : "");
    }
    const struct nib_axis_info *axis = &nib_axis_table[found];
    if (!nib_axis_applies(axis->applies, block))
        return nib_fail_at(error, NIB_EINVAL, file, line, "axis %s does not apply to block format %s: it needs %s",
                           axis->name, block->name, nib_applies_text(axis->applies));
    if (!stochastic_holds(axis->applies, axes))
        return nib_fail_at(error, NIB_EINVAL, file, line, "axis %s does not apply to rounding %s: it needs %s",
                           axis->name, nib_axis_table[nib_axis_find("rounding")].choices[axes->rounding].name,
                           nib_applies_text(axis->applies));
    if (axis->applies == NIB_APPLIES_SELECT && axes->select == NIB_SELECT_NONE)
        return nib_fail_at(error, NIB_EINVAL, file, line, "axis %s does not apply to select none: it needs %s",
                           axis->name, nib_applies_text(axis->applies));
    if (axes->procedure != NIB_PROCEDURE_AXES && axis->offset != offsetof(struct nib_axes, procedure))
        return nib_fail_at(error, NIB_EINVAL, file, line,
                           "axis %s does not apply to procedure %s, which computes a block as a whole", axis->name,
                           nib_axis_table[nib_axis_find("procedure")].choices[axes->procedure].name);
    if (axis->is_number) return set_number(axes, axis, value, file, line, error);
    for (size_t c = 0; c < axis->count; c++)
        if (strcmp(axis->choices[c].name, value) == 0) {
            if (!nib_axis_applies(axis->choices[c].applies, block))
                return nib_fail_at(error, NIB_EINVAL, file, line,
                                   "axis %s: \"%s\" does not apply to block format %s: it needs %s", axis->name, value,
                                   block->name, nib_applies_text(axis->choices[c].applies));
            *choice_of(axes, axis) = (int)c;
            return NIB_OK;
        }
    char expected[360];
    list_choices(axis, block, expected, sizeof expected);
    return nib_fail_at(error, NIB_EINVAL, file, line, "axis %s: no choice \"%s\"; expected one of %s", axis->name,
                       value, expected);
}

const char *nib_axes_get(const struct nib_axes *axes, size_t index, char buffer[NIB_AXIS_TEXT]) {
    const struct nib_axis_info *axis = &nib_axis_table[index];
    const char *record = (const char *)axes;
    if (!axis->is_number) {
        int choice;
        memcpy(&choice, record + axis->offset, sizeof choice);
        return axis->choices[choice].name;
    }
    float number;
    memcpy(&number, record + axis->offset, sizeof number);
    static const char *const eighths[8] = {"", ".125", ".25", ".375", ".5", ".625", ".75", ".875"};
    int exponent;
    float half = frexpf(number, &exponent);
    if (isinf(number))
        snprintf(buffer, NIB_AXIS_TEXT, "inf");
    else if (number < 0x1p20f && number * 8 == (float)(int)(number * 8))
        snprintf(buffer, NIB_AXIS_TEXT, "%d%s", (int)number, eighths[(int)(number * 8) % 8]);
    else { /* as %a has it, but in no locale with a comma */
        unsigned fraction = (unsigned)(half * 0x1p25f) - 0x1000000, digits = 6;
        for (; digits > 0 && fraction % 16 == 0; digits--) fraction /= 16;
        int whole = snprintf(buffer, NIB_AXIS_TEXT, "0x1%s", digits > 0 ? "." : "");
        if (digits > 0) whole += snprintf(buffer + whole, NIB_AXIS_TEXT - (size_t)whole, "%0*x", (int)digits, fraction);
        snprintf(buffer + whole, NIB_AXIS_TEXT - (size_t)whole, "p%+d", exponent - 1);
    }
    return buffer;
}
