/* The linear layers of a block: as a recipe says and under its observer where there is one, plainly otherwise. */
#include "stack/pass.h"

#include "base/memory.h"
#include "stack/linear.h"
#include <stdlib.h>

static const struct {
    enum nib_module module;
    enum nib_stack_input input;
} parts[NIB_PARTS] = {
    [NIB_PART_Q] = {NIB_MODULE_Q, NIB_INPUT_ATTENTION},  [NIB_PART_K] = {NIB_MODULE_K, NIB_INPUT_ATTENTION},
    [NIB_PART_V] = {NIB_MODULE_V, NIB_INPUT_ATTENTION},  [NIB_PART_O] = {NIB_MODULE_O, NIB_INPUT_O},
    [NIB_PART_GATE] = {NIB_MODULE_GATE, NIB_INPUT_MLP},  [NIB_PART_UP] = {NIB_MODULE_UP, NIB_INPUT_MLP},
    [NIB_PART_DOWN] = {NIB_MODULE_DOWN, NIB_INPUT_DOWN},
};

static size_t input_width(const struct nib_stack_config *config, enum nib_stack_input which) {
    switch (which) {
    case NIB_INPUT_O: return (size_t)config->heads * config->head_size;
    case NIB_INPUT_DOWN: return config->intermediate;
    default: return config->hidden;
    }
}

bool nib_stack_pass_is_observed(const struct nib_stack_pass *pass) {
    return pass->run->precision != NIB_STACK_F64 &&
           (pass->run->linear.recipe != NULL || pass->run->linear.observer != NULL);
}

static struct nib_linear_options options_of(const struct nib_stack_pass *pass, size_t layer, enum nib_stack_part part) {
    struct nib_linear_options options = pass->run->linear;
    options.bf16 = pass->run->precision == NIB_STACK_BF16;
    options.layer = (unsigned)layer;
    options.layers = pass->stack->config.layers;
    options.module = parts[part].module;
    options.threads = pass->threads;
    return options;
}

void nib_block_fill(const struct nib_stack_pass *pass, struct nib_layer *layer, enum nib_stack_input which) {
    float *to = layer->input_f32[which];
    if (to == NULL) return;
    size_t count = pass->tokens * input_width(&pass->stack->config, which);
    for (size_t i = 0; i < count; i++) to[i] = (float)layer->input[which][i];
}

static enum nib_status linear_forward(const struct nib_stack_pass *pass, size_t number, enum nib_stack_part part,
                                      double *y, struct nib_error *error) {
    struct nib_layer *layer = nib_stack_pass_layer(pass, number);
    const struct nib_stack_weight *weight = &pass->stack->weights[nib_stack_weight_of(number, part)];
    struct nib_linear_options options = options_of(pass, number, part);
    size_t elements = weight->rows * weight->cols, count = pass->tokens * weight->rows;
    float *w = layer->linear[part].weight;
    if (w == NULL) w = nib_alloc_raw(elements, sizeof *w, weight->name, error);
    if (w == NULL) return NIB_ENOMEM;
    layer->linear[part].weight = w;
    nib_stack_weight_f32(weight, pass->threads, w);
    if (options.bf16) nib_linear_round_bf16(w, elements);
    enum nib_status status =
        nib_linear_forward(&options, pass->tokens, weight->cols, weight->rows, layer->input_f32[parts[part].input], w,
                           pass->y_f32, pass->run->backward ? &layer->linear[part].saved : NULL, error);
    if (status != NIB_OK) return status;
    for (size_t i = 0; i < count; i++) y[i] = nib_width_round((double)pass->y_f32[i], pass->widths.narrow);
    return NIB_OK;
}

enum nib_status nib_block_forward(const struct nib_stack_pass *pass, size_t number, enum nib_stack_part part, double *y,
                                  struct nib_error *error) {
    if (nib_stack_pass_is_observed(pass)) return linear_forward(pass, number, part, y, error);
    nib_dense_forward(pass, nib_stack_weight_of(number, part),
                      nib_stack_pass_layer(pass, number)->input[parts[part].input], y);
    return NIB_OK;
}

static enum nib_status linear_backward(const struct nib_stack_pass *pass, size_t number, enum nib_stack_part part,
                                       const double *dy, double *dx, struct nib_error *error) {
    struct nib_layer *layer = nib_stack_pass_layer(pass, number);
    size_t at = nib_stack_weight_of(number, part);
    const struct nib_stack_weight *weight = &pass->stack->weights[at];
    struct nib_linear_options options = options_of(pass, number, part);
    for (size_t i = 0; i < pass->tokens * weight->rows; i++) pass->y_f32[i] = (float)dy[i];
    enum nib_status status =
        nib_linear_backward(&options, layer->linear[part].saved, pass->y_f32, pass->x_f32, pass->weight_f32, error);
    if (status != NIB_OK) return status;
    for (size_t i = 0; i < pass->tokens * weight->cols; i++)
        dx[i] = nib_width_round((double)pass->x_f32[i], pass->widths.narrow);
    for (size_t i = 0; i < weight->rows * weight->cols; i++) pass->result.gradient[at][i] = (double)pass->weight_f32[i];
    return NIB_OK;
}

enum nib_status nib_block_backward(const struct nib_stack_pass *pass, size_t number, enum nib_stack_part part,
                                   const double *dy, double *dx, struct nib_error *error) {
    if (nib_stack_pass_is_observed(pass)) return linear_backward(pass, number, part, dy, dx, error);
    nib_dense_backward(pass, nib_stack_weight_of(number, part),
                       nib_stack_pass_layer(pass, number)->input[parts[part].input], dy, false, dx);
    return NIB_OK;
}

void nib_block_clear(struct nib_layer *layer) {
    for (int part = 0; part < NIB_PARTS; part++) {
        nib_linear_saved_free(layer->linear[part].saved);
        free(layer->linear[part].weight);
        layer->linear[part].saved = NULL;
        layer->linear[part].weight = NULL;
    }
}
