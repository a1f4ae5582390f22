/* A plug-in without a device: what the CUDA plug-in does, computed by the emulator, so that the check itself can be
 * tested anywhere. NIBBLE_FAKE_GPU names a fault: "code", "scale", "value", "amax", "product" plant one wrong result,
 * "trap" fails a call, "none" has no device, "abi" and "version" are those of another build. */
#include <nibble/quantize.h>
#include <nibble/unit.h>
#include <nibble/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/convert.h"
#include "format/quantizer.h"
#include "gpu/plugin.h"
#include "job/gpu_products.h"
#include "job/gpu_subject.h"

static bool fault(const char *name) {
    const char *asked = getenv("NIBBLE_FAKE_GPU");
    return asked != NULL && strcmp(asked, name) == 0;
}

static int failed(enum nib_status status, const struct nib_error *e, char *error, size_t size) {
    if (status == NIB_OK) return NIB_GPU_OK;
    snprintf(error, size, "%s", e->text);
    return NIB_GPU_FAULT;
}

static int fake_open(int index, char *error, size_t size) {
    if (index == 0 && !fault("none")) return NIB_GPU_OK;
    snprintf(error, size, "device %d does not exist; this machine has %d", index, fault("none") ? 0 : 1);
    return NIB_GPU_NO_DEVICE;
}
static void fake_close(void) {}

static int fake_device(struct nib_gpu_device *out, char *error, size_t size) {
    (void)error;
    (void)size;
    *out = (struct nib_gpu_device){.name = "a fake device", .major = 9, .multiprocessors = 1, .memory_total = 1 << 30,
                                   .memory_free = 1 << 30, .driver = 13000, .runtime = 13000, .built_for = "sm_90a"};
    return NIB_GPU_OK;
}

static enum nib_status make_quantizer(const struct nib_gpu_quantizer *g, const struct nib_quantizer **out, struct nib_error *e);

/* The last one is kept: a check asks for the same again and again. */
static enum nib_status quantizer_of(const struct nib_gpu_quantizer *g, const struct nib_quantizer **out, struct nib_error *e) {
    static struct nib_gpu_quantizer last;
    static const struct nib_quantizer *kept;
    struct nib_gpu_quantizer wanted = *g;
    memset(&wanted.rotation, 0, sizeof wanted.rotation);
    if (kept == NULL || memcmp(&wanted, &last, sizeof last) != 0) {
        if (kept != NULL) nib_quantizer_close(kept);
        kept = NULL;
        enum nib_status status = make_quantizer(g, &kept, e);
        if (status != NIB_OK) return status;
        last = wanted;
    }
    *out = kept;
    return NIB_OK;
}

