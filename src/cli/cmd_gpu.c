/* nibble gpu: the real device beside the emulator. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "cli/gpu.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/result_file.h"
#include "io/json_out.h"
#include "job/gpu_bench.h"
#include "job/gpu_check.h"
#include "job/gpu_probe.h"

static const struct nib_gpu_arguments defaults = {.repetitions = 20, .sequences = 2, .length = 512};

static const struct nib_option options[] = {
    NIB_OPT_INTEGER(struct nib_gpu_arguments, device, "device", 'd', "N", 0, 1023, "device number"),
    NIB_OPT_FLAG(struct nib_gpu_arguments, quick, "quick", 0, "check: under a minute (the default)"),
    NIB_OPT_FLAG(struct nib_gpu_arguments, full, "full", 0, "check: more than 10^9 quantized values, 10^7 outputs of each instruction"),
    NIB_OPT_FLAG(struct nib_gpu_arguments, small, "small", 0, "check: a few thousand values a row, for compute-sanitizer"),
    NIB_OPT_FLAG(struct nib_gpu_arguments, shared, "shared", 0, "check: the same, of kernels with shared memory alone, for racecheck"),
    NIB_OPT_FLAG(struct nib_gpu_arguments, all, "all", 0, "check: print every row, not sums over input sets or layers"),
    NIB_OPT_TEXT(struct nib_gpu_arguments, stack, "stack", 0, "MODEL",
                 "check: every quantizer, rotation and product of recipes, layer by layer through this model, on the emulator's own operands"),
    NIB_OPT_LIST(struct nib_gpu_arguments, recipes, "recipe", 'r', "RECIPE", "check --stack: recipes"),
    NIB_OPT_TEXT(struct nib_gpu_arguments, tokens, "tokens", 0, "FILE",
                 "check --stack: what the model reads: a text, each byte of which is a token, or FILE[:tensor] of integers"),
    NIB_OPT_INTEGER(struct nib_gpu_arguments, sequences, "sequences", 's', "N", 1, 65536, "check --stack: sequences"),
    NIB_OPT_INTEGER(struct nib_gpu_arguments, length, "length", 'l', "L", 1, 1048576, "check --stack: tokens of a sequence"),
    NIB_OPT_FLAG(struct nib_gpu_arguments, forward_only, "no-backward", 0, "check --stack: leave out the gradients"),
    NIB_OPT_FLAG(struct nib_gpu_arguments, verify, "verify", 0, "probe: compare what came back"),
    NIB_OPT_TEXTS(struct nib_gpu_arguments, shapes, "shape", 0, "RxC", "bench: shape of the bf16 matrix"),
    NIB_OPT_INTEGER(struct nib_gpu_arguments, repetitions, "repetitions", 0, "N", 1, 10000, "bench: runs of each kernel, of which the best counts"),
    NIB_OPT_END,
};

/* ---- info ---- */

static void print_info(const struct nib_gpu *gpu, const struct nib_gpu_device *d) {
    printf("%s\n", d->name);
    printf("  %-22s %d.%d\n", "compute capability", d->major, d->minor);
    printf("  %-22s %d\n", "multiprocessors", d->multiprocessors);
    printf("  %-22s %.1f GiB, %.1f GiB free\n", "memory", (double)d->memory_total / 0x1p30,
           (double)d->memory_free / 0x1p30);
    printf("  %-22s %d.%d\n", "driver supports CUDA", d->driver / 1000, d->driver % 1000 / 10);
    printf("  %-22s %d.%d\n", "runtime", d->runtime / 1000, d->runtime % 1000 / 10);
    printf("  %-22s %s\n", "plug-in", gpu->path);
    printf("  %-22s %s (%s)\n", "version", gpu->plugin->version, gpu->plugin->commit);
    printf("  %-22s %s\n", "built for", d->built_for);
    if (d->cublaslt > 0)
        printf("  %-22s %d\n", "cuBLASLt", d->cublaslt);
    else
        printf("  %-22s not found\n", "cuBLASLt");
    putchar('\n');
}

enum { FEATURE, RUNS, WHY };
static const struct nib_column features[] = {
    {"feature", "This build has", "", "kernel, conversion or instruction", NIB_COLUMN_TEXT, 0},
    {"runs", "Runs here", "", "yes or no", NIB_COLUMN_TEXT, 0},
    {"why", "Because", "", "why not", NIB_COLUMN_TEXT, 0},
};

