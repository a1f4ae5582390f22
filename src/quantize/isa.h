/* One set of stage functions per instruction set, all compiled from quantize_body.inc. A stage is a
 * loop over the NIB_TILE blocks of a tile; a choice of an axis without a stage function has NULL here
 * and is computed by the reference. */
#ifndef NIB_QUANTIZE_ISA_H
#define NIB_QUANTIZE_ISA_H

#include "quantize/sr.h"
#include "quantize/tensor_scale.h"

enum { NIB_TILE = 64 };

/* What the stages need to know of a tensor: numbers, rounded once. */
struct nib_consts {
    struct nib_tensor_scale tensor;
    float target_x_brq;                  /* S*rQ */
    float target_x_decode;               /* Q*D */
    float approx_q, approx_qd, approx_d; /* reciprocals of Q, Q*D and D by rcp.approx.ftz, */
    float approx_3_4, approx_size;       /* of 3/4 and of the elements of a block */
    float encode_reciprocal;             /* 1/S */
    float decode_reciprocal;             /* 1/D */
    float scale_min, scale_max;
    int element_emax;
    /* block-scale format */
    int mbits, bias;
    uint32_t top_exponent; /* as a field */
    uint32_t max_code, nan_code;
    float largest_scale;
    float scale_if_zero; /* 0: no change */
    uint32_t code_if_zero;
    /* powers of two: the code is ((bits + first + addend[exponent field]) >> 23) - offset, at most top */
    uint32_t first_addend, addend[256];
    int32_t exponent_offset, top_code;
    uint32_t zero_code; /* of a block of zeros */
    float zero_value, bottom_value;
    /* what the stages do not compute: a scale v below v_low but not 0, s from s_high on, a scaled element from y_high
     * on */
    float v_low, s_high, y_high;
    /* nor, where the compiler flushes, blocks so small, or factors so large, that it could show: tensor scales from
     * 2^-24 to 2^100 and an amax from b_low on leave no subnormal scale, and under a factor below factor_high elements
     * that are flushed have no other code than 0 */
    float b_low, factor_high;
    float ratio_high; /* nor blocks whose amax is more than so many s */
    /* element format */
    int32_t below_magnitude[7]; /* thresholds of magnitudes, less 1 */
    int32_t threshold[NIB_THRESHOLDS];
    uint8_t code_of_rank[NIB_CODES];
    float level[NIB_CODES];
    bool mirrored;                                      /* code 8 + i stands for the negative of code i */
    float middle[7];                                    /* between the magnitudes */
    float int4_level[NIB_CODES], int4_value[NIB_CODES]; /* of the integers that IF4 may choose; in units of s */
    uint32_t significand_reciprocal; /* bits of the reciprocal of the significand that all scales have */
    int32_t half_bits;                                  /* of the number that floor(a+0.5) lifts over the first tie */
    /* by the code of an 8-bit scale, for choices that are cheaper to tabulate; NaN: the reference */
    float factor_of_code[256], back_of_code[256];
    /* stochastic rounding */
    struct nib_sr_grid sr;
    bool translated;  /* counts are not codes */
    int signed_zero;  /* the axis */
    int precision;    /* of scaled elements */
    float approx_3_2; /* reciprocal of 3/2 */
};

/* in and out hold NIB_TILE numbers. */
typedef void nib_scale_stage(const struct nib_consts *k, const float *restrict in, float *restrict out);
/* Rounds the scales and brings them back: v -> code, s. */
typedef void nib_codec_stage(const struct nib_consts *k, const float *restrict v, uint32_t *restrict code,
                             float *restrict s);
/* x: `blocks` blocks of `size` elements, one factor per block -> a code per element. */
typedef void nib_element_stage(const struct nib_consts *k, const float *restrict x, const float *restrict factor,
                               size_t blocks, unsigned size, uint8_t *restrict codes);

/* The same with random bytes, as many per element as the choice of sr_bits says. */
typedef void nib_stochastic_stage(const struct nib_consts *k, const float *restrict x, const float *restrict factor,
                                  const uint8_t *restrict random, size_t blocks, unsigned size,
                                  uint8_t *restrict codes);

