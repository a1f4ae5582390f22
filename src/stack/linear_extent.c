/* How far the reduction axis of a product goes. */
#include "base/error.h"
#include "base/multiple.h"
#include "format/quantizer.h"
#include "quantize/eden.h"
#include "stack/linear.h"

static const struct nib_quantizer *codes_of(const struct nib_recipe *recipe, enum nib_slot slot) {
    if (recipe->slot[slot].source != NIB_SOURCE_SAME) return recipe->slot[slot].quantizer;
    return nib_linear_same_codes(recipe, slot) ? recipe->slot[nib_slot_forward(slot)].quantizer : NULL;
}

const char *nib_linear_unit_for(const struct nib_recipe *recipe, enum nib_pass pass) {
    const char *name[2] = {NULL, NULL};
    for (int i = 0; recipe != NULL && i < 2; i++) {
        const struct nib_quantizer *quantizer = codes_of(recipe, (enum nib_slot)(2 * (int)pass + i));
        if (quantizer != NULL) name[i] = nib_linear_unit_of(quantizer);
    }
    return name[0] != NULL && name[0] == name[1] ? name[0] : "hopper-wgmma-16bit-f32";
}

static enum nib_status unit_step(const struct nib_linear_call *call, enum nib_pass pass, size_t *step,
                                 struct nib_error *error) {
    const struct nib_unit *unit = call->options->unit;
    enum nib_status status = NIB_OK;
    if (unit == NULL) status = nib_unit_open(nib_linear_unit_for(call->recipe, pass), &unit, error);
    if (status != NIB_OK) return status;
    *step = nib_least_common_multiple(*step, unit->k);
    if (unit != call->options->unit) nib_unit_close(unit);
    return NIB_OK;
}

enum nib_status nib_linear_extent(const struct nib_linear_call *call, enum nib_pass pass, size_t extent, size_t *out,
                                  struct nib_error *error) {
    /* A layer in high precision has no rotation, but goes through a unit like the others. */
    const struct nib_recipe *recipe = call->options->recipe;
    size_t step = 1;
    *out = extent;
    if (recipe == NULL || !recipe->pass[pass].pad) return NIB_OK;
    if (call->recipe != NULL && recipe->pass[pass].rotation != NULL)
        step = nib_rotation_size(recipe->pass[pass].rotation);
    for (int i = 0; call->recipe != NULL && i < 2; i++) {
        const struct nib_quantizer *quantizer = codes_of(recipe, (enum nib_slot)(2 * (int)pass + i));
        bool eden = quantizer != NULL && quantizer->axes.scale_correction == NIB_SCALE_CORRECTION_EDEN;
        if (eden) step = nib_least_common_multiple(step, NIB_EDEN_GROUP);
    }
    if (call->options->product == NIB_PRODUCT_UNIT) {
        enum nib_status status = unit_step(call, pass, &step, error);
        if (status != NIB_OK) return status;
    }
    *out = (extent + step - 1) / step * step;
    return NIB_OK;
}