static enum nib_status add_feature(struct nib_table *table, const char *feature, bool runs, const char *why,
                                   struct nib_error *error) {
    size_t row = nib_table_row(table);
    if (row == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "gpu info: out of memory");
    nib_table_set_text(table, row, FEATURE, feature);
    nib_table_set_text(table, row, RUNS, runs ? "yes" : "no");
    nib_table_set_text(table, row, WHY, runs ? "" : why);
    return NIB_OK;
}

static enum nib_status list_features(const struct nib_gpu *gpu, const struct nib_gpu_device *d, struct nib_table *table,
                                     struct nib_error *error) {
    struct nib_gpu_mma mma;
    enum nib_status status = add_feature(table, "quantize, dequantize, rotate, swizzle", true, "", error);
    if (status == NIB_OK)
        status = add_feature(table, "cvt.rn.satfinite.e2m1x2", d->native_fp4_convert,
                             "needs compute capability 10.0, 10.3 or 12.x; own arithmetic instead", error);
    if (status == NIB_OK)
        status = add_feature(table, "cvt.rs.satfinite.e2m1x4", d->native_fp4_stochastic,
                             "needs compute capability 10.0 or 10.3; own arithmetic instead", error);
    if (status == NIB_OK)
        status = add_feature(table, "cuBLASLt products", d->cublaslt > 0, "the library was not found", error);
    for (unsigned i = 0; status == NIB_OK && gpu->plugin->mma_list(i, &mma) == NIB_GPU_OK; i++)
        status = add_feature(table, mma.name, mma.runs_here, mma.why_not, error);
    return status;
}

static enum nib_status json_info(const struct nib_call *call, const struct nib_gpu *gpu, const struct nib_gpu_device *d,
                                 const struct nib_table *table, struct nib_error *error) {
    struct nib_json *json;
    enum nib_status status = nib_output_json(call, &json, error);
    if (status != NIB_OK) return status;
    nib_json_text(json, "device", d->name);
    nib_json_integer(json, "major", d->major);
    nib_json_integer(json, "minor", d->minor);
    nib_json_integer(json, "multiprocessors", d->multiprocessors);
    nib_json_unsigned(json, "memory_total", d->memory_total);
    nib_json_unsigned(json, "memory_free", d->memory_free);
    nib_json_integer(json, "driver", d->driver);
    nib_json_integer(json, "runtime", d->runtime);
    nib_json_text(json, "plugin", gpu->path);
    nib_json_text(json, "version", gpu->plugin->version);
    nib_json_text(json, "commit", gpu->plugin->commit);
    nib_json_text(json, "built_for", d->built_for);
    nib_json_integer(json, "cublaslt", d->cublaslt);
    nib_json_table(json, "features", table);
    nib_json_end(json);
    return NIB_OK;
}

static enum nib_status info(struct nib_call *call, const struct nib_gpu *gpu, struct nib_error *error) {
    struct nib_gpu_device device;
    struct nib_table *table;
    enum nib_status status = nib_gpu_device_of(gpu, &device, error);
    if (status != NIB_OK) return status;
    status = nib_table_new("gpu_info", features, 3, &table, error);
    if (status != NIB_OK) return status;
    status = list_features(gpu, &device, table, error);
    if (status == NIB_OK && call->common.json)
        status = json_info(call, gpu, &device, table, error);
    else if (status == NIB_OK) {
        if (!call->common.tsv) print_info(gpu, &device);
        status = nib_output_table(call, table, NULL, error);
    }
    nib_table_free(table);
    return status;
}

/* ---- check ---- */

enum nib_status nib_gpu_device_of(const struct nib_gpu *gpu, struct nib_gpu_device *out, struct nib_error *error) {
    char message[256] = "";
    return nib_gpu_status(gpu->plugin->device(out, message, sizeof message), message, error);
}

