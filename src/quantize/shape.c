#include <stdlib.h>
#include "base/error.h"
#include "base/memory.h"
#include "quantize/stages.h"

static size_t ceil_div(size_t a, size_t b) {
    return a / b + (a % b != 0);
}

static struct nib_quantized shape_of(const struct nib_quantizer *q, size_t rows, size_t cols, enum nib_axis axis) {
    size_t outer = axis == NIB_ALONG_COLS ? rows : cols, inner = axis == NIB_ALONG_COLS ? cols : rows;
    return (struct nib_quantized){.rows = rows,
                                  .cols = cols,
                                  .axis = axis,
                                  .scale_rows = ceil_div(outer, q->block->block_rows),
                                  .scale_cols = ceil_div(inner, q->block->block_cols),
                                  .scale_bytes = q->block->scale->bytes,
                                  .packed_stride = ceil_div(inner, 2),
                                  .line_parts = nib_tensor_scoped(q) ? nib_tensor_parts(q, inner) : 1};
}

enum nib_status nib_quantized_alloc(const struct nib_quantizer *q, size_t rows, size_t cols, enum nib_axis axis,
                                    unsigned want, struct nib_quantized *out, struct nib_error *error) {
    if (q == NULL || out == NULL) return nib_fail(error, NIB_EINVAL, "the quantizer or the result is NULL");
    enum nib_status status = nib_axis_check(axis, error);
    if (status != NIB_OK) return status;
    struct nib_quantized made = shape_of(q, rows, cols, axis);
    if (cols != 0 && rows > SIZE_MAX / 8 / cols)
        return nib_fail(error, NIB_EINVAL, "a %zu x %zu tensor is larger than memory can address", rows, cols);
    size_t lines = axis == NIB_ALONG_COLS ? rows : cols, scales = made.scale_rows * made.scale_cols;
    bool failed = false;
    if (want & NIB_WANT_CODES) failed |= (made.codes = nib_alloc(rows * cols, 1, "codes", error)) == NULL;
    if (want & NIB_WANT_PACKED)
        failed |= (made.packed = nib_alloc(lines, made.packed_stride, "packed codes", error)) == NULL;
    if (want & NIB_WANT_SCALES) failed |= (made.scales = nib_alloc(scales, made.scale_bytes, "scales", error)) == NULL;
    if (want & NIB_WANT_VALUES)
        failed |= (made.values = nib_alloc(rows * cols, sizeof(float), "values", error)) == NULL;
    if (nib_tensor_scoped(q))
        failed |=
            (made.line_amax = nib_alloc(lines * made.line_parts, sizeof(float), "tensor amax by line", error)) == NULL;
    if (failed) {
        nib_quantized_free(&made);
        return NIB_ENOMEM;
    }
    *out = made;
    return NIB_OK;
}

void nib_quantized_free(struct nib_quantized *quantized) {
    if (quantized == NULL) return;
    free(quantized->codes);
    free(quantized->packed);
    free(quantized->scales);
    free(quantized->values);
    free(quantized->line_amax);
    *quantized = (struct nib_quantized){0};
}

enum nib_status nib_quantized_check(const struct nib_quantizer *q, struct nib_view x, enum nib_axis axis,
                                    const struct nib_quantized *out, struct nib_error *error) {
    struct nib_quantized expected = shape_of(q, x.rows, x.cols, axis);
    if (out->rows != x.rows || out->cols != x.cols || out->axis != axis || out->scale_rows != expected.scale_rows ||
        out->scale_cols != expected.scale_cols || out->scale_bytes != expected.scale_bytes ||
        out->packed_stride < expected.packed_stride)
        return nib_fail(error, NIB_EINVAL, "the result was allocated for another shape than %zu x %zu of quantizer %s",
                        x.rows, x.cols, q->name);
    return NIB_OK;
}
