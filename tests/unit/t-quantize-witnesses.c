/* Small inputs on which real implementations part, with the bytes of each: the witnesses of the axis table. Every row
 * is checked through the reference and the stages; two rows with the same input and different bytes are one witness. */
#include "core/key.h"
#include "nib_test.h"

#include <math.h>
#include <nibble/quantize.h>

enum { MOST = 6, NO_SCALE = 0x100 };
struct witness {
    const char *axis, *quantizer, *setting; /* setting may be NULL */
    float g;                                /* given tensor amax; 0: none */
    float x[MOST];
    unsigned scale;    /* NO_SCALE: not asked */
    const char *codes; /* one hexadecimal digit each; '.' is not asked; NULL: none */
};
#define NO_AMAX 0

static const struct witness witnesses[] = {
    /* the order of the three factors in the block scale */
    {"BS1", "te-nvfp4", NULL, 0.75f, {0.5625f}, 0x7B, NULL},
    {"BS1", "vllm-nvfp4", NULL, 0.75f, {0.5625f}, 0x7A, NULL},
    {"BS1", "modelopt-nvfp4-cpu", NULL, 0.75f, {0.5625f}, 0x7A, NULL},
    {"BS1", "torchao-nvfp4-cpu", NULL, 1.75f, {1.4375f}, 0x7B, NULL},
    {"BS1", "torchao-nvfp4", NULL, 1.75f, {1.4375f}, 0x7C, NULL},
    {"BS1", "vllm-nvfp4", NULL, 1.75f, {1.4375f}, 0x7C, NULL},
    {"BS1", "flashinfer-nvfp4", NULL, 1.75f, {1.5625f}, 0x7D, NULL},
    {"BS1", "compressed-tensors-nvfp4", NULL, 1.75f, {1.5625f}, 0x7D, NULL},
    {"BS1", "fouroversix-nvfp4-static-6", NULL, 1.75f, {1.5625f}, 0x7C, NULL},
    {"BS1", "fouroversix-nvfp4-static-6", NULL, 2.75f, {2.0625f}, 0x7A, NULL},
    {"BS1", "fouroversix-nvfp4-static-6", NULL, 7.75f, {5.8125f}, 0x7A, NULL},
    {"BS1", "modelopt-nvfp4-cpu", NULL, 7.75f, {5.8125f}, 0x7B, NULL},
    /* lower bounds of the block scale */
    {"BS3", "te-nvfp4", NULL, 1, {0x1p-18f}, 0x01, NULL},
    {"BS3", "torchao-nvfp4", NULL, 1, {0x1p-18f}, 0x08, NULL},
    {"BS3", "modelopt-nvfp4", NULL, 1, {0x1p-18f}, 0x01, NULL},
    {"BS3", "compressed-tensors-nvfp4", NULL, 1, {0x1p-20f}, 0x20, NULL},
    /* a block that is not zero under a scale that is */
    {"BS4", "te-nvfp4", NULL, 1, {0x1p-20f, 0, -0x1p-20f}, 0x00, "70F"},
    {"BS4", "flashinfer-nvfp4", NULL, 1, {0x1p-20f, 0, -0x1p-20f}, 0x00, "77F"},
    {"BS4", "vllm-nvfp4", NULL, 1, {0x1p-20f, 0, -0x1p-20f}, 0x00, "008"},
    {"BS4", "torchao-nvfp4", NULL, 1, {0x1p-20f, 0, -0x1p-20f}, 0x08, "008"},
    {"BS4", "modelopt-nvfp4", NULL, 1, {0x1p-20f, 0, -0x1p-20f}, 0x01, "30B"},
    /* E4M3: to nearest even, ggml's half up, and its jump to 448 */
    {"BS5", "torchao-nvfp4-single", NULL, NO_AMAX, {6.375f}, 0x38, NULL},
    {"BS5", "ggml-nvfp4", NULL, NO_AMAX, {6.375f}, 0x39, NULL},
    {"BS5", "torchao-nvfp4-single", NULL, NO_AMAX, {1536}, 0x78, NULL},
    {"BS5", "ggml-nvfp4", NULL, NO_AMAX, {1536}, 0x7E, NULL},
    /* element scaling, under the scale byte 64 */
    {"EN1", "te-nvfp4", NULL, 0.25f, {0.026785715f, 0x1p-6f}, 0x64, ".5"},
    {"EN1", "torchao-nvfp4-cpu", NULL, 0.25f, {0.026785715f, 0x1p-6f}, 0x64, ".6"},
    {"EN1", "modelopt-nvfp4-cpu", NULL, 0.25f, {0.026785715f, 0x1p-6f}, 0x64, ".5"},
    {"EN1", "vllm-emulation-nvfp4-triton", NULL, 0.25f, {0.026785715f, 0x1p-6f}, 0x64, ".6"},
    {"EN2", "te-nvfp4", NULL, 9, {11.25f, 7.5f}, NO_SCALE, ".6"},
    {"EN2", "te-nvfp4-fast-math", NULL, 9, {11.25f, 7.5f}, NO_SCALE, ".7"},
    {"EN2", "e2m1-fp32", NULL, NO_AMAX, {6, 0.2504f, 5.01f}, NO_SCALE, "717"},
    {"EN2", "e2m1-fp32", "element_precision=bf16", NO_AMAX, {6, 0.2504f, 5.01f}, NO_SCALE, "706"},
    /* ties */
    {"RN", "e2m1-fp32", NULL, NO_AMAX, {6, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f}, NO_SCALE, "702244"},
    {"RN", "e2m1-fp32", "rounding=rnz", NO_AMAX, {6, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f}, NO_SCALE, "701234"},
    {"RN", "e2m1-fp32", "rounding=rna", NO_AMAX, {6, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f}, NO_SCALE, "712345"},
    {"RN", "e2m1-fp32", NULL, NO_AMAX, {6, 3.5f, 5}, NO_SCALE, "766"},
    {"RN", "e2m1-fp32", "rounding=rnz", NO_AMAX, {6, 3.5f, 5}, NO_SCALE, "756"},
    {"RN", "e2m1-fp32", "rounding=rna", NO_AMAX, {6, 3.5f, 5}, NO_SCALE, "767"},
    {"RN2", "ocp-mxfp4", NULL, NO_AMAX, {4, 0x1.000002p-2f, 0x1.000006p-2f}, 0x7F, "611"},
    {"RN2", "triton-kernels-mxfp4-up", NULL, NO_AMAX, {4, 0x1.000002p-2f, 0x1.000006p-2f}, 0x7F, "600"},
    {"RN2",
     "triton-kernels-mxfp4-torch-up",
     "rounding=rne;drop",
     NO_AMAX,
     {4, 0x1.000006p-2f, 0x1.000008p-2f},
     0x7F,
     "601"},
    /* signs of zeros */
    {"SG", "te-nvfp4", NULL, 2688, {2688, 0.0f, -0.0f, -1}, NO_SCALE, "7088"},
    {"SG", "te-ref-nvfp4", NULL, 2688, {2688, 0.0f, -0.0f, -1}, NO_SCALE, "7008"},
    {"SG", "modelopt-mxfp4", NULL, NO_AMAX, {6, 0.0f, -0.0f, -0.1f}, NO_SCALE, "7888"},
    {"SG", "fbgemm-mx4-cuda", NULL, NO_AMAX, {6, 0.0f, -0.0f, -0.1f}, NO_SCALE, "7000"},
    /* NaN */
    {"NN", "te-nvfp4", NULL, 2688, {2688, NAN, -NAN}, 0x7E, "777"},
    {"NN", "ggml-nvfp4", NULL, NO_AMAX, {6, NAN, -NAN}, 0x38, "700"},
    {"AM", "torchao-mxfp4-floor", NULL, NO_AMAX, {4, NAN}, 0xFF, "44"},
    {"AM", "ocp-mxfp4", NULL, NO_AMAX, {4, NAN}, 0x7F, "67"},
    /* flush to zero */
    {"FT", "flashinfer-mxfp4", NULL, NO_AMAX, {0x1p-126f}, 0x00, "0"},
    {"FT", "torchao-mxfp4-rceil", NULL, NO_AMAX, {0x1p-126f}, 0x00, "4"},
    /* 4 or 6: the metric, and a tie that stays with 6 */
    {"46d", "te-nvfp4-4over6-mae", NULL, 8, {4, -4}, 0x76, "7F"},
};

