/* A LLaMA-style decoder: embedding, blocks of attention and SwiGLU, head, cross-entropy; forward and backward. */
#ifndef NIBBLE_STACK_H
#define NIBBLE_STACK_H

#include <nibble/linear.h>
#include <nibble/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As in a Hugging Face config.json of model_type "llama". */
struct nib_stack_config {
    unsigned vocabulary, hidden, intermediate, layers, heads, kv_heads, head_size, positions;
    double norm_epsilon, rope_theta;
    bool tied;                   /* the head is the embedding */
};

/* Weights in the layout of Hugging Face, read where they lie. Opening checks every tensor: missing, extra or
 * mis-shaped ones are NIB_EINCONSISTENT and named, before anything is computed. `file` must stay open. */
struct nib_stack;
NIB_API NIB_CHECK enum nib_status nib_stack_open(const struct nib_stack_config *config, struct nib_file *file,
                                                 const struct nib_stack **out, struct nib_error *error);
NIB_API void nib_stack_close(const struct nib_stack *stack);
NIB_API const struct nib_stack_config *nib_stack_config_of(const struct nib_stack *stack);

/* Weights by number: 0 the embedding; then 9 for each layer (input norm, q, k, v, o, post-attention norm, gate, up,
 * down); the final norm; the head (not where it is tied). */
NIB_API size_t nib_stack_weights(const struct nib_stack *stack);
NIB_API const char *nib_stack_weight_name(const struct nib_stack *stack, size_t i);
NIB_API void nib_stack_weight_shape(const struct nib_stack *stack, size_t i, size_t *rows, size_t *cols);

enum nib_stack_precision {
    NIB_STACK_F64,               /* the reference: binary64 throughout, recipes ignored */
    NIB_STACK_F32,               /* every result rounded to binary32 */
    NIB_STACK_BF16               /* activations and their gradients bf16 between operations; norms, softmax and loss
                                  * computed wide, residual stream and weight gradients binary32 */
};
struct nib_stack_run {
    enum nib_stack_precision precision;
    struct nib_linear_options linear; /* of every linear layer; layer and module are filled in; recipe NULL: none */
    bool backward;
    int threads;
};

/* Everything that one run leaves behind; arrays of binary64, tokens in the order of the sequences. */
struct nib_stack_result {
    size_t sequences, length;    /* tokens = sequences * length; targets are the next tokens */
    double loss;                 /* mean cross-entropy in nats over all tokens */
    double *hidden;              /* (layers + 1) x tokens x hidden: the residual stream after i layers */
    double *hidden_gradient;     /* likewise, of the mean loss; NULL without the backward pass */
    double *logits;              /* tokens x vocabulary */
    double *token_loss;          /* tokens */
    size_t weights;              /* of `gradient` */
    double **gradient;           /* of each weight, by number; NULL without the backward pass */
};
/* tokens: sequences x (length + 1), each below the vocabulary. */
NIB_API NIB_CHECK enum nib_status nib_stack_execute(const struct nib_stack *stack, const struct nib_stack_run *run,
                                                    const uint32_t *tokens, size_t sequences, size_t length,
                                                    struct nib_stack_result *out, struct nib_error *error);
NIB_API void nib_stack_result_clear(struct nib_stack_result *result);

#ifdef __cplusplus
}
#endif
#endif
