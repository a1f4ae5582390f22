#include <nibble/tensor.h>

#include "cli/quantized_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/axis.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/output.h"
#include "io/json_out.h"

/* The code of a block scale. */
static uint32_t scale_code(const struct nib_quantized *q, size_t index) {
    uint32_t code = 0;
    for (unsigned i = 0; i < q->scale_bytes; i++) code |= (uint32_t)q->scales[index * q->scale_bytes + i] << 8 * i;
    return code;
}

static enum nib_status print_json(const struct nib_call *call, const struct nib_quantizer_info *info,
                                  const struct nib_quantized *q, struct nib_error *error) {
    struct nib_json *json;
    enum nib_status status = nib_output_json(call, &json, error);
    if (status != NIB_OK) return status;
    size_t scales = q->scale_rows * q->scale_cols, lines = q->axis == NIB_ALONG_COLS ? q->rows : q->cols;
    nib_json_text(json, "quantizer", info->name);
    nib_json_text(json, "axis", nib_axis_names[q->axis]);
    nib_json_sizes(json, "shape", (size_t[]){q->rows, q->cols}, 2);
    nib_json_float(json, "tensor_amax", q->tensor_amax);
    nib_json_float(json, "tensor_scale_encode", q->tensor_scale_encode);
    nib_json_float(json, "tensor_scale_decode", q->tensor_scale_decode);
    if (q->line_amax != NULL) nib_json_floats(json, "tensor_amax_by_line", q->line_amax, lines * q->line_parts);
    nib_json_unsigned(json, "nan_count", q->nan_count);
    nib_json_unsigned(json, "inf_count", q->inf_count);
    nib_json_sizes(json, "scale_shape", (size_t[]){q->scale_rows, q->scale_cols}, 2);
    nib_json_array(json, "scales");
    for (size_t i = 0; i < scales; i++) nib_json_unsigned(json, NULL, scale_code(q, i));
    nib_json_close(json);
    nib_json_array(json, "scale_values");
    for (size_t i = 0; i < scales; i++)
        nib_json_float(json, NULL, nib_scale_decode(info->block->scale, scale_code(q, i)));
    nib_json_close(json);
    nib_json_bytes(json, "codes", q->codes, q->rows * q->cols);
    nib_json_hex(json, "packed", q->packed, lines * q->packed_stride);
    nib_json_floats(json, "dequantized", q->values, q->rows * q->cols);
    nib_json_end(json);
    return NIB_OK;
}

enum { CODES_COLUMN = 4, VALUES_COLUMN = 5, TERMINAL_BLOCKS = 64 };

/* One row per block and line: where it begins, its scale, its codes and values. */
static enum nib_status block_table(const struct nib_quantizer_info *info, const struct nib_quantized *q, size_t most,
                                   struct nib_table **out, struct nib_error *error) {
    static const struct nib_column columns[] = {
        {"row", "row", "1", "row of the first element", NIB_COLUMN_INTEGER, 0},
        {"col", "col", "1", "column of the first element", NIB_COLUMN_INTEGER, 0},
        {"scale", "scale", "", "code of the block scale", NIB_COLUMN_TEXT, 0},
        {"scale_value", "value", "1", "decoded block scale", NIB_COLUMN_REAL, -9},
        {"codes", "codes", "", "codes, one hexadecimal digit each", NIB_COLUMN_TEXT, 0},
        {"dequantized", "dequantized", "", "values, separated by blanks", NIB_COLUMN_TEXT, 0},
    };
    enum nib_status status = nib_table_new("quantize", columns, sizeof columns / sizeof *columns, out, error);
    if (status != NIB_OK) return status;
    bool along_cols = q->axis == NIB_ALONG_COLS;
    size_t lines = along_cols ? q->rows : q->cols, inner = along_cols ? q->cols : q->rows,
           size = info->block->block_cols;
    char *codes = malloc(size + 1), *values = malloc(size * 20 + 1);
    bool complete = codes != NULL && values != NULL;
    for (size_t i = 0; complete && i < lines * q->scale_cols && i < most; i++) {
        size_t line = i / q->scale_cols, block = i % q->scale_cols, start = block * size, used = 0;
        size_t end = inner - start < size ? inner : start + size;
        uint32_t scale = scale_code(q, line / info->block->block_rows * q->scale_cols + block);
        char scale_text[16];
        snprintf(scale_text, sizeof scale_text, "0x%0*X", (int)q->scale_bytes * 2, scale);
        for (size_t j = start; j < end; j++) {
            size_t at = along_cols ? line * q->cols + j : j * q->cols + line;
            codes[j - start] = "0123456789ABCDEF"[q->codes[at] & 15];
            used +=
                (size_t)snprintf(values + used, 20, "%s%.7g", j > start ? " " : "", nib_output_number(q->values[at]));
        }
        codes[end - start] = '\0';
        size_t row = nib_table_row(*out);
        complete = row != SIZE_MAX;
        if (!complete) break;
        nib_table_set_integer(*out, row, 0, (int64_t)(along_cols ? line : start));
        nib_table_set_integer(*out, row, 1, (int64_t)(along_cols ? start : line));
        nib_table_set_text(*out, row, 2, scale_text);
        nib_table_set_real(*out, row, 3, (double)nib_scale_decode(info->block->scale, scale));
        nib_table_set_text(*out, row, CODES_COLUMN, codes);
        nib_table_set_text(*out, row, VALUES_COLUMN, values);
    }
    free(codes);
    free(values);
    if (complete) return NIB_OK;
    nib_table_free(*out);
    return nib_fail(error, NIB_ENOMEM, "out of memory for the table of blocks");
}