static void run(const struct witness *w, const char *isa) {
    const struct nib_quantizer *base, *q;
    struct nib_error error;
    struct nib_quantized out;
    NIB_OK_OR_FAIL(nib_quantizer_open(w->quantizer, &base, &error), error);
    NIB_OK_OR_FAIL(nib_quantizer_with(base, &w->setting, w->setting != NULL, &q, &error), error);
    struct nib_quantize_options options = {
        .has_tensor_amax = w->g != NO_AMAX, .tensor_amax = w->g, .isa = isa, .threads = 1};
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, 1, MOST, NIB_ALONG_COLS, 15, &out, &error), error);
    NIB_OK_OR_FAIL(nib_quantize(q, (struct nib_view){w->x, NIB_F32, 1, MOST, MOST}, &options, &out, &error), error);
    if (w->scale != NO_SCALE)
        NIB_CHECKF(out.scales[0] == w->scale, "%s %s (%s): scale %02X, not %02X", w->axis, w->quantizer, isa,
                   out.scales[0], w->scale);
    for (size_t i = 0; w->codes != NULL && i < strlen(w->codes); i++)
        NIB_CHECKF(w->codes[i] == '.' || "0123456789ABCDEF"[out.codes[i]] == w->codes[i],
                   "%s %s %s (%s): code %zu is %X, not %c", w->axis, w->quantizer, w->setting == NULL ? "" : w->setting,
                   isa, i, out.codes[i], w->codes[i]);
    nib_quantized_free(&out);
    nib_quantizer_close(q);
    nib_quantizer_close(base);
}

