/* What is said about recipes, shapes and units before anything is computed. */
#include "nib_test.h"

#include "job/stack.h"
#include <nibble/unit.h>

static struct nib_error error;

/* Keys and values are 32 wide, everything else is a multiple of 64. */
static const struct nib_stack_input input = {.config = {.vocabulary = 256, .hidden = 64, .intermediate = 128, .layers = 2,
                                                        .heads = 2, .kv_heads = 1, .head_size = 32, .positions = 512,
                                                        .norm_epsilon = 1e-5, .rope_theta = 1e4},
                                             .sequences = 1, .length = 64, .repeats = 1};

static void check(const char *text, enum nib_product product, const char *unit, bool backward, enum nib_status wanted,
                  const char *says) {
    struct nib_stack_request request = {.input = &input, .recipe_count = 1, .product = product, .backward = backward};
    const struct nib_recipe *recipe;
    NIB_OK_OR_FAIL(nib_recipe_parse(text, strlen(text), "mine.yaml", &recipe, &error), error);
    if (unit != NULL) NIB_OK_OR_FAIL(nib_unit_open(unit, &request.unit, &error), error);
    request.recipes = &recipe;
    memset(&error, 0, sizeof error);
    enum nib_status status = nib_stack_check(&request, &error);
    NIB_CHECKF(status == wanted && strcmp(error.text, says) == 0, "%s gives %s: %s", text, nib_status_name(status), error.text);
    nib_recipe_close(recipe);
    if (unit != NULL) nib_unit_close(request.unit);
}

static void fits(const char *text, enum nib_product product, const char *unit, bool backward) {
    check(text, product, unit, backward, NIB_OK, "");
}
static void refused(const char *text, enum nib_product product, const char *unit, const char *says) {
    check(text, product, unit, true, NIB_EINVAL, says);
}

#define HEAD "kind: recipe\ntitle: t\nsource: s\n"
#define FORWARD "fprop: {x: {quantizer: te-nvfp4}, w: {quantizer: te-nvfp4}}\n"
#define SQUARE "fprop: {x: {quantizer: te-nvfp4}, w: {quantizer: te-nvfp4-16x16}}\n"
#define WIDE_DGRAD HEAD "dgrad: {rotation: hadamard64, w: {quantizer: te-nvfp4}}\n"
#define NARROW "high_precision: {modules: [self_attn.k_proj, self_attn.v_proj]}\n"

static void groups_are_those_of_quantized_layers(void) {
    refused(WIDE_DGRAD, NIB_PRODUCT_BLAS, NULL,
            "recipe mine rotates dgrad of self_attn.k_proj in groups of 64; 32 output channels are no multiple of it, 64 would be");
    fits(WIDE_DGRAD, NIB_PRODUCT_BLAS, NULL, false);
    fits(WIDE_DGRAD NARROW, NIB_PRODUCT_BLAS, NULL, true);
    fits(WIDE_DGRAD "high_precision: {first: 1, last: 1}\n", NIB_PRODUCT_BLAS, NULL, true);
    refused(HEAD "wgrad: {x: {quantizer: quartet2-nvfp4-eden}}\n", NIB_PRODUCT_BLAS, NULL,
            "recipe mine corrects the scales of wgrad in groups of 128; 64 tokens are no multiple of it, 128 would be");
    fits(HEAD "wgrad: {pad: true, x: {quantizer: quartet2-nvfp4-eden}}\n", NIB_PRODUCT_BLAS, NULL, true);
    fits(HEAD "dgrad: {pad: true, rotation: hadamard64, w: {quantizer: te-nvfp4}}\n", NIB_PRODUCT_BLAS, NULL, true);
}

static void steps_are_those_of_the_unit_that_takes_the_codes(void) {
    fits(HEAD FORWARD, NIB_PRODUCT_UNIT, NULL, true);
    refused(HEAD SQUARE "dgrad: {dy: {quantizer: te-nvfp4}, w: {source: same}}\n", NIB_PRODUCT_UNIT, NULL,
            "recipe mine sends dgrad of self_attn.k_proj through blackwell-tcgen05-nvfp4 in steps of 64; 32 output channels are no "
            "multiple of it, 64 would be");
    fits(HEAD SQUARE "dgrad: {pad: true, dy: {quantizer: te-nvfp4}, w: {source: same}}\n", NIB_PRODUCT_UNIT, NULL, true);
    /* Values have no codes, so that this product is one of bf16. */
    fits(HEAD FORWARD "dgrad: {dy: {quantizer: te-nvfp4}, w: {source: same}}\n", NIB_PRODUCT_UNIT, NULL, true);
}

static void a_given_unit_takes_every_product(void) {
    static const char unit[] = "blackwell-tcgen05-nvfp4";
    fits(HEAD FORWARD, NIB_PRODUCT_UNIT, unit, false);
    check(HEAD FORWARD, NIB_PRODUCT_UNIT, "blackwell-rtx-mma-mxfp4", false, NIB_EINVAL,
          "recipe mine: unit blackwell-rtx-mma-mxfp4 takes e8m0 scales; block format nvfp4 has scale format e4m3");
    check(HEAD FORWARD NARROW, NIB_PRODUCT_UNIT, unit, false, NIB_EINVAL,
          "recipe mine in the layers that stay in high precision: unit blackwell-tcgen05-nvfp4 takes codes alone, and an operand of "
          "fprop has none that it takes");
    fits(HEAD FORWARD NARROW, NIB_PRODUCT_UNIT, "hopper-wgmma-16bit-f32", true);
}

NIB_TEST_MAIN("stack: check", {"groups are those of quantized layers", groups_are_those_of_quantized_layers},
              {"steps are those of the unit that takes the codes", steps_are_those_of_the_unit_that_takes_the_codes},
              {"a given unit takes every product", a_given_unit_takes_every_product})
