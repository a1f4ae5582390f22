/* The memory of a run. */
#include "stack/pass.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include <stdlib.h>
#include <string.h>

static const char what[] = "activations";

static bool room(double **out, size_t count, struct nib_error *error) {
    *out = nib_alloc_raw(count, sizeof **out, what, error);
    return *out != NULL;
}

static bool room_f32(float **out, size_t count, struct nib_error *error) {
    *out = nib_alloc_raw(count, sizeof **out, what, error);
    return *out != NULL;
}

static size_t larger(size_t left, size_t right) {
    return left > right ? left : right;
}

static bool init_layer(const struct nib_stack_pass *pass, struct nib_layer *layer, bool observed,
                       struct nib_error *error) {
    const struct nib_stack_config *c = &pass->stack->config;
    size_t t = pass->tokens, query = t * c->heads * c->head_size, key = t * c->kv_heads * c->head_size;
    size_t widths[NIB_INPUTS] = {t * c->hidden, query, t * c->hidden, t * c->intermediate};
    for (int i = 0; i < NIB_INPUTS; i++)
        if (!room(&layer->input[i], widths[i], error) ||
            (observed && !room_f32(&layer->input_f32[i], widths[i], error)))
            return false;
    return room(&layer->q, query, error) && room(&layer->k, key, error) && room(&layer->v, key, error) &&
           room(&layer->gate, t * c->intermediate, error) && room(&layer->up, t * c->intermediate, error) &&
           room(&layer->middle, t * c->hidden, error) && room(&layer->inverse[0], t, error) &&
           room(&layer->inverse[1], t, error);
}

static bool init_result(const struct nib_stack_pass *pass, struct nib_stack_result *result, struct nib_error *error) {
    const struct nib_stack_config *c = &pass->stack->config;
    size_t stream = (c->layers + (size_t)1) * pass->tokens * c->hidden;
    if (!room(&result->hidden, stream, error) || !room(&result->logits, pass->tokens * c->vocabulary, error) ||
        !room(&result->token_loss, pass->tokens, error))
        return false;
    if (!pass->run->backward) return true;
    if (!room(&result->hidden_gradient, stream, error)) return false;
    result->gradient = nib_alloc(pass->stack->count, sizeof *result->gradient, what, error);
    if (result->gradient == NULL) return false;
    result->weights = pass->stack->count;
    for (size_t i = 0; i < pass->stack->count; i++) {
        const struct nib_stack_weight *weight = &pass->stack->weights[i];
        if (!room(&result->gradient[i], weight->rows * weight->cols, error)) return false;
    }
    return true;
}

/* What the products and the backward pass work in. */
static bool init_work(struct nib_stack_pass *pass, struct nib_error *error) {
    const struct nib_stack_config *c = &pass->stack->config;
    size_t channels = larger(larger(c->hidden, c->intermediate), (size_t)c->heads * c->head_size), largest = 0;
    size_t outputs = larger(channels, c->vocabulary);
    for (size_t i = 0; i < pass->stack->count; i++)
        largest = larger(largest, pass->stack->weights[i].rows * pass->stack->weights[i].cols);
    if (!room(&pass->gain, c->hidden, error) || !room(&pass->normed, pass->tokens * c->hidden, error) ||
        !room(&pass->inverse, pass->tokens, error) || !room(&pass->weight, largest, error) ||
        !room(&pass->row[0], pass->tokens * channels, error))
        return false;
    if (pass->run->precision != NIB_STACK_F64 &&
        (!room_f32(&pass->x_f32, pass->tokens * channels, error) ||
         !room_f32(&pass->y_f32, pass->tokens * outputs, error) || !room_f32(&pass->weight_f32, largest, error)))
        return false;
    if (!pass->run->backward) return true;
    for (size_t i = 1; i < sizeof pass->row / sizeof *pass->row; i++)
        if (!room(&pass->row[i], pass->tokens * channels, error)) return false;
    return room(&pass->middle_gradient, pass->tokens * c->hidden, error) &&
           room(&pass->dlogits, pass->tokens * c->vocabulary, error);
}

