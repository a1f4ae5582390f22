/* Zeros behind the reduction axis: a padded layer is, bit for bit, what tensors padded by hand give; the zeros show up in the
 * operands alone. */
#include "nib_test.h"

#include <math.h>
#include <nibble/linear.h>

#include "core/philox.h"
#include "rotate/rotation.h"
#include "stack/linear.h"

enum { TOKENS = 72, IN = 80, OUT = 208, WIDE = 256, SEED = 7, STEP = 3, LAYER = 1 };
#define MODULE NIB_MODULE_GATE

static struct nib_error error;
static float x[TOKENS * IN], w[OUT * IN], dy[TOKENS * OUT];

struct seen {
    size_t rows, cols;
    bool has_codes;
    uint8_t codes[WIDE * WIDE];
    float original[WIDE * WIDE], presented[WIDE * WIDE], used[WIDE * WIDE];
};
struct record {
    struct seen slot[NIB_SLOTS];
    float y[WIDE * WIDE], dx[WIDE * WIDE], dw[WIDE * WIDE];
    const struct nib_unit *unit;
};
static struct record one, other;

static enum nib_status see(void *self, const struct nib_operand_event *event, struct nib_error *e) {
    struct seen *s = &((struct record *)self)->slot[event->slot];
    size_t count = event->rows * event->cols;
    (void)e;
    s->rows = event->rows, s->cols = event->cols;
    s->has_codes = event->quantized != NULL;
    memcpy(s->original, event->original, count * sizeof(float));
    memcpy(s->presented, event->presented, count * sizeof(float));
    memcpy(s->used, event->used, count * sizeof(float));
    if (s->has_codes) memcpy(s->codes, event->quantized->codes, count);
    return NIB_OK;
}

static enum nib_status run(const struct nib_recipe *recipe, enum nib_product product, size_t tokens, size_t in, size_t out,
                           const float *a, const float *b, const float *c, struct record *r) {
    struct nib_linear_observer observer = {.self = r, .operand = see};
    struct nib_linear_options options = {.recipe = recipe, .product = product, .seed = SEED, .step = STEP, .layer = LAYER,
                                         .module = MODULE, .threads = 2, .observer = &observer};
    struct nib_linear_saved *saved = NULL;
    memset(r, 0, sizeof *r);
    enum nib_status status = nib_linear_forward(&options, tokens, in, out, a, b, r->y, &saved, &error);
    if (status == NIB_OK) status = nib_linear_backward(&options, saved, c, r->dx, r->dw, &error);
    nib_linear_saved_free(saved);
    return status;
}

/* The upper left corner of `to` (rows x cols, the rest 0). */
static void lay(const float *from, size_t rows, size_t cols, float *to, size_t to_rows, size_t to_cols) {
    memset(to, 0, to_rows * to_cols * sizeof *to);
    for (size_t r = 0; r < rows; r++) memcpy(to + r * to_cols, from + r * cols, cols * sizeof *to);
}
static bool corner_is(const float *corner, size_t rows, size_t cols, const float *whole, size_t whole_cols) {
    for (size_t r = 0; r < rows; r++)
        if (memcmp(corner + r * cols, whole + r * whole_cols, cols * sizeof *corner) != 0) return false;
    return true;
}

#define HEAD "kind: recipe\ntitle: t\nsource: s\n"
/* Nothing here depends on positions, so that the whole layer may be padded on every side. */
#define LAYERS(pad)                                                                                                        \
    HEAD "fprop:\n" pad "  x: {quantizer: te-nvfp4, mask: true}\n  w: {quantizer: te-nvfp4, mask: true}\n"                      \
         "dgrad:\n" pad "  rotation: hadamard128\n  signs: drawn\n  dy: {quantizer: te-nvfp4}\n"                                \
         "  w: {quantizer: te-nvfp4, source: dequantized}\n"                                                                   \
         "wgrad:\n" pad "  rotation: hadamard128\n  dy: {quantizer: te-nvfp4}\n"                                                \
         "  x: {quantizer: te-nvfp4, source: dequantized}\n  surrogate: {power: 5, cap: 3}\n"

static const struct nib_recipe *parse(const char *text) {
    const struct nib_recipe *recipe = NULL;
    enum nib_status status = nib_recipe_parse(text, strlen(text), "t", &recipe, &error);
    NIB_CHECKF(status == NIB_OK, "%s", error.text);
    return recipe;
}

