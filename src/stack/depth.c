#include "stack/depth.h"

#include "base/fpenv.h"
#include "base/memory.h"
#include "stack/depth_observe.h"
#include "stack/stack.h"
#include <stdlib.h>
#include <string.h>

static const char *const parts[] = {"summary", "stream", "operand", "product", "weight", NULL};

const char *nib_depth_part_name(enum nib_depth_part part) {
    return (unsigned)part < NIB_DEPTH_PARTS ? parts[part] : NULL;
}

/* Where the records of each part begin. */
struct plan {
    size_t layers, slots, passes, first[NIB_DEPTH_PARTS + 1];
};

static struct plan plan_of(const struct nib_stack *stack, bool backward, bool products) {
    struct plan p = {
        .layers = stack->config.layers, .slots = backward ? NIB_SLOTS : 2, .passes = backward ? NIB_PASSES : 1};
    size_t linear = p.layers * NIB_MODULES;
    size_t count[NIB_DEPTH_PARTS] = {1, p.layers + (backward ? p.layers + 1 : 0), products ? linear * p.slots : 0,
                                     products ? linear * p.passes : 0, backward ? stack->count : 0};
    for (size_t i = 0; i < NIB_DEPTH_PARTS; i++) p.first[i + 1] = p.first[i] + count[i];
    return p;
}

size_t nib_depth_records(const struct nib_stack *stack, bool backward, bool products) {
    return plan_of(stack, backward, products).first[NIB_DEPTH_PARTS];
}

struct measuring {
    const struct nib_depth_request *request;
    struct plan plan;
    struct nib_depth_record *records;
    const struct nib_stack_result *result;
};

static struct nib_depth_record *product_at(const struct measuring *m, size_t layer, enum nib_module module,
                                           enum nib_pass pass) {
    return &m->records[m->plan.first[NIB_DEPTH_PRODUCT] + (layer * NIB_MODULES + module) * m->plan.passes + pass];
}

static void name_records(struct measuring *m) {
    const struct plan *p = &m->plan;
    const struct nib_stack *stack = m->request->stack;
    for (size_t i = 0; i < p->first[NIB_DEPTH_PARTS]; i++) {
        struct nib_depth_record *r = &m->records[i];
        *r = (struct nib_depth_record){.layer = -1, .module = "", .pass = -1, .slot = -1};
        while (i >= p->first[r->part + 1]) r->part++;
        for (size_t q = 0; q < NIB_DEPTH_QUANTITIES; q++) r->value[q] = (struct nib_estimate){NAN, NAN};
        size_t at = i - p->first[r->part];
        switch (r->part) {
        case NIB_DEPTH_STREAM:
            r->pass = at < p->layers ? NIB_PASS_FPROP : NIB_PASS_DGRAD;
            r->layer = (int)(at < p->layers ? at + 1 : 2 * p->layers - at);
            break;
        case NIB_DEPTH_OPERAND:
            r->slot = (int)(at % p->slots);
            r->pass = (int)nib_slot_pass((enum nib_slot)r->slot);
            r->module = nib_module_name((enum nib_module)(at / p->slots % NIB_MODULES));
            r->layer = (int)(at / p->slots / NIB_MODULES);
            break;
        case NIB_DEPTH_PRODUCT:
            r->pass = (int)(at % p->passes);
            r->module = nib_module_name((enum nib_module)(at / p->passes % NIB_MODULES));
            r->layer = (int)(at / p->passes / NIB_MODULES);
            break;
        case NIB_DEPTH_WEIGHT:
            r->module = stack->weights[at].name;
            r->layer = at >= 1 && at <= NIB_PARTS * p->layers ? (int)((at - 1) / NIB_PARTS) : -1;
            break;
        default: break;
        }
    }
}

/* By sequence: `width` elements of each token. */
static enum nib_status compare_tokens(const struct measuring *m, size_t width, const double *x, const double *q,
                                      struct nib_likeness **out, struct nib_error *error) {
    size_t sequences = m->request->sequences, count = m->request->length * width;
    struct nib_likeness *part = nib_alloc(sequences, sizeof *part, "sums of the residual stream", error);
    if (part == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < sequences; i++) nib_likeness_f64(&part[i], count, x + i * count, q + i * count);
    *out = part;
    return NIB_OK;
}

/* The gains of a layer, on the way up and on the way down: q and k only weigh. */
static double layer_gain(const struct measuring *m, size_t layer, enum nib_pass pass, enum nib_depth_quantity q) {
    double gate = product_at(m, layer, NIB_MODULE_GATE, pass)->value[q].value;
    double up = product_at(m, layer, NIB_MODULE_UP, pass)->value[q].value;
    double both = pass == NIB_PASS_FPROP ? gate * up : (gate + up) / 2; /* gradients of gate and up add */
    return product_at(m, layer, NIB_MODULE_V, pass)->value[q].value *
           product_at(m, layer, NIB_MODULE_O, pass)->value[q].value * both *
           product_at(m, layer, NIB_MODULE_DOWN, pass)->value[q].value;
}

