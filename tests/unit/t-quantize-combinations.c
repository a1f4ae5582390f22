/* Every pair of choices of two axes occurs in some quantizer, and the stages agree with the reference there: an array
 * that covers all pairs, filled at random, for block formats of every kind. */
#include "nib_agreement.h"

enum { AXES = NIB_AXES_MAX, CHOICES = 32, SETTING = 96 };

/* Values to try of the axes that are numbers. */
static const struct {
    const char *axis, *value[3];
} numbers[] = {{"tensor_target", {"2688", "1536", "0x1p+10"}}, {"block_target", {"6", "4", "3.5"}},
               {"scale_min", {"0", "0x1p-6", "0x1p-9"}},       {"scale_max", {"inf", "448", "256"}},
               {"scale_if_zero", {"0", "1", "0.125"}},         {"code_if_zero", {"0", "32", "8"}},
               {"tensor_amax_min", {"0", "0x1p-126", "0.5"}},  {"exponent_max", {"127", "125", "3"}}};

/* The axes of one block format, with the choices that may be set. */
struct axis {
    const char *name, *value[CHOICES];
    size_t count;
};
static struct axis axes[AXES];
static size_t axis_count;
static bool seen[AXES][CHOICES][AXES][CHOICES];

static void collect(const struct nib_quantizer *q) {
    axis_count = 0;
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < nib_axis_count; i++) {
        const struct nib_axis_info *info = &nib_axis_table[i];
        struct axis *axis = &axes[axis_count];
        *axis = (struct axis){.name = info->name};
        if (!nib_axis_applies(info->applies, q->block)) continue;
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
            for (int v = 0; v < 3 && strcmp(numbers[n].axis, info->name) == 0; v++)
                axis->value[axis->count++] = numbers[n].value[v];
        for (size_t c = 0; c < info->count; c++)
            if (nib_axis_applies(info->choices[c].applies, q->block))
                axis->value[axis->count++] = info->choices[c].name;
        axis_count += axis->count > 1;
    }
}

/* The quantizer with those choices; axes that others make inapplicable are left out. Conditions look at what is set
 * before, so that those axes are set in a second round. */
static const struct nib_quantizer *make(const struct nib_quantizer *base, const size_t *choice) {
    char text[AXES][SETTING];
    const char *settings[AXES];
    size_t count = 0;
    struct nib_quantizer probe = *base;
    for (int round = 0; round < 2; round++)
        for (size_t a = 0; a < axis_count; a++) {
            enum nib_applies applies = nib_axis_table[nib_axis_find(axes[a].name)].applies;
            bool late = applies == NIB_APPLIES_SR || applies == NIB_APPLIES_SR_BITS || applies == NIB_APPLIES_SELECT;
            if (late != (round == 1)) continue;
            if (nib_axes_set(&probe.axes, base->block, axes[a].name, axes[a].value[choice[a]], "", 0, NULL) != NIB_OK)
                continue;
            snprintf(text[count], SETTING, "%s=%s", axes[a].name, axes[a].value[choice[a]]);
            settings[count] = text[count];
            count++;
        }
    const struct nib_quantizer *q;
    struct nib_error error;
    enum nib_status status = nib_quantizer_with(base, settings, count, &q, &error);
    NIB_CHECKF(status == NIB_OK, "%s", error.text);
    return status == NIB_OK ? q : NULL;
}

