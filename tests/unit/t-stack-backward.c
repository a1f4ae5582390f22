/* Every gradient against central differences of fourth order of the module's own forward pass, in binary64. */
#include "nib_random_model.h"

#include "stack/modules.h"
#include "stack/pass.h"
#include <math.h>

static uint64_t state = 20250;
static const struct nib_widths exact = {NIB_WIDTH_F64, NIB_WIDTH_F64};
static struct nib_error error;

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

typedef double scalar(void *self);

static double slope(double *x, scalar *f, void *self) {
    const double step = 1e-3, at = *x;
    double value[4];
    static const double places[] = {-2, -1, 1, 2};
    for (int i = 0; i < 4; i++) {
        *x = at + places[i] * step;
        value[i] = f(self);
    }
    *x = at;
    return (value[0] - 8 * value[1] + 8 * value[2] - value[3]) / (12 * step);
}

/* At `samples` places of x (0: at all). The bound is relative to the largest component; differences of fourth order
 * with this step are good for 1e-10 or so of functions as smooth as these. */
static void check(const char *what, double *x, size_t count, const double *gradient, size_t samples, scalar *f,
                  void *self) {
    double most = 0;
    for (size_t i = 0; i < count; i++) most = fmax(most, fabs(gradient[i]));
    if (samples == 0 || samples > count) samples = count;
    for (size_t i = 0; i < samples; i++) {
        size_t at = samples == count ? i : (size_t)((nib_uniform(&state) + 1) / 2 * (double)count) % count;
        double difference = fabs(gradient[at] - slope(x + at, f, self));
        NIB_CHECKF(difference < 1e-9 * most, "%s: component %zu is %.12g, by differences %.12g", what, at, gradient[at],
                   slope(x + at, f, self));
    }
    NIB_CHECKF(most > 0 && isfinite(most), "%s: no gradient", what);
}

/* Embedding: tokens repeat, and some never occur. */
enum { EMBED_ROWS = 6, EMBED_WIDTH = 70, EMBED_TOKENS = 9 };
struct embed {
    double *table, *weight, rows[EMBED_TOKENS * EMBED_WIDTH];
};
static const uint32_t embed_ids[EMBED_TOKENS] = {3, 1, 3, 0, 5, 5, 3, 1, 0};

static double embed(void *self) {
    struct embed *e = self;
    nib_embed_forward(e->table, EMBED_WIDTH, embed_ids, EMBED_TOKENS, e->rows);
    return dot(e->rows, e->weight, EMBED_TOKENS * EMBED_WIDTH);
}

static void embedding(void) {
    struct embed e = {nib_uniform_array(&state, EMBED_ROWS * EMBED_WIDTH),
                      nib_uniform_array(&state, EMBED_TOKENS * EMBED_WIDTH),
                      {0}};
    double gradient[EMBED_ROWS * EMBED_WIDTH], twice[EMBED_ROWS * EMBED_WIDTH];
    nib_embed_backward(e.weight, EMBED_ROWS, EMBED_WIDTH, embed_ids, EMBED_TOKENS, NIB_WIDTH_F64, 2, false, gradient);
    check("embedding", e.table, EMBED_ROWS * EMBED_WIDTH, gradient, 0, embed, &e);
    memcpy(twice, gradient, sizeof twice);
    nib_embed_backward(e.weight, EMBED_ROWS, EMBED_WIDTH, embed_ids, EMBED_TOKENS, NIB_WIDTH_F64, 2, true, twice);
    for (size_t i = 0; i < EMBED_ROWS * EMBED_WIDTH; i++)
        NIB_CHECKF(fabs(twice[i] - 2 * gradient[i]) < 1e-14, "added gradient of element %zu", i);
    free(e.table);
    free(e.weight);
}

enum { NORM_TOKENS = 5, NORM_WIDTH = 70 };
struct norm {
    double *x, *gain, *weight, inverse[NORM_TOKENS], y[NORM_TOKENS * NORM_WIDTH];
};

static double norm(void *self) {
    struct norm *n = self;
    nib_norm_forward(NORM_TOKENS, NORM_WIDTH, 0.01, n->x, n->gain, NIB_WIDTH_F64, NIB_WIDTH_F64, 1, n->inverse, n->y);
    return dot(n->y, n->weight, NORM_TOKENS * NORM_WIDTH);
}

