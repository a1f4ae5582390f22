/* Which bins cause a result, in words. Part of libnibble-expect. */
#ifndef NIB_JOB_EXPLAIN_H
#define NIB_JOB_EXPLAIN_H

#include <nibble/measure.h>
#include <stdio.h>

/* Writes a paragraph to `stream`: the bins that make up b, and which of them pay the others back. `label` names the
 * case ("e2m1 on gaussian, blocks of 16, fp32"). Sums are measured or expected. */
void nib_explain_bias(const struct nib_element *element, const struct nib_sums *sums, const char *label, FILE *stream);

#endif