/* The built-in quantizer, or the grid, that the description came from. */
static enum nib_status make_quantizer(const struct nib_gpu_quantizer *g, const struct nib_quantizer **out, struct nib_error *e) {
    static const char *const elements[] = {"e2m1", "e1m2", "int4", "int4-full", "nf4", "e3m0"};
    static const char *const scales[] = {"e4m3", "e8m0", "fp32"};
    const char *settings[4];
    size_t count = 0;
    const struct nib_quantizer *base, *named;
    enum nib_status status;
    static const char *const torchao[] = {[NIB_GPU_RULE_MX_FLOOR] = "torchao-mxfp4-floor", [NIB_GPU_RULE_MX_CEIL] = "torchao-mxfp4-ceil",
                                          [NIB_GPU_RULE_MX_RCEIL] = "torchao-mxfp4-rceil", [NIB_GPU_RULE_MX_EVEN] = "torchao-mxfp4-even"};
    if (g->rule != NIB_GPU_RULE_ABSMAX && g->infinite_scale_is_nan) return nib_quantizer_open(torchao[g->rule], out, e);
    if (g->rule == NIB_GPU_RULE_NVFP4 || g->rule == NIB_GPU_RULE_MX_FLOOR || g->rule == NIB_GPU_RULE_MX_RCEIL) {
        status = nib_quantizer_open(g->rule == NIB_GPU_RULE_NVFP4 ? "te-nvfp4" : "ocp-mxfp4", &base, e);
    } else if (g->rule == NIB_GPU_RULE_ABSMAX && g->scale == NIB_GPU_SCALE_FP32 && g->block_cols == 16 && g->max_magnitude == 6) {
        status = nib_quantizer_open("e2m1-fp32", &base, e);
    } else if (g->rule == NIB_GPU_RULE_ABSMAX && g->scale == NIB_GPU_SCALE_FP32 && g->block_cols == 16 && g->max_magnitude == 3.5f) {
        status = nib_quantizer_open("e1m2-fp32", &base, e);
    } else {
        const struct nib_element *element = NULL;
        const struct nib_scale *scale;
        for (size_t i = 0; i < 6; i++) {
            if (element != NULL && memcmp(element->level, g->level, sizeof g->level) == 0) break;
            nib_element_close(element);
            status = nib_element_open(elements[i], &element, e);
            if (status != NIB_OK) return status;
        }
        status = nib_scale_open(scales[g->scale], &scale, e);
        if (status != NIB_OK) return status;
        status = nib_quantizer_of_grid(element, scale, g->block_cols, &base, e);
        nib_scale_close(scale);
        nib_element_close(element);
    }
    if (status != NIB_OK) return status;
    if (g->rule == NIB_GPU_RULE_MX_RCEIL) settings[count++] = "block_scale=b*rQ", settings[count++] = "scale_rounding=up";
    bool named_file = g->rule != NIB_GPU_RULE_ABSMAX || (g->scale == NIB_GPU_SCALE_FP32 && g->block_cols == 16 &&
                                                         (g->max_magnitude == 6 || g->max_magnitude == 3.5f));
    if (g->random_bits != 0 && named_file) settings[count++] = "rounding=sr";
    if (g->random_bits > 8 && named_file) settings[count++] = g->random_bits == 16 ? "sr_bits=16" : "sr_bits=32";
    if (g->random_bits != 0 && !named_file) {
        struct nib_quantizer *own;
        memcpy(&own, &base, sizeof own);
        own->axes.rounding = NIB_ROUNDING_SR;
    }
    if (g->amax_nan_propagates) settings[count++] = "amax_nan=propagate";
    if (count == 0) {
        named = base;
    } else {
        status = nib_quantizer_with(base, settings, count, &named, e);
        nib_quantizer_close(base);
    }
    if (status == NIB_OK && g->block_rows == 16) {
        base = named;
        status = nib_gpu_square_blocks(base, &named, e);
        nib_quantizer_close(base);
    }
    *out = named;
    return status;
}

/* As the plug-in describes a rotation. */
static enum nib_status turn_of(const struct nib_gpu_rotation *r, struct nib_gpu_turn *out, const struct nib_unit **unit, struct nib_error *e) {
    char text[2048];
    int used = snprintf(text, sizeof text, "kind: rotation\ntitle: t\nsource: s\nsize: %u\nsigns: [", r->size);
    for (unsigned i = 0; i < r->size; i++) used += snprintf(text + used, sizeof text - (size_t)used, "%s%d", i == 0 ? "" : ", ", r->sign[i]);
    used += snprintf(text + used, sizeof text - (size_t)used, "]\nevaluation: butterfly\nnormalization: orthonormal\noutput: %s\n",
                     r->round_to_bf16 ? "bf16" : "fp32");
    memset(out, 0, sizeof *out);
    out->device = *r;
    enum nib_status status = nib_rotation_parse(text, (size_t)used, "r", &out->emulator, e);
    return status == NIB_OK ? nib_unit_open("hopper-mma-16bit-f32", unit, e) : status;
}

static enum nib_status turned(const struct nib_gpu_rotation *r, struct nib_view x, int along_rows, float *out, struct nib_error *e) {
    struct nib_gpu_turn turn;
    const struct nib_unit *unit;
    enum nib_status status = turn_of(r, &turn, &unit, e);
    if (status != NIB_OK) return status;
    status = nib_gpu_turn_emulate(&turn, unit, x, along_rows ? NIB_ALONG_ROWS : NIB_ALONG_COLS, 1, out, e);
    nib_unit_close(unit);
    nib_gpu_turn_close(&turn);
    return status;
}

