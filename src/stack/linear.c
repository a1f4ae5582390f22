/* One linear layer: fprop, dgrad and wgrad as the recipe says. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "stack/linear.h"

void nib_linear_saved_free(struct nib_linear_saved *saved) {
    if (saved == NULL) return;
    for (int i = 0; i < 2; i++) {
        nib_linear_operand_clear(&saved->operand[i]);
        free(saved->mask[i]);
    }
    free(saved->surrogate);
    if (saved->own_rotation) nib_rotation_close(saved->rotation);
    free(saved);
}

static struct nib_linear_call begin(const struct nib_linear_options *o) {
    bool covered = o->recipe != NULL && nib_recipe_covers(o->recipe, o->layer, o->layers, o->module);
    return (struct nib_linear_call){.options = o, .recipe = covered ? o->recipe : NULL};
}

/* Every reduction axis that is not padded must hold whole groups of its rotation. */
static enum nib_status check(const struct nib_linear_call *call, size_t tokens, size_t in, size_t out, bool backward,
                             struct nib_error *error) {
    const struct nib_linear_options *o = call->options;
    const size_t extent[NIB_PASSES] = {in, out, tokens};
    static const char *const what[NIB_PASSES] = {"input channels", "output channels", "tokens"};
    if (tokens == 0 || in == 0 || out == 0)
        return nib_fail(error, NIB_EINVAL, "a linear layer of %zu tokens, %zu inputs and %zu outputs is empty", tokens,
                        in, out);
    for (int pass = 0; call->recipe != NULL && pass < (backward ? NIB_PASSES : 1); pass++) {
        const struct nib_rotation *rotation = call->recipe->pass[pass].rotation;
        unsigned size = rotation != NULL && !call->recipe->pass[pass].pad ? nib_rotation_size(rotation) : 1;
        if (extent[pass] % size != 0)
            return nib_fail(error, NIB_EINVAL,
                            "layers.%u.%s: recipe %s rotates the %zu %s of %s by %s in groups of %u; pad them to %zu",
                            o->layer, nib_module_name(o->module), nib_recipe_name(call->recipe), extent[pass],
                            what[pass], nib_pass_name((enum nib_pass)pass), nib_rotation_name(rotation), size,
                            (extent[pass] / size + 1) * size);
    }
    return NIB_OK;
}

static enum nib_status tell_operand(const struct nib_linear_options *o, const struct nib_linear_operand *p,
                                    struct nib_error *error) {
    if (o->observer == NULL || o->observer->operand == NULL) return NIB_OK;
    struct nib_operand_event event = {.layer = o->layer,
                                      .module = o->module,
                                      .slot = p->slot,
                                      .quantizer = p->quantizer,
                                      .axis = p->axis,
                                      .rows = p->rows,
                                      .cols = p->cols,
                                      .original = p->original,
                                      .presented = p->presented,
                                      .quantized = p->has_codes ? &p->quantized : NULL,
                                      .used = p->used};
    return o->observer->operand(o->observer->self, &event, error);
}

static enum nib_status tell_product(const struct nib_linear_options *o, const struct nib_linear_product *p,
                                    const float *output, struct nib_error *error) {
    const struct nib_linear_observer *observer = o->observer;
    if (observer == NULL || observer->product == NULL) return NIB_OK;
    double *exact = NULL;
    enum nib_status status = NIB_OK;
    if (observer->wants_exact) {
        exact = nib_alloc_raw(p->m * p->n, sizeof *exact, "the exact product", error);
        status = exact == NULL ? NIB_ENOMEM
                               : nib_linear_exact(p->pass, p->m, p->n, p->k, p->a->original, p->b->original, o->threads,
                                                  exact, error);
    }
    if (status == NIB_OK) {
        struct nib_product_event event = {.layer = o->layer,
                                          .module = o->module,
                                          .pass = p->pass,
                                          .rows = p->m,
                                          .cols = p->n,
                                          .output = output,
                                          .exact = exact,
                                          .unit = p->unit,
                                          .inexact = p->inexact};
        status = observer->product(observer->self, &event, error);
    }
    free(exact);
    return status;
}

static void end(const struct nib_linear_options *o, struct nib_linear_product *p) {
    if (p->unit != o->unit) nib_unit_close(p->unit);
}

static enum nib_status fit_weights(const struct nib_linear_call *call, struct nib_linear_operand operand[2],
                                   struct nib_error *error) {
    const struct nib_operand_rule *rule = &call->recipe->slot[NIB_SLOT_FPROP_W];
    int threads = call->options->threads;
    if (rule->method == NIB_METHOD_GPTQ)
        return nib_linear_gptq(&operand[0], rule->damping, threads, &operand[1], error);
    if (rule->method == NIB_METHOD_TERNARY)
        return nib_linear_ternary(&operand[0], rule->ternary_block, rule->ternary_iterations, threads, &operand[1],
                                  error);
    return NIB_OK;
}

