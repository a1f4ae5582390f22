/* What a recipe file says, resolved. */
#ifndef NIB_STACK_RECIPE_H
#define NIB_STACK_RECIPE_H

#include <nibble/recipe.h>

/* What becomes of the sign vector of a rotation. */
enum nib_signs {
    NIB_SIGNS_FIXED,             /* as its file has it */
    NIB_SIGNS_NONE,              /* left out */
    NIB_SIGNS_DRAWN              /* drawn anew for every call, from seed, step, layer, module and GEMM */
};
/* Where an operand of the backward pass comes from. */
enum nib_source {
    NIB_SOURCE_ORIGINAL,         /* the high-precision tensor */
    NIB_SOURCE_DEQUANTIZED,      /* the dequantized values of the forward operand, quantized again */
    NIB_SOURCE_SAME              /* the codes of the forward operand, transposed */
};

/* How a weight is fitted beyond rounding to nearest. */
enum nib_method {
    NIB_METHOD_NONE,
    NIB_METHOD_GPTQ,             /* errors are passed on to later columns by the Hessian of the given activations */
    NIB_METHOD_TERNARY           /* alpha T + mu in blocks of columns, fitted to the given activations; no quantizer */
};

struct nib_operand_rule {
    bool quantized;
    int method;                  /* enum nib_method */
    double damping;              /* of GPTQ, relative to the mean of the Hessian's diagonal */
    unsigned ternary_block, ternary_iterations;
    const struct nib_quantizer *quantizer; /* NULL: high precision */
    int source;                  /* enum nib_source */
    float factor;                /* before the quantizer, undone after it */
    bool mask;                   /* gradients of elements beyond the largest level are zeroed */
    double quantile;             /* values beyond it (both tails) are clamped; 0: none */
    bool residual;               /* what was clamped off enters the product in high precision */
};
struct nib_pass_rule {
    const struct nib_rotation *rotation; /* of both operands along the reduction axis, or NULL */
    int signs;                   /* enum nib_signs */
    float output_factor;
    bool pad; /* zeros fill up the reduction axis where rotation, quantizer or unit take whole groups */
    int surrogate;               /* k of the differentiable gradient estimator on dW; 0: none */
    float surrogate_cap;
};

struct nib_recipe {
    char name[256];
    char title[96];
    char source[240];
    char leaves_out[400];
    struct nib_operand_rule slot[NIB_SLOTS];
    struct nib_pass_rule pass[NIB_PASSES];
    unsigned first, last;        /* layers in high precision at either end */
    bool high[NIB_MODULES];      /* modules in high precision in every layer */
    char *text;
    char sha256[65];
};

/* Whether the values that an operand takes from the forward pass are in the basis of fprop's rotation, and with them
 * the product. */
bool nib_recipe_inherits(const struct nib_recipe *recipe, enum nib_slot slot);
/* The operand of fprop that a slot of the backward pass shares its tensor with; NIB_SLOTS for dY. */
enum nib_slot nib_slot_forward(enum nib_slot slot);
enum nib_axis nib_slot_axis(enum nib_slot slot);

/* Fills in everything but name, text and digest. */
enum nib_status nib_recipe_read(const char *text, size_t length, const char *label, struct nib_recipe *recipe,
                                struct nib_error *error);

#endif