static struct nib_view view_of(enum nib_gpu_dtype dtype, const void *x, size_t rows, size_t cols) {
    static const enum nib_dtype dtypes[] = {NIB_F32, NIB_BF16, NIB_F16};
    return (struct nib_view){x, dtypes[dtype], rows, cols, cols};
}

/* What the CUDA plug-in refuses. */
static const char *refusal(const struct nib_gpu_quantizer *g, enum nib_gpu_dtype dtype, size_t rows, size_t cols) {
    bool tiles = g->block_rows == 16 && g->block_cols == 16;
    bool lines = g->block_rows == 1 && (g->block_cols == 16 || g->block_cols == 32 || g->block_cols == 64 || g->block_cols == 128);
    unsigned turn = g->rotation.size;
    if (!tiles && !lines) return "blocks are 1x16, 1x32, 1x64, 1x128 or 16x16 on the device";
    if (turn <= 1) return NULL;
    if (turn < 16 || turn > 256 || (turn & (turn - 1)) != 0) return "rotations on the device have size 16, 32, 64, 128 or 256";
    if (tiles) return "16x16 blocks take no rotation on the device";
    if (g->rotation.by == NIB_GPU_TENSOR_CORE && dtype != NIB_GPU_BF16) return "rotations on the tensor cores take bf16 input";
    if ((g->along_rows ? rows : cols) % turn != 0) return "the extent along the axis is not a multiple of the rotation size";
    return NULL;
}

static int fake_quantize(const struct nib_gpu_quantizer *g, enum nib_gpu_dtype dtype, const void *x, size_t rows, size_t cols,
                         int has_tensor_amax, float tensor_amax, struct nib_gpu_quantized *out, char *error, size_t size) {
    const enum nib_axis axis = g->along_rows ? NIB_ALONG_ROWS : NIB_ALONG_COLS;
    const struct nib_quantizer *quantizer;
    struct nib_quantized q;
    struct nib_error e = {0};
    struct nib_view view = view_of(dtype, x, rows, cols);
    float *rotated = NULL;
    if (fault("trap")) {
        snprintf(error, size, "quantization: an illegal memory access was encountered");
        return NIB_GPU_FAULT;
    }
    if (refusal(g, dtype, rows, cols) != NULL) {
        snprintf(error, size, "%s", refusal(g, dtype, rows, cols));
        return NIB_GPU_BAD_ARGUMENT;
    }
    enum nib_status status = quantizer_of(g, &quantizer, &e);
    if (status != NIB_OK) return failed(status, &e, error, size);
    if (g->rotation.size > 1) {
        rotated = malloc(rows * cols * sizeof *rotated);
        status = turned(&g->rotation, view, g->along_rows, rotated, &e);
        view = view_of(NIB_GPU_F32, rotated, rows, cols);
    }
    if (status == NIB_OK) status = nib_quantized_alloc(quantizer, rows, cols, axis, NIB_WANT_PACKED | NIB_WANT_SCALES | NIB_WANT_VALUES, &q, &e);
    if (status == NIB_OK)
        status = nib_quantize(quantizer, view, &(struct nib_quantize_options){.axis = axis, .has_tensor_amax = has_tensor_amax != 0,
                              .tensor_amax = tensor_amax, .threads = 1, .seed = g->seed, .stream = g->stream}, &q, &e);
    if (status == NIB_OK) {
        size_t outer = g->along_rows ? cols : rows, bytes = ((g->along_rows ? rows : cols) + 1) / 2;
        for (size_t i = 0; i < outer; i++) memcpy(out->packed + i * bytes, q.packed + i * q.packed_stride, bytes);
        memcpy(out->scales, q.scales, q.scale_rows * q.scale_cols * q.scale_bytes);
        if (out->values != NULL) memcpy(out->values, q.values, rows * cols * sizeof(float));
        out->tensor_amax = q.tensor_amax;
        out->tensor_scale_encode = q.tensor_scale_encode;
        out->tensor_scale_decode = q.tensor_scale_decode;
        if (fault("code")) out->packed[0] ^= 1;
        if (fault("scale")) out->scales[0] ^= 1;
        if (fault("value") && out->values != NULL) out->values[rows * cols - 1] += 1;
        if (fault("amax")) out->tensor_amax += 1;
        nib_quantized_free(&q);
    }
    free(rotated);
    return failed(status, &e, error, size);
}

