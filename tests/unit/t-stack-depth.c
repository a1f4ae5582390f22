/* Measures along a stack against the same quantities computed by hand from what the run leaves behind and from what its
 * linear layers tell. */
#include "nib_test.h"
#include "stack/depth.h"
#include "stack/likeness.h"
#include "stack/stack.h"
#include <math.h>

enum { HIDDEN = 32, INTERMEDIATE = 48, LAYERS = 2, VOCABULARY = 32, SEQUENCES = 2, LENGTH = 16, TOKENS = SEQUENCES * LENGTH };

static const struct nib_stack_config config = {.vocabulary = VOCABULARY, .hidden = HIDDEN, .intermediate = INTERMEDIATE,
                                               .layers = LAYERS, .heads = 2, .kv_heads = 2, .head_size = 16, .positions = 64,
                                               .norm_epsilon = 1e-5, .rope_theta = 10000};
static const struct nib_stack *stack;
static double *values[32];
static uint32_t tokens[SEQUENCES * (LENGTH + 1)];
static struct nib_stack_result reference;
static struct nib_error error;

static double noise(void) {
    static uint64_t state = 12345;
    double sum = 0;
    for (int i = 0; i < 12; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        sum += (double)(state >> 40) * 0x1p-24;
    }
    return sum - 6;
}

static void make_model(void) {
    size_t rows[32], cols[32], count = 0;
#define WEIGHT(r, c) (rows[count] = (r), cols[count] = (c), count++)
    WEIGHT(VOCABULARY, HIDDEN);
    for (int layer = 0; layer < LAYERS; layer++) {
        WEIGHT(1, HIDDEN);
        for (int i = 0; i < 4; i++) WEIGHT(HIDDEN, HIDDEN);
        WEIGHT(1, HIDDEN);
        WEIGHT(INTERMEDIATE, HIDDEN);
        WEIGHT(INTERMEDIATE, HIDDEN);
        WEIGHT(HIDDEN, INTERMEDIATE);
    }
    WEIGHT(1, HIDDEN);
    WEIGHT(VOCABULARY, HIDDEN);
    for (size_t w = 0; w < count; w++) {
        values[w] = malloc(rows[w] * cols[w] * sizeof(double));
        for (size_t i = 0; i < rows[w] * cols[w]; i++)
            values[w][i] = (float)(rows[w] == 1 ? 1 : noise() / sqrt((double)cols[w]));
    }
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) tokens[i] = (uint32_t)(i * i + 3 * i) % VOCABULARY;
    NIB_OK_OR_FAIL(nib_stack_of_values(&config, (const double *const *)values, &stack, &error), error);
    struct nib_stack_run run = {.precision = NIB_STACK_F64, .backward = true, .threads = 1};
    NIB_OK_OR_FAIL(nib_stack_execute(stack, &run, tokens, SEQUENCES, LENGTH, &reference, &error), error);
}

/* What the layers tell of one GEMM, kept for a second opinion. */
struct witness {
    unsigned layer;
    enum nib_module module;
    enum nib_pass pass;
    double alpha[2], sqnr[2], eta, output_sqnr;
};
static enum nib_status see_operand(void *self, const struct nib_operand_event *event, struct nib_error *ignored) {
    (void)ignored;
    struct witness *w = self;
    if (event->layer != w->layer || event->module != w->module || nib_slot_pass(event->slot) != w->pass) return NIB_OK;
    long double xx = 0, xq = 0, ee = 0;
    for (size_t i = 0; i < event->rows * event->cols; i++) {
        long double x = event->presented[i], q = event->used[i];
        xx += x * x;
        xq += x * q;
        ee += (q - x) * (q - x);
    }
    w->alpha[event->slot % 2] = (double)(xq / xx);
    w->sqnr[event->slot % 2] = (double)(10 * log10l(xx / ee));
    return NIB_OK;
}
static enum nib_status see_product(void *self, const struct nib_product_event *event, struct nib_error *ignored) {
    (void)ignored;
    struct witness *w = self;
    if (event->layer != w->layer || event->module != w->module || event->pass != w->pass) return NIB_OK;
    long double xx = 0, xq = 0, ee = 0;
    for (size_t i = 0; i < event->rows * event->cols; i++) {
        long double x = event->exact[i], q = event->output[i];
        xx += x * x;
        xq += x * q;
        ee += (q - x) * (q - x);
    }
    w->eta = (double)(xq / xx);
    w->output_sqnr = (double)(10 * log10l(xx / ee));
    return NIB_OK;
}

static const struct nib_depth_record *find(const struct nib_depth_record *records, enum nib_depth_part part, int layer,
                                           const char *module, int pass, int slot) {
    size_t count = nib_depth_records(stack, true, true);
    for (size_t i = 0; i < count; i++) {
        const struct nib_depth_record *r = &records[i];
        if (r->part == part && r->layer == layer && r->pass == pass && r->slot == slot && strcmp(r->module, module) == 0)
            return r;
    }
    CU_FAIL_FATAL("no such record");
    return NULL;
}

