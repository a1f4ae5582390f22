/* The stages agree with the definition (quantize_ref.c) byte for byte, for every built-in quantizer, input type,
 * axis, instruction set, thread count and awkward shape, on numbers drawn around the cell borders. */
#include "format/embedded.h"
#include "nib_agreement.h"
#include "quantize/stages.h"

#include <nibble/recipe.h>

static void compare_all(const struct nib_quantizer *q, struct nib_view x, enum nib_axis axis,
                        struct nib_quantize_options o) {
    static const char *const isas[] = {"generic", "avx2", "avx512"};
    static const int threads[] = {1, 2, 7};
    unsigned all = NIB_WANT_CODES | NIB_WANT_PACKED | NIB_WANT_SCALES | NIB_WANT_VALUES;
    struct nib_quantized reference = {0}, fast = {0};
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, x.rows, x.cols, axis, all, &reference, &error), error);
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, x.rows, x.cols, axis, all, &fast, &error), error);
    o.axis = axis;
    o.threads = 1;
    o.isa = "ref";
    enum nib_status first = nib_quantize(q, x, &o, &reference, &error);
    if (first == NIB_EINVAL &&
        q->axes.scale_correction != 0) { /* takes whole groups of 128 only, whatever computes it */
        for (int i = 0; i < 3; i++) {
            o.isa = isas[i];
            enum nib_status status = nib_quantize(q, x, &o, &fast, &error);
            CU_ASSERT(status == NIB_EINVAL || status == NIB_EUNAVAILABLE);
        }
        nib_quantized_free(&reference);
        nib_quantized_free(&fast);
        return;
    }
    NIB_OK_OR_FAIL(first, error);
    for (int i = 0; i < 3; i++) {
        o.isa = isas[i];
        o.threads = threads[nib_next() % 3];
        enum nib_status status = nib_quantize(q, x, &o, &fast, &error);
        if (status == NIB_EUNAVAILABLE) continue;
        NIB_CHECKF(status == NIB_OK && nib_same(&reference, &fast),
                   "%s, %s, %d threads, dtype %d, axis %d, %zu x %zu: differs", q->name, isas[i], o.threads,
                   (int)x.dtype, (int)axis, x.rows, x.cols);
    }
    /* NaN and infinity leave no trace in codes, nor does what the float-bits rounding carries from one into another */
    bool exact = reference.nan_count + reference.inf_count == 0 && q->axes.rounding != NIB_ROUNDING_FLOAT_BITS;
    memset(fast.values, 0xCA, x.rows * x.cols * sizeof(float));
    float *values = fast.values;
    NIB_OK_OR_FAIL(nib_dequantize(q, &reference, values, &error), error);
    NIB_CHECKF(!exact || nib_same_floats(values, reference.values, x.rows * x.cols),
               "%s: dequantize from codes differs", q->name);
    uint8_t *codes = reference.codes;
    reference.codes = NULL;
    NIB_OK_OR_FAIL(nib_dequantize(q, &reference, values, &error), error);
    NIB_CHECKF(!exact || nib_same_floats(values, reference.values, x.rows * x.cols),
               "%s: dequantize from packed codes differs", q->name);
    reference.codes = codes;
    nib_quantized_free(&reference);
    nib_quantized_free(&fast);
}

static bool has_stages(const struct nib_quantizer *q) {
    const struct nib_isa *isa;
    bool reference;
    struct nib_stages stages;
    struct nib_tensor_scale t =
        q->block->has_tensor_scale ? nib_tensor_scale_of_amax(q, NIB_F32, 1) : nib_tensor_scale_none(q, NIB_F32);
    if (nib_isa_choose("generic", &isa, &reference, NULL) != NIB_OK) return true;
    nib_stages_make(q, &t, isa, false, &stages);
    return !stages.reference;
}

