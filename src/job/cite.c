#include "job/cite.h"

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
        char name[128];
        snprintf(name, sizeof name, "%s/%s", kinds[k], names[k]);
        nib_provenance_add_format(provenance, name, texts[k], digests[k]);
    }
}

void nib_cite_rotation(struct nib_provenance *provenance, const struct nib_rotation *rotation) {
    char name[128];
    snprintf(name, sizeof name, "rotations/%s", nib_rotation_name(rotation));
    nib_provenance_add_format(provenance, name, nib_rotation_text(rotation), nib_rotation_sha256(rotation));
}
