/* Approximate division and reciprocal against tables from an H200. */
#include <math.h>
#include <nibble/tensor.h>

#include "base/sha256.h"
#include "core/key.h"
#include "nib_test.h"
#include "quantize/approx.h"

/* SHA-256 of the golden table rcp_approx_ftz_f32: for every mantissa m, four to a byte, how many steps rcp.approx(1.m)
 * lies above the correctly rounded reciprocal, plus 1. */
static const char rcp_table[] = "bbda0d685ab5a66767c2c3881a67dff147e1f5a2c766db1f6dd5b63fecedcf2c";

static void every_mantissa_has_the_reciprocal_of_the_table(void) {
    enum { BYTES = 1 << 21 };
    uint8_t *packed = calloc(BYTES, 1);
    char digest[65];
    CU_ASSERT_PTR_NOT_NULL_FATAL(packed);
    for (uint32_t m = 0; m < 4u * BYTES; m++) {
        float x = nib_float_of_bits(127u << 23 | m), exact = 1.0f / x;
        uint32_t steps = nib_bits_of_float(nib_rcp_approx_ftz(x)) - nib_bits_of_float(exact) + 1;
        packed[m / 4] |= (uint8_t)((steps & 3) << 2 * (m % 4));
    }
    nib_sha256_hex(packed, BYTES, digest);
    CU_ASSERT_STRING_EQUAL(digest, rcp_table);
    free(packed);
}

/* The table holds for every exponent and both signs while the result is normal. */
static void exponent_and_sign_only_shift(void) {
    unsigned bad = 0;
    for (uint32_t m = 0; m < 1u << 23; m += 4099) {
        uint32_t one = nib_bits_of_float(nib_rcp_approx_ftz(nib_float_of_bits(127u << 23 | m)));
        for (uint32_t e = 1; e < 253; e += 9) {
            float x = nib_float_of_bits(e << 23 | m), y = nib_rcp_approx_ftz(x);
            bad += nib_bits_of_float(y) != one - ((e - 127u) << 23);
            bad += nib_bits_of_float(nib_rcp_approx_ftz(-x)) != nib_bits_of_float(-y);
        }
    }
    CU_ASSERT_EQUAL(bad, 0);
    CU_ASSERT_EQUAL(nib_rcp_approx_ftz(0x1p-127f), INFINITY);
    CU_ASSERT_EQUAL(nib_rcp_approx_ftz(-0x1p-149f), -INFINITY);
    CU_ASSERT_EQUAL(nib_rcp_approx_ftz(0x1p126f), 0x1p-126f);
    CU_ASSERT_EQUAL(nib_rcp_approx_ftz(0x1.000002p126f), 0);
    CU_ASSERT_TRUE(isnan(nib_rcp_approx_ftz(NAN)));
}

static const float *column(struct nib_file *file, const char *name, uint64_t *count) {
    struct nib_error error;
    size_t at;
    const void *data = NULL;
    uint64_t bytes = 0;
    NIB_CHECKF(nib_file_find(file, name, &at, &error) == NIB_OK &&
                   nib_file_bytes(file, at, &data, &bytes, &error) == NIB_OK,
               "%s", error.text);
    *count = bytes / 4;
    return data;
}

/* NaN by place. */
static unsigned differing(const float *expected, const float *a, const float *b, uint64_t count,
                          float (*divide)(float, float)) {
    unsigned bad = 0;
    for (uint64_t i = 0; i < count; i++) {
        float got = divide(a[i], b == NULL ? 6.0f : b[i]);
        if (isnan(got) && isnan(expected[i])) continue;
        if (nib_bits_of_float(got) == nib_bits_of_float(expected[i])) continue;
        if (bad++ == 0)
            fprintf(stderr, "\n%a / %a: %a, got %a\n", (double)a[i], b == NULL ? 6.0 : (double)b[i],
                    (double)expected[i], (double)got);
    }
    return bad;
}

static void divisions_are_those_of_the_device(void) {
    struct nib_file *file;
    struct nib_error error;
    uint64_t count;
    NIB_OK_OR_FAIL(nib_file_open(NIB_DATA_DIR "/golden/tables/div_f32.safetensors", &file, &error), error);
    const float *a = column(file, "a", &count), *b = column(file, "b", &count);
    CU_ASSERT(count >= 2048);
    CU_ASSERT_EQUAL(differing(column(file, "div_full", &count), a, b, count, nib_div_full), 0);
    CU_ASSERT_EQUAL(differing(column(file, "div_approx_ftz", &count), a, b, count, nib_div_approx_ftz), 0);
    nib_file_close(file);
}

/* What `/` means in Triton. */
static void triton_divides_like_div_full(void) {
    struct nib_file *file;
    struct nib_error error;
    uint64_t count;
    NIB_OK_OR_FAIL(nib_file_open(NIB_DATA_DIR "/golden/triton_scalar_ops/ops.safetensors", &file, &error), error);
    const float *a = column(file, "div_a", &count), *b = column(file, "div_b", &count),
                *x = column(file, "un_x", &count);
    CU_ASSERT_EQUAL(differing(column(file, "div", &count), a, b, count, nib_div_full), 0);
    CU_ASSERT_EQUAL(differing(column(file, "div6", &count), x, NULL, count, nib_div_full), 0);
    nib_file_close(file);
}

NIB_TEST_MAIN("quantize-approx",
              {"every mantissa has the reciprocal of the table", every_mantissa_has_the_reciprocal_of_the_table},
              {"exponent and sign only shift", exponent_and_sign_only_shift},
              {"divisions are those of the device", divisions_are_those_of_the_device},
              {"Triton divides like div.full", triton_divides_like_div_full})
