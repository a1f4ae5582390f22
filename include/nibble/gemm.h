/* Matrix products through a matrix unit: D = epilogue(alpha A B^T, beta C), with the bits of the device. */
#ifndef NIBBLE_GEMM_H
#define NIBBLE_GEMM_H

#include <nibble/quantize.h>
#include <nibble/unit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One operand: A has M rows of K elements, B has N. Scales that the unit applies itself are part of
 * `matrix`. FP32 block scales are applied in the epilogue of each block: one for every
 * `block_scale_k` elements of K (struct nib_gemm) and every `block_scale_rows` rows. */
struct nib_gemm_operand {
    struct nib_unit_matrix matrix;
    const float *block_scales;   /* decode scales; NULL for none, else both operands have them */
    size_t block_scale_stride;   /* scales from one row of blocks to the next */
    size_t block_scale_rows;     /* rows that share a scale: 1, or 128 for square blocks */
};

/* How the part sum p of a block enters the FP32 sum s. */
enum nib_gemm_scaling {
    NIB_GEMM_PRODUCT,            /* s = FMA(RN(sa * sb), p, s): DeepGEMM, CUTLASS with shared scales */
    NIB_GEMM_SEQUENTIAL          /* s = FMA(RN(p * sa), sb, s): CUTLASS with scales per element */
};
/* The order in which instructions walk K. Interleaved by w: 0, w, 2w, ..., 1, w+1, ... */
enum nib_gemm_order { NIB_GEMM_ASCENDING, NIB_GEMM_DESCENDING, NIB_GEMM_INTERLEAVED };
/* The type of D. ACCUMULATOR: the unit's own bits, without an epilogue. */
enum nib_gemm_output { NIB_GEMM_F32, NIB_GEMM_BF16, NIB_GEMM_F16, NIB_GEMM_E4M3, NIB_GEMM_ACCUMULATOR };

struct nib_gemm {
    const struct nib_unit *unit;
    size_t m, n, k;
    struct nib_gemm_operand a, b;
    size_t block_scale_k;
    enum nib_gemm_scaling scaling;
    unsigned promote;            /* instructions between additions to an FP32 sum; 0: one chain */
    unsigned split_k;            /* contiguous parts of K, added in FP32 in ascending order; 0 and 1: none */
    enum nib_gemm_order order;
    unsigned interleave;
    float alpha, beta;           /* D = RN(FMA(beta, C, RN(alpha acc))); with beta = 0, RN(alpha acc) */
    const float *c;              /* m x n where beta is not 0 */
    size_t c_stride;
    enum nib_gemm_output output;
};

/* Bytes of one element of D. */
NIB_API unsigned nib_gemm_output_bytes(const struct nib_gemm *gemm);
/* d: m x n elements, row-major; d_stride counts elements. Bits do not depend on threads or instruction set. */
NIB_API NIB_CHECK enum nib_status nib_gemm_run(const struct nib_gemm *gemm, const struct nib_unit_options *options,
                                               void *d, size_t d_stride, struct nib_error *error);

/* An operand that owns its memory. */
struct nib_gemm_buffer {
    struct nib_gemm_operand operand;
    size_t rows, k;
    size_t block_scale_k;        /* 0 without block scales */
    float tensor_scale_decode;   /* belongs into alpha; 1 without one */
    uint64_t inexact;            /* elements that the operand format could not hold exactly */
    void *memory[3];
};
NIB_API void nib_gemm_buffer_clear(struct nib_gemm_buffer *buffer);
/* From a matrix that was quantized with packed codes and scales, for this unit: codes become operands
 * of the unit (integers for a unit of integers), scales go into the instruction or the epilogue. A unit
 * that takes the element format but not the scale format, or neither, is NIB_EINVAL. */
NIB_API NIB_CHECK enum nib_status nib_gemm_from_quantized(const struct nib_unit *unit,
                                                          const struct nib_quantizer *quantizer,
                                                          const struct nib_quantized *q, struct nib_gemm_buffer *out,
                                                          struct nib_error *error);
/* From values (rows x k), rounded to nearest even into the operand format (saturating where it has no
 * infinity); with a unit that scales blocks by UE8M0, in the manner of OCP MX: scale exponent
 * floor(log2 amax) - emax. A fake-quantized operand is this on dequantized values. */
NIB_API NIB_CHECK enum nib_status nib_gemm_from_values(const struct nib_unit *unit, enum nib_operand operand,
                                                       struct nib_view values, struct nib_gemm_buffer *out,
                                                       struct nib_error *error);
/* Block scales from the 128x4 tiles of cuBLAS into rows of `columns` bytes; `size` is that of the input. */
NIB_API NIB_CHECK enum nib_status nib_gemm_unswizzle(const uint8_t *swizzled, size_t size, size_t rows, size_t columns,
                                                     uint8_t *linear, struct nib_error *error);

/* D against the exact alpha A B^T + beta C, computed without rounding. */
struct nib_gemm_error {
    uint64_t outputs;            /* compared, evenly spaced over D */
    uint64_t nonfinite;          /* left out of the sums: infinite or NaN */
    uint64_t exact;              /* equal to the exact product */
    double max_abs;              /* largest |D - exact| */
    double rms;                  /* root mean square of D - exact */
    double mean;                 /* of D - exact: truncation shows here */
    double relative;             /* ||D - exact|| / ||exact|| */
};
/* `most` outputs at most; 0 takes all. */
NIB_API NIB_CHECK enum nib_status nib_gemm_measure(const struct nib_gemm *gemm, const void *d, size_t d_stride,
                                                   uint64_t most, int threads, struct nib_gemm_error *out,
                                                   struct nib_error *error);

/* Where the error of a quantized product comes from. Y = X_A X_B^T is the product of the original
 * values; all shares are squared norms relative to ||Y||^2, from exact products. */
struct nib_gemm_anatomy {
    uint64_t outputs;
    double from_a;               /* Q(A) B - A B */
    double from_b;               /* A Q(B) - A B */
    double from_both;            /* Q(A) Q(B) - A B */
    double interaction;          /* Q(A) Q(B) - Q(A) B - A Q(B) + A B */
    double from_accumulation;    /* D - Q(A) Q(B) */
    double total;                /* D - A B */
};
/* a (m x k) and b (n x k): the original values. tensor_scale_a, _b: decode scales of the operands
 * outside the unit, as in struct nib_gemm_buffer. D must not carry a C (beta = 0). */
NIB_API NIB_CHECK enum nib_status nib_gemm_dissect(const struct nib_gemm *gemm, struct nib_view a, struct nib_view b,
                                                   float tensor_scale_a, float tensor_scale_b, const void *d,
                                                   size_t d_stride, uint64_t most, int threads,
                                                   struct nib_gemm_anatomy *out, struct nib_error *error);

#ifdef __cplusplus
}
#endif
#endif
