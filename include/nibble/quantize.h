/* Quantize a matrix and bring it back. */
#ifndef NIBBLE_QUANTIZE_H
#define NIBBLE_QUANTIZE_H

#include <nibble/quantizer.h>
#include <nibble/view.h>

#ifdef __cplusplus
extern "C" {
#endif

struct nib_rotation;

/* What nib_quantize writes; combine with |. */
enum nib_want { NIB_WANT_CODES = 1, NIB_WANT_PACKED = 2, NIB_WANT_SCALES = 4, NIB_WANT_VALUES = 8 };

/* A quantized matrix of `rows` x `cols`. With ALONG_ROWS everything but `codes` and `values` is laid
 * out as the quantization of the transpose, which is how kernels store their column-wise copy.
 * packed: outer x ceil(inner/2) bytes, even element in the low nibble, the last high nibble 0 when
 *         inner is odd; inner runs along the reduction axis, outer across it.
 * scales: scale_rows x scale_cols entries of `scale_bytes` each, little-endian, row-major: the
 *         decode scale of each block. Blocks at the edges may be partial; missing elements count as
 *         zero for the amax and are never written.
 * codes, values: rows x cols at the positions of the input, whatever the axis. */
struct nib_quantized {
    size_t rows, cols;
    enum nib_axis axis;
    size_t scale_rows, scale_cols;
    unsigned scale_bytes;
    uint8_t *codes;
    uint8_t *packed;
    size_t packed_stride;        /* bytes from one packed row to the next */
    uint8_t *scales;
    float *values;               /* dequantized, binary32 */
    float tensor_amax;           /* as used; 0 where the format has no tensor scale */
    float tensor_scale_encode;   /* multiplies before rounding (2688/amax); 1 without one */
    float tensor_scale_decode;   /* multiplies after */
    uint64_t nan_count, inf_count; /* in the input */
    float *line_amax;            /* tensor_scope "row", "1x128": the amax of every line along the axis, or of its */
    size_t line_parts;           /* segments, line_parts in a line; else NULL and 1 */
};

struct nib_quantize_options {
    enum nib_axis axis;
    bool has_tensor_amax;        /* use tensor_amax instead of computing it */
    float tensor_amax;
    bool has_tensor_scale;       /* use tensor_scale_encode as given (and its decode value) */
    float tensor_scale_encode, tensor_scale_decode;
    const struct nib_rotation *rotation; /* of x along the axis, before everything else; NULL: none */
    /* Stochastic rounding: Philox4x32-10 with key = seed and counter = (index / 16, stream), index being the
     * row-major position of the element; or random_bits, one little-endian integer per element in that order. */
    uint64_t seed, stream;
    const uint8_t *random_bits;  /* NULL: Philox */
    size_t random_bytes;         /* rows * cols * (1, 2 or 4), as the sr_bits axis says */
    uint64_t first;              /* where x is a part of a tensor: the position there of its first element, and the */
    size_t tensor_cols;          /* columns of that tensor, for the index of Philox; 0: x is the whole */
    int threads;                 /* 0: OMP_NUM_THREADS or all; the bytes do not depend on it */
    const char *isa;             /* NULL: NIBBLE_ISA or the best one; "generic", "avx2", "avx512", "ref" */
};

/* Allocates the buffers that `want` names, and fills in the shape. */
NIB_API NIB_CHECK enum nib_status nib_quantized_alloc(const struct nib_quantizer *quantizer, size_t rows, size_t cols,
                                                      enum nib_axis axis, unsigned want, struct nib_quantized *out,
                                                      struct nib_error *error);
NIB_API void nib_quantized_free(struct nib_quantized *quantized);

/* Quantizes x into the buffers of `out` (allocated for the same quantizer, shape and axis; NULL
 * buffers are skipped). Bits do not depend on threads, instruction set or chunking. */
NIB_API NIB_CHECK enum nib_status nib_quantize(const struct nib_quantizer *quantizer, struct nib_view x,
                                               const struct nib_quantize_options *options, struct nib_quantized *out,
                                               struct nib_error *error);
/* values (rows x cols, binary32) from packed codes or codes, scales and the tensor scale. */
NIB_API NIB_CHECK enum nib_status nib_dequantize(const struct nib_quantizer *quantizer, const struct nib_quantized *q,
                                                 float *values, struct nib_error *error);

/* Largest |x| over the tensor; NaN is skipped or propagated as the quantizer's axes say. */
NIB_API NIB_CHECK enum nib_status nib_tensor_amax(const struct nib_quantizer *quantizer, struct nib_view x, int threads,
                                                  float *out, struct nib_error *error);

/* One step of the computation of one element: "block amax", 3FC00000, 1.5, ... */
struct nib_trace_step {
    char what[64];               /* "block scale before rounding" */
    char formula[96];            /* "block_amax * (S * 1/6)" */
    uint32_t bits;               /* binary32 bits, or the code or scale byte */
    double value;
    bool is_code;                /* bits is a code or byte, not binary32 */
};
struct nib_trace {
    size_t count;
    struct nib_trace_step step[32];
    double tie_distance_ulp;     /* of the scaled element to the nearest threshold, in binary32 ulps */
};
/* Every intermediate value of element (row, col). */
NIB_API NIB_CHECK enum nib_status nib_quantize_explain(const struct nib_quantizer *quantizer, struct nib_view x,
                                                       const struct nib_quantize_options *options, size_t row, size_t col,
                                                       struct nib_trace *out, struct nib_error *error);

#ifdef __cplusplus
}
#endif
#endif
