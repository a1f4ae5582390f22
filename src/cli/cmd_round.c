/* nibble round: single numbers through an element or scale format. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "cli/formats.h"
#include "cli/output.h"
#include "cli/round_sr.h"
#include "core/convert.h"
#include "format/cell.h"
#include "io/json_out.h"

enum { FP32, BF16, FP16 };
static const char *const input_types[] = {"fp32", "bf16", "fp16", NULL};

struct arguments {
    const char *format, *mode, *form;
    int input;
    int64_t bits, stream;
    bool exhaustive;
};
static const struct arguments defaults = {.mode = "rne", .input = FP32};
static const struct nib_option options[] = {
    NIB_OPT_TEXT(struct arguments, format, "format", 'f', "FORMAT", "element or scale format, by name or path"),
    NIB_OPT_TEXT(struct arguments, mode, "mode", 'm', "MODE",
                 "rne, rna, rnz, rtz, sr for elements; rne, up, down for scales"),
    NIB_OPT_CHOICE(struct arguments, input, "input", 0, "TYPE", input_types,
                   "type that holds the values"),
    NIB_OPT_FLAG(struct arguments, exhaustive, "exhaustive", 'x', "mode sr: count over all random integers"),
    NIB_OPT_TEXT(struct arguments, form, "sr-form", 0, "FORM", "mode sr: carry by default; 'nibble show axes/sr_form' explains all"),
    NIB_OPT_INTEGER(struct arguments, bits, "bits", 0, "N", 0, 32, "mode sr: random bits, 8 by default, or 16 or 32"),
    NIB_OPT_INTEGER(struct arguments, stream, "stream", 0, "N", 0, INT64_MAX, "mode sr: stream of the random numbers, beside --seed"),
    NIB_OPT_END};

enum { INPUT, BITS, CODE, VALUE, BELOW, ABOVE, TIE, DISTANCE, COLUMNS };
static const struct nib_column columns[COLUMNS] = {
    [INPUT] = {"input", "input", "1", "the number as held by the input type", NIB_COLUMN_REAL, -9},
    [BITS] = {"bits", "bits", "", "its bit pattern", NIB_COLUMN_TEXT, 0},
    [CODE] = {"code", "code", "", "the code, hexadecimal", NIB_COLUMN_TEXT, 0},
    [VALUE] = {"value", "value", "1", "the value of the code", NIB_COLUMN_REAL, -9},
    [BELOW] = {"below", "from", "1", "lower border of the cell", NIB_COLUMN_REAL, -12},
    [ABOVE] = {"above", "to", "1", "upper border of the cell", NIB_COLUMN_REAL, -12},
    [TIE] = {"tie", "tie", "", "yes when exactly between two neighbours", NIB_COLUMN_TEXT, 0},
    [DISTANCE] = {"distance_ulp", "ulps to border", "ulp", "binary32 steps to the nearest border", NIB_COLUMN_REAL,
                  -10},
};

/* What rounds: one of the two is set. */
struct subject {
    const struct nib_element *element;
    const struct nib_scale *scale;
    enum nib_rounding rounding;
    enum nib_scale_rounding scale_rounding;
    int digits; /* of a code in hexadecimal */
};

static enum nib_status parse_mode(struct subject *s, const char *mode, struct nib_error *error) {
    static const char *const names[] = {"rne", "up", "down"};
    if (s->element != NULL && strcmp(mode, "sr") == 0) return NIB_OK;
    if (s->element != NULL && nib_rounding_parse(mode, &s->rounding, NULL) == NIB_OK) return NIB_OK;
    if (s->element != NULL)
        return nib_fail(error, NIB_EINVAL, "unknown rounding mode \"%.40s\"; expected rne, rna, rnz, rtz or sr", mode);
    for (int i = 0; i < 3; i++)
        if (strcmp(mode, names[i]) == 0) {
            s->scale_rounding = (enum nib_scale_rounding)i;
            return NIB_OK;
        }
    return nib_fail(error, NIB_EINVAL, "unknown mode \"%.40s\" of a scale format; expected rne, up or down", mode);
}

static enum nib_status open_subject(const struct arguments *arguments, struct subject *out, struct nib_error *error) {
    static const char *const kinds[] = {"elements", "scales", NULL};
    struct nib_format_name place;
    if (arguments->format == NULL) return nib_fail(error, NIB_EINVAL, "--format is missing: e2m1, e4m3, a file, ...");
    enum nib_status status = nib_format_find(arguments->format, kinds, &place, error);
    if (status != NIB_OK) return status;
    if (strcmp(place.kind, "elements") == 0)
        status = nib_element_open(place.name, &out->element, error);
    else
        status = nib_scale_open(place.name, &out->scale, error);
    if (status != NIB_OK) return status;
    out->digits = out->element != NULL ? 1 : (int)out->scale->bits / 4;
    return parse_mode(out, arguments->mode, error);
}

