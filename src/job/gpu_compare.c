#include "job/gpu_compare.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "core/convert.h"
#include "core/philox.h"
#include "core/widen.h"
#include "job/gpu_inputs.h"

/* Waking threads costs more than a small tensor. */
static int threads_for(const struct nib_gpu_comparison *how, struct nib_view x) {
    return x.rows * x.cols < 1 << 17 ? 1 : how->threads;
}

static bool same_bits(uint32_t a, uint32_t b) { return a == b || (nib_bits_are_nan(a) && nib_bits_are_nan(b)); }

/* Values at the positions of the input; returns how many differ, and the first. */
static uint64_t different_values(const float *device, const float *emulator, size_t count, size_t *first) {
    uint64_t different = 0;
    size_t least = SIZE_MAX;
#pragma omp parallel for reduction(+ : different) reduction(min : least) schedule(static) if (count > 1 << 17)
    for (size_t i = 0; i < count; i++) {
        uint32_t a = nib_bits_of_float(device[i]), b = nib_bits_of_float(emulator[i]);
        if (same_bits(a, b)) continue;
        different++;
        if (i < least) least = i;
    }
    *first = least;
    return different;
}

static void note_input(struct nib_gpu_counts *counts, struct nib_view x, size_t r, size_t c, const char *stage,
                       uint32_t device, uint32_t emulator) {
    float value;
    nib_widen(x, r * x.stride + c, 1, &value);
    nib_gpu_counts_note(counts, "%s of (%zu, %zu) of %zux%zu: device %08X, emulator %08X; x = %08X (%.9g)", stage, r, c,
                        x.rows, x.cols, device, emulator, nib_bits_of_float(value), (double)value);
}

static void compare_tensor(const struct nib_gpu_quantized *g, const struct nib_quantized *q,
                           struct nib_gpu_counts *counts) {
    const struct {
        const char *what;
        float device, emulator;
    } pairs[] = {{"tensor amax", g->tensor_amax, q->tensor_amax},
                 {"tensor encode scale", g->tensor_scale_encode, q->tensor_scale_encode},
                 {"tensor decode scale", g->tensor_scale_decode, q->tensor_scale_decode}};
    for (size_t i = 0; i < 3; i++) {
        uint32_t a = nib_bits_of_float(pairs[i].device), b = nib_bits_of_float(pairs[i].emulator);
        if (same_bits(a, b)) continue;
        counts->tensor++;
        nib_gpu_counts_note(counts, "%s: device %08X, emulator %08X", pairs[i].what, a, b);
    }
}

static void compare_scales(const struct nib_gpu_quantized *g, const struct nib_quantized *q,
                           struct nib_gpu_counts *counts) {
    size_t entries = q->scale_rows * q->scale_cols;
    if (memcmp(g->scales, q->scales, entries * q->scale_bytes) == 0) return;
    for (size_t i = 0; i < entries; i++) {
        uint32_t a = 0, b = 0;
        memcpy(&a, g->scales + i * q->scale_bytes, q->scale_bytes);
        memcpy(&b, q->scales + i * q->scale_bytes, q->scale_bytes);
        if (a == b || (q->scale_bytes == 4 && same_bits(a, b))) continue;
        counts->scales++;
        nib_gpu_counts_note(counts, "block scale (%zu, %zu) of %zux%zu: device %X, emulator %X", i / q->scale_cols,
                            i % q->scale_cols, q->scale_rows, q->scale_cols, a, b);
    }
}

