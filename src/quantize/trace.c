#include <math.h>
#include <stdio.h>
#include <string.h>
#include "core/key.h"
#include "quantize/choice.h"
#include "quantize/quantize_ref.h"

const char *nib_choice_name(const struct nib_quantizer *q, size_t axis_offset) {
    char buffer[NIB_AXIS_TEXT];
    for (size_t i = 0; i < nib_axis_count; i++)
        if (nib_axis_table[i].offset == axis_offset && !nib_axis_table[i].is_number)
            return nib_axes_get(&q->axes, i, buffer);
    return "";
}

static struct nib_trace_step *append(struct nib_trace *trace, const char *what, const char *formula) {
    if (trace == NULL || trace->count >= sizeof trace->step / sizeof *trace->step) return NULL;
    struct nib_trace_step *step = &trace->step[trace->count++];
    memset(step, 0, sizeof *step);
    snprintf(step->what, sizeof step->what, "%s", what);
    snprintf(step->formula, sizeof step->formula, "%s", formula);
    return step;
}

void nib_trace_number(struct nib_trace *trace, const char *what, const char *formula, float value) {
    struct nib_trace_step *step = append(trace, what, formula);
    if (step == NULL) return;
    step->bits = nib_bits_of_float(value);
    step->value = (double)value;
}

void nib_trace_code(struct nib_trace *trace, const char *what, const char *formula, uint32_t code, float value) {
    struct nib_trace_step *step = append(trace, what, formula);
    if (step == NULL) return;
    step->bits = code;
    step->value = (double)value;
    step->is_code = true;
}

void nib_trace_tensor(struct nib_trace *trace, const struct nib_quantizer *q, const struct nib_tensor_scale *t) {
    if (!q->block->has_tensor_scale) return;
    nib_trace_number(trace, "tensor amax", "g", t->amax);
    nib_trace_number(trace, "tensor encode scale", "S", t->encode);
    nib_trace_number(trace, "tensor decode scale", "D", t->decode);
}
