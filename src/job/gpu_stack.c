#include "job/gpu_stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/table.h"
#include "core/convert.h"
#include "format/quantizer.h"
#include "job/gpu_compare.h"
#include "job/gpu_report.h"
#include "rotate/rotation.h"
#include "stack/linear.h"

static const struct nib_column columns[NIB_GPU_STACK_COLUMNS] = {
    {"recipe", "Recipe", "", "recipe", NIB_COLUMN_TEXT, 0},
    {"part", "Part", "", "rotate, quantize or product", NIB_COLUMN_TEXT, 0},
    {"layer", "Layer", "1", "layer, from 0", NIB_COLUMN_INTEGER, 0},
    {"module", "Module", "", "linear layer within its layer", NIB_COLUMN_TEXT, 0},
    {"slot", "Slot", "", "operand of a GEMM, or the GEMM", NIB_COLUMN_TEXT, 0},
    {"name", "Name", "", "rotation, quantizer or matrix unit", NIB_COLUMN_TEXT, 0},
    {"compared", "Compared", "1", "values or outputs compared", NIB_COLUMN_INTEGER, 0},
    {"tensor_scale_differences", "Tensor", "1", "tensor amax and tensor scales that differ", NIB_COLUMN_INTEGER, 0},
    {"scale_differences", "Scales", "1", "block scales that differ", NIB_COLUMN_INTEGER, 0},
    {"code_differences", "Codes", "1", "codes that differ", NIB_COLUMN_INTEGER, 0},
    {"byte_differences", "Bytes", "1", "packed bytes that differ", NIB_COLUMN_INTEGER, 0},
    {"value_differences", "Values", "1", "values or outputs that differ in a bit; NaN equals NaN", NIB_COLUMN_INTEGER, 0},
    {"result", "Result", "", "equal, DIFFERS, or why nothing was compared", NIB_COLUMN_TEXT, 0},
    {"first", "First difference", "", "place of the first difference, and both values; or the reason", NIB_COLUMN_TEXT, 0},
};
static const char part_rotate[] = "rotate", part_quantize[] = "quantize", part_product[] = "product";

/* What the observer of one recipe's run knows. */
struct checker {
    const struct nib_gpu_stack_request *request;
    const struct nib_recipe *recipe;
    struct nib_table *report;
    struct side {
        uint16_t *codes; /* bf16, `lines` lines of k along the reduction axis; NULL where there are none */
        size_t lines, k;
    } side[2];           /* of the product that comes next: A and B */
    size_t done, total;
};

struct row {
    const char *part;
    unsigned layer;
    enum nib_module module;
    const char *slot, *name;
};

static enum nib_status put(struct checker *c, const struct row *at, const struct nib_gpu_counts *counts,
                           const char *result, const char *first, struct nib_error *error) {
    size_t row = nib_table_row(c->report);
    if (row == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "gpu check: out of memory");
    const uint64_t numbers[] = {counts->compared, counts->tensor, counts->scales,
                                counts->codes,    counts->bytes,  counts->values};
    nib_table_set_text(c->report, row, NIB_GPU_STACK_RECIPE, nib_recipe_name(c->recipe));
    nib_table_set_text(c->report, row, NIB_GPU_STACK_PART, at->part);
    nib_table_set_integer(c->report, row, NIB_GPU_STACK_LAYER, at->layer);
    nib_table_set_text(c->report, row, NIB_GPU_STACK_MODULE, nib_module_name(at->module));
    nib_table_set_text(c->report, row, NIB_GPU_STACK_SLOT, at->slot);
    nib_table_set_text(c->report, row, NIB_GPU_STACK_NAME, at->name);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        nib_table_set_integer(c->report, row, NIB_GPU_STACK_COMPARED + i, (int64_t)numbers[i]);
    nib_table_set_text(c->report, row, NIB_GPU_STACK_RESULT, result);
    nib_table_set_text(c->report, row, NIB_GPU_STACK_FIRST, first);
    return NIB_OK;
}

/* The row of a comparison that ended with `status`; what is no failure of the device comes back unchanged. */
static enum nib_status conclude(struct checker *c, const struct row *at, const struct nib_gpu_counts *counts,
                                enum nib_status status, struct nib_error *error) {
    const char *result = nib_gpu_counts_different(counts) > 0 ? NIB_GPU_DIFFERS : NIB_GPU_EQUAL;
    if (status == NIB_OK) return put(c, at, counts, result, counts->first, error);
    if (status != NIB_EIO && status != NIB_EUNAVAILABLE && status != NIB_EINVAL) return status;
    struct nib_error reason = error == NULL ? (struct nib_error){0} : *error;
    result = status == NIB_EUNAVAILABLE ? NIB_GPU_NOT_RUN : NIB_GPU_FAILED;
    status = put(c, at, &(struct nib_gpu_counts){0}, result, reason.text, error);
    if (status == NIB_OK && error != NULL) *error = (struct nib_error){0};
    return status;
}

