#include "job/cite.h"

#include <nibble/unit.h>
#include <stdio.h>

void nib_cite_quantizer(struct nib_provenance *provenance, const struct nib_quantizer *quantizer) {
    static const char *const kinds[4] = {"quantizers", "blocks", "elements", "scales"};
    struct nib_quantizer_info info;
    nib_quantizer_describe(quantizer, &info);
    const struct nib_block *block = info.block;
    const char *const names[4] = {info.name, block->name, block->element->name, block->scale->name};
    const char *const texts[4] = {info.text, block->text, block->element->text, block->scale->text};
    const char *const digests[4] = {info.sha256, block->sha256, block->element->sha256, block->scale->sha256};
    for (size_t k = 0; k < 4; k++) {
        char name[320];
        snprintf(name, sizeof name, "%s/%s", kinds[k], names[k]);
        nib_provenance_add_format(provenance, name, texts[k], digests[k]);
    }
}

void nib_cite_rotation(struct nib_provenance *provenance, const struct nib_rotation *rotation) {
    char name[320];
    snprintf(name, sizeof name, "rotations/%s", nib_rotation_name(rotation));
    nib_provenance_add_format(provenance, name, nib_rotation_text(rotation), nib_rotation_sha256(rotation));
}

void nib_cite_unit(struct nib_provenance *provenance, const struct nib_unit *unit) {
    char name[320];
    snprintf(name, sizeof name, "units/%s", unit->name);
    nib_provenance_add_format(provenance, name, unit->text, unit->sha256);
}

void nib_cite_recipe(struct nib_provenance *provenance, const struct nib_recipe *recipe) {
    char name[320];
    snprintf(name, sizeof name, "recipes/%s", nib_recipe_name(recipe));
    nib_provenance_add_format(provenance, name, nib_recipe_text(recipe), nib_recipe_sha256(recipe));
    for (int slot = 0; slot < NIB_SLOTS; slot++) {
        const struct nib_quantizer *quantizer = nib_recipe_quantizer(recipe, (enum nib_slot)slot);
        const struct nib_rotation *rotation = nib_recipe_rotation(recipe, (enum nib_slot)slot);
        if (quantizer != NULL) nib_cite_quantizer(provenance, quantizer);
        if (rotation != NULL) nib_cite_rotation(provenance, rotation);
    }
}
