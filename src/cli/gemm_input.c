#include "cli/gemm_input.h"

#include <math.h>
#include <nibble/tensor.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/number.h"
#include "gemm/view_value.h"
#include "io/locator.h"
#include "job/sample.h"

static const char *quantizer_of(const struct nib_gemm_arguments *a, char which) {
    const char *own = which == 'a' ? a->quantizer_a : a->quantizer_b;
    return own != NULL ? own : a->quantizer;
}

/* "MxNxK" */
static enum nib_status read_extents(const char *text, size_t extent[3], struct nib_error *error) {
    char copy[64], *rest = copy;
    int64_t value;
    if (strlen(text) < sizeof copy) {
        memcpy(copy, text, strlen(text) + 1);
        int i = 0;
        for (char *word; (word = strsep(&rest, "x")) != NULL && i < 4; i++) {
            if (i == 3 || !nib_number_integer(word, 1, INT64_C(1) << 24, &value)) break;
            extent[i] = (size_t)value;
        }
        if (i == 3 && rest == NULL) return NIB_OK;
    }
    return nib_fail(error, NIB_EINVAL, "--gaussian \"%s\": expected MxNxK such as 256x256x1024", text);
}

static enum nib_status gaussian_values(const struct nib_call *call, char which, struct nib_gemm_input *in,
                                       struct nib_error *error) {
    const struct nib_gemm_arguments *a = call->options;
    size_t extent[3];
    struct nib_distribution gaussian;
    enum nib_status status = read_extents(a->gaussian, extent, error);
    if (status == NIB_OK) status = nib_distribution_parse("gaussian", &gaussian, error);
    if (status != NIB_OK) return status;
    size_t rows = extent[which == 'a' ? 0 : 1], k = extent[2];
    in->memory = nib_alloc_raw(rows * k, sizeof(float), "random operands", error);
    if (in->memory == NULL) return NIB_ENOMEM;
    nib_distribution_fill(&gaussian, (uint64_t)call->common.seed + (which == 'b' ? 1 : 0), 0, rows * k,
                          (int)call->common.threads, in->memory);
    in->values = (struct nib_view){in->memory, NIB_F32, rows, k, k};
    return NIB_OK;
}

/* Values with K along the columns; B stored as K x N is transposed. */
static enum nib_status file_values(const struct nib_call *call, char which, const char *locator,
                                   struct nib_gemm_input *in, struct nib_error *error) {
    const struct nib_gemm_arguments *a = call->options;
    static const struct nib_texts none = {NULL, 0};
    enum nib_status status = nib_input_open(locator, &none, NULL, false, &in->source, error);
    if (status != NIB_OK) return status;
    struct nib_view view = in->source.view;
    in->values = view;
    if (which == 'a' || a->b_layout == 0) return NIB_OK;
    in->memory = nib_alloc_raw(view.rows * view.cols, sizeof(float), "the transpose of B", error);
    if (in->memory == NULL) return NIB_ENOMEM;
    for (size_t r = 0; r < view.rows; r++)
        for (size_t c = 0; c < view.cols; c++) in->memory[c * view.rows + r] = nib_view_value(view, r, c);
    in->values = (struct nib_view){in->memory, NIB_F32, view.cols, view.rows, view.rows};
    return NIB_OK;
}

static enum nib_status operand_of(const struct nib_call *call, const struct nib_unit *unit, char which,
                                  enum nib_operand *out, struct nib_error *error) {
    const struct nib_gemm_arguments *a = call->options;
    const char *own = which == 'a' ? a->operand_a : a->operand_b, *name = own != NULL ? own : a->operand;
    if (name != NULL) return nib_operand_parse(name, out, error);
    if ((unit->operands & (unit->operands - 1)) != 0)
        return nib_fail(error, NIB_EINVAL, "unit %s takes several operand formats; choose one with --operand",
                        unit->name);
    *out = (enum nib_operand)__builtin_ctz(unit->operands);
    return NIB_OK;
}

