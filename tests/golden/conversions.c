/* Golden tables of single numbers against the conversions that should reproduce them.
 * usage: golden-conversions CONVERSIONS TREE
 * Prints one line per tensor; the exit code is 1 where anything differs or is missing. */
#include <nibble/compare.h>
#include <nibble/element.h>
#include <nibble/tensor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/convert.h"
#include "core/widen.h"
#include "format/conversion.h"
#include "io/entry.h"

struct line {
    char directory[64], tensor[64], function[64], index[64];
};

/* One file: what was converted, which of it, and the codes that came out. */
struct table {
    struct nib_file *golden, *inputs;
    struct nib_part codes;
    size_t count, step;          /* items kept, and every how many rows */
    size_t row;                  /* items in a row */
    const int32_t *index;
    struct nib_view x;
    uint32_t *bits;              /* of all inputs, flattened; NULL where codes are the input */
    size_t inputs_count;
};

static bool fail(const struct line *l, const char *what, const char *why) {
    fprintf(stderr, "%s %s: %s: %s\n", l->directory, l->tensor, what, why);
    return false;
}

static const struct nib_entry *entry_of(struct nib_file *file, const char *name, const void **data) {
    struct nib_error error;
    size_t at;
    uint64_t bytes;
    if (nib_file_find(file, name, &at, &error) != NIB_OK || nib_file_bytes(file, at, data, &bytes, &error) != NIB_OK) return NULL;
    return &file->entries[at];
}

static bool open_codes(const struct line *l, const char *path, struct table *t) {
    struct nib_error error;
    if (nib_file_open(path, &t->golden, &error) != NIB_OK) return fail(l, path, error.text);
    const char *step = nib_file_metadata(t->golden, "row_step");
    t->step = step != NULL ? strtoul(step, NULL, 10) : 1;
    const struct nib_entry *entry = entry_of(t->golden, l->tensor, &t->codes.data);
    if (entry == NULL) return fail(l, path, "no such tensor");
    t->codes = (struct nib_part){.stage = NIB_STAGE_CODES, .type = NIB_PART_INTEGER, .bytes = entry->item_bytes, .rank = 1,
        .shape = {entry->elements}, .data = t->codes.data};
    t->count = entry->elements;
    t->row = entry->rank == 2 ? entry->shape[1] : 1;
    if (strcmp(l->index, "-") != 0) {
        const void *data;
        const struct nib_entry *index = entry_of(t->golden, l->index, &data);
        if (index == NULL || index->elements != t->count) return fail(l, l->index, "expected one index per code");
        t->index = data;
    }
    return true;
}

/* The flattened input as binary32 bits: tensor x of the same file, every bfloat16 pattern, or the input file of the case. */
static bool open_inputs(const struct line *l, const char *tree, const char *name, struct table *t) {
    char path[1024];
    struct nib_error error;
    size_t at;
    bool inside = nib_file_find(t->golden, "x", &at, &error) == NIB_OK;
    bool patterns = strstr(name, "bf16") != NULL;
    if (patterns) {
        t->inputs_count = 1u << 16;
    } else {
        snprintf(path, sizeof path, "%s/inputs/%s", tree, name);
        struct nib_file *file = t->golden;
        if (!inside && nib_file_open(path, &t->inputs, &error) != NIB_OK) return fail(l, path, error.text);
        if (!inside) file = t->inputs;
        if (nib_file_find(file, "x", &at, &error) != NIB_OK || nib_file_view(file, at, false, &t->x, &error) != NIB_OK)
            return fail(l, path, error.text);
        t->inputs_count = t->x.rows * t->x.cols;
        if (inside) t->step = 1; /* thinned together with the codes */
    }
    t->bits = malloc(t->inputs_count * sizeof *t->bits);
    if (t->bits == NULL) return fail(l, path, "out of memory");
    for (size_t i = 0; i < t->inputs_count; i++) {
        if (patterns)
            t->bits[i] = nib_bits_of_bf16((uint16_t)i);
        else
            memcpy(&t->bits[i], (const uint8_t *)t->x.data + 4 * i, 4);
    }
    return true;
}

/* Where the i-th kept code comes from. */
static size_t origin(const struct table *t, size_t i) {
    if (t->index != NULL) return (size_t)t->index[i];
    return i / t->row * t->row * t->step + i % t->row;
}

/* ---- functions other than conversions */

