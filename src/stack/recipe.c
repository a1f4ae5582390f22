/* Recipes: opening them, and what they say about an operand. */
#include "stack/recipe.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "format/registry.h"

const char *nib_pass_name(enum nib_pass pass) {
    static const char *const names[NIB_PASSES] = {"fprop", "dgrad", "wgrad"};
    return (unsigned)pass < NIB_PASSES ? names[pass] : "?";
}

const char *nib_slot_name(enum nib_slot slot) {
    static const char *const names[NIB_SLOTS] = {"fprop.x", "fprop.w", "dgrad.dy", "dgrad.w", "wgrad.dy", "wgrad.x"};
    return (unsigned)slot < NIB_SLOTS ? names[slot] : "?";
}

enum nib_pass nib_slot_pass(enum nib_slot slot) { return (enum nib_pass)(slot / 2); }

const char *nib_module_name(enum nib_module module) {
    static const char *const names[NIB_MODULES] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                                   "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                                   "mlp.down_proj"};
    return (unsigned)module < NIB_MODULES ? names[module] : "?";
}

enum nib_slot nib_slot_forward(enum nib_slot slot) {
    if (slot == NIB_SLOT_DGRAD_W) return NIB_SLOT_FPROP_W;
    if (slot == NIB_SLOT_WGRAD_X) return NIB_SLOT_FPROP_X;
    return slot < NIB_SLOT_DGRAD_DY ? slot : NIB_SLOTS;
}

/* fprop contracts the columns of X and W, dgrad those of dY and the rows of W, wgrad the rows of both. */
enum nib_axis nib_slot_axis(enum nib_slot slot) {
    return slot <= NIB_SLOT_DGRAD_DY ? NIB_ALONG_COLS : NIB_ALONG_ROWS;
}

bool nib_recipe_inherits(const struct nib_recipe *recipe, enum nib_slot slot) {
    return slot >= NIB_SLOT_DGRAD_DY && recipe->slot[slot].source != NIB_SOURCE_ORIGINAL &&
           recipe->pass[NIB_PASS_FPROP].rotation != NULL;
}

void nib_recipe_close(const struct nib_recipe *recipe) {
    if (recipe == NULL) return;
    struct nib_recipe *mine = (struct nib_recipe *)(uintptr_t)recipe;
    for (int i = 0; i < NIB_SLOTS; i++) nib_quantizer_close(mine->slot[i].quantizer);
    for (int i = 0; i < NIB_PASSES; i++) nib_rotation_close(mine->pass[i].rotation);
    free(mine->text);
    free(mine);
}

enum nib_status nib_recipe_parse(const char *text, size_t length, const char *label, const struct nib_recipe **out,
                                 struct nib_error *error) {
    struct nib_recipe *recipe = nib_alloc(1, sizeof *recipe, "a recipe", error);
    if (recipe == NULL) return NIB_ENOMEM;
    nib_registry_name_of(label, recipe->name);
    enum nib_status status = nib_recipe_read(text, length, label, recipe, error);
    if (status == NIB_OK && (recipe->text = strndup(text, length)) == NULL)
        status = nib_fail(error, NIB_ENOMEM, "out of memory for recipe %s", label);
    if (status != NIB_OK) {
        nib_recipe_close(recipe);
        return status;
    }
    nib_sha256_hex(text, length, recipe->sha256);
    *out = recipe;
    return NIB_OK;
}

enum nib_status nib_recipe_open(const char *name_or_path, const struct nib_recipe **out, struct nib_error *error) {
    struct nib_registry_text file;
    if (name_or_path == NULL) return nib_fail(error, NIB_EINVAL, "the name of a recipe is NULL");
    const char *name = strncmp(name_or_path, "recipes/", 8) == 0 ? name_or_path + 8 : name_or_path;
    enum nib_status status = nib_registry_read("recipes", name, &file, error);
    if (status != NIB_OK) return status;
    status = nib_recipe_parse(file.text, file.length, file.label, out, error);
    free(file.text);
    return status;
}

const char *nib_recipe_name(const struct nib_recipe *recipe) { return recipe->name; }
const char *nib_recipe_title(const struct nib_recipe *recipe) { return recipe->title; }
const char *nib_recipe_source(const struct nib_recipe *recipe) { return recipe->source; }
const char *nib_recipe_leaves_out(const struct nib_recipe *recipe) { return recipe->leaves_out; }
const char *nib_recipe_text(const struct nib_recipe *recipe) { return recipe->text; }
const char *nib_recipe_sha256(const struct nib_recipe *recipe) { return recipe->sha256; }

const struct nib_quantizer *nib_recipe_quantizer(const struct nib_recipe *recipe, enum nib_slot slot) {
    if ((unsigned)slot >= NIB_SLOTS) return NULL;
    if (recipe->slot[slot].source == NIB_SOURCE_SAME) slot = nib_slot_forward(slot);
    return recipe->slot[slot].quantizer;
}

const struct nib_rotation *nib_recipe_rotation(const struct nib_recipe *recipe, enum nib_slot slot) {
    return (unsigned)slot < NIB_SLOTS ? recipe->pass[nib_slot_pass(slot)].rotation : NULL;
}

bool nib_recipe_covers(const struct nib_recipe *recipe, unsigned layer, unsigned layers, enum nib_module module) {
    if ((unsigned)module < NIB_MODULES && recipe->high[module]) return false;
    return layers == 0 || (layer >= recipe->first && layer + recipe->last < layers);
}
