/* How checkpoints store FP4 weights: which tensors belong together, and how they decode. Recognised by names, dtypes
 * and shapes alone; whether scales are swizzled cannot be seen and is never guessed. */
#ifndef NIB_IO_CONVENTION_H
#define NIB_IO_CONVENTION_H

#include "io/entry.h"

struct nib_stored_weight {
    const char *convention;      /* "compressed-tensors nvfp4-pack-quantized" */
    const char *decode;          /* "e2m1 x weight_scale / weight_global_scale" */
    const char *scale_format;    /* "e4m3", "e8m0" */
    unsigned block;              /* values under one scale, along the last dimension */
    char *name;                  /* of the weight, without the suffixes */
    size_t packed, scale, global; /* indices into the file; SIZE_MAX where there is none */
    unsigned rank;
    uint64_t shape[NIB_ENTRY_RANK]; /* of the values */
    char problem[160];           /* why the parts do not fit; "" where they do */
    char note[160];              /* what the names do not tell: padded or possibly swizzled scales; or "" */
};

/* All of them, in the order of the file; the caller frees with nib_stored_weights_free. */
enum nib_status nib_stored_weights_find(const struct nib_file *file, struct nib_stored_weight **out, size_t *count,
                                        struct nib_error *error);
void nib_stored_weights_free(struct nib_stored_weight *weights, size_t count);

/* The shape of the values of a tensor whose storage counts pairs: the last dimension doubled. False when it
 * overflows, or for a scalar. */
bool nib_unpacked_shape(const struct nib_entry *entry, uint64_t out[NIB_ENTRY_RANK]);

#endif
