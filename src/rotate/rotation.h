/* What a rotation file says, resolved. */
#ifndef NIB_ROTATE_ROTATION_H
#define NIB_ROTATE_ROTATION_H

#include <nibble/rotate.h>

enum { NIB_ROTATION_MAX = 1024 };

/* The order in which the sums of a group are formed. BUTTERFLY: in place, strides 1, 2, 4, ...;
 * every pair (a, b) becomes (a + b, a - b). */
enum nib_evaluation { NIB_EVALUATION_BUTTERFLY };

/* What the transform is multiplied by, once, at the end. */
enum nib_normalization {
    NIB_NORMALIZATION_ORTHONORMAL, /* 1/sqrt(size) in binary32: 0.25 for 16 */
    NIB_NORMALIZATION_NONE         /* nothing: entries are +-1 */
};

/* Precision of the result; BF16 is rounded to nearest-even once, at the end. */
enum nib_rotation_output { NIB_ROTATION_FP32, NIB_ROTATION_BF16 };

struct nib_rotation {
    char name[40];
    char title[96];
    char source[160];
    unsigned size;
    float sign[NIB_ROTATION_MAX]; /* +1 or -1 */
    int evaluation;               /* enum nib_evaluation */
    int normalization;            /* enum nib_normalization */
    int output;                   /* enum nib_rotation_output */
    float factor;                 /* what the normalization comes to */
    char *text;
    char sha256[65];
};

#endif