static void near(double value, double expected, double tolerance, const char *what) {
    NIB_CHECKF(fabs(value - expected) <= tolerance, "%s: %.12g instead of %.12g", what, value, expected);
}

/* gain, norm ratio and cosine of n elements. */
static void compare(const struct nib_depth_record *r, size_t n, const double *x, const double *q, const char *what) {
    long double xx = 0, xq = 0, qq = 0;
    for (size_t i = 0; i < n; i++) xx += (long double)x[i] * x[i], xq += (long double)x[i] * q[i], qq += (long double)q[i] * q[i];
    double gain = r->part == NIB_DEPTH_WEIGHT ? r->value[NIB_DEPTH_alpha].value : r->value[NIB_DEPTH_gain].value;
    near(gain, (double)(xq / xx), 1e-12, what);
    near(r->value[NIB_DEPTH_norm_ratio].value, (double)sqrtl(qq / xx), 1e-12, what);
    near(r->value[NIB_DEPTH_cosine].value, (double)(xq / sqrtl(xx * qq)), 1e-12, what);
}

static void check_recipe(const char *name) {
    const struct nib_recipe *recipe = NULL;
    const struct nib_rotation *rotation = NULL;
    struct nib_depth_record *records = NULL;
    struct nib_stack_result result;
    NIB_OK_OR_FAIL(nib_recipe_open(name, &recipe, &error), error);
    NIB_OK_OR_FAIL(nib_rotation_open("rht16", &rotation, &error), error);
    struct nib_stack_run run = {.precision = NIB_STACK_F32, .backward = true, .threads = 1,
                                .linear = {.recipe = recipe, .product = NIB_PRODUCT_EXACT, .seed = 7}};
    struct nib_depth_request request = {.stack = stack, .run = &run, .tokens = tokens, .sequences = SEQUENCES, .length = LENGTH,
                                        .reference = &reference, .products = true, .rotation = rotation};
    NIB_OK_OR_FAIL(nib_depth_measure(&request, &records, &error), error);
    struct witness w = {.layer = 1, .module = NIB_MODULE_DOWN};
    for (int pass = 0; pass < NIB_PASSES; pass++) {
        struct nib_linear_observer observer = {&w, true, see_operand, see_product};
        w.pass = (enum nib_pass)pass;
        run.linear.observer = &observer;
        NIB_OK_OR_FAIL(nib_stack_execute(stack, &run, tokens, SEQUENCES, LENGTH, &result, &error), error);
        for (int side = 0; side < 2; side++) {
            const struct nib_depth_record *r = find(records, NIB_DEPTH_OPERAND, 1, "mlp.down_proj", pass, 2 * pass + side);
            near(r->value[NIB_DEPTH_alpha].value, w.alpha[side], 1e-12, "alpha");
            near(r->value[NIB_DEPTH_sqnr_db].value, w.sqnr[side], 1e-9, "SQNR of an operand");
            bool rotated = nib_recipe_rotation(recipe, (enum nib_slot)(2 * pass)) != NULL;
            near(r->value[rotated ? NIB_DEPTH_rotated_sqnr_db : NIB_DEPTH_raw_sqnr_db].value, w.sqnr[side], 1e-9,
                 "SQNR of the operand as the recipe has it, raw or rotated");
        }
        const struct nib_depth_record *p = find(records, NIB_DEPTH_PRODUCT, 1, "mlp.down_proj", pass, -1);
        near(p->value[NIB_DEPTH_eta_measured].value, w.eta, 1e-12, "eta");
        near(p->value[NIB_DEPTH_eta_predicted].value, w.alpha[0] * w.alpha[1], 1e-12, "expected eta");
        near(p->value[NIB_DEPTH_sqnr_db].value, w.output_sqnr, 1e-9, "SQNR of an output");
        bool rotated = nib_recipe_rotation(recipe, (enum nib_slot)(2 * pass)) != NULL;
        near(p->value[rotated ? NIB_DEPTH_rotated_sqnr_db : NIB_DEPTH_raw_sqnr_db].value, w.output_sqnr, 1e-3,
             "SQNR of the output as the recipe has it, raw or rotated");
        if (pass < NIB_PASSES - 1) nib_stack_result_clear(&result);
    }
    size_t stream = TOKENS * HIDDEN;
    for (int layer = 1; layer <= LAYERS; layer++)
        compare(find(records, NIB_DEPTH_STREAM, layer, "", NIB_PASS_FPROP, -1), stream, reference.hidden + layer * stream,
                result.hidden + layer * stream, "residual stream");
    for (int layer = 0; layer <= LAYERS; layer++)
        compare(find(records, NIB_DEPTH_STREAM, layer, "", NIB_PASS_DGRAD, -1), stream,
                reference.hidden_gradient + layer * stream, result.hidden_gradient + layer * stream, "its gradient");
    double predicted = 1;
    static const char *const way[] = {"self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"};
    for (int layer = 0; layer < LAYERS; layer++)
        for (int i = 0; i < 5; i++)
            predicted *= find(records, NIB_DEPTH_PRODUCT, layer, way[i], NIB_PASS_FPROP, -1)->value[NIB_DEPTH_eta_predicted].value;
    near(find(records, NIB_DEPTH_STREAM, LAYERS, "", NIB_PASS_FPROP, -1)->value[NIB_DEPTH_product_predicted].value, predicted,
         1e-12, "product of the expected gains");
    /* R = ||g|| / (sigma sqrt(d)), sigma^2 the mean square of gq - g. */
    const char *weight = nib_stack_weight_name(stack, 3);
    size_t rows, cols;
    nib_stack_weight_shape(stack, 3, &rows, &cols);
    long double gg = 0, sigma2 = 0, d = (long double)(rows * cols);
    for (size_t i = 0; i < rows * cols; i++) {
        gg += (long double)reference.gradient[3][i] * reference.gradient[3][i];
        sigma2 += powl(result.gradient[3][i] - (long double)reference.gradient[3][i], 2) / d;
    }
    const struct nib_depth_record *r = find(records, NIB_DEPTH_WEIGHT, 0, weight, -1, -1);
    compare(r, rows * cols, reference.gradient[3], result.gradient[3], weight);
    near(r->value[NIB_DEPTH_stall].value, (double)(sqrtl(gg) / (sqrtl(sigma2) * sqrtl(d))), 1e-9, "stall criterion");
    long double loss = 0, before = 0;
    for (size_t i = 0; i < TOKENS; i++) loss += result.token_loss[i] / TOKENS, before += reference.token_loss[i] / TOKENS;
    near(records->value[NIB_DEPTH_loss].value, (double)loss, 1e-12, "loss");
    near(records->value[NIB_DEPTH_loss].value, result.loss, 1e-6, "loss as the run rounds it to binary32");
    near(records->value[NIB_DEPTH_loss_change].value, (double)(loss - before), 1e-12, "loss change");
    nib_stack_result_clear(&result);
    free(records);
    nib_rotation_close(rotation);
    nib_recipe_close(recipe);
}