static const char *after(const char *text, const char *prefix) {
    size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

static float decode(const char *format, uint32_t code) {
    const struct nib_element *element;
    const struct nib_scale *scale;
    float value;
    if (nib_element_open(format, &element, NULL) == NIB_OK) {
        value = element->level[code];
        nib_element_close(element);
    } else if (nib_scale_open(format, &scale, NULL) == NIB_OK) {
        value = nib_scale_decode(scale, code & (scale->has_sign ? 0x7F : 0xFF));
        if (scale->has_sign && code > 0x7F) value = -value;
        nib_scale_close(scale);
    } else {
        abort();
    }
    return value;
}

/* Inputs of the packing functions, as the golden manifest describes them: .x = v[i%8], .y = -v[i/8], .z = v[(i+1)%8],
 * .w = v[(i+3)%8], v being the magnitudes of E2M1. */
static uint32_t pack(size_t i, int count, size_t byte) {
    static const float v[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const float inputs[4] = {v[i % 8], -v[i / 8 % 8], v[(i + 1) % 8], v[(i + 3) % 8]};
    const struct nib_conversion *conversion = nib_conversion_find("cuda-e2m1");
    uint32_t low = nib_convert(conversion, nib_bits_of_float(inputs[2 * byte % (size_t)count]));
    return low | nib_convert(conversion, nib_bits_of_float(inputs[2 * byte + 1])) << 4;
}

static bool apply(const struct line *l, const struct table *t, size_t i, uint32_t *out) {
    const char *format = after(l->function, "decode:"), *packing = after(l->function, "pack:");
    size_t at = origin(t, i);
    if (format != NULL) {
        char name[16];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(format, ":"), format);
        uint32_t bits = nib_bits_of_float(decode(name, (uint32_t)at));
        *out = t->codes.type == NIB_PART_BF16 ? nib_bf16_of_bits(bits) : nib_f16_of_bits(bits);
        return true;
    }
    if (packing != NULL) {
        *out = pack(at / t->row, packing[0] - '0', at % t->row);
        return true;
    }
    const struct nib_conversion *conversion = nib_conversion_find(l->function);
    if (conversion == NULL) return fail(l, l->function, "no such conversion");
    if (at >= t->inputs_count) return fail(l, l->tensor, "more codes than inputs");
    *out = nib_convert(conversion, t->bits[at]);
    return true;
}

static bool check(const struct line *l, const char *tree, const char *path, const char *name, uint64_t *compared, uint64_t *differing) {
    struct table t = {0};
    bool good = open_codes(l, path, &t);
    bool needs_input = after(l->function, "decode:") == NULL && after(l->function, "pack:") == NULL;
    if (good && needs_input) good = open_inputs(l, tree, name, &t);
    if (good && after(l->function, "decode:") != NULL) t.codes.type = strstr(l->function, ":bf16") ? NIB_PART_BF16 : NIB_PART_F16;
    uint8_t *made = calloc(t.count + 1, t.codes.bytes + 1);
    for (size_t i = 0; i < t.count && good; i++) {
        uint32_t code = 0;
        good = made != NULL && apply(l, &t, i, &code);
        memcpy(made + i * t.codes.bytes, &code, t.codes.bytes);
    }
    if (good) {
        struct nib_part got = t.codes;
        struct nib_difference d;
        got.data = made;
        nib_part_compare(&t.codes, &got, &d);
        *compared += d.compared;
        *differing += d.items;
        if (d.items > 0) {
            size_t at = origin(&t, d.first);
            fprintf(stderr, "%s %s %s: item %zu (input %08X): %llx, got %llx\n", l->directory, name, l->tensor, at,
                    t.bits != NULL ? t.bits[at] : 0, (unsigned long long)d.a, (unsigned long long)d.b);
        }
    }
    free(made);
    free(t.bits);
    nib_file_close(t.inputs);
    nib_file_close(t.golden);
    return good;
}

static bool exists(const char *path) {
    FILE *there = fopen(path, "rb");
    if (there != NULL) fclose(there);
    return there != NULL;
}

/* The file of a case: from a GPU, or what a CPU gave, which is the same file where both gave the same. */
static bool find_file(const struct line *l, const char *tree, const char *stem, char *path, size_t size) {
    const char *files = strchr(l->directory, ':');
    int length = (int)strcspn(l->directory, ":");
    snprintf(path, size, "%s/%.*s/%s.cpu.safetensors", tree, length, l->directory, stem);
    if (files != NULL && strcmp(files, ":cpu+") == 0 && exists(path)) return true;
    snprintf(path, size, "%s/%.*s/%s.safetensors", tree, length, l->directory, stem);
    return exists(path);
}

static bool run(const struct line *l, const char *tree) {
    static const char *const cases[] = {"elem_f32", "allbf16"};
    char path[1024], name[320];
    uint64_t compared = 0, differing = 0, files = 0;
    bool good = true, single = after(l->directory, "tables/") != NULL;
    for (size_t i = 0; i < (single ? 1 : 2); i++) {
        snprintf(name, sizeof name, "%s.safetensors", single ? after(l->directory, "tables/") : cases[i]);
        snprintf(path, sizeof path, "%s/%s.safetensors", tree, l->directory);
        if (single ? !exists(path) : !find_file(l, tree, cases[i], path, sizeof path)) continue;
        files++;
        good = check(l, tree, path, name, &compared, &differing) && good;
    }
    printf("%-44s %-36s %5llu %9llu %9llu %s\n", l->directory, l->function, (unsigned long long)files,
           (unsigned long long)compared, (unsigned long long)differing, compared == 0 ? "nothing was compared" : "");
    return good && differing == 0 && compared > 0;
}

int main(int argc, char **argv) {
    FILE *list = argc == 3 ? fopen(argv[1], "r") : NULL;
    char text[512];
    struct line l;
    size_t passed = 0, failed = 0;
    if (list == NULL) {
        fprintf(stderr, "usage: golden-conversions CONVERSIONS TREE\n");
        return 2;
    }
    printf("%-44s %-36s %5s %9s %9s\n", "table", "conversion", "files", "compared", "differing");
    while (fgets(text, sizeof text, list) != NULL) {
        if (text[0] == '#' || text[0] == '\n') continue;
        if (sscanf(text, "%63[^\t]\t%63[^\t]\t%63[^\t]\t%63[^\t\n]", l.directory, l.tensor, l.function, l.index) != 4) {
            fprintf(stderr, "%s: expected four fields: %s", argv[1], text);
            return 2;
        }
        if (run(&l, argv[2]))
            passed++;
        else
            failed++;
    }
    fclose(list);
    printf("%zu passed, %zu failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
}