static void try_shapes(const struct nib_quantizer *q, bool specials) {
    static const size_t shapes[][3] = {{1, 1, 1},      {1, 16, 16},     {3, 37, 40},  {70, 33, 33},  {16, 64, 64},
                                       {17, 129, 160}, {1, 1300, 1300}, {70, 16, 16}, {32, 512, 512}, {128, 5, 7}, {6, 896, 900}};

    static const float amaxes[] = {2688, 0.75f, 1.75f, 2.75f, 7.75f, 9.25f};
    float *x = malloc(40000 * sizeof *x);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int dtype = 0; dtype < 3; dtype++)
            for (int axis = 0; axis < 2; axis++) {
                size_t rows = shapes[s][0], cols = shapes[s][1], stride = shapes[s][2];
                nib_fill(q, x, rows * stride, specials);
                struct nib_view view = nib_as_dtype(x, rows * stride, (enum nib_dtype)dtype, rows, cols, stride);
                bool groups = q->axes.scale_correction != 0 && (axis == NIB_ALONG_COLS ? cols : rows) % 128 == 0;
                if (!nib_test_full() && !groups && nib_next() % 16 != 0)
                    continue; /* a sample of shapes, types and axes */
                struct nib_quantize_options o = {0};
                o.has_tensor_amax = q->block->has_tensor_scale && (specials || nib_next() % 2);
                o.tensor_amax = amaxes[nib_next() % 6];
                compare_all(q, view, (enum nib_axis)axis, o);
            }
    free(x);
}

static void every_quantizer(bool specials) {
    for (size_t i = 0; i < nib_embedded_count; i++) {
        if (strcmp(nib_embedded_formats[i].kind, "quantizers") != 0) continue;
        const struct nib_quantizer *q;
        struct nib_error error;
        NIB_OK_OR_FAIL(nib_quantizer_open(nib_embedded_formats[i].name, &q, &error), error);
        try_shapes(q, specials);
        nib_quantizer_close(q);
    }
}
static void numbers_agree(void) {
    every_quantizer(false);
}
static void specials_agree(void) {
    every_quantizer(true);
}

/* Recipes set axes of their own; `awaited` are those whose quantizers the reference still computes. */
static void recipes_agree(void) {
    static const char *const awaited[] = {"fp4-all-the-way-encode"};
    for (size_t i = 0; i < nib_embedded_count; i++) {
        if (strcmp(nib_embedded_formats[i].kind, "recipes") != 0) continue;
        const struct nib_recipe *recipe;
        struct nib_error error;
        const char *name = nib_embedded_formats[i].name;
        NIB_OK_OR_FAIL(nib_recipe_open(name, &recipe, &error), error);
        bool stages = true, waits = false;
        for (size_t a = 0; a < sizeof awaited / sizeof *awaited; a++) waits |= strcmp(awaited[a], name) == 0;
        for (int slot = 0; slot < NIB_SLOTS; slot++) {
            const struct nib_quantizer *q = nib_recipe_quantizer(recipe, (enum nib_slot)slot);
            if (q == NULL) continue;
            stages = stages && has_stages(q);
            try_shapes(q, slot % 2);
        }
        NIB_CHECKF(stages != waits, "recipe %s: stages compute %s of its quantizers", name, stages ? "all" : "not all");
        nib_recipe_close(recipe);
    }
}

static void explored_grids_agree(void) {
    static const char *const elements[] = {"e2m1", "e1m2", "nf4", "int4-full"}, *const scales[] = {"fp32", "e8m0",
                                                                                                   "e4m3", "bf16"};
    for (int i = 0; i < 16; i++) {
        const struct nib_element *element;
        const struct nib_scale *scale;
        const struct nib_quantizer *q;
        struct nib_error error;
        NIB_OK_OR_FAIL(nib_element_open(elements[i % 4], &element, &error), error);
        NIB_OK_OR_FAIL(nib_scale_open(scales[i / 4], &scale, &error), error);
        NIB_OK_OR_FAIL(nib_quantizer_of_grid(element, scale, i % 3 == 0 ? 15 : 16u << i % 3, &q, &error), error);
        nib_element_close(element);
        nib_scale_close(scale);
        try_shapes(q, i % 2);
        nib_quantizer_close(q);
    }
}

NIB_TEST_MAIN("quantize agreement", {"stages and reference agree on numbers", numbers_agree},
              {"stages and reference agree with NaN and infinity among them", specials_agree},
              {"stages and reference agree under recipes", recipes_agree},
              {"stages and reference agree on explored grids", explored_grids_agree})
