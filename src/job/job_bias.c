/* The bias report as a job: one tensor, one quantizer, one rotation; one row. */
#include "format/quantizer.h"
#include "job/job.h"

#include "base/axis.h"
#include "base/error.h"
#include "base/memory.h"
#include "job/bias.h"
#include "job/cite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TENSOR, DIST, COUNT, SEED, QUANTIZER, ELEMENT, SCALE, BLOCK_SIZE, ROTATION, ROTATION_SIZE, GEMM, OPERAND, AXIS,
    PARAMETERS
};
static const char *const gemms[] = {"none", "fprop", "dgrad", "wgrad", NULL}; /* NIB_GEMM_NONE + 1, ... */
static const char *const operands[] = {"by-name", "x", "w", "dy", NULL};

static const struct nib_parameter parameters[] = {
    NIB_PARAM_TENSOR("tensor", "what is quantized; this or dist"),
    NIB_PARAM_TEXT("dist", NULL, "a random tensor: gaussian, laplace, logistic, uniform, tNU (t3), siluA (silu4)"),
    NIB_PARAM_INTEGER("count", "4194304", 1024, INT64_C(1) << 32, "elements of a random tensor"),
    NIB_PARAM_INTEGER("seed", "0", 0, INT64_MAX, "seed of a random tensor and of stochastic rounding"),
    NIB_PARAM_FORMAT("quantizer", NULL, "quantizer; this, or element with scale and block_size"),
    NIB_PARAM_FORMAT("element", NULL, "element format, with one scale amax/g_max a block"),
    NIB_PARAM_FORMAT("scale", "fp32", "scale format that goes with element"),
    NIB_PARAM_INTEGER("block_size", "16", 1, 65536, "block length that goes with element"),
    NIB_PARAM_FORMAT("rotation", NULL, "rotation before the quantizer; this, rotation_size, or none"),
    NIB_PARAM_INTEGER("rotation_size", NULL, 1, 65536,
                      "a plain Hadamard transform of this size; 1 leaves the tensor as it is"),
    NIB_PARAM_CHOICE("gemm", "none", gemms, "the GEMM whose reduction axis is meant; none: see axis"),
    NIB_PARAM_CHOICE("operand", "by-name", operands, "what the tensor is in the GEMM"),
    NIB_PARAM_CHOICE("axis", "cols", nib_axis_names, "reduction axis where gemm is none"),
    NIB_PARAM_END,
};

