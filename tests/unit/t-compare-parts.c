/* Comparison of parts: expected counts are worked out by hand from the bit patterns. */
#include <math.h>
#include <nibble/compare.h>
#include <string.h>

#include "nib_test.h"

static struct nib_part part(const char *name, enum nib_part_type type, unsigned bytes, const void *data, unsigned rank,
                            uint64_t rows, uint64_t cols) {
    struct nib_part made = {.type = type, .bytes = bytes, .rank = rank, .shape = {rows, cols}, .data = data};
    made.stage = nib_stage_of_name(name, made.name);
    return made;
}

static void counts_items_bytes_and_bits(void) {
    const uint8_t a[6] = {0, 1, 2, 0xFF, 4, 5}, b[6] = {0, 1, 3, 0x0F, 4, 5};
    struct nib_part left = part("codes", NIB_PART_INTEGER, 1, a, 2, 2, 3), right = part("codes", NIB_PART_INTEGER, 1, b, 2, 2, 3);
    struct nib_difference d;
    nib_part_compare(&left, &right, &d);
    CU_ASSERT_EQUAL(d.compared, 6);
    CU_ASSERT_EQUAL(d.items, 2);
    CU_ASSERT_EQUAL(d.bytes, 2);
    CU_ASSERT_EQUAL(d.bits, 5); /* 2^3 = 1 bit; ff^0f = 4 bits */
    CU_ASSERT_EQUAL(d.first, 2);
    CU_ASSERT_EQUAL(d.a, 2);
    CU_ASSERT_EQUAL(d.b, 3);
    const uint16_t wide_a[2] = {0x0102, 0xFFFF}, wide_b[2] = {0x0102, 0x0100};
    left = part("scale", NIB_PART_INTEGER, 2, wide_a, 1, 2, 0);
    right = part("scale", NIB_PART_INTEGER, 2, wide_b, 1, 2, 0);
    nib_part_compare(&left, &right, &d);
    CU_ASSERT_EQUAL(d.items, 1);
    CU_ASSERT_EQUAL(d.bytes, 2);
    CU_ASSERT_EQUAL(d.bits, 15);
}

static void nan_is_compared_by_place_and_zero_by_sign(void) {
    const uint32_t a[4] = {0x7FC00000, 0x80000000, 0x3F800000, 0x7F800000};
    const uint32_t b[4] = {0xFFFFFFFF, 0x00000000, 0x7FC00000, 0x7F800000};
    struct nib_part left = part("value", NIB_PART_F32, 4, a, 1, 4, 0), right = part("value", NIB_PART_F32, 4, b, 1, 4, 0);
    struct nib_difference d;
    nib_part_compare(&left, &right, &d);
    CU_ASSERT_EQUAL(d.items, 2);
    CU_ASSERT_EQUAL(d.first, 1);
    CU_ASSERT_EQUAL(d.a, 0x80000000);
    CU_ASSERT_EQUAL(d.bits, 1 + 2); /* the sign of zero; 3f800000 ^ 7fc00000 = 40400000 */
}

static void floats_of_unequal_type_compare_as_numbers(void) {
    const uint16_t half[3] = {0x3F80, 0xC000, 0x7FC0}; /* 1, -2, NaN in bf16 */
    const float single[3] = {1.0f, -2.0f, NAN};
    const double wide[3] = {1.0, -2.5, (double)NAN};
    struct nib_part h = part("value", NIB_PART_BF16, 2, half, 1, 3, 0), s = part("value", NIB_PART_F32, 4, single, 1, 3, 0);
    struct nib_part w = part("value", NIB_PART_F64, 8, wide, 1, 3, 0);
    struct nib_difference d;
    nib_part_compare(&h, &s, &d);
    CU_ASSERT_EQUAL(d.items, 0);
    CU_ASSERT_EQUAL(d.width, 32);
    nib_part_compare(&w, &h, &d);
    CU_ASSERT_EQUAL(d.items, 1);
    CU_ASSERT_EQUAL(d.first, 1);
    CU_ASSERT_EQUAL(d.width, 64);
    CU_ASSERT_EQUAL(d.value_b, -2);
}

