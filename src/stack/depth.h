/* What a recipe does along a stack: one run under a recipe against the reference run, by layer, GEMM and operand. */
#ifndef NIB_STACK_DEPTH_H
#define NIB_STACK_DEPTH_H

#include <nibble/measure.h>
#include <nibble/stack.h>

/* Quantity: name, heading, units, decimals, long name. What a row of each part has:
 *   summary  all that speak of the whole
 *   stream   the residual stream after `layer` layers (fprop), its gradient there (dgrad): gain to cosine
 *   operand  alpha to rotated_b_eff
 *   product  eta_predicted, eta_measured, sqnr_db of the output, and its SQNR raw and rotated
 *   weight   the gradient of a weight: alpha, norm_ratio, cosine, sqnr_db, stall */
#define NIB_DEPTH_LIST(X)                                                                                                 \
    X(loss, "loss", "nat", 5, "mean cross-entropy")                                                                       \
    X(loss_reference, "reference", "nat", 5, "the same in binary64")                                                      \
    X(loss_change, "change", "nat", 5, "loss less the reference's, sequence by sequence")                                 \
    X(alpha, "alpha", "1", 5, "coherent gain <Q(x), x>/||x||^2 of an operand, <gq, g>/||g||^2 of a weight's gradient")    \
    X(b, "b", "1", 5, "shrinkage bias E[rho(t) - t], t = |x|/s")                                                          \
    X(b_relative, "b/E[t]", "1", 5, "shrinkage bias relative to the mean of t")                                           \
    X(b_eff, "B_eff", "1", 4, "bucket utilization exp(entropy)/K")                                                        \
    X(sqnr_db, "SQNR dB", "dB", 3, "signal to noise ratio: of an operand, a product's output, a weight's gradient")       \
    X(crest, "crest", "1", 3, "crest factor max|x|/rms(x), mean over blocks")                                             \
    X(underflow, "underflow", "1", -3, "share of nonzero elements that became 0")                                         \
    X(raw_sqnr_db, "raw dB", "dB", 3, "SQNR through the same quantizers without a rotation")                              \
    X(rotated_sqnr_db, "rotated dB", "dB", 3, "SQNR through the same quantizers with a rotation")                         \
    X(rotation_gain_db, "dSQNR dB", "dB", 3, "what the rotation changes of the SQNR")                                     \
    X(raw_b_eff, "raw B_eff", "1", 4, "bucket utilization without a rotation")                                            \
    X(rotated_b_eff, "rotated B_eff", "1", 4, "bucket utilization with a rotation")                                       \
    X(eta_predicted, "aA aB", "1", 5, "expected gain of a GEMM, alpha_A alpha_B")                                         \
    X(eta_measured, "eta", "1", 5, "measured gain <Yq, Y>/||Y||^2 of a GEMM, Y the exact product of the same inputs")     \
    X(gain, "gain", "1", 4, "coherent gain <Xq, X>/||X||^2 of the residual stream, or its gradient, against the reference")\
    X(product_predicted, "prod aA aB", "1", 4, "product of the expected gains of v, o, gate, up and down on the way here")\
    X(product_measured, "prod eta", "1", 4, "product of the measured gains of the same GEMMs")                            \
    X(norm_ratio, "norm ratio", "1", 4, "||Xq||/||X||")                                                                   \
    X(cosine, "cosine", "1", 5, "cosine of the angle between Xq and X")                                                   \
    X(stall, "R", "1", 3, "||g||/(sigma sqrt(d)) of FP4 All the Way: below sqrt(3) training stalls")                      \
    X(fprop_sqnr_db, "fprop dB", "dB", 2, "SQNR of outputs of quantized layers, mean")                                    \
    X(dgrad_sqnr_db, "dgrad dB", "dB", 2, "SQNR of input gradients of quantized layers, mean")                            \
    X(wgrad_sqnr_db, "wgrad dB", "dB", 2, "SQNR of weight gradients of quantized layers given their operands, mean")      \
    X(gradient_gain, "gain dX", "1", 4, "coherent gain of the gradient of the embedded tokens")                           \
    X(gradient_cosine, "cosine dX", "1", 5, "cosine of the gradient of the embedded tokens")                              \
    X(weight_alpha, "alpha dW", "1", 5, "coherent gain of the gradient of all linear weights")                            \
    X(weight_cosine, "cosine dW", "1", 5, "cosine of the gradient of all linear weights")

enum nib_depth_quantity {
#define NIB_DEPTH_ENUM(field, heading, units, digits, long_name) NIB_DEPTH_##field,
    NIB_DEPTH_LIST(NIB_DEPTH_ENUM)
#undef NIB_DEPTH_ENUM
    NIB_DEPTH_QUANTITIES
};

enum nib_depth_part { NIB_DEPTH_SUMMARY, NIB_DEPTH_STREAM, NIB_DEPTH_OPERAND, NIB_DEPTH_PRODUCT, NIB_DEPTH_WEIGHT, NIB_DEPTH_PARTS };
const char *nib_depth_part_name(enum nib_depth_part part); /* "summary"; NULL past the last */

struct nib_depth_record {
    enum nib_depth_part part;
    int layer;                   /* from 0; of the stream: layers below it, 0 to all; -1: of none */
    const char *module;          /* "mlp.down_proj", or the name of a weight; "" for the stream and the summary */
    int pass, slot;              /* enum nib_pass, enum nib_slot; -1 for none */
    const struct nib_quantizer *quantizer; /* of an operand; NULL: none */
    struct nib_estimate value[NIB_DEPTH_QUANTITIES]; /* NAN: not of this part, or not known */
};

/* A run under a recipe. Standard errors come from batches of rows (operands) and from sequences; weights have none. */
struct nib_depth_request {
    const struct nib_stack *stack;
    const struct nib_stack_run *run; /* precision, recipe, product, unit, seed, backward, threads; without an observer */
    const uint32_t *tokens;
    size_t sequences, length;
    const struct nib_stack_result *reference; /* of the same tokens */
    double *loss_change;         /* one for each sequence is written there; NULL: none */
    bool products;               /* compare operands and products too, not only what the run leaves behind */
    const struct nib_rotation *rotation; /* beside a recipe without one, for raw and rotated; NULL: none */
    /* After each product; may be NULL. */
    void (*progress)(void *context, size_t products);
    void *context;
};
/* Records by part in a fixed order. The caller frees *out. */
size_t nib_depth_records(const struct nib_stack *stack, bool backward, bool products);
NIB_CHECK enum nib_status nib_depth_measure(const struct nib_depth_request *request, struct nib_depth_record **out,
                                            struct nib_error *error);

#endif
