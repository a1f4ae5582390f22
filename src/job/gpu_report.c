#include "job/gpu_report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/table.h"

static const struct nib_column columns[NIB_GPU_COLUMNS] = {
    {"part", "Part", "", "which kernel", NIB_COLUMN_TEXT, 0},
    {"name", "Name", "", "quantizer, conversion or instruction", NIB_COLUMN_TEXT, 0},
    {"axis", "Axis", "", "direction of the blocks", NIB_COLUMN_TEXT, 0},
    {"type", "Type", "", "input type", NIB_COLUMN_TEXT, 0},
    {"rotation", "Rotation", "", "size and evaluation of the Hadamard transform", NIB_COLUMN_TEXT, 0},
    {"rounding", "Rounding", "", "rounding to a level", NIB_COLUMN_TEXT, 0},
    {"inputs", "Inputs", "", "input set", NIB_COLUMN_TEXT, 0},
    {"calls", "Calls", "1", "calls of the plug-in", NIB_COLUMN_INTEGER, 0},
    {"compared", "Compared", "1", "elements, outputs or bytes compared", NIB_COLUMN_INTEGER, 0},
    {"tensor_scale_differences", "Tensor", "1", "tensor amax and tensor scales that differ", NIB_COLUMN_INTEGER, 0},
    {"scale_differences", "Scales", "1", "block scales that differ", NIB_COLUMN_INTEGER, 0},
    {"code_differences", "Codes", "1", "codes that differ", NIB_COLUMN_INTEGER, 0},
    {"byte_differences", "Bytes", "1", "packed bytes that differ", NIB_COLUMN_INTEGER, 0},
    {"value_differences", "Values", "1", "values or outputs that differ in a bit; NaN equals NaN", NIB_COLUMN_INTEGER, 0},
    {"result", "Result", "", "equal, DIFFERS, or why nothing was compared", NIB_COLUMN_TEXT, 0},
    {"first", "First difference", "", "stage and place of the first difference, and both values; or the reason", NIB_COLUMN_TEXT, 0},
};

enum nib_status nib_gpu_report_new(struct nib_table **out, struct nib_error *error) {
    return nib_table_new("gpu_check", columns, NIB_GPU_COLUMNS, out, error);
}

uint64_t nib_gpu_counts_different(const struct nib_gpu_counts *c) {
    return c->tensor + c->scales + c->codes + c->bytes + c->values;
}

void nib_gpu_counts_note(struct nib_gpu_counts *counts, const char *format, ...) {
    if (counts->first[0] != '\0') return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(counts->first, sizeof counts->first, format, arguments);
    va_end(arguments);
}

static size_t new_row(struct nib_table *report, const struct nib_gpu_case *what) {
    const char *const texts[] = {what->part,     what->name,     what->axis,  what->type,
                                 what->rotation, what->rounding, what->inputs};
    size_t row = nib_table_row(report);
    if (row == SIZE_MAX) return row;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        nib_table_set_text(report, row, i, texts[i] == NULL ? "" : texts[i]);
    return row;
}

enum nib_status nib_gpu_report_add(struct nib_table *report, const struct nib_gpu_case *what,
                                   const struct nib_gpu_counts *c, struct nib_error *error) {
    size_t row = new_row(report, what);
    if (row == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "gpu check: out of memory");
    const uint64_t numbers[] = {c->calls, c->compared, c->tensor, c->scales, c->codes, c->bytes, c->values};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        nib_table_set_integer(report, row, NIB_GPU_CALLS + i, (int64_t)numbers[i]);
    nib_table_set_text(report, row, NIB_GPU_RESULT, nib_gpu_counts_different(c) > 0 ? NIB_GPU_DIFFERS : NIB_GPU_EQUAL);
    nib_table_set_text(report, row, NIB_GPU_FIRST, c->first);
    return NIB_OK;
}

enum nib_status nib_gpu_report_skip(struct nib_table *report, const struct nib_gpu_case *what, const char *result,
                                    const char *why, struct nib_error *error) {
    size_t row = new_row(report, what);
    if (row == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "gpu check: out of memory");
    nib_table_set_text(report, row, NIB_GPU_RESULT, result);
    nib_table_set_text(report, row, NIB_GPU_FIRST, why);
    return NIB_OK;
}

enum nib_status nib_gpu_report_failure(struct nib_table *report, const struct nib_gpu_case *what,
                                       enum nib_status status, struct nib_error *error) {
    if (status != NIB_EIO && status != NIB_EUNAVAILABLE && status != NIB_EINVAL) return status;
    struct nib_error reason = {0};
    if (error != NULL) reason = *error;
    status = nib_gpu_report_skip(report, what, NIB_GPU_FAILED, reason.text, error);
    if (status == NIB_OK && error != NULL) *error = (struct nib_error){0};
    return status;
}

