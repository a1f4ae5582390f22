/* Calls that break the contract of the headers are refused with NIB_EINVAL, and leave what they were given. */
#include <nibble/nibble.h>

#include "nib_test.h"
#include <stdint.h>
#include <string.h>

enum { ROWS = 4, COLS = 64 };
static float x[ROWS * COLS], out[ROWS * COLS];
static const struct nib_quantizer *quantizer;
static const struct nib_rotation *rotation;
static struct nib_error error;

static struct nib_view view(void) { return (struct nib_view){x, NIB_F32, ROWS, COLS, COLS}; }

static void refused(enum nib_status status) {
    NIB_CHECKF(status == NIB_EINVAL && error.text[0] != '\0', "%s: %s", nib_status_name(status), error.text);
    error.text[0] = '\0';
}

static void null_arguments_are_refused(void) {
    struct nib_quantized q = {0};
    struct nib_gemm_buffer buffer;
    struct nib_witness witness;
    bool found;
    float amax;
    size_t at;
    refused(nib_quantized_alloc(NULL, ROWS, COLS, NIB_ALONG_COLS, NIB_WANT_CODES, &q, &error));
    refused(nib_quantized_alloc(quantizer, ROWS, COLS, NIB_ALONG_COLS, NIB_WANT_CODES, NULL, &error));
    refused(nib_quantize(NULL, view(), NULL, &q, &error));
    refused(nib_quantize(quantizer, view(), NULL, NULL, &error));
    refused(nib_dequantize(NULL, &q, out, &error));
    refused(nib_dequantize(quantizer, NULL, out, &error));
    refused(nib_tensor_amax(NULL, view(), 1, &amax, &error));
    refused(nib_tensor_amax(quantizer, view(), 1, NULL, &error));
    refused(nib_rotate(NULL, view(), NIB_ALONG_COLS, 1, out, &error));
    refused(nib_rotate(rotation, view(), NIB_ALONG_COLS, 1, NULL, &error));
    refused(nib_gemm_run(NULL, NULL, out, COLS, &error));
    refused(nib_gemm_run(&(struct nib_gemm){.m = 1, .n = 1, .k = 1}, NULL, out, COLS, &error));
    refused(nib_gemm_from_quantized(NULL, quantizer, &q, &buffer, &error));
    refused(nib_witness_find(NULL, quantizer, 1, 1, &found, &witness, &error));
    refused(nib_file_find(NULL, "w", &at, &error));
    refused(nib_file_view(NULL, 0, false, &(struct nib_view){0}, &error));
    refused(nib_quantizer_open("te-nvfp4", NULL, &error));
}

static void names_that_are_null_are_refused(void) {
    const struct nib_quantizer *q;
    const struct nib_rotation *r;
    const struct nib_element *e;
    const struct nib_unit *u;
    const struct nib_recipe *recipe;
    struct nib_file *file;
    refused(nib_quantizer_open(NULL, &q, &error));
    refused(nib_rotation_open(NULL, &r, &error));
    refused(nib_element_open(NULL, &e, &error));
    refused(nib_unit_open(NULL, &u, &error));
    refused(nib_recipe_open(NULL, &recipe, &error));
    refused(nib_file_open(NULL, &file, &error));
}

static void a_matrix_that_cannot_be_is_refused_by_quantizers_and_rotations(void) {
    const struct nib_view bad[] = {
        {NULL, NIB_F32, ROWS, COLS, COLS},
        {x, (enum nib_dtype)9, ROWS, COLS, COLS},
        {x, NIB_F32, ROWS, COLS, COLS - 1},
        {x, NIB_F32, ROWS, COLS, SIZE_MAX},
        {x, NIB_F32, ROWS, COLS, SIZE_MAX / ROWS},
    };
    struct nib_quantized q;
    CU_ASSERT_FATAL(nib_quantized_alloc(quantizer, ROWS, COLS, NIB_ALONG_COLS, NIB_WANT_CODES, &q, NULL) == NIB_OK);
    memset(q.codes, 0xEE, ROWS * COLS);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        out[0] = 77;
        refused(nib_quantize(quantizer, bad[i], NULL, &q, &error));
        refused(nib_rotate(rotation, bad[i], NIB_ALONG_COLS, 1, out, &error));
        CU_ASSERT(q.codes[0] == 0xEE && out[0] == 77);
    }
    nib_quantized_free(&q);
}

static void an_axis_that_is_none_is_refused(void) {
    struct nib_quantized q = {.rows = 5};
    refused(nib_quantized_alloc(quantizer, ROWS, COLS, (enum nib_axis)7, NIB_WANT_CODES, &q, &error));
    CU_ASSERT(q.rows == 5);
    refused(nib_rotate(rotation, (struct nib_view){x, NIB_F32, 16, 16, 16}, (enum nib_axis)9, 1, out, &error));
}

static void tensors_past_the_last_are_refused(void) {
    struct nib_file *file;
    struct nib_view v = {.rows = 3};
    struct nib_tensor_info info;
    const void *data = x;
    uint64_t bytes;
    CU_ASSERT_FATAL(nib_file_open(NIB_DATA_DIR "/bytelm-8m.safetensors", &file, NULL) == NIB_OK);
    refused(nib_file_view(file, nib_file_count(file), false, &v, &error));
    refused(nib_file_bytes(file, SIZE_MAX, &data, &bytes, &error));
    CU_ASSERT(v.rows == 3 && data == x);
    nib_file_tensor(file, SIZE_MAX, &info);
    CU_ASSERT(info.name[0] == '\0' && info.rank == 0);
    nib_file_close(file);
}

static void names_past_the_last_are_null(void) {
    CU_ASSERT(nib_scale_layout_name(NIB_SCALE_LAYOUTS) == NULL && nib_scale_layout_formula(NIB_SCALE_LAYOUTS) == NULL);
    CU_ASSERT(nib_nibble_order_name(NIB_NIBBLE_ORDERS) == NULL && nib_operand_name(NIB_OPERANDS) == NULL);
}

static void open_all(void) {
    NIB_OK_OR_FAIL(nib_quantizer_open("te-nvfp4", &quantizer, &error), error);
    NIB_OK_OR_FAIL(nib_rotation_open("rht16", &rotation, &error), error);
}

static void close_all(void) {
    nib_quantizer_close(quantizer);
    nib_rotation_close(rotation);
}

NIB_TEST_MAIN("misuse", {"formats open", open_all}, {"null arguments are refused", null_arguments_are_refused},
              {"names that are null are refused", names_that_are_null_are_refused},
              {"a matrix that cannot be is refused by quantizers and rotations",
               a_matrix_that_cannot_be_is_refused_by_quantizers_and_rotations},
              {"an axis that is none is refused", an_axis_that_is_none_is_refused},
              {"tensors past the last are refused", tensors_past_the_last_are_refused},
              {"names past the last are null", names_past_the_last_are_null}, {"formats close", close_all})