static void rms_norm(void) {
    struct norm n = {.x = nib_uniform_array(&state, NORM_TOKENS * NORM_WIDTH),
                     .gain = nib_uniform_array(&state, NORM_WIDTH),
                     .weight = nib_uniform_array(&state, NORM_TOKENS * NORM_WIDTH)};
    double dx[NORM_TOKENS * NORM_WIDTH], dgain[NORM_WIDTH];
    norm(&n);
    nib_norm_backward(NORM_TOKENS, NORM_WIDTH, n.x, n.gain, n.inverse, n.weight, NIB_WIDTH_F64, 2, dx, dgain);
    check("norm: input", n.x, NORM_TOKENS * NORM_WIDTH, dx, 0, norm, &n);
    check("norm: gain", n.gain, NORM_WIDTH, dgain, 0, norm, &n);
    free(n.x);
    free(n.gain);
    free(n.weight);
}

enum {
    ROTARY_LENGTH = 4,
    ROTARY_TOKENS = 8,
    ROTARY_HEADS = 2,
    ROTARY_SIZE = 6,
    ROTARY_ALL = ROTARY_TOKENS * ROTARY_HEADS * ROTARY_SIZE
};
struct rotary {
    double *x, *weight, cosine[ROTARY_LENGTH * ROTARY_SIZE / 2], sine[ROTARY_LENGTH * ROTARY_SIZE / 2];
};

static void rotate(const struct rotary *r, bool back, double *x) {
    nib_rotary_apply(ROTARY_TOKENS, ROTARY_LENGTH, ROTARY_HEADS, ROTARY_SIZE, r->cosine, r->sine, back, NIB_WIDTH_F64,
                     1, x);
}

static double rotary(void *self) {
    struct rotary *r = self;
    double y[ROTARY_ALL];
    memcpy(y, r->x, sizeof y);
    rotate(r, false, y);
    return dot(y, r->weight, ROTARY_ALL);
}

static void rotary_positions(void) {
    struct rotary r = {.x = nib_uniform_array(&state, ROTARY_ALL), .weight = nib_uniform_array(&state, ROTARY_ALL)};
    double dx[ROTARY_ALL];
    nib_rotary_table(ROTARY_LENGTH, ROTARY_SIZE, 100, NIB_WIDTH_F64, r.cosine, r.sine);
    memcpy(dx, r.weight, sizeof dx);
    rotate(&r, true, dx);
    check("rotary", r.x, ROTARY_ALL, dx, 0, rotary, &r);
    free(r.x);
    free(r.weight);
}

/* 70 rows: two tiles, the second of them short. */
enum {
    SEQUENCES = 2,
    LENGTH = 70,
    HEADS = 4,
    KV_HEADS = 2,
    SIZE = 6,
    QUERIES = SEQUENCES * LENGTH * HEADS * SIZE,
    KEYS = SEQUENCES * LENGTH * KV_HEADS * SIZE
};
static const struct nib_attention shape = {SEQUENCES, LENGTH, HEADS, KV_HEADS, SIZE, {NIB_WIDTH_F64, NIB_WIDTH_F64}, 1};
struct attention {
    double *q, *k, *v, *weight, out[QUERIES];
};

static double attend(void *self) {
    struct attention *a = self;
    if (nib_attention_forward(&shape, a->q, a->k, a->v, a->out, &error) != NIB_OK) return NAN;
    return dot(a->out, a->weight, QUERIES);
}

static struct attention some_attention(void) {
    return (struct attention){nib_uniform_array(&state, QUERIES),
                              nib_uniform_array(&state, KEYS),
                              nib_uniform_array(&state, KEYS),
                              nib_uniform_array(&state, QUERIES),
                              {0}};
}

static void free_attention(struct attention *a) {
    free(a->q);
    free(a->k);
    free(a->v);
    free(a->weight);
}

static void attention(void) {
    struct attention a = some_attention();
    static double dq[QUERIES], dk[KEYS], dv[KEYS];
    for (size_t i = 0; i < QUERIES; i++) a.q[i] *= 3; /* so that the probabilities differ */
    NIB_OK_OR_FAIL(nib_attention_backward(&shape, a.q, a.k, a.v, a.weight, dq, dk, dv, &error), error);
    check("attention: queries", a.q, QUERIES, dq, 40, attend, &a);
    check("attention: keys", a.k, KEYS, dk, 40, attend, &a);
    check("attention: values", a.v, KEYS, dv, 40, attend, &a);
    free_attention(&a);
}

/* A later key or value changes no earlier output, not by a bit; nor does another sequence. */
static void attention_is_causal(void) {
    struct attention a = some_attention();
    static double before[QUERIES];
    const size_t first = 65; /* of sequence 0 */
    attend(&a);
    memcpy(before, a.out, sizeof before);
    for (size_t i = first * KV_HEADS * SIZE; i < LENGTH * KV_HEADS * SIZE; i++) {
        a.k[i] = -a.k[i];
        a.v[i] = 2 * a.v[i] + 1;
    }
    attend(&a);
    for (size_t t = 0; t < SEQUENCES * LENGTH; t++) {
        bool same = memcmp(before + t * HEADS * SIZE, a.out + t * HEADS * SIZE, HEADS * SIZE * sizeof *before) == 0;
        NIB_CHECKF(same == (t < first || t >= LENGTH), "token %zu %s", t, same ? "does not change" : "changes");
    }
    free_attention(&a);
}