static void a_padded_layer_is_one_padded_by_hand(void) {
    static float wide_x[128 * 128], wide_w[256 * 128], wide_dy[128 * 256];
    const struct nib_recipe *padded = parse(LAYERS("  pad: true\n")), *plain = parse(LAYERS(""));
    lay(x, TOKENS, IN, wide_x, 128, 128);
    lay(w, OUT, IN, wide_w, 256, 128);
    lay(dy, TOKENS, OUT, wide_dy, 128, 256);
    NIB_OK_OR_FAIL(run(plain, NIB_PRODUCT_UNIT, 128, 128, 256, wide_x, wide_w, wide_dy, &other), error);
    NIB_OK_OR_FAIL(run(padded, NIB_PRODUCT_UNIT, TOKENS, IN, OUT, x, w, dy, &one), error);
    CU_ASSERT(corner_is(one.y, TOKENS, OUT, other.y, 256));
    CU_ASSERT(corner_is(one.dx, TOKENS, IN, other.dx, 128));
    CU_ASSERT(corner_is(one.dw, OUT, IN, other.dw, 128));
    size_t masked = 0;
    for (size_t i = 0; i < TOKENS * IN; i++) masked += one.dx[i] == 0;
    CU_ASSERT(masked > 0 && masked < TOKENS * IN / 2);
    static const size_t rows[NIB_SLOTS] = {TOKENS, OUT, TOKENS, 256, 128, 128}, cols[NIB_SLOTS] = {128, 128, 256, IN, OUT, IN};
    for (int s = 0; s < NIB_SLOTS; s++) {
        const struct seen *a = &one.slot[s], *b = &other.slot[s];
        NIB_CHECKF(a->rows == rows[s] && a->cols == cols[s], "%s is %zux%zu", nib_slot_name(s), a->rows, a->cols);
        bool same = true;
        for (size_t r = 0; r < a->rows; r++) same = same && memcmp(a->codes + r * a->cols, b->codes + r * b->cols, a->cols) == 0;
        NIB_CHECKF(same, "%s: codes", nib_slot_name(s));
        NIB_CHECKF(corner_is(a->original, a->rows, a->cols, b->original, b->cols), "%s: original", nib_slot_name(s));
        NIB_CHECKF(corner_is(a->presented, a->rows, a->cols, b->presented, b->cols), "%s: presented", nib_slot_name(s));
        NIB_CHECKF(corner_is(a->used, a->rows, a->cols, b->used, b->cols), "%s: used", nib_slot_name(s));
    }
    nib_recipe_close(padded);
    nib_recipe_close(plain);
}

static void without_the_key_it_is_refused(void) {
    const struct nib_recipe *recipe = parse(LAYERS(""));
    CU_ASSERT_EQUAL(run(recipe, NIB_PRODUCT_BLAS, TOKENS, IN, OUT, x, w, dy, &one), NIB_EINVAL);
    CU_ASSERT_STRING_EQUAL(error.text, "layers.1.mlp.gate_proj: recipe t rotates the 208 output channels of dgrad by hadamard128 "
                                       "in groups of 128; pad them to 256");
    nib_recipe_close(recipe);
    recipe = parse(LAYERS("  pad: false\n"));
    CU_ASSERT_EQUAL(run(recipe, NIB_PRODUCT_BLAS, TOKENS, IN, OUT, x, w, dy, &one), NIB_EINVAL);
    nib_recipe_close(recipe);
}

static uint64_t drawn(unsigned purpose) {
    struct nib_philox_block b = nib_philox(SEED, STEP, (uint64_t)LAYER << 16 | MODULE << 8 | purpose);
    return (uint64_t)b.word[1] << 32 | b.word[0];
}

static void rotate_by_hand(const struct nib_recipe *recipe, enum nib_pass pass, enum nib_axis axis, size_t rows, size_t cols,
                           float *matrix) {
    static float turned[WIDE * WIDE];
    const struct nib_rotation *rotation = recipe->pass[pass].rotation;
    float sign[128];
    if (rotation == NULL) return;
    for (unsigned i = 0; i < nib_rotation_size(rotation); i++) {
        struct nib_philox_block b = nib_philox(drawn(NIB_SLOTS + (unsigned)pass), 0, 0);
        sign[i] = b.word[i / 32] >> i % 32 & 1 ? -1.0f : 1.0f;
    }
    NIB_OK_OR_FAIL(nib_rotation_with_signs(rotation, sign, &rotation, &error), error);
    NIB_OK_OR_FAIL(nib_rotate(rotation, (struct nib_view){matrix, NIB_F32, rows, cols, cols}, axis, 1, turned, &error), error);
    memcpy(matrix, turned, rows * cols * sizeof *matrix);
    nib_rotation_close(rotation);
}