void nib_gpu_report_totals(const struct nib_table *report, struct nib_gpu_totals *out) {
    size_t part = 0, compared = 0, result = 0;
    memset(out, 0, sizeof *out);
    if (!nib_table_find_column(report, "part", &part) || !nib_table_find_column(report, "compared", &compared) ||
        !nib_table_find_column(report, "result", &result))
        return;
    out->rows = nib_table_rows(report);
    for (size_t row = 0; row < out->rows; row++) {
        const char *name = nib_table_text(report, row, part), *said = nib_table_text(report, row, result);
        uint64_t count = (uint64_t)nib_table_integer(report, row, compared);
        if (strcmp(name, "quantize") == 0) out->quantized += count;
        if (strcmp(name, "rotate") == 0) out->rotated += count;
        if (strcmp(name, "mma") == 0 || strcmp(name, "cublaslt") == 0 || strcmp(name, "product") == 0)
            out->products += count;
        if (strcmp(said, NIB_GPU_DIFFERS) == 0 || strcmp(said, NIB_GPU_FAILED) == 0)
            out->differing_rows++;
        else if (strcmp(said, NIB_GPU_NOT_RUN) == 0)
            out->not_run++;
        else if (strcmp(said, NIB_GPU_EQUAL) != 0)
            out->without_counterpart++;
    }
}

/* The row of the summary that `row` of the report belongs to, or SIZE_MAX. */
static size_t summary_row(const struct nib_table *summary, const struct nib_table *report, size_t row) {
    static const size_t keys[] = {NIB_GPU_PART, NIB_GPU_NAME, NIB_GPU_ROTATION};
    for (size_t s = nib_table_rows(summary); s-- > 0;) {
        bool same = true;
        for (size_t k = 0; k < 3 && same; k++)
            same = nib_table_is(summary, s, keys[k], nib_table_text(report, row, keys[k]));
        bool ran = nib_table_integer(report, row, NIB_GPU_CALLS) > 0,
             summary_ran = nib_table_integer(summary, s, NIB_GPU_CALLS) > 0;
        if (same && ran == summary_ran) return s;
    }
    return SIZE_MAX;
}

enum nib_status nib_gpu_report_summary(const struct nib_table *report, struct nib_table **out,
                                       struct nib_error *error) {
    struct nib_table *summary;
    enum nib_status status = nib_table_new("gpu_check_summary", columns, NIB_GPU_COLUMNS, &summary, error);
    if (status != NIB_OK) return status;
    static const char *const parts[] = {"quantize", "dequantize", "rotate", "convert", "swizzle", "mma", "cublaslt"};
    const size_t rows = nib_table_rows(report);
    for (size_t i = 0; i < rows * sizeof parts / sizeof *parts; i++) {
        size_t row = i % rows;
        if (!nib_table_is(report, row, NIB_GPU_PART, parts[i / rows])) continue;
        size_t s = summary_row(summary, report, row);
        bool fresh = s == SIZE_MAX;
        if (fresh) s = nib_table_row(summary);
        if (s == SIZE_MAX) {
            nib_table_free(summary);
            return nib_fail(error, NIB_ENOMEM, "gpu check: out of memory");
        }
        for (size_t c = NIB_GPU_PART; c <= NIB_GPU_INPUTS; c++) {
            if (fresh)
                nib_table_set_text(summary, s, c, nib_table_text(report, row, c));
            else if (!nib_table_is(summary, s, c, nib_table_text(report, row, c)))
                nib_table_set_text(summary, s, c, "all");
        }
        for (size_t c = NIB_GPU_CALLS; c <= NIB_GPU_VALUES; c++)
            nib_table_set_integer(summary, s, c, nib_table_integer(summary, s, c) + nib_table_integer(report, row, c));
        if (fresh || (nib_table_is(summary, s, NIB_GPU_RESULT, NIB_GPU_EQUAL) &&
                      !nib_table_is(report, row, NIB_GPU_RESULT, NIB_GPU_EQUAL))) {
            nib_table_set_text(summary, s, NIB_GPU_RESULT, nib_table_text(report, row, NIB_GPU_RESULT));
            nib_table_set_text(summary, s, NIB_GPU_FIRST, nib_table_text(report, row, NIB_GPU_FIRST));
        }
    }
    *out = summary;
    return NIB_OK;
}
