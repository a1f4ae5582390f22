/* One element of a view, as binary32. */
#ifndef NIB_GEMM_VIEW_VALUE_H
#define NIB_GEMM_VIEW_VALUE_H

#include <nibble/unit.h>
#include <nibble/view.h>
#include <string.h>

static inline float nib_view_value(struct nib_view view, size_t row, size_t col) {
    size_t index = row * view.stride + col;
    if (view.dtype == NIB_F32) return ((const float *)view.data)[index];
    uint16_t code = ((const uint16_t *)view.data)[index];
    if (view.dtype == NIB_F16) return (float)nib_operand_value(NIB_OPERAND_FP16, code);
    uint32_t bits = (uint32_t)code << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
