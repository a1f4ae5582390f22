/* Runs of elements of any input type as binary32, exactly. */
#ifndef NIB_CORE_WIDEN_H
#define NIB_CORE_WIDEN_H

#include <stddef.h>
#include <string.h>

#include "core/convert.h"
#include <nibble/view.h>

/* `count` consecutive elements, beginning at element `index` of the view's memory. */
static inline void nib_widen(struct nib_view x, size_t index, size_t count, float *restrict out) {
    switch (x.dtype) {
    case NIB_F32: memcpy(out, (const float *)x.data + index, count * sizeof *out); break;
    case NIB_BF16: {
        const uint16_t *restrict from = (const uint16_t *)x.data + index;
        for (size_t i = 0; i < count; i++) out[i] = nib_float_of_bits(nib_bits_of_bf16(from[i]));
        break;
    }
    case NIB_F16: {
        const uint16_t *restrict from = (const uint16_t *)x.data + index;
        for (size_t i = 0; i < count; i++) out[i] = nib_float_of_bits(nib_bits_of_f16(from[i]));
        break;
    }
    }
}

#endif