/* ---- operands ---- */

/* Why the device cannot turn an operand as the recipe does, or NULL. */
static const char *describe_rotation(const struct nib_rotation *r, struct nib_gpu_rotation *out) {
    if (r->evaluation != NIB_EVALUATION_BUTTERFLY) return "no device kernel evaluates it like this from binary32";
    if (r->base != 1 || r->size < 16 || r->size > 256)
        return "rotations on the device have size 16, 32, 64, 128 or 256";
    if (r->inverse || r->flush || r->own_factor || r->normalization != NIB_NORMALIZATION_ORTHONORMAL ||
        r->stages != NIB_ROTATION_FP32)
        return "no device kernel follows its factor or its stages";
    memset(out, 0, sizeof *out);
    out->size = r->size;
    out->by = NIB_GPU_BUTTERFLY;
    out->round_to_bf16 = r->output == NIB_ROTATION_BF16;
    for (unsigned i = 0; i < r->size; i++) out->sign[i] = r->sign[i] < 0 ? -1 : 1;
    return NULL;
}

static enum nib_status check_rotation(struct checker *c, const struct nib_operand_event *e,
                                      const struct nib_linear_options *options, struct nib_error *error) {
    const struct nib_operand_rule *rule = &c->recipe->slot[e->slot];
    const struct nib_linear_call call = {.options = options, .recipe = c->recipe};
    const struct nib_rotation *rotation;
    struct nib_gpu_rotation device;
    struct nib_gpu_counts counts = {0};
    bool own;
    /* The operand before the rotation is known where it is the tensor itself. */
    if (rule->source != NIB_SOURCE_ORIGINAL || rule->quantile > 0 || rule->factor != 1) return NIB_OK;
    enum nib_status status = nib_linear_rotation(&call, nib_slot_pass(e->slot), &rotation, &own, error);
    if (status != NIB_OK || rotation == NULL) return status;
    struct row at = {part_rotate, e->layer, e->module, nib_slot_name(e->slot), nib_rotation_name(rotation)};
    const char *why = describe_rotation(rotation, &device);
    if (why != NULL) {
        status = put(c, &at, &counts, NIB_GPU_NOT_RUN, why, error);
    } else {
        struct nib_view x = {e->original, NIB_F32, e->rows, e->cols, e->cols};
        status = nib_gpu_compare_turned(c->request->gpu, &device, e->axis, x, e->presented, &counts, error);
        status = conclude(c, &at, &counts, status, error);
    }
    if (own) nib_rotation_close(rotation);
    return status;
}

static enum nib_status check_quantizer(struct checker *c, const struct nib_operand_event *e,
                                       const struct nib_linear_options *options, struct nib_error *error) {
    const struct nib_operand_rule *rule = &c->recipe->slot[e->slot];
    struct row at = {part_quantize, e->layer, e->module, nib_slot_name(e->slot), e->quantizer->name};
    struct nib_gpu_counts counts = {0};
    struct nib_gpu_quantizer device;
    if (rule->method != NIB_METHOD_NONE)
        return put(c, &at, &counts, "not compared", "its codes are fitted to the inputs, not rounded", error);
    enum nib_status status = nib_gpu_describe_quantizer(e->quantizer, e->axis, &device, error);
    if (status == NIB_OK) {
        unsigned purpose = rule->source == NIB_SOURCE_SAME ? nib_slot_forward(e->slot) : e->slot;
        struct nib_view x = {e->presented, NIB_F32, e->rows, e->cols, e->cols};
        device.seed = nib_linear_draw(options, purpose);
        status = nib_gpu_compare_made(c->request->gpu, &device, x, false, 0, e->quantized, &counts, NULL, error);
    }
    return conclude(c, &at, &counts, status, error);
}

