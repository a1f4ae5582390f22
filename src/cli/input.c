#include "cli/input.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/number.h"
#include "core/key.h"
#include "io/locator.h"
#include "io/mapping.h"

/* "A<separator>B" as two integers in [low, 2^40]. */
static bool two_numbers(const char *text, char separator, int64_t low, size_t *first, size_t *second) {
    char left[32];
    int64_t a, b;
    const char *middle = strchr(text, separator);
    if (middle == NULL || (size_t)(middle - text) >= sizeof left) return false;
    snprintf(left, sizeof left, "%.*s", (int)(middle - text), text);
    if (!nib_number_integer(left, low, INT64_C(1) << 40, &a) ||
        !nib_number_integer(middle + 1, low, INT64_C(1) << 40, &b))
        return false;
    *first = (size_t)a;
    *second = (size_t)b;
    return true;
}

enum nib_status nib_input_shape(const char *text, size_t *rows, size_t *cols, struct nib_error *error) {
    if (two_numbers(text, 'x', 1, rows, cols)) return NIB_OK;
    return nib_fail(error, NIB_EINVAL, "shape \"%s\": expected ROWSxCOLS such as 2x32", text);
}

enum nib_status nib_input_place(const char *text, size_t *row, size_t *col, struct nib_error *error) {
    if (two_numbers(text, ',', 0, row, col)) return NIB_OK;
    return nib_fail(error, NIB_EINVAL, "place \"%s\": expected ROW,COL counted from 0, such as 0,17", text);
}

static bool bit_pattern(const char *text, float *out) {
    if (strlen(text) != 10 || strncmp(text, "0x", 2) != 0) return false;
    if (strspn(text + 2, "0123456789abcdefABCDEF") != 8) return false;
    *out = nib_float_of_bits((uint32_t)strtoul(text, NULL, 16));
    return true;
}

enum nib_status nib_input_number(const char *text, float *out, struct nib_error *error) {
    const char *magnitude = text[0] == '-' ? text + 1 : text;
    float sign = text[0] == '-' ? -1.0f : 1.0f;
    if (strcmp(magnitude, "nan") == 0)
        *out = copysignf(NAN, sign);
    else if (strcmp(magnitude, "inf") == 0)
        *out = sign * INFINITY;
    else if (!bit_pattern(text, out) && !nib_number_float(text, out))
        return nib_fail(error, NIB_EINVAL,
                        "\"%s\" is not a binary32 number (such as -1.5, 0x1.8p+1, nan, inf, or the bits 0x3FC00000)",
                        text);
    return NIB_OK;
}

static enum nib_status from_values(const struct nib_texts *values, const char *shape, struct nib_input *out,
                                   struct nib_error *error) {
    size_t rows = 1, cols = values->count;
    if (shape != NULL) {
        enum nib_status status = nib_input_shape(shape, &rows, &cols, error);
        if (status != NIB_OK) return status;
        if (rows > values->count || rows * cols != values->count)
            return nib_fail(error, NIB_EINVAL, "--shape %s needs %zu values, got %zu", shape, rows * cols,
                            values->count);
    }
    out->values = nib_alloc(values->count, sizeof(float), "the values", error);
    if (out->values == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < values->count; i++) {
        enum nib_status status = nib_input_number(values->item[i], &out->values[i], error);
        if (status != NIB_OK) return status;
    }
    out->view = (struct nib_view){out->values, NIB_F32, rows, cols, cols};
    return NIB_OK;
}

const char *const nib_casts[] = {"none", "fp32", NULL};

static enum nib_status from_file(const char *locator, bool cast_f64, struct nib_input *out, struct nib_error *error) {
    size_t *indices, count;
    enum nib_status status = nib_locator_open(locator, true, &out->file, &indices, &count, error);
    if (status != NIB_OK) return status;
    size_t index = indices[0];
    free(indices);
    struct nib_tensor_info info;
    nib_file_tensor(out->file, index, &info);
    snprintf(out->name, sizeof out->name, "%s", info.name);
    return nib_file_view(out->file, index, cast_f64, &out->view, error);
}