/* The definition, written out: no tiles, no library. */
static void attention_is_softmax_of_scaled_products(void) {
    struct attention a = some_attention();
    attend(&a);
    for (size_t row = 0; row < SEQUENCES * LENGTH * HEADS; row += 13) {
        size_t t = row / HEADS, head = row % HEADS, start = t / LENGTH * LENGTH;
        double p[LENGTH], sum = 0, out[SIZE] = {0};
        for (size_t j = start; j <= t; j++)
            sum += p[j - start] = exp(dot(a.q + row * SIZE, a.k + (j * KV_HEADS + head / 2) * SIZE, SIZE) / sqrt(SIZE));
        for (size_t j = start; j <= t; j++)
            for (size_t i = 0; i < SIZE; i++) out[i] += p[j - start] / sum * a.v[(j * KV_HEADS + head / 2) * SIZE + i];
        for (size_t i = 0; i < SIZE; i++)
            NIB_CHECKF(fabs(out[i] - a.out[row * SIZE + i]) < 1e-14, "token %zu, head %zu: %.17g, expected %.17g", t,
                       head, a.out[row * SIZE + i], out[i]);
    }
    free_attention(&a);
}

enum { UNITS = 1100 };
struct swiglu {
    double *gate, *up, *weight, h[UNITS];
};

static double swiglu(void *self) {
    struct swiglu *s = self;
    nib_swiglu_forward(UNITS, s->gate, s->up, NIB_WIDTH_F64, 1, s->h);
    return dot(s->h, s->weight, UNITS);
}

static void swish_gated_unit(void) {
    struct swiglu s = {
        nib_uniform_array(&state, UNITS), nib_uniform_array(&state, UNITS), nib_uniform_array(&state, UNITS), {0}};
    double dgate[UNITS], dup[UNITS];
    for (size_t i = 0; i < UNITS; i++) s.gate[i] *= 8;
    nib_swiglu_backward(UNITS, s.gate, s.up, s.weight, NIB_WIDTH_F64, 2, dgate, dup);
    check("swiglu: gate", s.gate, UNITS, dgate, 60, swiglu, &s);
    check("swiglu: up", s.up, UNITS, dup, 60, swiglu, &s);
    free(s.gate);
    free(s.up);
    free(s.weight);
}

enum { CLASSES = 7, LOSS_TOKENS = 5 };
static const uint32_t targets[LOSS_TOKENS] = {6, 0, 3, 3, 1};

static double loss(void *self) {
    double each[LOSS_TOKENS], mean;
    nib_loss(LOSS_TOKENS, CLASSES, self, targets, exact, 1, each, &mean, NULL);
    return mean;
}

static void cross_entropy(void) {
    double *logits = nib_uniform_array(&state, LOSS_TOKENS * CLASSES), each[LOSS_TOKENS], mean,
           slopes[LOSS_TOKENS * CLASSES];
    for (size_t i = 0; i < LOSS_TOKENS * CLASSES; i++) logits[i] = 4 * logits[i] + 900; /* exp(900) overflows */
    nib_loss(LOSS_TOKENS, CLASSES, logits, targets, exact, 2, each, &mean, slopes);
    for (size_t t = 0; t < LOSS_TOKENS; t++) {
        double sum = 0;
        for (size_t i = 0; i < CLASSES; i++) sum += exp(logits[t * CLASSES + i] - 900);
        double wanted = log(sum) - (logits[t * CLASSES + targets[t]] - 900);
        NIB_CHECKF(fabs(each[t] - wanted) < 1e-12, "token %zu: %.15g, expected %.15g", t, each[t], wanted);
    }
    check("loss", logits, LOSS_TOKENS * CLASSES, slopes, 0, loss, logits);
    free(logits);
}

/* Everything together; grouped heads whose size is not hidden / heads. */
static const struct nib_stack_config small = {.vocabulary = 11,
                                              .hidden = 16,
                                              .intermediate = 20,
                                              .layers = 2,
                                              .heads = HEADS,
                                              .kv_heads = KV_HEADS,
                                              .head_size = SIZE,
                                              .positions = 16,
                                              .norm_epsilon = 1e-3,
                                              .rope_theta = 50};
