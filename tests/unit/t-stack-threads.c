/* One number of threads gives the bits of any other, in each precision: fixed tiles of products, one thread each, and
 * sums in a fixed order. The floating-point environment of the caller changes nothing either. */
#include "nib_random_model.h"

#include "stack/modules.h"
#include <fenv.h>
#include <math.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* Several tiles of every product, and short ones at the edges. */
static const struct nib_stack_config config = {.vocabulary = 300,
                                               .hidden = 160,
                                               .intermediate = 600,
                                               .layers = 2,
                                               .heads = 6,
                                               .kv_heads = 2,
                                               .head_size = 24,
                                               .positions = 200,
                                               .norm_epsilon = 1e-5,
                                               .rope_theta = 10000};
enum { SEQUENCES = 2, LENGTH = 150, TOKENS = SEQUENCES * LENGTH };

static struct nib_error error;
static struct nib_random_model model;
static uint32_t *ids;

static bool execute(enum nib_stack_precision precision, int threads, struct nib_stack_result *result) {
    struct nib_stack_run run = {.precision = precision, .backward = true, .threads = threads};
    enum nib_status status = nib_stack_execute(model.stack, &run, ids, SEQUENCES, LENGTH, result, &error);
    NIB_CHECKF(status == NIB_OK, "%s", error.text);
    return status == NIB_OK;
}

static void compare(const struct nib_stack_result *a, const struct nib_stack_result *b, const char *what) {
    size_t stream = (config.layers + (size_t)1) * TOKENS * config.hidden * sizeof(double);
    NIB_CHECKF(memcmp(&a->loss, &b->loss, sizeof a->loss) == 0, "%s: loss", what);
    NIB_CHECKF(memcmp(a->hidden, b->hidden, stream) == 0, "%s: residual stream", what);
    NIB_CHECKF(memcmp(a->hidden_gradient, b->hidden_gradient, stream) == 0, "%s: gradient of the residual stream",
               what);
    NIB_CHECKF(memcmp(a->logits, b->logits, (size_t)TOKENS * config.vocabulary * sizeof(double)) == 0, "%s: logits",
               what);
    NIB_CHECKF(memcmp(a->token_loss, b->token_loss, TOKENS * sizeof(double)) == 0, "%s: losses", what);
    for (size_t i = 0; i < a->weights; i++) {
        size_t rows, cols;
        nib_stack_weight_shape(model.stack, i, &rows, &cols);
        NIB_CHECKF(memcmp(a->gradient[i], b->gradient[i], rows * cols * sizeof(double)) == 0, "%s: gradient of %s",
                   what, nib_stack_weight_name(model.stack, i));
    }
}

static void hostile(bool on) {
    fesetround(on ? FE_UPWARD : FE_TONEAREST);
#if defined(__x86_64__)
    _mm_setcsr(on ? _mm_getcsr() | 0x8040 : _mm_getcsr() & ~0x8040u); /* FTZ, DAZ */
#endif
}

static void check(enum nib_stack_precision precision) {
    struct nib_stack_result one, other;
    if (!execute(precision, 1, &one)) return;
    static const int threads[] = {2, 7};
    for (int i = 0; i < 2; i++) {
        if (!execute(precision, threads[i], &other)) break;
        compare(&one, &other, i == 0 ? "2 threads" : "7 threads");
        nib_stack_result_clear(&other);
    }
    hostile(true);
    bool done = execute(precision, 2, &other);
    int rounding = fegetround();
    hostile(false);
    NIB_CHECKF(rounding == FE_UPWARD, "the rounding direction of the caller is gone");
    if (done) {
        compare(&one, &other, "hostile environment");
        nib_stack_result_clear(&other);
    }
    nib_stack_result_clear(&one);
}

static void prepare(void) {
    uint64_t state = 3;
    model = nib_random_model(&config, 11);
    ids = nib_random_tokens(&state, config.vocabulary, SEQUENCES * (LENGTH + 1));
}

static void binary64(void) {
    check(NIB_STACK_F64);
}
static void binary32(void) {
    check(NIB_STACK_F32);
}
static void bf16(void) {
    check(NIB_STACK_BF16);
}

/* Every array of a precision holds numbers of its type. */
static bool holds(const double *values, size_t count, unsigned bits) {
    for (size_t i = 0; i < count; i++) {
        float single = (float)values[i];
        uint32_t pattern;
        memcpy(&pattern, &single, sizeof pattern);
        if ((double)single != values[i] || (bits == 16 && (pattern & 0xFFFF) != 0)) return false;
    }
    return true;
}

static void check_types(enum nib_stack_precision precision, unsigned logit_bits) {
    struct nib_stack_result r;
    size_t stream = (config.layers + (size_t)1) * TOKENS * config.hidden;
    if (!execute(precision, 2, &r)) return;
    CU_ASSERT(holds(r.hidden, stream, 32) && holds(r.hidden_gradient, stream, 32) && holds(r.token_loss, TOKENS, 32));
    CU_ASSERT(holds(r.logits, (size_t)TOKENS * config.vocabulary, logit_bits) && holds(&r.loss, 1, 32));
    CU_ASSERT_FALSE(holds(r.hidden, stream, 16));
    for (size_t i = 0; i < r.weights; i++) {
        size_t rows, cols;
        nib_stack_weight_shape(model.stack, i, &rows, &cols);
        NIB_CHECKF(holds(r.gradient[i], rows * cols, 32), "gradient of %s", nib_stack_weight_name(model.stack, i));
    }
    nib_stack_result_clear(&r);
}