static void shapes_ignore_extents_of_one_and_nothing_else(void) {
    const float x[6] = {0};
    struct nib_part column = part("value", NIB_PART_F32, 4, x, 2, 6, 1), line = part("value", NIB_PART_F32, 4, x, 1, 6, 0);
    struct nib_part matrix = part("value", NIB_PART_F32, 4, x, 2, 2, 3);
    struct nib_difference d;
    nib_part_compare(&column, &line, &d);
    CU_ASSERT_EQUAL(d.items, 0);
    CU_ASSERT_EQUAL(d.compared, 6);
    nib_part_compare(&matrix, &line, &d);
    CU_ASSERT_EQUAL(d.stage, NIB_STAGE_SHAPE);
    CU_ASSERT_EQUAL(d.items, 1);
    CU_ASSERT_EQUAL(d.compared, 0);
}

static void the_earliest_stage_that_differs_comes_first(void) {
    const uint8_t codes_a[2] = {1, 2}, codes_b[2] = {1, 3}, scale_a[1] = {0x7F}, scale_b[1] = {0x80};
    struct nib_part a[] = {part("codes", NIB_PART_INTEGER, 1, codes_a, 1, 2, 0), part("scale", NIB_PART_INTEGER, 1, scale_a, 1, 1, 0)};
    struct nib_part b[] = {part("elements/code", NIB_PART_INTEGER, 1, codes_b, 1, 2, 0),
                           part("scales", NIB_PART_INTEGER, 1, scale_b, 1, 1, 0), part("extra", NIB_PART_INTEGER, 1, scale_b, 1, 1, 0)};
    struct nib_comparison all;
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_compare(a, 2, b, 3, &all, &error), error);
    CU_ASSERT_EQUAL(all.count, 3);
    CU_ASSERT_EQUAL(all.differing, 2);
    CU_ASSERT_EQUAL(all.compared, 3);
    CU_ASSERT_PTR_NOT_NULL_FATAL(all.first);
    CU_ASSERT_EQUAL(all.first->stage, NIB_STAGE_BLOCK_SCALES);
    CU_ASSERT_TRUE(all.differences[2].only_b);
    nib_comparison_free(&all);
    CU_ASSERT_EQUAL(nib_compare(a, 1, b + 2, 1, &all, &error), NIB_EINVAL);
}

static void parts_of_a_quantized_matrix_are_those_of_its_buffers(void) {
    const struct nib_quantizer *q;
    struct nib_error error;
    struct nib_quantized one, other;
    struct nib_part a[NIB_QUANTIZED_PARTS], b[NIB_QUANTIZED_PARTS];
    const float x[32] = {6, 1, 2, 3, -1, 0.5f};
    struct nib_view view = {x, NIB_F32, 2, 16, 16};
    NIB_OK_OR_FAIL(nib_quantizer_open("te-nvfp4", &q, &error), error);
    unsigned all = NIB_WANT_CODES | NIB_WANT_PACKED | NIB_WANT_SCALES | NIB_WANT_VALUES;
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, 2, 16, NIB_ALONG_COLS, all, &one, &error), error);
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, 2, 16, NIB_ALONG_COLS, NIB_WANT_CODES, &other, &error), error);
    NIB_OK_OR_FAIL(nib_quantize(q, view, NULL, &one, &error), error);
    NIB_OK_OR_FAIL(nib_quantize(q, view, NULL, &other, &error), error);
    CU_ASSERT_EQUAL(nib_quantized_parts(q, &one, a), 7);
    CU_ASSERT_EQUAL_FATAL(nib_quantized_parts(q, &other, b), 4);
    struct nib_comparison comparison;
    NIB_OK_OR_FAIL(nib_compare(a, 7, b, 4, &comparison, &error), error);
    CU_ASSERT_EQUAL(comparison.differing, 0);
    CU_ASSERT_EQUAL(comparison.compared, 3 + 32);
    nib_comparison_free(&comparison);
    nib_quantized_free(&one);
    nib_quantized_free(&other);
    nib_quantizer_close(q);
}

NIB_TEST_MAIN("compare-parts", {"counts items, bytes and bits", counts_items_bytes_and_bits},
              {"NaN is compared by place and zero by sign", nan_is_compared_by_place_and_zero_by_sign},
              {"floats of unequal type compare as numbers", floats_of_unequal_type_compare_as_numbers},
              {"shapes ignore extents of one and nothing else", shapes_ignore_extents_of_one_and_nothing_else},
              {"the earliest stage that differs comes first", the_earliest_stage_that_differs_comes_first},
              {"parts of a quantized matrix are those of its buffers",
               parts_of_a_quantized_matrix_are_those_of_its_buffers})
