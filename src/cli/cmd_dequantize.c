/* nibble dequantize: values from codes and scales. */
#include <math.h>
#include <nibble/quantize.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/axis.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/input.h"
#include "cli/output.h"
#include "io/json_out.h"
#include "io/quantized_in.h"

struct arguments {
    const char *quantizer, *shape, *packed, *codes, *scales;
    struct nib_texts settings;
    int axis;
    float tensor_amax, encode, decode;
};

static const struct arguments defaults = {.tensor_amax = NAN, .encode = NAN, .decode = NAN};

static const struct nib_option options[] = {
    NIB_OPT_TEXT(struct arguments, quantizer, "quantizer", 'q', "QUANTIZER", "by default the one that the file names"),
    NIB_OPT_TEXTS(struct arguments, settings, "set", 's', "AXIS=VALUE", "change one arithmetic choice"),
    NIB_OPT_TEXT(struct arguments, packed, "packed", 'p', "BYTES",
                 "packed codes: FILE[:tensor], FILE:raw, or hexadecimal digits after 0x"),
    NIB_OPT_TEXT(struct arguments, codes, "codes", 'c', "BYTES", "codes, one a byte, instead of packed ones"),
    NIB_OPT_TEXT(struct arguments, scales, "scales", 0, "BYTES", "block scales, row by row, little-endian"),
    NIB_OPT_TEXT(struct arguments, shape, "shape", 0, "ROWSxCOLS", "shape of the matrix"),
    NIB_OPT_CHOICE(struct arguments, axis, "axis", 0, "AXIS", nib_axis_names, "direction of the blocks; cols by default"),
    NIB_OPT_FLOAT(struct arguments, tensor_amax, "tensor-amax", 0, "G", 0, INFINITY, "tensor amax"),
    NIB_OPT_FLOAT(struct arguments, encode, "tensor-scale-encode", 0, "S", 0, INFINITY,
                  "tensor encode scale (2688/amax)"),
    NIB_OPT_FLOAT(struct arguments, decode, "tensor-scale-decode", 0, "D", 0, INFINITY,
                  "tensor decode scale (amax/2688)"),
    NIB_OPT_END,
};

static const struct nib_example examples[] = {
    {"nibble quantize -q te-nvfp4 --values 1,2 --json | nibble dequantize -", "there and back"},
    {"nibble dequantize -q te-nvfp4 --shape 1x2 --packed 0x27 --scales 0x7e --tensor-amax 6", "from bytes"},
    {"nibble dequantize -q vllm-nvfp4 --shape 256x256 --packed fp4.safetensors:w.weight_packed --scales "
     "fp4.safetensors:w.weight_scale --tensor-scale-encode 11663.1865",
     "from an FP4 checkpoint"},
    {NULL, NULL},
};

/* Exactly `count` bytes from a tensor or from hexadecimal digits. */
static enum nib_status read_bytes(const char *text, const char *option, uint8_t *out, size_t count,
                                  struct nib_error *error) {
    static const char digits[] = "0123456789abcdef";
    if (strncmp(text, "0x", 2) == 0) {
        size_t length = strlen(text + 2);
        if (length != 2 * count || strspn(text + 2, "0123456789abcdefABCDEF") != length)
            return nib_fail(error, NIB_EINVAL, "--%s needs %zu bytes, that is %zu hexadecimal digits, got %zu", option,
                            count, 2 * count, length);
        for (size_t i = 0; i < 2 * count; i++) {
            size_t digit = (size_t)(strchr(digits, text[2 + i] | 0x20) - digits);
            out[i / 2] = (uint8_t)(out[i / 2] << 4 | digit);
        }
        return NIB_OK;
    }
    uint8_t *read;
    size_t bytes;
    enum nib_status status = nib_input_bytes(text, option, &read, &bytes, error);
    if (status != NIB_OK) return status;
    if (bytes == count)
        memcpy(out, read, count);
    else
        status = nib_fail(error, NIB_EINVAL, "--%s %s holds %zu bytes, expected %zu", option, text, bytes, count);
    free(read);
    return status;
}

/* The tensor scale as the quantizer's axes make it of the amax; an empty tensor is enough to ask for it. */
static enum nib_status set_tensor_scale(const struct arguments *a, const struct nib_quantizer *q,
                                        struct nib_quantized *out, struct nib_error *error) {
    struct nib_quantizer_info info;
    nib_quantizer_describe(q, &info);
    bool given = !isnan(a->encode) || !isnan(a->decode), has_amax = !isnan(a->tensor_amax);
    if (info.block->has_tensor_scale && !given && !has_amax)
        return nib_fail(error, NIB_EINVAL,
                        "block format %s needs --tensor-amax, --tensor-scale-encode or --tensor-scale-decode",
                        info.block->name);
    struct nib_quantize_options how = {.has_tensor_amax = has_amax,
                                       .has_tensor_scale = given,
                                       .threads = 1,
                                       .tensor_amax = has_amax ? a->tensor_amax : 0,
                                       .tensor_scale_encode = !isnan(a->encode) ? a->encode : 1.0f / a->decode,
                                       .tensor_scale_decode = !isnan(a->decode) ? a->decode : 1.0f / a->encode};
    float zero = 0;
    struct nib_quantized probe = {0};
    enum nib_status status = nib_quantized_alloc(q, 1, 1, NIB_ALONG_COLS, 0, &probe, error);
    if (status == NIB_OK) status = nib_quantize(q, (struct nib_view){&zero, NIB_F32, 1, 1, 1}, &how, &probe, error);
    if (status == NIB_OK) {
        out->tensor_amax = probe.tensor_amax;
        out->tensor_scale_encode = probe.tensor_scale_encode;
        out->tensor_scale_decode = probe.tensor_scale_decode;
        size_t lines = out->axis == NIB_ALONG_COLS ? out->rows : out->cols;
        for (size_t i = 0; out->line_amax != NULL && i < lines * out->line_parts; i++)
            out->line_amax[i] = probe.tensor_amax; /* the one that is given counts for every line, as in quantizing */
    }
    nib_quantized_free(&probe);
    return status;
}

