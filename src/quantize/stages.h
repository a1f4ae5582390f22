/* A quantizer, resolved for one tensor: the stage functions of its axes and the numbers they need, and
 * the walk over the tensor in tiles of NIB_TILE blocks. */
#ifndef NIB_QUANTIZE_STAGES_H
#define NIB_QUANTIZE_STAGES_H

#include "core/view.h"
#include "quantize/isa.h"
#include "rotate/kernel.h"

/* Another candidate of a block than the amax on Q. */
struct nib_candidate {
    enum {
        NIB_OF_SCALE,
        NIB_OF_AMAX,
        NIB_OF_LEVELS
    } differs; /* the scale or the amax is `times` as large, or the levels */
    float times;
    nib_element_stage *encode;
    nib_stochastic_stage *stochastic; /* instead of encode */
    float unit;                       /* of its levels */
};
/* How the better one is found. */
struct nib_contest {
    unsigned others; /* 0: there is one candidate */
    struct nib_candidate other[2];
    nib_terms_stage *terms;
    enum nib_summation summation;
    bool square;    /* blocks are 16 x 16 */
    bool nan_loses; /* a candidate is kept only if its error is at most the next one's */
    bool reversed;  /* another one takes its random bits in reverse order */
};

struct nib_stages {
    const struct nib_quantizer *q;
    const struct nib_isa *isa;
    bool incomplete; /* an axis has no stage function, or the caller asked for the reference */
    bool reference;  /* that, or the tensor scale is none that the stages can work with */
    struct nib_consts k;
    nib_scale_stage *block_scale, *bound, *factor, *dequantize;
    nib_codec_stage *codec;
    void (*straight_through)(const float *restrict v, float *restrict s); /* or NULL */
    nib_element_stage *encode;
    nib_stochastic_stage *stochastic; /* instead of encode */
    struct nib_contest contest;       /* among candidates, where there are several */
    enum nib_operation operation;
    bool tabulated, back_tabulated; /* factors come from k.factor_of_code and k.back_of_code */
    bool one_by_one;                /* or from nib_factor_under */
    bool quest, signed_scale;       /* block scales come from all elements */
    bool cut;                       /* to TF32, as elements are loaded */
    bool hif4;                      /* the procedure, instead of the stages above */
    float second;                   /* dequantization multiplies by this last */
};
void nib_stages_make(const struct nib_quantizer *q, const struct nib_tensor_scale *t, const struct nib_isa *isa,
                     bool reference, struct nib_stages *out);
/* The same for another tensor scale, of the same quantizer and type of input. */
void nib_stages_retarget(struct nib_stages *stages, const struct nib_tensor_scale *t);

/* How stages are chosen. */
static inline bool nib_is_e4m3(const struct nib_scale *scale) {
    return scale->bits == 8 && scale->mbits == 3 && scale->bias == 7 && scale->max_code == 0x7E;
}
/* consts.c: the numbers of a quantizer, and those that follow from the tensor scale; the precision of scaled elements;
 * whether s has an exact reciprocal; whether rounding cuts at 2^-23 first; whether scales are rounded in the exponent. */
void nib_consts_make(const struct nib_quantizer *q, const struct nib_tensor_scale *t, struct nib_consts *k);
void nib_consts_retarget(const struct nib_quantizer *q, const struct nib_tensor_scale *t, struct nib_consts *k);
int nib_precision_of(const struct nib_quantizer *q, const struct nib_tensor_scale *t);
bool nib_divides_by_power(const struct nib_quantizer *q);
bool nib_drops_bits(const struct nib_quantizer *q);
bool nib_rounds_exponents(const struct nib_quantizer *q);
/* factors.c: 1/x as div.full multiplies by it, NaN where it scales its operands first; factors up to which it shows in
 * no code that an element was flushed; the stage of factors; the tables where there is none, and what stands in them. */
