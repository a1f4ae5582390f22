#include <float.h>
#include <math.h>
#include "base/error.h"
#include "base/fpenv.h"
#include "base/threads.h"
#include "core/convert.h"
#include "quantize/stages.h"

/* Pieces that fit the first-level cache, whatever the shape. */
enum { PIECE = 1 << 14 };

static uint32_t piece_amax(const struct nib_view *x, const struct nib_isa *isa, size_t offset, size_t count) {
    if (x->dtype == NIB_F32) return isa->amax_f32((const float *)x->data + offset, count);
    uint16_t half = (uint16_t)isa->amax_half((const uint16_t *)x->data + offset, count);
    return x->dtype == NIB_BF16 ? nib_bits_of_bf16(half) : nib_bits_of_f16(half);
}

static float element(const struct nib_view *x, size_t at) {
    switch (x->dtype) {
    case NIB_F32: return ((const float *)x->data)[at];
    case NIB_BF16: return nib_float_of_bits(nib_bits_of_bf16(((const uint16_t *)x->data)[at]));
    case NIB_F16: break;
    }
    return nib_float_of_bits(nib_bits_of_f16(((const uint16_t *)x->data)[at]));
}

/* NaN has the largest bits, so a piece with one is looked through again for the largest number. */
static uint32_t amax_without_nan(const struct nib_view *x, size_t offset, size_t count) {
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = nib_bits_of_float(element(x, offset + i)) & NIB_BITS_MAGNITUDE;
        if (magnitude <= NIB_BITS_INFINITY && magnitude > most) most = magnitude;
    }
    return most;
}

/* Bits of the largest magnitude of a piece. */
static uint32_t piece_bits(const struct nib_quantizer *q, const struct nib_view *x, const struct nib_isa *isa,
                           size_t offset, size_t count) {
    bool skip = q->axes.amax_nan == NIB_AMAX_NAN_SKIP && q->axes.tensor_amax_nan == NIB_TENSOR_AMAX_NAN_SAME;
    uint32_t here = piece_amax(x, isa, offset, count);
    return skip && here > NIB_BITS_INFINITY ? amax_without_nan(x, offset, count) : here;
}

static float amax_of_bits(const struct nib_quantizer *q, uint32_t most) {
    if (most == NIB_BITS_INFINITY && q->axes.amax_inf == NIB_AMAX_INF_MAX) return FLT_MAX;
    return most > NIB_BITS_INFINITY ? NAN : nib_float_of_bits(most);
}

float nib_amax_of_run(const struct nib_quantizer *q, const struct nib_view *x, const struct nib_isa *isa, size_t offset,
                      size_t count) {
    return amax_of_bits(q, piece_bits(q, x, isa, offset, count));
}

float nib_amax_compute(const struct nib_quantizer *q, struct nib_view x, int threads, const struct nib_isa *isa) {
    bool dense = x.stride == x.cols;
    size_t lines = dense ? 1 : x.rows, length = dense ? x.rows * x.cols : x.cols;
    size_t pieces = (length + PIECE - 1) / PIECE;
    uint32_t most = 0;
#pragma omp parallel for num_threads(nib_threads_for(threads, lines *pieces)) reduction(max : most) schedule(static)
    for (size_t i = 0; i < lines * pieces; i++) {
        struct nib_fpenv saved = nib_fpenv_enter();
        size_t start = i % pieces * PIECE, offset = i / pieces * x.stride + start;
        size_t count = length - start < PIECE ? length - start : PIECE;
        uint32_t here = piece_bits(q, &x, isa, offset, count);
        most = here > most ? here : most;
        nib_fpenv_leave(saved);
    }
    return amax_of_bits(q, most);
}

enum nib_status nib_tensor_amax(const struct nib_quantizer *q, struct nib_view x, int threads, float *out,
                                struct nib_error *error) {
    const struct nib_isa *isa;
    bool reference;
    if (q == NULL || out == NULL) return nib_fail(error, NIB_EINVAL, "the quantizer or the result is NULL");
    enum nib_status status = nib_view_check(x, error);
    if (status == NIB_OK) status = nib_isa_choose(NULL, &isa, &reference, error);
    if (status != NIB_OK) return status;
    *out = nib_amax_compute(q, x, threads, isa);
    return NIB_OK;
}