/* Quantizes the values; then either codes and scales go to the unit, or the dequantized values do. */
static enum nib_status quantized_values(const struct nib_call *call, const struct nib_unit *unit, char which,
                                        struct nib_gemm_input *in, struct nib_error *error) {
    const struct nib_gemm_arguments *a = call->options;
    const struct nib_quantizer *quantizer;
    struct nib_quantized q;
    enum nib_operand operand;
    float decode = which == 'a' ? a->tensor_scale_a : a->tensor_scale_b;
    struct nib_quantize_options how = {.axis = NIB_ALONG_COLS, .threads = (int)call->common.threads, .isa = a->isa,
                                       .seed = (uint64_t)call->common.seed, .stream = which == 'b'};
    how.has_tensor_scale = !isnan(decode);
    if (how.has_tensor_scale) how.tensor_scale_decode = decode, how.tensor_scale_encode = 1 / decode;
    enum nib_status status = nib_input_quantizer(quantizer_of(a, which), &a->settings, &quantizer, error);
    if (status != NIB_OK) return status;
    status = nib_quantized_alloc(quantizer, in->values.rows, in->values.cols, NIB_ALONG_COLS,
                                 a->fake ? NIB_WANT_VALUES : NIB_WANT_PACKED | NIB_WANT_SCALES, &q, error);
    if (status == NIB_OK) {
        status = nib_quantize(quantizer, in->values, &how, &q, error);
        if (status == NIB_OK && !a->fake) status = nib_gemm_from_quantized(unit, quantizer, &q, &in->buffer, error);
        if (status == NIB_OK && a->fake) status = operand_of(call, unit, which, &operand, error);
        struct nib_view values = {q.values, NIB_F32, q.rows, q.cols, q.cols};
        if (status == NIB_OK && a->fake) status = nib_gemm_from_values(unit, operand, values, &in->buffer, error);
        nib_quantized_free(&q);
    }
    in->quantizer = quantizer;
    return status;
}

/* All bytes of one tensor, and its leading extents folded into rows. */
static enum nib_status open_bytes(const char *locator, struct nib_file **file, const void **data, uint64_t *bytes,
                                  size_t *rows, struct nib_error *error) {
    size_t *indices, count;
    enum nib_status status = nib_locator_open(locator, true, file, &indices, &count, error);
    if (status != NIB_OK) return status;
    struct nib_tensor_info info;
    nib_file_tensor(*file, indices[0], &info);
    *rows = 1;
    for (unsigned i = 0; i + 1 < info.rank; i++) *rows *= (size_t)info.shape[i];
    status = nib_file_bytes(*file, indices[0], data, bytes, error);
    free(indices);
    if (status == NIB_OK && *rows == 0) status = nib_fail(error, NIB_EINVAL, "%s is empty", locator);
    if (status != NIB_OK) nib_file_close(*file);
    return status;
}

/* rows x columns scales of `size` bytes, linear, from a file in either layout. */
static enum nib_status read_scales(const struct nib_gemm_arguments *a, char which, size_t rows, size_t columns,
                                   size_t size, void **out, struct nib_error *error) {
    const char *locator = which == 'a' ? a->scales_a : a->scales_b;
    if (locator == NULL)
        return nib_fail(error, NIB_EINVAL, "--scales-%c is missing; expected %zux%zu scales", which, rows, columns);
    struct nib_file *file;
    const void *data;
    uint64_t bytes;
    size_t file_rows;
    enum nib_status status = open_bytes(locator, &file, &data, &bytes, &file_rows, error);
    if (status != NIB_OK) return status;
    void *memory = nib_alloc(rows * columns, size, "scales", error);
    if (memory == NULL)
        status = NIB_ENOMEM;
    else if (a->scale_layout == 1 && size != 1)
        status = nib_fail(error, NIB_EINVAL, "only scales of one byte come in 128x4 tiles, not of %zu", size);
    else if (a->scale_layout == 1)
        status = nib_gemm_unswizzle(data, (size_t)bytes, rows, columns, memory, error);
    else if (bytes != rows * columns * size)
        status =
            nib_fail(error, NIB_EINVAL, "--scales-%c %s holds %llu bytes; K fits %zux%zu scales of %zu, that is %zu",
                     which, locator, (unsigned long long)bytes, rows, columns, size, rows * columns * size);
    else
        memcpy(memory, data, (size_t)bytes);
    nib_file_close(file);
    if (status == NIB_OK)
        *out = memory;
    else
        free(memory);
    return status;
}

/* Codes of a quantizer's block format. */
static enum nib_status packed_by_quantizer(const struct nib_call *call, const struct nib_unit *unit, char which,
                                           const void *data, size_t rows, size_t bytes_per_row,
                                           struct nib_gemm_input *in, struct nib_error *error) {
    const struct nib_gemm_arguments *a = call->options;
    const struct nib_quantizer *quantizer;
    struct nib_quantizer_info info;
    struct nib_quantized q;
    void *scales = NULL;
    enum nib_status status = nib_input_quantizer(quantizer_of(a, which), &a->settings, &quantizer, error);
    if (status != NIB_OK) return status;
    nib_quantizer_describe(quantizer, &info);
    status = nib_quantized_alloc(quantizer, rows, 2 * bytes_per_row, NIB_ALONG_COLS, NIB_WANT_PACKED | NIB_WANT_SCALES,
                                 &q, error);
    if (status == NIB_OK) {
        float decode = which == 'a' ? a->tensor_scale_a : a->tensor_scale_b;
        if (info.block->has_tensor_scale && isnan(decode))
            status = nib_fail(error, NIB_EINVAL, "block format %s has a tensor scale; expected --tensor-scale-%c",
                              info.block->name, which);
        if (!info.block->has_tensor_scale && !isnan(decode))
            status = nib_fail(error, NIB_EINVAL, "block format %s has no tensor scale; leave out --tensor-scale-%c",
                              info.block->name, which);
        q.tensor_scale_decode = decode;
        memcpy(q.packed, data, rows * bytes_per_row);
        if (status == NIB_OK) status = read_scales(a, which, q.scale_rows, q.scale_cols, q.scale_bytes, &scales, error);
        if (status == NIB_OK) {
            memcpy(q.scales, scales, q.scale_rows * q.scale_cols * q.scale_bytes);
            status = nib_gemm_from_quantized(unit, quantizer, &q, &in->buffer, error);
        }
        free(scales);
        nib_quantized_free(&q);
    }
    in->quantizer = quantizer;
    return status;
}

