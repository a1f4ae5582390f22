/* nibble rotate: Hadamard transforms of a matrix. */
#include <math.h>
#include <nibble/rotate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/axis.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/remember.h"
#include "cli/result_file.h"
#include "core/key.h"
#include "io/json_out.h"
#include "job/cite.h"
#include "quantize/isa.h"

struct arguments {
    const char *rotation, *unit, *shape;
    struct nib_texts signs, values;
    int64_t size, base, sign_seed, points;
    int axis, evaluation, normalization, output, stages, operand;
    double factor;
    bool inverse, flush;
    int cast;
};

static const struct arguments defaults = {.sign_seed = -1, .factor = NAN};
static const char *const evaluations[] = {"butterfly", "sequential", "exact", "unit", NULL};
static const char *const normalizations[] = {"orthonormal", "none", NULL};
static const char *const precisions[] = {"fp32", "bf16", NULL};
static const char *const operands[] = {"bf16", "tf32", NULL};

static const struct nib_option options[] = {
    NIB_OPT_TEXT(struct arguments, rotation, "rotation", 'r', "ROTATION", "a name that 'nibble list rotations' gives, or a YAML file"),
    NIB_OPT_INTEGER(struct arguments, size, "size", 'n', "N", 1, 40960, "instead of a rotation: elements of a group, 2^k or 12, 20, 28, 40 times 2^k"),
    NIB_OPT_INTEGER(struct arguments, base, "base", 0, "B", 1, 40, "order of the base matrix; the largest that fits by default"),
    NIB_OPT_LIST(struct arguments, signs, "signs", 0, "S,S,...", "1 or -1 for each element of a group"),
    NIB_OPT_INTEGER(struct arguments, sign_seed, "sign-seed", 0, "N", 0, INT64_MAX, "signs drawn by Philox from this seed"),
    NIB_OPT_CHOICE(struct arguments, evaluation, "evaluation", 'e', "HOW", evaluations, "how sums are formed; butterfly by default"),
    NIB_OPT_TEXT(struct arguments, unit, "unit", 'u', "UNIT", "matrix unit of --evaluation unit"),
    NIB_OPT_INTEGER(struct arguments, points, "points", 0, "N", 0, 64, "elements of one product in the unit; 16 by default"),
    NIB_OPT_CHOICE(struct arguments, operand, "operand", 0, "TYPE", operands, "operands of the unit; bf16 by default"),
    NIB_OPT_CHOICE(struct arguments, stages, "stages", 0, "TYPE", precisions, "precision between stages of the unit; fp32 by default"),
    NIB_OPT_CHOICE(struct arguments, normalization, "normalization", 0, "HOW", normalizations, "factor 1/sqrt(N), the default, or none"),
    NIB_OPT_REAL(struct arguments, factor, "factor", 0, "F", 0x1p-40, 0x1p40, "a factor of your own"),
    NIB_OPT_CHOICE(struct arguments, output, "result", 0, "TYPE", precisions, "precision of the result; fp32 by default"),
    NIB_OPT_FLAG(struct arguments, flush, "flush", 0, "subnormal numbers become zeros"),
    NIB_OPT_FLAG(struct arguments, inverse, "inverse", 'i', "undo the rotation: H transposed, signs afterwards"),
    NIB_OPT_CHOICE(struct arguments, axis, "axis", 0, "AXIS", nib_axis_names, "direction of the groups (the reduction axis); cols by default"),
    NIB_OPT_LIST(struct arguments, values, "values", 'v', "X,X,...", "the elements, row by row, instead of a file"),
    NIB_OPT_TEXT(struct arguments, shape, "shape", 0, "ROWSxCOLS", "shape of --values; one row by default"),
    NIB_OPT_CHOICE(struct arguments, cast, "cast", 0, "TYPE", nib_casts, "round binary64 input to binary32; not done unless asked for"),
    NIB_OPT_END,
};

