/* Whether a unit takes what a recipe makes, found out on a small layer of zeros. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/multiple.h"
#include "format/quantizer.h"
#include "quantize/eden.h"
#include "stack/linear.h"

/* The recipe without what has no part in which codes a unit sees. */
static struct nib_recipe stripped(const struct nib_recipe *recipe, bool *eden) {
    struct nib_recipe plain = *recipe;
    *eden = false;
    for (int i = 0; i < NIB_SLOTS; i++) {
        struct nib_operand_rule *rule = &plain.slot[i];
        if (!nib_linear_same_codes(recipe, (enum nib_slot)i))
            rule->source = NIB_SOURCE_ORIGINAL; /* values have no codes */
        rule->method = NIB_METHOD_NONE;
        rule->mask = rule->residual = false;
        rule->quantile = 0;
        *eden |= rule->quantizer != NULL && rule->quantizer->axes.scale_correction == NIB_SCALE_CORRECTION_EDEN;
    }
    for (int i = 0; i < NIB_PASSES; i++) plain.pass[i].rotation = NULL, plain.pass[i].surrogate = 0;
    plain.first = plain.last = 0;
    memset(plain.high, 0, sizeof plain.high);
    return plain;
}

static enum nib_status try_layer(const struct nib_recipe *recipe, enum nib_module module, const struct nib_unit *unit,
                                 size_t side, bool backward, struct nib_error *error) {
    struct nib_linear_options options = {
        .recipe = recipe, .product = NIB_PRODUCT_UNIT, .unit = unit, .module = module, .threads = 1};
    struct nib_linear_saved *saved = NULL;
    float *zeros = nib_alloc(side * side, 4 * sizeof *zeros, "a layer of zeros", error);
    if (zeros == NULL) return NIB_ENOMEM;
    float *y = zeros + side * side, *dx = y + side * side, *dw = dx + side * side;
    enum nib_status status =
        nib_linear_forward(&options, side, side, side, zeros, zeros, y, backward ? &saved : NULL, error);
    if (status == NIB_OK && backward) status = nib_linear_backward(&options, saved, zeros, dx, dw, error);
    nib_linear_saved_free(saved);
    free(zeros);
    return status;
}

enum nib_status nib_linear_try_unit(const struct nib_recipe *recipe, unsigned layers, const struct nib_unit *unit,
                                    bool backward, struct nib_error *error) {
    bool eden, all = true, none = recipe->first + recipe->last >= layers;
    struct nib_recipe plain = stripped(recipe, &eden);
    for (int i = 0; i < NIB_MODULES; i++) all = all && !recipe->high[i];
    size_t side = nib_least_common_multiple(unit->k, eden ? NIB_EDEN_GROUP : 32);
    enum nib_status status = none ? NIB_OK : try_layer(&plain, NIB_MODULE_Q, unit, side, backward, error);
    const char *where = "";
    if (status == NIB_OK && (none || !all || recipe->first + recipe->last > 0)) {
        plain.high[NIB_MODULE_Q] = true;
        where = " in the layers that stay in high precision";
        status = try_layer(&plain, NIB_MODULE_Q, unit, side, backward, error);
    }
    if (status == NIB_OK || error == NULL) return status;
    char text[sizeof error->text];
    memcpy(text, error->text, sizeof text);
    return nib_fail(error, status, "recipe %s%s: %.300s", recipe->name, where, text);
}
