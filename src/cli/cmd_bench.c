/* nibble bench: speed, beside what memory allows. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/bench_gemm.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/progress.h"
#include <nibble/rotate.h>
#include "format/embedded.h"
#include "job/bench_quantize.h"

struct arguments {
    struct nib_texts quantizers, settings;
    int64_t elements;
    int dtype, write;
    double seconds;
    const char *isa, *shape, *rotation;
};

static const struct arguments defaults = {.elements = 1 << 24, .seconds = 0.5};
static const char *const dtypes[] = {"fp32", "bf16", "fp16", NULL}; /* the order of enum nib_dtype */
static const char *const writes[] = {"packed", "values", "all", NULL};

static const struct nib_option options[] = {
    NIB_OPT_LIST(struct arguments, quantizers, "quantizer", 'q', "QUANTIZER",
                 "quantizers to time; te-nvfp4 by default, or all of bench quantizers"),
    NIB_OPT_TEXTS(struct arguments, settings, "set", 's', "AXIS=VALUE", "change one arithmetic choice"),
    NIB_OPT_TEXT(struct arguments, rotation, "rotate", 'r', "ROTATION", "rotate along the rows before quantizing"),
    NIB_OPT_INTEGER(struct arguments, elements, "elements", 'n', "N", 4096, INT64_C(1) << 34,
                    "size of the tensor, in rows of 4096"),
    NIB_OPT_CHOICE(struct arguments, dtype, "dtype", 'd', "DTYPE", dtypes, "type of the input; fp32 by default"),
    NIB_OPT_CHOICE(struct arguments, write, "write", 'w', "WHAT", writes,
                   "packed codes and scales (the default), dequantized values, or everything"),
    NIB_OPT_REAL(struct arguments, seconds, "seconds", 0, "S", 0, 3600, "least time for each figure"),
    NIB_OPT_TEXT(struct arguments, shape, "shape", 0, "MxNxK", "of bench gemm; 1024x1024x4096 by default"),
    NIB_OPT_TEXT(struct arguments, isa, "isa", 0, "ISA",
                 "generic, avx2, avx512 or ref; by default the best (also NIBBLE_ISA)"),
    NIB_OPT_END,
};

static const struct nib_example examples[] = {
    {"nibble bench quantize", "te-nvfp4 on one thread"},
    {"nibble bench quantize -q te-nvfp4,ocp-mxfp4 --dtype bf16 --threads 2", "others, from bf16"},
    {"nibble bench quantizers", "every built-in quantizer, in turn with te-nvfp4"},
    {"nibble bench quantizers -q ocp-mxfp4", "one of them"},
    {"nibble bench gemm --threads 2", "products through matrix units, beside OpenBLAS"},
    {NULL, NULL},
};

static const struct nib_column columns[] = {
    {"quantizer", "quantizer", "", "quantizer", NIB_COLUMN_TEXT, 0},
    {"dtype", "dtype", "", "type of the input", NIB_COLUMN_TEXT, 0},
    {"isa", "isa", "", "instruction set", NIB_COLUMN_TEXT, 0},
    {"threads", "threads", "1", "threads", NIB_COLUMN_INTEGER, 0},
    {"mode", "tensor amax", "", "given, computed (end to end), or none in this format", NIB_COLUMN_TEXT, 0},
    {"elements_per_second", "1e9 elements/s", "1e9/s", "speed, from the median time", NIB_COLUMN_REAL, 3},
    {"gigabytes_per_second", "GB/s", "GB/s", "bytes read and written", NIB_COLUMN_REAL, 1},
    {"memory_share", "share of memory", "1",
     "time of a kernel that reads and writes the same bytes, divided by the time", NIB_COLUMN_REAL, 3},
    {"spread", "spread", "1", "interquartile range of the time, relative", NIB_COLUMN_REAL, 3},
    {"runs", "runs", "1", "timed runs", NIB_COLUMN_INTEGER, 0},
    {"of_te_nvfp4", "of te-nvfp4", "1",
     "speed end to end over that of te-nvfp4, the best runs of both, taken in turn; of bench quantizers",
     NIB_COLUMN_REAL, 3},
};

static enum nib_status add_row(struct nib_table *table, const char *name, const char *dtype,
                               const struct nib_bench_result *result, int threads, const char *mode, double bytes,
                               const struct nib_bench_time *time, const struct nib_bench_time *memory,
                               struct nib_error *error) {
    size_t row = nib_table_row(table);
    if (row == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "out of memory");
    nib_table_set_text(table, row, 0, name);
    nib_table_set_text(table, row, 1, dtype);
    nib_table_set_text(table, row, 2, result->isa);
    nib_table_set_integer(table, row, 3, threads);
    nib_table_set_text(table, row, 4, mode);
    nib_table_set_real(table, row, 5, 1e-9 * (double)result->elements / time->median);
    nib_table_set_real(table, row, 6, 1e-9 * bytes / time->median);
    nib_table_set_real(table, row, 7, memory->median / time->median);
    nib_table_set_real(table, row, 8, time->spread);
    nib_table_set_integer(table, row, 9, (int64_t)time->runs);
    nib_table_set_real(table, row, 10, time == &result->given && result->has_tensor_scale ? NAN : result->ratio);
    return NIB_OK;
}

