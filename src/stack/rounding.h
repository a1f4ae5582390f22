/* Where a result is rounded: everything is kept in binary64, and holds a value of a narrower type. */
#ifndef NIB_STACK_ROUNDING_H
#define NIB_STACK_ROUNDING_H

#include "core/convert.h"
#include <string.h>

enum nib_width { NIB_WIDTH_F64, NIB_WIDTH_F32, NIB_WIDTH_BF16 };

/* What a precision of the stack rounds to. */
struct nib_widths {
    enum nib_width narrow; /* what linear layers and products read and write */
    enum nib_width wide;   /* residual stream, softmax, loss, gradients of weights */
};

static inline double nib_width_round_f32(double x) {
    return (double)(float)x;
}
/* By way of binary32, in which the units keep their sums. */
static inline double nib_width_round_bf16(double x) {
    return (double)nib_float_of_bits(nib_bits_of_bf16(nib_bf16_of_bits(nib_bits_of_float((float)x))));
}

static inline double nib_width_round(double x, enum nib_width width) {
    switch (width) {
    case NIB_WIDTH_F64: return x;
    case NIB_WIDTH_F32: return nib_width_round_f32(x);
    case NIB_WIDTH_BF16: return nib_width_round_bf16(x);
    }
    return x;
}

/* In place, or from `from` to `to`. */
static inline void nib_width_round_run(const double *from, double *to, size_t count, enum nib_width width) {
    if (width == NIB_WIDTH_F64) {
        if (from != to) memmove(to, from, count * sizeof *to);
    } else if (width == NIB_WIDTH_F32) {
        for (size_t i = 0; i < count; i++) to[i] = nib_width_round_f32(from[i]);
    } else {
        for (size_t i = 0; i < count; i++) to[i] = nib_width_round_bf16(from[i]);
    }
}

#endif
