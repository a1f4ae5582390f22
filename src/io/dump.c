/* A quantized tensor from a file, as the parts that are compared. */
#include <nibble/compare.h>
#include <nibble/tensor.h>

#include <fnmatch.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "io/entry.h"
#include "io/locator.h"

enum { DUMP_NAMES = 16, DUMP_NUMBERS = 3 };
static const char *const numbers[DUMP_NUMBERS] = {"tensor_amax", "tensor_scale_encode", "tensor_scale_decode"};

struct nib_dump {
    struct nib_file *file;       /* of tensors; NULL for JSON */
    bool *left_out;              /* tensors that FILE:WEIGHT does not mean */
    struct nib_part *parts;
    size_t count;
    void *owned[DUMP_NAMES];     /* what was parsed from JSON or attributes */
    size_t owned_count;
};

void nib_dump_close(struct nib_dump *dump) {
    if (dump == NULL) return;
    for (size_t i = 0; i < dump->owned_count; i++) free(dump->owned[i]);
    nib_file_close(dump->file);
    free(dump->left_out);
    free(dump->parts);
    free(dump);
}

const struct nib_part *nib_dump_parts(const struct nib_dump *dump, size_t *count) {
    *count = dump->count;
    return dump->parts;
}

/* ---- tensor files */

/* How nibble's own files index their arrays, and where they came from: nothing of the tensor. */
static bool is_index(const struct nib_file *file, const char *name) {
    static const char *const scales[] = {"elements/row", "elements/col", "scales/line", "scales/block",
        "scales/tensor_line", "scales/segment", "packed/line", "packed/byte"};
    if (strcmp(file->kind, "hdf5") != 0) return false;
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        if (strcmp(name, scales[i]) == 0) return true;
    return strncmp(name, "provenance/", 11) == 0;
}

/* ModelOpt calls the packed bytes what others call the weight itself. */
static enum nib_stage stage_of(const struct nib_entry *entry, char *usual, enum nib_name_fit *fit) {
    size_t length = strlen(entry->name);
    bool weight = strcmp(entry->name, "weight") == 0 || (length > 7 && strcmp(entry->name + length - 7, ".weight") == 0);
    bool bytes = strcmp(entry->dtype, "U8") == 0 || strcmp(entry->dtype, "|u1") == 0;
    if (!weight || !bytes) return nib_stage_of_tensor(entry->name, usual, fit);
    *fit = NIB_NAME_ENDING;
    snprintf(usual, NIB_PART_NAME, "packed");
    return NIB_STAGE_PACKED;
}

/* Whether the i-th tensor is the one that `usual` stands for: where several fit, the first whose whole name is known;
 * among weights that share a file none is meant more than another. */
static bool is_meant(const struct nib_dump *dump, size_t i, const char *usual, enum nib_name_fit fit) {
    const struct nib_file *file = dump->file;
    for (size_t k = 0; k < file->count; k++) {
        char other[NIB_PART_NAME];
        enum nib_name_fit other_fit;
        if (k == i || dump->left_out[k] || is_index(file, file->entries[k].name)) continue;
        (void)stage_of(&file->entries[k], other, &other_fit);
        if (strcmp(other, usual) != 0) continue;
        if (other_fit < fit || (other_fit == fit && (fit != NIB_NAME_WHOLE || k < i))) return false;
    }
    return true;
}

/* The shape in bytes: pairs of 4-bit elements share one, and blocks [..., G, 16] are lines of bytes. */
static void set_shape(struct nib_part *part, const struct nib_entry *entry) {
    memcpy(part->shape, entry->shape, sizeof part->shape);
    unsigned last = part->rank - 1;
    if (part->rank > 0 && entry->item_bytes == 0) part->shape[last] /= 2;
    if (part->stage == NIB_STAGE_PACKED && part->rank > 2 && part->shape[last] == 16) {
        part->shape[last - 1] *= 16;
        part->rank--;
    }
}