static enum nib_status bench_one(const struct nib_call *call, const char *name, const struct nib_quantizer *yardstick,
                                 struct nib_table *table, struct nib_error *error) {
    static const unsigned wants[] = {NIB_WANT_PACKED | NIB_WANT_SCALES, NIB_WANT_VALUES,
                                     NIB_WANT_CODES | NIB_WANT_PACKED | NIB_WANT_SCALES | NIB_WANT_VALUES};
    const struct arguments *a = call->options;
    const struct nib_quantizer *q;
    enum nib_status status = nib_input_quantizer(name, &a->settings, &q, error);
    if (status != NIB_OK) return status;
    const struct nib_rotation *rotation = NULL;
    if (a->rotation != NULL) status = nib_rotation_open(a->rotation, &rotation, error);
    if (status != NIB_OK) {
        nib_quantizer_close(q);
        return status;
    }
    int threads = call->common.threads > 0 ? (int)call->common.threads : 1;
    struct nib_bench_request request = {.quantizer = q,
                                        .dtype = (enum nib_dtype)a->dtype,
                                        .cols = 4096,
                                        .rows = (size_t)a->elements / 4096,
                                        .threads = threads,
                                        .isa = a->isa,
                                        .want = wants[a->write],
                                        .seed = (uint64_t)call->common.seed,
                                        .seconds = a->seconds,
                                        .rotation = rotation,
                                        .yardstick = yardstick};
    struct nib_bench_result result;
    struct nib_quantizer_info info;
    nib_quantizer_describe(q, &info);
    status = nib_bench_quantize(&request, &result, error);
    if (status == NIB_OK) {
        const char *dtype = dtypes[a->dtype];
        if (result.has_tensor_scale)
            status = add_row(table, info.name, dtype, &result, threads, "given", result.bytes_given, &result.given,
                             &result.memory_given, error);
        if (status == NIB_OK)
            status = add_row(table, info.name, dtype, &result, threads, result.has_tensor_scale ? "computed" : "none",
                             result.bytes_total, &result.total, &result.memory_total, error);
    }
    nib_rotation_close(rotation);
    nib_quantizer_close(q);
    return status;
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    const struct arguments *a = call->options;
    static const char *const of_quantize[] = {"quantizer", "set", "rotate", "elements", "dtype", "write", NULL};
    static const char *const of_gemm[] = {"shape", NULL};
    const char *what = call->value_count > 0 ? call->values[0] : "quantize";
    bool gemm = strcmp(what, "gemm") == 0, in_turn = strcmp(what, "quantizers") == 0;
    if (!gemm && !in_turn && strcmp(what, "quantize") != 0)
        return nib_fail(error, NIB_EINVAL, "bench \"%s\": expected quantize, quantizers or gemm", what);
    enum nib_status status = nib_options_refuse(call, gemm ? of_quantize : of_gemm,
                                                gemm ? "goes with bench quantize" : "goes with bench gemm", error);
    if (status != NIB_OK) return status;
    if (gemm) return nib_bench_gemm(call, a->shape, a->seconds, a->isa, error);
    struct nib_table *table;
    status = nib_table_new("bench", columns, sizeof columns / sizeof *columns, &table, error);
    if (status != NIB_OK) return status;
    const struct nib_quantizer *yardstick = NULL;
    if (in_turn) status = nib_quantizer_open("te-nvfp4", &yardstick, error);
    bool every = in_turn && a->quantizers.count == 0;
    struct nib_progress progress;
    nib_progress_start(&progress, call, "quantizers", every ? nib_embedded_count : a->quantizers.count);
    for (size_t i = 0; every && i < nib_embedded_count && status == NIB_OK; i++) {
        nib_progress_step(&progress, 1, nib_embedded_formats[i].name);
        if (strcmp(nib_embedded_formats[i].kind, "quantizers") == 0)
            status = bench_one(call, nib_embedded_formats[i].name, yardstick, table, error);
    }
    for (size_t i = 0; i < a->quantizers.count && status == NIB_OK; i++) {
        status = bench_one(call, a->quantizers.item[i], yardstick, table, error);
        nib_progress_step(&progress, 1, NULL);
    }
    if (!in_turn && a->quantizers.count == 0) status = bench_one(call, "te-nvfp4", NULL, table, error);
    nib_progress_end(&progress);
    nib_quantizer_close(yardstick);
    if (status == NIB_OK) status = nib_output_table(call, table, NULL, error);
    nib_table_free(table);
    return status;
}

NIB_COMMAND(bench) = {
    .values = "[quantize|quantizers|gemm]",
    .least = 0,
    .most = 1,
    .description = "Times quantizers on Gaussian numbers, on one thread unless --threads says otherwise: with the "
                   "tensor amax given, and "
                   "end to end with the pass that computes it. Beside each speed stands its share of what memory "
                   "allows: the speed of a "
                   "kernel that only reads and writes the same bytes, measured in the same process. bench quantizers times te-nvfp4 in turn with each.\n"
                   "bench gemm times products through matrix units beside OpenBLAS sgemm of the same shape, in turn "
                   "and with the same "
                   "threads.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct arguments),
    .takes = NIB_TAKES_JSON | NIB_TAKES_THREADS | NIB_TAKES_SEED,
    .examples = examples,
    .run = run,
};
