/* nibble quantize: codes, packed bytes, scales and dequantized values of a matrix. */
#include <math.h>
#include <nibble/quantize.h>
#include <nibble/rotate.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/axis.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/quantized_output.h"
#include "cli/remember.h"
#include "cli/result_file.h"
#include "io/json_out.h"
#include "job/cite.h"

struct arguments {
    const char *quantizer, *rotation, *shape, *explain, *isa, *random_bits;
    struct nib_texts settings, values;
    int axis;
    float tensor_amax, encode, decode;
    int64_t stream;
    int cast;
};

static const struct arguments defaults = {.tensor_amax = NAN, .encode = NAN, .decode = NAN};

static const struct nib_option options[] = {
    NIB_OPT_TEXT(struct arguments, quantizer, "quantizer", 'q', "QUANTIZER",
                 "a name that 'nibble list quantizers' gives, or a YAML file"),
    NIB_OPT_TEXTS(struct arguments, settings, "set", 's', "AXIS=VALUE", "change one arithmetic choice"),
    NIB_OPT_TEXT(struct arguments, rotation, "rotate", 'r', "ROTATION", "rotate along the axis before quantizing"),
    NIB_OPT_LIST(struct arguments, values, "values", 'v', "X,X,...", "the elements, row by row, instead of a file"),
    NIB_OPT_TEXT(struct arguments, shape, "shape", 0, "ROWSxCOLS", "shape of --values; one row by default"),
    NIB_OPT_CHOICE(struct arguments, axis, "axis", 0, "AXIS", nib_axis_names,
                   "direction of the blocks (the reduction axis); cols by default"),
    NIB_OPT_FLOAT(struct arguments, tensor_amax, "tensor-amax", 0, "G", 0, INFINITY,
                  "use this tensor amax instead of computing it"),
    NIB_OPT_FLOAT(struct arguments, encode, "tensor-scale-encode", 0, "S", 0, INFINITY,
                  "use this tensor encode scale (2688/amax)"),
    NIB_OPT_FLOAT(struct arguments, decode, "tensor-scale-decode", 0, "D", 0, INFINITY,
                  "use this tensor decode scale (amax/2688)"),
    NIB_OPT_INTEGER(struct arguments, stream, "stream", 0, "N", 0, INT64_MAX,
                    "stream of the random numbers, beside --seed"),
    NIB_OPT_TEXT(struct arguments, random_bits, "rbits", 0, "BYTES",
                 "random integers of stochastic rounding: FILE[:tensor], FILE:raw, or hexadecimal digits "
                 "after 0x"),
    NIB_OPT_TEXT(struct arguments, explain, "explain", 'e', "ROW,COL",
                 "trace one element through every intermediate value"),
    NIB_OPT_TEXT(struct arguments, isa, "isa", 0, "ISA",
                 "generic, avx2, avx512 or ref; by default the best (also NIBBLE_ISA)"),
    NIB_OPT_CHOICE(struct arguments, cast, "cast", 0, "TYPE", nib_casts,
                   "round binary64 input to binary32; not done unless asked for"),
    NIB_OPT_END,
};

static const struct nib_example examples[] = {
    {"nibble quantize -q te-nvfp4 --values 1,-0.4,6,0.07", "codes, scale and values of one block"},
    {"nibble quantize -q te-nvfp4 --values 3,0.625,0.375 --explain 0,1", "every intermediate value of one element"},
    {"nibble quantize -q ocp-mxfp4 --set rounding=rna --values 5,2.5,1 --json", "another rounding, for a script"},
    {NULL, NULL},
};

static enum nib_status quantize_options(const struct nib_call *call, struct nib_quantize_options *out,
                                        struct nib_error *error) {
    const struct arguments *a = call->options;
    *out = (struct nib_quantize_options){.axis = (enum nib_axis)a->axis,
                                         .threads = (int)call->common.threads,
                                         .isa = a->isa,
                                         .seed = (uint64_t)call->common.seed,
                                         .stream = (uint64_t)a->stream};
    if (!isnan(a->encode) && !isnan(a->decode))
        return nib_fail(error, NIB_EINVAL,
                        "--tensor-scale-encode and --tensor-scale-decode are both given; expected one");
    out->has_tensor_amax = !isnan(a->tensor_amax);
    if (out->has_tensor_amax) out->tensor_amax = a->tensor_amax;
    out->has_tensor_scale = !isnan(a->encode) || !isnan(a->decode);
    if (!out->has_tensor_scale) return NIB_OK;
    out->tensor_scale_encode = !isnan(a->encode) ? a->encode : 1.0f / a->decode;
    out->tensor_scale_decode = !isnan(a->decode) ? a->decode : 1.0f / a->encode;
    return NIB_OK;
}

