#include "gemm/cast.h"

#include <math.h>
#include <string.h>

#include "unit/number.h"

/* Mantissa bits, smallest exponent, largest finite code, and what NaN becomes. */
static const struct {
    int mantissa, emin;
    uint32_t largest, nan;
    bool infinity;
} targets[NIB_OPERANDS] = {
    [NIB_OPERAND_E2M1] = {1, 0, 7, 7, false},
    [NIB_OPERAND_E2M3] = {3, 0, 0x1F, 0x1F, false},
    [NIB_OPERAND_E3M2] = {2, -2, 0x1F, 0x1F, false},
    [NIB_OPERAND_E4M3] = {3, -6, 0x7E, 0x7F, false},
    [NIB_OPERAND_E5M2] = {2, -14, 0x7B, 0x7F, false},
    [NIB_OPERAND_E4M3FNUZ] = {3, -7, 0x7F, 0x80, false},
    [NIB_OPERAND_E5M2FNUZ] = {2, -15, 0x7F, 0x80, false},
    [NIB_OPERAND_FP16] = {10, -14, 0x7BFF, 0x7FFF, true},
    [NIB_OPERAND_BF16] = {7, -126, 0x7F7F, 0x7FFF, true},
};

static uint64_t integer_code(enum nib_operand operand, float value) {
    int low = operand == NIB_OPERAND_S4 ? -8 : -128, high = -low - 1;
    float nearest = rintf(value); /* to nearest even by the library's environment */
    int result = !(nearest > (float)low) ? (value != value ? 0 : low) : nearest > (float)high ? high : (int)nearest;
    return (uint64_t)result & (operand == NIB_OPERAND_S4 ? 0xF : 0xFF);
}

uint64_t nib_cast_code(enum nib_operand operand, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (operand == NIB_OPERAND_FP32 || operand == NIB_OPERAND_TF32) return bits;
    if (operand == NIB_OPERAND_S4 || operand == NIB_OPERAND_S8) return integer_code(operand, value);
    if (operand == NIB_OPERAND_FP64) {
        double wide = (double)value;
        uint64_t wide_bits;
        memcpy(&wide_bits, &wide, sizeof wide_bits);
        return wide_bits;
    }
    struct nib_number x = nib_number_of_operand(NIB_OPERAND_FP32, bits);
    int mantissa = targets[operand].mantissa, emin = targets[operand].emin;
    bool fnuz = operand == NIB_OPERAND_E4M3FNUZ || operand == NIB_OPERAND_E5M2FNUZ;
    uint64_t sign = (uint64_t)x.negative << (nib_operand_bits(operand) - 1);
    if (x.class == NIB_NUMBER_NAN) return targets[operand].nan;
    uint64_t code = targets[operand].largest + 1ULL;
    if (x.class == NIB_NUMBER_ZERO) code = 0;
    if (x.class == NIB_NUMBER_FINITE) {
        int exponent = 63 - __builtin_clzll(x.significand) + x.lsb;
        int ulp = (exponent < emin ? emin : exponent) - mantissa, drop = ulp - x.lsb;
        uint64_t kept = drop <= 0 ? x.significand << -drop : drop > 63 ? 0 : x.significand >> drop;
        if (drop > 0 && drop < 64) {
            uint64_t rest = x.significand & ((1ULL << drop) - 1), half = 1ULL << (drop - 1);
            if (rest > half || (rest == half && (kept & 1))) kept++;
        }
        code = kept + ((uint64_t)(ulp - (emin - mantissa)) << mantissa);
    }
    if (code > targets[operand].largest) code = targets[operand].largest + (targets[operand].infinity ? 1u : 0u);
    return code == 0 && fnuz ? 0 : sign | code; /* -0 would be NaN in FNUZ */
}

int nib_cast_emax(enum nib_operand operand) { return ilogb(nib_operand_value(operand, targets[operand].largest)); }

void nib_cast_store(enum nib_operand operand, void *row, size_t i, uint64_t code) {
    uint8_t *bytes = row;
    unsigned bits = nib_operand_bits(operand);
    if (bits == 4) {
        unsigned shift = i % 2 * 4;
        bytes[i / 2] = (uint8_t)((bytes[i / 2] & ~(15u << shift)) | (unsigned)code << shift);
        return;
    }
    size_t width = nib_operand_bytes(operand, 1);
    memcpy(bytes + i * width, &code, width);
}