float nib_approx_reciprocal(float x);
float nib_flush_limit(const struct nib_quantizer *q);
void nib_factors_choose(const struct nib_quantizer *q, struct nib_stages *out);
void nib_factors_plan(const struct nib_quantizer *q, struct nib_stages *out);
void nib_factors_tabulate(const struct nib_quantizer *q, const struct nib_tensor_scale *t, struct nib_stages *out);
/* candidates.c: which candidates there are; false where only the reference knows. */
bool nib_contest_make(const struct nib_quantizer *q, const struct nib_isa *isa, struct nib_stages *out);

/* The tensor seen along its reduction axis: `outer` lines of `inner` elements. A tile is tile_rows
 * lines by tile_blocks blocks; a block spans block_rows lines and block_size elements. */
struct nib_walk {
    struct nib_view x;
    enum nib_axis axis;
    size_t outer, inner;
    unsigned block_rows, block_size;
    size_t tile_rows, tile_blocks, tile_inner; /* tile_inner = tile_blocks * block_size */
    size_t tiles_across, tiles_along;
    bool scoped;                         /* tiles keep to one line, and to one segment of it */
    const struct nib_rotation *rotation; /* of what is loaded, or NULL */
    nib_rotate_kernel *rotate;
    struct nib_sr_source random; /* bytes = 0 where rounding is not stochastic */
};
void nib_walk_make(const struct nib_quantizer *q, struct nib_view x, enum nib_axis axis, struct nib_walk *out);

/* Block scales of a tile, stage by stage. */
struct nib_tile_scales {
    uint32_t code[NIB_TILE];
    float v[NIB_TILE], s[NIB_TILE], factor[NIB_TILE];
};

/* From scales before bounds and rounding to the factors of elements. */
void nib_tile_scale(const struct nib_stages *stages, const float *base, size_t blocks, struct nib_tile_scales *to);
struct nib_scratch;
/* Adds to special[] the blocks that the stages do not compute; true if there are any. Settles the factors of zero
 * scales. */
bool nib_tile_find_specials(const struct nib_stages *stages, const struct nib_scratch *t,
                            struct nib_tile_scales *scales, size_t blocks, bool *special);
/* For each block the best candidate: its codes instead of the first one's in `codes`, its scales in t->chosen. True if
 * there are blocks that the stages do not compute. */
bool nib_tile_contest(const struct nib_stages *stages, struct nib_scratch *t, const float *x, size_t blocks,
                      unsigned size, size_t across, uint8_t *codes, bool *special);
/* The factor of an element under a block scale, for choices without a stage; NaN where it depends on the element. */
float nib_factor_under(const struct nib_quantizer *q, const struct nib_tensor_scale *t, float s);

/* Buffers of one worker. */
struct nib_scratch {
    float *x, *values;
    uint8_t *codes;
    float *block_x, *block_values; /* one block, gathered for the reference */
    uint8_t *block_codes;
    uint8_t *random, *other_random; /* of the tile, and in reverse order for another candidate */
    uint32_t *block_random;
    uint8_t *other_codes; /* of another candidate */
    float *terms;         /* of errors */
    uint32_t amax[NIB_TILE];
    float b[NIB_TILE], base[NIB_TILE], back[NIB_TILE];
    struct nib_tile_scales chosen, other;
};
struct nib_scratch *nib_scratch_new(const struct nib_walk *walk, struct nib_error *error);
void nib_scratch_free(struct nib_scratch *scratch);

struct nib_specials {
    uint64_t nan, inf;
};
/* Reads `count` x `lines` elements from (line, start) into x (lines x tile_inner), zero where there are none. */
void nib_tile_load(const struct nib_walk *walk, const struct nib_isa *isa, size_t line, size_t start, float *x);
/* The random bytes of the same elements; where there are none the bytes mean nothing. */
void nib_tile_random(const struct nib_walk *walk, const struct nib_random_stages *stages, size_t line, size_t start,
                     uint8_t *random);
