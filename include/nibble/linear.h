/* One linear layer under a recipe: the three GEMMs with their quantized operands. */
#ifndef NIBBLE_LINEAR_H
#define NIBBLE_LINEAR_H

#include <nibble/gemm.h>
#include <nibble/recipe.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How products are formed from the quantized operands. */
enum nib_product {
    NIB_PRODUCT_BLAS,            /* sgemm of dequantized operands: fast, not bit-exact */
    NIB_PRODUCT_EXACT,           /* dgemm of dequantized operands, rounded once: the error of the operands alone */
    NIB_PRODUCT_UNIT             /* bit for bit through a matrix unit */
};

struct nib_linear_options {
    const struct nib_recipe *recipe; /* NULL: operands enter the products as they are */
    enum nib_product product;
    const struct nib_unit *unit; /* with NIB_PRODUCT_UNIT; NULL: one that takes the recipe's operands */
    bool bf16;                   /* y and dx are rounded to bf16, as mixed-precision training stores them; dw is not */
    uint64_t seed;               /* stochastic rounding and sign vectors that are drawn anew; with `step` and the layer */
    uint64_t step;
    unsigned layer;
    unsigned layers;             /* of the stack, for those that the recipe leaves in high precision; 0: quantize */
    enum nib_module module;
    int threads;
    const struct nib_linear_observer *observer; /* NULL: none */
};

/* One operand, as quantized. Matrices are dense and row-major in the layout of the untransposed tensor; where the recipe
 * pads the GEMM, all of them, the original too, have its zeros behind the tensor along `axis`. */
struct nib_operand_event {
    unsigned layer;
    enum nib_module module;
    enum nib_slot slot;
    const struct nib_quantizer *quantizer; /* NULL: in high precision */
    enum nib_axis axis;
    size_t rows, cols;           /* with the zeros */
    const float *original;       /* the high-precision operand, in its own basis */
    const float *presented;      /* what the quantizer saw: source, factor and rotation applied */
    const struct nib_quantized *quantized; /* NULL without codes of its own */
    const float *used;           /* what enters the product, in the rotated basis, all factors undone */
};
/* One product, against the exact product of the high-precision operands. */
struct nib_product_event {
    unsigned layer;
    enum nib_module module;
    enum nib_pass pass;
    size_t rows, cols;
    const float *output;         /* of the recipe */
    const double *exact;         /* of the unquantized operands; NULL unless the observer wants it */
    const struct nib_unit *unit; /* with NIB_PRODUCT_UNIT: the one that formed it; else NULL */
    uint64_t inexact;            /* operand elements that the unit's operand format rounded */
};
struct nib_linear_observer {
    void *self;
    bool wants_exact;            /* costs one dgemm for each product */
    enum nib_status (*operand)(void *self, const struct nib_operand_event *event, struct nib_error *error); /* or NULL */
    enum nib_status (*product)(void *self, const struct nib_product_event *event, struct nib_error *error); /* or NULL */
};

/* What fprop keeps for the backward pass: codes that are quantized again, masks. */
struct nib_linear_saved;
NIB_API void nib_linear_saved_free(struct nib_linear_saved *saved);

/* y (tokens x out) = x (tokens x in) times the transpose of w (out x in), as the recipe says. All dense. `saved` NULL:
 * no backward pass follows. x and w must stay until the backward pass. */
NIB_API NIB_CHECK enum nib_status nib_linear_forward(const struct nib_linear_options *options, size_t tokens, size_t in,
                                                     size_t out, const float *x, const float *w, float *y,
                                                     struct nib_linear_saved **saved, struct nib_error *error);
/* dx (tokens x in) and dw (out x in) from dy (tokens x out). NULL dx or dw: not wanted. */
NIB_API NIB_CHECK enum nib_status nib_linear_backward(const struct nib_linear_options *options,
                                                      const struct nib_linear_saved *saved, const float *dy, float *dx,
                                                      float *dw, struct nib_error *error);

#ifdef __cplusplus
}
#endif
#endif
