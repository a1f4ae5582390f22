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
    float approx_q, approx_qd, approx_d; /* reciprocals of Q, Q*D and D by rcp.approx.ftz */
    float encode_reciprocal;             /* 1/S */
    float decode_reciprocal;             /* 1/D */
    float scale_min, scale_max;
    int element_emax;
    /* block-scale format */
    int mbits, bias;
    uint32_t max_code, nan_code;
    float largest_scale;
    float scale_if_zero; /* 0: no change */
    uint32_t code_if_zero;
    /* powers of two: the code is ((bits + addend[exponent field]) >> 23) - offset, at most top */
    uint32_t addend[256];
    int32_t exponent_offset, top_code;
    uint32_t zero_code; /* of a block of zeros */
    float zero_value, bottom_value;
    /* what the stages do not compute: a scale v below v_low but not 0, s from s_high on, a scaled element from y_high
     * on */
    float v_low, s_high, y_high;
    /* element format */
    int32_t magnitude_threshold[7];
    int32_t threshold[NIB_THRESHOLDS];
    uint64_t codes;
    float level[NIB_CODES];
    int error_order;
    int32_t half_bits; /* of the number that floor(a+0.5) lifts over the first tie */
    /* by the code of an 8-bit scale, for choices that are cheaper to tabulate; NaN: the reference */
    float factor_of_code[256], back_of_code[256];
    /* stochastic rounding */
    struct nib_sr_grid sr;
    bool translated;                            /* counts are not codes */
    bool sign_depends;                          /* on the element being zero, or rounding to it */
    uint32_t keep_minus_zero, keep_small_minus; /* 1 where the signed_zero axis lets a sign stand */
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

/* The error of each block of 16 elements, by the error axes. */
typedef void nib_error_stage(const struct nib_consts *k, const float *restrict x, const uint8_t *restrict codes,
                             const float *restrict s, size_t blocks, float *restrict errors);

enum nib_operation { NIB_MULTIPLY, NIB_DIVIDE, NIB_OPERATIONS };
/* KEEP, NEGATIVE, DROP, NONPOSITIVE: the signed_zero axis on a symmetric grid; HALF: NEGATIVE with the
 * rounding rne;a+.5; GRID: any grid, sign kept. */
enum nib_encoding {
    NIB_ENCODE_KEEP,
    NIB_ENCODE_NEGATIVE,
    NIB_ENCODE_DROP,
    NIB_ENCODE_NONPOSITIVE,
    NIB_ENCODE_HALF,
    NIB_ENCODE_GRID,
    NIB_ENCODINGS
};
enum nib_codec { NIB_CODEC_E8M0, NIB_CODEC_EXPONENT, NIB_CODEC_MINIFLOAT, NIB_CODEC_BF16, NIB_CODEC_FP32, NIB_CODECS };

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
    nib_scale_stage *bound;
    void (*straight_through)(const float *restrict v, float *restrict s);
    nib_codec_stage *codec[NIB_CODECS];
    bool (*screen)(const struct nib_consts *k, const float *b, const float *v, const float *s, const float *factor,
                   size_t blocks);
    nib_scale_stage *factor[NIB_AXIS_element_scale_COUNT];
    nib_element_stage *encode[NIB_OPERATIONS][NIB_AXIS_element_precision_COUNT][NIB_ENCODINGS];
    nib_philox_stage *philox;
    nib_stochastic_stage *stochastic[NIB_OPERATIONS][NIB_AXIS_element_precision_COUNT][NIB_AXIS_sr_bits_COUNT];
    nib_error_stage *errors[NIB_AXIS_error_value_COUNT][NIB_AXIS_error_metric_COUNT];    /* order: k->error_order */
    void (*pack)(const uint8_t *restrict codes, size_t count, uint8_t *restrict packed); /* count even */
    nib_scale_stage *dequantize[NIB_AXIS_dequantize_COUNT];
    /* level * factor (* second) */
    void (*values)(const struct nib_consts *k, const uint8_t *restrict codes, const float *restrict factor,
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