static void compare_packed(const struct nib_gpu_quantized *g, const struct nib_quantized *q, struct nib_view x,
                           struct nib_gpu_counts *counts) {
    bool down = q->axis == NIB_ALONG_ROWS;
    size_t outer = down ? q->cols : q->rows, inner = down ? q->rows : q->cols, bytes = (inner + 1) / 2;
    for (size_t line = 0; line < outer; line++) {
        const uint8_t *device = g->packed + line * bytes, *emulator = q->packed + line * q->packed_stride;
        if (memcmp(device, emulator, bytes) == 0) continue;
        for (size_t b = 0; b < bytes; b++) {
            if (device[b] == emulator[b]) continue;
            counts->bytes++;
            for (unsigned half = 0; half < 2; half++) {
                unsigned d = device[b] >> (4 * half) & 15u, e = emulator[b] >> (4 * half) & 15u;
                size_t at = 2 * b + half;
                if (d == e) continue;
                if (at >= inner) {
                    nib_gpu_counts_note(counts, "padding of line %zu: device %X, emulator %X", line, d, e);
                } else {
                    counts->codes++;
                    note_input(counts, x, down ? at : line, down ? line : at, "code", d, e);
                }
            }
        }
    }
}

/* Buffers of the device's side. */
struct buffers {
    struct nib_gpu_quantized out;
    float *again;                /* by the standalone kernel */
};

static void buffers_free(struct buffers *b) {
    free(b->out.packed);
    free(b->out.scales);
    free(b->out.values);
    free(b->again);
}

static enum nib_status buffers_make(const struct nib_quantized *q, bool again, struct buffers *b,
                                    struct nib_error *error) {
    size_t outer = q->axis == NIB_ALONG_ROWS ? q->cols : q->rows, inner = q->axis == NIB_ALONG_ROWS ? q->rows : q->cols;
    memset(b, 0, sizeof *b);
    b->out.packed = nib_alloc_raw(outer * ((inner + 1) / 2), 1, "packed codes of the device", error);
    b->out.scales = nib_alloc_raw(q->scale_rows * q->scale_cols, q->scale_bytes, "scales of the device", error);
    b->out.values = nib_alloc_raw(q->rows * q->cols, sizeof(float), "values of the device", error);
    if (again) b->again = nib_alloc_raw(q->rows * q->cols, sizeof(float), "values of the device", error);
    return b->out.packed == NULL || b->out.scales == NULL || b->out.values == NULL || (again && b->again == NULL)
               ? NIB_ENOMEM
               : NIB_OK;
}

/* `room` takes the rotated tensor where there is a rotation that was not computed yet. */
static enum nib_status emulate(const struct nib_gpu_comparison *how, struct nib_view x, float *room,
                               struct nib_quantized *q, struct nib_error *error) {
    struct nib_quantize_options options = {.axis = how->axis,
                                           .has_tensor_amax = how->has_tensor_amax,
                                           .tensor_amax = how->tensor_amax,
                                           .threads = threads_for(how, x),
                                           .seed = how->seed,
                                           .stream = 5};
    if (how->turn->device.size <= 1) return nib_quantize(how->quantizer, x, &options, q, error);
    const float *rotated = how->rotated;
    if (rotated == NULL) {
        enum nib_status status =
            nib_gpu_turn_emulate(how->turn, how->unit, x, how->axis, threads_for(how, x), room, error);
        if (status != NIB_OK) return status;
        rotated = room;
    }
    struct nib_view turned = {rotated, NIB_F32, x.rows, x.cols, x.cols};
    return nib_quantize(how->quantizer, turned, &options, q, error);
}

static const enum nib_gpu_dtype dtypes[] = {NIB_GPU_F32, NIB_GPU_BF16, NIB_GPU_F16};

