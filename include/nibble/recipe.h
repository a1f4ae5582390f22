/* Recipes: how each operand of the three training GEMMs is quantized, and which layers stay in high precision. */
#ifndef NIBBLE_RECIPE_H
#define NIBBLE_RECIPE_H

#include <nibble/quantizer.h>
#include <nibble/rotate.h>

#ifdef __cplusplus
extern "C" {
#endif

/* fprop: Y = X W^T, over input channels; dgrad: dX = dY W, over output channels; wgrad: dW = dY^T X, over tokens. */
enum nib_pass { NIB_PASS_FPROP, NIB_PASS_DGRAD, NIB_PASS_WGRAD, NIB_PASSES };
NIB_API const char *nib_pass_name(enum nib_pass pass); /* "fprop" */

/* The six operands. Each is blocked and rotated along the reduction axis of its GEMM. */
enum nib_slot {
    NIB_SLOT_FPROP_X, NIB_SLOT_FPROP_W, NIB_SLOT_DGRAD_DY, NIB_SLOT_DGRAD_W, NIB_SLOT_WGRAD_DY, NIB_SLOT_WGRAD_X,
    NIB_SLOTS
};
NIB_API const char *nib_slot_name(enum nib_slot slot); /* "fprop.x" */
NIB_API enum nib_pass nib_slot_pass(enum nib_slot slot);

/* The linear layers of a LLaMA block, in the order of its forward pass. */
enum nib_module {
    NIB_MODULE_Q, NIB_MODULE_K, NIB_MODULE_V, NIB_MODULE_O, NIB_MODULE_GATE, NIB_MODULE_UP, NIB_MODULE_DOWN,
    NIB_MODULES
};
NIB_API const char *nib_module_name(enum nib_module module); /* "self_attn.q_proj", as checkpoints call it */

struct nib_recipe;               /* immutable; built-ins are formats/recipes/NAME.yaml */

NIB_API NIB_CHECK enum nib_status nib_recipe_open(const char *name_or_path, const struct nib_recipe **out,
                                                  struct nib_error *error);
NIB_API NIB_CHECK enum nib_status nib_recipe_parse(const char *text, size_t length, const char *label,
                                                   const struct nib_recipe **out, struct nib_error *error);
NIB_API void nib_recipe_close(const struct nib_recipe *recipe);
NIB_API const char *nib_recipe_name(const struct nib_recipe *recipe);
NIB_API const char *nib_recipe_title(const struct nib_recipe *recipe);
NIB_API const char *nib_recipe_source(const struct nib_recipe *recipe);
NIB_API const char *nib_recipe_leaves_out(const struct nib_recipe *recipe); /* of the source; "" for nothing */
NIB_API const char *nib_recipe_text(const struct nib_recipe *recipe);
NIB_API const char *nib_recipe_sha256(const struct nib_recipe *recipe);
/* NULL: the operand stays in high precision (binary32 holding bf16 values). */
NIB_API const struct nib_quantizer *nib_recipe_quantizer(const struct nib_recipe *recipe, enum nib_slot slot);
/* NULL: none. */
NIB_API const struct nib_rotation *nib_recipe_rotation(const struct nib_recipe *recipe, enum nib_slot slot);
/* Whether that linear layer of a stack of `layers` is quantized, or stays in high precision. */
NIB_API bool nib_recipe_covers(const struct nib_recipe *recipe, unsigned layer, unsigned layers, enum nib_module module);

#ifdef __cplusplus
}
#endif
#endif
