/* A linear layer under every recipe: its operands are those of nib_quantize called by hand, its products those of
 * nib_gemm called by hand, whatever the number of threads. */
#include "nib_test.h"

#include <math.h>
#include <nibble/linear.h>

#include "core/philox.h"
#include "format/registry.h"
#include "rotate/rotation.h"
#include "stack/recipe.h"

enum { TOKENS = 128, IN = 256, OUT = 384, MOST = OUT * IN, SEED = 7, STEP = 3, LAYER = 1 };
#define MODULE NIB_MODULE_GATE

static struct nib_error error;
static float x[TOKENS * IN], w[OUT * IN], dy[TOKENS * OUT];

/* Everything one call shows and returns. */
struct record {
    struct {
        const struct nib_quantizer *quantizer;
        bool has_codes;
        size_t count;
        uint8_t codes[MOST];
        float presented[MOST], used[MOST], values[MOST];
    } slot[NIB_SLOTS];
    float y[TOKENS * OUT], dx[TOKENS * IN], dw[OUT * IN];
    const char *unit[NIB_PASSES];
    uint64_t inexact[NIB_PASSES];
};
static struct record one, other;

static void fill(float *out, size_t count, uint64_t stream, double sigma) {
    for (size_t i = 0; i < count; i++) {
        struct nib_philox_block b = nib_philox(99, i, stream);
        double radius = sqrt(-2 * log((b.word[0] + 0.5) * 0x1p-32));
        float value = (float)(sigma * radius * cos(6.283185307179586 * (b.word[1] * 0x1p-32)));
        uint32_t bits; /* bf16, as activations are stored */
        memcpy(&bits, &value, sizeof bits);
        bits = (bits + 0x8000u) & 0xFFFF0000u;
        memcpy(&out[i], &bits, sizeof bits);
    }
}

static enum nib_status see_operand(void *self, const struct nib_operand_event *event, struct nib_error *e) {
    struct record *r = self;
    (void)e;
    size_t count = event->rows * event->cols;
    r->slot[event->slot].quantizer = event->quantizer;
    r->slot[event->slot].count = count;
    r->slot[event->slot].has_codes = event->quantized != NULL;
    memcpy(r->slot[event->slot].presented, event->presented, count * sizeof(float));
    memcpy(r->slot[event->slot].used, event->used, count * sizeof(float));
    if (event->quantized == NULL) return NIB_OK;
    memcpy(r->slot[event->slot].codes, event->quantized->codes, count);
    memcpy(r->slot[event->slot].values, event->quantized->values, count * sizeof(float));
    return NIB_OK;
}
static enum nib_status see_product(void *self, const struct nib_product_event *event, struct nib_error *e) {
    static char name[NIB_PASSES][40];
    struct record *r = self;
    (void)e;
    snprintf(name[event->pass], sizeof name[event->pass], "%s", event->unit != NULL ? event->unit->name : "");
    r->unit[event->pass] = name[event->pass];
    r->inexact[event->pass] = event->inexact;
    return NIB_OK;
}

static enum nib_status run(const struct nib_recipe *recipe, enum nib_product product, int threads, struct record *r) {
    struct nib_linear_observer observer = {.self = r, .operand = see_operand, .product = see_product};
    struct nib_linear_options options = {.recipe = recipe,
                                         .product = product,
                                         .seed = SEED,
                                         .step = STEP,
                                         .layer = LAYER,
                                         .module = MODULE,
                                         .threads = threads,
                                         .observer = &observer};
    struct nib_linear_saved *saved = NULL;
    memset(r, 0, sizeof *r);
    enum nib_status status = nib_linear_forward(&options, TOKENS, IN, OUT, x, w, r->y, &saved, &error);
    if (status == NIB_OK) status = nib_linear_backward(&options, saved, dy, r->dx, r->dw, &error);
    nib_linear_saved_free(saved);
    NIB_CHECKF(status == NIB_OK, "%s: %s", nib_recipe_name(recipe), error.text);
    return status;
}