/* Operands of recipes with stochastic rounding: padded, turned and quantized by hand. */
static void operands_are(const char *name, size_t output_channels, size_t tokens, enum nib_product product) {
    const float *const tensor[NIB_SLOTS] = {x, w, dy, w, dy, x};
    const size_t rows[NIB_SLOTS] = {TOKENS, OUT, TOKENS, output_channels, tokens, tokens};
    const size_t cols[NIB_SLOTS] = {IN, IN, output_channels, IN, OUT, IN};
    const size_t before_rows[NIB_SLOTS] = {TOKENS, OUT, TOKENS, OUT, TOKENS, TOKENS};
    const size_t before_cols[NIB_SLOTS] = {IN, IN, OUT, IN, OUT, IN};
    static float presented[WIDE * WIDE];
    const struct nib_recipe *recipe;
    NIB_OK_OR_FAIL(nib_recipe_open(name, &recipe, &error), error);
    NIB_OK_OR_FAIL(run(recipe, product, TOKENS, IN, OUT, x, w, dy, &one), error);
    for (int s = 0; s < NIB_SLOTS; s++) {
        const struct seen *seen = &one.slot[s];
        enum nib_axis axis = s <= NIB_SLOT_DGRAD_DY ? NIB_ALONG_COLS : NIB_ALONG_ROWS;
        bool again = s == NIB_SLOT_DGRAD_W || s == NIB_SLOT_WGRAD_X;
        size_t count = rows[s] * cols[s];
        const float *source = again ? one.slot[s == NIB_SLOT_DGRAD_W ? NIB_SLOT_FPROP_W : NIB_SLOT_FPROP_X].used : tensor[s];
        NIB_CHECKF(seen->rows == rows[s] && seen->cols == cols[s], "%s %s: %zux%zu", name, nib_slot_name(s), seen->rows, seen->cols);
        lay(tensor[s], before_rows[s], before_cols[s], presented, rows[s], cols[s]);
        NIB_CHECKF(memcmp(presented, seen->original, count * sizeof(float)) == 0, "%s %s: original", name, nib_slot_name(s));
        lay(source, before_rows[s], before_cols[s], presented, rows[s], cols[s]);
        rotate_by_hand(recipe, nib_slot_pass(s), axis, rows[s], cols[s], presented);
        NIB_CHECKF(memcmp(presented, seen->presented, count * sizeof(float)) == 0, "%s %s: presented", name, nib_slot_name(s));
        struct nib_quantized q;
        struct nib_quantize_options options = {.axis = axis, .seed = drawn((unsigned)s)};
        NIB_OK_OR_FAIL(nib_quantized_alloc(nib_recipe_quantizer(recipe, s), rows[s], cols[s], axis, 15, &q, &error), error);
        NIB_OK_OR_FAIL(nib_quantize(nib_recipe_quantizer(recipe, s), (struct nib_view){presented, NIB_F32, rows[s], cols[s], cols[s]},
                                    &options, &q, &error),
                       error);
        NIB_CHECKF(memcmp(q.codes, seen->codes, count) == 0, "%s %s: codes", name, nib_slot_name(s));
        NIB_CHECKF(memcmp(q.values, seen->used, count * sizeof(float)) == 0, "%s %s: used", name, nib_slot_name(s));
        nib_quantized_free(&q);
    }
    nib_recipe_close(recipe);
}
static void operands_of_shipped_recipes_are_padded_by_hand(void) {
    operands_are("quartet2", 256, 128, NIB_PRODUCT_BLAS);
    operands_are("tetrajet2", OUT, 80, NIB_PRODUCT_BLAS);
    operands_are("tetrajet2", OUT, 80, NIB_PRODUCT_UNIT);
}

