/* The decoder with recipes and observers: which linear layers go through nib_linear_forward(), and with what. */
#include "nib_random_model.h"

#include "stack/rounding.h"
#include <math.h>

static const struct nib_stack_config config = {.vocabulary = 40,
                                               .hidden = 64,
                                               .intermediate = 96,
                                               .layers = 3,
                                               .heads = 4,
                                               .kv_heads = 2,
                                               .head_size = 32,
                                               .positions = 64,
                                               .norm_epsilon = 1e-5,
                                               .rope_theta = 10000};
enum { SEQUENCES = 2, LENGTH = 32, TOKENS = SEQUENCES * LENGTH, LAYERS = 3 };

static struct nib_error error;
static struct nib_random_model model;
static uint32_t *ids;

/* Small enough weights that attention does not magnify the errors of 4 bits. */
static struct nib_random_model some_model(void) {
    struct nib_random_model out = nib_random_model(&config, 21);
    for (size_t i = 1; i < out.count; i++) {
        size_t rows, cols;
        nib_stack_weight_shape(out.stack, i, &rows, &cols);
        for (size_t j = 0; j < rows * cols && rows > 1; j++) out.weights[i][j] *= 0.3;
    }
    return out;
}

static void prepare(void) {
    uint64_t state = 8;
    model = some_model();
    ids = nib_random_tokens(&state, config.vocabulary, SEQUENCES * (LENGTH + 1));
}

static bool execute(const struct nib_stack *stack, const struct nib_stack_run *run, struct nib_stack_result *result) {
    enum nib_status status = nib_stack_execute(stack, run, ids, SEQUENCES, LENGTH, result, &error);
    NIB_CHECKF(status == NIB_OK, "%s", error.text);
    return status == NIB_OK;
}

static double distance(const double *a, const double *b, size_t count) {
    double off = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        off += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return sqrt(off / norm);
}

/* The largest relative distance of any gradient. */
static double gradient_distance(const struct nib_stack_result *a, const struct nib_stack_result *b) {
    double most = 0;
    for (size_t i = 0; i < a->weights; i++) {
        size_t rows, cols;
        nib_stack_weight_shape(model.stack, i, &rows, &cols);
        most = fmax(most, distance(a->gradient[i], b->gradient[i], rows * cols));
    }
    return most;
}

struct record {
    unsigned products[LAYERS][NIB_MODULES][NIB_PASSES], operands[LAYERS][NIB_MODULES][NIB_SLOTS];
    unsigned wrong;
};

/* Inputs and outputs of the modules. */
static void channels(enum nib_module module, size_t *in, size_t *out) {
    size_t query = (size_t)config.heads * config.head_size, key = (size_t)config.kv_heads * config.head_size;
    const size_t widths[NIB_MODULES][2] = {[NIB_MODULE_Q] = {config.hidden, query},
                                           [NIB_MODULE_K] = {config.hidden, key},
                                           [NIB_MODULE_V] = {config.hidden, key},
                                           [NIB_MODULE_O] = {query, config.hidden},
                                           [NIB_MODULE_GATE] = {config.hidden, config.intermediate},
                                           [NIB_MODULE_UP] = {config.hidden, config.intermediate},
                                           [NIB_MODULE_DOWN] = {config.intermediate, config.hidden}};
    *in = widths[module][0];
    *out = widths[module][1];
}

static enum nib_status on_product(void *self, const struct nib_product_event *event, struct nib_error *ignored) {
    struct record *record = self;
    size_t in, out;
    (void)ignored;
    channels(event->module, &in, &out);
    size_t rows = event->pass == NIB_PASS_WGRAD ? out : TOKENS, cols = event->pass == NIB_PASS_FPROP ? out : in;
    if (event->layer >= LAYERS || event->rows != rows || event->cols != cols) record->wrong++;
    if (event->layer < LAYERS) record->products[event->layer][event->module][event->pass]++;
    return NIB_OK;
}

/* The operand is what the module was given: the weight, to the bit. */
static enum nib_status on_operand(void *self, const struct nib_operand_event *event, struct nib_error *ignored) {
    struct record *record = self;
    (void)ignored;
    if (event->layer >= LAYERS) {
        record->wrong++;
        return NIB_OK;
    }
    record->operands[event->layer][event->module][event->slot]++;
    static const enum nib_stack_part parts[NIB_MODULES] = {NIB_PART_Q,    NIB_PART_K,  NIB_PART_V,   NIB_PART_O,
                                                           NIB_PART_GATE, NIB_PART_UP, NIB_PART_DOWN};
    const double *weight = model.weights[nib_stack_weight_of(event->layer, parts[event->module])];
    if (event->slot == NIB_SLOT_FPROP_W)
        for (size_t i = 0; i < event->rows * event->cols; i++) record->wrong += event->original[i] != (float)weight[i];
    return NIB_OK;
}

