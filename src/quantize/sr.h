/* Stochastic rounding of elements, default form (architecture, section 4): on the magnitude, away from zero if
 * floor(2^n * discarded fraction) + r >= 2^n, where r is a random integer of n bits. */
#ifndef NIB_QUANTIZE_SR_H
#define NIB_QUANTIZE_SR_H

#include <nibble/element.h>
#include <nibble/quantize.h>
#include "format/axes.h"

/* The definition: the code of y, which is no NaN. Between a negative and a positive level "away from
 * zero" is toward the one that has the sign of y. */
uint8_t nib_sr_code(const struct nib_element *element, float y, unsigned n, uint32_t r);

/* Forms that differ in how 2^n times the discarded fraction is compared with 2^n - r. */
enum nib_sr_comparison {
    NIB_SR_FLOOR,     /* its floor: the default form */
    NIB_SR_HALF_MORE, /* a half more */
    NIB_SR_TO_EVEN,   /* to nearest, ties to even */
    NIB_SR_TO_ODD     /* to nearest, ties to odd */
};
uint8_t nib_sr_code_compared(const struct nib_element *element, float y, unsigned n, uint32_t r,
                             enum nib_sr_comparison comparison);
/* The form, and the number of bits, that the quantizer's axes say. */
struct nib_quantizer;
uint8_t nib_sr_code_by_form(const struct nib_quantizer *q, float y, uint32_t r);
/* The form floor-add, where the input, and with it y, may be bfloat16; above, it is binary32. */
uint8_t nib_sr_floor_add(const struct nib_element *element, float y, uint32_t r, bool bf16);
/* microxcaling: log2 of the magnitude, in the type of the input, rounds to 3 just below 8. */
static inline bool nib_log2_reaches_3(float magnitude, bool bf16) {
    return magnitude >= (bf16 ? 0x1.fd3c2p+2f : 0x1.fffffep+2f);
}

/* curand_uniform of a word, as torch uses it: 1 becomes 0. */
float nib_torch_uniform(uint32_t r);
/* tl.rand of a word. */
float nib_triton_uniform(uint32_t r);
/* The number of random integers that give each code, out of 2^n, which is returned. */
uint64_t nib_sr_distribution(const struct nib_quantizer *q, float y, uint64_t count[NIB_CODES]);

/* A grid whose codes follow from the bits of |y| by a shift: multiples of a step below `lowest`, binades
 * of 2^(23-drop) levels from there on. A minifloat is one, and so is a grid of equal steps. */
struct nib_sr_grid {
    bool regular;          /* the rest holds */
    float lowest, inverse; /* inverse of the step, a power of two */
    uint32_t top;          /* count of the largest level */
    uint32_t drop;         /* bits of |y| that are discarded */
    uint32_t offset;       /* of the rest, to give the count */
    uint8_t code[16];      /* of a count, and of a count with a minus sign from 8 on */
};
void nib_sr_grid_make(const struct nib_element *element, struct nib_sr_grid *out);

/* Where the random bits of a tensor come from: given, or Philox4x32-10 with key = seed and counter =
 * (index / 16, stream), taken byte by byte in the order of the elements. */
struct nib_sr_source {
    unsigned bytes; /* of one element */
    int kind;       /* enum nib_axis_sr_source */
    enum nib_axis axis;
    uint64_t seed, stream;
    const uint8_t *given; /* or NULL */
    uint64_t first;       /* index of the first element */
    size_t cols;          /* of the untransposed tensor */
};
/* NIB_EINVAL if bits are given but not as many as the tensor needs. */
enum nib_status nib_sr_source_make(unsigned bytes, struct nib_view x, const struct nib_quantize_options *options,
                                   struct nib_sr_source *out, struct nib_error *error);

/* `blocks` Philox blocks of 16 bytes from `first` on. */
typedef void nib_philox_stage(uint64_t seed, uint64_t stream, uint64_t first, size_t blocks, uint8_t *restrict out);
/* One word, as four bytes, for each of `count` elements from `first` on. */
typedef void nib_words_stage(uint64_t seed, uint64_t stream, uint64_t first, size_t count, uint8_t *restrict out);
/* Those of an instruction set. */
struct nib_random_stages {
    nib_philox_stage *philox;
    nib_words_stage *words[NIB_AXIS_sr_source_COUNT]; /* NULL: not a source of words */
};
/* The random bytes of `count` elements from `index` on, */
void nib_sr_bytes(const struct nib_sr_source *source, const struct nib_random_stages *stages, uint64_t index,
                  size_t count, uint8_t *out);
/* or, where nib_sr_strides, of elements `stride` apart. */
bool nib_sr_strides(const struct nib_sr_source *source);
void nib_sr_bytes_apart(const struct nib_sr_source *source, uint64_t index, size_t stride, size_t count, uint8_t *out);
/* r of the element at a place among such bytes. */
static inline uint32_t nib_sr_word(const uint8_t *bytes, size_t element, unsigned width) {
    uint32_t word = 0;
    for (unsigned i = 0; i < width; i++) word |= (uint32_t)bytes[element * width + i] << 8 * i;
    return word;
}

#endif
