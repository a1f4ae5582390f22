#include "job/gpu_inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "core/convert.h"
#include "core/philox.h"
#include "core/widen.h"
#include "format/quantizer.h"
#include "job/sample.h"

const char *const nib_gpu_inputs_names[NIB_GPU_INPUTS_COUNT] = {"gaussian", "t3",   "ties",   "nan",   "infinity",
                                                                "tiny",     "huge", "spread", "zeros", "bits"};

static size_t bytes_of(enum nib_dtype dtype) { return dtype == NIB_F32 ? 4 : 2; }
const char *nib_gpu_dtype_name(enum nib_dtype dtype) {
    static const char *const names[] = {"fp32", "bf16", "fp16"};
    return names[dtype];
}

void nib_gpu_tensor_free(struct nib_gpu_tensor *tensor) {
    free(tensor->data);
    tensor->data = NULL;
}

static enum nib_status allocate(enum nib_dtype dtype, size_t rows, size_t cols, struct nib_gpu_tensor *out,
                                struct nib_error *error) {
    void *data = nib_alloc_raw(rows * cols, bytes_of(dtype), "an input of the check", error);
    if (data == NULL) return NIB_ENOMEM;
    *out = (struct nib_gpu_tensor){{data, dtype, rows, cols, cols}, data};
    return NIB_OK;
}

static void store(const struct nib_gpu_tensor *t, size_t i, uint32_t bits) {
    if (t->view.dtype == NIB_F32)
        ((uint32_t *)t->data)[i] = bits;
    else
        ((uint16_t *)t->data)[i] = t->view.dtype == NIB_BF16 ? nib_bf16_of_bits(bits) : nib_f16_of_bits(bits);
}

enum nib_status nib_gpu_tensor_cast(struct nib_view from, enum nib_dtype dtype, struct nib_gpu_tensor *out,
                                    struct nib_error *error) {
    struct nib_gpu_tensor t;
    enum nib_status status = allocate(dtype, from.rows, from.cols, &t, error);
    if (status != NIB_OK) return status;
    float *row = nib_alloc_raw(from.cols, sizeof *row, "a row", error);
    if (row == NULL) {
        nib_gpu_tensor_free(&t);
        return NIB_ENOMEM;
    }
    for (size_t r = 0; r < from.rows; r++) {
        nib_widen(from, r * from.stride, from.cols, row);
        for (size_t c = 0; c < from.cols; c++) store(&t, r * from.cols + c, nib_bits_of_float(row[c]));
    }
    free(row);
    *out = t;
    return NIB_OK;
}

/* The range of a type's exponents, in powers of two from its smallest subnormal. */
static void exponents(enum nib_dtype dtype, int *lowest, int *highest) {
    *lowest = dtype == NIB_F32 ? -149 : dtype == NIB_BF16 ? -133 : -24;
    *highest = dtype == NIB_F16 ? 15 : 127;
}

/* A NaN of the type: quiet or signaling, of either sign, with a random payload. */
static void store_nan(const struct nib_gpu_tensor *t, size_t i, uint32_t random) {
    uint32_t sign = random & 0x80000000u, payload = random & 0x7FFFFFu;
    if (t->view.dtype == NIB_F32)
        ((uint32_t *)t->data)[i] = sign | 0x7F800000u | (payload == 0 ? 1 : payload);
    else {
        uint32_t mask = t->view.dtype == NIB_BF16 ? 0x7Fu : 0x3FFu, top = t->view.dtype == NIB_BF16 ? 0x7F80u : 0x7C00u;
        ((uint16_t *)t->data)[i] = (uint16_t)(sign >> 16 | top | ((payload & mask) == 0 ? 1 : payload & mask));
    }
}

/* Element i of a set, from a Gaussian number g and random words. */
static void element(enum nib_gpu_inputs set, const struct nib_gpu_tensor *t, size_t i, float g, const uint32_t w[4]) {
    const size_t row = i / t->view.cols, col = i % t->view.cols;
    int lowest, highest;
    exponents(t->view.dtype, &lowest, &highest);
    float x = g;
    uint32_t sign = w[1] & 0x80000000u;
    switch (set) {
    case NIB_GPU_INPUTS_NAN:
        if (w[0] % 40 == 0 || (row / 16 % 4 == 1 && col / 32 % 4 == 2)) {
            store_nan(t, i, w[1]);
            return;
        }
        break;
    case NIB_GPU_INPUTS_INFINITY:
        if (w[0] % 200 == 0 || (row % 7 == 3 && col % 5 == 2 && col < 128)) x = sign ? -INFINITY : INFINITY;
        break;
    case NIB_GPU_INPUTS_TINY: x = ldexpf(g, lowest + (int)(row % 40) - 2 + (int)(w[0] % 5)); break;
    case NIB_GPU_INPUTS_HUGE: x = ldexpf(g, highest - (int)(row % 8)); break;
    case NIB_GPU_INPUTS_SPREAD:
        x = ldexpf(1.0f + (float)(w[2] >> 9) * 0x1p-23f, lowest + (int)(w[0] % (uint32_t)(highest - lowest + 1)));
        x = sign ? -x : x;
        break;
    case NIB_GPU_INPUTS_ZEROS:
        if (w[0] % 64 != 0 || row % 3 == 0) x = sign ? -0.0f : 0.0f;
        break;
    case NIB_GPU_INPUTS_BITS:
        if (t->view.dtype == NIB_F32)
            ((uint32_t *)t->data)[i] = w[0];
        else
            ((uint16_t *)t->data)[i] = (uint16_t)w[0];
        return;
    default: break;
    }
    store(t, i, nib_bits_of_float(x));
}