static int fake_dequantize(const struct nib_gpu_quantizer *g, const uint8_t *packed, const uint8_t *scales, float tensor_amax, size_t rows,
                           size_t cols, float *values, char *error, size_t size) {
    const enum nib_axis axis = g->along_rows ? NIB_ALONG_ROWS : NIB_ALONG_COLS;
    const struct nib_quantizer *quantizer;
    struct nib_quantized q;
    struct nib_error e = {0};
    enum nib_status status = quantizer_of(g, &quantizer, &e);
    if (status != NIB_OK) return failed(status, &e, error, size);
    status = nib_quantized_alloc(quantizer, rows, cols, axis, NIB_WANT_PACKED | NIB_WANT_SCALES, &q, &e);
    if (status == NIB_OK) {
        size_t outer = g->along_rows ? cols : rows, bytes = ((g->along_rows ? rows : cols) + 1) / 2;
        for (size_t i = 0; i < outer; i++) memcpy(q.packed + i * q.packed_stride, packed + i * bytes, bytes);
        memcpy(q.scales, scales, q.scale_rows * q.scale_cols * q.scale_bytes);
        q.tensor_amax = tensor_amax;
        status = nib_dequantize(quantizer, &q, values, &e);
        nib_quantized_free(&q);
    }
    return failed(status, &e, error, size);
}

static int fake_rotate(const struct nib_gpu_rotation *r, enum nib_gpu_dtype dtype, const void *x, size_t rows, size_t cols, int along_rows,
                       void *out, char *error, size_t size) {
    struct nib_error e = {0};
    float *rotated = malloc(rows * cols * sizeof *rotated);
    enum nib_status status = turned(r, view_of(dtype, x, rows, cols), along_rows, rotated, &e);
    for (size_t i = 0; i < rows * cols && status == NIB_OK; i++)
        if (r->round_to_bf16)
            ((uint16_t *)out)[i] = nib_bf16_of_bits(nib_bits_of_float(rotated[i]));
        else
            ((float *)out)[i] = rotated[i];
    free(rotated);
    return failed(status, &e, error, size);
}

/* The inverse of the layout's definition: what stands at each place. */
static int fake_swizzle(const uint8_t *scales, size_t rows, size_t cols, unsigned tile_rows, uint8_t *out, char *error, size_t size) {
    size_t across = (cols + 3) / 4, down = (rows + tile_rows - 1) / tile_rows;
    (void)error;
    (void)size;
    for (size_t i = 0; i < down * across * tile_rows * 4; i++) {
        size_t tile = i / (tile_rows * 4), inside = i % (tile_rows * 4), c = inside % 4;
        size_t r = tile_rows == 128 ? inside / 16 + inside / 4 % 4 * 32 : inside / 4;
        r += tile / across * tile_rows;
        c += tile % across * 4;
        out[i] = r < rows && c < cols ? scales[r * cols + c] : 0;
    }
    return NIB_GPU_OK;
}

static int fake_check_e2m1(uint64_t *differences, uint32_t *first, char *error, size_t size) {
    (void)error;
    (void)size;
    *differences = 0;
    *first = 0;
    return NIB_GPU_OK;
}

static const struct nib_gpu_mma instructions[] = {
    {"mma.m16n8k16.bf16.f32", 16, 8, 16, 16, 32, 0, 1, ""},
    {"mma.m16n8k16.f16.f16", 16, 8, 16, 16, 16, 0, 1, ""},
    {"mma.m16n8k32.s8.s32", 16, 8, 32, 8, 32, 0, 1, ""},
    {"wgmma.m64n8k16.bf16.f32", 64, 8, 16, 16, 32, 0, 1, ""},
    {"wgmma.m64n8k32.e4m3-e5m2.f32", 64, 8, 32, 8, 32, 0, 1, ""},
    {"mma.m16n8k64.mxf4nvf4.f32", 16, 8, 64, 4, 32, 16, 0, "block-scaled mma.sync exists on compute capability 12.x only"},
};

