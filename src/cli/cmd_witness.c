/* nibble witness: an input that separates two quantizers. */
#include <inttypes.h>
#include <nibble/compare.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/input.h"
#include "cli/output.h"
#include "core/key.h"
#include "io/json_out.h"

struct arguments {
    struct nib_texts settings_a, settings_b;
    int64_t tries;
};
static const struct arguments defaults = {.tries = 20000};
static const struct nib_option options[] = {
    NIB_OPT_TEXTS(struct arguments, settings_a, "set-a", 0, "AXIS=VALUE", "change an axis of the first"),
    NIB_OPT_TEXTS(struct arguments, settings_b, "set-b", 0, "AXIS=VALUE", "change an axis of the second"),
    NIB_OPT_INTEGER(struct arguments, tries, "tries", 0, "N", 1, 100000000, "give up after so many inputs"),
    NIB_OPT_END};

static enum nib_status print_json(const struct nib_call *call, const struct nib_quantizer_info info[2], bool found,
                                  const struct nib_witness *w, struct nib_error *error) {
    struct nib_json *json;
    enum nib_status status = nib_output_json(call, &json, error);
    if (status != NIB_OK) return status;
    nib_json_text(json, "a", info[0].name);
    nib_json_text(json, "b", info[1].name);
    nib_json_bool(json, "found", found);
    if (found) {
        nib_json_array(json, "bits");
        for (size_t i = 0; i < w->cols; i++) nib_json_unsigned(json, NULL, nib_bits_of_float(w->x[i]));
        nib_json_close(json);
        nib_json_floats(json, "values", w->x, w->cols);
        nib_json_text(json, "stage", nib_stage_name(w->stage));
        nib_json_unsigned(json, "at", w->at);
        nib_json_unsigned(json, "bits_a", w->bits_a);
        nib_json_unsigned(json, "bits_b", w->bits_b);
    }
    nib_json_end(json);
    return NIB_OK;
}

/* As --values of `nibble quantize` takes them, so that both can be traced with --explain. */
static void print_values(const struct nib_witness *w) {
    size_t last = w->cols;
    while (last > 1 && nib_bits_of_float(w->x[last - 1]) == 0) last--;
    for (size_t i = 0; i < last; i++) {
        uint32_t bits = nib_bits_of_float(w->x[i]);
        if (nib_bits_are_nan(bits))
            printf("%s0x%08X", i > 0 ? "," : "", bits);
        else
            printf("%s%.9g", i > 0 ? "," : "", (double)w->x[i]);
    }
    printf("\n");
}

static void print_text(const struct nib_quantizer_info info[2], const struct nib_witness *w) {
    int digits = w->stage == NIB_STAGE_VALUES ? 8 : 2;
    printf("%s and %s differ in: %s\n\n--values ", info[0].name, info[1].name, nib_stage_name(w->stage));
    print_values(w);
    size_t block = info[0].block->block_cols;
    size_t column = w->stage == NIB_STAGE_BLOCK_SCALES ? w->at * block : w->at;
    printf("\nat column %zu: %s gives 0x%0*" PRIX32 ", %s gives 0x%0*" PRIX32 "\n", column, info[0].name, digits,
           w->bits_a, info[1].name, digits, w->bits_b);
    printf("(the row has %zu elements; those not shown are 0)\n", w->cols);
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    const struct arguments *a = call->options;
    const struct nib_texts *settings[2] = {&a->settings_a, &a->settings_b};
    const struct nib_quantizer *q[2] = {NULL, NULL};
    struct nib_witness witness = {.x = NULL};
    bool found = false;
    enum nib_status status = NIB_OK;
    for (int i = 0; i < 2 && status == NIB_OK; i++)
        status = nib_input_quantizer(call->values[i], settings[i], &q[i], error);
    if (status == NIB_OK)
        status = nib_witness_find(q[0], q[1], (uint64_t)call->common.seed, (uint64_t)a->tries, &found, &witness, error);
    if (status == NIB_OK) {
        struct nib_quantizer_info info[2];
        for (int i = 0; i < 2; i++) nib_quantizer_describe(q[i], &info[i]);
        if (call->common.json)
            status = print_json(call, info, found, &witness, error);
        else if (found)
            print_text(info, &witness);
        else
            printf("%s and %s agree on %" PRId64 " inputs made to separate quantizers\n", info[0].name, info[1].name,
                   a->tries);
        call->check_failed = !found;
    }
    nib_witness_free(&witness);
    for (int i = 0; i < 2; i++) nib_quantizer_close(q[i]);
    return status;
}

static const struct nib_example examples[] = {
    {"nibble witness te-nvfp4 te-ref-nvfp4", "where a kernel and its reference part"},
    {"nibble witness ocp-mxfp4 ocp-mxfp4 --set-b rounding=rna", "what one axis changes"},
    {NULL, NULL},
};

NIB_COMMAND(witness) = {
    .values = "QUANTIZER QUANTIZER",
    .least = 2,
    .most = 2,
    .description =
        "Searches for a small input on which two quantizers give different bytes, and makes it plain: few nonzero elements with "
        "few bits. It tries amax near the borders of scale codes, elements near ties, tiny and huge tensors, zeros, NaN and "
        "infinity. Quantizers with unequal element formats, scale formats or blocks are held against each other by their dequantized values.\n"
        "The exit code is 1 where nothing was found: the two may then be the same, or differ only elsewhere.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct arguments),
    .takes = NIB_TAKES_JSON_ONLY | NIB_TAKES_SEED,
    .examples = examples,
    .run = run,
};