/* What the elements of blocks of 16 or 32 contribute to the errors of their blocks; the value q*s*... is multiplied by
 * `unit` where the levels are in other units. */
typedef void nib_terms_stage(const struct nib_consts *k, const float *restrict x, const uint8_t *restrict codes,
                             const float *restrict level, float unit, const float *restrict s, size_t blocks,
                             unsigned size, float *restrict terms);
enum nib_term { NIB_TERM_SQUARE, NIB_TERM_MAGNITUDE, NIB_TERM_DIFFERENCE, NIB_TERMS };
/* How terms are summed. What gives the same as one of these for blocks of one line is called by its name. */
enum nib_summation {
    NIB_SUM_SEQUENTIAL,
    NIB_SUM_TREE,
    NIB_SUM_LANES,
    NIB_SUM_SQUARES, /* of differences, by fused multiply-adds over four, then a tree */
    NIB_SUM_MOST,
    NIB_SUM_ROWS, /* squares of 16 x 16 from here on */
    NIB_SUM_CUDA_256,
    NIB_SUM_LANES_256,
    NIB_SUMMATIONS
};

/* The best error of each block so far and what made it, and another candidate: whose error is smaller, takes the place.
 * All arrays are of NIB_TILE. */
struct nib_verdict {
    float *best, *s;
    uint32_t *code;
    const float *error, *other_s;
    const uint32_t *other_code;
    uint32_t flag;  /* of the other code */
    bool nan_loses; /* the place is kept only where the error is at most the other */
};

enum nib_operation { NIB_MULTIPLY, NIB_DIVIDE, NIB_OPERATIONS };
/* KEEP, NEGATIVE, DROP, NONPOSITIVE: the signed_zero axis on a symmetric grid; HALF: NEGATIVE with the
 * rounding rne;a+.5; GRID: any grid, sign kept.
 * NOT_POSITIVE: a sign unless x is above zero; PRODUCTS: x against thresholds times the factor; INT4: the other levels
 * of IF4. */
enum nib_encoding {
    NIB_ENCODE_KEEP,
    NIB_ENCODE_NEGATIVE,
    NIB_ENCODE_DROP,
    NIB_ENCODE_NONPOSITIVE,
    NIB_ENCODE_HALF,
    NIB_ENCODE_GRID,
    NIB_ENCODE_NOT_POSITIVE,
    NIB_ENCODE_PRODUCTS,
    NIB_ENCODE_INT4,
    NIB_ENCODINGS
};
enum nib_codec {
    NIB_CODEC_E8M0,
    NIB_CODEC_EXPONENT,
    NIB_CODEC_MINIFLOAT,
    NIB_CODEC_HALF_UP,
    NIB_CODEC_FREXP,
    NIB_CODEC_BF16,
    NIB_CODEC_FP32,
    NIB_CODECS
};

