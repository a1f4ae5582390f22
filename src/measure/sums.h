/* The same as the public functions, for callers that have set the floating-point environment. */
#ifndef NIB_MEASURE_SUMS_H
#define NIB_MEASURE_SUMS_H

#include <nibble/measure.h>

void nib_sums_merge(struct nib_sums *into, const struct nib_sums *from);
void nib_bias_derive(const struct nib_element *element, const struct nib_sums *sums, struct nib_bias *out);

#endif