static enum nib_status forward(const struct nib_linear_call *call, struct nib_linear_saved *saved,
                               struct nib_linear_operand operand[2], float *y, struct nib_error *error) {
    const struct nib_linear_options *o = call->options;
    size_t tokens = saved->tokens, in = saved->in, out = saved->out;
    enum nib_status status = nib_linear_rotation(call, NIB_PASS_FPROP, &saved->rotation, &saved->own_rotation, error);
    if (status == NIB_OK)
        status = nib_linear_prepare(call, NIB_SLOT_FPROP_X, saved->x, tokens, in, NULL, saved->rotation, &operand[0],
                                    error);
    if (status == NIB_OK)
        status =
            nib_linear_prepare(call, NIB_SLOT_FPROP_W, saved->w, out, in, NULL, saved->rotation, &operand[1], error);
    if (status == NIB_OK && call->recipe != NULL) status = fit_weights(call, operand, error);
    for (int i = 0; i < 2 && status == NIB_OK; i++) status = tell_operand(o, &operand[i], error);
    struct nib_linear_product product = {
        .pass = NIB_PASS_FPROP, .m = tokens, .n = out, .k = operand[0].cols, .a = &operand[0], .b = &operand[1]};
    if (status == NIB_OK) status = nib_linear_multiply(call, &product, y, error);
    if (status == NIB_OK && call->recipe != NULL && call->recipe->slot[NIB_SLOT_FPROP_X].residual)
        status = nib_linear_add_residual(&operand[0], &operand[1], y, o->threads, error);
    if (status == NIB_OK && o->bf16) nib_linear_round_bf16(y, tokens * out);
    if (status == NIB_OK) status = tell_product(o, &product, y, error);
    end(o, &product);
    return status;
}

/* Of the forward operands only what the backward pass takes from them stays. */
static void keep_values(const struct nib_recipe *recipe, struct nib_linear_saved *saved,
                        struct nib_linear_operand operand[2]) {
    static const enum nib_slot again[2] = {NIB_SLOT_WGRAD_X, NIB_SLOT_DGRAD_W};
    for (int i = 0; i < 2; i++)
        if (recipe != NULL && recipe->slot[again[i]].source != NIB_SOURCE_ORIGINAL) {
            saved->operand[i] = operand[i];
            operand[i] = (struct nib_linear_operand){.factor = 1};
        }
}

enum nib_status nib_linear_forward(const struct nib_linear_options *options, size_t tokens, size_t in, size_t out,
                                   const float *x, const float *w, float *y, struct nib_linear_saved **saved,
                                   struct nib_error *error) {
    struct nib_linear_call call = begin(options);
    enum nib_status status = check(&call, tokens, in, out, saved != NULL, error);
    if (status != NIB_OK) return status;
    struct nib_linear_saved *kept = nib_alloc(1, sizeof *kept, "a linear layer", error);
    float *result = nib_alloc_raw(tokens * out, sizeof *result, "the output of a linear layer", error);
    if (kept == NULL || result == NULL) {
        free(kept);
        free(result);
        return NIB_ENOMEM;
    }
    struct nib_fpenv environment = nib_fpenv_enter();
    kept->tokens = tokens, kept->in = in, kept->out = out;
    kept->x = x, kept->w = w;
    struct nib_linear_operand operand[2] = {{.factor = 1}, {.factor = 1}};
    status = forward(&call, kept, operand, result, error);
    if (status == NIB_OK && saved != NULL && call.recipe != NULL)
        status = nib_linear_keep(call.recipe, operand, kept, error);
    if (status == NIB_OK && saved != NULL) keep_values(call.recipe, kept, operand);
    nib_fpenv_leave(environment);
    for (int i = 0; i < 2; i++) nib_linear_operand_clear(&operand[i]);
    if (status == NIB_OK) memcpy(y, result, tokens * out * sizeof *y);
    free(result);
    if (status == NIB_OK && saved != NULL)
        *saved = kept;
    else
        nib_linear_saved_free(kept);
    return status;
}

