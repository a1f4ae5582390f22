/* Synthetic chains of linear layers: what a quantizer does to the signal on its way through many GEMMs, beside the same
 * chain without it. */
#ifndef NIBBLE_CHAIN_H
#define NIBBLE_CHAIN_H

#include <nibble/recipe.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One layer: y = act(norm(x)) W^T, or with SwiGLU y = (silu(g) * u) W_down^T, g = norm(x) W_gate^T, u = norm(x) W_up^T;
 * and x + y where there is a residual connection. */
enum nib_chain_activation { NIB_CHAIN_LINEAR, NIB_CHAIN_RELU, NIB_CHAIN_SILU, NIB_CHAIN_SWIGLU };

/* One operand: both NULL leave it in high precision. */
struct nib_chain_operand {
    const struct nib_quantizer *quantizer;
    const struct nib_rotation *rotation;
};

/* Random numbers with independent elements [first, first + count) of stream `seed`. */
struct nib_chain_source {
    void (*fill)(const void *self, uint64_t seed, uint64_t first, size_t count, float *out);
    const void *self;
};

struct nib_chain {
    unsigned depth;
    size_t width, rows;
    size_t inner;                /* of SwiGLU */
    enum nib_chain_activation activation;
    bool norm;                   /* RMSNorm without weights before each layer */
    bool residual;
    bool backward;               /* gradients too, from a Gaussian one at the top that both chains are given */
    struct nib_chain_operand operand[NIB_SLOTS];
    struct nib_chain_source weights; /* brought to the root mean square that keeps the variance of Gaussian signals */
    struct nib_chain_source signals; /* the input and the topmost gradient, brought to root mean square 1 */
    uint64_t seed;               /* of all random numbers, stochastic rounding included */
};

/* What is known of one GEMM at one depth. Depth k is the k-th layer. `gain` and what follows it speak of what the layer hands on:
 * fprop: its output, dgrad: the gradient of its input, wgrad: the gradient of that weight; against the chain that is not
 * quantized. The products run over the GEMMs that the signal has passed: from the input to here, for dgrad from the top
 * down to here, for wgrad both and its own; SwiGLU's gate and up multiply each other on the way up, and add on the way
 * down, where their mean is taken. */
#define NIB_CHAIN_LIST(X)                                                                                                \
    X(alpha_a, "alpha A", "1", 5, "coherent gain of the left operand, x or dY")                                          \
    X(alpha_b, "alpha B", "1", 5, "coherent gain of the right operand, W, or x in wgrad")                                \
    X(eta_predicted, "aA aB", "1", 5, "expected gain of the GEMM, alpha_A alpha_B")                                      \
    X(eta_measured, "eta", "1", 5, "measured gain <Yq, Y>/||Y||^2 of the GEMM, Y the exact product of the same inputs")  \
    X(sqnr_db, "SQNR dB", "dB", 3, "signal to noise ratio of the GEMM's output")                                         \
    X(gain, "gain", "1", 4, "coherent gain <Xq, X>/||X||^2 against the chain that is not quantized")                     \
    X(product_predicted, "prod aA aB", "1", 4, "product of the expected gains on the way here")                          \
    X(product_measured, "prod eta", "1", 4, "product of the measured gains of single GEMMs on the way here")             \
    X(excess, "gain - prod", "1", 4, "gain less the product of the expected gains")                                      \
    X(norm_ratio, "norm ratio", "1", 4, "||Xq||/||X||")                                                                  \
    X(cosine, "cosine", "1", 4, "cosine of the angle between Xq and X")

enum nib_chain_quantity {
#define NIB_CHAIN_ENUM(field, heading, units, digits, long_name) NIB_CHAIN_##field,
    NIB_CHAIN_LIST(NIB_CHAIN_ENUM)
#undef NIB_CHAIN_ENUM
    NIB_CHAIN_QUANTITIES
};
struct nib_chain_record {
    unsigned depth;              /* the layer, from 1: fprop has the signal above it, dgrad the gradient below it */
    enum nib_pass pass;
    const char *gemm;            /* "linear", or "gate", "up", "down" */
    double value[NIB_CHAIN_QUANTITIES];
};

/* Whether the chain can be computed: extents that rotations divide, operands of a GEMM that are rotated alike. */
NIB_API NIB_CHECK enum nib_status nib_chain_check(const struct nib_chain *chain, struct nib_error *error);
/* Records by depth, then pass, then GEMM: the same for every seed. */
NIB_API size_t nib_chain_records(const struct nib_chain *chain);
/* `out`: nib_chain_records entries. One thread; a chain that leaves the range of binary32 is NIB_EINVAL. */
NIB_API NIB_CHECK enum nib_status nib_chain_run(const struct nib_chain *chain, struct nib_chain_record *out,
                                                struct nib_error *error);

#ifdef __cplusplus
}
#endif
#endif
