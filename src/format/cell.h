/* The neighbourhood of one number in a format: what it rounds to, between which borders, how near to one. */
#ifndef NIB_FORMAT_CELL_H
#define NIB_FORMAT_CELL_H

#include <nibble/element.h>
#include <nibble/scale.h>

/* Borders are real numbers: the middle of two neighbouring values when rounding to nearest, else the
 * value itself. Where there is none the border is infinite. The border between -0 and +0 is 0. */
struct nib_cell {
    uint32_t code;
    float value;         /* of the code; NAN for NaN */
    double below, above; /* the borders of the cell */
    bool tie;            /* x lies exactly in the middle of two neighbours, and the mode had to decide */
    double distance_ulp; /* to the nearest border between different values, in steps from one binary32 number to the
                          * next; 0 on it. NAN for NaN, INFINITY without such borders */
};

/* x must not be NaN: an element format has no answer to it. */
void nib_element_cell(const struct nib_element *element, enum nib_rounding mode, float x, struct nib_cell *out);
void nib_scale_cell(const struct nib_scale *scale, enum nib_scale_rounding mode, float x, struct nib_cell *out);

#endif