/* Without a recipe an observer sees the plain products, which differ only in the order of their sums. */
static void an_observer_sees_every_linear_layer(void) {
    static struct record record;
    const struct nib_linear_observer observer = {.self = &record, .product = on_product, .operand = on_operand};
    struct nib_stack_run run = {.precision = NIB_STACK_F32, .backward = true, .threads = 2};
    struct nib_stack_result plain, observed;
    if (!execute(model.stack, &run, &plain)) return;
    run.linear.observer = &observer;
    if (!execute(model.stack, &run, &observed)) return;
    CU_ASSERT_EQUAL(record.wrong, 0);
    for (int layer = 0; layer < LAYERS; layer++)
        for (int module = 0; module < NIB_MODULES; module++) {
            for (int pass = 0; pass < NIB_PASSES; pass++)
                NIB_CHECKF(record.products[layer][module][pass] == 1, "layer %d, %s, %s: %u products", layer,
                           nib_module_name(module), nib_pass_name(pass), record.products[layer][module][pass]);
            for (int slot = 0; slot < NIB_SLOTS; slot++)
                NIB_CHECKF(record.operands[layer][module][slot] == 1, "layer %d, %s, %s: %u operands", layer,
                           nib_module_name(module), nib_slot_name(slot), record.operands[layer][module][slot]);
        }
    NIB_CHECKF(fabs(observed.loss / plain.loss - 1) < 1e-6, "loss %.9g, plainly %.9g", observed.loss, plain.loss);
    NIB_CHECKF(gradient_distance(&observed, &plain) < 1e-5, "gradients differ by %g",
               gradient_distance(&observed, &plain));
    nib_stack_result_clear(&plain);
    nib_stack_result_clear(&observed);
}

static void binary64_ignores_recipes(void) {
    static struct record record;
    const struct nib_linear_observer observer = {.self = &record, .product = on_product};
    struct nib_stack_run run = {.precision = NIB_STACK_F64, .threads = 2};
    struct nib_stack_result plain, ignoring;
    if (!execute(model.stack, &run, &plain)) return;
    NIB_OK_OR_FAIL(nib_recipe_open("nvfp4", &run.linear.recipe, &error), error);
    run.linear.observer = &observer;
    if (execute(model.stack, &run, &ignoring)) {
        CU_ASSERT_EQUAL(plain.loss, ignoring.loss);
        CU_ASSERT_EQUAL(record.products[0][0][0], 0);
        nib_stack_result_clear(&ignoring);
    }
    nib_recipe_close(run.linear.recipe);
    nib_stack_result_clear(&plain);
}

/* What 4 bits in both operands cost a product of uniform weights and bell-shaped activations. */
static enum nib_status near_exact(void *self, const struct nib_product_event *event, struct nib_error *ignored) {
    unsigned *seen = self;
    double off = 0, norm = 0;
    (void)ignored;
    if (event->pass != NIB_PASS_FPROP) return NIB_OK;
    for (size_t i = 0; i < event->rows * event->cols; i++) {
        double difference = (double)event->output[i] - event->exact[i];
        off += difference * difference;
        norm += event->exact[i] * event->exact[i];
    }
    NIB_CHECKF(off > 0.0016 * norm && off < 0.04 * norm, "layer %u, %s: off by %g", event->layer,
               nib_module_name(event->module), sqrt(off / norm));
    *seen += 1;
    return NIB_OK;
}

static void products_of_four_bits_are_near_the_exact_ones(void) {
    unsigned seen = 0;
    const struct nib_linear_observer observer = {.self = &seen, .product = near_exact, .wants_exact = true};
    struct nib_stack_run run = {.precision = NIB_STACK_BF16, .linear = {.observer = &observer}, .threads = 2};
    struct nib_stack_result result;
    NIB_OK_OR_FAIL(nib_recipe_open("ufp4", &run.linear.recipe, &error), error);
    if (execute(model.stack, &run, &result)) nib_stack_result_clear(&result);
    nib_recipe_close(run.linear.recipe);
    CU_ASSERT_EQUAL(seen, LAYERS * NIB_MODULES);
}

