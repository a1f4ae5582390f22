#include "stack/depth_observe.h"

#include "base/memory.h"
#include "gemm/blas.h"
#include "stack/recipe.h"
#include <stdlib.h>
#include <string.h>

enum { ROW_BATCHES = 32 };

void nib_depth_observer_clear(struct nib_depth_observer *o) {
    for (int i = 0; i < 2; i++) {
        free(o->side[i].raw);
        free(o->side[i].rotated);
        o->side[i] = (struct nib_depth_side){0};
    }
}

static const struct nib_recipe *recipe_of(const struct nib_depth_observer *o) { return o->request->run->linear.recipe; }

static struct nib_depth_record *operand_at(struct nib_depth_observer *o, unsigned layer, int module, int slot) {
    return &o->operands[((size_t)layer * NIB_MODULES + (size_t)module) * o->slots + (size_t)slot];
}
static struct nib_depth_record *product_at(struct nib_depth_observer *o, unsigned layer, int module, int pass) {
    return &o->products[((size_t)layer * NIB_MODULES + (size_t)module) * o->passes + (size_t)pass];
}

/* Runs of rows, for standard errors. */
struct batches {
    struct nib_likeness part[ROW_BATCHES];
    size_t count;
};
static struct batches compare_rows(size_t rows, size_t cols, const float *x, const float *q) {
    struct batches b = {.count = rows < ROW_BATCHES ? rows : ROW_BATCHES};
    for (size_t i = 0; i < b.count; i++) {
        size_t from = i * rows / b.count, to = (i + 1) * rows / b.count;
        nib_likeness_plain(&b.part[i], (to - from) * cols, x + from * cols, q + from * cols);
    }
    return b;
}

/* A matrix through the operand's quantizer, after a rotation or not. */
struct rendition {
    const float *presented, *values; /* borrowed, or `memory` */
    const struct nib_quantized *quantized;
    float *memory;
    struct nib_quantized own;
};
static void rendition_clear(struct rendition *r) {
    free(r->memory);
    if (r->quantized == &r->own) nib_quantized_free(&r->own);
}

static enum nib_status render(const struct nib_depth_observer *o, const struct nib_operand_event *event,
                              const struct nib_rotation *rotation, struct rendition *out, struct nib_error *error) {
    int threads = o->request->run->threads;
    struct nib_view view = {event->original, NIB_F32, event->rows, event->cols, event->cols};
    enum nib_status status = NIB_OK;
    if (rotation != NULL) {
        out->memory = nib_alloc_raw(event->rows * event->cols, sizeof *out->memory, "a rotated operand", error);
        if (out->memory == NULL) return NIB_ENOMEM;
        status = nib_rotate(rotation, view, event->axis, threads, out->memory, error);
        view.data = out->memory;
    }
    out->presented = out->values = view.data;
    if (status != NIB_OK || event->quantizer == NULL) return status;
    unsigned want = NIB_WANT_VALUES | NIB_WANT_SCALES | NIB_WANT_CODES;
    status = nib_quantized_alloc(event->quantizer, event->rows, event->cols, event->axis, want, &out->own, error);
    if (status != NIB_OK) return status;
    out->quantized = &out->own;
    struct nib_quantize_options options = {
        .axis = event->axis, .seed = o->request->run->linear.seed, .threads = threads};
    status = nib_quantize(event->quantizer, view, &options, &out->own, error);
    out->values = out->own.values;
    return status;
}

/* What the quantizer did, as far as it is not a matter of values alone. */
static enum nib_status use_of_levels(const struct nib_depth_observer *o, const struct nib_operand_event *event,
                                     const float *presented, const struct nib_quantized *quantized,
                                     struct nib_estimate out[NIB_STATISTICS], struct nib_error *error) {
    struct nib_measurement *m = nib_alloc(1, sizeof *m, "a measurement", error);
    if (m == NULL) return NIB_ENOMEM;
    struct nib_view view = {presented, NIB_F32, event->rows, event->cols, event->cols};
    struct nib_measure_options options = {.threads = o->request->run->threads};
    enum nib_status status = nib_measure(event->quantizer, view, quantized, &options, m, error);
    if (status == NIB_OK) nib_measurement_estimates(m, out);
    free(m);
    return status;
}

/* Keeps a copy of the values for the product that follows. */
static enum nib_status keep(float **to, const struct nib_operand_event *event, const float *values,
                            struct nib_error *error) {
    size_t count = event->rows * event->cols;
    free(*to);
    *to = nib_alloc_raw(count, sizeof **to, "an operand", error);
    if (*to == NULL) return NIB_ENOMEM;
    memcpy(*to, values, count * sizeof **to);
    return NIB_OK;
}

/* The rotation that raw and rotated differ by; NULL where there is none or groups do not fit. */
static const struct nib_rotation *rotation_of(const struct nib_depth_observer *o, const struct nib_operand_event *event) {
    const struct nib_rotation *own = recipe_of(o)->pass[nib_slot_pass(event->slot)].rotation;
    const struct nib_rotation *rotation = own != NULL ? own : o->request->rotation;
    size_t extent = event->axis == NIB_ALONG_COLS ? event->cols : event->rows;
    return rotation == NULL || extent % nib_rotation_size(rotation) != 0 ? NULL : rotation;
}