/* Scale corrections take whole groups of 128 without any rotation; 25 tokens fill up one. */
static void corrected_scales_have_whole_groups(void) {
    const struct nib_recipe *recipe = parse(HEAD "wgrad:\n  pad: true\n  x: {quantizer: quartet2-nvfp4-eden}\n");
    NIB_OK_OR_FAIL(run(recipe, NIB_PRODUCT_BLAS, 25, IN, OUT, x, w, dy, &one), error);
    CU_ASSERT_EQUAL(one.slot[NIB_SLOT_WGRAD_X].rows, 128);
    CU_ASSERT_EQUAL(one.slot[NIB_SLOT_WGRAD_DY].rows, 128);
    CU_ASSERT(memcmp(one.slot[NIB_SLOT_WGRAD_X].presented, x, 25 * IN * sizeof *x) == 0);
    nib_recipe_close(recipe);
}

/* Rotations leave the exact product of padded operands what it was, up to the rounding of the rotation. */
static void products_are_those_of_the_tensors(void) {
    const struct nib_recipe *recipe = parse(HEAD "dgrad:\n  rotation: hadamard128\n  pad: true\nwgrad:\n  rotation: hadamard128\n"
                                                 "  signs: drawn\n  pad: true\n");
    NIB_OK_OR_FAIL(run(recipe, NIB_PRODUCT_EXACT, TOKENS, IN, OUT, x, w, dy, &one), error);
    double off[2] = {0, 0}, norm[2] = {0, 0};
    for (size_t i = 0; i < IN; i++) {
        for (size_t t = 0; t < TOKENS; t++) {
            double sum = 0;
            for (size_t o = 0; o < OUT; o++) sum += (double)dy[t * OUT + o] * (double)w[o * IN + i];
            off[0] += pow((double)one.dx[t * IN + i] - sum, 2), norm[0] += sum * sum;
        }
        for (size_t o = 0; o < OUT; o++) {
            double sum = 0;
            for (size_t t = 0; t < TOKENS; t++) sum += (double)dy[t * OUT + o] * (double)x[t * IN + i];
            off[1] += pow((double)one.dw[o * IN + i] - sum, 2), norm[1] += sum * sum;
        }
    }
    /* Both operands are bf16 after the rotation: relative errors of 2^-8/sqrt(3) each at most, on average. */
    for (int i = 0; i < 2; i++) NIB_CHECKF(off[i] < 2.0 / 3 * 0x1p-16 * norm[i], "%g", sqrt(off[i] / norm[i]));
    nib_recipe_close(recipe);
}

/* 72 inputs go through a unit of K 16 as 80: quantiles do not count the zeros, the rest is taken from the tensor alone. */
static void zeros_are_no_part_of_quantiles(void) {
    enum { N = 72 };
    static float clamped[TOKENS * N], rest[TOKENS * N];
    const struct nib_recipe *recipe = parse(HEAD "fprop:\n  pad: true\n"
                                                 "  x: {quantizer: e2m1-row, clamp: {quantile: 0.9, residual: true}}\n"
                                                 "  w: {quantizer: e2m1-row}\nwgrad:\n  pad: true\n  x: {source: same}\n");
    NIB_OK_OR_FAIL(run(recipe, NIB_PRODUCT_UNIT, TOKENS, N, OUT, x, w, dy, &one), error);
    NIB_OK_OR_FAIL(nib_linear_clamp(x, TOKENS * N, 0.9, clamped, rest, &error), error);
    const struct seen *a = &one.slot[NIB_SLOT_FPROP_X], *b = &one.slot[NIB_SLOT_FPROP_W], *again = &one.slot[NIB_SLOT_WGRAD_X];
    CU_ASSERT(a->cols == 80 && b->cols == 80 && again->rows == 80 && again->cols == N);
    CU_ASSERT(corner_is(clamped, TOKENS, N, a->presented, 80));
    bool zero = true, same = true;
    double off = 0, norm = 0;
    for (size_t t = 0; t < TOKENS; t++) {
        for (size_t i = N; i < 80; i++) zero = zero && a->used[t * 80 + i] == 0;
        for (size_t i = 0; i < N; i++) same = same && again->used[t * N + i] == a->used[t * 80 + i] + rest[t * N + i];
        for (size_t o = 0; o < OUT; o++) {
            double sum = 0;
            for (size_t i = 0; i < N; i++)
                sum += ((double)a->used[t * 80 + i] + (double)rest[t * N + i]) * (double)b->used[o * 80 + i];
            off += pow(sum - (double)one.y[t * OUT + o], 2), norm += sum * sum;
        }
    }
    CU_ASSERT(zero && same);
    NIB_CHECKF(off < 1e-5 * norm, "off by %g", sqrt(off / norm)); /* bf16 operands; what was cut off is a third of X */
    nib_recipe_close(recipe);
}