void nib_tile_quantize(const struct nib_stages *stages, const struct nib_walk *walk, size_t tile,
                       struct nib_scratch *scratch, struct nib_quantized *out, struct nib_specials *specials);

/* Where the random bits of the quantizer come from; NIB_EINVAL if they are given in the wrong number. */
enum nib_status nib_sr_source_choose(const struct nib_quantizer *q, struct nib_view x,
                                     const struct nib_quantize_options *options, struct nib_sr_source *out,
                                     struct nib_error *error);

/* Where lines or segments of them have tensor scales of their own (nib_tensor_scoped): each is scaled, then quantized
 * tile by tile. */
enum nib_status nib_quantize_scoped(const struct nib_quantizer *q, struct nib_view x,
                                    const struct nib_quantize_options *options, const struct nib_sr_source *random,
                                    const struct nib_isa *isa, bool reference, struct nib_quantized *out,
                                    struct nib_error *error);
/* Buffers for each of `count` workers; NULL without memory. */
struct nib_scratch **nib_scratches_new(const struct nib_walk *walk, int count, struct nib_error *error);
void nib_scratches_free(struct nib_scratch **scratches, int count);
/* What scale_correction asks of the walk; NIB_EINVAL where the shape does not allow it. */
enum nib_status nib_walk_prepare(const struct nib_quantizer *q, struct nib_walk *walk, struct nib_error *error);
/* Largest magnitude of `count` elements in a row from `offset` on, as the axes say. */
float nib_amax_of_run(const struct nib_quantizer *q, const struct nib_view *x, const struct nib_isa *isa, size_t offset,
                      size_t count);
/* A tensor scale that the caller gave or one from an amax; checks what was given. */
enum nib_status nib_tensor_scale_check(const struct nib_quantizer *q, const struct nib_quantize_options *options,
                                       struct nib_error *error);
struct nib_tensor_scale nib_tensor_scale_from(const struct nib_quantizer *q, enum nib_dtype dtype,
                                              const struct nib_quantize_options *options, float amax);

/* Makes tiles that lie across the lines at least so many blocks deep, if they can be. */
void nib_walk_deepen(struct nib_walk *walk, size_t blocks);
/* Rotates tiles as they are loaded. Where groups would straddle tiles *fits is false and the whole tensor must be
 * rotated first. NIB_EINVAL if the extent is no multiple of the rotation's size. */
enum nib_status nib_walk_rotate(const struct nib_rotation *rotation, const struct nib_isa *isa, struct nib_walk *walk,
                                bool *fits, struct nib_error *error);

/* The shape and buffers of a result; NIB_EINVAL if `out` was made for another quantizer or shape. */
enum nib_status nib_quantized_check(const struct nib_quantizer *q, struct nib_view x, enum nib_axis axis,
                                    const struct nib_quantized *out, struct nib_error *error);
/* The tensor scale that nib_quantize uses: given, from a given amax, or computed. */
enum nib_status nib_tensor_scale_choose(const struct nib_quantizer *q, struct nib_view x,
                                        const struct nib_quantize_options *options, const struct nib_isa *isa,
                                        struct nib_tensor_scale *out, struct nib_error *error);
/* The same, of what options->rotation makes of x. */
enum nib_status nib_amax_choose(const struct nib_quantizer *q, struct nib_view x,
                                const struct nib_quantize_options *options, const struct nib_isa *isa, float *out,
                                struct nib_error *error);
/* Where tiles cannot be rotated as they are loaded: rotates the whole tensor into *memory, which the caller frees,
 * and takes the rotation out of the options. */
enum nib_status nib_rotate_apart(const struct nib_quantizer *q, const struct nib_isa *isa, struct nib_view *x,
                                 struct nib_quantize_options *options, float **memory, struct nib_error *error);
float nib_amax_compute(const struct nib_quantizer *q, struct nib_view x, int threads, const struct nib_isa *isa);

#endif
