#include "job/bench_quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "core/convert.h"
#include "job/sample.h"
#include "quantize/isa.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What one run does; a failure ends the measurement. */
struct work {
    const struct nib_bench_request *request;
    struct nib_view view;
    struct nib_quantize_options options;
    struct nib_quantized out;
    uint8_t *sink; /* as many bytes as the quantizer writes */
    size_t written;
    bool with_amax; /* memory kernel: one more pass over the input */
};
typedef enum nib_status run_once(struct work *work, struct nib_error *error);

static enum nib_status run_quantizer(struct work *work, struct nib_error *error) {
    return nib_quantize(work->request->quantizer, work->view, &work->options, &work->out, error);
}

static size_t input_bytes(const struct nib_bench_request *request) {
    return request->rows * request->cols * (request->dtype == NIB_F32 ? 4 : 2);
}

/* Words combine without a value that the compiler could drop. */
static uint64_t read_words(const uint64_t *words, size_t count) {
    uint64_t a = 0;
    for (size_t i = 0; i < count; i++) a |= words[i];
    return a;
}

/* Reads every byte of the input and writes as many as the quantizer does, in pieces that stay in cache. */
static enum nib_status run_memory(struct work *work, struct nib_error *error) {
    (void)error;
    enum { PIECES = 4096 };
    const uint64_t *input = work->view.data;
    size_t words = input_bytes(work->request) / sizeof *input;
    uint64_t seen = 0;
    int threads = nib_threads(work->request->threads);
    if (work->with_amax) {
#pragma omp parallel for num_threads(threads) reduction(| : seen) schedule(static)
        for (size_t p = 0; p < PIECES; p++) {
            size_t start = words * p / PIECES, end = words * (p + 1) / PIECES;
            seen |= read_words(input + start, end - start);
        }
    }
#pragma omp parallel for num_threads(threads) reduction(| : seen) schedule(static)
    for (size_t p = 0; p < PIECES; p++) {
        size_t start = words * p / PIECES, end = words * (p + 1) / PIECES;
        uint64_t piece = read_words(input + start, end - start);
        size_t from = work->written * p / PIECES, to = work->written * (p + 1) / PIECES;
        memset(work->sink + from, (int)(piece & 0xFF), to - from);
        seen |= piece;
    }
    work->sink[0] = (uint8_t)seen;
    return NIB_OK;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum nib_status measure(run_once *once, struct work *work, struct nib_bench_time *out, struct nib_error *error) {
    enum { MOST = 999, LEAST = 5 };
    double times[MOST], begin = now();
    size_t runs = 0;
    enum nib_status status = once(work, error); /* warm-up: pages, caches, threads */
    while (status == NIB_OK && runs < MOST && (runs < LEAST || now() - begin < work->request->seconds)) {
        double start = now();
        status = once(work, error);
        times[runs++] = now() - start;
    }
    if (status != NIB_OK) return status;
    qsort(times, runs, sizeof *times, ascending);
    *out = (struct nib_bench_time){times[runs / 2], times[0], (times[runs * 3 / 4] - times[runs / 4]) / times[runs / 2],
                                   runs};
    return NIB_OK;
}

/* Of one thread its own time, which others on the machine leave alone. */
static double spent(int threads) {
    struct timespec t;
    if (nib_threads(threads) > 1) return now();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Run by run in turn with the yardstick, so that what else the machine does falls on both. */
static enum nib_status compare(struct work *work, double *ratio, struct nib_error *error) {
    enum { LEAST = 7, MOST = 999 };
    const struct nib_quantizer *yardstick = work->request->yardstick;
    struct nib_quantized out;
    enum nib_status status = nib_quantized_alloc(yardstick, work->request->rows, work->request->cols, NIB_ALONG_COLS,
                                                 work->request->want, &out, error);
    if (status != NIB_OK) return status;
    double best[2] = {INFINITY, INFINITY}, begin = now();
    for (int runs = 0; status == NIB_OK && runs < MOST; runs++) {
        if (runs >= LEAST && now() - begin > 2 * work->request->seconds) break;
        const int threads = work->request->threads;
        double start = spent(threads);
        status = nib_quantize(yardstick, work->view, &work->options, &out, error);
        double middle = spent(threads);
        if (status == NIB_OK) status = run_quantizer(work, error);
        best[0] = fmin(best[0], middle - start);
        best[1] = fmin(best[1], spent(threads) - middle);
    }
    nib_quantized_free(&out);
    if (status == NIB_OK) *ratio = best[0] / best[1];
    return status;
}

/* Gaussian elements in place: half-size types are narrowed front to back. */
static void *make_input(const struct nib_bench_request *request, struct nib_error *error) {
    size_t count = request->rows * request->cols;
    struct nib_distribution gaussian;
    if (nib_distribution_parse("gaussian", &gaussian, error) != NIB_OK) return NULL;
    float *x = nib_alloc_raw(count, sizeof *x, "the input of the benchmark", error);
    if (x == NULL) return NULL;
    nib_distribution_fill(&gaussian, request->seed, 0, count, request->threads, x);
    uint8_t *bytes = (uint8_t *)x;
    for (size_t i = 0; i < count && request->dtype != NIB_F32; i++) {
        uint32_t bits = nib_bits_of_float(x[i]);
        uint16_t half = request->dtype == NIB_BF16 ? nib_bf16_of_bits(bits) : nib_f16_of_bits(bits);
        memcpy(bytes + 2 * i, &half, sizeof half);
    }
    return x;
}

static size_t bytes_written(const struct nib_quantized *q) {
    size_t elements = q->rows * q->cols, bytes = 0;
    if (q->codes != NULL) bytes += elements;
    if (q->packed != NULL) bytes += q->rows * q->packed_stride;
    if (q->scales != NULL) bytes += q->scale_rows * q->scale_cols * q->scale_bytes;
    if (q->values != NULL) bytes += elements * sizeof(float);
    return bytes;
}

static enum nib_status measure_all(struct work *work, struct nib_bench_result *out, struct nib_error *error) {
    enum nib_status status = measure(run_quantizer, work, &out->total, error);
    work->with_amax = out->has_tensor_scale;
    if (status == NIB_OK) status = measure(run_memory, work, &out->memory_total, error);
    out->ratio = NAN;
    if (status == NIB_OK && work->request->yardstick != NULL) status = compare(work, &out->ratio, error);
    out->given = out->total;
    out->memory_given = out->memory_total;
    if (!out->has_tensor_scale || status != NIB_OK) return status;
    work->options.has_tensor_amax = true;
    work->options.tensor_amax = work->out.tensor_amax;
    work->with_amax = false;
    status = measure(run_quantizer, work, &out->given, error);
    return status == NIB_OK ? measure(run_memory, work, &out->memory_given, error) : status;
}

enum nib_status nib_bench_quantize(const struct nib_bench_request *request, struct nib_bench_result *out,
                                   struct nib_error *error) {
    struct nib_quantizer_info info;
    nib_quantizer_describe(request->quantizer, &info);
    struct work work = {.request = request,
                        .options = {.threads = request->threads, .isa = request->isa, .rotation = request->rotation}};
    struct nib_bench_result result = {.elements = request->rows * request->cols,
                                      .has_tensor_scale = info.block->has_tensor_scale};
    const struct nib_isa *isa;
    bool reference;
    enum nib_status status = nib_isa_choose(request->isa, &isa, &reference, error);
    if (status != NIB_OK) return status;
    result.isa = reference ? "ref" : isa->name;
    void *input = make_input(request, error);
    if (input == NULL) return NIB_ENOMEM;
    work.view = (struct nib_view){input, request->dtype, request->rows, request->cols, request->cols};
    status = nib_quantized_alloc(request->quantizer, request->rows, request->cols, NIB_ALONG_COLS, request->want,
                                 &work.out, error);
    if (status == NIB_OK) {
        work.written = bytes_written(&work.out);
        work.sink = nib_alloc(work.written + 1, 1, "the benchmark's output", error);
        status = work.sink == NULL ? NIB_ENOMEM : measure_all(&work, &result, error);
        nib_quantized_free(&work.out);
        free(work.sink);
    }
    free(input);
    if (status != NIB_OK) return status;
    result.bytes_given = (double)(input_bytes(request) + work.written);
    result.bytes_total = result.bytes_given + (result.has_tensor_scale ? (double)input_bytes(request) : 0);
    *out = result;
    return NIB_OK;
}