static enum nib_status part_of_entry(struct nib_dump *dump, size_t i, struct nib_error *error) {
    static const enum nib_part_type types[] = {[NIB_STORED_BYTES] = NIB_PART_INTEGER, [NIB_STORED_F32] = NIB_PART_F32,
        [NIB_STORED_BF16] = NIB_PART_BF16, [NIB_STORED_F16] = NIB_PART_F16, [NIB_STORED_F64] = NIB_PART_F64};
    const struct nib_entry *entry = &dump->file->entries[i];
    struct nib_part *part = &dump->parts[dump->count];
    unsigned size = entry->item_bytes;
    bool pairs = strcmp(entry->dtype, "F4") == 0 && entry->rank > 0 && entry->shape[entry->rank - 1] % 2 == 0;
    if (pairs) size = 1;
    if (size != 1 && size != 2 && size != 4 && size != 8) return NIB_OK; /* sub-byte and wide types have no place here */
    if (dump->left_out[i] || is_index(dump->file, entry->name)) return NIB_OK;
    char usual[NIB_PART_NAME];
    enum nib_name_fit fit;
    *part = (struct nib_part){.stage = stage_of(entry, usual, &fit), .type = types[entry->storage], .bytes = size,
        .rank = entry->rank};
    if (fit != NIB_NAME_UNKNOWN && !is_meant(dump, i, usual, fit)) snprintf(usual, sizeof usual, "%s", entry->name);
    memcpy(part->name, usual, sizeof part->name);
    set_shape(part, entry);
    uint64_t bytes;
    enum nib_status status = nib_file_bytes(dump->file, i, &part->data, &bytes, error);
    if (status == NIB_OK) dump->count++;
    return status;
}

/* nibble's HDF5 has the numbers of the whole tensor as attributes of the scales. */
static enum nib_status read_numbers(struct nib_dump *dump, struct nib_error *error) {
    for (size_t i = 0; i < DUMP_NUMBERS && strcmp(dump->file->kind, "hdf5") == 0; i++) {
        char key[64], *end;
        snprintf(key, sizeof key, "scales/%s", numbers[i]);
        const char *text = nib_file_metadata(dump->file, key);
        if (text == NULL) continue;
        float *value = nib_alloc(1, sizeof *value, "a number of the tensor", error);
        if (value == NULL) return NIB_ENOMEM;
        *value = (float)strtod(text, &end);
        dump->owned[dump->owned_count++] = value;
        if (end == text || *end != '\0')
            return nib_fail_at(error, NIB_ESYNTAX, dump->file->path, 0, "attribute %s of /scales: expected a number", numbers[i]);
        struct nib_part *part = &dump->parts[dump->count++];
        *part = (struct nib_part){.stage = NIB_STAGE_TENSOR_SCALE, .type = NIB_PART_F32, .bytes = 4, .rank = 0, .data = value};
        snprintf(part->name, sizeof part->name, "%s", numbers[i]);
    }
    return NIB_OK;
}

/* "layer.0" means layer.0.weight_packed, layer.0_blocks, ...; a glob, and a name, what they match. */
static bool is_of(const char *name, const char *weight) {
    size_t length = strlen(weight);
    if (strncmp(name, weight, length) == 0 && name[length] != '\0' && strchr("._:/", name[length]) != NULL) return true;
    return strcmp(name, weight) == 0 || fnmatch(weight, name, FNM_NOESCAPE) == 0;
}

/* The one array of an .npy has no name: what stands behind the colon says what it is. */
static enum nib_status choose(struct nib_dump *dump, const char *weight, struct nib_error *error) {
    struct nib_file *file = dump->file;
    size_t chosen = 0;
    dump->left_out = nib_alloc(file->count, sizeof *dump->left_out, file->path, error);
    if (dump->left_out == NULL) return NIB_ENOMEM;
    if (weight[0] == '\0') return NIB_OK;
    if (file->count == 1 && file->entries[0].name[0] == '\0') {
        char *name = nib_alloc(strlen(weight) + 1, 1, "a name", error);
        if (name == NULL) return NIB_ENOMEM;
        free(file->entries[0].name);
        file->entries[0].name = strcpy(name, weight);
        return NIB_OK;
    }
    for (size_t i = 0; i < file->count; i++) {
        dump->left_out[i] = !is_of(file->entries[i].name, weight);
        chosen += !dump->left_out[i];
    }
    if (chosen > 0) return NIB_OK;
    size_t *matched, count; /* for its message, which suggests a name */
    enum nib_status status = nib_file_match(file, weight, &matched, &count, error);
    if (status == NIB_OK) free(matched);
    return status;
}

static enum nib_status read_tensors(struct nib_dump *dump, const char *path, const char *weight, struct nib_error *error) {
    enum nib_status status = nib_file_open(path, &dump->file, error);
    if (status == NIB_OK) status = choose(dump, weight, error);
    if (status != NIB_OK) return status;
    size_t count = nib_file_count(dump->file);
    dump->parts = nib_alloc(count + DUMP_NUMBERS, sizeof *dump->parts, path, error);
    if (dump->parts == NULL) return NIB_ENOMEM;
    status = read_numbers(dump, error);
    for (size_t i = 0; i < count && status == NIB_OK; i++) status = part_of_entry(dump, i, error);
    if (status == NIB_OK && dump->count == 0) status = nib_fail_at(error, NIB_EINVAL, path, 0, "no tensor that can be compared");
    return status;
}

