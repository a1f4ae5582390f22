/* The formats of an analysis, for its provenance. */
#ifndef NIB_JOB_CITE_H
#define NIB_JOB_CITE_H

#include <nibble/quantizer.h>
#include <nibble/recipe.h>

#include "io/provenance.h"

/* The quantizer's own text and those of its block, element and scale format. */
void nib_cite_quantizer(struct nib_provenance *provenance, const struct nib_quantizer *quantizer);
void nib_cite_rotation(struct nib_provenance *provenance, const struct nib_rotation *rotation);
struct nib_unit;
void nib_cite_unit(struct nib_provenance *provenance, const struct nib_unit *unit);
/* The recipe's own text and all formats that it uses. */
void nib_cite_recipe(struct nib_provenance *provenance, const struct nib_recipe *recipe);

#endif
