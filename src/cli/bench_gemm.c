#include "cli/bench_gemm.h"

#include <math.h>
#include <nibble/gemm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/threads.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "gemm/yardstick.h"
#include "job/sample.h"
#include "unit/kernel.h"

/* The products of the table. An element stands for the grid with one FP32 scale to 16 elements. */
static const struct product {
    const char *name, *unit, *quantizer, *element, *operand;
    unsigned promote;
} products[] = {
    {"NVFP4, Blackwell", "blackwell-tcgen05-nvfp4", "te-nvfp4", NULL, NULL, 0},
    {"MXFP4, Blackwell", "blackwell-tcgen05-mxfp4", "ocp-mxfp4", NULL, NULL, 0},
    {"E1M2, FP32 block scales", "ampere-mma-int8-k16-s32", "e1m2-fp32", NULL, NULL, 0},
    {"INT4, FP32 block scales", "ampere-mma-int8-k16-s32", NULL, "int4", NULL, 0},
    {"FP8 E4M3 with promotion, Hopper", "hopper-wgmma-fp8-f32", NULL, NULL, "e4m3", 4},
    {"BF16, Hopper", "hopper-wgmma-16bit-f32", NULL, NULL, "bf16", 0},
    {"MXFP8 E4M3, Blackwell", "blackwell-tcgen05-mxf8f6f4", NULL, NULL, "e4m3", 0},
    {"INT8, Hopper", "hopper-wgmma-int8-s32", NULL, NULL, "s8", 0},
};
enum { PRODUCTS = sizeof products / sizeof *products };

static const struct nib_column columns[] = {
    {"product", "product", "", "what is multiplied", NIB_COLUMN_TEXT, 0},
    {"unit", "unit", "", "matrix unit", NIB_COLUMN_TEXT, 0},
    {"isa", "isa", "", "instruction set of the model", NIB_COLUMN_TEXT, 0},
    {"threads", "threads", "1", "threads of both", NIB_COLUMN_INTEGER, 0},
    {"gmacs", "1e9 mul-adds/s", "1e9/s", "multiply-adds per second, best run", NIB_COLUMN_REAL, 2},
    {"sgemm_gmacs", "sgemm", "1e9/s", "the same of OpenBLAS sgemm", NIB_COLUMN_REAL, 2},
    {"ratio", "share of sgemm", "1", "ratio of the two", NIB_COLUMN_REAL, 3},
    {"spread", "median/best", "1", "median time of the model over its best", NIB_COLUMN_REAL, 2},
    {"runs", "runs", "1", "timed runs of each", NIB_COLUMN_INTEGER, 0},
};

