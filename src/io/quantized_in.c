#include "io/quantized_in.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "io/entry.h"

struct reader {
    const char *path;
    json_t *root;
    struct nib_error *error;
};

static enum nib_status wrong(const struct reader *r, const char *member, const char *expected) {
    return nib_fail_at(r->error, NIB_ESYNTAX, r->path, 0, "%s: expected %s", member, expected);
}

static enum nib_status read_shape(const struct reader *r, size_t *rows, size_t *cols) {
    json_t *shape = json_object_get(r->root, "shape");
    json_int_t extents[2] = {0, 0};
    for (size_t i = 0; i < 2; i++) extents[i] = json_integer_value(json_array_get(shape, i));
    if (json_array_size(shape) != 2 || extents[0] < 1 || extents[1] < 1) return wrong(r, "shape", "[rows, cols]");
    *rows = (size_t)extents[0];
    *cols = (size_t)extents[1];
    return NIB_OK;
}

/* Numbers, or the texts that stand for those JSON lacks. */
static enum nib_status read_value(const struct reader *r, const char *member, const json_t *value, float *out) {
    const char *text = json_string_value(value);
    if (json_is_number(value))
        *out = (float)json_number_value(value);
    else if (text != NULL && strcmp(text, "nan") == 0)
        *out = NAN;
    else if (text != NULL && strcmp(text, "inf") == 0)
        *out = INFINITY;
    else
        return wrong(r, member, "a number");
    return NIB_OK;
}

static enum nib_status read_real(const struct reader *r, const char *member, float *out) {
    return read_value(r, member, json_object_get(r->root, member), out);
}

/* Where lines, or segments of them, have tensor scales of their own. */
static enum nib_status read_line_amax(const struct reader *r, struct nib_quantized *out) {
    static const char member[] = "tensor_amax_by_line";
    json_t *array = json_object_get(r->root, member);
    size_t count = (out->axis == NIB_ALONG_COLS ? out->rows : out->cols) * out->line_parts;
    if (json_array_size(array) != count) return wrong(r, member, "one number for each tensor scale of every line");
    enum nib_status status = NIB_OK;
    for (size_t i = 0; status == NIB_OK && i < count; i++)
        status = read_value(r, member, json_array_get(array, i), &out->line_amax[i]);
    return status;
}

static enum nib_status read_codes(const struct reader *r, uint8_t *codes, size_t count) {
    json_t *array = json_object_get(r->root, "codes");
    if (json_array_size(array) != count) return wrong(r, "codes", "one code per element");
    for (size_t i = 0; i < count; i++) {
        json_t *code = json_array_get(array, i);
        if (!json_is_integer(code) || json_integer_value(code) < 0 || json_integer_value(code) > 15)
            return wrong(r, "codes", "integers from 0 to 15");
        codes[i] = (uint8_t)json_integer_value(code);
    }
    return NIB_OK;
}

static enum nib_status read_scales(const struct reader *r, struct nib_quantized *out) {
    json_t *array = json_object_get(r->root, "scales");
    size_t count = out->scale_rows * out->scale_cols;
    uint64_t limit = UINT64_C(1) << 8 * out->scale_bytes;
    if (json_array_size(array) != count) return wrong(r, "scales", "one scale per block");
    for (size_t i = 0; i < count; i++) {
        json_t *scale = json_array_get(array, i);
        if (!json_is_integer(scale) || json_integer_value(scale) < 0 || (uint64_t)json_integer_value(scale) >= limit)
            return wrong(r, "scales", "unsigned bit patterns of the scale format");
        for (unsigned byte = 0; byte < out->scale_bytes; byte++)
            out->scales[i * out->scale_bytes + byte] = (uint8_t)(json_integer_value(scale) >> 8 * byte);
    }
    return NIB_OK;
}

static enum nib_status read_members(const struct reader *r, const struct nib_quantizer *q, struct nib_quantized *out) {
    size_t rows = 0, cols = 0;
    const char *axis = json_string_value(json_object_get(r->root, "axis"));
    enum nib_status status = read_shape(r, &rows, &cols);
    if (status == NIB_OK && axis != NULL && strcmp(axis, "cols") != 0 && strcmp(axis, "rows") != 0)
        status = wrong(r, "axis", "\"cols\" or \"rows\"");
    if (status != NIB_OK) return status;
    if (json_array_size(json_object_get(r->root, "codes")) / cols != rows)
        return wrong(r, "codes", "one code per element");
    enum nib_axis along = axis != NULL && strcmp(axis, "rows") == 0 ? NIB_ALONG_ROWS : NIB_ALONG_COLS;
    struct nib_quantized made;
    status = nib_quantized_alloc(q, rows, cols, along, NIB_WANT_CODES | NIB_WANT_SCALES, &made, r->error);
    if (status != NIB_OK) return status;
    status = read_codes(r, made.codes, rows * cols);
    if (status == NIB_OK) status = read_scales(r, &made);
    if (status == NIB_OK && made.line_amax != NULL) status = read_line_amax(r, &made);
    if (status == NIB_OK) status = read_real(r, "tensor_amax", &made.tensor_amax);
    if (status == NIB_OK) status = read_real(r, "tensor_scale_decode", &made.tensor_scale_decode);
    made.tensor_scale_encode = 1.0f / made.tensor_scale_decode;
    if (status == NIB_OK && json_object_get(r->root, "tensor_scale_encode") != NULL)
        status = read_real(r, "tensor_scale_encode", &made.tensor_scale_encode);
    if (status == NIB_OK)
        *out = made;
    else
        nib_quantized_free(&made);
    return status;
}

