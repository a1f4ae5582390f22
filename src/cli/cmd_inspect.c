/* nibble inspect: what a file holds, and which checkpoint convention it follows. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/table.h"
#include "cli/inspect.h"
#include "cli/output.h"
#include "io/locator.h"

struct arguments {
    const char *dtype;
    bool packed, unpacked;
    int64_t values;
};

static const struct arguments defaults = {.values = 0};

static const struct nib_option options[] = {
    NIB_OPT_INTEGER(struct arguments, values, "values", 'n', "N", 0, 1 << 20, "also the first N values of each tensor"),
    NIB_OPT_TEXT(struct arguments, dtype, "dtype", 0, "FORMAT",
                 "what bytes stand for where the file does not say: e2m1, e4m3, e8m0, ..."),
    NIB_OPT_FLAG(struct arguments, packed, "packed", 0, "two 4-bit codes a byte, the even element in the low bits"),
    NIB_OPT_FLAG(struct arguments, unpacked, "unpacked", 0, "one 4-bit code a byte, in the low bits"),
    NIB_OPT_END,
};

static const struct nib_example examples[] = {
    {"nibble inspect data/bytelm-8m.safetensors", "names, types and shapes of all tensors"},
    {"nibble inspect 'data/bytelm-8m.safetensors:*.q_proj.weight' --values 4", "and how some of them begin"},
    {"nibble inspect codes.npy --dtype e2m1 --unpacked --values 8", "an array of 4-bit codes, as ml_dtypes saves it"},
    {NULL, NULL},
};

static void print_metadata(const struct nib_call *call, const struct nib_file *file) {
    enum { LONGEST = 400 };
    struct nib_style style = nib_output_style(call, stdout);
    if (file->metadata_count == 0) return;
    printf("\n%sMetadata%s\n\n", style.bold, style.plain);
    for (size_t i = 0; i + 1 < file->metadata_count; i += 2) {
        char key[80], *value = nib_text_clean(file->metadata[i + 1]);
        const char *shown = value == NULL ? "?" : value;
        size_t length = strlen(shown);
        bool cut = length > LONGEST;
        if (cut) length = LONGEST;
        while (cut && length > 0 && ((unsigned char)shown[length] & 0xc0) == 0x80) length--;
        printf("  %s: %.*s%s\n", nib_printable(file->metadata[i], key), (int)length, shown, cut ? "..." : "");
        free(value);
    }
}

static enum nib_status print_text(struct nib_call *call, const struct nib_inspection *inspection, int64_t limit,
                                  struct nib_error *error) {
    const struct nib_file *file = inspection->file;
    struct nib_table *tensors = NULL, *weights = NULL, *values = NULL;
    uint64_t bytes = 0;
    char headline[1200];
    for (size_t i = 0; i < file->mapping_count; i++) bytes += file->mappings[i]->size;
    enum nib_status status =
        nib_inspection_tensors(inspection, call->common.tsv || inspection->count < file->count, &tensors, error);
    if (status == NIB_OK) status = nib_inspection_weights(inspection, &weights, error);
    if (status == NIB_OK && limit > 0) status = nib_inspection_values(inspection, (uint64_t)limit, &values, error);
    if (status == NIB_OK && call->common.tsv) {
        status = nib_output_table(call, values != NULL ? values : tensors, NULL, error);
    } else if (status == NIB_OK) {
        bool hidden[7] = {[3] = true, [6] = file->mapping_count < 2};
        for (size_t i = 0; i < nib_table_rows(tensors); i++)
            if (!nib_table_is(tensors, i, 2, nib_table_text(tensors, i, 3))) hidden[3] = false;
        snprintf(headline, sizeof headline, "%s: %s, %zu %s, %llu bytes", file->path, file->kind, file->count,
                 file->count == 1 ? "tensor" : "tensors", (unsigned long long)bytes);
        struct nib_layout layout = {.headline = headline, .hidden = hidden};
        nib_output_aligned(call, tensors, &layout, stdout);
        if (inspection->weight_count > 0) {
            const bool none[7] = {false};
            fputc('\n', stdout);
            nib_output_aligned(call, weights, &(struct nib_layout){.headline = "FP4 weights", .hidden = none}, stdout);
        }
        if (values != NULL) {
            const bool columns[4] = {[0] = inspection->count == 1, [2] = !inspection->decodes};
            fputc('\n', stdout);
            nib_output_aligned(call, values, &(struct nib_layout){.headline = "First values", .hidden = columns},
                               stdout);
        }
        print_metadata(call, file);
    }
    nib_table_free(tensors);
    nib_table_free(weights);
    nib_table_free(values);
    return status;
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    const struct arguments *arguments = call->options;
    struct nib_inspection inspection = {0};
    enum nib_packing packing = arguments->packed     ? NIB_PACKED
                               : arguments->unpacked ? NIB_UNPACKED
                                                     : NIB_PACKING_UNSAID;
    if (arguments->packed && arguments->unpacked)
        return nib_fail(error, NIB_EINVAL, "--packed and --unpacked exclude each other");
    if (packing != NIB_PACKING_UNSAID && arguments->dtype == NULL)
        return nib_fail(error, NIB_EINVAL, "--packed and --unpacked need --dtype");
    enum nib_status status = NIB_OK;
    if (arguments->dtype != NULL) {
        status = nib_decoder_open(arguments->dtype, packing, &inspection.decoder, error);
        if (status != NIB_OK) return status;
        inspection.decodes = true;
    }
    status = nib_locator_open(call->values[0], false, &inspection.file, &inspection.indices, &inspection.count, error);
    if (status == NIB_OK)
        status = nib_stored_weights_find(inspection.file, &inspection.weights, &inspection.weight_count, error);
    if (status == NIB_OK)
        status = call->common.json ? nib_inspection_json(call, &inspection, arguments->values, error)
                                   : print_text(call, &inspection, arguments->values, error);
    for (size_t i = 0; i < inspection.weight_count; i++)
        if (inspection.weights[i].problem[0] != '\0') call->check_failed = true;
    nib_stored_weights_free(inspection.weights, inspection.weight_count);
    free(inspection.indices);
    nib_file_close(inspection.file);
    nib_decoder_close(&inspection.decoder);
    return status;
}

NIB_COMMAND(inspect) = {
    .values = "FILE[:tensor]",
    .least = 1,
    .most = 1,
    .description =
        "Lists the tensors of a file (.safetensors, a shard index or a folder with one, .npy, .npz, .gguf, .h5; told apart "
        "by content) with types, shapes and sizes. Where tensors belong together as an FP4 weight, in the manner of "
        "compressed-tensors, ModelOpt, TransformerEngine, torchao, gpt-oss or GGUF, it says which convention that is and how "
        "a value is decoded; parts whose shapes do not fit make the exit code 1. Of a result file of nibble it shows where "
        "the result comes from.\n\n"
        "Shapes are shown as the file says them. Where storage counts bytes and a byte holds two values, the shape of the "
        "values stands beside it.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct arguments),
    .takes = NIB_TAKES_JSON,
    .examples = examples,
    .run = run,
};