enum nib_status nib_gpu_store(const struct nib_call *call, const struct nib_gpu *gpu, const char *title,
                              const struct nib_table *table, const struct nib_table *second, struct nib_error *error) {
    struct nib_gpu_device d;
    struct nib_result *file = NULL;
    struct nib_provenance *provenance = NULL;
    const char *group = nib_table_name(table);
    enum nib_status status = nib_gpu_device_of(gpu, &d, error);
    if (status == NIB_OK) status = nib_result_file_open(call, title, &file, error);
    if (status == NIB_OK) status = nib_result_table(file, group, table, error);
    if (status == NIB_OK && second != NULL) status = nib_result_table(file, nib_table_name(second), second, error);
    if (status == NIB_OK) status = nib_result_text_attribute(file, group, NULL, "device", d.name, error);
    if (status == NIB_OK)
        status = nib_result_integer_attribute(file, group, NULL, "compute_capability", d.major * 10 + d.minor, error);
    if (status == NIB_OK) status = nib_result_integer_attribute(file, group, NULL, "driver_cuda", d.driver, error);
    if (status == NIB_OK) status = nib_result_integer_attribute(file, group, NULL, "cuda_runtime", d.runtime, error);
    if (status == NIB_OK) status = nib_result_integer_attribute(file, group, NULL, "cublaslt", d.cublaslt, error);
    if (status == NIB_OK)
        status = nib_result_text_attribute(file, group, NULL, "plugin_commit", gpu->plugin->commit, error);
    if (status == NIB_OK) status = nib_provenance_new(&provenance, error);
    if (status == NIB_OK) {
        nib_provenance_set_command(provenance, call->argc, call->argv);
        nib_provenance_set_parallel(provenance, nib_threads((int)call->common.threads), 1);
        nib_provenance_add_seed(provenance, "seed", (uint64_t)call->common.seed);
    }
    return nib_result_file_end(status, file, provenance, error);
}

struct bar {
    const struct nib_call *call;
    struct nib_progress progress;
};

/* Each part has a bar of its own. */
static void advance(void *context, const char *part, size_t done, size_t total) {
    struct bar *bar = context;
    if (done == 0) {
        nib_progress_end(&bar->progress);
        nib_progress_start(&bar->progress, bar->call, "check", total);
    }
    nib_progress_step(&bar->progress, done > bar->progress.done ? done - bar->progress.done : 0, part);
}

static enum nib_status print_check(const struct nib_call *call, const char *device, const struct nib_table *report,
                                   const struct nib_table *summary, const struct nib_gpu_totals *totals,
                                   struct nib_error *error) {
    const struct nib_gpu_arguments *arguments = call->options;
    char headline[320];
    enum nib_status status = NIB_OK;
    if (totals->differing_rows == 0)
        snprintf(headline, sizeof headline, "%s: 0 differences in %llu quantized values and %llu outputs of products",
                 device, (unsigned long long)totals->quantized, (unsigned long long)totals->products);
    else
        snprintf(headline, sizeof headline,
                 "%s: %llu of %llu rows DIFFER (%llu quantized values, %llu outputs of products)", device,
                 (unsigned long long)totals->differing_rows, (unsigned long long)totals->rows,
                 (unsigned long long)totals->quantized, (unsigned long long)totals->products);
    if (call->common.json) {
        struct nib_json *json;
        status = nib_output_json(call, &json, error);
        if (status != NIB_OK) return status;
        nib_json_text(json, "headline", headline);
        nib_json_text(json, "device", device);
        nib_json_unsigned(json, "quantized_values", totals->quantized);
        nib_json_unsigned(json, "product_outputs", totals->products);
        nib_json_unsigned(json, "differing_rows", totals->differing_rows);
        nib_json_unsigned(json, "rows_not_run", totals->not_run);
        nib_json_unsigned(json, "rows_without_counterpart", totals->without_counterpart);
        nib_json_table(json, "rows", report);
        nib_json_end(json);
        return NIB_OK;
    }
    if (call->common.tsv) return nib_output_table(call, report, NULL, error);
    bool hidden[NIB_GPU_COLUMNS] = {[NIB_GPU_PART] = true, [NIB_GPU_CALLS] = true};
    for (size_t c = NIB_GPU_AXIS; c <= NIB_GPU_INPUTS; c++)
        hidden[c] = !arguments->all && c != NIB_GPU_ROTATION && c != NIB_GPU_ROUNDING;
    struct nib_layout layout = {headline, true, NIB_GPU_PART, hidden};
    nib_output_aligned(call, arguments->all ? report : summary, &layout, stdout);
    printf("\n%llu rows compared, %llu not run on this device, %llu without a counterpart in the emulator.\n",
           (unsigned long long)(totals->rows - totals->not_run - totals->without_counterpart),
           (unsigned long long)totals->not_run, (unsigned long long)totals->without_counterpart);
    return NIB_OK;
}