static int fake_mma_list(unsigned i, struct nib_gpu_mma *out) {
    if (i >= sizeof instructions / sizeof *instructions) return NIB_GPU_BAD_ARGUMENT;
    *out = instructions[i];
    return NIB_GPU_OK;
}

static int fake_mma(const char *name, size_t count, unsigned k_steps, const void *a, const void *b, const void *c, const uint8_t *a_scales,
                    const uint8_t *b_scales, void *d, char *error, size_t size) {
    struct nib_error e = {0};
    const struct nib_unit *unit;
    enum nib_operand left, right;
    const struct nib_gpu_mma *mma = instructions;
    (void)a_scales;
    (void)b_scales;
    while (strcmp(mma->name, name) != 0) mma++;
    enum nib_status status = nib_unit_open(nib_gpu_unit_of(name, 9, &left, &right), &unit, &e);
    size_t row = 32 * (size_t)k_steps, tile = (size_t)mma->m * 8 * mma->accumulator_bits / 8;
    for (size_t i = 0; i < count && status == NIB_OK; i++) {
        struct nib_unit_matrix x = {left, (const char *)a + i * mma->m * row, row, NULL, 0}, y = {right, (const char *)b + i * 8 * row, row, NULL, 0};
        for (size_t r = 0; r < mma->m; r++)
            for (size_t s = 0; s < 8; s++) {
                uint64_t from = 0, bits;
                size_t at = i * tile + (r * 8 + s) * (mma->accumulator_bits / 8);
                memcpy(&from, (const char *)c + at, mma->accumulator_bits / 8);
                bits = nib_unit_dot_ref(unit, &x, r, &y, s, (size_t)mma->k * k_steps, from);
                memcpy((char *)d + at, &bits, mma->accumulator_bits / 8);
            }
    }
    if (status == NIB_OK) nib_unit_close(unit);
    if (fault("product")) *(uint8_t *)d ^= 1;
    return failed(status, &e, error, size);
}

static int fake_cublaslt(int fp8, int fast, int bf16, size_t m, size_t n, size_t k, const void *a, const void *b, void *d, char *error, size_t size) {
    (void)fp8, (void)fast, (void)bf16, (void)m, (void)n, (void)k, (void)a, (void)b, (void)d;
    snprintf(error, size, "cuBLASLt was not found on this machine");
    return NIB_GPU_NO_KERNEL;
}

static int fake_bench(size_t rows, size_t cols, int repetitions, struct nib_gpu_timing *out, size_t capacity, size_t *count, char *error, size_t size) {
    static const struct nib_gpu_timing timings[] = {{"device copy", 1e-3, 4e6}, {"te-nvfp4, amax given", 1e-3, 2e6}, {"te-nvfp4 rht16 butterfly fused, amax given", 1.5e-3, 2e6}};
    (void)rows, (void)cols, (void)repetitions, (void)error, (void)size;
    *count = capacity < 3 ? capacity : 3;
    memcpy(out, timings, *count * sizeof *out);
    return NIB_GPU_OK;
}

__attribute__((visibility("default"))) struct nib_gpu_plugin nib_gpu_plugin = {
    NIB_GPU_PLUGIN_ABI, sizeof(struct nib_gpu_plugin), NULL, "fake", fake_open, fake_close, fake_device, fake_quantize, fake_dequantize,
    fake_rotate, fake_swizzle, fake_check_e2m1, fake_mma_list, fake_mma, fake_cublaslt, fake_bench,
};

__attribute__((constructor)) static void set_version(void) {
    nib_gpu_plugin.version = fault("version") ? "0.0.0-other" : nib_version();
    if (fault("abi")) nib_gpu_plugin.abi = 1;
}
