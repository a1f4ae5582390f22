/* What the parts of nibble inspect share. */
#ifndef NIB_CLI_INSPECT_H
#define NIB_CLI_INSPECT_H

#include <nibble/table.h>

#include "cli/command.h"
#include "io/convention.h"
#include "io/decode.h"

/* One call: the open file, the tensors that were asked for, and what is known about them. */
struct nib_inspection {
    struct nib_file *file;
    size_t *indices, count;
    struct nib_stored_weight *weights;
    size_t weight_count;
    struct nib_decoder decoder;
    bool decodes;
};

/* The shape of the values of tensor i, and how many there are. */
uint64_t nib_inspection_shape(const struct nib_inspection *inspection, size_t i, unsigned *rank,
                              uint64_t shape[NIB_ENTRY_RANK]);
/* The first values of tensor i, at most `limit`, and their codes where bytes are decoded, otherwise NULL. The caller
 * frees both. */
NIB_CHECK enum nib_status nib_inspection_first(const struct nib_inspection *inspection, size_t i, uint64_t limit,
                                               uint8_t **codes, float **values, size_t *count, struct nib_error *error);

/* Tables: the tensors (`whole`: those of provenance too), the FP4 weights, and the first values of each tensor. */
NIB_CHECK enum nib_status nib_inspection_tensors(const struct nib_inspection *inspection, bool whole,
                                                 struct nib_table **out, struct nib_error *error);
NIB_CHECK enum nib_status nib_inspection_weights(const struct nib_inspection *inspection, struct nib_table **out,
                                                 struct nib_error *error);
NIB_CHECK enum nib_status nib_inspection_values(const struct nib_inspection *inspection, uint64_t limit,
                                                struct nib_table **out, struct nib_error *error);
/* The whole inspection as JSON on stdout; an error in the middle prints nothing. */
NIB_CHECK enum nib_status nib_inspection_json(const struct nib_call *call, const struct nib_inspection *inspection,
                                              int64_t limit, struct nib_error *error);

#endif