/* "0x3F800000" is a bit pattern of the input type, "0x1.8p+1" and "1.5" are numbers. */
static enum nib_status read_value(const char *text, int input, uint32_t *bits, struct nib_error *error) {
    static const char *const words[] = {"nan", "inf", "-inf"};
    static const uint32_t word_bits[] = {0x7FC00000, 0x7F800000, 0xFF800000};
    size_t digits = input == FP32 ? 8 : 4;
    float value;
    for (int i = 0; i < 3; i++)
        if (strcmp(text, words[i]) == 0) {
            *bits = word_bits[i];
            return NIB_OK;
        }
    bool pattern = (strncmp(text, "0x", 2) == 0 || strncmp(text, "0X", 2) == 0) && strpbrk(text, ".pP") == NULL;
    if (pattern) {
        size_t length = strlen(text + 2);
        if (length != digits || strspn(text + 2, "0123456789abcdefABCDEF") != length)
            return nib_fail(error, NIB_EINVAL,
                            "\"%.40s\" is not a bit pattern of %s; expected 0x and %zu hexadecimal digits", text,
                            input_types[input], digits);
        uint32_t raw = (uint32_t)strtoul(text + 2, NULL, 16);
        *bits = input == FP32 ? raw : input == BF16 ? nib_bits_of_bf16((uint16_t)raw) : nib_bits_of_f16((uint16_t)raw);
        return NIB_OK;
    }
    if (!nib_number_float(text, &value))
        return nib_fail(error, NIB_EINVAL,
                        "\"%.40s\" is not a number; expected a decimal, a hexadecimal float, 0x and %zu digits, "
                        "nan, inf or -inf",
                        text, digits);
    *bits = nib_bits_of_float(value);
    if (input == BF16) *bits = nib_bits_of_bf16(nib_bf16_of_bits(*bits));
    if (input == FP16) *bits = nib_bits_of_f16(nib_f16_of_bits(*bits));
    return NIB_OK;
}

static void round_one(const struct subject *s, uint32_t bits, struct nib_cell *out) {
    float x = nib_float_of_bits(bits);
    if (s->scale != NULL) {
        nib_scale_cell(s->scale, s->scale_rounding, x, out);
    } else if (isnan(x)) {
        /* as CUDA's conversion; what a quantizer does is its element_nan axis */
        unsigned top = s->element->levels - 1;
        *out = (struct nib_cell){.code = s->element->code_of_rank[top],
                                 .value = s->element->level_of_rank[top],
                                 .below = (double)NAN,
                                 .above = (double)NAN,
                                 .distance_ulp = (double)NAN};
    } else {
        nib_element_cell(s->element, s->rounding, x, out);
    }
}

static enum nib_status print_json(const struct nib_call *call, const struct arguments *arguments,
                                  const struct nib_cell *cells, size_t count, struct nib_error *error) {
    struct nib_json *json;
    enum nib_status status = nib_output_json(call, &json, error);
    if (status != NIB_OK) return status;
    nib_json_text(json, "format", arguments->format);
    nib_json_text(json, "mode", arguments->mode);
    nib_json_array(json, "codes");
    for (size_t i = 0; i < count; i++) nib_json_unsigned(json, NULL, cells[i].code);
    nib_json_close(json);
    nib_json_array(json, "values");
    for (size_t i = 0; i < count; i++) nib_json_float(json, NULL, cells[i].value);
    nib_json_close(json);
    nib_json_array(json, "ties");
    for (size_t i = 0; i < count; i++) nib_json_bool(json, NULL, cells[i].tie);
    nib_json_close(json);
    nib_json_end(json);
    return NIB_OK;
}

static void fill_row(struct nib_table *table, size_t row, const struct subject *s, int input, uint32_t bits,
                     const struct nib_cell *cell) {
    char text[16];
    nib_table_set_real(table, row, INPUT, (double)nib_float_of_bits(bits));
    if (input == FP32)
        snprintf(text, sizeof text, "0x%08X", bits);
    else
        snprintf(text, sizeof text, "0x%04X", input == BF16 ? nib_bf16_of_bits(bits) : nib_f16_of_bits(bits));
    nib_table_set_text(table, row, BITS, text);
    snprintf(text, sizeof text, "0x%0*X", s->digits, cell->code);
    nib_table_set_text(table, row, CODE, text);
    nib_table_set_real(table, row, VALUE, (double)cell->value);
    nib_table_set_real(table, row, BELOW, cell->below);
    nib_table_set_real(table, row, ABOVE, cell->above);
    nib_table_set_text(table, row, TIE, cell->tie ? "yes" : "no");
    nib_table_set_real(table, row, DISTANCE, cell->distance_ulp);
}