static void print_headline(const struct nib_quantizer_info *info, const struct nib_quantized *q, char *text,
                           size_t size) {
    int used = snprintf(text, size, "%s, %zu x %zu along %s", info->name, q->rows, q->cols, nib_axis_names[q->axis]);
    if (info->block->has_tensor_scale)
        used += snprintf(text + used, size - (size_t)used, "; tensor amax %.9g, encode scale %.9g, decode scale %.9g",
                         nib_output_number(q->tensor_amax), nib_output_number(q->tensor_scale_encode),
                         nib_output_number(q->tensor_scale_decode));
    if (q->nan_count + q->inf_count > 0)
        snprintf(text + used, size - (size_t)used, "; %llu NaN, %llu infinite", (unsigned long long)q->nan_count,
                 (unsigned long long)q->inf_count);
}

enum nib_status nib_quantized_print(const struct nib_call *call, const struct nib_quantizer *quantizer,
                                    const struct nib_quantized *q, struct nib_error *error) {
    struct nib_quantizer_info info;
    nib_quantizer_describe(quantizer, &info);
    if (call->common.json) return print_json(call, &info, q, error);
    bool along_cols = q->axis == NIB_ALONG_COLS;
    size_t blocks = (along_cols ? q->rows : q->cols) * q->scale_cols;
    struct nib_table *table;
    enum nib_status status = block_table(&info, q, call->common.tsv ? SIZE_MAX : TERMINAL_BLOCKS, &table, error);
    if (status != NIB_OK) return status;
    char headline[320];
    print_headline(&info, q, headline, sizeof headline);
    status = nib_output_table(call, table, &(struct nib_layout){.headline = headline}, error);
    nib_table_free(table);
    if (status == NIB_OK && !call->common.tsv && blocks > TERMINAL_BLOCKS)
        nib_output_note(call, "%zu more blocks; --tsv, --json and -o FILE.h5 give all", blocks - TERMINAL_BLOCKS);
    return status;
}

static enum nib_status put(struct nib_result *file, const char *group, const char *name, const char *long_name,
                           enum nib_result_type type, const char *rows, const char *cols, const void *data,
                           struct nib_error *error) {
    struct nib_result_array array = {.group = group,
                                     .name = name,
                                     .units = "1",
                                     .long_name = long_name,
                                     .type = type,
                                     .rank = 2,
                                     .scales = {rows, cols},
                                     .data = data};
    return nib_result_array(file, &array, error);
}

static enum nib_status put_elements(struct nib_result *file, const struct nib_quantized *q, struct nib_error *error) {
    enum nib_status status = nib_result_index_scale(file, "elements", "row", "row", q->rows, error);
    if (status == NIB_OK) status = nib_result_index_scale(file, "elements", "col", "column", q->cols, error);
    if (status == NIB_OK)
        status = put(file, "elements", "code", "4-bit code", NIB_RESULT_U8, "row", "col", q->codes, error);
    if (status == NIB_OK)
        status =
            put(file, "elements", "dequantized", "dequantized value", NIB_RESULT_F32, "row", "col", q->values, error);
    return status;
}