/* Keeps what enters the product, in bf16, as the units take it. */
static enum nib_status keep(struct side *side, const struct nib_operand_event *e, struct nib_error *error) {
    const bool across = e->axis == NIB_ALONG_ROWS;
    free(side->codes);
    side->lines = across ? e->cols : e->rows;
    side->k = across ? e->rows : e->cols;
    side->codes = nib_alloc_raw(side->lines * side->k, sizeof *side->codes, "an operand in bf16", error);
    if (side->codes == NULL) return NIB_ENOMEM;
    for (size_t line = 0; line < side->lines; line++)
        for (size_t i = 0; i < side->k; i++) {
            float x = across ? e->used[i * e->cols + line] : e->used[line * e->cols + i];
            side->codes[line * side->k + i] = nib_bf16_of_bits(nib_bits_of_float(x));
        }
    return NIB_OK;
}

static enum nib_status see_operand(void *self, const struct nib_operand_event *e, struct nib_error *error) {
    struct checker *c = self;
    const struct nib_linear_options options = {.seed = c->request->seed, .layer = e->layer, .module = e->module};
    enum nib_status status = check_rotation(c, e, &options, error);
    if (status == NIB_OK && e->quantizer != NULL && e->quantized != NULL)
        status = check_quantizer(c, e, &options, error);
    return status == NIB_OK ? keep(&c->side[e->slot % 2], e, error) : status;
}

/* ---- products ---- */

/* What follows the product before anybody sees it, or NULL. */
static const char *follows(const struct nib_recipe *r, enum nib_pass pass) {
    if (pass == NIB_PASS_FPROP) return r->slot[NIB_SLOT_FPROP_X].residual ? "a side product was added to it" : NULL;
    enum nib_slot weight = pass == NIB_PASS_DGRAD ? NIB_SLOT_DGRAD_W : NIB_SLOT_WGRAD_X;
    if (nib_recipe_inherits(r, weight)) return "it was rotated back";
    if (r->slot[pass == NIB_PASS_DGRAD ? NIB_SLOT_FPROP_X : NIB_SLOT_FPROP_W].mask) return "it was masked";
    return pass == NIB_PASS_WGRAD && r->pass[pass].surrogate != 0 ? "it was multiplied by the estimator's factor"
                                                                  : NULL;
}

static void compare_product(const float *device, const struct nib_product_event *e, struct nib_gpu_counts *counts) {
    counts->compared += e->rows * e->cols;
    for (size_t i = 0; i < e->rows * e->cols; i++) {
        uint32_t got = nib_bits_of_float(device[i]), want = nib_bits_of_float(e->output[i]);
        if (got == want || (nib_bits_are_nan(got) && nib_bits_are_nan(want))) continue;
        counts->values++;
        nib_gpu_counts_note(counts, "output (%zu, %zu) of %zux%zu: device %08X, model %08X", i / e->cols, i % e->cols,
                            e->rows, e->cols, got, want);
    }
}

static enum nib_status see_product(void *self, const struct nib_product_event *e, struct nib_error *error) {
    struct checker *c = self;
    const struct side *a = &c->side[0], *b = &c->side[1];
    struct row at = {part_product, e->layer, e->module, nib_pass_name(e->pass), e->unit == NULL ? "" : e->unit->name};
    struct nib_gpu_counts counts = {0};
    char instruction[64], why[160];
    const char *changed = follows(c->recipe, e->pass);
    if (c->request->progress != NULL)
        c->request->progress(c->request->context, nib_recipe_name(c->recipe), c->done, c->total);
    c->done++;
    if (changed != NULL) return put(c, &at, &counts, "not compared", changed, error);
    float *device = nib_alloc_raw(e->rows * e->cols, sizeof *device, "a product", error);
    if (device == NULL) return NIB_ENOMEM;
    enum nib_status status = nib_gpu_stack_multiply(c->request->gpu, e->unit, e->rows, e->cols, a->k, a->codes,
                                                    b->codes, device, instruction, error);
    if (status == NIB_OK && instruction[0] == '\0') {
        snprintf(why, sizeof why, "no instruction here computes as %s", e->unit->name);
        status = put(c, &at, &counts, NIB_GPU_NOT_RUN, why, error);
    } else {
        if (status == NIB_OK) {
            struct nib_fpenv saved = nib_fpenv_enter();
            for (size_t i = 0; i < e->rows * e->cols; i++) device[i] *= c->recipe->pass[e->pass].output_factor;
            nib_fpenv_leave(saved);
            compare_product(device, e, &counts);
        }
        status = conclude(c, &at, &counts, status, error);
    }
    free(device);
    return status;
}

