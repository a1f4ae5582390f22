/* A dump is made with one quantizer, written in some layout by hand, and the quantizer must be found again. */
#include <math.h>
#include <nibble/compare.h>
#include <string.h>

#include "nib_test.h"

enum { ROWS = 64, COLS = 96 };

static float x[ROWS * COLS];
static const struct nib_view view = {x, NIB_F32, ROWS, COLS, COLS};
static const char *const names[] = {"ocp-mxfp4", "te-ref-nvfp4", "te-nvfp4"};
static const struct nib_quantizer *quantizers[3];

/* Numbers of all sizes with many mantissa bits, and a zero, so that all three differ. */
static void make_input(void) {
    uint32_t state = 1;
    for (size_t i = 0; i < ROWS * COLS; i++) {
        state = state * 1664525 + 1013904223;
        x[i] = ldexpf((float)(int32_t)state * 0x1p-31f, (int)(state >> 9) % 6);
        if (i % 17 == 0) x[i] = -0.0f;
    }
}

static bool ready(void) {
    make_input();
    for (int i = 0; i < 3; i++)
        if (quantizers[i] == NULL && nib_quantizer_open(names[i], &quantizers[i], NULL) != NIB_OK) return false;
    return true;
}

static void quantize(int which, enum nib_axis axis, struct nib_quantized *out) {
    struct nib_error error;
    unsigned all = NIB_WANT_CODES | NIB_WANT_PACKED | NIB_WANT_SCALES | NIB_WANT_VALUES;
    NIB_OK_OR_FAIL(nib_quantized_alloc(quantizers[which], ROWS, COLS, axis, all, out, &error), error);
    NIB_OK_OR_FAIL(nib_quantize(quantizers[which], view, &(struct nib_quantize_options){.axis = axis}, out, &error), error);
}

static struct nib_part part(const char *name, unsigned rank, uint64_t rows, uint64_t cols, const void *data) {
    struct nib_part made = {.type = NIB_PART_INTEGER, .bytes = 1, .rank = rank, .shape = {rows, cols}, .data = data};
    made.stage = nib_stage_of_name(name, made.name);
    return made;
}

static void finds_the_quantizer_by_codes_and_scales(void) {
    struct nib_quantized q = {0};
    struct nib_candidate all[6];
    struct nib_error error;
    CU_ASSERT_FATAL(ready());
    for (int i = 0; i < 3; i++) {
        quantize(i, NIB_ALONG_COLS, &q);
        struct nib_part parts[] = {part("codes", 2, ROWS, COLS, q.codes), part("scale", 2, q.scale_rows, q.scale_cols, q.scales)};
        NIB_OK_OR_FAIL(nib_identify(view, parts, 2, quantizers, 3, 1, all, &error), error);
        CU_ASSERT_PTR_EQUAL(all[0].quantizer, quantizers[i]);
        CU_ASSERT_EQUAL(all[0].differing, 0);
        CU_ASSERT_EQUAL(all[0].axis, NIB_ALONG_COLS);
        CU_ASSERT_STRING_EQUAL(all[0].layout, "");
        CU_ASSERT_EQUAL(all[0].compared, ROWS * COLS + q.scale_rows * q.scale_cols);
        CU_ASSERT(all[1].differing > 0);
        nib_quantized_free(&q);
    }
}

static void sees_nibble_order_and_blocked_scales(void) {
    static uint8_t packed[ROWS * COLS / 2], blocked[2 * 512];
    struct nib_quantized q = {0};
    struct nib_candidate all[6];
    struct nib_error error;
    CU_ASSERT_FATAL(ready());
    quantize(2, NIB_ALONG_COLS, &q);
    for (size_t i = 0; i < sizeof packed; i++) packed[i] = (uint8_t)(q.codes[2 * i] << 4 | q.codes[2 * i + 1]);
    for (size_t m = 0; m < ROWS; m++) /* 64 x 6 scales: one tile of 128 x 4 and half of another */
        for (size_t k = 0; k < 6; k++) blocked[k / 4 * 512 + m % 32 * 16 + m / 32 * 4 + k % 4] = q.scales[m * 6 + k];
    struct nib_part parts[] = {part("packed", 2, ROWS, COLS / 2, packed), part("scale", 1, sizeof blocked, 0, blocked)};
    NIB_OK_OR_FAIL(nib_identify(view, parts, 2, quantizers, 3, 1, all, &error), error);
    CU_ASSERT_PTR_EQUAL(all[0].quantizer, quantizers[2]);
    CU_ASSERT_EQUAL(all[0].differing, 0);
    CU_ASSERT_STRING_EQUAL(all[0].layout, "packed-high, scales-128x4");
    nib_quantized_free(&q);
}