/* ---- JSON of `nibble quantize` */

struct reader {
    struct nib_dump *dump;
    const char *path;
    json_t *root;
    uint64_t shape[2], scale_shape[2];
    struct nib_error *error;
};

static enum nib_status wrong(const struct reader *r, const char *member, const char *expected) {
    return nib_fail_at(r->error, NIB_ESYNTAX, r->path, 0, "%s: expected %s", member, expected);
}

/* Room for `count` items, as a part at the end. */
static void *add(struct reader *r, const char *name, enum nib_part_type type, unsigned bytes, uint64_t rows, uint64_t cols) {
    char usual[NIB_PART_NAME];
    struct nib_part part = {.stage = nib_stage_of_name(name, usual), .type = type, .bytes = bytes, .rank = 2,
        .shape = {rows, cols}};
    snprintf(part.name, sizeof part.name, "%s", name);
    void *data = nib_alloc((size_t)(rows * cols), bytes, name, r->error);
    if (data == NULL) return NULL;
    r->dump->owned[r->dump->owned_count++] = data;
    part.data = data;
    r->dump->parts[r->dump->count++] = part;
    return data;
}

static bool read_float(const json_t *value, float *out) {
    const char *text = json_string_value(value);
    if (json_is_number(value))
        *out = (float)json_number_value(value);
    else if (text != NULL && strcmp(text, "nan") == 0)
        *out = NAN;
    else if (text != NULL && strcmp(text, "inf") == 0)
        *out = INFINITY;
    else if (text != NULL && strcmp(text, "-inf") == 0)
        *out = -INFINITY;
    else
        return false;
    return true;
}

static enum nib_status read_floats(struct reader *r, const char *member, const uint64_t shape[2]) {
    json_t *array = json_object_get(r->root, member);
    if (array == NULL) return NIB_OK;
    bool single = !json_is_array(array);
    if (!single && json_array_size(array) != shape[0] * shape[1]) return wrong(r, member, "one number per item of its shape");
    float *out = add(r, member, NIB_PART_F32, 4, single ? 1 : shape[0], single ? 1 : shape[1]);
    if (out == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < (single ? 1 : json_array_size(array)); i++)
        if (!read_float(single ? array : json_array_get(array, i), &out[i])) return wrong(r, member, "numbers");
    return NIB_OK;
}

static uint64_t lines_of(const struct reader *r) {
    const char *axis = json_string_value(json_object_get(r->root, "axis"));
    return axis != NULL && strcmp(axis, "rows") == 0 ? r->shape[1] : r->shape[0];
}

/* Where lines, or segments of them, have tensor scales of their own. */
static enum nib_status read_line_amax(struct reader *r) {
    static const char member[] = "tensor_amax_by_line";
    uint64_t lines = lines_of(r), count = json_array_size(json_object_get(r->root, member));
    if (lines == 0) return NIB_OK;
    return read_floats(r, member, (uint64_t[]){lines, count / lines});
}

static enum nib_status read_integers(struct reader *r, const char *member, const uint64_t shape[2], unsigned bytes) {
    json_t *array = json_object_get(r->root, member);
    if (array == NULL) return NIB_OK;
    if (json_array_size(array) != shape[0] * shape[1]) return wrong(r, member, "one integer per item of its shape");
    uint8_t *out = add(r, member, NIB_PART_INTEGER, bytes, shape[0], shape[1]);
    if (out == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < json_array_size(array); i++) {
        json_int_t value = json_integer_value(json_array_get(array, i));
        if (!json_is_integer(json_array_get(array, i)) || value < 0 || value >> (8 * bytes) != 0)
            return wrong(r, member, "unsigned integers");
        memcpy(out + i * bytes, &value, bytes);
    }
    return NIB_OK;
}

/* Bytes that hold every code: as wide as the scale format, or narrower where they are small. */
static unsigned narrowest(const json_t *array) {
    json_int_t most = 0;
    for (size_t i = 0; i < json_array_size(array); i++) {
        json_int_t value = json_integer_value(json_array_get(array, i));
        if (value > most) most = value;
    }
    return most < 1 << 8 ? 1 : most < 1 << 16 ? 2 : 4;
}