static enum nib_status print_trace_json(const struct nib_call *call, const struct nib_trace *trace,
                                        struct nib_error *error) {
    struct nib_json *json;
    enum nib_status status = nib_output_json(call, &json, error);
    if (status != NIB_OK) return status;
    nib_json_array(json, "steps");
    for (size_t i = 0; i < trace->count; i++) {
        const struct nib_trace_step *step = &trace->step[i];
        nib_json_object(json, NULL);
        nib_json_text(json, "what", step->what);
        nib_json_text(json, "formula", step->formula);
        nib_json_unsigned(json, step->is_code ? "code" : "bits", step->bits);
        nib_json_real(json, "value", step->value);
        nib_json_close(json);
    }
    nib_json_close(json);
    nib_json_real(json, "tie_distance_ulp", trace->tie_distance_ulp);
    nib_json_end(json);
    return NIB_OK;
}

static enum nib_status print_trace(const struct nib_call *call, const struct nib_trace *trace,
                                   struct nib_error *error) {
    static const struct nib_column columns[] = {
        {"what", "step", "", "what is computed", NIB_COLUMN_TEXT, 0},
        {"formula", "formula", "", "how", NIB_COLUMN_TEXT, 0},
        {"bits", "bits", "", "binary32 bits, or the code", NIB_COLUMN_TEXT, 0},
        {"value", "value", "1", "value", NIB_COLUMN_REAL, -9},
    };
    if (call->common.json) return print_trace_json(call, trace, error);
    struct nib_table *table;
    enum nib_status status = nib_table_new("explain", columns, 4, &table, error);
    if (status != NIB_OK) return status;
    for (size_t i = 0; i < trace->count; i++) {
        const struct nib_trace_step *step = &trace->step[i];
        char bits[16];
        snprintf(bits, sizeof bits, step->is_code ? "0x%02X" : "0x%08X", step->bits);
        size_t row = nib_table_row(table);
        if (row == SIZE_MAX) {
            nib_table_free(table);
            return nib_fail(error, NIB_ENOMEM, "out of memory");
        }
        nib_table_set_text(table, row, 0, step->what);
        nib_table_set_text(table, row, 1, step->formula);
        nib_table_set_text(table, row, 2, bits);
        nib_table_set_real(table, row, 3, step->value);
    }
    status = nib_output_table(call, table, NULL, error);
    nib_table_free(table);
    if (status == NIB_OK && !call->common.tsv && !isnan(trace->tie_distance_ulp))
        printf("\nThe scaled element is %.10g binary32 steps from the nearest tie.\n", trace->tie_distance_ulp);
    return status;
}

static enum nib_status explain(const struct nib_call *call, const struct nib_quantizer *q, struct nib_view view,
                               const struct nib_quantize_options *how, struct nib_error *error) {
    const struct arguments *a = call->options;
    size_t row, col;
    struct nib_trace trace;
    enum nib_status status = nib_input_place(a->explain, &row, &col, error);
    if (status == NIB_OK) status = nib_quantize_explain(q, view, how, row, col, &trace, error);
    return status == NIB_OK ? print_trace(call, &trace, error) : status;
}

static enum nib_status remember(const struct nib_call *call, const struct nib_quantizer *q,
                                const struct nib_input *input, const struct nib_rotation *rotation,
                                struct nib_provenance **out, struct nib_error *error) {
    const struct arguments *a = call->options;
    enum nib_status status = nib_remember_call(call, a->isa, 1, out, error);
    if (status != NIB_OK) return status;
    nib_provenance_add_seed(*out, "seed", (uint64_t)call->common.seed);
    nib_provenance_add_seed(*out, "stream", (uint64_t)a->stream);
    nib_cite_quantizer(*out, q);
    if (rotation != NULL) nib_cite_rotation(*out, rotation);
    if (input->file != NULL) status = nib_provenance_add_file(*out, input->file, error);
    return status == NIB_OK ? nib_remember_input(*out, a->random_bits, error) : status;
}