static void sees_the_axis_and_the_transpose(void) {
    static uint8_t turned[ROWS * COLS];
    struct nib_quantized q = {0};
    struct nib_candidate all[6];
    struct nib_error error;
    CU_ASSERT_FATAL(ready());
    quantize(0, NIB_ALONG_ROWS, &q);
    struct nib_part in_place[] = {part("codes", 2, ROWS, COLS, q.codes)};
    NIB_OK_OR_FAIL(nib_identify(view, in_place, 1, quantizers, 3, 1, all, &error), error);
    CU_ASSERT(all[0].axis == NIB_ALONG_ROWS && all[0].differing == 0);
    CU_ASSERT_STRING_EQUAL(all[0].layout, "");
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < COLS; j++) turned[j * ROWS + i] = q.codes[i * COLS + j];
    struct nib_part transposed[] = {part("codes", 2, COLS, ROWS, turned)};
    NIB_OK_OR_FAIL(nib_identify(view, transposed, 1, quantizers, 3, 1, all, &error), error);
    CU_ASSERT(all[0].axis == NIB_ALONG_ROWS && all[0].differing == 0);
    CU_ASSERT_STRING_EQUAL(all[0].layout, "transposed");
    nib_quantized_free(&q);
}

static void lists_the_nearest_where_none_fits(void) {
    struct nib_quantized q = {0};
    struct nib_candidate all[6];
    struct nib_error error;
    CU_ASSERT_FATAL(ready());
    quantize(1, NIB_ALONG_COLS, &q);
    q.codes[100] ^= 1;
    struct nib_part parts[] = {part("codes", 2, ROWS, COLS, q.codes), part("scale", 2, q.scale_rows, q.scale_cols, q.scales)};
    NIB_OK_OR_FAIL(nib_identify(view, parts, 2, quantizers, 3, 1, all, &error), error);
    CU_ASSERT_PTR_EQUAL(all[0].quantizer, quantizers[1]);
    CU_ASSERT_EQUAL(all[0].differing, 1);
    CU_ASSERT_EQUAL(all[0].first, NIB_STAGE_CODES);
    struct nib_part unknown = part("something", 2, ROWS, COLS, q.codes);
    CU_ASSERT_EQUAL(nib_identify(view, &unknown, 1, quantizers, 3, 1, all, &error), NIB_EINVAL);
    nib_quantized_free(&q);
}

/* ---- witnesses */

static bool separates(const struct nib_quantizer *a, const struct nib_quantizer *b, const struct nib_witness *w) {
    const struct nib_quantizer *q[2] = {a, b};
    struct nib_quantized out[2] = {{0}, {0}};
    struct nib_view row = {w->x, NIB_F32, 1, w->cols, w->cols};
    for (int i = 0; i < 2; i++)
        if (nib_quantized_alloc(q[i], 1, w->cols, NIB_ALONG_COLS, NIB_WANT_CODES | NIB_WANT_SCALES, &out[i], NULL) != NIB_OK ||
            nib_quantize(q[i], row, &(struct nib_quantize_options){.isa = "ref"}, &out[i], NULL) != NIB_OK)
            return false;
    bool differ = memcmp(out[0].codes, out[1].codes, w->cols) != 0 ||
                  memcmp(out[0].scales, out[1].scales, out[0].scale_cols * out[0].scale_bytes) != 0;
    nib_quantized_free(&out[0]);
    nib_quantized_free(&out[1]);
    return differ;
}

static void a_witness_separates_axes(void) {
    static const char *const settings[] = {"rounding=rna", "rounding=rtz", "signed_zero=drop", "block_scale=S*(b*rQ)"};
    struct nib_error error;
    CU_ASSERT_FATAL(ready());
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const struct nib_quantizer *other;
        struct nib_witness w = {0}, again = {0};
        bool found = false;
        NIB_OK_OR_FAIL(nib_quantizer_with(quantizers[2], &settings[i], 1, &other, &error), error);
        NIB_OK_OR_FAIL(nib_witness_find(quantizers[2], other, 0, 20000, &found, &w, &error), error);
        NIB_CHECKF(found, "no witness for %s", settings[i]);
        if (found) {
            NIB_CHECKF(separates(quantizers[2], other, &w), "what was found for %s separates nothing", settings[i]);
            NIB_OK_OR_FAIL(nib_witness_find(quantizers[2], other, 0, 20000, &found, &again, &error), error);
            CU_ASSERT(memcmp(w.x, again.x, w.cols * sizeof *w.x) == 0);
        }
        nib_witness_free(&w);
        nib_witness_free(&again);
        nib_quantizer_close(other);
    }
}

