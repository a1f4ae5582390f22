/* One run over a batch: what the forward pass keeps for the backward pass, and the memory both work in. */
#ifndef NIB_STACK_PASS_H
#define NIB_STACK_PASS_H

#include "stack/modules.h"
#include "stack/stack.h"

/* Inputs of linear layers: of q, k and v; of o; of gate and up; of down. */
enum nib_stack_input { NIB_INPUT_ATTENTION, NIB_INPUT_O, NIB_INPUT_MLP, NIB_INPUT_DOWN, NIB_INPUTS };

struct nib_layer {
    double *input[NIB_INPUTS]; /* tokens x channels */
    double *q, *k, *v;         /* after the rotation */
    double *gate, *up;
    double *middle;     /* the residual stream between attention and SwiGLU */
    double *inverse[2]; /* 1 / rms of the two norms */
    /* What nib_linear_forward() was given and keeps; NULL without a recipe. */
    float *input_f32[NIB_INPUTS];
    struct {
        struct nib_linear_saved *saved;
        float *weight;
    } linear[NIB_PARTS];
};

struct nib_stack_pass {
    const struct nib_stack *stack;
    const struct nib_stack_run *run;
    struct nib_widths widths;
    int threads;
    size_t sequences, length, tokens;
    uint32_t *ids, *targets; /* tokens each */
    double *cosine, *sine;
    size_t layer_count; /* all layers, or one that each of them uses in turn */
    struct nib_layer *layers;
    double *normed, *inverse;          /* of the final norm */
    double *gain;                      /* of the norm at work */
    double *weight;                    /* the weight at work */
    float *x_f32, *y_f32, *weight_f32; /* a plain product in binary32 */
    double *row[5];                    /* tokens x the widest */
    double *middle_gradient;           /* of the residual stream between attention and SwiGLU */
    double *dlogits;
    struct nib_stack_result result;
};

static inline struct nib_layer *nib_stack_pass_layer(const struct nib_stack_pass *pass, size_t layer) {
    return &pass->layers[layer % pass->layer_count];
}
static inline double *nib_stack_pass_hidden(const struct nib_stack_pass *pass, double *all, size_t layer) {
    return all + layer * pass->tokens * pass->stack->config.hidden;
}

/* Allocates everything; nib_stack_pass_clear() also after a failure. The result stays with the pass until it is taken.
 */
NIB_CHECK enum nib_status nib_stack_pass_init(struct nib_stack_pass *pass, const struct nib_stack *stack,
                                              const struct nib_stack_run *run, const uint32_t *tokens, size_t sequences,
                                              size_t length, struct nib_error *error);
void nib_stack_pass_clear(struct nib_stack_pass *pass);

NIB_CHECK enum nib_status nib_stack_pass_forward(struct nib_stack_pass *pass, struct nib_error *error);
NIB_CHECK enum nib_status nib_stack_pass_backward(struct nib_stack_pass *pass, struct nib_error *error);

/* Whether linear layers of blocks go through nib_linear_forward(): there is a recipe or an observer. */
bool nib_stack_pass_is_observed(const struct nib_stack_pass *pass);
/* A linear layer: y = x W^T; dx = dy W and, into the result, dW = dy^T x (added where `add`). */
void nib_dense_forward(const struct nib_stack_pass *pass, size_t weight, const double *x, double *y);
void nib_dense_backward(const struct nib_stack_pass *pass, size_t weight, const double *x, const double *dy, bool add,
                        double *dx);

/* The linear layers of a block, by nib_linear_forward() or plainly. `fill` notes that layer->input[which] has been
 * computed. */
void nib_block_fill(const struct nib_stack_pass *pass, struct nib_layer *layer, enum nib_stack_input which);
NIB_CHECK enum nib_status nib_block_forward(const struct nib_stack_pass *pass, size_t layer, enum nib_stack_part part,
                                            double *y, struct nib_error *error);
NIB_CHECK enum nib_status nib_block_backward(const struct nib_stack_pass *pass, size_t layer, enum nib_stack_part part,
                                             const double *dy, double *dx, struct nib_error *error);
/* Frees what the recipe's layers kept. */
void nib_block_clear(struct nib_layer *layer);

#endif