static enum nib_status store(const struct nib_call *call, const struct nib_quantizer *q, const struct nib_input *input,
                             const struct nib_rotation *rotation, const struct nib_quantized *out,
                             struct nib_error *error) {
    struct nib_result *file = NULL;
    struct nib_provenance *provenance = NULL;
    enum nib_status status = nib_result_file_open(call, "quantized tensor", &file, error);
    if (status == NIB_OK) status = nib_quantized_store(file, q, out, error);
    if (status == NIB_OK) status = remember(call, q, input, rotation, &provenance, error);
    return nib_result_file_end(status, file, provenance, error);
}

static enum nib_status quantize(const struct nib_call *call, const struct nib_quantizer *q,
                                const struct nib_input *input, struct nib_view view,
                                const struct nib_quantize_options *how, struct nib_error *error) {
    struct nib_quantized out;
    unsigned all = NIB_WANT_CODES | NIB_WANT_PACKED | NIB_WANT_SCALES | NIB_WANT_VALUES;
    enum nib_status status = nib_quantized_alloc(q, view.rows, view.cols, how->axis, all, &out, error);
    if (status != NIB_OK) return status;
    status = nib_quantize(q, view, how, &out, error);
    if (status == NIB_OK && call->common.output != NULL)
        status = store(call, q, input, how->rotation, &out, error);
    if (status == NIB_OK && (call->common.output == NULL || call->common.json || call->common.tsv))
        status = nib_quantized_print(call, q, &out, error);
    nib_quantized_free(&out);
    return status;
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    const struct arguments *a = call->options;
    if (a->quantizer == NULL)
        return nib_fail(error, NIB_EINVAL, "--quantizer is missing; 'nibble list quantizers' names them");
    const struct nib_quantizer *q = NULL;
    struct nib_input input = {0};
    struct nib_quantize_options how;
    const struct nib_rotation *rotation = NULL;
    uint8_t *random_bits = NULL;
    enum nib_status status = quantize_options(call, &how, error);
    if (status == NIB_OK && a->explain != NULL && call->common.output != NULL)
        status =
            nib_fail(error, NIB_EINVAL, "--explain prints a trace, -o stores the whole result; expected one of them");
    if (status == NIB_OK && a->random_bits != NULL) {
        status = nib_input_bytes(a->random_bits, "rbits", &random_bits, &how.random_bytes, error);
        how.random_bits = random_bits;
    }
    if (status == NIB_OK) status = nib_input_quantizer(a->quantizer, &a->settings, &q, error);
    if (status == NIB_OK)
        status = nib_input_open(call->value_count > 0 ? call->values[0] : NULL, &a->values, a->shape, a->cast != 0,
                                &input, error);
    if (status == NIB_OK && a->rotation != NULL) status = nib_rotation_open(a->rotation, &rotation, error);
    how.rotation = rotation;
    if (status == NIB_OK)
        status = a->explain != NULL ? explain(call, q, input.view, &how, error)
                                    : quantize(call, q, &input, input.view, &how, error);
    nib_rotation_close(rotation);
    free(random_bits);
    nib_input_close(&input);
    nib_quantizer_close(q);
    return status;
}

NIB_COMMAND(quantize) = {
    .values = "[FILE[:tensor]]",
    .least = 0,
    .most = 1,
    .description =
        "Quantizes a matrix and prints the scale, the codes and the dequantized values of every block; --json and -o "
        "give "
        "packed bytes too. Numbers may be decimal, hexadecimal floats, nan, inf, or binary32 bits such as 0x3FC00000.\n"
        "With --axis rows, scales and packed bytes are those of the transposed matrix, as kernels store their "
        "column-wise "
        "copy; codes and values stay at their places.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct arguments),
    .takes = NIB_TAKES_JSON | NIB_TAKES_OUTPUT | NIB_TAKES_THREADS | NIB_TAKES_SEED,
    .examples = examples,
    .run = run,
};
