/* A measurement taken part by part, for tensors that do not fit into memory. The parts are cut so that every chunk of the
 * sum tree lies in one of them: the result is that of the whole, bit for bit. */
#ifndef NIB_MEASURE_PARTS_H
#define NIB_MEASURE_PARTS_H

#include "measure/plan.h"

/* Consecutive chunks, counted over all batches, that make a rectangle. */
struct nib_part {
    size_t first, count;
    struct nib_rectangle place;
};

struct nib_parts;

/* Starts a measurement of a rows x cols matrix. */
NIB_CHECK enum nib_status nib_parts_new(const struct nib_quantizer *quantizer, size_t rows, size_t cols, enum nib_axis axis,
                                        const struct nib_measure_options *options, struct nib_parts **out,
                                        struct nib_error *error);
/* The cut into parts of about `elements` elements, at least one chunk each; the caller frees it. The same for all
 * quantizers that are measured with the same options->along and across, multiples of their blocks. */
NIB_CHECK enum nib_status nib_parts_cut(const struct nib_parts *parts, size_t elements, struct nib_part **out, size_t *count,
                                        struct nib_error *error);
/* Adds a part: x and q are of its rectangle alone. */
NIB_CHECK enum nib_status nib_parts_add(struct nib_parts *parts, const struct nib_part *part, struct nib_view x,
                                        const struct nib_quantized *q, struct nib_error *error);
/* After all parts. */
void nib_parts_finish(struct nib_parts *parts, struct nib_measurement *out);
void nib_parts_free(struct nib_parts *parts); /* NULL is allowed */

#endif
