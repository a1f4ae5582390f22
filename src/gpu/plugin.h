/* The interface between nibble and its CUDA plug-in: plain C types, one table of functions, one
 * exported symbol. The plug-in links nothing of nibble, so that agreement between the two is evidence.
 *
 * All pointers are host memory; the plug-in moves data to the device and back. Every function returns 0
 * or a nonzero enum nib_gpu_result and then fills `error`. */
#ifndef NIB_GPU_PLUGIN_H
#define NIB_GPU_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NIB_GPU_PLUGIN_ABI 4
#define NIB_GPU_PLUGIN_SYMBOL "nib_gpu_plugin"

enum nib_gpu_result {
    NIB_GPU_OK = 0,
    NIB_GPU_NO_DEVICE,   /* no driver, no device, driver too old */
    NIB_GPU_NO_KERNEL,   /* this build has no code for the device, or the device lacks the instruction */
    NIB_GPU_NO_MEMORY,   /* device memory */
    NIB_GPU_FAULT,       /* a kernel trapped or a copy failed: nothing that came back may be used */
    NIB_GPU_BAD_ARGUMENT
};

struct nib_gpu_device {
    char name[128];
    int major, minor;            /* compute capability */
    int multiprocessors;
    uint64_t memory_total, memory_free; /* bytes */
    int driver, runtime;         /* as CUDA numbers them: 13000 */
    char built_for[64];          /* "sm_90a sm_100a sm_120a" */
    int native_fp4_convert;      /* cvt.rn.satfinite.e2m1x2 runs in this build on this device */
    int native_fp4_stochastic;   /* cvt.rs.satfinite.e2m1x4 */
    int fp4_tensor_cores;        /* block-scaled mma */
    int cublaslt;                /* cuBLASLt's version, 0 when the library was not found */
};

enum nib_gpu_dtype { NIB_GPU_F32, NIB_GPU_BF16, NIB_GPU_F16 };
enum nib_gpu_scale { NIB_GPU_SCALE_E4M3, NIB_GPU_SCALE_E8M0, NIB_GPU_SCALE_FP32 };

/* How the block scale follows from the block amax b. */
enum nib_gpu_scale_rule {
    NIB_GPU_RULE_NVFP4,          /* TransformerEngine: e4m3(min(b * (S * 1/6), FLT_MAX)), S = 2688 / tensor amax */
    NIB_GPU_RULE_ABSMAX,         /* b / g_max, no tensor scale; E8M0 scales are rounded up */
    NIB_GPU_RULE_MX_FLOOR,       /* OCP MX: 2^(floor(log2 b) - emax) */
    NIB_GPU_RULE_MX_CEIL,        /* 2^(ceil(log2 b) - emax) */
    NIB_GPU_RULE_MX_RCEIL,       /* smallest power of two >= b * RN(1/g_max): cvt.rp */
    NIB_GPU_RULE_MX_EVEN         /* b rounded to two mantissa bits' carry (+0x200000), then floor */
};

enum nib_gpu_rotate_by { NIB_GPU_BUTTERFLY, NIB_GPU_TENSOR_CORE };

struct nib_gpu_rotation {
    unsigned size;               /* 0 or 1: none; 16, 32, 64, 128, 256 */
    int8_t sign[256];            /* +1 or -1, applied before the transform */
    enum nib_gpu_rotate_by by;   /* TENSOR_CORE takes bf16 input */
    int round_to_bf16;           /* the rotated value is rounded to bf16 before it is quantized */
};

struct nib_gpu_quantizer {
    float level[16];             /* by code; NaN where a code is not used */
    int is_e2m1;                 /* the hardware's own conversion may be used where it exists */
    float max_magnitude;
    int emax;
    enum nib_gpu_scale scale;
    enum nib_gpu_scale_rule rule;
    int amax_nan_propagates;     /* a NaN makes the block amax NaN; otherwise numbers win */
    int infinite_scale_is_nan;   /* E8M0: an infinite scale is stored as NaN (FF), otherwise as the largest (FE) */
    unsigned nan_code;           /* of a scaled element that is NaN */
    unsigned block_rows, block_cols; /* 1xN (16, 32) or 16x16, along the axis */
    int along_rows;              /* blocks and rotations run down the columns */
    struct nib_gpu_rotation rotation;
    unsigned random_bits;        /* 0: nearest even; 8, 16 or 32: stochastic, Philox by element index */
    uint64_t seed, stream;
};