/* "te-nvfp4" or, with axes changed, "te-nvfp4+axis=value,axis=value": choices may hold commas, so a piece without '='
 * belongs to the one before. */
static enum nib_status open_quantizer(const char *name, const struct nib_quantizer **out, struct nib_error *error) {
    enum { MOST = 32 };
    char text[256];
    const char *settings[MOST];
    size_t count = 0;
    snprintf(text, sizeof text, "%s", name);
    char *plus = strchr(text, '+');
    if (plus == NULL) return nib_quantizer_open(name, out, error);
    *plus = '\0';
    settings[count++] = plus + 1;
    for (char *comma = strchr(plus + 1, ','); comma != NULL; comma = strchr(comma + 1, ',')) {
        const char *next = strchr(comma + 1, ','), *equals = strchr(comma + 1, '=');
        if (equals == NULL || (next != NULL && next < equals) || count == MOST) continue;
        *comma = '\0';
        settings[count++] = comma + 1;
    }
    const struct nib_quantizer *base;
    enum nib_status status = nib_quantizer_open(text, &base, error);
    if (status != NIB_OK) return status;
    status = nib_quantizer_with(base, settings, count, out, error);
    nib_quantizer_close(base);
    return status;
}

/* ---- HDF5 of `nibble quantize -o` */

static bool is_hdf5(const char *path) {
    char head[8] = "";
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) return false;
    size_t length = fread(head, 1, sizeof head, stream);
    fclose(stream);
    return length == sizeof head && memcmp(head, "\x89HDF\r\n\x1a\n", sizeof head) == 0;
}

/* The bytes of a dataset; `count` of `size` each are expected. */
static enum nib_status read_dataset(struct nib_file *file, const char *name, void *out, size_t count, unsigned size,
                                    struct nib_error *error) {
    size_t at;
    const void *data;
    uint64_t bytes;
    enum nib_status status = nib_file_find(file, name, &at, error);
    if (status == NIB_OK) status = nib_file_bytes(file, at, &data, &bytes, error);
    if (status != NIB_OK) return status;
    if (file->entries[at].item_bytes != size || bytes != (uint64_t)count * size)
        return nib_fail_at(error, NIB_ESYNTAX, file->path, 0, "%s: expected %zu items of %u bytes", name, count, size);
    memcpy(out, data, (size_t)bytes);
    return NIB_OK;
}

static enum nib_status read_attribute(const struct nib_file *file, const char *key, float *out,
                                      struct nib_error *error) {
    const char *text = nib_file_metadata(file, key);
    char *end = NULL;
    if (text != NULL) *out = (float)strtod(text, &end);
    if (text == NULL || end == text || *end != '\0')
        return nib_fail_at(error, NIB_ESYNTAX, file->path, 0, "attribute %s: expected a number", key);
    return NIB_OK;
}

static enum nib_status read_groups(struct nib_file *file, const struct nib_quantizer *q, struct nib_quantized *out,
                                   struct nib_error *error) {
    size_t at;
    const char *axis = nib_file_metadata(file, "elements/axis");
    enum nib_axis along = axis != NULL && strcmp(axis, "rows") == 0 ? NIB_ALONG_ROWS : NIB_ALONG_COLS;
    enum nib_status status = nib_file_find(file, "elements/code", &at, error);
    if (status != NIB_OK) return status;
    const struct nib_entry *codes = &file->entries[at];
    if (codes->rank != 2) return nib_fail_at(error, NIB_ESYNTAX, file->path, 0, "elements/code: expected a matrix");
    struct nib_quantized made;
    size_t rows = (size_t)codes->shape[0], cols = (size_t)codes->shape[1];
    status = nib_quantized_alloc(q, rows, cols, along, NIB_WANT_CODES | NIB_WANT_SCALES, &made, error);
    if (status != NIB_OK) return status;
    status = read_dataset(file, "elements/code", made.codes, rows * cols, 1, error);
    for (size_t i = 0; status == NIB_OK && i < rows * cols; i++)
        if (made.codes[i] > 15)
            status = nib_fail_at(error, NIB_ESYNTAX, file->path, 0, "elements/code: expected integers from 0 to 15");
    if (status == NIB_OK)
        status =
            read_dataset(file, "scales/scale", made.scales, made.scale_rows * made.scale_cols, made.scale_bytes, error);
    if (status == NIB_OK && made.line_amax != NULL)
        status = read_dataset(file, "scales/tensor_amax_by_line", made.line_amax,
                              (along == NIB_ALONG_COLS ? rows : cols) * made.line_parts, sizeof(float), error);
    if (status == NIB_OK) status = read_attribute(file, "scales/tensor_amax", &made.tensor_amax, error);
    if (status == NIB_OK) status = read_attribute(file, "scales/tensor_scale_encode", &made.tensor_scale_encode, error);
    if (status == NIB_OK) status = read_attribute(file, "scales/tensor_scale_decode", &made.tensor_scale_decode, error);
    if (status == NIB_OK)
        *out = made;
    else
        nib_quantized_free(&made);
    return status;
}