static enum nib_status check(struct nib_call *call, const struct nib_gpu *gpu, struct nib_error *error) {
    const struct nib_gpu_arguments *arguments = call->options;
    struct bar bar = {.call = call};
    struct nib_table *report = NULL, *summary = NULL;
    struct nib_gpu_totals totals;
    if (arguments->stack != NULL) return nib_gpu_check_stack(call, gpu, error);
    if (arguments->quick + arguments->full + arguments->small + arguments->shared > 1)
        return nib_fail(error, NIB_EINVAL, "--quick, --full, --small and --shared exclude each other");
    struct nib_gpu_check_request request = {.gpu = gpu,
                                            .full = arguments->full,
                                            .small = arguments->small || arguments->shared,
                                            .shared = arguments->shared,
                                            .seed = (uint64_t)call->common.seed,
                                            .threads = (int)call->common.threads,
                                            .files = call->values + 1,
                                            .file_count = call->value_count - 1,
                                            .progress = advance,
                                            .context = &bar};
    enum nib_status status = nib_gpu_check_run(&request, &report, error);
    nib_progress_end(&bar.progress);
    if (status != NIB_OK) return status;
    struct nib_gpu_device d;
    nib_gpu_report_totals(report, &totals);
    call->check_failed = totals.differing_rows > 0;
    status = nib_gpu_report_summary(report, &summary, error);
    if (status == NIB_OK) status = nib_gpu_device_of(gpu, &d, error);
    if (status == NIB_OK) status = print_check(call, d.name, report, summary, &totals, error);
    if (status == NIB_OK && call->common.output != NULL)
        status = nib_gpu_store(call, gpu, "CUDA kernels against the emulator", report, summary, error);
    nib_table_free(report);
    nib_table_free(summary);
    return status;
}

/* ---- probe ---- */

static enum nib_status probe(struct nib_call *call, struct nib_error *error) {
    const struct nib_gpu_arguments *arguments = call->options;
    struct nib_table *report = NULL, *summary = NULL;
    struct nib_gpu_totals totals;
    char device[160];
    if (call->value_count != 2) return nib_fail(error, NIB_EINVAL, "gpu probe: expected one folder");
    const char *folder = call->values[1];
    if (!arguments->verify) {
        enum nib_status status = nib_gpu_probe_write(folder, (uint64_t)call->common.seed, error);
        if (status == NIB_OK) printf("%s: written; its README.md says how to compile and run it\n", folder);
        return status;
    }
    enum nib_status status = nib_gpu_probe_verify(folder, &report, device, error);
    if (status != NIB_OK) return status;
    nib_gpu_report_totals(report, &totals);
    call->check_failed = totals.differing_rows > 0;
    status = nib_gpu_report_summary(report, &summary, error);
    if (status == NIB_OK) status = print_check(call, device, report, summary, &totals, error);
    nib_table_free(report);
    nib_table_free(summary);
    return status;
}

/* ---- bench ---- */

static enum nib_status bench(struct nib_call *call, const struct nib_gpu *gpu, struct nib_error *error) {
    static const size_t usual[][2] = {{2048, 2048}, {4096, 4096}, {8192, 8192}, {16384, 16384}, {8192, 28672}};
    const struct nib_gpu_arguments *arguments = call->options;
    size_t own[32][2], count = arguments->shapes.count;
    struct nib_table *table;
    if (count > 32) return nib_fail(error, NIB_EINVAL, "%zu shapes; expected at most 32", count);
    for (size_t i = 0; i < count; i++) {
        char rest;
        if (sscanf(arguments->shapes.item[i], "%zux%zu%c", &own[i][0], &own[i][1], &rest) != 2 || own[i][0] == 0 ||
            own[i][1] == 0)
            return nib_fail(error, NIB_EINVAL, "shape \"%s\": expected ROWSxCOLS, such as 8192x8192",
                            arguments->shapes.item[i]);
    }
    enum nib_status status =
        nib_gpu_bench_run(gpu, count > 0 ? (const size_t(*)[2])own : usual,
                          count > 0 ? count : sizeof usual / sizeof *usual, (int)arguments->repetitions, &table, error);
    if (status != NIB_OK) return status;
    status = nib_output_table(call, table, &(struct nib_layout){.grouped = true, .group = 0}, error);
    if (status == NIB_OK && call->common.output != NULL)
        status = nib_gpu_store(call, gpu, "speed of CUDA kernels", table, NULL, error);
    nib_table_free(table);
    return status;
}

