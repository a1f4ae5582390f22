#include "io/convention.h"

#include "base/error.h"
#include "base/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One line per way to store a weight. All put the even column in the low nibble (GGUF aside). Lines with a global
 * scale stand before those that do without one. */
static const struct convention {
    const char *name, *packed, *scale, *global; /* suffixes of the tensor names; global NULL: there is none */
    const char *packed_dtypes, *scale_dtypes;   /* between spaces */
    const char *scale_format, *decode;
    unsigned block;
    bool grouped;                /* packed [..., blocks, bytes], scale [..., blocks] */
    bool padded;                 /* scales are always padded to whole tiles */
} conventions[] = {
    {"compressed-tensors nvfp4-pack-quantized", ".weight_packed", ".weight_scale", ".weight_global_scale", " U8 ",
     " F8_E4M3 ", "e4m3", "e2m1 x weight_scale / weight_global_scale", 16, false, false},
    {"compressed-tensors mxfp4-pack-quantized", ".weight_packed", ".weight_scale", NULL, " U8 ", " U8 F8_E8M0 ", "e8m0",
     "e2m1 x 2^(weight_scale - 127)", 32, false, false},
    {"ModelOpt NVFP4", ".weight", ".weight_scale", ".weight_scale_2", " U8 ", " F8_E4M3 ", "e4m3",
     "e2m1 x weight_scale x weight_scale_2", 16, false, false},
    {"TransformerEngine NVFP4", "_rowwise_data", "_rowwise_scale_inv", "_amax_rowwise", " U8 ", " U8 F8_E4M3 ", "e4m3",
     "e2m1 x scale_inv x amax / (6 x 448, or 6 x 256 as the tensor's flag says)", 16, false, true},
    {"TransformerEngine NVFP4, transposed", "_columnwise_data", "_columnwise_scale_inv", "_amax_columnwise", " U8 ",
     " U8 F8_E4M3 ", "e4m3", "e2m1 x scale_inv x amax / (6 x 448, or 6 x 256 as the tensor's flag says)", 16, false, true},
    {"torchao NVFP4", "qdata", "scale", "per_tensor_scale", " U8 F4 ", " F8_E4M3 ", "e4m3",
     "e2m1 x scale x per_tensor_scale", 16, false, false},
    {"torchao NVFP4", "qdata", "scale", NULL, " U8 F4 ", " F8_E4M3 ", "e4m3", "e2m1 x scale", 16, false, false},
    {"torchao MXFP4", "qdata", "scale", NULL, " U8 F4 ", " U8 F8_E8M0 ", "e8m0", "e2m1 x 2^(scale - 127)", 32, false,
     false},
    {"gpt-oss MXFP4", "_blocks", "_scales", NULL, " U8 ", " U8 F8_E8M0 ", "e8m0", "e2m1 x 2^(scales - 127)", 32, true,
     false},
};

bool nib_unpacked_shape(const struct nib_entry *entry, uint64_t out[NIB_ENTRY_RANK]) {
    memcpy(out, entry->shape, sizeof entry->shape);
    return entry->rank > 0 && !__builtin_mul_overflow(out[entry->rank - 1], 2, &out[entry->rank - 1]);
}

/* Indices by name, for lookups. */
struct index {
    const struct nib_file *file;
    size_t *sorted;
};

static int by_name(const void *left, const void *right, void *entries) {
    const struct nib_entry *entry = entries;
    return strcmp(entry[*(const size_t *)left].name, entry[*(const size_t *)right].name);
}

static size_t find(const struct index *index, const char *base, size_t length, const char *suffix) {
    size_t low = 0, high = index->file->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2, at = index->sorted[middle];
        const char *name = index->file->entries[at].name;
        int order = strncmp(name, base, length);
        if (order == 0) order = strcmp(name + length, suffix);
        if (order == 0) return at;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return SIZE_MAX;
}

static bool is_one_of(const char *dtype, const char *list) {
    char word[32];
    snprintf(word, sizeof word, " %s ", dtype);
    return strstr(list, word) != NULL;
}

static const struct convention *recognise(const struct index *index, size_t at, struct nib_stored_weight *out,
                                          size_t *base_length) {
    const struct nib_entry *entry = &index->file->entries[at];
    size_t length = strlen(entry->name);
    for (size_t i = 0; i < sizeof conventions / sizeof *conventions; i++) {
        const struct convention *convention = &conventions[i];
        size_t suffix = strlen(convention->packed);
        if (length < suffix || strcmp(entry->name + length - suffix, convention->packed) != 0) continue;
        if (!is_one_of(entry->dtype, convention->packed_dtypes)) continue;
        size_t base = length - suffix;
        size_t scale = find(index, entry->name, base, convention->scale);
        if (scale == SIZE_MAX || !is_one_of(index->file->entries[scale].dtype, convention->scale_dtypes)) continue;
        size_t global = convention->global == NULL ? SIZE_MAX : find(index, entry->name, base, convention->global);
        if (convention->global != NULL && global == SIZE_MAX) continue;
        *out = (struct nib_stored_weight){.convention = convention->name, .decode = convention->decode,
                                          .scale_format = convention->scale_format, .block = convention->block,
                                          .packed = at, .scale = scale, .global = global};
        *base_length = base;
        return convention;
    }
    return NULL;
}

static uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