static enum nib_status stream_at(const struct measuring *m, struct nib_depth_record *record, const double *exact,
                                 const double *result, struct nib_error *error) {
    size_t hidden = m->request->stack->config.hidden,
           at = (size_t)record->layer * m->request->sequences * m->request->length * hidden;
    struct nib_likeness *part = NULL;
    enum nib_status status = compare_tokens(m, hidden, exact + at, result + at, &part, error);
    if (status != NIB_OK) return status;
    record->value[NIB_DEPTH_gain] = nib_likeness_estimate(part, m->request->sequences, nib_likeness_gain);
    record->value[NIB_DEPTH_norm_ratio] = nib_likeness_estimate(part, m->request->sequences, nib_likeness_norm);
    record->value[NIB_DEPTH_cosine] = nib_likeness_estimate(part, m->request->sequences, nib_likeness_cosine);
    free(part);
    return NIB_OK;
}

static enum nib_status streams(const struct measuring *m, struct nib_error *error) {
    struct nib_depth_record *record = m->records + m->plan.first[NIB_DEPTH_STREAM];
    size_t layers = m->plan.layers, down = m->request->run->backward ? layers + 1 : 0;
    bool products = m->request->products;
    enum nib_status status = NIB_OK;
    double predicted = 1, measured = 1;
    for (size_t i = 0; status == NIB_OK && i < layers + down; i++, record++) {
        bool gradient = i >= layers;
        status = gradient
                     ? stream_at(m, record, m->request->reference->hidden_gradient, m->result->hidden_gradient, error)
                     : stream_at(m, record, m->request->reference->hidden, m->result->hidden, error);
        if (!products) continue;
        if (i == layers) predicted = measured = 1;
        if (i != layers) {
            enum nib_pass pass = gradient ? NIB_PASS_DGRAD : NIB_PASS_FPROP;
            size_t layer = gradient ? (size_t)record->layer : i;
            predicted *= layer_gain(m, layer, pass, NIB_DEPTH_eta_predicted);
            measured *= layer_gain(m, layer, pass, NIB_DEPTH_eta_measured);
        }
        record->value[NIB_DEPTH_product_predicted].value = predicted;
        record->value[NIB_DEPTH_product_measured].value = measured;
    }
    return status;
}

static void put_weight(struct nib_depth_record *record, const struct nib_likeness *l) {
    record->value[NIB_DEPTH_alpha].value = nib_likeness_gain(l);
    record->value[NIB_DEPTH_norm_ratio].value = nib_likeness_norm(l);
    record->value[NIB_DEPTH_cosine].value = nib_likeness_cosine(l);
    record->value[NIB_DEPTH_sqnr_db].value = nib_likeness_sqnr(l);
    record->value[NIB_DEPTH_stall].value = nib_likeness_stall(l);
}

/* Gradients of weights, and of all linear ones together. */
static void weights(const struct measuring *m) {
    const struct nib_stack *stack = m->request->stack;
    struct nib_likeness all = {0};
    for (size_t w = 0; w < stack->count; w++) {
        struct nib_likeness one = {0};
        nib_likeness_f64(&one, stack->weights[w].rows * stack->weights[w].cols, m->request->reference->gradient[w],
                         m->result->gradient[w]);
        put_weight(&m->records[m->plan.first[NIB_DEPTH_WEIGHT] + w], &one);
        if (w >= 1 && w <= NIB_PARTS * m->plan.layers && !stack->weights[w].is_vector) nib_likeness_add(&all, &one);
    }
    struct nib_depth_record *summary = m->records;
    summary->value[NIB_DEPTH_weight_alpha].value = nib_likeness_gain(&all);
    summary->value[NIB_DEPTH_weight_cosine].value = nib_likeness_cosine(&all);
    summary->value[NIB_DEPTH_stall].value = nib_likeness_stall(&all);
}

/* Mean over sequences and its standard error. */
static struct nib_estimate mean_of(size_t count, const double *value) {
    double mean = 0, square = 0;
    for (size_t i = 0; i < count; i++) mean += value[i] / (double)count;
    for (size_t i = 0; i < count; i++) square += (value[i] - mean) * (value[i] - mean);
    return (struct nib_estimate){mean, count < 2 ? NAN : sqrt(square / ((double)count - 1) / (double)count)};
}