static bool init_tokens(struct nib_stack_pass *pass, const uint32_t *tokens, struct nib_error *error) {
    const struct nib_stack_config *c = &pass->stack->config;
    size_t half = c->head_size / 2;
    pass->ids = nib_alloc_raw(pass->tokens, sizeof *pass->ids, "tokens", error);
    pass->targets = nib_alloc_raw(pass->tokens, sizeof *pass->targets, "tokens", error);
    if (pass->ids == NULL || pass->targets == NULL || !room(&pass->cosine, pass->length * half, error) ||
        !room(&pass->sine, pass->length * half, error))
        return false;
    for (size_t s = 0; s < pass->sequences; s++) {
        const uint32_t *sequence = tokens + s * (pass->length + 1);
        memcpy(pass->ids + s * pass->length, sequence, pass->length * sizeof *sequence);
        memcpy(pass->targets + s * pass->length, sequence + 1, pass->length * sizeof *sequence);
    }
    nib_rotary_table(pass->length, c->head_size, c->rope_theta, pass->widths.wide, pass->cosine, pass->sine);
    return true;
}

static struct nib_widths widths_of(enum nib_stack_precision precision) {
    switch (precision) {
    case NIB_STACK_F64: return (struct nib_widths){NIB_WIDTH_F64, NIB_WIDTH_F64};
    case NIB_STACK_F32: return (struct nib_widths){NIB_WIDTH_F32, NIB_WIDTH_F32};
    case NIB_STACK_BF16: return (struct nib_widths){NIB_WIDTH_BF16, NIB_WIDTH_F32};
    }
    return (struct nib_widths){NIB_WIDTH_F64, NIB_WIDTH_F64};
}

enum nib_status nib_stack_pass_init(struct nib_stack_pass *pass, const struct nib_stack *stack,
                                    const struct nib_stack_run *run, const uint32_t *tokens, size_t sequences,
                                    size_t length, struct nib_error *error) {
    memset(pass, 0, sizeof *pass);
    pass->stack = stack;
    pass->run = run;
    pass->widths = widths_of(run->precision);
    pass->threads = nib_threads(run->threads);
    pass->sequences = pass->result.sequences = sequences;
    pass->length = pass->result.length = length;
    pass->tokens = sequences * length;
    bool observed = nib_stack_pass_is_observed(pass);
    pass->layer_count = run->backward ? stack->config.layers : 1;
    pass->layers = nib_alloc(pass->layer_count, sizeof *pass->layers, what, error);
    if (pass->layers == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < pass->layer_count; i++)
        if (!init_layer(pass, &pass->layers[i], observed, error)) return NIB_ENOMEM;
    bool done = init_result(pass, &pass->result, error) && init_work(pass, error) && init_tokens(pass, tokens, error);
    return done ? NIB_OK : NIB_ENOMEM;
}

static void clear_layer(struct nib_layer *layer) {
    for (int i = 0; i < NIB_INPUTS; i++) {
        free(layer->input[i]);
        free(layer->input_f32[i]);
    }
    double *rest[] = {layer->q,  layer->k,      layer->v,          layer->gate,
                      layer->up, layer->middle, layer->inverse[0], layer->inverse[1]};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) free(rest[i]);
    nib_block_clear(layer);
}

void nib_stack_pass_clear(struct nib_stack_pass *pass) {
    for (size_t i = 0; pass->layers != NULL && i < pass->layer_count; i++) clear_layer(&pass->layers[i]);
    for (size_t i = 0; i < sizeof pass->row / sizeof *pass->row; i++) free(pass->row[i]);
    void *rest[] = {pass->layers, pass->ids,        pass->targets, pass->cosine,         pass->sine,
                    pass->normed, pass->inverse,    pass->gain,    pass->weight,         pass->x_f32,
                    pass->y_f32,  pass->weight_f32, pass->dlogits, pass->middle_gradient};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) free(rest[i]);
    nib_stack_result_clear(&pass->result);
}