enum nib_status nib_gpu_stack_run(const struct nib_gpu_stack_request *r, struct nib_table **out,
                                  struct nib_error *error) {
    const struct nib_stack_input *in = r->input;
    const struct nib_stack_request fits = {.input = in, .recipes = r->recipes, .recipe_count = r->recipe_count,
                                             .product = NIB_PRODUCT_UNIT, .backward = r->backward};
    struct nib_table *report;
    enum nib_status status = nib_stack_check(&fits, error);
    if (status == NIB_OK) status = nib_table_new("gpu_check_stack", columns, NIB_GPU_STACK_COLUMNS, &report, error);
    if (status != NIB_OK) return status;
    const size_t products = (size_t)in->config.layers * NIB_MODULES * (r->backward ? NIB_PASSES : 1);
    for (size_t i = 0; i < r->recipe_count && status == NIB_OK; i++) {
        struct checker checker = {.request = r, .recipe = r->recipes[i], .report = report, .done = i * products,
                                  .total = r->recipe_count * products};
        struct nib_linear_observer observer = {.self = &checker, .operand = see_operand, .product = see_product};
        struct nib_stack_run run = {.precision = NIB_STACK_F32, .backward = r->backward, .threads = r->threads,
                                    .linear = {.recipe = r->recipes[i], .product = NIB_PRODUCT_UNIT, .seed = r->seed,
                                               .threads = r->threads, .observer = &observer}};
        struct nib_stack_result result = {0};
        status = nib_stack_execute(in->stack, &run, in->tokens, in->sequences, in->length, &result, error);
        nib_stack_result_clear(&result);
        free(checker.side[0].codes);
        free(checker.side[1].codes);
    }
    if (status == NIB_OK)
        *out = report;
    else
        nib_table_free(report);
    return status;
}

/* ---- sums ---- */

enum { KEYS = 4 };
static const size_t keys[KEYS] = {NIB_GPU_STACK_RECIPE, NIB_GPU_STACK_PART, NIB_GPU_STACK_SLOT, NIB_GPU_STACK_NAME};

/* The row of the summary that `row` of the report belongs to, or SIZE_MAX. */
static size_t summary_row(const struct nib_table *summary, const struct nib_table *report, size_t row) {
    const bool ran = !nib_table_is(report, row, NIB_GPU_STACK_RESULT, NIB_GPU_NOT_RUN);
    for (size_t s = nib_table_rows(summary); s-- > 0;) {
        bool same = nib_table_is(summary, s, NIB_GPU_STACK_RESULT, NIB_GPU_NOT_RUN) != ran;
        for (size_t k = 0; k < KEYS && same; k++)
            same = nib_table_is(summary, s, keys[k], nib_table_text(report, row, keys[k]));
        if (same) return s;
    }
    return SIZE_MAX;
}

enum nib_status nib_gpu_stack_summary(const struct nib_table *report, struct nib_table **out, struct nib_error *error) {
    struct nib_table *summary;
    enum nib_status status = nib_table_new("gpu_check_stack_summary", columns, NIB_GPU_STACK_COLUMNS, &summary, error);
    if (status != NIB_OK) return status;
    for (size_t row = 0; row < nib_table_rows(report); row++) {
        size_t s = summary_row(summary, report, row);
        bool fresh = s == SIZE_MAX;
        if (fresh) s = nib_table_row(summary);
        if (s == SIZE_MAX) {
            nib_table_free(summary);
            return nib_fail(error, NIB_ENOMEM, "gpu check: out of memory");
        }
        for (size_t k = 0; k < KEYS; k++) nib_table_set_text(summary, s, keys[k], nib_table_text(report, row, keys[k]));
        nib_table_set_text(summary, s, NIB_GPU_STACK_MODULE, "all");
        nib_table_set_integer(summary, s, NIB_GPU_STACK_LAYER,
                              (fresh ? 0 : nib_table_integer(summary, s, NIB_GPU_STACK_LAYER)) + 1);
        for (size_t i = NIB_GPU_STACK_COMPARED; i <= NIB_GPU_STACK_VALUES; i++)
            nib_table_set_integer(summary, s, i,
                                  (fresh ? 0 : nib_table_integer(summary, s, i)) + nib_table_integer(report, row, i));
        if (fresh || (nib_table_is(summary, s, NIB_GPU_STACK_RESULT, NIB_GPU_EQUAL) &&
                      !nib_table_is(report, row, NIB_GPU_STACK_RESULT, NIB_GPU_EQUAL))) {
            nib_table_set_text(summary, s, NIB_GPU_STACK_RESULT, nib_table_text(report, row, NIB_GPU_STACK_RESULT));
            nib_table_set_text(summary, s, NIB_GPU_STACK_FIRST, nib_table_text(report, row, NIB_GPU_STACK_FIRST));
        }
    }
    *out = summary;
    return NIB_OK;
}
