/* Matrix units: the arithmetic of one matrix instruction, operand bits in, accumulator bits out. */
#ifndef NIBBLE_UNIT_H
#define NIBBLE_UNIT_H

#include <stddef.h>
#include <nibble/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NAME, name, bits. How operands lie in memory: 4-bit ones two to a byte, the even element in the low
 * nibble; 6-bit ones one to a byte; the others in their own width, little-endian (TF32 in 32 bits, of
 * which the low 13 are ignored). */
#define NIB_OPERAND_LIST(X)                                                                                            \
    X(E2M1, "e2m1", 4)                                                                                                 \
    X(E2M3, "e2m3", 6)                                                                                                 \
    X(E3M2, "e3m2", 6)                                                                                                 \
    X(E4M3, "e4m3", 8)                                                                                                 \
    X(E5M2, "e5m2", 8)                                                                                                 \
    X(E4M3FNUZ, "e4m3fnuz", 8)                                                                                         \
    X(E5M2FNUZ, "e5m2fnuz", 8)                                                                                         \
    X(FP16, "fp16", 16)                                                                                                \
    X(BF16, "bf16", 16)                                                                                                \
    X(TF32, "tf32", 32)                                                                                                \
    X(FP32, "fp32", 32)                                                                                                \
    X(FP64, "fp64", 64)                                                                                                \
    X(S4, "s4", 4)                                                                                                     \
    X(S8, "s8", 8)

enum nib_operand {
#define NIB_OPERAND_ENUM(name, text, bits) NIB_OPERAND_##name,
    NIB_OPERAND_LIST(NIB_OPERAND_ENUM)
#undef NIB_OPERAND_ENUM
    NIB_OPERANDS
};
NIB_API const char *nib_operand_name(enum nib_operand operand); /* NULL past the last */
NIB_API unsigned nib_operand_bits(enum nib_operand operand);
/* Bytes of `count` packed elements. */
NIB_API size_t nib_operand_bytes(enum nib_operand operand, size_t count);
NIB_API NIB_CHECK enum nib_status nib_operand_parse(const char *name, enum nib_operand *out, struct nib_error *error);
/* The exact value of one code (low bits of `code`), as binary64; every format here fits. */
NIB_API double nib_operand_value(enum nib_operand operand, uint64_t code);

/* The algorithms (docs/spec/matrix-units.md). */
enum nib_unit_model {
    NIB_UNIT_T_FDPA,       /* truncated fused dot product and add */
    NIB_UNIT_ST_FDPA,      /* the same with one pair of power-of-two scales per block */
    NIB_UNIT_GST_FDPA,     /* exact dots of groups of 16, scaled, then the truncated sum */
    NIB_UNIT_SPLIT_T_FDPA, /* mma.sync FP8 emulated by two FP16 T-FDPA and one addition */
    NIB_UNIT_INTEGER,      /* exact, modulo 2^32 or saturated */
    NIB_UNIT_FMA_CHAIN,    /* IEEE fused multiply-adds in ascending k */
    NIB_UNIT_E_FDPA,       /* exact sum, one rounding */
    NIB_UNIT_FTZ_PAIRWISE, /* rounded products, pairwise sums, subnormals flushed */
    NIB_UNIT_TR_FDPA,      /* truncated products, rounded down against the accumulator */
    NIB_UNIT_GTR_FDPA,     /* the same, even and odd k apart */
    NIB_UNIT_MODELS
};
enum nib_accumulator { NIB_ACC_FP32, NIB_ACC_FP16, NIB_ACC_S32, NIB_ACC_FP64 };
enum nib_unit_rounding { NIB_RZ_FP32, NIB_RZ_E8M13, NIB_RNE_FP16, NIB_RNE_FP32, NIB_RNE_FP64, NIB_EXACT_S32 };
enum nib_unit_scale { NIB_UNIT_SCALE_NONE, NIB_UNIT_SCALE_UE8M0, NIB_UNIT_SCALE_UE4M3 };
/* hardware: reproduces device outputs that lie in data/. published: a bit-level model by others.
 * extrapolated: the same algorithm assumed where nobody has shown it. */
enum nib_evidence { NIB_HARDWARE, NIB_PUBLISHED, NIB_EXTRAPOLATED };