/* NVFP4 and MXFP4 have other scales and blocks: their codes say nothing of each other. */
static void unequal_formats_are_separated_by_values(void) {
    struct nib_error error;
    struct nib_witness w = {0};
    bool found = false;
    float values[2] = {0, 0};
    CU_ASSERT_FATAL(ready());
    NIB_OK_OR_FAIL(nib_witness_find(quantizers[2], quantizers[0], 0, 2000, &found, &w, &error), error);
    CU_ASSERT_FATAL(found);
    CU_ASSERT_EQUAL(w.stage, NIB_STAGE_VALUES);
    for (int i = 0; i < 2; i++) {
        struct nib_quantized q;
        struct nib_view row = {w.x, NIB_F32, 1, w.cols, w.cols};
        NIB_OK_OR_FAIL(nib_quantized_alloc(quantizers[2 - 2 * i], 1, w.cols, NIB_ALONG_COLS, NIB_WANT_VALUES, &q, &error), error);
        NIB_OK_OR_FAIL(nib_quantize(quantizers[2 - 2 * i], row, NULL, &q, &error), error);
        values[i] = q.values[w.at];
        CU_ASSERT(memcmp(&values[i], i == 0 ? &w.bits_a : &w.bits_b, 4) == 0);
        nib_quantized_free(&q);
    }
    CU_ASSERT(memcmp(&values[0], &values[1], 4) != 0);
    nib_witness_free(&w);
}

static void refuses_an_input_of_another_size(void) {
    struct nib_quantized q = {0};
    struct nib_candidate all[6];
    struct nib_error error;
    CU_ASSERT_FATAL(ready());
    quantize(0, NIB_ALONG_COLS, &q);
    struct nib_part parts[] = {part("codes", 2, ROWS, COLS, q.codes), part("qdata", 2, ROWS, COLS / 2, q.packed)};
    for (size_t i = 0; i < 2; i++)
        for (size_t rows = 0; rows < 2; rows++) {
            struct nib_view other = {x, NIB_F32, rows == 0 ? ROWS / 4 : ROWS / 2, COLS, COLS};
            CU_ASSERT_EQUAL(nib_identify(other, &parts[i], 1, quantizers, 3, 1, all, &error), NIB_EINCONSISTENT);
        }
    nib_quantized_free(&q);
}

/* ModelOpt's input_scale is of the activations; several weights share no name. */
static void knows_names_of_checkpoints(void) {
    static const struct {
        const char *name, *usual;
        enum nib_name_fit fit;
    } cases[] = {
        {"qdata", "packed", NIB_NAME_WHOLE}, {"scale", "scales", NIB_NAME_WHOLE}, {"l.0.weight_scale", "scales", NIB_NAME_ENDING},
        {"l.0.weight_scale_2", "tensor_scale_decode", NIB_NAME_ENDING}, {"l.0.weight_global_scale", "tensor_scale_encode", NIB_NAME_ENDING},
        {"w_rowwise_data", "packed", NIB_NAME_ENDING}, {"w_columnwise_data", "packed", NIB_NAME_TRANSPOSED},
        {"w_amax_columnwise", "tensor_amax", NIB_NAME_TRANSPOSED}, {"w_rowwise_scale_inv", "scales", NIB_NAME_ENDING},
        {"l.per_tensor_scale", "tensor_scale_decode", NIB_NAME_ENDING}, {"m.gate_up_proj_blocks", "packed", NIB_NAME_ENDING},
        {"m.gate_up_proj_scales", "scales", NIB_NAME_ENDING}, {"l.input_scale", "l.input_scale", NIB_NAME_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char usual[NIB_PART_NAME];
        enum nib_name_fit fit;
        (void)nib_stage_of_tensor(cases[i].name, usual, &fit);
        NIB_CHECKF(strcmp(usual, cases[i].usual) == 0 && fit == cases[i].fit, "%s is taken for %s", cases[i].name, usual);
    }
}

static void a_quantizer_is_not_separated_from_itself(void) {
    struct nib_error error;
    struct nib_witness w = {0};
    bool found = true;
    CU_ASSERT_FATAL(ready());
    NIB_OK_OR_FAIL(nib_witness_find(quantizers[1], quantizers[1], 0, 2000, &found, &w, &error), error);
    CU_ASSERT_FALSE(found);
}

NIB_TEST_MAIN("compare-identify", {"finds the quantizer by codes and scales", finds_the_quantizer_by_codes_and_scales},
              {"sees nibble order and blocked scales", sees_nibble_order_and_blocked_scales},
              {"sees the axis and the transpose", sees_the_axis_and_the_transpose},
              {"lists the nearest where none fits", lists_the_nearest_where_none_fits},
              {"refuses an input of another size", refuses_an_input_of_another_size},
              {"knows names of checkpoints", knows_names_of_checkpoints},
              {"unequal formats are separated by values", unequal_formats_are_separated_by_values},
              {"a witness separates axes", a_witness_separates_axes},
              {"a quantizer is not separated from itself", a_quantizer_is_not_separated_from_itself})
