/* The modules of the decoder that are no linear layers, forward and backward. Arrays are dense: tokens x channels,
 * tokens in the order of the sequences. Every result is one thread's sum in a fixed order, so that its bits do not
 * depend on how many there are. docs/spec/stack.md has the equations. */
#ifndef NIB_STACK_MODULES_H
#define NIB_STACK_MODULES_H

#include "stack/rounding.h"
#include <nibble/status.h>
#include <stdbool.h>
#include <stddef.h>

/* rows[t] = table[token[t]]; the gradient of the table sums the rows of each token, tokens ascending. */
void nib_embed_forward(const double *table, size_t width, const uint32_t *ids, size_t tokens, double *rows);
void nib_embed_backward(const double *rows_gradient, size_t vocabulary, size_t width, const uint32_t *ids,
                        size_t tokens, enum nib_width wide, int threads, bool add, double *table_gradient);

/* y = x / sqrt(mean x^2 + epsilon) gain. `inverse` (tokens) keeps the factors. y is rounded to `out`. */
void nib_norm_forward(size_t tokens, size_t width, double epsilon, const double *x, const double *gain,
                      enum nib_width out, enum nib_width wide, int threads, double *inverse, double *y);
void nib_norm_backward(size_t tokens, size_t width, const double *x, const double *gain, const double *inverse,
                       const double *dy, enum nib_width wide, int threads, double *dx, double *dgain);

/* cos and sin of position * theta^(-2 i / size), positions x (size / 2) each. */
void nib_rotary_table(size_t positions, size_t size, double theta, enum nib_width wide, double *cosine, double *sine);
/* In place; channel i of a head is rotated with channel i + size / 2, by minus the angle where `back`. */
void nib_rotary_apply(size_t tokens, size_t length, size_t heads, size_t size, const double *cosine, const double *sine,
                      bool back, enum nib_width narrow, int threads, double *x);

struct nib_attention {
    size_t sequences, length, heads, kv_heads, size; /* consecutive heads share keys and values */
    struct nib_widths widths;
    int threads;
};
/* Causal softmax attention; q, out: tokens x heads * size; k, v: tokens x kv_heads * size. */
NIB_CHECK enum nib_status nib_attention_forward(const struct nib_attention *attention, const double *q, const double *k,
                                                const double *v, double *out, struct nib_error *error);
NIB_CHECK enum nib_status nib_attention_backward(const struct nib_attention *attention, const double *q,
                                                 const double *k, const double *v, const double *dout, double *dq,
                                                 double *dk, double *dv, struct nib_error *error);

/* h = silu(gate) up, element by element. */
void nib_swiglu_forward(size_t count, const double *gate, const double *up, enum nib_width narrow, int threads,
                        double *h);
void nib_swiglu_backward(size_t count, const double *gate, const double *up, const double *dh, enum nib_width narrow,
                         int threads, double *dgate, double *dup);

/* sum = a + b, rounded; sum may be a. */
void nib_add(size_t count, const double *a, const double *b, enum nib_width width, int threads, double *sum);

/* Cross-entropy of each token in nats, and their mean; dlogits (NULL: not wanted) of the mean. */
void nib_loss(size_t tokens, size_t vocabulary, const double *logits, const uint32_t *targets, struct nib_widths widths,
              int threads, double *token_loss, double *mean, double *dlogits);

#endif