static void for_every_recipe(void (*check)(const struct nib_recipe *recipe)) {
    for (size_t i = 0; nib_registry_name("recipes", i) != NULL; i++) {
        const struct nib_recipe *recipe;
        NIB_OK_OR_FAIL(nib_recipe_open(nib_registry_name("recipes", i), &recipe, &error), error);
        check(recipe);
        nib_recipe_close(recipe);
    }
}

/* 64 bits of the Philox block with key = seed and counter = (step, layer 2^16 + module 2^8 + purpose). */
static uint64_t drawn(unsigned purpose) {
    struct nib_philox_block b = nib_philox(SEED, STEP, (uint64_t)LAYER << 16 | MODULE << 8 | purpose);
    return (uint64_t)b.word[1] << 32 | b.word[0];
}

static void rotate_by_hand(const struct nib_recipe *recipe, enum nib_slot slot, const float *from, size_t rows,
                           size_t cols, float *to) {
    enum nib_pass pass = nib_slot_pass(slot);
    const struct nib_rotation *rotation = recipe->pass[pass].rotation, *signed_one = NULL;
    struct nib_view view = {from, NIB_F32, rows, cols, cols};
    memcpy(to, from, rows * cols * sizeof *to);
    if (rotation == NULL) return;
    if (recipe->pass[pass].signs == NIB_SIGNS_DRAWN) {
        float sign[1024];
        for (unsigned i = 0; i < nib_rotation_size(rotation); i++) {
            struct nib_philox_block b = nib_philox(drawn(NIB_SLOTS + (unsigned)pass), i / 128, 0);
            sign[i] = b.word[i % 128 / 32] >> i % 32 & 1 ? -1.0f : 1.0f;
        }
        NIB_OK_OR_FAIL(nib_rotation_with_signs(rotation, sign, &signed_one, &error), error);
        rotation = signed_one;
    }
    NIB_OK_OR_FAIL(nib_rotate(rotation, view, slot <= NIB_SLOT_DGRAD_DY ? NIB_ALONG_COLS : NIB_ALONG_ROWS, 1, to, &error),
                   error);
    nib_rotation_close(signed_one);
}

static void operands_are(const struct nib_recipe *recipe) {
    static float presented[MOST];
    static const float *const original[NIB_SLOTS] = {x, w, dy, w, dy, x};
    static const size_t rows[NIB_SLOTS] = {TOKENS, OUT, TOKENS, OUT, TOKENS, TOKENS};
    static const size_t cols[NIB_SLOTS] = {IN, IN, OUT, IN, OUT, IN};
    if (run(recipe, NIB_PRODUCT_BLAS, 2, &one) != NIB_OK) return;
    for (int s = 0; s < NIB_SLOTS; s++) {
        const char *name = nib_slot_name(s);
        const struct nib_operand_rule *rule = &recipe->slot[s];
        size_t count = rows[s] * cols[s];
        NIB_CHECKF(one.slot[s].count == count, "%s %s was not seen", nib_recipe_name(recipe), name);
        if (rule->quantile > 0 || rule->method != NIB_METHOD_NONE) continue; /* t-stack-recipe-parts */
        if (rule->source == NIB_SOURCE_SAME) {
            const float *forward = one.slot[s == NIB_SLOT_DGRAD_W ? NIB_SLOT_FPROP_W : NIB_SLOT_FPROP_X].used;
            bool side = s == NIB_SLOT_WGRAD_X && recipe->slot[NIB_SLOT_FPROP_X].residual;
            NIB_CHECKF(side || memcmp(one.slot[s].used, forward, count * sizeof(float)) == 0,
                       "%s %s: not the forward values", nib_recipe_name(recipe), name);
            continue;
        }
        enum nib_slot from = s == NIB_SLOT_DGRAD_W ? NIB_SLOT_FPROP_W : NIB_SLOT_FPROP_X;
        bool again = rule->source == NIB_SOURCE_DEQUANTIZED;
        rotate_by_hand(recipe, s, again ? one.slot[from].values : original[s], rows[s], cols[s], presented);
        NIB_CHECKF(memcmp(presented, one.slot[s].presented, count * sizeof(float)) == 0, "%s %s: presented",
                   nib_recipe_name(recipe), name);
        if (rule->quantizer == NULL) continue;
        struct nib_quantized q;
        struct nib_quantize_options options = {.axis = s <= NIB_SLOT_DGRAD_DY ? NIB_ALONG_COLS : NIB_ALONG_ROWS,
                                               .seed = drawn(s)};
        NIB_OK_OR_FAIL(nib_quantized_alloc(rule->quantizer, rows[s], cols[s], options.axis, 15, &q, &error), error);
        NIB_OK_OR_FAIL(nib_quantize(rule->quantizer, (struct nib_view){presented, NIB_F32, rows[s], cols[s], cols[s]},
                                    &options, &q, &error),
                       error);
        NIB_CHECKF(memcmp(q.codes, one.slot[s].codes, count) == 0, "%s %s: codes", nib_recipe_name(recipe), name);
        NIB_CHECKF(memcmp(q.values, one.slot[s].used, count * sizeof(float)) == 0, "%s %s: values",
                   nib_recipe_name(recipe), name);
        nib_quantized_free(&q);
    }
}
static void operands_are_those_quantized_by_hand(void) { for_every_recipe(operands_are); }