static enum nib_status read_hdf5(const char *path, const struct nib_quantizer **quantizer, struct nib_quantized *out,
                                 struct nib_error *error) {
    struct nib_file *file;
    const struct nib_quantizer *opened = NULL;
    enum nib_status status = nib_file_open(path, &file, error);
    if (status != NIB_OK) return status;
    const char *name = nib_file_metadata(file, "elements/quantizer");
    if (*quantizer == NULL && name == NULL)
        status = nib_fail_at(error, NIB_ESYNTAX, path, 0,
                             "no attribute quantizer of /elements, as 'nibble quantize -o' writes");
    if (status == NIB_OK && *quantizer == NULL) status = open_quantizer(name, &opened, error);
    if (status == NIB_OK) status = read_groups(file, *quantizer != NULL ? *quantizer : opened, out, error);
    nib_file_close(file);
    if (status == NIB_OK && *quantizer == NULL)
        *quantizer = opened;
    else
        nib_quantizer_close(opened);
    return status;
}

enum nib_status nib_quantized_read(const char *path, const struct nib_quantizer **quantizer, struct nib_quantized *out,
                                   struct nib_error *error) {
    bool standard = strcmp(path, "-") == 0;
    if (path[0] == '\0') return nib_fail(error, NIB_EIO, "the name of a file is empty");
    if (!standard && is_hdf5(path)) return read_hdf5(path, quantizer, out, error);
    FILE *stream = standard ? stdin : fopen(path, "rb");
    struct stat about;
    if (stream == NULL) return nib_fail_at(error, NIB_EIO, path, 0, "cannot open: %s", strerror(errno));
    if (!standard && fstat(fileno(stream), &about) == 0 && S_ISDIR(about.st_mode)) {
        fclose(stream);
        return nib_fail_at(error, NIB_EIO, path, 0, "is a directory; expected the JSON or HDF5 of 'nibble quantize'");
    }
    int first = getc(stream);
    while (first == ' ' || first == '\n' || first == '\r' || first == '\t') first = getc(stream);
    if (first != EOF) ungetc(first, stream);
    if (first != EOF && first != '{' && first != '[') {
        if (!standard) fclose(stream);
        return nib_fail_at(error, NIB_ESYNTAX, standard ? "(standard input)" : path, 0,
                           "neither the JSON nor the HDF5 of 'nibble quantize'; tensors of other files go to "
                           "--packed FILE:tensor, --scales FILE:tensor");
    }
    json_error_t where;
    struct reader r = {standard ? "(standard input)" : path, json_loadf(stream, JSON_REJECT_DUPLICATES, &where), error};
    if (!standard) fclose(stream);
    if (r.root == NULL) return nib_fail_at(error, NIB_ESYNTAX, r.path, where.line, "neither HDF5 nor JSON: %s", where.text);
    const char *schema = json_string_value(json_object_get(r.root, "schema"));
    const char *name = json_string_value(json_object_get(r.root, "quantizer"));
    const struct nib_quantizer *opened = NULL;
    enum nib_status status = NIB_OK;
    if (schema == NULL || strcmp(schema, "nibble.quantize/1") != 0)
        status = wrong(&r, "schema", "\"nibble.quantize/1\"");
    if (status == NIB_OK && *quantizer == NULL)
        status = name == NULL ? wrong(&r, "quantizer", "its name") : open_quantizer(name, &opened, error);
    if (status == NIB_OK) status = read_members(&r, *quantizer != NULL ? *quantizer : opened, out);
    json_decref(r.root);
    if (status == NIB_OK && *quantizer == NULL)
        *quantizer = opened;
    else
        nib_quantizer_close(opened);
    return status;
}