/* Layouts are those of nibble's struct nib_quantized: along_rows gives the packed codes and the scales
 * of the transpose. NULL outputs are skipped. */
struct nib_gpu_quantized {
    uint8_t *packed;             /* outer x ceil(inner / 2) */
    uint8_t *scales;             /* one entry a block: 1 byte, or 4 for FP32 */
    float *values;               /* rows x cols, dequantized */
    float tensor_amax;           /* as used */
    float tensor_scale_encode, tensor_scale_decode;
};

/* One timed kernel. */
struct nib_gpu_timing {
    char name[96];
    double seconds;              /* best of the repetitions */
    double bytes;                /* read and written by the algorithm */
};

/* One matrix instruction. A call takes `count` independent tiles, each with its own operands: A row-major
 * m x (k * k_steps), B as n rows of k * k_steps (column-major B), C and D row-major m x n; `k_steps`
 * instructions chain through the accumulator. Sub-byte operands are packed, first element low. Scaled
 * instructions also take one byte per 16 or 32 elements of each row of A and of B. */
struct nib_gpu_mma {
    char name[64];               /* "sm90.mma.m16n8k16.bf16.f32" */
    unsigned m, n, k;            /* of one instruction */
    unsigned operand_bits, accumulator_bits;
    unsigned scale_block;        /* elements along k that share a scale; 0: no scales */
    int runs_here;               /* this build has it, and the open device runs it */
    char why_not[96];
};

struct nib_gpu_plugin {
    uint32_t abi;                /* NIB_GPU_PLUGIN_ABI */
    uint32_t size;               /* sizeof(struct nib_gpu_plugin) */
    const char *version, *commit;
    int (*open)(int index, char *error, size_t size);
    void (*close)(void);
    int (*device)(struct nib_gpu_device *out, char *error, size_t size);

    int (*quantize)(const struct nib_gpu_quantizer *quantizer, enum nib_gpu_dtype dtype, const void *x, size_t rows,
                    size_t cols, int has_tensor_amax, float tensor_amax, struct nib_gpu_quantized *out, char *error,
                    size_t size);
    int (*dequantize)(const struct nib_gpu_quantizer *quantizer, const uint8_t *packed, const uint8_t *scales,
                      float tensor_amax, size_t rows, size_t cols, float *values, char *error, size_t size);
    /* out: bf16 bits where round_to_bf16 (2 bytes an element), else binary32. */
    int (*rotate)(const struct nib_gpu_rotation *rotation, enum nib_gpu_dtype dtype, const void *x, size_t rows,
                  size_t cols, int along_rows, void *out, char *error, size_t size);
    /* Linear rows x cols scale bytes into the 128x4 tiles of cuBLAS (padded with zeros); `tile_rows` is 128 or 8. */
    int (*swizzle)(const uint8_t *scales, size_t rows, size_t cols, unsigned tile_rows, uint8_t *out, char *error,
                   size_t size);

    /* The plug-in's own element conversion against the vendor header over all 2^32 inputs: number of differences
     * and the first one. */
    int (*check_e2m1)(uint64_t *differences, uint32_t *first, char *error, size_t size);

    /* i-th instruction of this build; nonzero past the end. */
    int (*mma_list)(unsigned i, struct nib_gpu_mma *out);
    int (*mma)(const char *name, size_t count, unsigned k_steps, const void *a, const void *b, const void *c,
               const uint8_t *a_scales, const uint8_t *b_scales, void *d, char *error, size_t size);
    /* cuBLASLt: D = A B^T, A m x k, B n x k row-major, bf16 or e4m3 in, f32 or bf16 out. */
    int (*cublaslt)(int fp8, int fast_accumulation, int bf16_output, size_t m, size_t n, size_t k, const void *a,
                    const void *b, void *d, char *error, size_t size);

    /* Fills at most `capacity` timings for a rows x cols bf16 matrix; the first is the device copy. */
    int (*bench)(size_t rows, size_t cols, int repetitions, struct nib_gpu_timing *out, size_t capacity, size_t *count,
                 char *error, size_t size);
};

#ifdef __cplusplus
}
#endif
#endif
