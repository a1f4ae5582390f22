/* Every output of a real H200 is reproduced, bit for bit, by the definition and by every fast model. */
#include "nib_test.h"

#include <jansson.h>
#include <nibble/tensor.h>
#include <nibble/unit.h>

/* The instruction of each section of the file, by the start of its name and its formats. */
static const char *unit_of(const char *section, const char *a, const char *acc, char out[40]) {
    bool wgmma = strncmp(section, "wgmma", 5) == 0;
    const char *kind = strcmp(acc, "s32") == 0    ? "int8"
                       : strcmp(a, "tf32") == 0   ? "tf32"
                       : strncmp(a, "e", 1) == 0  ? "fp8"
                       : strcmp(acc, "fp16") == 0 ? "fp16"
                                                  : "16bit";
    const char *result = strcmp(acc, "fp16") == 0 ? "f16" : strcmp(acc, "s32") == 0 ? "s32" : "f32";
    snprintf(out, 40, "hopper-%s-%s-%s", wgmma ? "wgmma" : "mma", kind, result);
    return out;
}

static const void *bytes_of(struct nib_file *file, const char *section, const char *part,
                            struct nib_tensor_info *info) {
    char name[64];
    size_t index;
    struct nib_error error;
    const void *data = NULL;
    uint64_t bytes;
    snprintf(name, sizeof name, "%s.%s", section, part);
    if (nib_file_find(file, name, &index, &error) != NIB_OK) return NULL;
    nib_file_tensor(file, index, info);
    return nib_file_bytes(file, index, &data, &bytes, &error) == NIB_OK ? data : NULL;
}

/* Outputs that differ, over all tiles of a section. */
static size_t differences(struct nib_file *file, const char *section, json_t *about, const char *isa, size_t *outputs) {
    struct nib_error error = {.text = ""};
    struct nib_tensor_info ia, ib, ic, id;
    const char *a_name = json_string_value(json_object_get(about, "a"));
    const char *b_name = json_string_value(json_object_get(about, "b"));
    const struct nib_unit *unit;
    enum nib_operand operand_a, operand_b;
    char name[40];
    const char *a = bytes_of(file, section, "A", &ia), *b = bytes_of(file, section, "B", &ib);
    const char *c = bytes_of(file, section, "C", &ic), *d = bytes_of(file, section, "D", &id);
    if (a == NULL || b == NULL || c == NULL || d == NULL) return SIZE_MAX;
    unit_of(section, a_name, json_string_value(json_object_get(about, "acc")), name);
    if (nib_unit_open(name, &unit, &error) != NIB_OK || nib_operand_parse(a_name, &operand_a, &error) != NIB_OK ||
        nib_operand_parse(b_name, &operand_b, &error) != NIB_OK) {
        fprintf(stderr, "%s\n", error.text);
        return SIZE_MAX;
    }
    size_t tiles = ia.shape[0], m = ia.shape[1], n = ib.shape[1], k = ia.shape[2], bad = 0;
    size_t row_a = nib_operand_bytes(operand_a, k), row_b = nib_operand_bytes(operand_b, k);
    unsigned width = nib_accumulator_bytes(unit->accumulator);
    bool ignored = json_is_true(json_object_get(about, "c_ignored"));
    char *out = malloc(m * n * width);
    struct nib_unit_options options = {.threads = 1, .isa = isa};
    for (size_t t = 0; t < tiles; t++) {
        struct nib_unit_matrix x = {operand_a, a + t * m * row_a, row_a, NULL, 0};
        struct nib_unit_matrix y = {operand_b, b + t * n * row_b, row_b, NULL, 0};
        memset(out, 0xCA, m * n * width);
        if (nib_unit_multiply(unit, &x, &y, m, n, k, ignored ? NULL : c + t * m * n * width, n, &options, out, n,
                              &error) != NIB_OK) {
            fprintf(stderr, "%s\n", error.text);
            bad = SIZE_MAX;
            break;
        }
        for (size_t i = 0; i < m * n; i++)
            if (memcmp(out + i * width, d + (t * m * n + i) * width, width) != 0) bad++;
    }
    *outputs += tiles * m * n;
    free(out);
    nib_unit_close(unit);
    return bad;
}

/* The header's metadata; the public reader does not hand it out. */
static json_t *sections_of(const char *path) {
    FILE *stream = fopen(path, "rb");
    uint64_t length = 0;
    if (stream == NULL) return NULL;
    json_t *header = NULL, *sections = NULL;
    if (fread(&length, 8, 1, stream) == 1 && length < 1 << 20) {
        char *text = malloc(length);
        if (fread(text, 1, length, stream) == length) header = json_loadb(text, length, 0, NULL);
        free(text);
    }
    fclose(stream);
    const char *inner = json_string_value(json_object_get(json_object_get(header, "__metadata__"), "sections"));
    if (inner != NULL) sections = json_loads(inner, 0, NULL);
    json_decref(header);
    return sections;
}

static void check(const char *isa) {
    const char *path = NIB_DATA_DIR "/matrix-units/h200.safetensors";
    struct nib_error error;
    struct nib_file *file;
    NIB_OK_OR_FAIL(nib_file_open(path, &file, &error), error);
    json_t *sections = sections_of(path), *about;
    const char *section;
    size_t outputs = 0;
    CU_ASSERT_EQUAL(json_object_size(sections), 27);
    json_object_foreach(sections, section, about) {
        size_t bad = differences(file, section, about, isa, &outputs);
        NIB_CHECKF(bad == 0, "%s, %s: %zu outputs differ", section, isa, bad);
    }
    CU_ASSERT_EQUAL(outputs, 386176);
    json_decref(sections);
    nib_file_close(file);
}

static void the_definition_gives_the_bits_of_the_device(void) { check("ref"); }

static void the_plain_fast_model_gives_the_bits_of_the_device(void) { check("generic"); }

/* Where the machine lacks the instruction set there is nothing to check. */
static void vector_models_give_the_bits_of_the_device(void) {
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) check("avx2");
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw")) check("avx512");
}

NIB_TEST_MAIN("matrix units against hardware",
              {"the definition gives the bits of the device", the_definition_gives_the_bits_of_the_device},
              {"the plain fast model gives the bits of the device", the_plain_fast_model_gives_the_bits_of_the_device},
              {"vector models give the bits of the device", vector_models_give_the_bits_of_the_device})