/* The bf16 recipe is the plain bf16 path; a recipe of 4 bits is not, and stays near it. */
static void recipes_enter_the_products(void) {
    static const struct {
        const char *name;
        double least, most; /* distance of the residual stream from that of the plain path */
    } recipes[] = {{"bf16", 0, 1e-3}, {"nvfp4", 0.02, 0.7}};
    struct nib_stack_run run = {.precision = NIB_STACK_BF16, .backward = true, .threads = 2};
    struct nib_stack_result plain, other;
    if (!execute(model.stack, &run, &plain)) return;
    for (int i = 0; i < 2; i++) {
        NIB_OK_OR_FAIL(nib_recipe_open(recipes[i].name, &run.linear.recipe, &error), error);
        if (execute(model.stack, &run, &other)) {
            double off = distance(other.hidden, plain.hidden, (LAYERS + 1) * TOKENS * config.hidden);
            NIB_CHECKF(off >= recipes[i].least && off < recipes[i].most, "%s: streams differ by %g", recipes[i].name,
                       off);
            NIB_CHECKF(i > 0 || gradient_distance(&other, &plain) < 0.02, "%s: gradients differ by %g", recipes[i].name,
                       gradient_distance(&other, &plain));
            nib_stack_result_clear(&other);
        }
        nib_recipe_close(run.linear.recipe);
    }
    nib_stack_result_clear(&plain);
}

/* Layers take turns with one set of buffers when nothing follows. */
static void the_forward_pass_alone_gives_the_same(void) {
    static const char *const recipes[] = {NULL, "nvfp4"};
    for (int i = 0; i < 2; i++) {
        struct nib_stack_run run = {.precision = NIB_STACK_BF16, .threads = 2};
        struct nib_stack_result alone, both;
        if (recipes[i] != NULL) NIB_OK_OR_FAIL(nib_recipe_open(recipes[i], &run.linear.recipe, &error), error);
        bool done = execute(model.stack, &run, &alone);
        run.backward = true;
        if (done && execute(model.stack, &run, &both)) {
            CU_ASSERT(alone.gradient == NULL && alone.hidden_gradient == NULL && both.gradient != NULL);
            CU_ASSERT_EQUAL(alone.loss, both.loss);
            CU_ASSERT(memcmp(alone.hidden, both.hidden, (LAYERS + 1) * TOKENS * config.hidden * sizeof(double)) == 0);
            nib_stack_result_clear(&both);
        }
        if (done) nib_stack_result_clear(&alone);
        nib_recipe_close(run.linear.recipe);
    }
}

/* Weights of linear layers that are no bf16 numbers act as those that they round to. */
static void weights_enter_as_bf16(void) {
    static const char *const recipes[] = {NULL, "bf16", "nvfp4"};
    for (int i = 0; i < 3; i++) {
        struct nib_random_model rounded = some_model();
        struct nib_stack_run run = {.precision = NIB_STACK_BF16, .backward = true, .threads = 2};
        struct nib_stack_result a, b;
        if (recipes[i] != NULL) NIB_OK_OR_FAIL(nib_recipe_open(recipes[i], &run.linear.recipe, &error), error);
        for (size_t at = 1; at < rounded.count; at++) {
            size_t rows, cols;
            nib_stack_weight_shape(model.stack, at, &rows, &cols);
            if (rows == 1) continue;
            nib_width_round_run(rounded.weights[at], rounded.weights[at], rows * cols, NIB_WIDTH_BF16);
        }
        if (execute(model.stack, &run, &a) && execute(rounded.stack, &run, &b)) {
            CU_ASSERT_EQUAL(a.loss, b.loss);
            CU_ASSERT_EQUAL(gradient_distance(&a, &b), 0);
            nib_stack_result_clear(&a);
            nib_stack_result_clear(&b);
        }
        nib_recipe_close(run.linear.recipe);
        nib_random_model_free(&rounded);
    }
}

static enum nib_status refuse(void *self, const struct nib_product_event *event, struct nib_error *out) {
    (void)self;
    if (event->pass != NIB_PASS_WGRAD || event->layer != 1) return NIB_OK;
    if (out != NULL) snprintf(out->text, sizeof out->text, "enough");
    return NIB_EINTERRUPTED;
}

static void an_observer_can_stop_the_run(void) {
    const struct nib_linear_observer observer = {.product = refuse};
    struct nib_stack_run run = {.precision = NIB_STACK_F32, .backward = true, .linear = {.observer = &observer}};
    struct nib_stack_result result = {.loss = 5};
    CU_ASSERT_EQUAL(nib_stack_execute(model.stack, &run, ids, SEQUENCES, LENGTH, &result, &error), NIB_EINTERRUPTED);
    CU_ASSERT_EQUAL(result.loss, 5);
}

static void finish(void) {
    nib_random_model_free(&model);
    free(ids);
}

NIB_TEST_MAIN("stack: observed", {"(preparing)", prepare},
              {"an observer sees every linear layer", an_observer_sees_every_linear_layer},
              {"binary64 ignores recipes", binary64_ignores_recipes},
              {"recipes enter the products", recipes_enter_the_products},
              {"products of four bits are near the exact ones", products_of_four_bits_are_near_the_exact_ones},
              {"the forward pass alone gives the same", the_forward_pass_alone_gives_the_same},
              {"weights enter as bf16", weights_enter_as_bf16},
              {"an observer can stop the run", an_observer_can_stop_the_run}, {"(closing)", finish})