static void the_weights_of_nvfp4_have_one_set_of_codes(void) {
    const struct nib_recipe *recipe;
    NIB_OK_OR_FAIL(nib_recipe_open("nvfp4", &recipe, &error), error);
    if (run(recipe, NIB_PRODUCT_UNIT, 2, &one) == NIB_OK) {
        CU_ASSERT(one.slot[NIB_SLOT_DGRAD_W].has_codes);
        CU_ASSERT(memcmp(one.slot[NIB_SLOT_FPROP_W].codes, one.slot[NIB_SLOT_DGRAD_W].codes, OUT * IN) == 0);
        CU_ASSERT(memcmp(one.slot[NIB_SLOT_FPROP_W].used, one.slot[NIB_SLOT_DGRAD_W].used, sizeof w) == 0);
        for (int pass = 0; pass < NIB_PASSES; pass++) {
            CU_ASSERT_STRING_EQUAL(one.unit[pass], "blackwell-tcgen05-nvfp4");
            CU_ASSERT_EQUAL(one.inexact[pass], 0);
        }
    }
    nib_recipe_close(recipe);
}

static void bits_are(const struct nib_recipe *recipe) {
    static const int threads[] = {2, 7};
    if (run(recipe, NIB_PRODUCT_UNIT, 1, &one) != NIB_OK) return;
    for (int i = 0; i < 2; i++) {
        if (run(recipe, NIB_PRODUCT_UNIT, threads[i], &other) != NIB_OK) return;
        for (int s = 0; s < NIB_SLOTS; s++) {
            size_t count = one.slot[s].count;
            bool same = memcmp(one.slot[s].codes, other.slot[s].codes, count) == 0 &&
                        memcmp(one.slot[s].used, other.slot[s].used, count * sizeof(float)) == 0;
            /* the fits go through BLAS */
            NIB_CHECKF(same, "%s %s: %d threads", nib_recipe_name(recipe), nib_slot_name(s), threads[i]);
        }
        bool same = memcmp(one.y, other.y, sizeof one.y) == 0 && memcmp(one.dx, other.dx, sizeof one.dx) == 0 &&
                    memcmp(one.dw, other.dw, sizeof one.dw) == 0;
        NIB_CHECKF(same, "%s: outputs with %d threads", nib_recipe_name(recipe), threads[i]);
    }
}
static void bits_do_not_depend_on_threads(void) { for_every_recipe(bits_are); }