static void describe(const struct nib_quantizer *q, char *out, size_t size) {
    const char *axis, *value;
    size_t used = 0;
    for (size_t i = 0; nib_quantizer_axis(q, i, &axis, &value) && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s=%s ", axis, value);
}

static void compare(const struct nib_quantizer *q) {
    static float x[128 * 128];
    static const char *const isas[] = {"generic", "avx2", "avx512"};
    size_t rows = 1 + nib_next() % 20, cols = 1 + nib_next() % 70;
    if (q->axes.scale_correction != 0 && nib_next() % 4 != 0) cols = rows = 128; /* whole groups along either axis */
    bool specials = nib_next() % 3 == 0;
    nib_fill(q, x, rows * cols, specials);
    struct nib_view view = nib_as_dtype(x, rows * cols, (enum nib_dtype)(nib_next() % 3), rows, cols, cols);
    struct nib_quantize_options o = {.axis = (enum nib_axis)(nib_next() % 2), .isa = "ref", .threads = 1};
    o.has_tensor_amax = q->block->has_tensor_scale && nib_next() % 2;
    o.tensor_amax = nib_next() % 8 == 0 ? 0.0f : 7.75f;
    struct nib_quantized reference = {0}, fast = {0};
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, rows, cols, o.axis, 15, &reference, &error), error);
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, rows, cols, o.axis, 15, &fast, &error), error);
    enum nib_status first = nib_quantize(q, view, &o, &reference, &error);
    NIB_CHECKF(first == NIB_OK || first == NIB_EINVAL, "%s", error.text); /* some choices refuse some shapes */
    for (int i = 0; i < 3 && first == NIB_OK; i++) {
        o.isa = isas[i];
        enum nib_status status = nib_quantize(q, view, &o, &fast, &error);
        if (status == NIB_EUNAVAILABLE) continue;
        char text[4096] = "";
        bool good = status == NIB_OK && nib_same(&reference, &fast);
        if (!good) describe(q, text, sizeof text);
        NIB_CHECKF(good, "%s, %zu x %zu, dtype %d, axis %d: differs with %s", isas[i], rows, cols, (int)view.dtype,
                   (int)o.axis, text);
    }
    nib_quantized_free(&reference);
    nib_quantized_free(&fast);
}

static void remember(const size_t *choice) {
    for (size_t a = 0; a < axis_count; a++)
        for (size_t b = 0; b < axis_count; b++) seen[a][choice[a]][b][choice[b]] = true;
}

/* Random choices, most axes as the base has them, so that the stages are not left at once. */
static void fill_choices(const struct nib_quantizer *base, size_t *choice) {
    for (size_t a = 0; a < axis_count; a++) {
        char buffer[NIB_AXIS_TEXT];
        const char *usual = nib_axes_get(&base->axes, nib_axis_find(axes[a].name), buffer);
        choice[a] = nib_next() % axes[a].count;
        for (size_t c = 0; c < axes[a].count && nib_next() % 4 != 0; c++)
            if (strcmp(axes[a].value[c], usual) == 0) choice[a] = c;
    }
}

static void cover_once(const struct nib_quantizer *base) {
    collect(base);
    for (size_t a = 0; a < axis_count; a++)
        for (size_t i = 0; i < axes[a].count; i++)
            for (size_t b = a + 1; b < axis_count; b++)
                for (size_t j = 0; j < axes[b].count; j++) {
                    if (seen[a][i][b][j]) continue;
                    size_t choice[AXES];
                    fill_choices(base, choice);
                    choice[a] = i;
                    choice[b] = j;
                    remember(choice);
                    const struct nib_quantizer *q = make(base, choice);
                    if (q != NULL) compare(q);
                    nib_quantizer_close(q);
                }
}

/* Other choices beside each pair, and other numbers, in every round. */
static void cover(const char *name) {
    const struct nib_quantizer *base;
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_quantizer_open(name, &base, &error), error);
    for (int round = 0; round < (nib_test_full() ? 25 : 1); round++) cover_once(base);
    nib_quantizer_close(base);
}

static void nvfp4_pairs_agree(void) {
    cover("te-nvfp4");
}
static void nvint4_pairs_agree(void) {
    cover("fouroversix-nvint4");
}
static void square_pairs_agree(void) {
    cover("te-nvfp4-16x16");
}
static void mxfp4_pairs_agree(void) {
    cover("ocp-mxfp4");
}
static void single_level_pairs_agree(void) {
    cover("torchao-nvfp4-single");
}
static void real_scale_pairs_agree(void) {
    cover("e1m2-fp32");
}
static void hif4_pairs_agree(void) {
    cover("hif4");
}
static void wide_scale_pairs_agree(void) {
    cover("auto-round-ue5m3");
}

NIB_TEST_MAIN("combinations of axes", {"NVFP4", nvfp4_pairs_agree}, {"NVINT4", nvint4_pairs_agree},
              {"NVFP4 in squares", square_pairs_agree}, {"MXFP4", mxfp4_pairs_agree},
              {"without a tensor scale", single_level_pairs_agree}, {"with FP32 scales", real_scale_pairs_agree},
              {"HiF4", hif4_pairs_agree},
              {"with UE5M3 scales", wide_scale_pairs_agree})
