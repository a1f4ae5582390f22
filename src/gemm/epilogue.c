#include "gemm/epilogue.h"

#include <math.h>
#include <string.h>

#include "gemm/cast.h"
#include "unit/number.h"
#include "unit/unit_ref.h"

static const uint32_t nan_bits = 0x7FFFFFFF;

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return value != value ? nan_bits : bits;
}
static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float nib_epilogue_value(enum nib_accumulator accumulator, uint64_t bits) {
    if (accumulator == NIB_ACC_S32) return (float)(int32_t)(uint32_t)bits;
    if (accumulator == NIB_ACC_FP32) return float_of((uint32_t)bits);
    struct nib_number x = nib_number_of_accumulator(accumulator, bits);
    if (x.class == NIB_NUMBER_NAN) return float_of(nan_bits);
    if (x.class == NIB_NUMBER_INFINITE) return x.negative ? -INFINITY : INFINITY;
    return float_of((uint32_t)nib_round_to_bits(NIB_RNE_FP32, x.negative, x.significand, false, x.lsb));
}

float nib_epilogue_sum(float x, float y) { return float_of(bits_of(x + y)); }

uint64_t nib_epilogue_add(enum nib_accumulator accumulator, uint64_t x, uint64_t y) {
    return nib_ref_add(accumulator, x, y);
}

uint64_t nib_epilogue_bits(const struct nib_gemm *gemm, float value, float c) {
    value = gemm->alpha * value;
    if (gemm->beta != 0) value = fmaf(gemm->beta, c, value);
    uint32_t bits = bits_of(value);
    struct nib_number x = nib_number_of_accumulator(NIB_ACC_FP32, bits);
    switch (gemm->output) {
    case NIB_GEMM_BF16:
        if (x.class == NIB_NUMBER_NAN) return 0x7FFF;
        if (x.class == NIB_NUMBER_INFINITE) return bits >> 16;
        return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    case NIB_GEMM_F16:
        if (x.class == NIB_NUMBER_NAN) return 0x7FFF;
        if (x.class == NIB_NUMBER_INFINITE) return nib_infinity_bits(NIB_ACC_FP16, x.negative);
        return nib_round_to_bits(NIB_RNE_FP16, x.negative, x.significand, false, x.lsb);
    case NIB_GEMM_E4M3: return nib_cast_code(NIB_OPERAND_E4M3, value);
    default: return bits;
    }
}

double nib_epilogue_decode(const struct nib_gemm *gemm, const void *d, size_t index) {
    unsigned bytes = nib_gemm_output_bytes(gemm);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)d + index * bytes, bytes);
    switch (gemm->output) {
    case NIB_GEMM_F32: return nib_operand_value(NIB_OPERAND_FP32, bits);
    case NIB_GEMM_BF16: return nib_operand_value(NIB_OPERAND_BF16, bits);
    case NIB_GEMM_F16: return nib_operand_value(NIB_OPERAND_FP16, bits);
    case NIB_GEMM_E4M3: return nib_operand_value(NIB_OPERAND_E4M3, bits);
    default: break;
    }
    switch (gemm->unit->accumulator) {
    case NIB_ACC_S32: return (double)(int32_t)(uint32_t)bits;
    case NIB_ACC_FP16: return nib_operand_value(NIB_OPERAND_FP16, bits);
    case NIB_ACC_FP64: return nib_operand_value(NIB_OPERAND_FP64, bits);
    default: return nib_operand_value(NIB_OPERAND_FP32, bits);
    }
}