/* A recipe's products from its own operands, through a unit called by hand. */
static void product_by_hand(const struct nib_recipe *recipe, enum nib_pass pass, const char *unit_name, size_t m,
                            size_t n, size_t k, const float *result) {
    const struct nib_unit *unit;
    struct nib_gemm_buffer buffer[2] = {{.rows = 0}, {.rows = 0}};
    NIB_OK_OR_FAIL(nib_unit_open(unit_name, &unit, &error), error);
    for (int i = 0; i < 2; i++) {
        int s = 2 * pass + i;
        bool across = s > NIB_SLOT_DGRAD_DY;
        size_t lines = i == 0 ? m : n;
        if (unit->scale_block != 0) {
            struct nib_quantized q;
            struct nib_quantize_options options = {.axis = across ? NIB_ALONG_ROWS : NIB_ALONG_COLS, .seed = drawn(s)};
            const struct nib_quantizer *quantizer = one.slot[s].quantizer;
            struct nib_view view = {one.slot[s].presented, NIB_F32, across ? k : lines, across ? lines : k,
                                    across ? lines : k};
            NIB_OK_OR_FAIL(nib_quantized_alloc(quantizer, view.rows, view.cols, options.axis, 15, &q, &error), error);
            NIB_OK_OR_FAIL(nib_quantize(quantizer, view, &options, &q, &error), error);
            NIB_OK_OR_FAIL(nib_gemm_from_quantized(unit, quantizer, &q, &buffer[i], &error), error);
            nib_quantized_free(&q);
        } else {
            static float straight[MOST];
            for (size_t line = 0; line < lines; line++)
                for (size_t j = 0; j < k; j++)
                    straight[line * k + j] = one.slot[s].used[across ? j * lines + line : line * k + j];
            struct nib_view view = {straight, NIB_F32, lines, k, k};
            NIB_OK_OR_FAIL(nib_gemm_from_values(unit, NIB_OPERAND_BF16, view, &buffer[i], &error), error);
        }
    }
    static float d[MOST];
    struct nib_gemm gemm = {.unit = unit,
                            .m = m,
                            .n = n,
                            .k = k,
                            .a = buffer[0].operand,
                            .b = buffer[1].operand,
                            .alpha = buffer[0].tensor_scale_decode * buffer[1].tensor_scale_decode};
    NIB_OK_OR_FAIL(nib_gemm_run(&gemm, NULL, d, n, &error), error);
    NIB_CHECKF(memcmp(d, result, m * n * sizeof *d) == 0, "%s %s through %s", nib_recipe_name(recipe),
               nib_pass_name(pass), unit_name);
    NIB_CHECKF(strcmp(one.unit[pass], unit_name) == 0, "%s %s went through %s", nib_recipe_name(recipe),
               nib_pass_name(pass), one.unit[pass]);
    CU_ASSERT_EQUAL(one.inexact[pass], buffer[0].inexact + buffer[1].inexact);
    for (int i = 0; i < 2; i++) nib_gemm_buffer_clear(&buffer[i]);
    nib_unit_close(unit);
}

