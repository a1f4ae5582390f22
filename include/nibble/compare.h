/* Bit comparison of quantized tensors, stage by stage: the first stage that differs is where two
 * implementations part, what differs behind it follows. */
#ifndef NIBBLE_COMPARE_H
#define NIBBLE_COMPARE_H

#include <stddef.h>
#include <nibble/quantize.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The stages of a quantizer, in the order in which they are computed. OTHER holds what belongs to none. */
enum nib_stage {
    NIB_STAGE_SHAPE,
    NIB_STAGE_TENSOR_SCALE,      /* amax and scale of the tensor */
    NIB_STAGE_BLOCK_SCALES,
    NIB_STAGE_CODES,
    NIB_STAGE_PACKED,
    NIB_STAGE_VALUES,            /* dequantized */
    NIB_STAGE_OTHER,
    NIB_STAGES
};
NIB_API const char *nib_stage_name(enum nib_stage stage); /* "block scales" */

/* How the items of a part are compared. Integers of unequal width compare as numbers, floats of unequal
 * type as the binary32 (or binary64) numbers they are. */
enum nib_part_type { NIB_PART_INTEGER, NIB_PART_F32, NIB_PART_BF16, NIB_PART_F16, NIB_PART_F64 };

enum { NIB_PART_RANK = 8, NIB_PART_NAME = 64 };

/* One array of a quantized tensor; the data belongs to the caller. */
struct nib_part {
    char name[NIB_PART_NAME];    /* "codes" */
    enum nib_stage stage;
    enum nib_part_type type;
    unsigned bytes;              /* of one item, little-endian: 1, 2, 4 or 8 */
    unsigned rank;               /* 0 for a single number */
    uint64_t shape[NIB_PART_RANK];
    const void *data;
};

/* The outcome for one part. NaN equals NaN at the same place, whatever its bits; +0 and -0 differ. */
struct nib_difference {
    char name[NIB_PART_NAME];
    enum nib_stage stage;        /* SHAPE where the shapes are not the same: then nothing else is compared */
    bool only_a, only_b;         /* the other side lacks the part: nothing is compared, and that is no difference */
    uint64_t compared;           /* items on either side; 0 where the shapes differ */
    uint64_t items, bytes, bits; /* how many of them differ */
    uint64_t first;              /* row-major index of the first */
    uint64_t a, b;               /* its bits on both sides, as compared */
    double value_a, value_b;     /* the same as numbers */
    unsigned width;              /* bits of an item, as compared */
    unsigned rank;               /* of side A; of side B where only_b */
    uint64_t shape[NIB_PART_RANK];
    unsigned rank_b;
    uint64_t shape_b[NIB_PART_RANK];
    const char *arrangement;     /* "equal, B in the 128x4 layout": both hold the same in another order; NULL elsewhere */
};

/* One part against another, whatever their names. Extents of 1 do not matter for the shape. */
NIB_API void nib_part_compare(const struct nib_part *a, const struct nib_part *b, struct nib_difference *out);

struct nib_comparison {
    struct nib_difference *differences; /* one per part, in the order of the stages */
    size_t count;
    uint64_t compared, differing;       /* items; a shape that differs counts once */
    const struct nib_difference *first; /* of the earliest stage that differs; NULL when all agree */
    bool codes_compared;                /* codes, packed bytes or values were; without them equality says little */
};
/* Pairs the parts by name. NIB_EINVAL when no name occurs on both sides. */
NIB_API NIB_CHECK enum nib_status nib_compare(const struct nib_part *a, size_t count_a, const struct nib_part *b,
                                              size_t count_b, struct nib_comparison *out, struct nib_error *error);
NIB_API void nib_comparison_free(struct nib_comparison *comparison);

/* The parts of a quantized matrix under the names that `nibble quantize --json` uses: tensor_amax,
 * tensor_scale_encode, tensor_scale_decode, scales, codes, packed, dequantized; absent buffers are left
 * out. They point into `quantized`. Returns how many there are. */
enum { NIB_QUANTIZED_PARTS = 7 };
NIB_API size_t nib_quantized_parts(const struct nib_quantizer *quantizer, const struct nib_quantized *quantized,
                                   struct nib_part out[NIB_QUANTIZED_PARTS]);