/* The same operand without and with a rotation; what the run itself did is not done again. */
static enum nib_status turn(struct nib_depth_observer *o, const struct nib_operand_event *event,
                            const struct nib_estimate *levels, struct nib_depth_record *record,
                            struct nib_error *error) {
    struct nib_depth_side *side = &o->side[event->slot % 2];
    const struct nib_rotation *rotation = rotation_of(o, event);
    const struct nib_recipe *recipe = recipe_of(o);
    const struct nib_pass_rule *rule = &recipe->pass[nib_slot_pass(event->slot)];
    bool fixed = rule->rotation != NULL && rule->signs == NIB_SIGNS_FIXED;
    bool simple = recipe->slot[event->slot].source == NIB_SOURCE_ORIGINAL && recipe->slot[event->slot].factor == 1 &&
                  recipe->slot[event->slot].quantile == 0;
    *side = (struct nib_depth_side){side->raw, side->rotated, event->rows, event->cols, event->quantizer != NULL};
    struct batches batches[2];
    enum nib_status status = NIB_OK;
    for (int rotated = 0; status == NIB_OK && rotated < 2; rotated++) {
        if (rotated && rotation == NULL) break;
        struct rendition r = {0};
        bool own = event->quantized != NULL &&
                   (rotated ? fixed && simple : event->presented == event->original && rule->rotation == NULL);
        if (own)
            r.presented = event->presented, r.values = event->quantized->values, r.quantized = event->quantized;
        else
            status = render(o, event, rotated ? rotation : NULL, &r, error);
        if (status == NIB_OK && event->quantizer != NULL) {
            struct nib_estimate statistics[NIB_STATISTICS];
            if (own)
                memcpy(statistics, levels, sizeof statistics);
            else
                status = use_of_levels(o, event, r.presented, r.quantized, statistics, error);
            batches[rotated] = compare_rows(event->rows, event->cols, r.presented, r.values);
            record->value[rotated ? NIB_DEPTH_rotated_sqnr_db : NIB_DEPTH_raw_sqnr_db] =
                nib_likeness_estimate(batches[rotated].part, batches[rotated].count, nib_likeness_sqnr);
            if (status == NIB_OK)
                record->value[rotated ? NIB_DEPTH_rotated_b_eff : NIB_DEPTH_raw_b_eff] =
                    statistics[NIB_STATISTIC_b_eff];
        }
        if (status == NIB_OK) status = keep(rotated ? &side->rotated : &side->raw, event, r.values, error);
        rendition_clear(&r);
    }
    if (rotation == NULL) {
        free(side->rotated);
        side->rotated = NULL;
    } else if (status == NIB_OK && event->quantizer != NULL) {
        record->value[NIB_DEPTH_rotation_gain_db] =
            nib_likeness_difference(batches[1].part, batches[0].part, batches[0].count, nib_likeness_sqnr);
    }
    return status;
}

static enum nib_status see_quantized(struct nib_depth_observer *o, const struct nib_operand_event *event,
                                     struct nib_depth_record *record, struct nib_error *error) {
    struct nib_estimate levels[NIB_STATISTICS];
    enum nib_status status = use_of_levels(o, event, event->presented, event->quantized, levels, error);
    if (status != NIB_OK) return status;
    static const struct {
        enum nib_depth_quantity to;
        enum nib_statistic from;
    } same[] = {{NIB_DEPTH_b, NIB_STATISTIC_b},         {NIB_DEPTH_b_relative, NIB_STATISTIC_b_relative},
                {NIB_DEPTH_b_eff, NIB_STATISTIC_b_eff}, {NIB_DEPTH_crest, NIB_STATISTIC_crest},
                {NIB_DEPTH_underflow, NIB_STATISTIC_underflow}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) record->value[same[i].to] = levels[same[i].from];
    struct batches batches = compare_rows(event->rows, event->cols, event->presented, event->quantized->values);
    record->value[NIB_DEPTH_alpha] = nib_likeness_estimate(batches.part, batches.count, nib_likeness_gain);
    record->value[NIB_DEPTH_sqnr_db] = nib_likeness_estimate(batches.part, batches.count, nib_likeness_sqnr);
    return turn(o, event, levels, record, error);
}

enum nib_status nib_depth_see_operand(void *self, const struct nib_operand_event *event, struct nib_error *error) {
    struct nib_depth_observer *o = self;
    struct nib_depth_record *record = operand_at(o, event->layer, event->module, event->slot);
    record->quantizer = event->quantizer;
    if (recipe_of(o) == NULL) return NIB_OK;
    if (event->quantized != NULL && event->quantizer != NULL) return see_quantized(o, event, record, error);
    /* High precision, or forward values that are used as they are. */
    if (event->quantizer == NULL) {
        struct batches batches = compare_rows(event->rows, event->cols, event->presented, event->used);
        record->value[NIB_DEPTH_alpha] = nib_likeness_estimate(batches.part, batches.count, nib_likeness_gain);
    } else {
        record->value[NIB_DEPTH_alpha].value = 1;
    }
    return turn(o, event, NULL, record, error);
}