static void unit_products_are_those_of_nib_gemm(void) {
    static const struct {
        const char *recipe, *unit[NIB_PASSES];
    } cases[] = {
        {"bf16", {"hopper-wgmma-16bit-f32", "hopper-wgmma-16bit-f32", "hopper-wgmma-16bit-f32"}},
        {"ufp4", {"hopper-wgmma-16bit-f32", "hopper-wgmma-16bit-f32", "hopper-wgmma-16bit-f32"}},
        {"e2m1-baseline", {"hopper-wgmma-16bit-f32", "hopper-wgmma-16bit-f32", "hopper-wgmma-16bit-f32"}},
        {"fp4-all-the-way", {"blackwell-tcgen05-nvfp4", "blackwell-tcgen05-nvfp4", "blackwell-tcgen05-nvfp4"}},
        {"mxfp4", {"blackwell-tcgen05-mxfp4", "blackwell-tcgen05-mxfp4", "blackwell-tcgen05-mxfp4"}},
        {"mxfp4-rht", {"hopper-wgmma-16bit-f32", "hopper-wgmma-16bit-f32", "hopper-wgmma-16bit-f32"}},
        {"tetrajet2", {"hopper-wgmma-16bit-f32", "hopper-wgmma-16bit-f32", "hopper-wgmma-16bit-f32"}},
        {"fp4-all-the-way-encode", {"hopper-wgmma-16bit-f32", "hopper-wgmma-16bit-f32", "hopper-wgmma-16bit-f32"}},
        {"if4-training", {"hopper-wgmma-16bit-f32", "hopper-wgmma-16bit-f32", "hopper-wgmma-16bit-f32"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct nib_recipe *recipe;
        NIB_OK_OR_FAIL(nib_recipe_open(cases[i].recipe, &recipe, &error), error);
        if (run(recipe, NIB_PRODUCT_UNIT, 2, &one) == NIB_OK) {
            product_by_hand(recipe, NIB_PASS_FPROP, cases[i].unit[0], TOKENS, OUT, IN, one.y);
            product_by_hand(recipe, NIB_PASS_DGRAD, cases[i].unit[1], TOKENS, IN, OUT, one.dx);
            product_by_hand(recipe, NIB_PASS_WGRAD, cases[i].unit[2], OUT, IN, TOKENS, one.dw);
        }
        nib_recipe_close(recipe);
    }
}

static void exact_products_are_sums_in_binary64(void) {
    const struct nib_recipe *recipe;
    NIB_OK_OR_FAIL(nib_recipe_open("ufp4", &recipe, &error), error);
    if (run(recipe, NIB_PRODUCT_EXACT, 2, &one) == NIB_OK)
        for (size_t i = 0; i < 200; i++) {
            size_t r = i * 37 % OUT, c = i * 91 % IN;
            double sum = 0;
            for (size_t t = 0; t < TOKENS; t++)
                sum += (double)one.slot[NIB_SLOT_WGRAD_DY].used[t * OUT + r] * (double)one.slot[NIB_SLOT_WGRAD_X].used[t * IN + c];
            CU_ASSERT(fabs((double)one.dw[r * IN + c] - sum) <= 0x1p-23 * fabs(sum) + 1e-18);
        }
    nib_recipe_close(recipe);
}

static void dimensions_that_do_not_fit_are_named_before_anything(void) {
    const struct nib_recipe *recipe;
    float y[4] = {1, 2, 3, 4};
    struct nib_linear_saved *saved = NULL;
    NIB_OK_OR_FAIL(nib_recipe_open("nvfp4", &recipe, &error), error);
    struct nib_linear_options options = {.recipe = recipe, .layer = 3, .module = NIB_MODULE_UP};
    CU_ASSERT_EQUAL(nib_linear_forward(&options, 2, 32, 2, x, w, y, &saved, &error), NIB_EINVAL);
    CU_ASSERT_STRING_EQUAL(error.text, "layers.3.mlp.up_proj: recipe nvfp4 rotates the 2 tokens of wgrad by rht16 in "
                                       "groups of 16; pad them to 16");
    CU_ASSERT(y[0] == 1 && y[3] == 4);
    CU_ASSERT_PTR_NULL(saved);
    CU_ASSERT_EQUAL(nib_linear_forward(&options, 2, 32, 2, x, w, y, NULL, &error), NIB_OK); /* no backward follows */
    CU_ASSERT_EQUAL(nib_linear_forward(&options, 0, 32, 2, x, w, y, NULL, &error), NIB_EINVAL);
    nib_recipe_close(recipe);
}

static void layers_in_high_precision_are_products_in_bf16(void) {
    const struct nib_recipe *recipe, *bf16;
    static float y[2][TOKENS * OUT];
    NIB_OK_OR_FAIL(nib_recipe_open("four-over-six", &recipe, &error), error);
    NIB_OK_OR_FAIL(nib_recipe_open("bf16", &bf16, &error), error);
    struct nib_linear_options options = {.recipe = bf16, .product = NIB_PRODUCT_EXACT};
    NIB_OK_OR_FAIL(nib_linear_forward(&options, TOKENS, IN, OUT, x, w, y[0], NULL, &error), error);
    options.recipe = recipe;
    options.layers = 10;
    for (unsigned layer = 5; layer < 7; layer++) {
        options.layer = layer;
        NIB_OK_OR_FAIL(nib_linear_forward(&options, TOKENS, IN, OUT, x, w, y[1], NULL, &error), error);
        CU_ASSERT_EQUAL(memcmp(y[0], y[1], sizeof *y) == 0, layer >= 6);
    }
    options.recipe = NULL; /* nothing is rounded: x and w hold bf16 numbers here */
    NIB_OK_OR_FAIL(nib_linear_forward(&options, TOKENS, IN, OUT, x, w, y[1], NULL, &error), error);
    CU_ASSERT(memcmp(y[0], y[1], sizeof *y) == 0);
    nib_recipe_close(recipe);
    nib_recipe_close(bf16);
}

/* dX by hand from the operands seen: product, mask, the way back from fprop's basis. */
static void gradients_of_quartet_are_masked_in_the_rotated_basis(void) {
    const struct nib_recipe *recipe;
    NIB_OK_OR_FAIL(nib_recipe_open("quartet", &recipe, &error), error);
    if (run(recipe, NIB_PRODUCT_EXACT, 2, &one) != NIB_OK) return;
    static double dx[TOKENS * IN];
    size_t masked = 0;
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t block = 0; block < IN; block += 32) {
            const float *from = &one.slot[NIB_SLOT_FPROP_X].presented[t * IN + block];
            double part[32], sum = 0, square = 0;
            for (int i = 0; i < 32; i++) sum += (double)from[i] / 32, square += (double)from[i] * (double)from[i] / 32;
            double scale = exp2(floor(log2(sqrt(square - sum * sum) * (2.92247856 / 6) + 1e-8)));
            for (size_t i = 0; i < 32; i++) {
                bool kept = fabs((double)from[i]) < 6 * scale;
                part[i] = 0;
                masked += !kept;
                for (size_t o = 0; o < OUT && kept; o++)
                    part[i] += (double)one.slot[NIB_SLOT_DGRAD_DY].used[t * OUT + o] *
                               (double)one.slot[NIB_SLOT_DGRAD_W].used[o * IN + block + i];
            }
            for (size_t i = 0; i < 32; i++)
                for (size_t j = 0; j < 32; j++) {
                    double entry = __builtin_popcountll(i & j) % 2 ? -1 : 1;
                    dx[t * IN + block + i] += part[j] * entry / sqrt(32);
                }
        }
    double off = 0, norm = 0;
    for (size_t i = 0; i < TOKENS * IN; i++) {
        off += pow((double)one.dx[i] - dx[i], 2);
        norm += dx[i] * dx[i];
    }
    NIB_CHECKF(off < 1e-12 * norm, "off by %g", sqrt(off / norm));
    double share = (double)masked / (TOKENS * IN);
    NIB_CHECKF(share > 0.05 && share < 0.09, "%g of the elements are masked", share);
    nib_recipe_close(recipe);
}

/* Factors leave no trace but rounding; a factor of 2 leaves none. */
static void a_factor_is_undone(void) {
    static const char *const text[2] = {
        "kind: recipe\ntitle: t\nsource: s\nfprop:\n  x: {quantizer: ocp-mxfp4}\n  w: {quantizer: ocp-mxfp4}\n",
        "kind: recipe\ntitle: t\nsource: s\nfprop:\n  output_factor: 4\n  x: {quantizer: ocp-mxfp4, factor: 2}\n"
        "  w: {quantizer: ocp-mxfp4, factor: 8}\n"};
    static float y[2][TOKENS * OUT];
    for (int product = NIB_PRODUCT_BLAS; product <= NIB_PRODUCT_UNIT; product++) {
        for (int i = 0; i < 2; i++) {
            const struct nib_recipe *recipe;
            NIB_OK_OR_FAIL(nib_recipe_parse(text[i], strlen(text[i]), "t", &recipe, &error), error);
            struct nib_linear_options options = {.recipe = recipe, .product = (enum nib_product)product, .threads = 2};
            NIB_OK_OR_FAIL(nib_linear_forward(&options, TOKENS, IN, OUT, x, w, y[i], NULL, &error), error);
            nib_recipe_close(recipe);
        }
        bool same = true;
        for (size_t i = 0; i < TOKENS * OUT; i++) same = same && y[1][i] == 4 * y[0][i];
        NIB_CHECKF(same, "product %d", product);
    }
}

/* dX = (dY W^) turned back by the very signs that fprop drew, W^ being the forward values in the rotated basis. */
static void gradients_leave_the_basis_that_fprop_drew(void) {
    static const char text[] = "kind: recipe\ntitle: t\nsource: s\nfprop:\n  rotation: hadamard16\n  signs: drawn\n"
                               "  w: {quantizer: e2m1-fp32}\ndgrad:\n  w: {source: same}\n";
    const struct nib_recipe *recipe;
    NIB_OK_OR_FAIL(nib_recipe_parse(text, strlen(text), "t", &recipe, &error), error);
    double sign[16], worst = 0;
    unsigned minus = 0;
    for (unsigned i = 0; i < 16; i++) {
        struct nib_philox_block b = nib_philox(drawn(NIB_SLOTS + NIB_PASS_FPROP), 0, 0);
        sign[i] = b.word[0] >> i & 1 ? -1 : 1;
        minus += sign[i] < 0;
    }
    CU_ASSERT(minus > 0 && minus < 16);
    if (run(recipe, NIB_PRODUCT_EXACT, 2, &one) == NIB_OK)
        for (size_t t = 0; t < TOKENS; t += 5)
            for (size_t first = 0; first < IN; first += 16) {
                double part[16] = {0};
                for (size_t i = 0; i < 16; i++)
                    for (size_t o = 0; o < OUT; o++)
                        part[i] += (double)dy[t * OUT + o] * (double)one.slot[NIB_SLOT_FPROP_W].used[o * IN + first + i];
                for (size_t j = 0; j < 16; j++) {
                    double sum = 0;
                    for (size_t i = 0; i < 16; i++) sum += part[i] * (__builtin_popcountll(i & j) % 2 ? -1 : 1);
                    worst = fmax(worst, fabs(sum * sign[j] / 4 - (double)one.dx[t * IN + first + j]));
                }
            }
    NIB_CHECKF(worst < 1e-9, "off by %g", worst); /* dX is of the size of 4e-5 */
    nib_recipe_close(recipe);
}

static void a_unit_that_takes_no_operand_is_refused(void) {
    const struct nib_recipe *recipe;
    static float y[TOKENS * OUT];
    const struct nib_unit *unit;
    NIB_OK_OR_FAIL(nib_recipe_open("ufp4", &recipe, &error), error);
    NIB_OK_OR_FAIL(nib_unit_open("blackwell-tcgen05-nvfp4", &unit, &error), error);
    struct nib_linear_options options = {.recipe = recipe, .product = NIB_PRODUCT_UNIT, .unit = unit};
    CU_ASSERT_EQUAL(nib_linear_forward(&options, TOKENS, IN, OUT, x, w, y, NULL, &error), NIB_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "blackwell-tcgen05-nvfp4"));
    nib_unit_close(unit);
    nib_recipe_close(recipe);
}