enum { MODEL_LENGTH = 7 };

struct whole {
    struct nib_random_model model;
    uint32_t *ids;
};

static double whole(void *self) {
    struct whole *w = self;
    struct nib_stack_run run = {.precision = NIB_STACK_F64, .threads = 1};
    struct nib_stack_result result;
    if (nib_stack_execute(w->model.stack, &run, w->ids, SEQUENCES, MODEL_LENGTH, &result, &error) != NIB_OK) return NAN;
    double value = result.loss;
    nib_stack_result_clear(&result);
    return value;
}

static void check_model(bool tied) {
    struct nib_stack_config config = small;
    config.tied = tied;
    struct whole w = {nib_random_model(&config, 7),
                      nib_random_tokens(&state, config.vocabulary, SEQUENCES * (MODEL_LENGTH + 1))};
    struct nib_stack_run run = {.precision = NIB_STACK_F64, .backward = true, .threads = 2};
    struct nib_stack_result result;
    NIB_OK_OR_FAIL(nib_stack_execute(w.model.stack, &run, w.ids, SEQUENCES, MODEL_LENGTH, &result, &error), error);
    CU_ASSERT_EQUAL(result.loss, whole(&w));
    CU_ASSERT_EQUAL(nib_stack_weights(w.model.stack), tied ? 20 : 21);
    for (size_t i = 0; i < w.model.count; i++) {
        size_t rows, cols;
        char what[80];
        nib_stack_weight_shape(w.model.stack, i, &rows, &cols);
        snprintf(what, sizeof what, "%s%s", nib_stack_weight_name(w.model.stack, i), tied ? " (tied)" : "");
        check(what, w.model.weights[i], rows * cols, result.gradient[i], 12, whole, &w);
    }
    nib_stack_result_clear(&result);
    nib_random_model_free(&w.model);
    free(w.ids);
}

static void whole_model(void) {
    check_model(false);
}
static void whole_model_with_tied_head(void) {
    check_model(true);
}

/* A linear layer by itself, through the pass that owns its memory. */
struct dense {
    struct nib_random_model model;
    struct nib_stack_pass pass;
    double *x, *weight, *y;
    size_t number, outputs;
};

static double dense(void *self) {
    struct dense *d = self;
    nib_dense_forward(&d->pass, d->number, d->x, d->y);
    return dot(d->y, d->weight, d->outputs);
}

static void linear(void) {
    struct dense d = {.model = nib_random_model(&small, 9), .number = nib_stack_weight_of(1, NIB_PART_DOWN)};
    struct nib_stack_run run = {.precision = NIB_STACK_F64, .backward = true, .threads = 2};
    uint32_t *ids = nib_random_tokens(&state, small.vocabulary, SEQUENCES * (MODEL_LENGTH + 1));
    size_t tokens = SEQUENCES * MODEL_LENGTH, inputs = tokens * small.intermediate,
           elements = (size_t)small.hidden * small.intermediate;
    NIB_OK_OR_FAIL(nib_stack_pass_init(&d.pass, d.model.stack, &run, ids, SEQUENCES, MODEL_LENGTH, &error), error);
    d.outputs = tokens * small.hidden;
    d.x = nib_uniform_array(&state, inputs);
    d.y = nib_uniform_array(&state, d.outputs);
    d.weight = nib_uniform_array(&state, d.outputs);
    double *dx = nib_uniform_array(&state, inputs);
    nib_dense_backward(&d.pass, d.number, d.x, d.weight, false, dx);
    check("linear: input", d.x, inputs, dx, 60, dense, &d);
    check("linear: weight", d.model.weights[d.number], elements, d.pass.result.gradient[d.number], 60, dense, &d);
    double once = d.pass.result.gradient[d.number][5];
    nib_dense_backward(&d.pass, d.number, d.x, d.weight, true, dx);
    NIB_CHECKF(fabs(d.pass.result.gradient[d.number][5] - 2 * once) < 1e-14, "added gradient");
    nib_stack_pass_clear(&d.pass);
    nib_random_model_free(&d.model);
    free(ids);
    free(d.x);
    free(d.y);
    free(d.weight);
    free(dx);
}

NIB_TEST_MAIN("stack: backward", {"embedding", embedding}, {"norm", rms_norm}, {"rotary positions", rotary_positions},
              {"attention", attention}, {"attention is causal", attention_is_causal},
              {"attention is the softmax of scaled products", attention_is_softmax_of_scaled_products},
              {"swish-gated unit", swish_gated_unit}, {"linear layer", linear}, {"cross-entropy", cross_entropy},
              {"whole model", whole_model}, {"whole model with a tied head", whole_model_with_tied_head})
