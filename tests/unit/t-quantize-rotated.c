/* A rotation inside the quantizer gives the bytes of rotating first and quantizing then, wherever tiles end. */
#include "core/philox.h"
#include "nib_test.h"

#include <math.h>
#include <nibble/quantize.h>
#include <nibble/rotate.h>

enum { ROWS = 320, COLS = 1344 };
static float x[ROWS * COLS], y[ROWS * COLS];

static void fill(void) {
    for (size_t i = 0; i < ROWS * COLS; i++) {
        struct nib_philox_block r = nib_philox(11, i, 0);
        x[i] = ldexpf((float)(int32_t)r.word[0], (int)(r.word[1] % 12) - 34);
    }
    x[77] = NAN;
    x[COLS + 900] = INFINITY;
}

static const struct nib_rotation *rotation_of(unsigned size, const char *more) {
    char text[400];
    const struct nib_rotation *rotation = NULL;
    struct nib_error error;
    int length = snprintf(text, sizeof text, "kind: rotation\ntitle: t\nsource: s\nsize: %u\n%s", size, more);
    enum nib_status status = nib_rotation_parse(text, (size_t)length, "test.yaml", &rotation, &error);
    NIB_CHECKF(status == NIB_OK, "size %u: %s", size, error.text);
    return rotation;
}


static void compare(const char *name, const struct nib_rotation *rotation, struct nib_view view, enum nib_axis axis,
                    const char *isa, bool stochastic) {
    const struct nib_quantizer *base, *q;
    struct nib_error error;
    const char *setting = "rounding=sr";
    NIB_OK_OR_FAIL(nib_quantizer_open(name, &base, &error), error);
    NIB_OK_OR_FAIL(nib_quantizer_with(base, &setting, stochastic, &q, &error), error);
    struct nib_quantized apart, fused;
    unsigned want = NIB_WANT_CODES | NIB_WANT_PACKED | NIB_WANT_SCALES | NIB_WANT_VALUES;
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, view.rows, view.cols, axis, want, &apart, &error), error);
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, view.rows, view.cols, axis, want, &fused, &error), error);
    struct nib_quantize_options options = {.axis = axis, .isa = isa, .threads = 2, .seed = 3};
    NIB_OK_OR_FAIL(nib_rotate(rotation, view, axis, 2, y, &error), error);
    NIB_OK_OR_FAIL(nib_quantize(q, (struct nib_view){y, NIB_F32, view.rows, view.cols, view.cols}, &options, &apart, &error), error);
    options.rotation = rotation;
    NIB_OK_OR_FAIL(nib_quantize(q, view, &options, &fused, &error), error);
    size_t lines = axis == NIB_ALONG_COLS ? view.rows : view.cols, count = view.rows * view.cols;
    bool same = memcmp(apart.codes, fused.codes, count) == 0 &&
                memcmp(apart.packed, fused.packed, lines * apart.packed_stride) == 0 &&
                memcmp(apart.scales, fused.scales, apart.scale_rows * apart.scale_cols * apart.scale_bytes) == 0 &&
                memcmp(apart.values, fused.values, count * sizeof(float)) == 0 &&
                memcmp(&apart.tensor_amax, &fused.tensor_amax, sizeof(float)) == 0;
    NIB_CHECKF(same, "%s, size %u, %zu x %zu along %s, %s", name, nib_rotation_size(rotation), view.rows, view.cols,
               axis == NIB_ALONG_COLS ? "columns" : "rows", isa == NULL ? "best" : isa);
    nib_quantized_free(&apart);
    nib_quantized_free(&fused);
    nib_quantizer_close(base);
    nib_quantizer_close(q);
}

static void fused_is_the_same_as_apart(void) {
    static const char *const quantizers[] = {"te-nvfp4", "ocp-mxfp4", "e1m2-fp32"};
    static const unsigned sizes[] = {1, 2, 16, 32, 64, 256, 1024};
    fill();
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const struct nib_rotation *rotation = rotation_of(sizes[s], s % 2 ? "output: bf16\n" : "");
        if (rotation == NULL) return;
        size_t some = COLS / sizes[s] * sizes[s], few = ROWS / sizes[s] * sizes[s];
        for (size_t k = 0; k < 3; k++)
            for (int isa = 0; isa < 2; isa++) {
                compare(quantizers[k], rotation, (struct nib_view){x, NIB_F32, 5, some, COLS}, NIB_ALONG_COLS, isa ? "ref" : NULL, k == 0);
                if (few > 0)
                    compare(quantizers[k], rotation, (struct nib_view){x, NIB_F32, few, 37, COLS}, NIB_ALONG_ROWS, isa ? "ref" : NULL, k == 2);
            }
        nib_rotation_close(rotation);
    }
}

static void an_element_is_explained_after_its_rotation(void) {
    const struct nib_rotation *rotation = rotation_of(32, "");
    const struct nib_quantizer *q;
    struct nib_error error;
    struct nib_trace trace;
    fill();
    struct nib_view view = {x + COLS * 4, NIB_F32, 64, COLS, COLS};
    NIB_OK_OR_FAIL(nib_quantizer_open("te-nvfp4", &q, &error), error);
    for (int axis = 0; axis < 2; axis++) {
        struct nib_quantize_options options = {.axis = (enum nib_axis)axis, .rotation = rotation};
        NIB_OK_OR_FAIL(nib_rotate(rotation, view, options.axis, 1, y, &error), error);
        NIB_OK_OR_FAIL(nib_quantize_explain(q, view, &options, 33, 70, &trace, &error), error);
        bool found = false;
        for (size_t i = 0; i < trace.count; i++)
            found |= strcmp(trace.step[i].what, "element") == 0 && trace.step[i].value == (double)y[33 * COLS + 70];
        CU_ASSERT(found);
    }
    nib_quantizer_close(q);
    nib_rotation_close(rotation);
}

static void an_extent_that_does_not_divide_is_refused(void) {
    const struct nib_rotation *rotation = rotation_of(64, "");
    const struct nib_quantizer *q;
    struct nib_error error;
    struct nib_quantized out;
    NIB_OK_OR_FAIL(nib_quantizer_open("te-nvfp4", &q, &error), error);
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, 2, 96, NIB_ALONG_COLS, NIB_WANT_CODES, &out, &error), error);
    struct nib_quantize_options options = {.rotation = rotation};
    CU_ASSERT_EQUAL(nib_quantize(q, (struct nib_view){x, NIB_F32, 2, 96, 96}, &options, &out, &error), NIB_EINVAL);
    NIB_CHECKF(strstr(error.text, "pad them to 128") != NULL, "%s", error.text);
    nib_quantized_free(&out);
    nib_quantizer_close(q);
    nib_rotation_close(rotation);
}

NIB_TEST_MAIN("rotated quantization", {"fused is the same as apart", fused_is_the_same_as_apart},
              {"an element is explained after its rotation", an_element_is_explained_after_its_rotation},
              {"an extent that does not divide is refused", an_extent_that_does_not_divide_is_refused})