static void implementations_part_where_the_table_says(void) {
    for (size_t i = 0; i < sizeof witnesses / sizeof *witnesses; i++) {
        run(&witnesses[i], "ref");
        run(&witnesses[i], "generic");
    }
}

/* Tensor scales: bits of S for an amax. */
static void tensor_scales_part(void) {
    static const struct {
        const char *quantizer;
        float g;
        uint32_t encode;
    } rows[] = {{"te-nvfp4", 0.6875f, 0x45745D17},     {"auto-round-nvfp4", 0.6875f, 0x45745D18},
                {"te-nvfp4", 0x1p-120f, 0x7F7FFFFF},   {"compressed-tensors-nvfp4", 0x1p-120f, 0x3F800000},
                {"vllm-nvfp4", 0x1p-120f, 0x7F800000}, {"te-nvfp4", 0, 0x3F800000},
                {"te-ref-nvfp4", 0, 0x7F7FFFFF}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct nib_quantizer *q;
        struct nib_error error;
        struct nib_quantized out;
        float x = 0;
        struct nib_quantize_options options = {.has_tensor_amax = true, .tensor_amax = rows[i].g};
        NIB_OK_OR_FAIL(nib_quantizer_open(rows[i].quantizer, &q, &error), error);
        NIB_OK_OR_FAIL(nib_quantized_alloc(q, 1, 1, NIB_ALONG_COLS, 0, &out, &error), error);
        NIB_OK_OR_FAIL(nib_quantize(q, (struct nib_view){&x, NIB_F32, 1, 1, 1}, &options, &out, &error), error);
        NIB_CHECKF(nib_bits_of_float(out.tensor_scale_encode) == rows[i].encode, "GS %s: S is %08X, not %08X",
                   rows[i].quantizer, nib_bits_of_float(out.tensor_scale_encode), rows[i].encode);
        nib_quantizer_close(q);
    }
}

/* E8M0 bytes for an amax, one column per rule. */
static void exponent_rules_part(void) {
    static const char *const rules[] = {"ocp-mxfp4",          "torchao-mxfp4-ceil", "torchao-mxfp4-rceil",
                                        "torchao-mxfp4-even", "mslk-mxfp4-even",    "triton-kernels-mxfp4-up",
                                        "gfloat-mxfp4",       "modelopt-mxfp4-cpu"};
    static const struct {
        float amax;
        uint8_t byte[8];
    } rows[] = {{4, {0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F}},
                {5, {0x7F, 0x80, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F}},
                {6, {0x7F, 0x80, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F}},
                {0x1.800002p+2f, {0x7F, 0x80, 0x80, 0x7F, 0x7F, 0x80, 0x7F, 0x80}},
                {7, {0x7F, 0x80, 0x80, 0x80, 0x7F, 0x80, 0x7F, 0x80}},
                {0x1.c00002p+2f, {0x7F, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7F, 0x80}},
                {8, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80}},
                {3.5f, {0x7E, 0x7F, 0x7F, 0x7F, 0x7E, 0x7F, 0x7E, 0x7F}},
                {0x1.fffffep+3f, {0x80, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81}},
                {0x1p-126f, {0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00}}};
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            struct witness w = {"E8", rules[r], NULL, NO_AMAX, {rows[i].amax}, rows[i].byte[r], NULL};
            run(&w, "ref");
            run(&w, "generic");
        }
}

NIB_TEST_MAIN("witnesses of the axes",
              {"implementations part where the table says", implementations_part_where_the_table_says},
              {"tensor scales part", tensor_scales_part}, {"exponent rules part", exponent_rules_part})
