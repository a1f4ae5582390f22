#include "stack/pass.h"

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        enum nib_status status_ = (call);                                                                              \
        if (status_ != NIB_OK) return status_;                                                                         \
    } while (0)

/* dx of a norm, and the gradient of its gain into the result. */
static void norm(const struct nib_stack_pass *pass, size_t number, const double *x, const double *inverse,
                 const double *dy, double *dx) {
    nib_stack_weight_f64(&pass->stack->weights[number], pass->threads, pass->gain);
    nib_norm_backward(pass->tokens, pass->stack->config.hidden, x, pass->gain, inverse, dy, pass->widths.wide,
                      pass->threads, dx, pass->result.gradient[number]);
}

/* The gradient that enters a linear layer from the residual stream. */
static void enter(const struct nib_stack_pass *pass, const double *stream, double *dy) {
    nib_width_round_run(stream, dy, pass->tokens * pass->stack->config.hidden, pass->widths.narrow);
}

/* dx of a linear layer, added to `sum` by way of `other`. */
static enum nib_status add_branch(const struct nib_stack_pass *pass, size_t number, enum nib_stack_part part,
                                  const double *dy, double *other, double *sum, struct nib_error *error) {
    TRY(nib_block_backward(pass, number, part, dy, other, error));
    nib_add(pass->tokens * pass->stack->config.hidden, sum, other, pass->widths.narrow, pass->threads, sum);
    return NIB_OK;
}

/* SwiGLU and its norm: the gradient before it from the one after it. */
static enum nib_status mlp(const struct nib_stack_pass *pass, size_t number, const double *after, double *before,
                           struct nib_error *error) {
    const struct nib_stack_config *c = &pass->stack->config;
    struct nib_layer *layer = nib_stack_pass_layer(pass, number);
    size_t wide = pass->tokens * c->intermediate;
    double *dh = pass->row[0], *dgate = pass->row[1], *dup = pass->row[2], *dx = pass->row[3];
    enter(pass, after, dx);
    TRY(nib_block_backward(pass, number, NIB_PART_DOWN, dx, dh, error));
    nib_swiglu_backward(wide, layer->gate, layer->up, dh, pass->widths.narrow, pass->threads, dgate, dup);
    TRY(nib_block_backward(pass, number, NIB_PART_GATE, dgate, dx, error));
    TRY(add_branch(pass, number, NIB_PART_UP, dup, dh, dx, error));
    norm(pass, nib_stack_weight_of(number, NIB_PART_POST_NORM), layer->middle, layer->inverse[1], dx, dh);
    nib_add(pass->tokens * c->hidden, after, dh, pass->widths.wide, pass->threads, before);
    return NIB_OK;
}

/* Attention and its norm, likewise. */
static enum nib_status attention(const struct nib_stack_pass *pass, size_t number, const double *in,
                                 const double *after, double *before, struct nib_error *error) {
    const struct nib_stack_config *c = &pass->stack->config;
    struct nib_layer *layer = nib_stack_pass_layer(pass, number);
    struct nib_attention shape = {pass->sequences, pass->length, c->heads,     c->kv_heads,
                                  c->head_size,    pass->widths, pass->threads};
    double *dq = pass->row[0], *dk = pass->row[1], *dv = pass->row[2], *dout = pass->row[3];
    double *dx = dout, *other = pass->row[4];
    enter(pass, after, other);
    TRY(nib_block_backward(pass, number, NIB_PART_O, other, dout, error));
    TRY(nib_attention_backward(&shape, layer->q, layer->k, layer->v, dout, dq, dk, dv, error));
    nib_rotary_apply(pass->tokens, pass->length, c->heads, c->head_size, pass->cosine, pass->sine, true,
                     pass->widths.narrow, pass->threads, dq);
    nib_rotary_apply(pass->tokens, pass->length, c->kv_heads, c->head_size, pass->cosine, pass->sine, true,
                     pass->widths.narrow, pass->threads, dk);
    TRY(nib_block_backward(pass, number, NIB_PART_Q, dq, dx, error));
    TRY(add_branch(pass, number, NIB_PART_K, dk, other, dx, error));
    TRY(add_branch(pass, number, NIB_PART_V, dv, other, dx, error));
    norm(pass, nib_stack_weight_of(number, NIB_PART_INPUT_NORM), in, layer->inverse[0], dx, other);
    nib_add(pass->tokens * c->hidden, after, other, pass->widths.wide, pass->threads, before);
    return NIB_OK;
}

enum nib_status nib_stack_pass_backward(struct nib_stack_pass *pass, struct nib_error *error) {
    const struct nib_stack_config *c = &pass->stack->config;
    struct nib_stack_result *result = &pass->result;
    double *slopes = result->hidden_gradient;
    nib_dense_backward(pass, nib_stack_head(c), pass->normed, pass->dlogits, false, pass->row[0]);
    norm(pass, nib_stack_final_norm(c), nib_stack_pass_hidden(pass, result->hidden, c->layers), pass->inverse,
         pass->row[0], nib_stack_pass_hidden(pass, slopes, c->layers));
    for (size_t number = c->layers; number-- > 0;) {
        const double *in = nib_stack_pass_hidden(pass, result->hidden, number),
                     *after = nib_stack_pass_hidden(pass, slopes, number + 1);
        double *before = nib_stack_pass_hidden(pass, slopes, number);
        TRY(mlp(pass, number, after, pass->middle_gradient, error));
        TRY(attention(pass, number, in, pass->middle_gradient, before, error));
        nib_block_clear(nib_stack_pass_layer(pass, number));
    }
    nib_embed_backward(slopes, c->vocabulary, c->hidden, pass->ids, pass->tokens, pass->widths.wide, pass->threads,
                       c->tied, result->gradient[0]);
    return NIB_OK;
}