/* Options of the other actions have no effect on this one. */
static enum nib_status check_applies(const struct nib_call *call, const char *action, struct nib_error *error) {
    static const char *const of_check[] = {"quick", "full", "small", "shared", "stack", NULL}, *const of_reports[] = {
                                                                                                   "all", NULL};
    static const char *const of_kernels[] = {"quick", "full", "small", "shared", NULL};
    static const char *const of_stack[] = {"recipe", "tokens", "sequences", "length", "no-backward", NULL};
    const struct nib_gpu_arguments *arguments = call->options;
    static const char *const of_bench[] = {"shape", "repetitions", NULL}, *const of_probe[] = {"verify", NULL};
    enum nib_status status = NIB_OK;
    if (strcmp(action, "check") != 0) status = nib_options_refuse(call, of_check, "goes with gpu check", error);
    if (status == NIB_OK && strcmp(action, "check") != 0 && strcmp(action, "probe") != 0)
        status = nib_options_refuse(call, of_reports, "goes with gpu check", error);
    if (status == NIB_OK && strcmp(action, "bench") != 0)
        status = nib_options_refuse(call, of_bench, "goes with gpu bench", error);
    if (status == NIB_OK && strcmp(action, "probe") != 0)
        status = nib_options_refuse(call, of_probe, "goes with gpu probe", error);
    if (status == NIB_OK && arguments->stack == NULL)
        status = nib_options_refuse(call, of_stack, "goes with gpu check --stack", error);
    if (status != NIB_OK || arguments->stack == NULL) return status;
    if (call->value_count > 1)
        return nib_fail(error, NIB_EINVAL, "gpu check --stack: unexpected argument \"%s\"", call->values[1]);
    if (arguments->recipes.count == 0 || arguments->tokens == NULL)
        return nib_fail(error, NIB_EINVAL,
                        "gpu check --stack: %s is missing; expected --recipe ufp4,nvfp4 --tokens FILE, for example",
                        arguments->recipes.count == 0 ? "--recipe" : "--tokens");
    return nib_options_refuse(call, of_kernels, "does not go with gpu check --stack", error);
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    static const struct {
        const char *name;
        size_t most;
        enum nib_status (*run)(struct nib_call *call, const struct nib_gpu *gpu, struct nib_error *error);
    } actions[] = {{"info", 0, info}, {"check", 4095, check}, {"bench", 0, bench}};
    const struct nib_gpu_arguments *arguments = call->options;
    const char *action = call->values[0];
    enum nib_status status = check_applies(call, action, error);
    if (status != NIB_OK) return status;
    if (strcmp(action, "probe") == 0) return probe(call, error);
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        struct nib_gpu gpu;
        if (strcmp(action, actions[i].name) != 0) continue;
        if (call->value_count - 1 > actions[i].most)
            return nib_fail(error, NIB_EINVAL, "gpu %s: unexpected argument \"%s\"", action,
                            call->values[1 + actions[i].most]);
        status = nib_gpu_open((int)arguments->device, &gpu, error);
        if (status != NIB_OK) return status;
        status = actions[i].run(call, &gpu, error);
        nib_gpu_close(&gpu);
        return status;
    }
    return nib_fail(error, NIB_EINVAL, "gpu: unknown action \"%s\"; expected info, check, bench or probe", action);
}

static const struct nib_example examples[] = {
    {"nibble gpu info", "the device, and what this build can run on it"},
    {"nibble gpu check --quick", "every kernel against the emulator"},
    {"nibble gpu check --full -o check.h5 data/bytelm-28m.activations.safetensors", "more values, real tensors among them"},
    {"nibble gpu check --stack data/bytelm-8m.safetensors --recipe ufp4,nvfp4 --tokens data/heldout.txt", "a model's layers, forward and backward"},
    {"nibble gpu bench --shape 8192x8192", "share of the copy bandwidth"},
    {"nibble gpu probe kit", "a folder for the owner of another device"},
    {"nibble gpu probe --verify kit", "what came back, against the models"},
    {NULL, NULL},
};

NIB_COMMAND(gpu) = {
    .values = "info|check|bench|probe [FILE...|DIR]",
    .least = 1,
    .most = 4096,
    .description =
        "Drives a CUDA device through a plug-in that shares no code with the emulator. info says what the device and this build can do. check "
        "runs every kernel, rotation and matrix instruction on both sides and compares codes, scales, packed bytes, values and "
        "outputs bit for bit (exit code 1 on any difference); FILEs add real tensors; --stack feeds them the operands of a model's layers, as recipes "
        "quantize them. bench times the kernels. probe writes a "
        "folder that somebody with other hardware compiles and runs, and --verify compares what comes back; it needs no device here. "
        "Without plug-in, driver or device the exit code is 4.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof defaults,
    .takes = NIB_TAKES_JSON | NIB_TAKES_OUTPUT | NIB_TAKES_THREADS | NIB_TAKES_SEED,
    .examples = examples,
    .run = run,
};