/* Compares the shapes of the parts; fills in shape, problem and note. */
static void check_shapes(const struct nib_file *file, const struct convention *convention, struct nib_stored_weight *out) {
    const struct nib_entry *packed = &file->entries[out->packed], *scale = &file->entries[out->scale];
    char shown[80];
    unsigned last = packed->rank == 0 ? 0 : packed->rank - 1;
    if (packed->rank < (convention->grouped ? 3u : 2u)) {
        snprintf(out->problem, sizeof out->problem, "packed values have %u dimensions; expected a matrix", packed->rank);
        return;
    }
    if (strcmp(packed->dtype, "F4") == 0)
        memcpy(out->shape, packed->shape, sizeof out->shape);
    else if (!nib_unpacked_shape(packed, out->shape)) {
        snprintf(out->problem, sizeof out->problem, "the shape overflows");
        return;
    }
    out->rank = packed->rank;
    if (convention->grouped) {
        if (out->shape[last] != out->block)
            snprintf(out->problem, sizeof out->problem, "blocks of %llu values; expected %u",
                     (unsigned long long)out->shape[last], out->block);
        out->rank = last--;
        if (__builtin_mul_overflow(out->shape[last], out->block, &out->shape[last]))
            snprintf(out->problem, sizeof out->problem, "the shape overflows");
        out->shape[last + 1] = 0;
        if (out->problem[0] != '\0') return;
    }
    uint64_t cols = out->shape[last], blocks = cols / out->block + (cols % out->block != 0), rows = 1, scale_rows = 1;
    for (unsigned i = 0; i < last; i++) rows *= out->shape[i]; /* the product exists: it divides the element count */
    for (unsigned i = 0; i + 1 < scale->rank; i++) scale_rows *= scale->shape[i];
    uint64_t scale_cols = scale->rank == 0 ? 1 : scale->shape[scale->rank - 1];
    bool exact = scale_rows == rows && scale_cols == blocks;
    bool tiled = scale->elements == round_up(rows, 128) * round_up(blocks, 4);
    nib_printable(scale->name, shown);
    if (!exact && !tiled)
        snprintf(out->problem, sizeof out->problem, "scale is %llu x %llu; expected %llu x %llu for blocks of %u",
                 (unsigned long long)scale_rows, (unsigned long long)scale_cols, (unsigned long long)rows,
                 (unsigned long long)blocks, out->block);
    else if (!exact)
        snprintf(out->note, sizeof out->note, "scales are padded to tiles of 128x4, perhaps swizzled; the file does not say");
    else if (convention->padded && tiled)
        snprintf(out->note, sizeof out->note, "scales may be swizzled in tiles of 128x4; the file does not say");
    if (out->problem[0] == '\0' && out->global != SIZE_MAX && file->entries[out->global].storage != NIB_STORED_F32)
        snprintf(out->problem, sizeof out->problem, "the global scale is %s; expected F32", file->entries[out->global].dtype);
}

/* GGUF says it in the dtype. */
static bool recognise_gguf(const struct nib_file *file, size_t at, struct nib_stored_weight *out) {
    const struct nib_entry *entry = &file->entries[at];
    bool mx = strcmp(entry->dtype, "MXFP4") == 0;
    if (strcmp(file->kind, "gguf") != 0 || (!mx && strcmp(entry->dtype, "NVFP4") != 0)) return false;
    *out = (struct nib_stored_weight){
        .convention = mx ? "GGUF MXFP4" : "GGUF NVFP4", .scale_format = mx ? "e8m0" : "e4m3", .block = mx ? 32 : 16,
        .decode = mx ? "e2m1 x 2^(scale - 127); 17 bytes per 32 values, low nibbles 0-15, high nibbles 16-31"
                     : "e2m1 x scale; 36 bytes per 64 values, low nibble j and high nibble j + 8 of each 16",
        .packed = at, .scale = SIZE_MAX, .global = SIZE_MAX, .rank = entry->rank};
    memcpy(out->shape, entry->shape, sizeof out->shape);
    return true;
}

enum nib_status nib_stored_weights_find(const struct nib_file *file, struct nib_stored_weight **out, size_t *count,
                                        struct nib_error *error) {
    struct index index = {file, nib_alloc_raw(file->count, sizeof(size_t), file->path, error)};
    struct nib_stored_weight *weights = nib_alloc(file->count, sizeof *weights, file->path, error);
    enum nib_status status = index.sorted == NULL || weights == NULL ? NIB_ENOMEM : NIB_OK;
    size_t found = 0;
    if (status == NIB_OK) {
        for (size_t i = 0; i < file->count; i++) index.sorted[i] = i;
        qsort_r(index.sorted, file->count, sizeof(size_t), by_name, file->entries);
    }
    for (size_t i = 0; i < file->count && status == NIB_OK; i++) {
        struct nib_stored_weight *weight = &weights[found];
        size_t length = strlen(file->entries[i].name);
        const struct convention *convention = recognise(&index, i, weight, &length);
        if (convention != NULL)
            check_shapes(file, convention, weight);
        else if (!recognise_gguf(file, i, weight))
            continue;
        while (length > 0 && strchr(".:_", file->entries[i].name[length - 1]) != NULL) length--;
        weight->name = strndup(file->entries[i].name, length);
        if (weight->name == NULL) status = nib_fail(error, NIB_ENOMEM, "out of memory");
        found++;
    }
    free(index.sorted);
    if (status != NIB_OK) {
        nib_stored_weights_free(weights, found);
        return status;
    }
    *out = weights;
    *count = found;
    return NIB_OK;
}

void nib_stored_weights_free(struct nib_stored_weight *weights, size_t count) {
    for (size_t i = 0; i < count; i++) free(weights[i].name);
    free(weights);
}