enum nib_status nib_gpu_compare_made(const struct nib_gpu *gpu, const struct nib_gpu_quantizer *device,
                                     struct nib_view x, bool has_tensor_amax, float tensor_amax,
                                     const struct nib_quantized *q, struct nib_gpu_counts *counts,
                                     struct nib_gpu_counts *dequantized, struct nib_error *error) {
    const struct nib_gpu_plugin *plugin = gpu->plugin;
    const size_t count = x.rows * x.cols;
    struct buffers b = {0};
    char message[256] = "";
    size_t first;
    enum nib_status status = buffers_make(q, dequantized != NULL, &b, error);
    for (int with_values = 0; with_values < 2 && status == NIB_OK; with_values++) {
        struct nib_gpu_quantized out = b.out;
        if (!with_values) out.values = NULL;
        status = nib_gpu_status(plugin->quantize(device, dtypes[x.dtype], x.data, x.rows, x.cols, has_tensor_amax,
                                                 tensor_amax, &out, message, sizeof message),
                                message, error);
        if (status != NIB_OK) break;
        b.out.tensor_amax = out.tensor_amax;
        b.out.tensor_scale_encode = out.tensor_scale_encode;
        b.out.tensor_scale_decode = out.tensor_scale_decode;
        counts->calls++;
        if (device->rule == NIB_GPU_RULE_NVFP4) compare_tensor(&b.out, q, counts);
        compare_scales(&b.out, q, counts);
        compare_packed(&b.out, q, x, counts);
    }
    if (status == NIB_OK) {
        counts->compared += count;
        uint64_t different = different_values(b.out.values, q->values, count, &first);
        counts->values += different;
        if (different > 0)
            note_input(counts, x, first / x.cols, first % x.cols, "value", nib_bits_of_float(b.out.values[first]),
                       nib_bits_of_float(q->values[first]));
    }
    if (status == NIB_OK && dequantized != NULL) {
        status = nib_gpu_status(plugin->dequantize(device, b.out.packed, b.out.scales, b.out.tensor_amax, x.rows,
                                                   x.cols, b.again, message, sizeof message),
                                message, error);
        if (status == NIB_OK) {
            dequantized->calls++;
            dequantized->compared += count;
            uint64_t different = different_values(b.again, q->values, count, &first);
            dequantized->values += different;
            if (different > 0)
                note_input(dequantized, x, first / x.cols, first % x.cols, "dequantized value",
                           nib_bits_of_float(b.again[first]), nib_bits_of_float(q->values[first]));
        }
    }
    buffers_free(&b);
    return status;
}

enum nib_status nib_gpu_compare_quantize(const struct nib_gpu_comparison *how, struct nib_view x,
                                         struct nib_gpu_counts *counts, struct nib_gpu_counts *dequantized,
                                         struct nib_error *error) {
    const bool rotates = how->turn->device.size > 1;
    struct nib_gpu_quantizer device;
    struct nib_quantized q;
    float *room = NULL;
    enum nib_status status = nib_gpu_describe_quantizer(how->quantizer, how->axis, &device, error);
    if (status != NIB_OK) return status;
    if (rotates) device.rotation = how->turn->device;
    device.seed = how->seed;
    device.stream = 5;
    status = nib_quantized_alloc(how->quantizer, x.rows, x.cols, how->axis,
                                 NIB_WANT_PACKED | NIB_WANT_SCALES | NIB_WANT_VALUES, &q, error);
    if (status != NIB_OK) return status;
    if (rotates && how->rotated == NULL) {
        room = nib_alloc_raw(x.rows * x.cols, sizeof *room, "a rotated tensor", error);
        if (room == NULL) status = NIB_ENOMEM;
    }
    if (status == NIB_OK) status = emulate(how, x, room, &q, error);
    if (status == NIB_OK)
        status = nib_gpu_compare_made(how->gpu, &device, x, how->has_tensor_amax, how->tensor_amax, &q, counts,
                                      dequantized, error);
    free(room);
    nib_quantized_free(&q);
    return status;
}