/* What the operand is worth against the high-precision tensor: forward values that are quantized again lose twice. */
static double alpha_of(struct nib_depth_observer *o, const struct nib_product_event *event, enum nib_slot slot) {
    double alpha = operand_at(o, event->layer, event->module, slot)->value[NIB_DEPTH_alpha].value;
    const struct nib_recipe *recipe = recipe_of(o);
    enum nib_slot forward = nib_slot_forward(slot);
    if (forward == NIB_SLOTS || forward == slot || recipe->slot[slot].source == NIB_SOURCE_ORIGINAL) return alpha;
    bool same_codes = recipe->slot[slot].source == NIB_SOURCE_SAME &&
                      !isnan(operand_at(o, event->layer, event->module, slot)->value[NIB_DEPTH_sqnr_db].value);
    return same_codes ? alpha
                      : alpha * operand_at(o, event->layer, event->module, forward)->value[NIB_DEPTH_alpha].value;
}

/* Parts of an output for standard errors: its sequences; a weight's gradient is one. */
static size_t parts_of(const struct nib_depth_observer *o, const struct nib_product_event *event) {
    return event->pass == NIB_PASS_WGRAD ? 1 : o->request->sequences;
}

static enum nib_status compare_output(const struct nib_depth_observer *o, const struct nib_product_event *event,
                                      const float *output, struct nib_likeness **out, struct nib_error *error) {
    size_t parts = parts_of(o, event), rows = event->rows / parts;
    struct nib_likeness *part = nib_alloc(parts, sizeof *part, "sums of an output", error);
    if (part == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < parts; i++)
        nib_likeness_f32(&part[i], rows * event->cols, event->exact + i * rows * event->cols,
                         output + i * rows * event->cols);
    *out = part;
    return NIB_OK;
}

/* The output of raw or rotated operands, in binary32. */
static void multiply(const struct nib_depth_observer *o, const struct nib_product_event *event, const float *a,
                     const float *b, float *out) {
    bool a_across = event->pass == NIB_PASS_WGRAD, b_across = event->pass != NIB_PASS_FPROP;
    size_t m = event->rows, n = event->cols, k = a_across ? o->side[0].rows : o->side[0].cols;
    nib_blas_sgemm(a_across, !b_across, m, n, k, 1, a, a_across ? m : k, b, b_across ? n : k, 0, out, n,
                   o->request->run->threads);
}

static enum nib_status turn_output(const struct nib_depth_observer *o, const struct nib_product_event *event,
                                   struct nib_depth_record *record, struct nib_error *error) {
    struct nib_likeness *part[2] = {NULL, NULL};
    float *out = nib_alloc_raw(event->rows * event->cols, sizeof *out, "an output", error);
    enum nib_status status = out == NULL ? NIB_ENOMEM : NIB_OK;
    for (int rotated = 0; status == NIB_OK && rotated < 2; rotated++) {
        const float *a = rotated ? o->side[0].rotated : o->side[0].raw,
                    *b = rotated ? o->side[1].rotated : o->side[1].raw;
        if (a == NULL || b == NULL) break;
        multiply(o, event, a, b, out);
        status = compare_output(o, event, out, &part[rotated], error);
        if (status == NIB_OK)
            record->value[rotated ? NIB_DEPTH_rotated_sqnr_db : NIB_DEPTH_raw_sqnr_db] =
                nib_likeness_estimate(part[rotated], parts_of(o, event), nib_likeness_sqnr);
    }
    if (status == NIB_OK && part[0] != NULL && part[1] != NULL)
        record->value[NIB_DEPTH_rotation_gain_db] =
            nib_likeness_difference(part[1], part[0], parts_of(o, event), nib_likeness_sqnr);
    free(part[0]);
    free(part[1]);
    free(out);
    return status;
}

enum nib_status nib_depth_see_product(void *self, const struct nib_product_event *event, struct nib_error *error) {
    struct nib_depth_observer *o = self;
    struct nib_depth_record *record = product_at(o, event->layer, event->module, event->pass);
    enum nib_slot a = (enum nib_slot)(2 * event->pass), b = (enum nib_slot)(2 * event->pass + 1);
    struct nib_likeness *part = NULL;
    enum nib_status status = compare_output(o, event, event->output, &part, error);
    if (status != NIB_OK) return status;
    record->value[NIB_DEPTH_eta_measured] = nib_likeness_estimate(part, parts_of(o, event), nib_likeness_gain);
    record->value[NIB_DEPTH_sqnr_db] = nib_likeness_estimate(part, parts_of(o, event), nib_likeness_sqnr);
    free(part);
    record->value[NIB_DEPTH_eta_predicted].value =
        recipe_of(o) == NULL ? 1 : alpha_of(o, event, a) * alpha_of(o, event, b);
    if (recipe_of(o) != NULL && (o->side[0].quantized || o->side[1].quantized))
        status = turn_output(o, event, record, error);
    o->done++;
    if (o->request->progress != NULL) o->request->progress(o->request->context, 1);
    return status;
}
