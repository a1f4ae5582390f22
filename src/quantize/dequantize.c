#include "base/error.h"
#include "base/fpenv.h"
#include "base/threads.h"
#include "quantize/stages.h"
#include "quantize/quantize_ref.h"

static uint32_t scale_at(const struct nib_quantized *t, size_t row, size_t column) {
    const uint8_t *bytes = t->scales + (row * t->scale_cols + column) * t->scale_bytes;
    uint32_t code = 0;
    for (unsigned i = 0; i < t->scale_bytes; i++) code |= (uint32_t)bytes[i] << 8 * i;
    return code;
}

/* One line of blocks: the 16 values of each block scale, or of each part of a block, are computed once and looked up.
 */
static void line_of_blocks(const struct nib_quantizer *q, const struct nib_tensor_scale *t,
                           const struct nib_quantized *in, size_t line, float *values) {
    bool along_cols = in->axis == NIB_ALONG_COLS;
    const unsigned parts = nib_scale_parts(q->block->scale);
    size_t inner = along_cols ? in->cols : in->rows, block = q->block->block_cols, size = block / parts;
    struct nib_tensor_scale own = *t;
    size_t seen = SIZE_MAX;
    for (size_t start = 0; start < inner; start += size) {
        float value[NIB_CODES];
        size_t here = line * in->line_parts + nib_tensor_part(q, start);
        if (in->line_amax != NULL && here != seen) own = nib_tensor_scale_of_amax(q, NIB_F32, in->line_amax[here]);
        seen = here;
        uint32_t scale = scale_at(in, line / q->block->block_rows, start / block);
        unsigned part = (unsigned)(start % block / size);
        for (unsigned code = 0; code < NIB_CODES; code++)
            value[code] = nib_ref_dequantize(q, &own, scale, part, (uint8_t)code);
        size_t end = inner - start < size ? inner : start + size;
        for (size_t j = start; j < end; j++) {
            size_t at = along_cols ? line * in->cols + j : j * in->cols + line;
            uint8_t code =
                in->codes != NULL ? in->codes[at] : in->packed[line * in->packed_stride + j / 2] >> 4 * (j % 2);
            values[at] = value[code & 15];
        }
    }
}

/* Elements that are not worth a second thread. */
enum { SMALL = 1 << 13 };

enum nib_status nib_dequantize(const struct nib_quantizer *q, const struct nib_quantized *in, float *values,
                               struct nib_error *error) {
    if (q == NULL || in == NULL || (values == NULL && in->rows != 0 && in->cols != 0))
        return nib_fail(error, NIB_EINVAL, "the quantizer, the quantized matrix or the room for values is NULL");
    struct nib_view shape = {.data = "", .dtype = NIB_F32, .rows = in->rows, .cols = in->cols, .stride = in->cols};
    enum nib_status status = nib_quantized_check(q, shape, in->axis, in, error);
    if (status != NIB_OK) return status;
    if (in->codes == NULL && in->packed == NULL)
        return nib_fail(error, NIB_EINVAL, "dequantize: neither codes nor packed codes");
    if (in->scales == NULL) return nib_fail(error, NIB_EINVAL, "dequantize: no block scales");
    struct nib_tensor_scale t = nib_tensor_scale_none(q, NIB_F32);
    if (q->block->has_tensor_scale) {
        t = nib_tensor_scale_of_amax(q, NIB_F32, in->tensor_amax);
        t.amax = in->tensor_amax;
        t.encode = in->tensor_scale_encode;
        t.decode = in->tensor_scale_decode;
    }
    size_t lines = in->axis == NIB_ALONG_COLS ? in->rows : in->cols;
#pragma omp parallel num_threads(nib_threads_for(0, in->rows * in->cols / SMALL))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(static)
        for (size_t line = 0; line < lines; line++) line_of_blocks(q, &t, in, line, values);
        nib_fpenv_leave(saved);
    }
    return NIB_OK;
}