enum nib_status nib_gpu_compare_turned(const struct nib_gpu *gpu, const struct nib_gpu_rotation *r, enum nib_axis axis,
                                       struct nib_view x, const float *emulator, struct nib_gpu_counts *counts,
                                       struct nib_error *error) {
    const size_t count = x.rows * x.cols;
    char message[256] = "";
    float *device = nib_alloc_raw(count, sizeof *device, "a rotated tensor", error);
    void *raw = nib_alloc_raw(count, 4, "a rotated tensor", error);
    enum nib_status status = device == NULL || raw == NULL ? NIB_ENOMEM : NIB_OK;
    if (status == NIB_OK)
        status = nib_gpu_status(gpu->plugin->rotate(r, dtypes[x.dtype], x.data, x.rows, x.cols, axis == NIB_ALONG_ROWS,
                                                    raw, message, sizeof message),
                                message, error);
    if (status == NIB_OK) {
        size_t first;
        nib_widen((struct nib_view){raw, r->round_to_bf16 ? NIB_BF16 : NIB_F32, 1, count, count}, 0, count, device);
        counts->calls++;
        counts->compared += count;
        uint64_t different = different_values(device, emulator, count, &first);
        counts->values += different;
        if (different > 0)
            note_input(counts, x, first / x.cols, first % x.cols, "rotated value", nib_bits_of_float(device[first]),
                       nib_bits_of_float(emulator[first]));
    }
    free(device);
    free(raw);
    return status;
}

enum nib_status nib_gpu_compare_rotate(const struct nib_gpu_comparison *how, struct nib_view x,
                                       struct nib_gpu_counts *counts, struct nib_error *error) {
    float *room = how->rotated == NULL ? nib_alloc_raw(x.rows * x.cols, sizeof *room, "a rotated tensor", error) : NULL;
    const float *emulator = how->rotated == NULL ? room : how->rotated;
    enum nib_status status = emulator == NULL ? NIB_ENOMEM : NIB_OK;
    if (status == NIB_OK && room != NULL)
        status = nib_gpu_turn_emulate(how->turn, how->unit, x, how->axis, threads_for(how, x), room, error);
    if (status == NIB_OK)
        status = nib_gpu_compare_turned(how->gpu, &how->turn->device, how->axis, x, emulator, counts, error);
    free(room);
    return status;
}

/* Where entry (r, c) stands: tiles of tile_rows x 4, row-major over tiles; inside a 128x4 tile row r lies at
 * (r mod 32) * 16 + (r / 32) * 4 (cuBLAS documentation, "1D block scaling factors layout"). */
static size_t swizzled(size_t r, size_t c, size_t cols, unsigned tile_rows) {
    size_t across = (cols + 3) / 4, inside = r % tile_rows;
    size_t place = tile_rows == 128 ? inside % 32 * 16 + inside / 32 * 4 : inside * 4;
    return (r / tile_rows * across + c / 4) * tile_rows * 4 + place + c % 4;
}

enum nib_status nib_gpu_compare_swizzle(const struct nib_gpu *gpu, size_t rows, size_t cols, unsigned tile_rows,
                                        uint64_t seed, struct nib_gpu_counts *counts, struct nib_error *error) {
    size_t total = (rows + tile_rows - 1) / tile_rows * tile_rows * ((cols + 3) / 4 * 4);
    char message[256] = "";
    uint8_t *linear = nib_alloc_raw(rows * cols, 1, "scales", error),
            *device = nib_alloc_raw(total, 1, "scales", error);
    uint8_t *expected = nib_alloc(total, 1, "scales", error);
    enum nib_status status = linear == NULL || device == NULL || expected == NULL ? NIB_ENOMEM : NIB_OK;
    if (status == NIB_OK) {
        for (size_t i = 0; i < rows * cols; i++) linear[i] = (uint8_t)nib_philox(seed, i, 5).word[0];
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < cols; c++) expected[swizzled(r, c, cols, tile_rows)] = linear[r * cols + c];
        status = nib_gpu_status(gpu->plugin->swizzle(linear, rows, cols, tile_rows, device, message, sizeof message),
                                message, error);
    }
    if (status == NIB_OK) {
        counts->calls++;
        counts->compared += total;
        for (size_t i = 0; i < total; i++) {
            if (device[i] == expected[i]) continue;
            counts->bytes++;
            nib_gpu_counts_note(counts, "byte %zu of %zux%zu scales: device %02X, definition %02X", i, rows, cols,
                                device[i], expected[i]);
        }
    }
    free(linear);
    free(device);
    free(expected);
    return status;
}