/* Codes in an operand format of the unit, with the unit's own scales if it has any. */
static enum nib_status packed_by_unit(const struct nib_call *call, const struct nib_unit *unit, char which,
                                      const void *data, size_t rows, size_t bytes_per_row, struct nib_gemm_input *in,
                                      struct nib_error *error) {
    const struct nib_gemm_arguments *a = call->options;
    enum nib_operand operand;
    enum nib_status status = operand_of(call, unit, which, &operand, error);
    if (status != NIB_OK) return status;
    unsigned bits = nib_operand_bits(operand);
    size_t width = nib_operand_bytes(operand, 1), k = bits == 4 ? 2 * bytes_per_row : bytes_per_row / width;
    status = nib_unit_accepts(unit, operand, operand, k, error);
    struct nib_gemm_buffer b = {.rows = rows, .k = k, .tensor_scale_decode = 1};
    float decode = which == 'a' ? a->tensor_scale_a : a->tensor_scale_b;
    if (!isnan(decode)) b.tensor_scale_decode = decode;
    if (status != NIB_OK) return status;
    b.memory[0] = nib_alloc_raw(rows, bytes_per_row, "packed codes", error);
    if (b.memory[0] == NULL) return NIB_ENOMEM;
    memcpy(b.memory[0], data, rows * bytes_per_row);
    size_t columns = unit->scale_block != 0 ? k / unit->scale_block : 0;
    if (columns != 0) status = read_scales(a, which, rows, columns, 1, &b.memory[1], error);
    if (status != NIB_OK) {
        nib_gemm_buffer_clear(&b);
        return status;
    }
    b.operand.matrix = (struct nib_unit_matrix){operand, b.memory[0], bytes_per_row, b.memory[1], columns};
    in->buffer = b;
    return NIB_OK;
}

static enum nib_status packed_codes(const struct nib_call *call, const struct nib_unit *unit, char which,
                                    const char *locator, struct nib_gemm_input *in, struct nib_error *error) {
    struct nib_file *file;
    const void *data;
    uint64_t bytes;
    size_t rows;
    enum nib_status status = open_bytes(locator, &file, &data, &bytes, &rows, error);
    if (status != NIB_OK) return status;
    status = (quantizer_of(call->options, which) != NULL ? packed_by_quantizer : packed_by_unit)(
        call, unit, which, data, rows, (size_t)bytes / rows, in, error);
    nib_file_close(file);
    return status;
}

enum nib_status nib_gemm_input_open(const struct nib_call *call, const struct nib_unit *unit, char which,
                                    const char *locator, struct nib_gemm_input *out, struct nib_error *error) {
    const struct nib_gemm_arguments *a = call->options;
    struct nib_gemm_input in = {.memory = NULL};
    enum nib_operand operand;
    enum nib_status status;
    if (a->codes)
        status = packed_codes(call, unit, which, locator, &in, error);
    else {
        status =
            locator != NULL ? file_values(call, which, locator, &in, error) : gaussian_values(call, which, &in, error);
        if (status == NIB_OK && quantizer_of(a, which) != NULL)
            status = quantized_values(call, unit, which, &in, error);
        else if (status == NIB_OK) {
            status = operand_of(call, unit, which, &operand, error);
            if (status == NIB_OK) status = nib_gemm_from_values(unit, operand, in.values, &in.buffer, error);
        }
    }
    if (status == NIB_OK)
        *out = in;
    else
        nib_gemm_input_close(&in);
    return status;
}

void nib_gemm_input_close(struct nib_gemm_input *input) {
    nib_gemm_buffer_clear(&input->buffer);
    nib_quantizer_close(input->quantizer);
    free(input->memory);
    if (input->source.file != NULL) nib_input_close(&input->source);
    *input = (struct nib_gemm_input){.memory = NULL};
}