static void prepare(void) {
    fill(x, TOKENS * IN, 1, 1);
    fill(w, OUT * IN, 2, 0.02);
    fill(dy, TOKENS * OUT, 3, 1e-4);
}
static void operands(void) {
    prepare();
    operands_are_those_quantized_by_hand();
}

NIB_TEST_MAIN("linear layers", {"operands are those quantized by hand", operands},
              {"the weights of nvfp4 have one set of codes", the_weights_of_nvfp4_have_one_set_of_codes},
              {"bits do not depend on threads", bits_do_not_depend_on_threads},
              {"unit products are those of nib_gemm", unit_products_are_those_of_nib_gemm},
              {"exact products are sums in binary64", exact_products_are_sums_in_binary64},
              {"dimensions that do not fit are named before anything", dimensions_that_do_not_fit_are_named_before_anything},
              {"layers in high precision are products in bf16", layers_in_high_precision_are_products_in_bf16},
              {"gradients of Quartet are masked in the rotated basis", gradients_of_quartet_are_masked_in_the_rotated_basis},
              {"gradients leave the basis that fprop drew", gradients_leave_the_basis_that_fprop_drew},
              {"a factor is undone", a_factor_is_undone},
              {"a unit that takes no operand is refused", a_unit_that_takes_no_operand_is_refused})
