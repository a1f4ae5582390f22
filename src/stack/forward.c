#include "stack/pass.h"

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        enum nib_status status_ = (call);                                                                              \
        if (status_ != NIB_OK) return status_;                                                                         \
    } while (0)

/* y = norm of x by weight `number`. */
static void norm(const struct nib_stack_pass *pass, size_t number, const double *x, double *inverse, double *y) {
    nib_stack_weight_f64(&pass->stack->weights[number], pass->threads, pass->gain);
    nib_norm_forward(pass->tokens, pass->stack->config.hidden, pass->stack->config.norm_epsilon, x, pass->gain,
                     pass->widths.narrow, pass->widths.wide, pass->threads, inverse, y);
}

static enum nib_status attend(const struct nib_stack_pass *pass, struct nib_layer *layer, struct nib_error *error) {
    const struct nib_stack_config *c = &pass->stack->config;
    struct nib_attention attention = {pass->sequences, pass->length, c->heads,     c->kv_heads,
                                      c->head_size,    pass->widths, pass->threads};
    nib_rotary_apply(pass->tokens, pass->length, c->heads, c->head_size, pass->cosine, pass->sine, false,
                     pass->widths.narrow, pass->threads, layer->q);
    nib_rotary_apply(pass->tokens, pass->length, c->kv_heads, c->head_size, pass->cosine, pass->sine, false,
                     pass->widths.narrow, pass->threads, layer->k);
    return nib_attention_forward(&attention, layer->q, layer->k, layer->v, layer->input[NIB_INPUT_O], error);
}

static enum nib_status block(const struct nib_stack_pass *pass, size_t number, struct nib_error *error) {
    const struct nib_stack_config *c = &pass->stack->config;
    struct nib_layer *layer = nib_stack_pass_layer(pass, number);
    size_t stream = pass->tokens * c->hidden;
    const double *in = nib_stack_pass_hidden(pass, pass->result.hidden, number);
    double *out = nib_stack_pass_hidden(pass, pass->result.hidden, number + 1), *branch = pass->row[0];

    norm(pass, nib_stack_weight_of(number, NIB_PART_INPUT_NORM), in, layer->inverse[0],
         layer->input[NIB_INPUT_ATTENTION]);
    nib_block_fill(pass, layer, NIB_INPUT_ATTENTION);
    TRY(nib_block_forward(pass, number, NIB_PART_Q, layer->q, error));
    TRY(nib_block_forward(pass, number, NIB_PART_K, layer->k, error));
    TRY(nib_block_forward(pass, number, NIB_PART_V, layer->v, error));
    TRY(attend(pass, layer, error));
    nib_block_fill(pass, layer, NIB_INPUT_O);
    TRY(nib_block_forward(pass, number, NIB_PART_O, branch, error));
    nib_add(stream, in, branch, pass->widths.wide, pass->threads, layer->middle);

    norm(pass, nib_stack_weight_of(number, NIB_PART_POST_NORM), layer->middle, layer->inverse[1],
         layer->input[NIB_INPUT_MLP]);
    nib_block_fill(pass, layer, NIB_INPUT_MLP);
    TRY(nib_block_forward(pass, number, NIB_PART_GATE, layer->gate, error));
    TRY(nib_block_forward(pass, number, NIB_PART_UP, layer->up, error));
    nib_swiglu_forward(pass->tokens * c->intermediate, layer->gate, layer->up, pass->widths.narrow, pass->threads,
                       layer->input[NIB_INPUT_DOWN]);
    nib_block_fill(pass, layer, NIB_INPUT_DOWN);
    TRY(nib_block_forward(pass, number, NIB_PART_DOWN, branch, error));
    nib_add(stream, layer->middle, branch, pass->widths.wide, pass->threads, out);
    return NIB_OK;
}

enum nib_status nib_stack_pass_forward(struct nib_stack_pass *pass, struct nib_error *error) {
    const struct nib_stack_config *c = &pass->stack->config;
    struct nib_stack_result *result = &pass->result;
    nib_stack_weight_f64(&pass->stack->weights[0], pass->threads, pass->weight);
    nib_embed_forward(pass->weight, c->hidden, pass->ids, pass->tokens, result->hidden);
    nib_width_round_run(result->hidden, result->hidden, pass->tokens * c->hidden, pass->widths.wide);
    for (size_t number = 0; number < c->layers; number++) TRY(block(pass, number, error));
    norm(pass, nib_stack_final_norm(c), nib_stack_pass_hidden(pass, result->hidden, c->layers), pass->inverse,
         pass->normed);
    nib_dense_forward(pass, nib_stack_head(c), pass->normed, result->logits);
    nib_loss(pass->tokens, c->vocabulary, result->logits, pass->targets, pass->widths, pass->threads,
             result->token_loss, &result->loss, pass->dlogits);
    return NIB_OK;
}