static void results_have_the_type_of_their_precision(void) {
    check_types(NIB_STACK_F32, 32);
    check_types(NIB_STACK_BF16, 16);
}

/* What modules hand on in bf16 holds bf16 numbers and is near the exact result: 2^-9 for each of the roundings on the
 * way, at most four. */
static void check_narrow(const char *what, const double *values, const double *exact, size_t count) {
    double off = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        off += (values[i] - exact[i]) * (values[i] - exact[i]);
        norm += exact[i] * exact[i];
    }
    NIB_CHECKF(holds(values, count, 16), "%s are no bf16 numbers", what);
    NIB_CHECKF(off > 0 && sqrt(off / norm) < 4 * 0x1p-9, "%s: off by %g", what, sqrt(off / norm));
}

enum { ROWS = 140, WIDE = 48, SIZE = ROWS * WIDE }; /* 8 query and 4 key heads of 6 channels; two sequences of 70 */

struct modules {
    double normed[SIZE], turned[SIZE], attended[SIZE], dq[SIZE], dk[SIZE / 2], dv[SIZE / 2], gated[SIZE], dgate[SIZE],
        dup[SIZE], dlogits[SIZE];
};

static void run_modules(struct nib_widths widths, double *const in[4], struct modules *out) {
    double inverse[ROWS], cosine[70 * 3], sine[70 * 3], each[ROWS], mean;
    const struct nib_attention attention = {2, 70, 8, 4, 6, widths, 2};
    uint32_t targets[ROWS];
    for (unsigned t = 0; t < ROWS; t++) targets[t] = t % WIDE;
    nib_norm_forward(ROWS, WIDE, 1e-5, in[0], in[1], widths.narrow, widths.wide, 2, inverse, out->normed);
    nib_rotary_table(70, 6, 100, widths.wide, cosine, sine);
    memcpy(out->turned, in[0], sizeof out->turned);
    nib_rotary_apply(ROWS, 70, 8, 6, cosine, sine, false, widths.narrow, 2, out->turned);
    if (nib_attention_forward(&attention, in[0], in[1], in[2], out->attended, &error) != NIB_OK ||
        nib_attention_backward(&attention, in[0], in[1], in[2], in[3], out->dq, out->dk, out->dv, &error) != NIB_OK)
        NIB_CHECKF(false, "%s", error.text);
    nib_swiglu_forward(SIZE, in[0], in[1], widths.narrow, 2, out->gated);
    nib_swiglu_backward(SIZE, in[0], in[1], in[3], widths.narrow, 2, out->dgate, out->dup);
    nib_loss(ROWS, WIDE, in[0], targets, widths, 2, each, &mean, out->dlogits);
}

static void modules_hand_on_bf16(void) {
    static struct modules exact, rounded;
    const struct nib_widths none = {NIB_WIDTH_F64, NIB_WIDTH_F64}, bf16_widths = {NIB_WIDTH_BF16, NIB_WIDTH_F32};
    uint64_t state = 77;
    double *in[4];
    for (int i = 0; i < 4; i++) {
        in[i] = nib_uniform_array(&state, SIZE);
        nib_width_round_run(in[i], in[i], SIZE, NIB_WIDTH_BF16);
    }
    run_modules(none, in, &exact);
    run_modules(bf16_widths, in, &rounded);
    check_narrow("outputs of a norm", rounded.normed, exact.normed, SIZE);
    check_narrow("rotated channels", rounded.turned, exact.turned, SIZE);
    check_narrow("outputs of attention", rounded.attended, exact.attended, SIZE);
    check_narrow("gradients of queries", rounded.dq, exact.dq, SIZE);
    check_narrow("gradients of keys", rounded.dk, exact.dk, SIZE / 2);
    check_narrow("gradients of values", rounded.dv, exact.dv, SIZE / 2);
    check_narrow("outputs of SwiGLU", rounded.gated, exact.gated, SIZE);
    check_narrow("gradients of gates", rounded.dgate, exact.dgate, SIZE);
    check_narrow("gradients of the other branch", rounded.dup, exact.dup, SIZE);
    check_narrow("gradients of logits", rounded.dlogits, exact.dlogits, SIZE);
    for (int i = 0; i < 4; i++) free(in[i]);
}

static void finish(void) {
    nib_random_model_free(&model);
    free(ids);
}

NIB_TEST_MAIN("stack: threads", {"(preparing)", prepare}, {"binary64", binary64}, {"binary32", binary32},
              {"bf16", bf16}, {"results have the type of their precision", results_have_the_type_of_their_precision},
              {"modules hand on bf16", modules_hand_on_bf16}, {"(closing)", finish})
