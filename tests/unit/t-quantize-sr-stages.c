/* Every form of stochastic rounding has stages, which agree with its definition on the levels, beside them and between,
 * for random integers at the ends of their range, in the middle and anywhere; under every rule about signs of zeros. */
#include "nib_agreement.h"
#include "quantize/stages.h"

enum { BLOCK = 16, ROWS = 64, MOST = 512 };

static const char *const isas[] = {"generic", "avx2", "avx512"};

/* Levels, parts of the cells above them, neighbours of these; what is small, and what saturates. */
static size_t inputs(const struct nib_element *element, float *x) {
    static const float others[] = {0, 1e-45f, 1e-40f, 1e-30f, 1e-9f, 0x1p-33f, 0x1p-25f};
    static const float places[] = {0, 1 / 3.0f, 0.5f, 1 / 256.0f, 0x1p-16f, 3 * 0x1p-9f, 0.9999f};
    size_t count = 0;
    for (unsigned r = 0; r < element->levels; r++) {
        float a = element->level_of_rank[r], b = r + 1 < element->levels ? element->level_of_rank[r + 1] : a;
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            float middle = a + (b - a) * places[p];
            x[count++] = middle;
            x[count++] = nextafterf(middle, INFINITY);
            x[count++] = nextafterf(middle, -INFINITY);
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        x[count++] = others[i];
        x[count++] = -others[i];
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (fabsf(x[i]) <= element->max_magnitude) x[kept++] = x[i];
    return kept;
}

static uint32_t random_integer(void) {
    static const uint32_t ends[] = {0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFF00, 0x1FFFFF, 0x200000, 0x3FFFFF};
    uint32_t kind = nib_next() % 16;
    return kind < 9 ? ends[kind] : nib_next();
}

/* A block holds its largest level, so that its scale is a power of two and elements stay what they are. */
static void compare(const struct nib_quantizer *q, enum nib_dtype dtype) {
    static float line[MOST], x[ROWS * MOST * BLOCK / (BLOCK - 1) + ROWS * BLOCK];
    static uint8_t random[4 * sizeof x / sizeof *x];
    const struct nib_element *element = q->block->element;
    size_t count = inputs(element, line), cols = (count + BLOCK - 2) / (BLOCK - 1) * BLOCK,
           width = nib_axes_random_bytes(&q->axes);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t i = 0, at = 0; i < cols; i++)
            x[r * cols + i] = i % BLOCK == BLOCK - 1 || at == count ? element->max_magnitude : line[at++];
    for (size_t i = 0; i < ROWS * cols; i++) {
        uint32_t word = random_integer();
        for (size_t b = 0; b < width; b++) random[i * width + b] = (uint8_t)(word >> 8 * b);
    }
    struct nib_view view = nib_as_dtype(x, ROWS * cols, dtype, ROWS, cols, cols);
    struct nib_quantize_options o = {
        .isa = "ref", .threads = 1, .random_bits = random, .random_bytes = ROWS * cols * width};
    struct nib_quantized reference = {0}, fast = {0};
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, ROWS, cols, NIB_ALONG_COLS, 15, &reference, &error), error);
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, ROWS, cols, NIB_ALONG_COLS, 15, &fast, &error), error);
    NIB_OK_OR_FAIL(nib_quantize(q, view, &o, &reference, &error), error);
    for (int i = 0; i < 3; i++) {
        o.isa = isas[i];
        enum nib_status status = nib_quantize(q, view, &o, &fast, &error);
        if (status == NIB_EUNAVAILABLE) continue;
        NIB_CHECKF(status == NIB_OK && nib_same(&reference, &fast), "%s with %s, dtype %d: differs", q->name, isas[i],
                   (int)dtype);
    }
    nib_quantized_free(&reference);
    nib_quantized_free(&fast);
}

static void check_stages(const struct nib_quantizer *q) {
    const struct nib_isa *isa;
    bool reference;
    struct nib_stages stages;
    struct nib_tensor_scale t = nib_tensor_scale_none(q, NIB_F32);
    if (nib_isa_choose("generic", &isa, &reference, NULL) != NIB_OK) return;
    nib_stages_make(q, &t, isa, false, &stages);
    NIB_CHECKF(!stages.reference, "%s: only the reference", q->name);
}

/* Settings are left out where NULL. */
static void try_form(const char *name, const char *form, const char *bits, const char *sign) {
    const struct nib_element *element;
    const struct nib_scale *scale;
    const struct nib_quantizer *base, *q;
    struct nib_error error;
    char text[3][64];
    const char *settings[] = {"rounding=sr", text[0], text[1], text[2]};
    snprintf(text[0], sizeof *text, "sr_form=%s", form);
    snprintf(text[1], sizeof *text, "signed_zero=%s", sign);
    snprintf(text[2], sizeof *text, "sr_bits=%s", bits != NULL ? bits : "");
    NIB_OK_OR_FAIL(nib_element_open(name, &element, &error), error);
    NIB_OK_OR_FAIL(nib_scale_open("e8m0", &scale, &error), error);
    NIB_OK_OR_FAIL(nib_quantizer_of_grid(element, scale, BLOCK, &base, &error), error);
    NIB_OK_OR_FAIL(nib_quantizer_with(base, settings, bits != NULL ? 4 : 3, &q, &error), error);
    check_stages(q);
    for (int dtype = 0; dtype < 3; dtype++) compare(q, (enum nib_dtype)dtype);
    nib_quantizer_close(q);
    nib_quantizer_close(base);
    nib_scale_close(scale);
    nib_element_close(element);
}

static const char *const signs[] = {"keep", "negative", "drop", "nonpositive", "not-positive"};

static void forms_of_e2m1_agree(void) {
    static const char *const forms[] = {"te", "rint", "compare", "compare-next", "dither", "floor-add", "mslk"};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (size_t s = 0; s < sizeof signs / sizeof *signs; s++) try_form("e2m1", forms[f], NULL, signs[s]);
    try_form("e0m3", "floor-add", NULL, "keep");
}
static void forms_of_any_grid_agree(void) {
    static const char *const forms[] = {"carry", "half", "nearest", "odd"},
                             *const elements[] = {"e2m1", "e1m2", "e0m3", "e3m0", "int4"},
                             *const bits[] = {"8", "16", "32"};
    for (size_t e = 0; e < sizeof elements / sizeof *elements; e++)
        for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
            for (size_t b = 0; b < (f == 0 ? 3 : 2); b++)
                try_form(elements[e], forms[f], bits[b], signs[(e + f + b) % 5]);
}

NIB_TEST_MAIN("stages of stochastic rounding", {"forms of E2M1 agree", forms_of_e2m1_agree},
              {"forms of any grid agree", forms_of_any_grid_agree})
