/* Element and scale rounding against the conversions of the CUDA headers, which also run on the host.
 * NaN is compared apart: an element format has none, and the codecs here drop its sign. */
#include "core/convert.h"
#include "core/round.h"
#include "nib_test.h"
#include <cuda_fp4.h>
#include <cuda_fp8.h>
#include <nibble/element.h>
#include <nibble/scale.h>

enum { E2M1, E4M3, E5M2, E8M0_UP, E8M0_DOWN, CHECKS };
static const char *const check_names[CHECKS] = {"e2m1", "e4m3", "e5m2", "e8m0 up", "e8m0 down"};

struct subjects {
    struct nib_rule rule;
    const struct nib_scale *e4m3, *e5m2, *e8m0;
};
static struct subjects subjects;

struct codes {
    unsigned code[CHECKS];
};

static struct codes by_nibble(uint32_t bits) {
    float x = nib_float_of_bits(bits);
    struct codes c;
    c.code[E2M1] = nib_bits_are_nan(bits) ? 7 : nib_round_code(&subjects.rule, bits);
    c.code[E4M3] = nib_scale_encode(subjects.e4m3, NIB_SCALE_NEAREST, x);
    c.code[E5M2] = nib_scale_encode(subjects.e5m2, NIB_SCALE_NEAREST, x);
    c.code[E8M0_UP] = nib_scale_encode(subjects.e8m0, NIB_SCALE_UP, x);
    c.code[E8M0_DOWN] = nib_scale_encode(subjects.e8m0, NIB_SCALE_DOWN, x);
    return c;
}

static struct codes by_cuda(uint32_t bits) {
    float x = nib_float_of_bits(bits);
    unsigned keep = nib_bits_are_nan(bits) ? 0x7F : 0xFF;
    struct codes c;
    c.code[E2M1] = __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest);
    c.code[E4M3] = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3) & keep;
    c.code[E5M2] = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2) & keep;
    c.code[E8M0_UP] = __nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundPosInf);
    c.code[E8M0_DOWN] = __nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundZero);
    return c;
}

/* The number of checks that differ; the first one is reported. */
static unsigned differences(uint32_t bits) {
    struct codes ours = by_nibble(bits), theirs = by_cuda(bits);
    unsigned count = 0;
    for (int i = 0; i < CHECKS; i++) {
        if (ours.code[i] == theirs.code[i]) continue;
        if (count++ == 0)
            fprintf(stderr, "%s of %08x (%a): %x here, %x by CUDA\n", check_names[i], bits,
                    (double)nib_float_of_bits(bits), ours.code[i], theirs.code[i]);
    }
    return count;
}

static void boundaries_agree(void) {
    unsigned long long count = 0;
    for (uint32_t exponent = 0; exponent < 256; exponent++)
        for (uint32_t top = 0; top < 32; top++) { /* every midpoint of every format here has 5 mantissa bits at most */
            uint32_t bits = exponent << 23 | top << 18;
            for (uint32_t d = 0; d < 5; d++) {
                count += differences((bits + d - 2) & 0x7FFFFFFF);
                count += differences((bits + d - 2) | 0x80000000);
            }
        }
    for (int t = 0; t < NIB_THRESHOLDS; t++)
        for (int32_t d = -2; d <= 2; d++) count += differences(nib_bits_of_key(subjects.rule.threshold[t] + d));
    NIB_CHECKF(count == 0, "%llu differences", count);
}