struct nib_isa {
    const char *name;
    /* Largest |x| of each block, as bits; of `count` numbers of a dtype, as bits of that dtype. */
    void (*block_amax)(const float *x, size_t blocks, unsigned size, uint32_t *bits);
    uint32_t (*amax_f32)(const float *x, size_t count);
    uint32_t (*amax_half)(const uint16_t *x, size_t count);
    void (*load_bf16)(const uint16_t *restrict x, float *restrict out, size_t count);
    void (*load_f16)(const uint16_t *restrict x, float *restrict out, size_t count);
    nib_scale_stage *block_scale[NIB_AXIS_block_scale_COUNT];
    nib_scale_stage *block_scale_bf16[NIB_AXIS_block_scale_COUNT]; /* scale_precision "input" from bfloat16 */
    nib_scale_stage
        *wider_scale[NIB_AXIS_block_scale_COUNT]; /* of the wider candidate, where it is no product at the end */
    void (*cut_to_tf32)(const float *x, float *out, size_t count); /* may be in place */
    nib_scale_stage *bound;
    void (*straight_through)(const float *restrict v, float *restrict s);
    nib_codec_stage *codec[NIB_CODECS];
    bool (*screen)(const struct nib_consts *k, const float *b, const float *v, const float *s, const float *factor,
                   size_t blocks);
    nib_scale_stage *factor[NIB_AXIS_element_scale_COUNT];
    nib_scale_stage *factor_of_power; /* rcp.approx.ftz of scales with one significand; NaN where it is not normal */
    nib_element_stage *encode[NIB_OPERATIONS][NIB_AXIS_element_precision_COUNT][NIB_ENCODINGS];
    struct nib_random_stages random;
    /* Stochastic rounding by bytes / 2 of the random integers: the form carry, and others, which take products. */
    nib_stochastic_stage *carry[NIB_OPERATIONS][NIB_AXIS_element_precision_COUNT][NIB_AXIS_sr_bits_COUNT];
    nib_stochastic_stage *form[NIB_AXIS_sr_form_COUNT][NIB_AXIS_sr_bits_COUNT];
    nib_stochastic_stage *stochastic_int4[NIB_AXIS_sr_bits_COUNT]; /* of the integers that IF4 may choose */
    /* The bits of `count` random integers of `width` bytes, each in reverse order. */
    void (*reverse_bits)(const uint8_t *restrict random, size_t count, unsigned width, uint8_t *restrict out);
    nib_terms_stage *terms[NIB_AXIS_error_value_COUNT][NIB_TERMS];
    void (*sums)(const float *restrict terms, size_t blocks, unsigned size, enum nib_summation summation,
                 float *restrict errors);
    /* Of squares, `across` beside each other in lines of 16 elements: the error stands at each line. */
    void (*square_sums)(const float *restrict terms, size_t blocks, size_t across, enum nib_summation summation,
                        float *restrict errors);
    /* Block scales of the choice QuEST from the elements of blocks of 16 or 32. */
    void (*quest_scale)(const struct nib_consts *k, const float *restrict x, size_t blocks, unsigned size,
                        float *restrict out);
    /* Those of the choice of signed scales. */
    void (*signed_scale)(const float *restrict x, const float *restrict amax, size_t blocks, unsigned size,
                         float *restrict out);
    /* HiFloat4, all of it; `values` may be NULL. */
    void (*hif4)(const float level[NIB_CODES], const float *restrict x, size_t blocks, uint8_t *restrict codes,
                 uint32_t *restrict scale, float *restrict values);
    /* MS-EDEN: sums y*y and y*q of a group of NIB_EDEN_GROUP, one factor for `size` elements; and codes and values of
     * scales v, below the largest, drawn with four bytes for each. */
    void (*eden_dots)(const struct nib_consts *k, const float *restrict x, const float *restrict factor,
                      const uint8_t *restrict codes, unsigned size, enum nib_operation operation, float *square,
                      float *product);
    void (*eden_draw)(const struct nib_consts *k, const float *restrict v, const uint8_t *restrict words,
                      uint32_t *restrict code, float *restrict s);
    void (*take_better)(const struct nib_verdict *verdict, size_t blocks, unsigned size, uint8_t *restrict codes,
                        const uint8_t *restrict other_codes);
    void (*pack)(const uint8_t *restrict codes, size_t count, uint8_t *restrict packed); /* count even */
    nib_scale_stage *dequantize[NIB_AXIS_dequantize_COUNT];
    /* level * factor * second */
    void (*values)(const float level[NIB_CODES], const uint8_t *restrict codes, const float *restrict factor,
                   size_t blocks, unsigned size, float second, float *restrict values);
};

extern const struct nib_isa nib_isa_generic;
#if defined(__x86_64__)
extern const struct nib_isa nib_isa_avx2;
extern const struct nib_isa nib_isa_avx512;
#endif

/* Which operation the factor of an element_scale choice is for. */
enum nib_operation nib_element_operation(int element_scale);

/* The instance of that name (NULL: NIBBLE_ISA, else the best one). "ref" sets *reference and gives the
 * generic one. NIB_EUNAVAILABLE if the processor lacks it. */
enum nib_status nib_isa_choose(const char *name, const struct nib_isa **out, bool *reference, struct nib_error *error);

#endif