static enum nib_status put_scales(struct nib_result *file, const struct nib_scale *scale, const struct nib_quantized *q,
                                  struct nib_error *error) {
    enum nib_result_type type = q->scale_bytes == 1   ? NIB_RESULT_U8
                                : q->scale_bytes == 2 ? NIB_RESULT_U16
                                                      : NIB_RESULT_U32;
    size_t count = q->scale_rows * q->scale_cols;
    float *values = nib_alloc(count, sizeof *values, "scales", error);
    if (values == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < count; i++) values[i] = nib_scale_decode(scale, scale_code(q, i));
    enum nib_status status = nib_result_index_scale(file, "scales", "line", "line of blocks", q->scale_rows, error);
    if (status == NIB_OK)
        status = nib_result_index_scale(file, "scales", "block", "block in the line", q->scale_cols, error);
    if (status == NIB_OK)
        status = put(file, "scales", "scale", "code of the scale", type, "line", "block", q->scales, error);
    if (status == NIB_OK)
        status = put(file, "scales", "scale_value", "decoded scale", NIB_RESULT_F32, "line", "block", values, error);
    free(values);
    return status;
}

/* Where lines, or segments of them, have tensor scales of their own. */
static enum nib_status put_line_amax(struct nib_result *file, const struct nib_quantized *q, struct nib_error *error) {
    size_t lines = q->axis == NIB_ALONG_COLS ? q->rows : q->cols;
    enum nib_status status =
        nib_result_index_scale(file, "scales", "tensor_line", "line along the reduction axis", lines, error);
    if (status == NIB_OK)
        status = nib_result_index_scale(file, "scales", "segment", "segment of the line", q->line_parts, error);
    if (status == NIB_OK)
        status = put(file, "scales", "tensor_amax_by_line", "tensor amax of each segment of a line", NIB_RESULT_F32,
                     "tensor_line", "segment", q->line_amax, error);
    return status;
}

static enum nib_status put_packed(struct nib_result *file, const struct nib_quantized *q, struct nib_error *error) {
    size_t lines = q->axis == NIB_ALONG_COLS ? q->rows : q->cols;
    enum nib_status status =
        nib_result_index_scale(file, "packed", "line", "line along the reduction axis", lines, error);
    if (status == NIB_OK)
        status = nib_result_index_scale(file, "packed", "byte", "byte in the line", q->packed_stride, error);
    if (status == NIB_OK)
        status = put(file, "packed", "packed", "two codes a byte, the first in the low nibble", NIB_RESULT_U8, "line",
                     "byte", q->packed, error);
    return status;
}

static enum nib_status put_attributes(struct nib_result *file, const struct nib_quantizer_info *info,
                                      const struct nib_quantized *q, struct nib_error *error) {
    enum nib_status status = nib_result_text_attribute(file, "elements", NULL, "quantizer", info->name, error);
    if (status == NIB_OK)
        status = nib_result_text_attribute(file, "elements", NULL, "axis", nib_axis_names[q->axis], error);
    const char *const names[] = {"tensor_amax", "tensor_scale_encode", "tensor_scale_decode"};
    const float reals[] = {q->tensor_amax, q->tensor_scale_encode, q->tensor_scale_decode};
    for (int i = 0; i < 3 && status == NIB_OK; i++)
        status = nib_result_real_attribute(file, "scales", NULL, names[i], (double)reals[i], error);
    return status;
}

enum nib_status nib_quantized_store(struct nib_result *file, const struct nib_quantizer *quantizer,
                                    const struct nib_quantized *q, struct nib_error *error) {
    struct nib_quantizer_info info;
    nib_quantizer_describe(quantizer, &info);
    enum nib_status status = put_elements(file, q, error);
    if (status == NIB_OK) status = put_scales(file, info.block->scale, q, error);
    if (status == NIB_OK && q->line_amax != NULL) status = put_line_amax(file, q, error);
    if (status == NIB_OK) status = put_packed(file, q, error);
    return status == NIB_OK ? put_attributes(file, &info, q, error) : status;
}