static enum nib_status from_bytes(const struct arguments *a, const struct nib_quantizer *q, struct nib_quantized *out,
                                  struct nib_error *error) {
    size_t rows, cols;
    if (a->shape == NULL) return nib_fail(error, NIB_EINVAL, "--shape ROWSxCOLS is missing");
    if (a->scales == NULL || (a->packed == NULL) == (a->codes == NULL))
        return nib_fail(error, NIB_EINVAL, "expected --scales, and either --packed or --codes");
    enum nib_status status = nib_input_shape(a->shape, &rows, &cols, error);
    unsigned want = NIB_WANT_SCALES | (a->packed != NULL ? NIB_WANT_PACKED : NIB_WANT_CODES);
    struct nib_quantized made = {0};
    if (status == NIB_OK) status = nib_quantized_alloc(q, rows, cols, (enum nib_axis)a->axis, want, &made, error);
    if (status != NIB_OK) return status;
    size_t lines = made.axis == NIB_ALONG_COLS ? rows : cols;
    if (a->packed != NULL)
        status = read_bytes(a->packed, "packed", made.packed, lines * made.packed_stride, error);
    else
        status = read_bytes(a->codes, "codes", made.codes, rows * cols, error);
    if (status == NIB_OK)
        status =
            read_bytes(a->scales, "scales", made.scales, made.scale_rows * made.scale_cols * made.scale_bytes, error);
    if (status == NIB_OK) status = set_tensor_scale(a, q, &made, error);
    if (status == NIB_OK)
        *out = made;
    else
        nib_quantized_free(&made);
    return status;
}

static enum nib_status print(const struct nib_call *call, const struct nib_quantizer *q, const struct nib_quantized *in,
                             const float *values, struct nib_error *error) {
    if (!call->common.json) {
        if (call->common.tsv) /* the header: column numbers */
            for (size_t c = 0; c < in->cols; c++)
                printf("%s%zu%c", c == 0 ? "#" : "", c, c + 1 < in->cols ? '\t' : '\n');
        for (size_t r = 0; r < in->rows; r++)
            for (size_t c = 0; c < in->cols; c++)
                printf("%.9g%c", nib_output_number(values[r * in->cols + c]),
                       c + 1 < in->cols ? (call->common.tsv ? '\t' : ' ') : '\n');
        return NIB_OK;
    }
    struct nib_json *json;
    struct nib_quantizer_info info;
    nib_quantizer_describe(q, &info);
    enum nib_status status = nib_output_json(call, &json, error);
    if (status != NIB_OK) return status;
    nib_json_text(json, "quantizer", info.name);
    nib_json_sizes(json, "shape", (size_t[]){in->rows, in->cols}, 2);
    nib_json_floats(json, "dequantized", values, in->rows * in->cols);
    nib_json_end(json);
    return NIB_OK;
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    const struct arguments *a = call->options;
    if (call->value_count == 0 && a->quantizer == NULL)
        return nib_fail(
            error, NIB_EINVAL,
            "nothing to read; give the JSON or HDF5 of 'nibble quantize', or --quantizer with --packed and --scales");
    static const char *const of_bytes[] = {
        "packed", "codes", "scales", "shape", "axis", "tensor-amax", "tensor-scale-encode", "tensor-scale-decode",
        NULL};
    static const char *const of_quantizer[] = {"set", NULL};
    const struct nib_quantizer *q = NULL;
    struct nib_quantized in = {0};
    enum nib_status status = NIB_OK;
    if (call->value_count > 0)
        status = nib_options_refuse(call, of_bytes, "does not go with a FILE, which says it", error);
    if (status == NIB_OK && a->quantizer == NULL)
        status = nib_options_refuse(call, of_quantizer, "changes a quantizer; --quantizer is missing", error);
    if (status == NIB_OK && !isnan(a->encode) && !isnan(a->decode))
        status =
            nib_fail(error, NIB_EINVAL, "--tensor-scale-encode and --tensor-scale-decode are both given; expected one");
    if (status == NIB_OK && a->quantizer != NULL) status = nib_input_quantizer(a->quantizer, &a->settings, &q, error);
    if (status == NIB_OK)
        status =
            call->value_count > 0 ? nib_quantized_read(call->values[0], &q, &in, error) : from_bytes(a, q, &in, error);
    float *values = NULL;
    if (status == NIB_OK) {
        values = nib_alloc_raw(in.rows * in.cols, sizeof *values, "values", error);
        status = values == NULL ? NIB_ENOMEM : nib_dequantize(q, &in, values, error);
    }
    if (status == NIB_OK) status = print(call, q, &in, values, error);
    free(values);
    nib_quantized_free(&in);
    nib_quantizer_close(q);
    return status;
}

NIB_COMMAND(dequantize) = {
    .values = "[FILE]",
    .least = 0,
    .most = 1,
    .description = "Brings quantized values back: from the JSON or the HDF5 that 'nibble quantize' writes (- is JSON "
                   "from the standard input), or from "
                   "packed codes or codes, block scales and a tensor amax or scale.\n"
                   "Some implementations return NaN where neither codes nor scales say so; dequantizing cannot give "
                   "it back. Their quantizers have a note on it, which 'nibble show quantizers/NAME' prints.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct arguments),
    .takes = NIB_TAKES_JSON,
    .examples = examples,
    .run = run,
};
