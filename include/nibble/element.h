/* Element formats: the 4-bit code books (E2M1, E1M2, INT4, NF4, a grid of your own). */
#ifndef NIBBLE_ELEMENT_H
#define NIBBLE_ELEMENT_H

#include <stddef.h>
#include <nibble/status.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { NIB_CODES = 16, NIB_THRESHOLDS = 15 };

/* Rounding of a real number to one of the two neighbouring levels.
 * RNE: nearest; a tie goes to the neighbour whose code is even (lowest bit 0); where both or
 *      neither are even, to the one of even rank counted from zero (from the lowest level for grids
 *      without sign symmetry).
 * RNA: nearest, ties away from zero.      RNZ: nearest, ties toward zero.
 * RTZ: toward zero.
 * SR is not here: it needs random bits and has functions of its own. */
enum nib_rounding { NIB_RNE, NIB_RNA, NIB_RNZ, NIB_RTZ, NIB_ROUNDINGS };

/* An immutable element format. Read the fields freely, never write them.
 * A level is the real value of a code; a rank is a level's place in ascending order; -0 and +0 are
 * two ranks where a grid has both. */
struct nib_element {
    char name[40];
    char title[96];
    char source[160];          /* where the format is defined */
    unsigned levels;           /* number of codes in use, 2..16 */
    float level[NIB_CODES];    /* by code; NAN for codes that are never produced */
    uint8_t code_of_rank[NIB_CODES]; /* by rank, the first `levels` entries */
    float level_of_rank[NIB_CODES];
    uint8_t rank_of_code[NIB_CODES]; /* 255 for unused codes */
    float max_magnitude;       /* g_max, the largest |level| */
    bool symmetric;            /* every level has its negative, and code = magnitude code | sign<<3 */
    bool has_negative_zero;
    unsigned magnitudes;       /* number of distinct |level|, zero included where it is a level: K of B_eff */
    uint8_t magnitude_of_code[NIB_CODES]; /* 0..magnitudes-1 ascending; 255 for unused codes */
    int emax;                  /* floor(log2(max_magnitude)); OCP MX's emax_elem (E2M1: 2) */
    const char *text;          /* the YAML it was read from, NUL-terminated */
    char sha256[65];           /* of that text, hexadecimal */
};

/* A rounding rule: an element format and a rounding mode, compiled to integers.
 * Binary32 bits b map to the ordered key  b ^ ((uint32)((int32)b >> 31) >> 1)  (signed; -0 is -1,
 * +0 is 0). rank = number of thresholds <= key; unused thresholds are INT32_MAX, which no key of a
 * number reaches. Infinities saturate; NaN must be handled before.
 * Where the element is symmetric, magnitude_threshold[0..6] hold the same cells on |x| as plain
 * binary32 bits (as signed int32), and code = count | sign bit << 3. */
struct nib_rule {
    int32_t threshold[NIB_THRESHOLDS];
    int32_t magnitude_threshold[7];
    uint64_t codes;            /* nibble r = code of rank r */
    bool symmetric;            /* magnitude_threshold is valid */
};

/* Opens a built-in by name ("e2m1") or a YAML file by path (a name that contains '/' or ends in
 * ".yaml"). NIB_ENOTFOUND suggests the nearest name; NIB_ESYNTAX carries the line. */
NIB_API NIB_CHECK enum nib_status nib_element_open(const char *name_or_path, const struct nib_element **out,
                                                   struct nib_error *error);
/* The same from text in memory; `label` stands for the file name in errors. */
NIB_API NIB_CHECK enum nib_status nib_element_parse(const char *text, size_t length, const char *label,
                                                    const struct nib_element **out, struct nib_error *error);
/* From signed levels in ascending order (2..16, finite, distinct): code = rank, except that a grid
 * symmetric about zero with at most 8 magnitudes gets sign-magnitude codes. */
NIB_API NIB_CHECK enum nib_status nib_element_from_levels(const char *name, const float *levels, unsigned count,
                                                          const struct nib_element **out, struct nib_error *error);
NIB_API void nib_element_close(const struct nib_element *element);

/* Compiles the thresholds, exactly (integers only). */
NIB_API void nib_rule_compile(const struct nib_element *element, enum nib_rounding mode, struct nib_rule *out);

/* The definition: the code of x by direct search over the levels in exact arithmetic; slow, and the
 * oracle of the thresholds. x must not be NaN; infinities saturate. A zero result takes the sign of
 * x where the format has -0. */
NIB_API uint8_t nib_element_round_ref(const struct nib_element *element, enum nib_rounding mode, float x);

NIB_API const char *nib_rounding_name(enum nib_rounding mode); /* "rne" ... */
NIB_API NIB_CHECK enum nib_status nib_rounding_parse(const char *name, enum nib_rounding *out, struct nib_error *error);

#ifdef __cplusplus
}
#endif
#endif
