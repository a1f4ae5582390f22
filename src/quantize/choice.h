/* The name of the choice that a quantizer made: NIB_CHOICE_NAME(q, block_scale) is "b*(S*rQ)". */
#ifndef NIB_QUANTIZE_CHOICE_H
#define NIB_QUANTIZE_CHOICE_H

#include "format/quantizer.h"

const char *nib_choice_name(const struct nib_quantizer *q, size_t axis_offset);
#define NIB_CHOICE_NAME(q, axis) nib_choice_name(q, offsetof(struct nib_axes, axis))

#endif
