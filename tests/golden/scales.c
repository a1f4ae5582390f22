/* TransformerEngine's device functions that compute scales, called one by one with a block amax and a tensor amax.
 * usage: golden-scales [...] TREE */
#include <nibble/compare.h>
#include <nibble/tensor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/entry.h"
#include "quantize/quantize_ref.h"

/* ENCODE: the tensor encode scale S. SCALE: the byte of the block scale. FACTOR: what an element is multiplied with. */
enum what { ENCODE, SCALE, FACTOR };

static const struct {
    const char *tensor;
    enum what what;
    float expand;                /* 1.5 for the candidate that maps the block amax to 4 */
    const char *settings[6];     /* of te-nvfp4 */
} rows[] = {
    {"S_448", ENCODE, 1, {NULL}},
    {"S_256", ENCODE, 1, {"tensor_target=1536"}},
    {"S_vector_blockwise", ENCODE, 1, {NULL}},
    {"scale_transpose", SCALE, 1, {NULL}},
    {"scale_vector_blockwise", SCALE, 1, {NULL}},
    {"scale_nontranspose", SCALE, 1, {"scale_max=inf"}},
    {"encode_vector_blockwise", FACTOR, 1, {NULL}},
    {"scale_map6_448", SCALE, 1, {"block_scale=(b/Q)*S", "scale_max=448"}},
    {"scale_map4_448", SCALE, 1.5f, {"block_scale=(b/Q)*S", "scale_max=448"}},
    {"scale_map6_256", SCALE, 1, {"block_scale=(b/Q)*S", "scale_max=448", "tensor_target=1536"}},
    {"scale_map4_256", SCALE, 1.5f, {"block_scale=(b/Q)*S", "scale_max=448", "tensor_target=1536"}},
    {"inv_map6_448", FACTOR, 1, {"block_scale=(b/Q)*S", "scale_max=448"}},
    {"inv_map4_448", FACTOR, 1.5f, {"block_scale=(b/Q)*S", "scale_max=448"}},
    {"inv_map6_256", FACTOR, 1, {"block_scale=(b/Q)*S", "scale_max=448", "tensor_target=1536"}},
    {"inv_map4_256", FACTOR, 1.5f, {"block_scale=(b/Q)*S", "scale_max=448", "tensor_target=1536"}},
};

static struct nib_part part(struct nib_file *file, const char *name) {
    struct nib_part part = {.stage = NIB_STAGE_OTHER, .rank = 1};
    struct nib_error error;
    size_t at;
    uint64_t bytes;
    if (nib_file_find(file, name, &at, &error) != NIB_OK || nib_file_bytes(file, at, &part.data, &bytes, &error) != NIB_OK) {
        fprintf(stderr, "%s: %s\n", name, error.text);
        return part;
    }
    const struct nib_entry *entry = &file->entries[at];
    part.type = entry->storage == NIB_STORED_F32 ? NIB_PART_F32 : NIB_PART_INTEGER;
    part.bytes = entry->item_bytes;
    part.shape[0] = entry->elements;
    return part;
}

static bool run(struct nib_file *file, size_t row) {
    const struct nib_quantizer *base, *q;
    struct nib_error error;
    size_t count = 0;
    while (count < 6 && rows[row].settings[count] != NULL) count++;
    if (nib_quantizer_open("te-nvfp4", &base, &error) != NIB_OK ||
        nib_quantizer_with(base, rows[row].settings, count, &q, &error) != NIB_OK) {
        fprintf(stderr, "%s: %s\n", rows[row].tensor, error.text);
        return false;
    }
    struct nib_part golden = part(file, rows[row].tensor), block = part(file, "block_amax"), tensor = part(file, "tensor_amax");
    struct nib_part made = golden;
    const float *b = block.data, *g = tensor.data;
    float *numbers = calloc(golden.shape[0] + 1, sizeof *numbers);
    uint8_t *bytes = calloc(golden.shape[0] + 1, 1);
    bool good = numbers != NULL && bytes != NULL && b != NULL && g != NULL && golden.data != NULL;
    for (size_t i = 0; i < golden.shape[0] && good; i++) {
        struct nib_tensor_scale t = nib_tensor_scale_of_amax(q, NIB_F32, g[i]);
        struct nib_ref_scale s = nib_ref_scale_of(q, &t, &b[i], 1, b[i], rows[row].expand);
        bytes[i] = (uint8_t)s.code;
        numbers[i] = rows[row].what == ENCODE ? t.encode : nib_ref_element_of(q, &t, &s, 1, 0).scaled;
    }
    struct nib_difference d = {.items = 1};
    made.data = golden.type == NIB_PART_F32 ? (const void *)numbers : bytes;
    if (good) nib_part_compare(&golden, &made, &d);
    if (d.items > 0 && good)
        fprintf(stderr, "%s: b %a, g %a: %llx, got %llx\n", rows[row].tensor, (double)b[d.first], (double)g[d.first],
                (unsigned long long)d.a, (unsigned long long)d.b);
    printf("%-44s %-36s %5d %9llu %9llu\n", rows[row].tensor, "te-nvfp4", 1, (unsigned long long)d.compared, (unsigned long long)d.items);
    free(numbers);
    free(bytes);
    nib_quantizer_close(q);
    nib_quantizer_close(base);
    return d.items == 0;
}

int main(int argc, char **argv) {
    char path[1024];
    struct nib_error error;
    struct nib_file *file;
    size_t passed = 0, count = sizeof rows / sizeof *rows;
    snprintf(path, sizeof path, "%s/te_scale_functions/pairs.safetensors", argv[argc - 1]);
    if (nib_file_open(path, &file, &error) != NIB_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 2;
    }
    for (size_t i = 0; i < count; i++) passed += run(file, i);
    nib_file_close(file);
    printf("%zu passed, %zu failed\n", passed, count - passed);
    return passed == count ? 0 : 1;
}
