/* What a rotation file says, resolved. */
#ifndef NIB_ROTATE_ROTATION_H
#define NIB_ROTATE_ROTATION_H

#include <nibble/rotate.h>
#include <nibble/unit.h>

/* Sizes are base * 2^k: base 1 up to 1024, the others up to 1024 times themselves. */
enum { NIB_ROTATION_MAX = 40 * 1024, NIB_ROTATION_POWER_MAX = 1024, NIB_POINTS_MOST = 64 };

/* The order in which the sums of a group are formed. */
enum nib_evaluation {
    NIB_EVALUATION_BUTTERFLY,  /* in place, strides 1, 2, 4, ...; every pair (a, b) becomes (a + b, a - b); then the
                                * base matrix, term by term */
    NIB_EVALUATION_SEQUENTIAL, /* each output term by term, from the first input to the last */
    NIB_EVALUATION_RUNS,       /* each output as sums of four consecutive terms, added from left to right */
    NIB_EVALUATION_PARITY,     /* each output as the sum of its even and the sum of its odd terms */
    NIB_EVALUATION_EXACT,      /* each output rounded once, factor included */
    NIB_EVALUATION_UNIT        /* products of `points` elements in a matrix unit, low bits of the index first */
};

/* What the transform is multiplied by. */
enum nib_normalization {
    NIB_NORMALIZATION_ORTHONORMAL, /* 1/sqrt(size) in binary32: 0.25 for 16 */
    NIB_NORMALIZATION_NONE         /* nothing: entries are +-1 */
};

/* Precision of the result, and of what passes from stage to stage; BF16 is rounded to nearest-even. */
enum nib_rotation_output { NIB_ROTATION_FP32, NIB_ROTATION_BF16 };

struct nib_rotation {
    char name[40];
    char title[96];
    char source[160];
    unsigned size, base;
    float *sign;                  /* +1 or -1, `size` of them */
    bool inverse;                 /* x H^T, and signs afterwards */
    bool flush;                   /* subnormal inputs and results become zeros */
    int evaluation;               /* enum nib_evaluation */
    int normalization;            /* enum nib_normalization */
    int output, stages;           /* enum nib_rotation_output */
    float factor;                 /* one multiplication at the end; in the entries of a matrix unit's operand */
    bool own_factor;              /* the file gives it */
    const struct nib_unit *unit;
    enum nib_operand operand;     /* of the unit: BF16, or TF32 */
    unsigned points;              /* of one product in the unit */
    char *text;
    char sha256[65];
};

/* A copy with another sign vector: `size` numbers, each 1 or -1. */
enum nib_status nib_rotation_with_signs(const struct nib_rotation *rotation, const float *sign,
                                        const struct nib_rotation **out, struct nib_error *error);

/* Entry (i, j) of the base matrix of order 1, 12, 20, 28 or 40: +1 or -1. */
int nib_hadamard_base(unsigned base, unsigned i, unsigned j);
/* Entry (i, j) of the whole matrix, base matrix times Sylvester's. */
int nib_hadamard_entry(const struct nib_rotation *rotation, unsigned i, unsigned j);

/* One group of `size` elements in place by the rotation's own evaluation, the definition of them all. `work` holds
 * as many numbers. */
void nib_rotation_evaluate(const struct nib_rotation *rotation, float *x, float *work);

/* The sum of count numbers x[i] * sign(i), exactly, times factor / sqrt(root), rounded once to binary32. */
float nib_exact_sum(const float *x, unsigned count, int (*sign)(const void *context, unsigned i), const void *context,
                    float factor, unsigned root);

#endif
