/* Operands of the backward pass with `source: same` hold what fprop multiplied with, in the basis of their own product,
 * whatever fprop did besides. */
#include "nib_test.h"

#include <nibble/linear.h>

#include "core/philox.h"

enum { SIDE = 32, COUNT = SIDE * SIDE };

static struct nib_error error;
static float x[COUNT], w[COUNT], dy[COUNT];
static float used[NIB_SLOTS][COUNT];

static void fill(float *out, uint64_t stream) { /* small integers, exact in bf16, so that no product rounds */
    for (size_t i = 0; i < COUNT; i++) out[i] = (float)(int)(nib_philox(3, i, stream).word[0] % 65) - 32;
}

static enum nib_status see_operand(void *self, const struct nib_operand_event *event, struct nib_error *e) {
    (void)self;
    (void)e;
    memcpy(used[event->slot], event->used, sizeof used[event->slot]);
    return NIB_OK;
}

static void follow(const char *text, enum nib_product product) {
    struct nib_linear_observer observer = {.operand = see_operand};
    struct nib_linear_options options = {.product = product, .observer = &observer, .threads = 1};
    struct nib_linear_saved *saved = NULL;
    static float y[COUNT], dx[COUNT], dw[COUNT];
    NIB_OK_OR_FAIL(nib_recipe_parse(text, strlen(text), "mine.yaml", &options.recipe, &error), error);
    fill(x, 1);
    fill(w, 2);
    fill(dy, 3);
    enum nib_status status = nib_linear_forward(&options, SIDE, SIDE, SIDE, x, w, y, &saved, &error);
    if (status == NIB_OK) status = nib_linear_backward(&options, saved, dy, dx, dw, &error);
    NIB_CHECKF(status == NIB_OK, "%s%s", text, error.text);
    nib_linear_saved_free(saved);
    nib_recipe_close(options.recipe);
}

#define HEAD "kind: recipe\ntitle: t\nsource: s\n"
#define SAME "dgrad: {w: {source: same}}\nwgrad: {x: {source: same}}\n"

static void the_values_are_those_of_fprop(void) {
    static const char *const texts[] = {
        HEAD "fprop: {x: {quantizer: te-nvfp4}, w: {quantizer: te-nvfp4}}\n" SAME,
        HEAD "fprop: {x: {quantizer: te-nvfp4-16x16}, w: {quantizer: te-nvfp4-16x16}}\n" SAME,
        HEAD "fprop: {x: {quantizer: te-nvfp4-16x16, set: [rounding=sr, sr_bits=32]}, w: {quantizer: te-nvfp4-16x16}}\n" SAME,
        HEAD "fprop: {x: {quantizer: te-nvfp4}, w: {quantizer: te-nvfp4-16x16, gptq: {damping: 0.01}}}\n" SAME,
        HEAD "fprop: {x: {quantizer: te-nvfp4}, w: {ternary: {block: 16, iterations: 5}}}\n" SAME,
        HEAD "fprop: {x: {quantizer: te-nvfp4, clamp: {quantile: 0.7}}, w: {quantizer: te-nvfp4}}\n" SAME,
        HEAD "fprop: {x: {quantizer: te-nvfp4-16x16, clamp: {quantile: 0.7}}, w: {quantizer: te-nvfp4}}\n" SAME};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        follow(texts[i], NIB_PRODUCT_EXACT);
        NIB_CHECKF(memcmp(used[NIB_SLOT_DGRAD_W], used[NIB_SLOT_FPROP_W], sizeof used[0]) == 0, "%sdgrad.w", texts[i]);
        NIB_CHECKF(memcmp(used[NIB_SLOT_WGRAD_X], used[NIB_SLOT_FPROP_X], sizeof used[0]) == 0, "%swgrad.x", texts[i]);
    }
}

/* Codes cannot be turned, so the values are. */
static void they_follow_a_rotation_of_their_own_product(void) {
    static const char text[] = HEAD "fprop: {x: {quantizer: te-nvfp4-16x16}, w: {quantizer: te-nvfp4-16x16}}\n"
                                    "dgrad: {rotation: rht16, w: {source: same}}\n"
                                    "wgrad: {rotation: rht16, x: {source: same}}\n";
    static float turned[COUNT];
    const struct nib_rotation *rotation;
    follow(text, NIB_PRODUCT_EXACT);
    NIB_OK_OR_FAIL(nib_rotation_open("rht16", &rotation, &error), error);
    for (int i = 0; i < 2; i++) {
        struct nib_view view = {used[i], NIB_F32, SIDE, SIDE, SIDE};
        NIB_OK_OR_FAIL(nib_rotate(rotation, view, NIB_ALONG_ROWS, 1, turned, &error), error);
        enum nib_slot slot = i == 0 ? NIB_SLOT_WGRAD_X : NIB_SLOT_DGRAD_W;
        NIB_CHECKF(memcmp(used[slot], turned, sizeof turned) == 0, "%s", nib_slot_name(slot));
    }
    nib_rotation_close(rotation);
}

static void a_residual_goes_on_with_the_values(void) {
    static const char text[] =
        HEAD "fprop: {x: {quantizer: te-nvfp4-16x16, clamp: {quantile: 0.7, residual: true}}, w: {quantizer: te-nvfp4}}\n" SAME;
    follow(text, NIB_PRODUCT_EXACT);
    float high = 0, low = 0;
    for (size_t i = 0; i < COUNT; i++) {
        float rest = used[NIB_SLOT_WGRAD_X][i] - used[NIB_SLOT_FPROP_X][i];
        bool inside = x[i] > -12 && x[i] < 12; /* integers from -32 to 32, of which 3 in 10 lie beyond 13 at either end */
        NIB_CHECKF(!inside || rest == 0, "element %zu: %g", i, (double)rest);
        if (rest > high) high = rest;
        if (rest < low) low = rest;
    }
    NIB_CHECKF(high >= 18 && low <= -18, "largest residuals: %g %g", (double)high, (double)low);
}

NIB_TEST_MAIN("operands that stay the same", {"the values are those of fprop", the_values_are_those_of_fprop},
              {"they follow a rotation of their own product", they_follow_a_rotation_of_their_own_product},
              {"a residual goes on with the values", a_residual_goes_on_with_the_values})
