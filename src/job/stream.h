/* Measuring a tensor part by part, in constant memory. */
#ifndef NIB_JOB_STREAM_H
#define NIB_JOB_STREAM_H

#include <nibble/measure.h>

#include "io/entry.h"

struct nib_stream {
    struct nib_view x;
    enum nib_axis axis;
    const struct nib_file *file; /* that x lies in: pages that have been used are given back; NULL: memory */
    const struct nib_rotation *rotation;
    const struct nib_quantizer *const *quantizers;
    size_t quantizer_count;
    struct nib_measure_options options; /* multiples of all blocks */
    uint64_t seed;                      /* of stochastic rounding */
    /* After each part and quantizer. */
    void (*progress)(void *context, size_t elements);
    void *context;
};

struct nib_streamed {
    struct nib_measurement m;
    float tensor_amax; /* as the quantizer used it; 0 where it has no tensor scale */
};

/* out[i]: the measurement of the rotated x through quantizer i; the bits are those of nib_quantize and nib_measure on
 * the whole tensor. */
NIB_CHECK enum nib_status nib_stream_measure(const struct nib_stream *stream, struct nib_streamed *out,
                                             struct nib_error *error);

#endif
