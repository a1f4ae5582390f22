/* What stands between the GEMMs of a chain: norm and activations, forward and backward, in binary64. */
#ifndef NIB_STACK_CHAIN_LAYER_H
#define NIB_STACK_CHAIN_LAYER_H

#include <nibble/chain.h>

/* Root mean square that the weights after this activation need, times sqrt(fan-in), to keep Gaussian signals of
 * variance 1. */
double nib_chain_weight_gain(enum nib_chain_activation activation);

/* y = x / rms(x), row by row, and back. dx may be dy. */
void nib_chain_norm(size_t rows, size_t cols, const double *x, double *y);
void nib_chain_norm_back(size_t rows, size_t cols, const double *x, const double *dy, double *dx);

/* y = act(x), elementwise, and dx = dy act'(x); dx may be dy. Not for SwiGLU. */
void nib_chain_act(enum nib_chain_activation activation, size_t count, const double *x, double *y);
void nib_chain_act_back(enum nib_chain_activation activation, size_t count, const double *x, const double *dy,
                        double *dx);

/* h = silu(g) u, and back. */
void nib_chain_gate(size_t count, const double *g, const double *u, double *h);
void nib_chain_gate_back(size_t count, const double *g, const double *u, const double *dh, double *dg, double *du);

/* To the nearest binary32. */
void nib_chain_round(size_t count, double *x);

#endif