#define STATISTIC_COLUMNS(field, heading, units, digits, long_name)                                      \
    {#field, heading, units, long_name, NIB_COLUMN_REAL, digits},                                        \
        {#field "_se", "+-", units, "standard error: " long_name, NIB_COLUMN_REAL, (digits) < 0 ? -2 : (digits)},
static const struct nib_column columns[] = {
    {"module", "module", "", "linear layer within its transformer layer", NIB_COLUMN_TEXT, 0},
    {"layer", "layer", "1", "layer, -1 where the name has none", NIB_COLUMN_INTEGER, 0},
    {"rows", "rows", "1", "rows of the tensor", NIB_COLUMN_INTEGER, 0},
    {"cols", "cols", "1", "columns of the tensor", NIB_COLUMN_INTEGER, 0},
    {"count", "count", "1", "finite elements", NIB_COLUMN_INTEGER, 0},
    {"nan_count", "NaN", "1", "NaN elements", NIB_COLUMN_INTEGER, 0},
    {"inf_count", "Inf", "1", "infinite elements", NIB_COLUMN_INTEGER, 0},
    {"bits_per_value", "bits", "bit", "bits per value of the block format, scales included", NIB_COLUMN_REAL, 2},
    NIB_STATISTIC_LIST(STATISTIC_COLUMNS)};
enum { MODULE, LAYER, ROWS, COLS, FINITE, NANS, INFS, BITS, FIRST };

/* Logarithms and exponentials. Random tensors too are made by them, but the tensor of a file is exact. */
static const char *const inexact[] = {"sqnr_db", "sqnr_db_se",      "b_eff", "b_eff_se",
                                      "code_entropy", "code_entropy_se", NULL};

struct formats {
    const struct nib_quantizer *quantizer;
    const struct nib_rotation *rotation;
    struct nib_distribution distribution;
};

static void formats_close(struct formats *formats) {
    nib_quantizer_close(formats->quantizer);
    nib_rotation_close(formats->rotation);
}

static enum nib_status open_quantizer(const struct nib_argument *a, const struct nib_quantizer **out,
                                      struct nib_error *error) {
    if (a[QUANTIZER].given == a[ELEMENT].given)
        return nib_fail(error, NIB_EINVAL, "%s", a[QUANTIZER].given ? "quantizer and element exclude each other"
                                                                    : "quantizer or element must be given");
    if (a[QUANTIZER].given) return nib_quantizer_open(a[QUANTIZER].path, out, error);
    const struct nib_element *element = NULL;
    const struct nib_scale *scale = NULL;
    enum nib_status status = nib_element_open(a[ELEMENT].path, &element, error);
    if (status == NIB_OK) status = nib_scale_open(a[SCALE].path, &scale, error);
    if (status == NIB_OK) status = nib_quantizer_of_grid(element, scale, (unsigned)a[BLOCK_SIZE].integer, out, error);
    if (scale != NULL) nib_scale_close(scale);
    if (element != NULL) nib_element_close(element);
    return status;
}

static enum nib_status open_rotation(const struct nib_argument *a, const struct nib_rotation **out,
                                     struct nib_error *error) {
    if (a[ROTATION].given && a[ROTATION_SIZE].given)
        return nib_fail(error, NIB_EINVAL, "rotation and rotation_size exclude each other");
    if (!a[ROTATION_SIZE].given) return nib_rotation_open(a[ROTATION].given ? a[ROTATION].path : "none", out, error);
    char text[200], name[40];
    snprintf(name, sizeof name, "hadamard%lld", (long long)a[ROTATION_SIZE].integer);
    int length = snprintf(text, sizeof text,
                          "kind: rotation\ntitle: Hadamard transform of %lld elements\nsource: parameter rotation_size\n"
                          "size: %lld\n",
                          (long long)a[ROTATION_SIZE].integer, (long long)a[ROTATION_SIZE].integer);
    return nib_rotation_parse(text, (size_t)length, name, out, error);
}

static enum nib_status formats_open(const struct nib_argument *a, struct formats *out, struct nib_error *error) {
    if (a[TENSOR].given == a[DIST].given)
        return nib_fail(error, NIB_EINVAL, "%s",
                        a[TENSOR].given ? "tensor and dist exclude each other" : "tensor or dist must be given");
    enum nib_status status = a[DIST].given ? nib_distribution_parse(a[DIST].text, &out->distribution, error) : NIB_OK;
    if (status == NIB_OK) status = open_quantizer(a, &out->quantizer, error);
    if (status == NIB_OK) status = open_rotation(a, &out->rotation, error);
    return status;
}

static struct nib_bias_request request_of(const struct nib_argument *a, const struct formats *formats) {
    return (struct nib_bias_request){
        .files = a[TENSOR].given ? &a[TENSOR].path : NULL,
        .file_count = a[TENSOR].given,
        .distributions = &formats->distribution,
        .distribution_count = a[DIST].given,
        .sample_count = (uint64_t)a[COUNT].integer,
        .seed = (uint64_t)a[SEED].integer,
        .quantizers = &formats->quantizer,
        .quantizer_count = 1,
        .rotations = &formats->rotation,
        .rotation_count = 1,
        .axis = a[GEMM].integer == 0 ? (int)a[AXIS].integer : NIB_AXIS_BY_ROLE,
        .gemm = (enum nib_gemm)(a[GEMM].integer - 1),
        .operand = (enum nib_operand)(a[OPERAND].integer - 1),
    };
}

static enum nib_status check(const struct nib_argument *arguments, struct nib_error *error) {
    struct formats formats = {0};
    enum nib_status status = formats_open(arguments, &formats, error);
    if (status == NIB_OK) {
        struct nib_bias_request request = request_of(arguments, &formats);
        status = nib_bias_check(&request, error);
    }
    formats_close(&formats);
    return status;
}

static enum nib_status table_of(const struct nib_bias_result *result, struct nib_table **out, struct nib_error *error) {
    struct nib_table *table = NULL;
    enum nib_status status = nib_table_new("bias", columns, sizeof columns / sizeof *columns, &table, error);
    if (status != NIB_OK) return status;
    for (size_t v = 0; v < nib_bias_views(result); v++) {
        const struct nib_bias_view *view = nib_bias_view_at(result, v);
        const struct nib_bias_entry *entry = nib_bias_entry_at(result, v, 0, 0);
        size_t row = nib_table_row(table);
        if (row == SIZE_MAX) {
            nib_table_free(table);
            return nib_fail(error, NIB_ENOMEM, "result table: out of memory");
        }
        nib_table_set_text(table, row, MODULE, view->module);
        nib_table_set_integer(table, row, LAYER, view->layer);
        nib_table_set_integer(table, row, ROWS, (int64_t)view->rows);
        nib_table_set_integer(table, row, COLS, (int64_t)view->cols);
        nib_table_set_integer(table, row, FINITE, (int64_t)entry->total.count);
        nib_table_set_integer(table, row, NANS, (int64_t)entry->total.nan_count);
        nib_table_set_integer(table, row, INFS, (int64_t)entry->total.inf_count);
        nib_table_set_real(table, row, BITS, (double)entry->bits_per_value);
        for (size_t s = 0; s < NIB_STATISTICS; s++) {
            nib_table_set_real(table, row, FIRST + 2 * s, entry->estimate[s].value);
            nib_table_set_real(table, row, FIRST + 2 * s + 1, entry->estimate[s].error);
        }
    }
    *out = table;
    return NIB_OK;
}

static enum nib_status run(const struct nib_argument *arguments, int threads, struct nib_table **out,
                           struct nib_error *error) {
    struct formats formats = {0};
    struct nib_bias_result *result = NULL;
    enum nib_status status = formats_open(arguments, &formats, error);
    if (status == NIB_OK) {
        struct nib_bias_request request = request_of(arguments, &formats);
        request.threads = threads;
        status = nib_bias_run(&request, &result, error);
    }
    if (status == NIB_OK) status = table_of(result, out, error);
    nib_bias_result_free(result);
    formats_close(&formats);
    return status;
}

static enum nib_status cite(const struct nib_argument *arguments, struct nib_provenance *provenance,
                            struct nib_error *error) {
    struct formats formats = {0};
    enum nib_status status = formats_open(arguments, &formats, error);
    if (status == NIB_OK) {
        nib_cite_quantizer(provenance, formats.quantizer);
        nib_cite_rotation(provenance, formats.rotation);
        if (arguments[DIST].given || nib_axes_stochastic(&formats.quantizer->axes)) {
            char name[64];
            snprintf(name, sizeof name, "seed %s", arguments[SEED].text);
            nib_provenance_add_seed(provenance, name, (uint64_t)arguments[SEED].integer);
        }
    }
    formats_close(&formats);
    return status;
}

NIB_JOB(bias) = {
    .parameters = parameters,
    .columns = columns,
    .column_count = sizeof columns / sizeof *columns,
    .inexact = inexact,
    .check = check,
    .run = run,
    .cite = cite,
};