/* Codes of square blocks under stochastic rounding go by position: dgrad takes fprop's values, not new codes. */
static void values_of_a_padded_fprop_are_passed_on(void) {
    const struct nib_recipe *recipe = parse(HEAD "fprop:\n  pad: true\n  w: {quantizer: te-nvfp4-16x16, set: [rounding=sr]}\n"
                                                 "dgrad:\n  pad: true\n  w: {source: same}\nwgrad:\n  pad: true\n");
    NIB_OK_OR_FAIL(run(recipe, NIB_PRODUCT_UNIT, TOKENS, 72, OUT, x, w, dy, &one), error);
    CU_ASSERT_EQUAL(one.slot[NIB_SLOT_FPROP_W].cols, 80);
    CU_ASSERT(!one.slot[NIB_SLOT_DGRAD_W].has_codes);
    CU_ASSERT(corner_is(one.slot[NIB_SLOT_DGRAD_W].used, OUT, 72, one.slot[NIB_SLOT_FPROP_W].used, 80));
    nib_recipe_close(recipe);
    recipe = parse(HEAD "fprop:\n  pad: true\n  w: {quantizer: te-nvfp4-16x16}\ndgrad:\n  pad: true\n  w: {source: same}\n"
                   "wgrad:\n  pad: true\n");
    NIB_OK_OR_FAIL(run(recipe, NIB_PRODUCT_UNIT, TOKENS, 72, OUT, x, w, dy, &one), error);
    CU_ASSERT(one.slot[NIB_SLOT_DGRAD_W].has_codes);
    CU_ASSERT(corner_is(one.slot[NIB_SLOT_DGRAD_W].used, OUT, 72, one.slot[NIB_SLOT_FPROP_W].used, 80));
    nib_recipe_close(recipe);
}

/* A layer that the recipe leaves in high precision goes through a unit too. */
static void layers_in_high_precision_are_padded_for_the_unit(void) {
    const struct nib_recipe *recipe = parse(HEAD "fprop:\n  pad: true\n  rotation: hadamard128\n  x: {quantizer: te-nvfp4}\n"
                                                 "high_precision: {modules: [mlp.gate_proj]}\n");
    NIB_OK_OR_FAIL(run(recipe, NIB_PRODUCT_BLAS, TOKENS, 72, OUT, x, w, dy, &one), error);
    CU_ASSERT_EQUAL(one.slot[NIB_SLOT_FPROP_X].cols, 72);
    struct nib_linear_options options = {.recipe = recipe, .product = NIB_PRODUCT_UNIT, .layer = LAYER, .module = MODULE};
    NIB_OK_OR_FAIL(nib_linear_forward(&options, TOKENS, 72, OUT, x, w, one.y, NULL, &error), error);
    nib_recipe_close(recipe);
}

static void fill(float *out, size_t count, uint64_t stream, double sigma) {
    for (size_t i = 0; i < count; i++) {
        struct nib_philox_block b = nib_philox(99, i, stream);
        double radius = sqrt(-2 * log((b.word[0] + 0.5) * 0x1p-32));
        out[i] = (float)(sigma * radius * cos(6.283185307179586 * (b.word[1] * 0x1p-32)));
    }
}
static void first(void) {
    fill(x, TOKENS * IN, 1, 1);
    fill(w, OUT * IN, 2, 0.02);
    fill(dy, TOKENS * OUT, 3, 1e-4);
    a_padded_layer_is_one_padded_by_hand();
}

NIB_TEST_MAIN("padded linear layers", {"a padded layer is one padded by hand", first},
              {"without the key it is refused", without_the_key_it_is_refused},
              {"operands of shipped recipes are padded by hand", operands_of_shipped_recipes_are_padded_by_hand},
              {"corrected scales have whole groups", corrected_scales_have_whole_groups},
              {"products are those of the tensors", products_are_those_of_the_tensors},
              {"zeros are no part of quantiles", zeros_are_no_part_of_quantiles},
              {"values of a padded fprop are passed on", values_of_a_padded_fprop_are_passed_on},
              {"layers in high precision are padded for the unit", layers_in_high_precision_are_padded_for_the_unit})
