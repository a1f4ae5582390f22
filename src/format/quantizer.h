/* What is inside a struct nib_quantizer: the formats, one choice of every axis, and the compiled rounding rule. */
#ifndef NIB_FORMAT_QUANTIZER_H
#define NIB_FORMAT_QUANTIZER_H

#include "format/axes.h"

enum { NIB_AXES_MAX = 64, NIB_BLOCK_ROWS_MAX = 64 };

struct nib_quantizer {
    char name[256];
    char title[96];
    char source[200];
    char device[8];
    char verified_by[240], note[320];
    bool verified;
    const struct nib_block *block;
    struct nib_axes axes;
    struct nib_rule rule;       /* of the element and the rounding axis */
    uint8_t code_of_max;        /* code of the largest level */
    uint8_t code_of_min;        /* code of the smallest */
    uint8_t code_of_minus_zero; /* -0, or code_of_zero in a format without it */
    uint8_t code_of_zero;       /* +0, or the level nearest to zero in a grid without it */
    char *text;
    char sha256[65];
    bool given[NIB_AXES_MAX];                     /* named by the file, its base or a setting */
    char value_text[NIB_AXES_MAX][NIB_AXIS_TEXT]; /* numbers as nib_quantizer_axis() hands them out */
};

#endif
