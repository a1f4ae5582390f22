/* Cases from public reports of wrong bytes, with the right ones (tests/vectors/quantize-cases.json). */
#include "nib_test.h"

#include <jansson.h>
#include <math.h>
#include <nibble/quantize.h>

static json_t *cases;

/* "block": "1x2" stands for the quantizer's own elements and scales in blocks of another shape. */
static void reshape(const struct nib_quantizer **q, const char *shape, struct nib_error *error) {
    struct nib_quantizer_info info;
    nib_quantizer_describe(*q, &info);
    char path[] = "/tmp/nibble-block-XXXXXX.yaml", text[1024];
    int file = mkstemps(path, 5);
    if (file < 0) abort();
    FILE *out = fdopen(file, "w");
    fprintf(out, "kind: block\ntitle: test\nsource: test\nelement: %s\nscale: %s\nshape: %s\ntensor_scale: %s\n",
            info.block->element->name, info.block->scale->name, shape, info.block->has_tensor_scale ? "fp32" : "none");
    fclose(out);
    snprintf(text, sizeof text,
             "kind: quantizer\ntitle: test\nsource: test\ndevice: any\nverified: false\nbase: %s\nblock: %s\n",
             info.name, path);
    const struct nib_quantizer *made;
    enum nib_status status = nib_quantizer_parse(text, strlen(text), "test", &made, error);
    remove(path);
    NIB_CHECKF(status == NIB_OK, "%s", error->text);
    if (status != NIB_OK) exit(1);
    nib_quantizer_close(*q);
    *q = made;
}

static const struct nib_quantizer *open_case(json_t *entry, struct nib_error *error) {
    const struct nib_quantizer *base, *q;
    const char *settings[8], *block = json_string_value(json_object_get(entry, "block"));
    size_t count = json_array_size(json_object_get(entry, "settings"));
    for (size_t i = 0; i < count; i++)
        settings[i] = json_string_value(json_array_get(json_object_get(entry, "settings"), i));
    if (nib_quantizer_open(json_string_value(json_object_get(entry, "quantizer")), &base, error) != NIB_OK) return NULL;
    if (block != NULL) reshape(&base, block, error);
    enum nib_status status = nib_quantizer_with(base, settings, count, &q, error);
    nib_quantizer_close(base);
    return status == NIB_OK ? q : NULL;
}

static void check_numbers(json_t *entry, const struct nib_quantized *out, const char *id, const char *isa) {
    json_t *expected;
    const char *key;
    size_t i;
    json_array_foreach(json_object_get(entry, "scales"), i, expected)
        NIB_CHECKF(out->scales[i] == json_integer_value(expected), "%s (%s): scale %zu is %02X, not %02llX", id, isa, i,
                   out->scales[i], json_integer_value(expected));
    json_object_foreach(json_object_get(entry, "codes"), key, expected)
        NIB_CHECKF(out->codes[atoi(key)] == json_integer_value(expected), "%s (%s): code %s is %d, not %lld", id, isa,
                   key, out->codes[atoi(key)], json_integer_value(expected));
    json_object_foreach(json_object_get(entry, "values"), key, expected)
        NIB_CHECKF((double)out->values[atoi(key)] == json_number_value(expected), "%s (%s): value %s is %.9g, not %.9g",
                   id, isa, key, (double)out->values[atoi(key)], json_number_value(expected));
    if ((expected = json_object_get(entry, "encode")) != NULL)
        NIB_CHECKF((double)out->tensor_scale_encode == json_number_value(expected), "%s: encode scale %a", id,
                   (double)out->tensor_scale_encode);
    if ((expected = json_object_get(entry, "decode")) != NULL)
        NIB_CHECKF((double)out->tensor_scale_decode == json_number_value(expected), "%s: decode scale %a", id,
                   (double)out->tensor_scale_decode);
    if ((expected = json_object_get(entry, "packed_bytes")) != NULL) {
        CU_ASSERT(out->packed_stride == (size_t)json_integer_value(expected));
        CU_ASSERT(out->packed[out->packed_stride - 1] >> 4 ==
                  json_integer_value(json_object_get(entry, "last_packed_high")));
    }
}

static void run_case(json_t *entry, const char *isa) {
    struct nib_error error = {0};
    const char *id = json_string_value(json_object_get(entry, "id"));
    const struct nib_quantizer *q = open_case(entry, &error);
    NIB_CHECKF(q != NULL, "%s: %s", id, error.text);
    if (q == NULL) return;
    json_t *x = json_object_get(entry, "x"), *shape = json_object_get(entry, "shape"),
           *amax = json_object_get(entry, "tensor_amax");
    float data[512];
    for (size_t i = 0; i < json_array_size(x); i++) data[i] = (float)json_number_value(json_array_get(x, i));
    size_t rows = (size_t)json_integer_value(json_array_get(shape, 0)),
           cols = (size_t)json_integer_value(json_array_get(shape, 1));
    struct nib_view view = {data, NIB_F32, rows, cols, cols};
    struct nib_quantize_options options = {.isa = isa,
                                           .has_tensor_amax = amax != NULL,
                                           .tensor_amax = (float)json_number_value(amax),
                                           .axis = json_object_get(entry, "axis") != NULL ? NIB_ALONG_ROWS
                                                                                          : NIB_ALONG_COLS};
    struct nib_quantized out;
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, rows, cols, options.axis, 15, &out, &error), error);
    enum nib_status status = nib_quantize(q, view, &options, &out, &error);
    if (status != NIB_EUNAVAILABLE) {
        NIB_CHECKF(status == NIB_OK, "%s: %s", id, error.text);
        check_numbers(entry, &out, id, isa);
    }
    nib_quantized_free(&out);
    nib_quantizer_close(q);
}

static void reported_cases_come_out_right(void) {
    static const char *const isas[] = {"ref", "generic", "avx2", "avx512"};
    json_t *entry;
    size_t i;
    CU_ASSERT_FATAL(json_array_size(cases) > 30);
    for (int isa = 0; isa < 4; isa++) json_array_foreach(cases, i, entry) run_case(entry, isas[isa]);
}

static void load(void) {
    json_error_t error;
    json_t *file = json_load_file(NIB_SOURCE_DIR "/tests/vectors/quantize-cases.json", 0, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    cases = json_object_get(file, "cases");
}

NIB_TEST_MAIN("quantizers on reported cases", {"the cases load", load},
              {"reported cases come out right", reported_cases_come_out_right})
