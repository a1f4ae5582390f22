/* What a recipe does to each operand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/show.h"
#include "stack/recipe.h"

enum { OPERAND, QUANTIZER, BLOCK, ALONG, ROTATION, SOURCE, BESIDES, COLUMNS };
static const struct nib_column columns[COLUMNS] = {
    [OPERAND] = {"operand", "operand", "", "GEMM and tensor", NIB_COLUMN_TEXT, 0},
    [QUANTIZER] = {"quantizer", "quantizer", "", "with the axes that were changed", NIB_COLUMN_TEXT, 0},
    [BLOCK] = {"block", "block", "", "block format", NIB_COLUMN_TEXT, 0},
    [ALONG] = {"along", "along", "", "the reduction axis", NIB_COLUMN_TEXT, 0},
    [ROTATION] = {"rotation", "rotation", "", "before the quantizer, of both operands of the GEMM", NIB_COLUMN_TEXT, 0},
    [SOURCE] = {"source", "source", "", "the tensor, the dequantized forward operand, or its very codes",
                NIB_COLUMN_TEXT, 0},
    [BESIDES] = {"besides", "besides", "", "what else is done", NIB_COLUMN_TEXT, 0},
};

static const char *along(enum nib_slot slot) {
    static const char *const names[NIB_PASSES] = {"input channels", "output channels", "tokens"};
    return names[nib_slot_pass(slot)];
}

static void besides(const struct nib_recipe *recipe, enum nib_slot slot, char *out, size_t size) {
    const struct nib_operand_rule *rule = &recipe->slot[slot];
    const struct nib_pass_rule *pass = &recipe->pass[nib_slot_pass(slot)];
    size_t used = 0;
    out[0] = '\0';
#define ADD(...) (used += (size_t)snprintf(out + used, used < size ? size - used : 0, __VA_ARGS__))
    if (rule->factor != 1) ADD("times %.9g before; ", (double)rule->factor);
    if (rule->quantile > 0)
        ADD("clamped at quantile %.9g%s; ", rule->quantile, rule->residual ? ", the rest beside it" : "");
    if (rule->mask) ADD("gradient masked beyond the largest level; ");
    if (rule->method == NIB_METHOD_GPTQ) ADD("GPTQ, damping %.9g; ", rule->damping);
    if (rule->method == NIB_METHOD_TERNARY) ADD("ternary in blocks of %u; ", rule->ternary_block);
    if (slot == NIB_SLOT_WGRAD_X && pass->surrogate > 0)
        ADD("dW times the estimator's slope, power %d, at most %.9g; ", pass->surrogate, (double)pass->surrogate_cap);
    if (pass->pad) ADD("zeros up to whole groups; ");
    if (slot % 2 != 0 && pass->output_factor != 1) ADD("product times %.9g; ", (double)pass->output_factor);
#undef ADD
    used = strlen(out);
    if (used > 2) out[used - 2] = '\0';
}

static void fill_row(const struct nib_recipe *recipe, enum nib_slot slot, struct nib_table *table, size_t row) {
    static const char *const sources[] = {"original", "dequantized", "same codes"};
    static const char *const signs[] = {"", ", signs left out", ", signs drawn"};
    const struct nib_quantizer *quantizer = nib_recipe_quantizer(recipe, slot);
    const struct nib_pass_rule *pass = &recipe->pass[nib_slot_pass(slot)];
    struct nib_quantizer_info info = {.name = "bf16"};
    char text[256];
    if (quantizer != NULL) nib_quantizer_describe(quantizer, &info);
    nib_table_set_text(table, row, OPERAND, nib_slot_name(slot));
    nib_table_set_text(table, row, QUANTIZER, recipe->slot[slot].method == NIB_METHOD_TERNARY ? "ternary" : info.name);
    nib_table_set_text(table, row, BLOCK, info.block != NULL ? info.block->name : "");
    nib_table_set_text(table, row, ALONG, along(slot));
    snprintf(text, sizeof text, "%s%s", pass->rotation != NULL ? nib_rotation_name(pass->rotation) : "",
             pass->rotation != NULL ? signs[pass->signs] : "");
    nib_table_set_text(table, row, ROTATION, text);
    nib_table_set_text(table, row, SOURCE, sources[recipe->slot[slot].source]);
    besides(recipe, slot, text, sizeof text);
    nib_table_set_text(table, row, BESIDES, text);
}

enum nib_status nib_show_recipe(const char *name, struct nib_shown *shown, struct nib_error *error) {
    const struct nib_recipe *recipe;
    enum nib_status status = nib_recipe_open(name, &recipe, error);
    if (status != NIB_OK) return status;
    status = nib_show_keep(shown, nib_recipe_text(recipe), error);
    if (status == NIB_OK) status = nib_table_new("operands", columns, COLUMNS, &shown->table, error);
    for (int slot = 0; slot < NIB_SLOTS && status == NIB_OK; slot++) {
        size_t row = nib_table_row(shown->table);
        if (row == SIZE_MAX)
            status = nib_fail(error, NIB_ENOMEM, "out of memory");
        else
            fill_row(recipe, (enum nib_slot)slot, shown->table, row);
    }
    nib_recipe_close(recipe);
    return status;
}