/* The values, the same binary32 numbers for every product. */
struct matrices {
    size_t m, n, k;
    float *a, *b, *d;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static enum nib_status read_shape(const char *text, struct matrices *x, struct nib_error *error) {
    int64_t extent[3] = {1024, 1024, 4096};
    char copy[64] = "", *rest = copy, *word;
    int count = text == NULL ? 3 : 0;
    if (text != NULL) snprintf(copy, sizeof copy, "%s", text);
    while (text != NULL && count < 4 && (word = strsep(&rest, "x")) != NULL)
        if (count == 3 || !nib_number_integer(word, 1, 1 << 20, &extent[count++])) count = 4;
    if (count != 3 || extent[2] % 128 != 0)
        return nib_fail(error, NIB_EINVAL,
                        "--shape \"%s\": expected MxNxK with K a multiple of 128, such as 1024x1024x4096", text);
    x->m = (size_t)extent[0], x->n = (size_t)extent[1], x->k = (size_t)extent[2];
    return NIB_OK;
}

static enum nib_status open_quantizer(const struct product *p, const struct nib_quantizer **out,
                                      struct nib_error *error) {
    const struct nib_element *element = NULL;
    const struct nib_scale *scale = NULL;
    if (p->quantizer != NULL) return nib_quantizer_open(p->quantizer, out, error);
    enum nib_status status = nib_element_open(p->element, &element, error);
    if (status == NIB_OK) status = nib_scale_open("fp32", &scale, error);
    if (status == NIB_OK) status = nib_quantizer_of_grid(element, scale, 16, out, error);
    nib_scale_close(scale);
    nib_element_close(element);
    return status;
}

static enum nib_status make_operand(const struct product *p, const struct nib_unit *unit, struct nib_view values,
                                    int threads, struct nib_gemm_buffer *out, struct nib_error *error) {
    enum nib_operand operand;
    if (p->operand != NULL) {
        enum nib_status status = nib_operand_parse(p->operand, &operand, error);
        return status == NIB_OK ? nib_gemm_from_values(unit, operand, values, out, error) : status;
    }
    const struct nib_quantizer *quantizer;
    struct nib_quantized q;
    enum nib_status status = open_quantizer(p, &quantizer, error);
    if (status != NIB_OK) return status;
    status = nib_quantized_alloc(quantizer, values.rows, values.cols, NIB_ALONG_COLS, NIB_WANT_PACKED | NIB_WANT_SCALES,
                                 &q, error);
    if (status == NIB_OK) {
        status = nib_quantize(quantizer, values, &(struct nib_quantize_options){.threads = threads}, &q, error);
        if (status == NIB_OK) status = nib_gemm_from_quantized(unit, quantizer, &q, out, error);
        nib_quantized_free(&q);
    }
    nib_quantizer_close(quantizer);
    return status;
}

static int by_size(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* The model and sgemm in turn, so that both see the same machine. */
static enum nib_status measure(const struct product *p, const struct nib_gemm *g, const struct matrices *x, int threads,
                               double seconds, const char *isa, struct nib_table *table, struct nib_error *error) {
    enum { RUNS = 200 };
    double model[RUNS], best_sgemm = INFINITY, spent = 0;
    size_t runs = 0;
    struct nib_unit_options options = {threads, isa};
    while (runs < RUNS && (runs < 3 || spent < 2 * seconds)) {
        double start = now();
        enum nib_status status = nib_gemm_run(g, &options, x->d, x->n, error);
        if (status != NIB_OK) return status;
        double middle = now();
        nib_yardstick_sgemm(x->m, x->n, x->k, x->a, x->b, x->d, threads);
        double end = now();
        model[runs++] = middle - start;
        if (end - middle < best_sgemm) best_sgemm = end - middle;
        spent += end - start;
    }
    qsort(model, runs, sizeof *model, by_size);
    const char *ran;
    enum nib_status status = nib_unit_isa(g->unit, g->a.matrix.operand, g->b.matrix.operand, isa, &ran, error);
    if (status != NIB_OK) return status;
    double work = 1e-9 * (double)x->m * (double)x->n * (double)x->k;
    size_t row = nib_table_row(table);
    if (row == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "out of memory");
    nib_table_set_text(table, row, 0, p->name);
    nib_table_set_text(table, row, 1, p->unit);
    nib_table_set_text(table, row, 2, ran);
    nib_table_set_integer(table, row, 3, threads);
    nib_table_set_real(table, row, 4, work / model[0]);
    nib_table_set_real(table, row, 5, work / best_sgemm);
    nib_table_set_real(table, row, 6, best_sgemm / model[0]);
    nib_table_set_real(table, row, 7, model[runs / 2] / model[0]);
    nib_table_set_integer(table, row, 8, (int64_t)runs);
    return NIB_OK;
}

static enum nib_status bench_product(const struct product *p, const struct matrices *x, int threads, double seconds,
                                     const char *isa, struct nib_table *table, struct nib_error *error) {
    const struct nib_unit *unit;
    struct nib_gemm_buffer a = {.rows = 0}, b = {.rows = 0};
    enum nib_status status = nib_unit_open(p->unit, &unit, error);
    if (status != NIB_OK) return status;
    status = make_operand(p, unit, (struct nib_view){x->a, NIB_F32, x->m, x->k, x->k}, threads, &a, error);
    if (status == NIB_OK)
        status = make_operand(p, unit, (struct nib_view){x->b, NIB_F32, x->n, x->k, x->k}, threads, &b, error);
    if (status == NIB_OK) {
        struct nib_gemm g = {.unit = unit,
                             .m = x->m,
                             .n = x->n,
                             .k = x->k,
                             .a = a.operand,
                             .b = b.operand,
                             .block_scale_k = a.block_scale_k,
                             .promote = p->promote,
                             .alpha = a.tensor_scale_decode * b.tensor_scale_decode};
        status = measure(p, &g, x, threads, seconds, isa, table, error);
    }
    nib_gemm_buffer_clear(&a);
    nib_gemm_buffer_clear(&b);
    nib_unit_close(unit);
    return status;
}

/* OpenBLAS reads OPENBLAS_CORETYPE when it is loaded. A yardstick that the environment has shortened
 * measures nothing, so the program starts again without it. */
static void restart_without_core_type(const struct nib_call *call) {
    if (getenv("OPENBLAS_CORETYPE") == NULL) return;
    unsetenv("OPENBLAS_CORETYPE");
    fflush(NULL);
    execv("/proc/self/exe", call->argv);
    nib_output_note(call, "OPENBLAS_CORETYPE was set when OpenBLAS was loaded; sgemm runs with %s",
                    nib_yardstick_core());
}

enum nib_status nib_bench_gemm(const struct nib_call *call, const char *shape, double seconds, const char *isa,
                               struct nib_error *error) {
    struct matrices x = {.a = NULL};
    struct nib_distribution gaussian;
    struct nib_table *table = NULL;
    struct nib_progress progress;
    char headline[160];
    int threads = nib_threads((int)call->common.threads);
    enum nib_status status = read_shape(shape, &x, error);
    if (status == NIB_OK) status = nib_distribution_parse("gaussian", &gaussian, error);
    if (status != NIB_OK) return status;
    restart_without_core_type(call);
    x.a = nib_alloc_raw(x.m * x.k, sizeof(float), "A", error);
    x.b = nib_alloc_raw(x.n * x.k, sizeof(float), "B", error);
    x.d = nib_alloc_raw(x.m * x.n, sizeof(float), "D", error);
    status = x.a == NULL || x.b == NULL || x.d == NULL
                 ? NIB_ENOMEM
                 : nib_table_new("bench", columns, sizeof columns / sizeof *columns, &table, error);
    nib_progress_start(&progress, call, "products", PRODUCTS);
    if (status == NIB_OK) {
        nib_distribution_fill(&gaussian, (uint64_t)call->common.seed, 0, x.m * x.k, threads, x.a);
        nib_distribution_fill(&gaussian, (uint64_t)call->common.seed + 1, 0, x.n * x.k, threads, x.b);
    }
    for (size_t i = 0; i < PRODUCTS && status == NIB_OK; i++) {
        status = bench_product(&products[i], &x, threads, seconds, isa, table, error);
        nib_progress_step(&progress, 1, NULL);
    }
    nib_progress_end(&progress);
    snprintf(headline, sizeof headline, "M x N x K = %zu x %zu x %zu; OpenBLAS core %s", x.m, x.n, x.k,
             nib_yardstick_core());
    if (status == NIB_OK) status = nib_output_table(call, table, &(struct nib_layout){.headline = headline}, error);
    nib_table_free(table);
    free(x.a), free(x.b), free(x.d);
    return status;
}