static void measures_are_what_they_say(void) {
    make_model();
    check_recipe("e2m1-baseline"); /* rotates wgrad only */
    check_recipe("ufp4");          /* rotates all */
}

/* Without a quantizer nothing is lost. */
static void high_precision_loses_nothing(void) {
    struct nib_depth_record *records = NULL;
    struct nib_stack_run run = {.precision = NIB_STACK_F32, .backward = true, .threads = 1};
    struct nib_depth_request request = {.stack = stack, .run = &run, .tokens = tokens, .sequences = SEQUENCES, .length = LENGTH,
                                        .reference = &reference, .products = true};
    NIB_OK_OR_FAIL(nib_depth_measure(&request, &records, &error), error);
    near(records->value[NIB_DEPTH_gain].value, 1, 1e-5, "gain");
    near(records->value[NIB_DEPTH_weight_alpha].value, 1, 1e-5, "alpha of the weights' gradients");
    near(records->value[NIB_DEPTH_weight_cosine].value, 1, 1e-9, "cosine of the weights' gradients");
    near(records->value[NIB_DEPTH_product_predicted].value, 1, 0, "product");
    CU_ASSERT(isnan(records->value[NIB_DEPTH_b_eff].value));
    free(records);
}

/* Leaving one of n equal-weight parts out gives the standard error of a mean exactly: s / sqrt(n). */
static void errors_are_those_of_a_mean(void) {
    static const double x[] = {1, 4, -2, 7, 3.5};
    struct nib_likeness part[5], shifted[5];
    double mean = 0, square = 0;
    for (int i = 0; i < 5; i++) {
        part[i] = (struct nib_likeness){.xx = 1, .xq = x[i]};
        shifted[i] = (struct nib_likeness){.xx = 1, .xq = x[i] - 2};
        mean += x[i] / 5;
    }
    for (int i = 0; i < 5; i++) square += (x[i] - mean) * (x[i] - mean);
    struct nib_estimate e = nib_likeness_estimate(part, 5, nib_likeness_gain);
    near(e.value, mean, 1e-14, "mean");
    near(e.error, sqrt(square / 4 / 5), 1e-14, "standard error");
    e = nib_likeness_difference(part, shifted, 5, nib_likeness_gain);
    near(e.value, 2, 1e-14, "difference");
    near(e.error, 0, 1e-14, "standard error of a paired difference");
    CU_ASSERT(isnan(nib_likeness_estimate(part, 1, nib_likeness_gain).error));
}

NIB_TEST_MAIN("depth", {"measures are what they say", measures_are_what_they_say},
              {"high precision loses nothing", high_precision_loses_nothing},
              {"errors are those of a mean", errors_are_those_of_a_mean})