/* An immutable matrix unit. Read the fields freely, never write them. */
struct nib_unit {
    char name[40];
    char title[96];
    char source[200];
    char architecture[64];
    char instruction[96];
    enum nib_evidence evidence;
    char verified_by[160];       /* the evidence, or the reason why there is none */
    enum nib_unit_model model;
    uint32_t operands;           /* bit i: operand format i is accepted */
    bool mixed;                  /* A and B may differ in format */
    enum nib_accumulator accumulator;
    enum nib_unit_rounding rounding;
    unsigned k;                  /* of one instruction */
    unsigned block;              /* L: products summed before a rounding */
    int fraction_bits;           /* F */
    int second_fraction_bits;    /* F2 of TR- and GTR-FDPA */
    int e_zero;                  /* exponent that a zero term takes part with */
    enum nib_unit_scale scale;   /* inside the instruction */
    unsigned scale_block;        /* elements of K per scale, 0 without scales */
    unsigned group;              /* G of GST-FDPA */
    bool saturate;               /* integers: clamp instead of wrapping */
    const char *text;            /* the YAML it was read from */
    char sha256[65];
};

/* Opens a built-in by name ("hopper-wgmma-fp8-f32") or a YAML file by path. */
NIB_API NIB_CHECK enum nib_status nib_unit_open(const char *name_or_path, const struct nib_unit **out,
                                                struct nib_error *error);
NIB_API NIB_CHECK enum nib_status nib_unit_parse(const char *text, size_t length, const char *label,
                                                 const struct nib_unit **out, struct nib_error *error);
NIB_API void nib_unit_close(const struct nib_unit *unit);
/* Name of the i-th built-in unit, NULL past the end. */
NIB_API const char *nib_unit_builtin(size_t i);
NIB_API const char *nib_unit_model_name(enum nib_unit_model model);
NIB_API const char *nib_evidence_name(enum nib_evidence evidence);
NIB_API unsigned nib_accumulator_bytes(enum nib_accumulator accumulator); /* 4, 2, 4 or 8 */

/* One operand matrix of `rows` x k elements: A has M rows, B has N (K is contiguous in both).
 * `scales` holds k / scale_block bytes a row where the unit takes scales, NULL otherwise. */
struct nib_unit_matrix {
    enum nib_operand operand;
    const void *bits;
    size_t stride;               /* bytes from row to row */
    const uint8_t *scales;
    size_t scale_stride;
};

/* NIB_OK where the unit can multiply these operands; otherwise NIB_EINVAL and the number that was
 * expected (the formats it takes, the multiple of K, the scales per row). */
NIB_API NIB_CHECK enum nib_status nib_unit_accepts(const struct nib_unit *unit, enum nib_operand a, enum nib_operand b,
                                                   size_t k, struct nib_error *error);

/* The definition: one output element, the chain of instructions over k in ascending order that starts
 * from the accumulator bits c. The operands must be accepted by the unit. */
NIB_API uint64_t nib_unit_dot_ref(const struct nib_unit *unit, const struct nib_unit_matrix *a, size_t row_a,
                                  const struct nib_unit_matrix *b, size_t row_b, size_t k, uint64_t c);

struct nib_unit_options {
    int threads;                 /* 0: OMP_NUM_THREADS or all; the bits do not depend on it */
    const char *isa;             /* NULL: NIBBLE_ISA or the best one; "ref", "generic", "avx2", "avx512" */
};
/* The instruction set that nib_unit_multiply runs with for these operands: "ref", "generic", ... */
NIB_API NIB_CHECK enum nib_status nib_unit_isa(const struct nib_unit *unit, enum nib_operand a, enum nib_operand b,
                                               const char *isa, const char **out, struct nib_error *error);
/* d (m x n accumulators, row-major) = c + A B^T by a chain of instructions over k; c NULL means +0.
 * c and d may be the same array. Strides count accumulators. */
NIB_API NIB_CHECK enum nib_status nib_unit_multiply(const struct nib_unit *unit, const struct nib_unit_matrix *a,
                                                    const struct nib_unit_matrix *b, size_t m, size_t n, size_t k,
                                                    const void *c, size_t c_stride,
                                                    const struct nib_unit_options *options, void *d, size_t d_stride,
                                                    struct nib_error *error);

#ifdef __cplusplus
}
#endif
#endif
