/* Whether recipes, shapes and unit fit: said before anything is computed. */
#include "job/stack.h"

#include "base/error.h"
#include "format/quantizer.h"
#include "quantize/eden.h"
#include "stack/linear.h"
#include "stack/stack.h"
#include <nibble/unit.h>
#include <stdio.h>

/* What each pass of a module reduces over. */
static void reductions(const struct nib_stack_request *r, enum nib_module module, size_t out[NIB_PASSES]) {
    const struct nib_stack_config *c = &r->input->config;
    const size_t hidden = c->hidden, heads = (size_t)c->heads * c->head_size, kv = (size_t)c->kv_heads * c->head_size;
    const size_t inner = c->intermediate;
    const size_t of[NIB_MODULES][2] = {{hidden, heads}, {hidden, kv},    {hidden, kv},   {heads, hidden},
                                       {hidden, inner}, {hidden, inner}, {inner, hidden}};
    out[NIB_PASS_FPROP] = of[module][0];
    out[NIB_PASS_DGRAD] = of[module][1];
    out[NIB_PASS_WGRAD] = r->input->sequences * r->input->length;
}

/* The unit that a pass goes through, by name, and the K of one of its instructions. */
static enum nib_status unit_of(const struct nib_stack_request *r, const struct nib_recipe *recipe, enum nib_pass pass,
                               bool covered, char name[64], size_t *step, struct nib_error *error) {
    const struct nib_unit *unit = r->unit;
    enum nib_status status = NIB_OK;
    if (unit == NULL) status = nib_unit_open(nib_linear_unit_for(covered ? recipe : NULL, pass), &unit, error);
    if (status != NIB_OK) return status;
    *step = unit->k;
    snprintf(name, 64, "%s", unit->name);
    if (unit != r->unit) nib_unit_close(unit);
    return NIB_OK;
}

struct place {
    const char *recipe;
    enum nib_module module;
    enum nib_pass pass;
};

/* What the recipe does to a pass in groups of `size`. */
static enum nib_status divides(const struct place *at, size_t extent, const char *does, const char *how, size_t size,
                               struct nib_error *error) {
    static const char *const names[NIB_PASSES] = {"input channels", "output channels", "tokens"};
    if (extent % size == 0) return NIB_OK;
    bool tokens = at->pass == NIB_PASS_WGRAD;
    return nib_fail(error, NIB_EINVAL, "recipe %s %s %s%s%s%s of %zu; %zu %s are no multiple of it, %zu would be",
                    at->recipe, does, nib_pass_name(at->pass), tokens ? "" : " of ",
                    tokens ? "" : nib_module_name(at->module), how, size, extent, names[at->pass],
                    (extent / size + 1) * size);
}

static enum nib_status check_recipe(const struct nib_recipe *recipe, const struct place *at, size_t extent,
                                    struct nib_error *error) {
    const struct nib_rotation *rotation = recipe->pass[at->pass].rotation;
    enum nib_status status = NIB_OK;
    if (rotation != NULL) status = divides(at, extent, "rotates", " in groups", nib_rotation_size(rotation), error);
    for (int side = 0; status == NIB_OK && side < 2; side++) {
        const struct nib_quantizer *q = recipe->slot[2 * (int)at->pass + side].quantizer;
        if (q != NULL && q->axes.scale_correction == NIB_SCALE_CORRECTION_EDEN)
            status = divides(at, extent, "corrects the scales of", " in groups", NIB_EDEN_GROUP, error);
    }
    return status;
}

static enum nib_status check_unit(const struct nib_stack_request *r, const struct nib_recipe *recipe,
                                  const struct place *at, bool covered, size_t extent, struct nib_error *error) {
    char unit[64], how[96];
    size_t step;
    if (r->product != NIB_PRODUCT_UNIT) return NIB_OK;
    enum nib_status status = unit_of(r, recipe, at->pass, covered, unit, &step, error);
    if (status != NIB_OK) return status;
    snprintf(how, sizeof how, " through %s in steps", unit);
    return divides(at, extent, "sends", how, step, error);
}

/* Layers that the recipe covers, and those that stay in high precision. */
static enum nib_status check_place(const struct nib_stack_request *r, const struct nib_recipe *recipe,
                                   const struct place *at, struct nib_error *error) {
    bool inside = recipe->first + recipe->last < r->input->config.layers, ends = recipe->first + recipe->last > 0;
    bool covered = inside && !recipe->high[at->module];
    size_t extent[NIB_PASSES];
    if (recipe->pass[at->pass].pad) return NIB_OK;
    reductions(r, at->module, extent);
    enum nib_status status = NIB_OK;
    if (covered) status = check_recipe(recipe, at, extent[at->pass], error);
    if (status == NIB_OK && covered) status = check_unit(r, recipe, at, true, extent[at->pass], error);
    if (status == NIB_OK && (ends || !covered)) status = check_unit(r, recipe, at, false, extent[at->pass], error);
    return status;
}

enum nib_status nib_stack_check(const struct nib_stack_request *r, struct nib_error *error) {
    for (size_t i = 0; i < r->recipe_count; i++) {
        const struct nib_recipe *recipe = r->recipes[i];
        for (int pass = 0; pass < (r->backward ? NIB_PASSES : 1); pass++)
            for (int module = 0; module < NIB_MODULES; module++) {
                const struct place at = {nib_recipe_name(recipe), (enum nib_module)module, (enum nib_pass)pass};
                enum nib_status status = check_place(r, recipe, &at, error);
                if (status != NIB_OK) return status;
            }
        enum nib_status status = r->product == NIB_PRODUCT_UNIT && r->unit != NULL
                                     ? nib_linear_try_unit(recipe, r->input->config.layers, r->unit, r->backward, error)
                                     : NIB_OK;
        if (status != NIB_OK) return status;
    }
    return NIB_OK;
}