enum nib_status nib_input_open(const char *locator, const struct nib_texts *values, const char *shape, bool cast_f64,
                               struct nib_input *out, struct nib_error *error) {
    struct nib_input input = {0};
    enum nib_status status;
    if (locator != NULL && values->count > 0)
        status = nib_fail(error, NIB_EINVAL, "a file and --values are both given; expected one");
    else if (locator == NULL && values->count == 0)
        status = nib_fail(error, NIB_EINVAL, "nothing to read; give FILE[:tensor] or --values 1,2.5,...");
    else if (locator != NULL && shape != NULL)
        status = nib_fail(error, NIB_EINVAL, "--shape goes with --values; a file has its own shape");
    else
        status =
            locator != NULL ? from_file(locator, cast_f64, &input, error) : from_values(values, shape, &input, error);
    if (status != NIB_OK) {
        nib_input_close(&input);
        return status;
    }
    *out = input;
    return NIB_OK;
}

void nib_input_close(struct nib_input *input) {
    if (input->file != NULL) nib_file_close(input->file);
    free(input->values);
    *input = (struct nib_input){0};
}

enum nib_status nib_input_quantizer(const char *name, const struct nib_texts *settings,
                                    const struct nib_quantizer **out, struct nib_error *error) {
    const struct nib_quantizer *base;
    enum nib_status status = nib_quantizer_open(name, &base, error);
    if (status != NIB_OK || settings->count == 0) {
        if (status == NIB_OK) *out = base;
        return status;
    }
    status = nib_quantizer_with(base, settings->item, settings->count, out, error);
    nib_quantizer_close(base);
    return status;
}

static enum nib_status bytes_of_digits(const char *digits, const char *option, uint8_t **out, size_t *count,
                                       struct nib_error *error) {
    static const char hexadecimal[] = "0123456789abcdef";
    size_t length = strlen(digits);
    if (length == 0 || length % 2 != 0 || strspn(digits, "0123456789abcdefABCDEF") != length)
        return nib_fail(error, NIB_EINVAL, "--%s: expected pairs of hexadecimal digits after 0x", option);
    uint8_t *bytes = nib_alloc(length / 2, 1, "bytes", error);
    if (bytes == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < length; i++)
        bytes[i / 2] = (uint8_t)(bytes[i / 2] << 4 | (strchr(hexadecimal, digits[i] | 0x20) - hexadecimal));
    *out = bytes;
    *count = length / 2;
    return NIB_OK;
}

/* "FILE:raw": all bytes of a file of no format, as a kernel's buffer is written to disk. */
static bool is_raw(const char *text) {
    size_t length = strlen(text);
    return length > 4 && strcmp(text + length - 4, ":raw") == 0;
}

static enum nib_status raw_bytes(const char *text, uint8_t **out, size_t *count, struct nib_error *error) {
    char *path = nib_alloc(strlen(text) + 1, 1, "file name", error);
    if (path == NULL) return NIB_ENOMEM;
    memcpy(path, text, strlen(text) - 4);
    struct nib_mapping *mapping = NULL;
    enum nib_status status = nib_mapping_open(path, &mapping, error);
    if (status == NIB_OK) {
        *out = nib_alloc_raw((size_t)mapping->size, 1, "bytes", error);
        status = *out == NULL ? NIB_ENOMEM : NIB_OK;
    }
    if (status == NIB_OK) {
        memcpy(*out, mapping->data, (size_t)mapping->size);
        *count = (size_t)mapping->size;
    }
    nib_mapping_close(mapping);
    free(path);
    return status;
}

enum nib_status nib_input_bytes(const char *text, const char *option, uint8_t **out, size_t *count,
                                struct nib_error *error) {
    if (strncmp(text, "0x", 2) == 0) return bytes_of_digits(text + 2, option, out, count, error);
    if (is_raw(text)) return raw_bytes(text, out, count, error);
    struct nib_file *file;
    size_t *indices, found;
    enum nib_status status = nib_locator_open(text, true, &file, &indices, &found, error);
    if (status != NIB_OK) return status;
    const void *data;
    uint64_t bytes;
    status = nib_file_bytes(file, indices[0], &data, &bytes, error);
    if (status == NIB_OK) {
        *out = nib_alloc_raw((size_t)bytes, 1, "bytes", error);
        status = *out == NULL ? NIB_ENOMEM : NIB_OK;
    }
    if (status == NIB_OK) {
        memcpy(*out, data, (size_t)bytes);
        *count = (size_t)bytes;
    }
    free(indices);
    nib_file_close(file);
    return status;
}