static enum nib_status read_hex(struct reader *r) {
    json_t *member = json_object_get(r->root, "packed");
    const char *text = json_string_value(member);
    if (member == NULL) return NIB_OK;
    size_t digits = text == NULL ? 0 : strlen(text);
    if (text == NULL || digits % 2 != 0 || strspn(text, "0123456789abcdefABCDEF") != digits)
        return wrong(r, "packed", "bytes in hexadecimal");
    uint64_t lines = lines_of(r);
    if (lines == 0 || digits / 2 % lines != 0) return wrong(r, "packed", "as many bytes for every line");
    uint8_t *out = add(r, "packed", NIB_PART_INTEGER, 1, lines, digits / 2 / lines);
    if (out == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < digits / 2; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], '\0'};
        out[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return NIB_OK;
}

static enum nib_status read_shape(const struct reader *r, const char *member, uint64_t shape[2]) {
    json_t *array = json_object_get(r->root, member);
    for (size_t i = 0; i < 2; i++) {
        json_int_t extent = json_integer_value(json_array_get(array, i));
        if (json_array_size(array) != 2 || extent < 0 || extent > INT64_C(1) << 31) return wrong(r, member, "two extents");
        shape[i] = (uint64_t)extent;
    }
    return NIB_OK;
}

static enum nib_status read_members(struct reader *r) {
    const char *schema = json_string_value(json_object_get(r->root, "schema"));
    if (schema == NULL || strcmp(schema, "nibble.quantize/1") != 0)
        return wrong(r, "schema", "\"nibble.quantize/1\", as 'nibble quantize --json' writes");
    r->dump->parts = nib_alloc(DUMP_NAMES, sizeof *r->dump->parts, r->path, r->error);
    if (r->dump->parts == NULL) return NIB_ENOMEM;
    enum nib_status status = read_shape(r, "shape", r->shape);
    if (status == NIB_OK) status = read_shape(r, "scale_shape", r->scale_shape);
    for (size_t i = 0; i < DUMP_NUMBERS && status == NIB_OK; i++) status = read_floats(r, numbers[i], r->shape);
    if (status == NIB_OK) status = read_line_amax(r);
    if (status == NIB_OK) status = read_integers(r, "scales", r->scale_shape, narrowest(json_object_get(r->root, "scales")));
    if (status == NIB_OK) status = read_floats(r, "scale_values", r->scale_shape);
    if (status == NIB_OK) status = read_integers(r, "codes", r->shape, 1);
    if (status == NIB_OK) status = read_hex(r);
    if (status == NIB_OK) status = read_floats(r, "dequantized", r->shape);
    return status;
}

/* A JSON text begins with '{'; so does no tensor file but a shard index, which has no schema of ours. */
static bool is_json(const char *path) {
    FILE *stream = fopen(path, "rb");
    char head[4096];
    if (stream == NULL) return false;
    size_t length = fread(head, 1, sizeof head - 1, stream);
    fclose(stream);
    head[length] = '\0';
    return head[strspn(head, " \t\r\n")] == '{' && strstr(head, "\"schema\"") != NULL;
}

static enum nib_status read_json(struct nib_dump *dump, const char *path, struct nib_error *error) {
    json_error_t where;
    struct reader r = {.dump = dump, .path = path, .root = json_load_file(path, JSON_REJECT_DUPLICATES, &where), .error = error};
    if (r.root == NULL) return nib_fail_at(error, NIB_ESYNTAX, path, where.line, "not JSON: %s", where.text);
    enum nib_status status = read_members(&r);
    json_decref(r.root);
    return status;
}

enum nib_status nib_dump_open(const char *path, struct nib_dump **out, struct nib_error *error) {
    struct nib_locator locator;
    struct nib_dump *dump = nib_alloc(1, sizeof *dump, path, error);
    if (dump == NULL) return NIB_ENOMEM;
    enum nib_status status = nib_locator_parse(path, &locator, error);
    if (status == NIB_OK) {
        if (!is_json(locator.path))
            status = read_tensors(dump, locator.path, locator.tensor, error);
        else if (locator.tensor[0] == '\0')
            status = read_json(dump, locator.path, error);
        else
            status = nib_fail_at(error, NIB_EINVAL, locator.path, 0, "holds one tensor; \":%s\" chooses nothing", locator.tensor);
        nib_locator_free(&locator);
    }
    if (status != NIB_OK) {
        nib_dump_close(dump);
        return status;
    }
    *out = dump;
    return NIB_OK;
}