static enum nib_status print(struct nib_call *call, const struct subject *s, struct nib_error *error) {
    const struct arguments *arguments = call->options;
    struct nib_table *table = NULL;
    struct nib_cell *cells = calloc(call->value_count, sizeof *cells);
    if (cells == NULL) return nib_fail(error, NIB_ENOMEM, "out of memory for %zu values", call->value_count);
    enum nib_status status = nib_table_new("round", columns, COLUMNS, &table, error);
    bool nan_seen = false;
    for (size_t i = 0; i < call->value_count && status == NIB_OK; i++) {
        uint32_t bits = 0;
        status = read_value(call->values[i], arguments->input, &bits, error);
        if (status != NIB_OK) break;
        round_one(s, bits, &cells[i]);
        nan_seen = nan_seen || nib_bits_are_nan(bits);
        size_t row = nib_table_row(table);
        if (row == SIZE_MAX)
            status = nib_fail(error, NIB_ENOMEM, "out of memory");
        else
            fill_row(table, row, s, arguments->input, bits, &cells[i]);
    }
    if (status == NIB_OK)
        status = call->common.json ? print_json(call, arguments, cells, call->value_count, error)
                                   : nib_output_table(call, table, NULL, error);
    if (status == NIB_OK && nan_seen && s->element != NULL)
        nib_output_note(call, "an element format has no NaN; shown is the largest level, as CUDA's conversion gives");
    nib_table_free(table);
    free(cells);
    return status;
}

static enum nib_status print_stochastic(struct nib_call *call, const struct subject *s, struct nib_error *error) {
    const struct arguments *a = call->options;
    uint32_t *bits = calloc(call->value_count, sizeof *bits);
    enum nib_status status = bits == NULL ? nib_fail(error, NIB_ENOMEM, "out of memory") : NIB_OK;
    for (size_t i = 0; i < call->value_count && status == NIB_OK; i++) {
        status = read_value(call->values[i], a->input, &bits[i], error);
        if (status == NIB_OK && nib_bits_are_nan(bits[i]))
            status = nib_fail(error, NIB_EINVAL,
                              "NaN is not rounded stochastically; what a quantizer does is its element_nan axis");
    }
    struct nib_round_sr request = {s->element, a->form != NULL ? a->form : "carry", (unsigned)a->bits, a->exhaustive,
                                   (uint64_t)call->common.seed, (uint64_t)a->stream, bits, call->value_count};
    if (status == NIB_OK) status = nib_round_sr_print(call, &request, error);
    free(bits);
    return status;
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    struct subject subject = {.element = NULL};
    const struct arguments *a = call->options;
    bool stochastic = strcmp(a->mode, "sr") == 0;
    static const char *const random[] = {"exhaustive", "sr-form", "bits", "stream", "seed", NULL};
    static const char *const drawn[] = {"stream", "seed", NULL};
    enum nib_status status = stochastic ? NIB_OK : nib_options_refuse(call, random, "goes with --mode sr", error);
    if (status == NIB_OK && a->exhaustive)
        status = nib_options_refuse(call, drawn, "is of no use beside --exhaustive", error);
    if (status == NIB_OK) status = open_subject(a, &subject, error);
    if (status == NIB_OK) status = stochastic ? print_stochastic(call, &subject, error) : print(call, &subject, error);
    nib_element_close(subject.element);
    nib_scale_close(subject.scale);
    return status;
}

static const struct nib_example examples[] = {
    {"nibble round --format e2m1 2.5 -0.75 0x40200001", "two ties, and the number just above one"},
    {"nibble round -f e2m1 --mode sr --exhaustive 2.2 0.1", "exact probabilities of stochastic rounding"},
    {"nibble round --format e8m0 --mode up 1.25", "a scale, rounded up"},
    {NULL, NULL},
};

NIB_COMMAND(round) = {
    .values = "VALUE...",
    .least = 1,
    .most = SIZE_MAX,
    .description =
        "Rounds single numbers to an element or a scale format and shows the code, its value, the borders of its cell, "
        "whether the number is a tie, and how many binary32 steps separate it from the nearest border.\n"
        "A VALUE is a decimal, a hexadecimal float (0x1.8p+1), a bit pattern of the input type (0x40200000), nan, inf "
        "or "
        "-inf. Decimals are first rounded to the input type.\n"
        "Modes of elements: rne (a tie goes to the even code), rna (away from zero), rnz (toward zero), rtz (toward "
        "zero, "
        "always). Modes of scales, on the magnitude: rne, up, down.\n"
        "Mode sr rounds stochastically: value i takes its random integer from the Philox block of --seed, --stream and i, or "
        "--exhaustive counts over all of them, and gives the exact distribution, its mean and its bias.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct arguments),
    .takes = NIB_TAKES_JSON | NIB_TAKES_SEED,
    .examples = examples,
    .run = run,
};