static enum nib_status losses(const struct measuring *m, struct nib_error *error) {
    size_t sequences = m->request->sequences, length = m->request->length;
    double *own = nib_alloc(3 * sequences, sizeof *own, "losses", error), *reference = own + sequences;
    if (own == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < sequences * length; i++) {
        own[i / length] += m->result->token_loss[i] / (double)length;
        reference[i / length] += m->request->reference->token_loss[i] / (double)length;
    }
    for (size_t i = 0; i < sequences; i++) own[2 * sequences + i] = own[i] - reference[i];
    m->records->value[NIB_DEPTH_loss] = mean_of(sequences, own);
    m->records->value[NIB_DEPTH_loss_reference] = mean_of(sequences, reference);
    m->records->value[NIB_DEPTH_loss_change] = mean_of(sequences, own + 2 * sequences);
    if (m->request->loss_change != NULL)
        memcpy(m->request->loss_change, own + 2 * sequences, sequences * sizeof *own);
    free(own);
    return NIB_OK;
}

/* The mean of a quantity over the records of a part, over quantized layers alone. */
static double average(const struct measuring *m, enum nib_depth_part part, int pass, enum nib_depth_quantity q) {
    double sum = 0;
    size_t count = 0;
    for (size_t i = m->plan.first[part]; i < m->plan.first[part + 1]; i++) {
        const struct nib_depth_record *r = &m->records[i];
        if ((pass >= 0 && r->pass != pass) || !isfinite(r->value[q].value)) continue;
        if (part == NIB_DEPTH_OPERAND && r->quantizer == NULL) continue;
        sum += r->value[q].value;
        count++;
    }
    return count == 0 ? NAN : sum / (double)count;
}

static void summarize(const struct measuring *m) {
    struct nib_depth_record *s = m->records;
    static const enum nib_depth_quantity of_stream[] = {NIB_DEPTH_gain, NIB_DEPTH_norm_ratio, NIB_DEPTH_cosine,
                                                        NIB_DEPTH_product_predicted, NIB_DEPTH_product_measured};
    const struct nib_depth_record *top = &m->records[m->plan.first[NIB_DEPTH_STREAM] + m->plan.layers - 1];
    for (size_t i = 0; i < sizeof of_stream / sizeof *of_stream; i++) s->value[of_stream[i]] = top->value[of_stream[i]];
    if (m->request->run->backward) {
        const struct nib_depth_record *bottom = &m->records[m->plan.first[NIB_DEPTH_OPERAND] - 1];
        s->value[NIB_DEPTH_gradient_gain] = bottom->value[NIB_DEPTH_gain];
        s->value[NIB_DEPTH_gradient_cosine] = bottom->value[NIB_DEPTH_cosine];
    }
    if (!m->request->products) return;
    static const enum nib_depth_quantity by_pass[] = {NIB_DEPTH_fprop_sqnr_db, NIB_DEPTH_dgrad_sqnr_db,
                                                      NIB_DEPTH_wgrad_sqnr_db};
    for (int pass = 0; pass < (int)m->plan.passes; pass++)
        s->value[by_pass[pass]].value = average(m, NIB_DEPTH_PRODUCT, pass, NIB_DEPTH_sqnr_db);
    static const enum nib_depth_quantity means[] = {NIB_DEPTH_alpha, NIB_DEPTH_sqnr_db, NIB_DEPTH_b_eff,
                                                    NIB_DEPTH_rotation_gain_db};
    for (size_t i = 0; i < sizeof means / sizeof *means; i++)
        s->value[means[i]].value = average(m, NIB_DEPTH_OPERAND, -1, means[i]);
}

enum nib_status nib_depth_measure(const struct nib_depth_request *request, struct nib_depth_record **out,
                                  struct nib_error *error) {
    struct measuring m = {.request = request,
                          .plan = plan_of(request->stack, request->run->backward, request->products)};
    struct nib_stack_result result = {0};
    m.records = nib_alloc(m.plan.first[NIB_DEPTH_PARTS], sizeof *m.records, "measures of a stack", error);
    if (m.records == NULL) return NIB_ENOMEM;
    name_records(&m);
    struct nib_depth_observer observer = {.request = request,
                                          .operands = m.records + m.plan.first[NIB_DEPTH_OPERAND],
                                          .products = m.records + m.plan.first[NIB_DEPTH_PRODUCT],
                                          .slots = (unsigned)m.plan.slots,
                                          .passes = (unsigned)m.plan.passes};
    struct nib_linear_observer linear = {&observer, true, nib_depth_see_operand, nib_depth_see_product};
    struct nib_stack_run run = *request->run;
    run.linear.observer = request->products ? &linear : NULL;
    enum nib_status status =
        nib_stack_execute(request->stack, &run, request->tokens, request->sequences, request->length, &result, error);
    nib_depth_observer_clear(&observer);
    struct nib_fpenv saved = nib_fpenv_enter();
    m.result = &result;
    if (status == NIB_OK) status = losses(&m, error);
    if (status == NIB_OK) status = streams(&m, error);
    if (status == NIB_OK && request->run->backward) weights(&m);
    if (status == NIB_OK) summarize(&m);
    nib_fpenv_leave(saved);
    nib_stack_result_clear(&result);
    if (status == NIB_OK)
        *out = m.records;
    else
        free(m.records);
    return status;
}