static const struct nib_example examples[] = {
    {"nibble rotate --size 4 --values 1,2,0,0", "a small transform"},
    {"nibble rotate -r rht16 --inverse --values 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "undo the transform of TransformerEngine"},
    {"nibble rotate --size 12 --evaluation exact --sign-seed 7 --values 1,2,3,4,5,6,7,8,9,10,11,12 --json", "signs of your own, rounded once"},
    {NULL, NULL},
};

/* The words of a rotation file, as the options say them. */
static enum nib_status compose(const struct arguments *a, const struct nib_rotation **out, struct nib_error *error) {
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    if (file == NULL) return nib_fail(error, NIB_ENOMEM, "out of memory");
    fprintf(file, "kind: rotation\ntitle: Hadamard transform of %lld elements\nsource: the command line\nsize: %lld\n",
            (long long)a->size, (long long)a->size);
    if (a->base > 0) fprintf(file, "base: %lld\n", (long long)a->base);
    if (a->sign_seed >= 0) fprintf(file, "signs: {seed: %lld}\n", (long long)a->sign_seed);
    for (size_t i = 0; i < a->signs.count; i++)
        fprintf(file, "%s%s%s", i == 0 ? "signs: [" : ", ", a->signs.item[i], i + 1 == a->signs.count ? "]\n" : "");
    fprintf(file, "evaluation: %s\nnormalization: %s\noutput: %s\n", evaluations[a->evaluation],
            normalizations[a->normalization], precisions[a->output]);
    if (!isnan(a->factor)) fprintf(file, "factor: %a\n", a->factor);
    if (a->flush) fprintf(file, "flush: true\n");
    if (a->unit != NULL) fprintf(file, "unit: %s\n", a->unit);
    if (a->points > 0) fprintf(file, "points: %lld\n", (long long)a->points);
    if (a->evaluation == 3) fprintf(file, "operand: %s\nstages: %s\n", operands[a->operand], precisions[a->stages]);
    bool failed = fclose(file) != 0;
    enum nib_status status = failed ? nib_fail(error, NIB_ENOMEM, "out of memory")
                                    : nib_rotation_parse(text, length, "hadamard", out, error);
    if (status != NIB_OK && !failed && error != NULL) { /* the options have no lines */
        error->file[0] = '\0';
        error->line = 0;
        error->status = status == NIB_ESYNTAX ? NIB_EINVAL : status;
        status = error->status;
    }
    free(text);
    return status;
}

static enum nib_status open_rotation(const struct nib_call *call, const struct nib_rotation **out,
                                     struct nib_error *error) {
    static const char *const describing[] = {"base",   "signs",   "sign-seed", "evaluation",    "unit",
                                             "points", "operand", "stages",    "normalization", "factor",
                                             "result", "flush",   NULL};
    static const char *const of_unit[] = {"unit", "points", "operand", "stages", NULL};
    const struct arguments *a = call->options;
    enum nib_status status = NIB_OK;
    bool described = a->size > 0;
    if (described == (a->rotation != NULL))
        return nib_fail(error, NIB_EINVAL,
                        described ? "--rotation and --size are both given; expected one"
                                  : "--rotation or --size is missing; 'nibble list rotations' names rotations");
    if (!described)
        status = nib_options_refuse(call, describing, "describes a rotation, with --size; a named one says it itself",
                                    error);
    if (status == NIB_OK && a->evaluation != 3)
        status = nib_options_refuse(call, of_unit, "goes with --evaluation unit", error);
    if (status == NIB_OK && !isnan(a->factor) && nib_option_given(call, "normalization"))
        status = nib_fail(error, NIB_EINVAL, "--factor and --normalization are both given; expected one");
    if (status != NIB_OK) return status;
    if (a->signs.count > 0 && a->sign_seed >= 0)
        return nib_fail(error, NIB_EINVAL, "--signs and --sign-seed are both given; expected one");
    const struct nib_rotation *rotation = NULL;
    status = described ? compose(a, &rotation, error) : nib_rotation_open(a->rotation, &rotation, error);
    if (status != NIB_OK || !a->inverse) {
        *out = rotation;
        return status;
    }
    status = nib_rotation_inverse(rotation, out, error);
    nib_rotation_close(rotation);
    return status;
}

static enum nib_status print_json(const struct nib_call *call, const struct nib_rotation *rotation, struct nib_view x,
                                  const float *y, struct nib_error *error) {
    const struct arguments *a = call->options;
    struct nib_json *json;
    enum nib_status status = nib_output_json(call, &json, error);
    if (status != NIB_OK) return status;
    nib_json_text(json, "rotation", nib_rotation_name(rotation));
    nib_json_unsigned(json, "size", nib_rotation_size(rotation));
    nib_json_bool(json, "inverse", a->inverse);
    nib_json_text(json, "axis", nib_axis_names[a->axis]);
    nib_json_sizes(json, "shape", (size_t[]){x.rows, x.cols}, 2);
    nib_json_floats(json, "values", y, x.rows * x.cols);
    nib_json_array(json, "bits");
    for (size_t i = 0; i < x.rows * x.cols; i++) nib_json_unsigned(json, NULL, nib_bits_of_float(y[i]));
    nib_json_close(json);
    nib_json_end(json);
    return NIB_OK;
}

static enum nib_status print_table(const struct nib_call *call, struct nib_view x, const float *y,
                                   struct nib_error *error) {
    static const struct nib_column columns[] = {
        {"row", "row", "1", "row", NIB_COLUMN_INTEGER, 0},
        {"col", "col", "1", "column", NIB_COLUMN_INTEGER, 0},
        {"bits", "bits", "", "binary32 bits of the rotated element", NIB_COLUMN_TEXT, 0},
        {"value", "value", "1", "rotated element", NIB_COLUMN_REAL, -9},
    };
    enum { TERMINAL = 256 };
    struct nib_table *table;
    enum nib_status status = nib_table_new("rotate", columns, 4, &table, error);
    if (status != NIB_OK) return status;
    size_t count = x.rows * x.cols, most = call->common.tsv || count < TERMINAL ? count : TERMINAL;
    for (size_t i = 0; i < most; i++) {
        char bits[16];
        size_t row = nib_table_row(table);
        if (row == SIZE_MAX) {
            nib_table_free(table);
            return nib_fail(error, NIB_ENOMEM, "out of memory");
        }
        snprintf(bits, sizeof bits, "0x%08X", nib_bits_of_float(y[i]));
        nib_table_set_integer(table, row, 0, (int64_t)(i / x.cols));
        nib_table_set_integer(table, row, 1, (int64_t)(i % x.cols));
        nib_table_set_text(table, row, 2, bits);
        nib_table_set_real(table, row, 3, (double)y[i]);
    }
    status = nib_output_table(call, table, NULL, error);
    nib_table_free(table);
    if (status == NIB_OK && most < count)
        nib_output_note(call, "%zu more elements; --tsv, --json and -o FILE.h5 give all", count - most);
    return status;
}

static enum nib_status store(const struct nib_call *call, const struct nib_rotation *rotation,
                             const struct nib_input *input, struct nib_view x, const float *y,
                             struct nib_error *error) {
    struct nib_result *file = NULL;
    struct nib_provenance *facts = NULL;
    enum nib_status status = nib_result_file_open(call, "rotated tensor", &file, error);
    struct nib_result_array array = {.group = "elements",
                                     .name = "rotated",
                                     .units = "1",
                                     .long_name = "rotated element",
                                     .type = NIB_RESULT_F32,
                                     .rank = 2,
                                     .scales = {"row", "col"},
                                     .data = y};
    if (status == NIB_OK) status = nib_result_index_scale(file, "elements", "row", "row", x.rows, error);
    if (status == NIB_OK) status = nib_result_index_scale(file, "elements", "col", "column", x.cols, error);
    if (status == NIB_OK) status = nib_result_array(file, &array, error);
    if (status == NIB_OK) status = nib_remember_call(call, NULL, 1, &facts, error);
    if (status == NIB_OK) {
        nib_cite_rotation(facts, rotation);
        if (input->file != NULL) status = nib_provenance_add_file(facts, input->file, error);
    }
    return nib_result_file_end(status, file, facts, error);
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    const struct arguments *a = call->options;
    const struct nib_rotation *rotation = NULL;
    const struct nib_isa *isa;
    bool reference;
    struct nib_input input = {0};
    float *y = NULL;
    enum nib_status status = nib_isa_choose(NULL, &isa, &reference, error); /* a rotation itself takes any NIBBLE_ISA */
    if (status == NIB_OK) status = open_rotation(call, &rotation, error);
    if (status == NIB_OK)
        status = nib_input_open(call->value_count > 0 ? call->values[0] : NULL, &a->values, a->shape, a->cast != 0,
                                &input, error);
    struct nib_view x = input.view;
    if (status == NIB_OK && (y = nib_alloc(x.rows * x.cols, sizeof *y, "the rotated tensor", error)) == NULL)
        status = NIB_ENOMEM;
    if (status == NIB_OK) status = nib_rotate(rotation, x, (enum nib_axis)a->axis, (int)call->common.threads, y, error);
    if (status == NIB_OK && call->common.output != NULL) status = store(call, rotation, &input, x, y, error);
    if (status == NIB_OK && call->common.json)
        status = print_json(call, rotation, x, y, error);
    else if (status == NIB_OK && (call->common.output == NULL || call->common.tsv))
        status = print_table(call, x, y, error);
    free(y);
    nib_input_close(&input);
    nib_rotation_close(rotation);
    return status;
}

NIB_COMMAND(rotate) = {
    .values = "[FILE[:tensor]]",
    .least = 0,
    .most = 1,
    .description =
        "Multiplies groups of consecutive elements by a Hadamard matrix: y = (x * signs) H * factor. A rotation is named, or "
        "described by --size and the options beside it; how its sums are formed decides the last bits.\n"
        "butterfly adds in place with strides 1, 2, 4, ...; sequential term by term; exact rounds once; unit multiplies in a "
        "matrix unit, stage by stage, low bits of the index first.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct arguments),
    .takes = NIB_TAKES_JSON | NIB_TAKES_OUTPUT | NIB_TAKES_THREADS,
    .examples = examples,
    .run = run,
};
