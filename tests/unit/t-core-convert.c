/* bf16 and fp16: widening is exact for every pattern, narrowing is exact rounding to nearest even. */
#include "core/convert.h"
#include "nib_test.h"
#include "oracle_float.h"

enum { INFINITE_F16 = 0x7C00, INFINITE_BF16 = 0x7F80 };

static void every_half_widens_to_its_value(void) {
    for (uint32_t half = 0; half < 0x8000; half++) {
        float bf16 = nib_float_of_bits(nib_bits_of_bf16((uint16_t)half));
        float f16 = nib_float_of_bits(nib_bits_of_f16((uint16_t)half));
        bool right16 = half < INFINITE_F16    ? (double)f16 == oracle_float_value(half, 10, 15)
                       : half == INFINITE_F16 ? isinf(f16) != 0
                                              : isnan(f16) != 0;
        bool right_b = half < INFINITE_BF16    ? (double)bf16 == oracle_float_value(half, 7, 127)
                       : half == INFINITE_BF16 ? isinf(bf16) != 0
                                               : isnan(bf16) != 0;
        bool mirrored = nib_bits_of_f16((uint16_t)(half | 0x8000)) == (nib_bits_of_float(f16) | 0x80000000) &&
                        nib_bits_of_bf16((uint16_t)(half | 0x8000)) == (nib_bits_of_float(bf16) | 0x80000000);
        NIB_CHECKF(right16 && right_b && mirrored, "%x: %a %a", half, (double)f16, (double)bf16);
        /* and narrows back to itself, quietly where it is a NaN */
        CU_ASSERT_EQUAL(nib_f16_of_bits(nib_bits_of_f16((uint16_t)half)), half > INFINITE_F16 ? half | 0x200 : half);
        CU_ASSERT_EQUAL(nib_bf16_of_bits(nib_bits_of_bf16((uint16_t)half)), half > INFINITE_BF16 ? half | 0x40 : half);
    }
}

static void check(uint32_t bits) {
    float x = nib_float_of_bits(bits);
    if (isnan(x)) return;
    double f16 = isinf(x) ? INFINITY : oracle_float_round(x, 10, 15, MPFR_RNDN);
    double bf16 = isinf(x) ? INFINITY : oracle_float_round(x, 7, 127, MPFR_RNDN);
    if (f16 >= 65536) f16 = INFINITY;
    if (bf16 >= 0x1p128) bf16 = INFINITY;
    uint16_t narrow16 = nib_f16_of_bits(bits), narrow_b = nib_bf16_of_bits(bits);
    /* decoding was checked above for every pattern */
    double got16 = (double)nib_float_of_bits(nib_bits_of_f16(narrow16));
    double got_b = (double)nib_float_of_bits(nib_bits_of_bf16(narrow_b));
    double sign = signbit(x) ? -1 : 1;
    bool right =
        got16 == sign * f16 && got_b == sign * bf16 && (narrow16 >> 15) == bits >> 31 && (narrow_b >> 15) == bits >> 31;
    if (!right) NIB_CHECKF(false, "%a: %a %a, expected %a %a", (double)x, got16, got_b, sign * f16, sign * bf16);
}

static void narrowing_is_exact_rounding(void) {
    uint32_t samples = nib_test_full() ? 1u << 24 : 1u << 16;
    for (uint32_t half = 0; half <= INFINITE_F16; half++)
        for (uint32_t d = 0; d < 5; d++) {
            double middle = (oracle_float_value(half, 10, 15) + oracle_float_value(half + 1, 10, 15)) / 2;
            check((nib_bits_of_float((float)middle) + d - 2) | (half & 1) << 31);
        }
    for (uint32_t k = 0; k < 0x10000; k += 3) {
        check(k << 16 | 0x7FFF);
        check(k << 16 | 0x8000);
        check(k << 16 | 0x8001);
    }
    for (uint32_t k = 0; k < samples; k++) check(k * 0x9E3779B9u);
}

static void nan_keeps_sign_and_payload_and_becomes_quiet(void) {
    CU_ASSERT_EQUAL(nib_bf16_of_bits(0xFF800001), 0xFFC0);
    CU_ASSERT_EQUAL(nib_bf16_of_bits(0x7FFFFFFF), 0x7FFF);
    CU_ASSERT_EQUAL(nib_f16_of_bits(0x7F802000), 0x7E01);
    CU_ASSERT_EQUAL(nib_f16_of_bits(0xFFC00000), 0xFE00);
}

NIB_TEST_MAIN("conversions", {"every half widens to its value", every_half_widens_to_its_value},
              {"narrowing is exact rounding", narrowing_is_exact_rounding},
              {"nan keeps sign and payload and becomes quiet", nan_keeps_sign_and_payload_and_becomes_quiet})