/* What follows a product of the backward pass: mask, the way out of fprop's basis, the estimator's factor. */
static enum nib_status finish(const struct nib_linear_call *call, const struct nib_linear_saved *saved,
                              enum nib_pass pass, size_t rows, size_t cols, float *result, struct nib_error *error) {
    const uint8_t *mask = saved->mask[pass == NIB_PASS_DGRAD ? 0 : 1];
    size_t count = rows * cols;
    for (size_t i = 0; mask != NULL && i < count; i++)
        if (mask[i] == 0) result[i] = 0;
    enum nib_status status = NIB_OK;
    enum nib_slot slot = pass == NIB_PASS_DGRAD ? NIB_SLOT_DGRAD_W : NIB_SLOT_WGRAD_X;
    if (call->recipe != NULL && nib_recipe_inherits(call->recipe, slot)) {
        const struct nib_rotation *inverse;
        float *rotated = nib_alloc_raw(count, sizeof *rotated, "a gradient", error);
        if (rotated == NULL) return NIB_ENOMEM;
        status = nib_rotation_inverse(saved->rotation, &inverse, error);
        if (status == NIB_OK) {
            struct nib_view view = {result, NIB_F32, rows, cols, cols};
            status = nib_rotate(inverse, view, NIB_ALONG_COLS, call->options->threads, rotated, error);
            nib_rotation_close(inverse);
        }
        if (status == NIB_OK) memcpy(result, rotated, count * sizeof *result);
        free(rotated);
    }
    if (pass == NIB_PASS_WGRAD && saved->surrogate != NULL)
        for (size_t i = 0; i < count; i++) result[i] *= saved->surrogate[i];
    if (pass == NIB_PASS_DGRAD && call->options->bf16) nib_linear_round_bf16(result, count);
    return status;
}

/* dgrad or wgrad. */
static enum nib_status gradient(const struct nib_linear_call *call, const struct nib_linear_saved *saved,
                                enum nib_pass pass, const float *dy, float *result, struct nib_error *error) {
    const struct nib_linear_options *o = call->options;
    bool dgrad = pass == NIB_PASS_DGRAD;
    size_t tokens = saved->tokens, in = saved->in, out = saved->out;
    struct nib_linear_operand operand[2] = {{.factor = 1}, {.factor = 1}};
    const struct nib_rotation *rotation = NULL;
    bool own = false;
    enum nib_status status = nib_linear_rotation(call, pass, &rotation, &own, error);
    if (status == NIB_OK)
        status = nib_linear_prepare(call, dgrad ? NIB_SLOT_DGRAD_DY : NIB_SLOT_WGRAD_DY, dy, tokens, out, NULL,
                                    rotation, &operand[0], error);
    if (status == NIB_OK && dgrad)
        status = nib_linear_prepare(call, NIB_SLOT_DGRAD_W, saved->w, out, in, &saved->operand[1], rotation,
                                    &operand[1], error);
    else if (status == NIB_OK)
        status = nib_linear_prepare(call, NIB_SLOT_WGRAD_X, saved->x, tokens, in, &saved->operand[0], rotation,
                                    &operand[1], error);
    for (int i = 0; i < 2 && status == NIB_OK; i++) status = tell_operand(o, &operand[i], error);
    struct nib_linear_product product = {.pass = pass,
                                         .m = dgrad ? tokens : out,
                                         .n = in,
                                         .k = dgrad ? operand[0].cols : operand[0].rows,
                                         .a = &operand[0],
                                         .b = &operand[1]};
    if (status == NIB_OK) status = nib_linear_multiply(call, &product, result, error);
    if (status == NIB_OK) status = finish(call, saved, pass, product.m, product.n, result, error);
    if (status == NIB_OK) status = tell_product(o, &product, result, error);
    end(o, &product);
    for (int i = 0; i < 2; i++) nib_linear_operand_clear(&operand[i]);
    if (own) nib_rotation_close(rotation);
    return status;
}

enum nib_status nib_linear_backward(const struct nib_linear_options *options, const struct nib_linear_saved *saved,
                                    const float *dy, float *dx, float *dw, struct nib_error *error) {
    struct nib_linear_call call = begin(options);
    enum nib_status status = check(&call, saved->tokens, saved->in, saved->out, true, error);
    if (status != NIB_OK) return status;
    size_t of_x = saved->tokens * saved->in, of_w = saved->out * saved->in;
    float *for_x = nib_alloc_raw(dx != NULL ? of_x : 0, sizeof *for_x, "the gradient of activations", error);
    float *for_w = nib_alloc_raw(dw != NULL ? of_w : 0, sizeof *for_w, "the gradient of weights", error);
    status = for_x == NULL || for_w == NULL ? NIB_ENOMEM : NIB_OK;
    struct nib_fpenv environment = nib_fpenv_enter();
    if (status == NIB_OK && dx != NULL) status = gradient(&call, saved, NIB_PASS_DGRAD, dy, for_x, error);
    if (status == NIB_OK && dw != NULL) status = gradient(&call, saved, NIB_PASS_WGRAD, dy, for_w, error);
    nib_fpenv_leave(environment);
    if (status == NIB_OK && dx != NULL) memcpy(dx, for_x, of_x * sizeof *dx);
    if (status == NIB_OK && dw != NULL) memcpy(dw, for_w, of_w * sizeof *dw);
    free(for_x);
    free(for_w);
    return status;
}