/* The stage and the usual name of what others call "scale", "value", "qdata", "X.weight_scale", ...; a name
 * that is not known stays as it is, at NIB_STAGE_OTHER. `usual` holds NIB_PART_NAME characters. */
NIB_API enum nib_stage nib_stage_of_name(const char *name, char *usual);

/* The same, and how well the name fits: better ones first. TRANSPOSED is the columnwise copy of a tensor. */
enum nib_name_fit { NIB_NAME_WHOLE, NIB_NAME_ENDING, NIB_NAME_TRANSPOSED, NIB_NAME_UNKNOWN };
NIB_API enum nib_stage nib_stage_of_tensor(const char *name, char *usual, enum nib_name_fit *fit);

/* The parts of a file: JSON of `nibble quantize`, or the tensors of .safetensors, .npz, .npy, .h5. "FILE:WEIGHT" means
 * only the tensors of one weight ("layer.0": layer.0.weight_packed, ...), or those that a glob matches; "FILE.npy:packed"
 * says what the array of an .npy, which has no name, is. */
struct nib_dump;
NIB_API NIB_CHECK enum nib_status nib_dump_open(const char *path, struct nib_dump **out, struct nib_error *error);
NIB_API void nib_dump_close(struct nib_dump *dump);
NIB_API const struct nib_part *nib_dump_parts(const struct nib_dump *dump, size_t *count);

/* ---- which quantizer made a dump */

enum { NIB_LAYOUT_TEXT = 120 };

/* A quantizer along one axis, and how it fares. `layout` says what had to be assumed beyond the usual:
 * "packed-high, scales-128x4"; "" for nothing. */
struct nib_candidate {
    const struct nib_quantizer *quantizer;
    enum nib_axis axis;
    char layout[NIB_LAYOUT_TEXT];
    uint64_t compared, differing; /* items of the dump */
    enum nib_stage first;         /* the earliest stage that differs */
};

/* Quantizes x with every quantizer along both axes, compares with those parts of the dump that a quantizer
 * has, each in the layout that fits best, and orders the candidates by how few items differ; among equals
 * the order of `quantizers` stays. Where the dump holds a tensor amax, that one is used. Where some
 * candidate fits, others may have been compared only as far as the block scales. `out` has room for
 * 2 * count candidates. NIB_EINVAL when the dump holds nothing that a quantizer makes, NIB_EINCONSISTENT
 * when it has another number of elements than x. */
NIB_API NIB_CHECK enum nib_status nib_identify(struct nib_view x, const struct nib_part *parts, size_t part_count,
                                               const struct nib_quantizer *const *quantizers, size_t count, int threads,
                                               struct nib_candidate *out, struct nib_error *error);

/* The same; `step` hears how much is done, and may be NULL. */
typedef void nib_identify_step(void *context, size_t done, size_t total);
NIB_API NIB_CHECK enum nib_status nib_identify_shown(struct nib_view x, const struct nib_part *parts, size_t part_count,
                                                     const struct nib_quantizer *const *quantizers, size_t count,
                                                     int threads, struct nib_candidate *out, nib_identify_step *step,
                                                     void *context, struct nib_error *error);

/* False for a part that nib_identify passes over, its name not being known. */
NIB_API bool nib_identify_uses(const struct nib_part *part);

/* ---- an input that separates two quantizers */

struct nib_witness {
    size_t cols;                 /* one row; the caller frees x with nib_witness_free */
    float *x;
    enum nib_stage stage;        /* the earliest stage that differs: block scales, codes or values */
    size_t at;                   /* index of the scale, code or value that differs */
    uint32_t bits_a, bits_b;     /* its codes, or binary32 bits, on both sides */
    uint64_t tries;              /* inputs that were tried before */
};

/* Searches for one row (of one or two blocks) on which the two differ, and makes it as plain as it can: as
 * few nonzero elements as possible, with as few mantissa bits. Where element formats, scale formats or blocks
 * are not the same, dequantized values alone are compared. `found` is false when `tries` inputs gave none. */
NIB_API NIB_CHECK enum nib_status nib_witness_find(const struct nib_quantizer *a, const struct nib_quantizer *b,
                                                   uint64_t seed, uint64_t tries, bool *found, struct nib_witness *out,
                                                   struct nib_error *error);
NIB_API void nib_witness_free(struct nib_witness *witness);

#ifdef __cplusplus
}
#endif
#endif
