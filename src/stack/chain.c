/* Both chains side by side: binary64 and exact, binary32 and quantized; forward, then backward layer by layer. */
#include <nibble/chain.h>

#include "base/fpenv.h"
#include "base/memory.h"
#include "stack/chain_gain.h"
#include "stack/chain_layer.h"
#include "stack/chain_plan.h"
#include "stack/chain_product.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXACT, QUANTIZED, SIDES };

/* Everything that a run allocates. Signals by side and layer. */
struct work {
    const struct nib_chain *chain;
    struct nib_chain_record *records;
    size_t signal, inner, weight; /* elements of a signal, of a gated one, of a weight (the largest) */
    double *x[SIDES];             /* (depth + 1) signals */
    double *g[SIDES], *u[SIDES];  /* depth gated signals, of SwiGLU */
    double *z, *h, *dz, *da, *dg, *du, *dw[SIDES]; /* scratch: norm, gated, and their gradients */
    double *dx[SIDES];            /* of the layer that the backward pass has come to */
    float *drawn;
    double *w[NIB_CHAIN_GEMMS];   /* of one layer, by GEMM */
    size_t held[NIB_CHAIN_GEMMS]; /* 1 + the layer whose weight that is */
    struct nib_chain_scratch scratch;
};

static void work_free(struct work *k) {
    double *const all[] = {k->x[0], k->x[1], k->g[0],  k->g[1],  k->u[0],  k->u[1],  k->z,    k->h,    k->dz,  k->da,
                           k->dg,   k->du,   k->dw[0], k->dw[1], k->dx[0], k->dx[1], k->w[0], k->w[1], k->w[2]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(k->drawn);
    nib_chain_scratch_free(&k->scratch);
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static enum nib_status work_new(const struct nib_chain *c, struct work *k, struct nib_error *error) {
    bool gated = c->activation == NIB_CHAIN_SWIGLU;
    k->signal = c->rows * c->width;
    k->inner = gated ? c->rows * c->inner : 0;
    k->weight = c->width * (gated ? c->inner : c->width);
    size_t most = larger(larger(k->signal, k->inner), k->weight), wide = larger(k->signal, k->inner);
    struct {
        double **at;
        size_t count, times;
    } const arrays[] = {
        {&k->x[0], k->signal, c->depth + 1}, {&k->x[1], k->signal, c->depth + 1},
        {&k->g[0], k->inner, c->depth}, {&k->g[1], k->inner, c->depth}, {&k->u[0], k->inner, c->depth},
        {&k->u[1], k->inner, c->depth}, {&k->z, k->signal, 1}, {&k->h, wide, 1}, {&k->dz, k->signal, 1},
        {&k->da, wide, 1}, {&k->dg, k->inner, 1}, {&k->du, k->inner, 1}, {&k->dw[0], k->weight, 1},
        {&k->dw[1], k->weight, 1}, {&k->dx[0], k->signal, 1}, {&k->dx[1], k->signal, 1},
        {&k->w[NIB_CHAIN_GATE], k->weight, 1}, {&k->w[NIB_CHAIN_UP], gated ? k->weight : 0, 1},
        {&k->w[NIB_CHAIN_DOWN], gated ? k->weight : 0, 1}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        *arrays[i].at = nib_alloc(arrays[i].count, arrays[i].times * sizeof(double), "signals of a chain", error);
        if (*arrays[i].at == NULL) return NIB_ENOMEM;
    }
    k->drawn = nib_alloc(most, sizeof *k->drawn, "weights of a chain", error);
    if (k->drawn == NULL) return NIB_ENOMEM;
    return nib_chain_scratch_new(most, &k->scratch, error);
}

/* `count` numbers of a source, brought to a root mean square and rounded to binary32. The `place`-th draw of the chain.
 */
static void draw(struct work *k, const struct nib_chain_source *source, uint64_t place, double rms, size_t count,
                 double *out) {
    source->fill(source->self, k->chain->seed, place * larger(k->weight, larger(k->signal, k->inner)), count, k->drawn);
    double square = 0;
    for (size_t i = 0; i < count; i++) square += (double)k->drawn[i] * (double)k->drawn[i];
    double scale = rms / sqrt(square / (double)count);
    for (size_t i = 0; i < count; i++) out[i] = (float)(k->drawn[i] * scale);
}

/* Draws: 0 the input, 1 the topmost gradient, then the weights. */
static const double *weight_of(struct work *k, size_t layer, size_t gemm) {
    const struct nib_chain *c = k->chain;
    if (k->held[gemm] == layer + 1) return k->w[gemm];
    struct nib_chain_shape s = nib_chain_shape_of(c, gemm);
    bool after_gate = c->activation != NIB_CHAIN_SWIGLU || gemm == NIB_CHAIN_DOWN;
    double gain = after_gate ? nib_chain_weight_gain(c->activation) : 1;
    draw(k, &c->weights, 2 + layer * NIB_CHAIN_GEMMS + gemm, gain / sqrt((double)s.in), s.in * s.out, k->w[gemm]);
    k->held[gemm] = layer + 1;
    return k->w[gemm];
}

static struct nib_chain_record *record_of(const struct work *k, size_t layer, enum nib_pass pass, size_t gemm) {
    return nib_chain_record_at(k->chain, k->records, layer, pass, gemm);
}

/* What a gain becomes in one GEMM. */
static struct nib_chain_gain through(const struct work *k, struct nib_chain_gain gain, size_t layer, enum nib_pass pass,
                                     size_t gemm) {
    return nib_chain_gain_times(gain, record_of(k, layer, pass, gemm));
}

/* a is x or dY, x that of wgrad alone. */
static enum nib_status multiply(struct work *k, int side, size_t layer, enum nib_pass pass, size_t gemm,
                                const double *a, const double *x, double *out, struct nib_error *error) {
    struct nib_chain_shape s = nib_chain_shape_of(k->chain, gemm);
    const double *b = pass == NIB_PASS_WGRAD ? x : weight_of(k, layer, gemm);
    if (side == EXACT) {
        nib_chain_exact(pass, s, a, b, out);
        return NIB_OK;
    }
    uint64_t stream = (layer * NIB_PASSES + pass) * NIB_CHAIN_GEMMS + gemm;
    return nib_chain_multiply(k->chain, pass, s, stream, a, b, out, &k->scratch, record_of(k, layer, pass, gemm),
                              error);
}

static void settle(int side, size_t count, double *x) {
    if (side == QUANTIZED) nib_chain_round(count, x);
}

/* What the layer's first GEMM takes: norm and, without a gate, the activation. */
static void enter(const struct work *k, int side, size_t layer, double *z) {
    const struct nib_chain *c = k->chain;
    const double *x = k->x[side] + layer * k->signal;
    if (c->norm)
        nib_chain_norm(c->rows, c->width, x, z);
    else
        memcpy(z, x, k->signal * sizeof *z);
    settle(side, k->signal, z);
}

static enum nib_status layer_forward(struct work *k, int side, size_t layer, struct nib_error *error) {
    const struct nib_chain *c = k->chain;
    const double *x = k->x[side] + layer * k->signal;
    double *y = k->x[side] + (layer + 1) * k->signal;
    enum nib_status status;
    enter(k, side, layer, k->z);
    if (c->activation == NIB_CHAIN_SWIGLU) {
        double *g = k->g[side] + layer * k->inner, *u = k->u[side] + layer * k->inner;
        status = multiply(k, side, layer, NIB_PASS_FPROP, NIB_CHAIN_GATE, k->z, NULL, g, error);
        if (status == NIB_OK) status = multiply(k, side, layer, NIB_PASS_FPROP, NIB_CHAIN_UP, k->z, NULL, u, error);
        if (status != NIB_OK) return status;
        nib_chain_gate(k->inner, g, u, k->h);
        settle(side, k->inner, k->h);
        status = multiply(k, side, layer, NIB_PASS_FPROP, NIB_CHAIN_DOWN, k->h, NULL, y, error);
    } else {
        nib_chain_act(c->activation, k->signal, k->z, k->z);
        settle(side, k->signal, k->z);
        status = multiply(k, side, layer, NIB_PASS_FPROP, NIB_CHAIN_SINGLE, k->z, NULL, y, error);
    }
    for (size_t i = 0; c->residual && i < k->signal; i++) y[i] += x[i];
    settle(side, k->signal, y);
    return status;
}

static enum nib_status forward(struct work *k, struct nib_chain_gain *reached, struct nib_error *error) {
    const struct nib_chain *c = k->chain;
    draw(k, &c->signals, 0, 1, k->signal, k->x[EXACT]);
    memcpy(k->x[QUANTIZED], k->x[EXACT], k->signal * sizeof *k->x[0]);
    enum nib_status status = NIB_OK;
    reached[0] = (struct nib_chain_gain){1, 1};
    for (size_t layer = 0; status == NIB_OK && layer < c->depth; layer++) {
        for (int side = 0; status == NIB_OK && side < SIDES; side++) status = layer_forward(k, side, layer, error);
        reached[layer + 1] = reached[layer];
        for (size_t g = 0; status == NIB_OK && g < nib_chain_gemms(c); g++)
            reached[layer + 1] = through(k, reached[layer + 1], layer, NIB_PASS_FPROP, g);
        for (size_t g = 0; status == NIB_OK && g < nib_chain_gemms(c); g++)
            status = nib_chain_compare(record_of(k, layer, NIB_PASS_FPROP, g), k->signal,
                                       k->x[EXACT] + (layer + 1) * k->signal, k->x[QUANTIZED] + (layer + 1) * k->signal,
                                       reached[layer + 1], error);
    }
    return status;
}

/* One GEMM's dgrad and wgrad on one side: da receives the gradient of its input. */
static enum nib_status gemm_backward(struct work *k, size_t layer, size_t gemm, int side, const double *dy,
                                     const double *input, double *da, struct nib_error *error) {
    enum nib_status status = multiply(k, side, layer, NIB_PASS_DGRAD, gemm, dy, NULL, da, error);
    if (status == NIB_OK) status = multiply(k, side, layer, NIB_PASS_WGRAD, gemm, dy, input, k->dw[side], error);
    return status;
}

/* The exact gradients of this layer's weights, kept while the quantized side catches up. */
struct exact_weights {
    double *dw[NIB_CHAIN_GEMMS];
};

static void keep(struct work *k, int side, size_t gemm, struct exact_weights *exact) {
    if (side != EXACT) return;
    struct nib_chain_shape s = nib_chain_shape_of(k->chain, gemm);
    memcpy(exact->dw[gemm], k->dw[EXACT], s.in * s.out * sizeof(double));
}

static enum nib_status weigh(struct work *k, int side, size_t layer, size_t gemm, struct nib_chain_gain gain,
                             const struct exact_weights *exact, struct nib_error *error) {
    if (side == EXACT) return NIB_OK;
    struct nib_chain_shape s = nib_chain_shape_of(k->chain, gemm);
    struct nib_chain_record *record = record_of(k, layer, NIB_PASS_WGRAD, gemm);
    return nib_chain_compare(record, s.in * s.out, exact->dw[gemm], k->dw[QUANTIZED],
                             nib_chain_gain_times(gain, record), error);
}

static enum nib_status single_backward(struct work *k, size_t layer, int side, struct nib_chain_gain below,
                                       struct nib_chain_gain above, struct exact_weights *exact,
                                       struct nib_error *error) {
    const struct nib_chain *c = k->chain;
    enter(k, side, layer, k->z);
    nib_chain_act(c->activation, k->signal, k->z, k->h);
    settle(side, k->signal, k->h);
    enum nib_status status = gemm_backward(k, layer, NIB_CHAIN_SINGLE, side, k->dx[side], k->h, k->dz, error);
    if (status != NIB_OK) return status;
    keep(k, side, NIB_CHAIN_SINGLE, exact);
    nib_chain_act_back(c->activation, k->signal, k->z, k->dz, k->dz);
    settle(side, k->signal, k->dz);
    return weigh(k, side, layer, NIB_CHAIN_SINGLE, nib_chain_gain_joined(below, above), exact, error);
}

static enum nib_status gated_backward(struct work *k, size_t layer, int side, struct nib_chain_gain below,
                                      struct nib_chain_gain above, struct exact_weights *exact,
                                      struct nib_error *error) {
    const double *g = k->g[side] + layer * k->inner, *u = k->u[side] + layer * k->inner;
    enter(k, side, layer, k->z);
    nib_chain_gate(k->inner, g, u, k->h);
    settle(side, k->inner, k->h);
    enum nib_status status = gemm_backward(k, layer, NIB_CHAIN_DOWN, side, k->dx[side], k->h, k->da, error);
    if (status != NIB_OK) return status;
    keep(k, side, NIB_CHAIN_DOWN, exact);
    struct nib_chain_gain to_hidden = through(k, below, layer, NIB_PASS_FPROP, NIB_CHAIN_GATE);
    to_hidden = through(k, to_hidden, layer, NIB_PASS_FPROP, NIB_CHAIN_UP);
    struct nib_chain_gain from_hidden = through(k, above, layer, NIB_PASS_DGRAD, NIB_CHAIN_DOWN);
    status = weigh(k, side, layer, NIB_CHAIN_DOWN, nib_chain_gain_joined(to_hidden, above), exact, error);
    nib_chain_gate_back(k->inner, g, u, k->da, k->dg, k->du);
    settle(side, k->inner, k->dg);
    settle(side, k->inner, k->du);
    if (status == NIB_OK) status = gemm_backward(k, layer, NIB_CHAIN_GATE, side, k->dg, k->z, k->dz, error);
    if (status != NIB_OK) return status;
    keep(k, side, NIB_CHAIN_GATE, exact);
    status = weigh(k, side, layer, NIB_CHAIN_GATE, nib_chain_gain_joined(below, from_hidden), exact, error);
    if (status == NIB_OK) status = gemm_backward(k, layer, NIB_CHAIN_UP, side, k->du, k->z, k->h, error);
    if (status != NIB_OK) return status;
    keep(k, side, NIB_CHAIN_UP, exact);
    for (size_t i = 0; i < k->signal; i++) k->dz[i] += k->h[i];
    settle(side, k->signal, k->dz);
    return weigh(k, side, layer, NIB_CHAIN_UP, nib_chain_gain_joined(below, from_hidden), exact, error);
}

/* From dx of the layer's output to that of its input. */
static void leave(struct work *k, size_t layer, int side) {
    const struct nib_chain *c = k->chain;
    if (c->norm) nib_chain_norm_back(c->rows, c->width, k->x[side] + layer * k->signal, k->dz, k->dz);
    for (size_t i = 0; i < k->signal; i++) k->dx[side][i] = c->residual ? k->dx[side][i] + k->dz[i] : k->dz[i];
    settle(side, k->signal, k->dx[side]);
}

/* The gains past a layer's dgrad: SwiGLU's gate and up add. */
static struct nib_chain_gain passed_down(const struct work *k, size_t layer, struct nib_chain_gain above) {
    const struct nib_chain *c = k->chain;
    if (c->activation != NIB_CHAIN_SWIGLU) return through(k, above, layer, NIB_PASS_DGRAD, NIB_CHAIN_SINGLE);
    struct nib_chain_gain p = through(k, above, layer, NIB_PASS_DGRAD, NIB_CHAIN_DOWN);
    struct nib_chain_gain gate = through(k, p, layer, NIB_PASS_DGRAD, NIB_CHAIN_GATE);
    struct nib_chain_gain up = through(k, p, layer, NIB_PASS_DGRAD, NIB_CHAIN_UP);
    return (struct nib_chain_gain){(gate.predicted + up.predicted) / 2, (gate.measured + up.measured) / 2};
}

static enum nib_status backward(struct work *k, const struct nib_chain_gain *reached, struct exact_weights *exact,
                                struct nib_error *error) {
    const struct nib_chain *c = k->chain;
    draw(k, &c->signals, 1, 1, k->signal, k->dx[EXACT]);
    memcpy(k->dx[QUANTIZED], k->dx[EXACT], k->signal * sizeof *k->dx[0]);
    enum nib_status status = NIB_OK;
    struct nib_chain_gain above = {1, 1};
    for (size_t layer = c->depth; status == NIB_OK && layer-- > 0;) {
        for (int side = 0; status == NIB_OK && side < SIDES; side++) {
            status = c->activation == NIB_CHAIN_SWIGLU
                         ? gated_backward(k, layer, side, reached[layer], above, exact, error)
                         : single_backward(k, layer, side, reached[layer], above, exact, error);
            if (status == NIB_OK) leave(k, layer, side);
        }
        if (status == NIB_OK) above = passed_down(k, layer, above);
        for (size_t g = 0; status == NIB_OK && g < nib_chain_gemms(c); g++)
            status = nib_chain_compare(record_of(k, layer, NIB_PASS_DGRAD, g), k->signal, k->dx[EXACT],
                                       k->dx[QUANTIZED], above, error);
    }
    return status;
}

enum nib_status nib_chain_run(const struct nib_chain *chain, struct nib_chain_record *out, struct nib_error *error) {
    enum nib_status status = nib_chain_check(chain, error);
    if (status != NIB_OK) return status;
    size_t count = nib_chain_records(chain);
    struct nib_fpenv saved = nib_fpenv_enter();
    struct work work = {.chain = chain};
    struct exact_weights exact = {{NULL}};
    struct nib_chain_gain *reached = nib_alloc(chain->depth + 1, sizeof *reached, "a chain", error);
    work.records = nib_alloc(count, sizeof *work.records, "records of a chain", error);
    status = reached == NULL || work.records == NULL ? NIB_ENOMEM : work_new(chain, &work, error);
    for (size_t g = 0; status == NIB_OK && g < nib_chain_gemms(chain); g++) {
        exact.dw[g] = nib_alloc(work.weight, sizeof(double), "weights of a chain", error);
        if (exact.dw[g] == NULL) status = NIB_ENOMEM;
    }
    if (status == NIB_OK) {
        nib_chain_name_records(chain, work.records);
        status = forward(&work, reached, error);
    }
    if (status == NIB_OK && chain->backward) status = backward(&work, reached, &exact, error);
    if (status == NIB_OK) memcpy(out, work.records, count * sizeof *out);
    for (size_t g = 0; g < NIB_CHAIN_GEMMS; g++) free(exact.dw[g]);
    free(work.records);
    free(reached);
    work_free(&work);
    nib_fpenv_leave(saved);
    return status;
}