/* The input type's number next to bits, `steps` away in magnitude, as bits of that type's pattern. */
static uint32_t step_bits(uint32_t pattern, int steps) { return (uint32_t)((int64_t)pattern + steps); }

/* Replaces all but the largest element of each block by a threshold times the block's scale, give or take two steps. */
static enum nib_status make_ties(const struct nib_quantizer *quantizer, enum nib_axis axis, uint64_t seed, int threads,
                                 struct nib_gpu_tensor *t, struct nib_error *error) {
    struct nib_quantized q;
    enum nib_status status =
        nib_quantized_alloc(quantizer, t->view.rows, t->view.cols, axis, NIB_WANT_SCALES, &q, error);
    if (status != NIB_OK) return status;
    status =
        nib_quantize(quantizer, t->view, &(struct nib_quantize_options){.axis = axis, .threads = threads}, &q, error);
    struct nib_block block = *quantizer->block;
    float threshold[NIB_THRESHOLDS];
    unsigned count = 0;
    for (unsigned i = 0; i < NIB_THRESHOLDS; i++)
        if (quantizer->rule.threshold[i] != INT32_MAX)
            threshold[count++] = nib_float_of_bits(nib_bits_of_key(quantizer->rule.threshold[i]));
    for (size_t r = 0; r < t->view.rows && status == NIB_OK; r++)
        for (size_t c = 0; c < t->view.cols; c++) {
            size_t i = r * t->view.cols + c, across = axis == NIB_ALONG_COLS ? r : c,
                   along = axis == NIB_ALONG_COLS ? c : r;
            size_t at = across / block.block_rows * q.scale_cols + along / block.block_cols;
            uint32_t stored = 0;
            memcpy(&stored, q.scales + at * q.scale_bytes, q.scale_bytes);
            float scale = nib_scale_decode(block.scale, stored) * q.tensor_scale_decode, x;
            nib_widen(t->view, i, 1, &x);
            struct nib_philox_block w = nib_philox(seed ^ 0x7135, i, 1);
            /* What is largest sets the scale and stays: half the elements, the large ones among them. */
            if (fabsf(x) > 0.45f * scale * block.element->max_magnitude || w.word[3] % 4 == 0) continue;
            uint32_t tie = nib_bits_of_float(threshold[w.word[0] % count] * scale);
            int steps = (int)(w.word[1] % 5) - 2;
            if (t->view.dtype == NIB_F32) {
                ((uint32_t *)t->data)[i] = step_bits(tie, (tie & 0x7FFFFFFF) > 2 ? steps : 0);
            } else {
                uint16_t *p = (uint16_t *)t->data + i;
                *p = t->view.dtype == NIB_BF16 ? nib_bf16_of_bits(tie) : nib_f16_of_bits(tie);
                if ((*p & 0x7FFF) > 2 && (*p & 0x7FFF) < (t->view.dtype == NIB_BF16 ? 0x7F7D : 0x7BFD))
                    *p = (uint16_t)step_bits(*p, steps);
            }
        }
    nib_quantized_free(&q);
    return status;
}

enum nib_status nib_gpu_inputs_make(enum nib_gpu_inputs set, enum nib_dtype dtype, size_t rows, size_t cols,
                                    uint64_t seed, int threads, const struct nib_quantizer *quantizer,
                                    enum nib_axis axis, struct nib_gpu_tensor *out, struct nib_error *error) {
    const size_t count = rows * cols;
    if (count < 1 << 17) threads = 1;
    struct nib_distribution distribution;
    struct nib_gpu_tensor t;
    enum nib_status status = nib_distribution_parse(set == NIB_GPU_INPUTS_T3 ? "t3" : "gaussian", &distribution, error);
    if (status == NIB_OK) status = allocate(dtype, rows, cols, &t, error);
    if (status != NIB_OK) return status;
    float *numbers = nib_alloc_raw(count, sizeof *numbers, "random numbers", error);
    if (numbers == NULL) {
        nib_gpu_tensor_free(&t);
        return NIB_ENOMEM;
    }
    nib_distribution_fill(&distribution, seed, 0, count, threads, numbers);
    bool plain = set == NIB_GPU_INPUTS_GAUSSIAN || set == NIB_GPU_INPUTS_T3 || set == NIB_GPU_INPUTS_TIES;
#pragma omp parallel for if (count > 1 << 17)
    for (size_t i = 0; i < count; i++) {
        struct nib_philox_block w = {{0}};
        if (!plain) w = nib_philox(seed ^ 0x5EED, i, (uint64_t)set + 2);
        element(set, &t, i, numbers[i], w.word);
    }
    free(numbers);
    if (set == NIB_GPU_INPUTS_TIES) status = make_ties(quantizer, axis, seed, threads, &t, error);
    if (status == NIB_OK)
        *out = t;
    else
        nib_gpu_tensor_free(&t);
    return status;
}
