/* Operands on their way into a product, and what a layer keeps for its backward pass. */
#ifndef NIB_STACK_LINEAR_H
#define NIB_STACK_LINEAR_H

#include <nibble/linear.h>
#include "stack/recipe.h"

/* One call of a layer: the options, and the recipe where it covers this layer. */
struct nib_linear_call {
    const struct nib_linear_options *options;
    const struct nib_recipe *recipe; /* NULL: every operand in high precision */
};

struct nib_linear_operand {
    enum nib_slot slot;
    enum nib_axis axis;
    size_t rows, cols; /* as multiplied; those of the tensor with zeros behind them along the reduction axis: */
    size_t tensor_rows, tensor_cols;
    const float *original;       /* rows x cols */
    const struct nib_quantizer *quantizer; /* NULL: high precision */
    struct nib_quantized quantized;
    bool has_codes;
    float factor;
    const float *presented, *used;
    float *residual;             /* what was clamped off, rows x cols, or NULL */
    float *memory[5];            /* behind the pointers above; those that are not set are somebody else's */
};
void nib_linear_operand_clear(struct nib_linear_operand *operand);

struct nib_linear_saved {
    size_t tokens, in, out;
    const float *x, *w;          /* of the caller */
    struct nib_linear_operand operand[2]; /* of fprop; only what the backward pass takes from them */
    const struct nib_rotation *rotation;  /* of fprop */
    bool own_rotation;
    uint8_t *mask[2];            /* of X and W, 0 where the gradient is zeroed; or NULL */
    float *surrogate;            /* factor on dW, or NULL */
};

/* 64 random bits for one purpose of one call: a slot (stochastic rounding), or NIB_SLOTS + a pass (signs). */
uint64_t nib_linear_draw(const struct nib_linear_options *options, unsigned purpose);

/* The rotation of a pass with this call's signs; NULL where there is none. `own`: the caller closes it. */
enum nib_status nib_linear_rotation(const struct nib_linear_call *call, enum nib_pass pass,
                                    const struct nib_rotation **out, bool *own, struct nib_error *error);

/* The extent of a pass's reduction axis in its product: what whole groups of the rotation, of the quantizers and of the
 * unit need where the recipe pads, else as it is. */
enum nib_status nib_linear_extent(const struct nib_linear_call *call, enum nib_pass pass, size_t extent, size_t *out,
                                  struct nib_error *error);

/* Source, zeros, clamp, rotation, factor, quantizer. `forward`: the operand of fprop that shares the tensor, where the
 * recipe takes values from it. */
enum nib_status nib_linear_prepare(const struct nib_linear_call *call, enum nib_slot slot, const float *original,
                                   size_t rows, size_t cols, const struct nib_linear_operand *forward,
                                   const struct nib_rotation *rotation, struct nib_linear_operand *out,
                                   struct nib_error *error);
/* Whether an operand with `source: same` has the codes of the forward operand: those of square blocks serve both
 * directions, because quantizing along the other axis finds the same ones. A rotation of either product, a fit and a
 * residual are in the values alone, which are passed on otherwise; so are those of stochastic rounding in padded
 * columns. */
bool nib_linear_same_codes(const struct nib_recipe *recipe, enum nib_slot slot);
/* The scaled element x/s of the operand as presented, by position. */
float nib_linear_scaled(const struct nib_linear_operand *operand, size_t row, size_t col);

struct nib_linear_product {
    enum nib_pass pass;
    size_t m, n, k;
    const struct nib_linear_operand *a, *b;
    const struct nib_unit *unit; /* out: where one was used */
    uint64_t inexact;
};
/* The unit that takes the codes of a quantizer with its scales, by name; NULL where none does. */
const char *nib_linear_unit_of(const struct nib_quantizer *quantizer);
/* Whether a given unit takes the operands of all products of a recipe: a layer of zeros through it. */
enum nib_status nib_linear_try_unit(const struct nib_recipe *recipe, unsigned layers, const struct nib_unit *unit,
                                    bool backward, struct nib_error *error);
/* The unit of a pass where none is given; recipe NULL: of operands in high precision. */
const char *nib_linear_unit_for(const struct nib_recipe *recipe, enum nib_pass pass);
enum nib_status nib_linear_multiply(const struct nib_linear_call *call, struct nib_linear_product *product, float *out,
                                    struct nib_error *error);
/* out (m x n) from binary64 copies of a and b in the layout of their tensors, as the pass contracts them. */
enum nib_status nib_linear_exact(enum nib_pass pass, size_t m, size_t n, size_t k, const float *a, const float *b,
                                 int threads, double *out, struct nib_error *error);

/* out (in x in) = X^T X in binary64, of the inputs as presented. */
enum nib_status nib_linear_moment(const struct nib_linear_operand *x, int threads, double *out, struct nib_error *error);
/* Replaces the codes of fprop.w by those of GPTQ, for the inputs x as presented. */
enum nib_status nib_linear_gptq(const struct nib_linear_operand *x, double damping, int threads,
                                struct nib_linear_operand *w, struct nib_error *error);
/* Replaces the values of fprop.w by alpha T + mu in blocks of `block` columns, for the inputs x. */
enum nib_status nib_linear_ternary(const struct nib_linear_operand *x, unsigned block, unsigned iterations, int threads,
                                   struct nib_linear_operand *w, struct nib_error *error);
/* One block of m weights, without the inputs; returns how often T was computed anew. */
unsigned nib_linear_ternary_fit(const float *w, size_t m, unsigned iterations, int8_t *t, double *alpha, double *mu);

/* x with what lies beyond its quantile (both tails, over the tensor) clamped; the rest is x - clamped. */
enum nib_status nib_linear_clamp(const float *x, size_t count, double quantile, float *clamped, float *rest,
                                 struct nib_error *error);
/* y (tokens x out) += rest (tokens x in) times the transpose of w (out x in); rest is sparse. */
enum nib_status nib_linear_add_residual(const struct nib_linear_operand *x, const struct nib_linear_operand *w,
                                        float *y, int threads, struct nib_error *error);
/* Masks of the forward operands and the factor on dW, as far as the recipe asks for them. */
enum nib_status nib_linear_keep(const struct nib_recipe *recipe, const struct nib_linear_operand operand[2],
                                struct nib_linear_saved *saved, struct nib_error *error);
void nib_linear_round_bf16(float *x, size_t count);

#endif