static void all_bf16_and_fp16_values_agree(void) {
    unsigned long long count = 0;
    for (uint32_t i = 0; i < 0x10000; i++) {
        uint16_t half = (uint16_t)i;
        __nv_bfloat16_raw bf16 = {.x = half};
        __half_raw fp16 = {.x = half};
        uint32_t from_bf16 = nib_bits_of_bf16(half), from_fp16 = nib_bits_of_f16(half);
        count += differences(from_bf16) + differences(from_fp16);
        /* and through the conversions for these types, which never see our widening */
        if (!nib_bits_are_nan(from_bf16)) {
            struct codes ours = by_nibble(from_bf16);
            count += __nv_cvt_bfloat16raw_to_fp4(bf16, __NV_E2M1, cudaRoundNearest) != ours.code[E2M1];
            count += __nv_cvt_bfloat16raw_to_fp8(bf16, __NV_SATFINITE, __NV_E4M3) != ours.code[E4M3];
            count += __nv_cvt_bfloat16raw_to_e8m0(bf16, __NV_SATFINITE, cudaRoundPosInf) != ours.code[E8M0_UP];
        }
        if (!nib_bits_are_nan(from_fp16)) {
            struct codes ours = by_nibble(from_fp16);
            count += __nv_cvt_halfraw_to_fp4(fp16, __NV_E2M1, cudaRoundNearest) != ours.code[E2M1];
            count += __nv_cvt_halfraw_to_fp8(fp16, __NV_SATFINITE, __NV_E4M3) != ours.code[E4M3];
        }
    }
    NIB_CHECKF(count == 0, "%llu differences", count);
}

static void binary32_numbers_agree(void) {
    uint64_t total = nib_test_full() ? (uint64_t)1 << 32 : (uint64_t)1 << 24;
    unsigned long long count = 0;
#pragma omp parallel for schedule(static) reduction(+ : count)
    for (uint64_t i = 0; i < total; i++)
        /* an odd factor visits every number once over the whole range, spread out in any part of it */
        if (count < 100) count += differences((uint32_t)i * 0x9E3779B9u);
    NIB_CHECKF(count == 0, "%llu differences or more", count);
    printf(" %llu numbers, 5 formats each, ", (unsigned long long)total);
}

static void decoding_agrees(void) {
    for (unsigned code = 0; code < 256; code++) {
        __half_raw e4m3 = __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)code, __NV_E4M3);
        __half_raw e5m2 = __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)code, __NV_E5M2);
        __nv_bfloat16_raw e8m0 = __nv_cvt_e8m0_to_bf16raw((__nv_fp8_storage_t)code);
        uint32_t theirs[3] = {nib_bits_of_f16(e4m3.x), nib_bits_of_f16(e5m2.x), nib_bits_of_bf16(e8m0.x)};
        float ours[3] = {nib_scale_decode(subjects.e4m3, code), nib_scale_decode(subjects.e5m2, code),
                         nib_scale_decode(subjects.e8m0, code)};
        for (int i = 0; i < 3; i++) {
            uint32_t bits = nib_bits_of_float(ours[i]);
            bool both_nan = nib_bits_are_nan(bits) && nib_bits_are_nan(theirs[i]);
            NIB_CHECKF(both_nan || bits == theirs[i], "format %d code %02x: %08x, CUDA %08x", i, code, bits, theirs[i]);
        }
    }
    for (unsigned code = 0; code < 16; code++) {
        __half_raw value = __nv_cvt_fp4_to_halfraw((__nv_fp4_storage_t)code, __NV_E2M1);
        uint32_t bits = nib_bits_of_f16(value.x);
        NIB_CHECKF(nib_round_code(&subjects.rule, bits) == code, "E2M1 code %u is %08x in CUDA", code, bits);
    }
}

static bool open_subjects(void) {
    struct nib_error error = {.line = 0};
    const struct nib_element *e2m1;
    if (nib_element_open("e2m1", &e2m1, &error) != NIB_OK || nib_scale_open("e4m3", &subjects.e4m3, &error) != NIB_OK ||
        nib_scale_open("e5m2", &subjects.e5m2, &error) != NIB_OK ||
        nib_scale_open("e8m0", &subjects.e8m0, &error) != NIB_OK) {
        fprintf(stderr, "%s\n", error.text);
        return false;
    }
    nib_rule_compile(e2m1, NIB_RNE, &subjects.rule);
    nib_element_close(e2m1);
    return true;
}

static void formats_open(void) {
    CU_ASSERT_FATAL(open_subjects());
}

NIB_TEST_MAIN("CUDA's conversions on the host", {"formats open", formats_open}, {"boundaries agree", boundaries_agree},
              {"all bf16 and fp16 values agree", all_bf16_and_fp16_values_agree},
              {"binary32 numbers agree", binary32_numbers_agree}, {"decoding agrees", decoding_agrees})
