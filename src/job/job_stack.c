/* A model's layer stack under one recipe as a job. One thread: products by BLAS may depend on how many there are, and
 * an experiment has points enough. */
#include "job/job.h"

#include "base/error.h"
#include "job/cite.h"
#include "job/stack.h"
#include <stdlib.h>
#include <string.h>

enum {
    MODEL, TOKENS, RECIPE, SEQUENCES, LENGTH, SKIP, PRODUCT, UNIT, PRECISION, BACKWARD, GEMMS, PART, SEED, PARAMETERS
};
static const char *const part_choices[] = {"summary", "stream", "operand", "product",
                                           "weight",  "all",    NULL}; /* enum nib_depth_part */

static const struct nib_parameter parameters[] = {
    NIB_PARAM_FILE("model", "folder or .safetensors file of a LLaMA-style model with its config.json"),
    NIB_PARAM_FILE("tokens", "text whose bytes are tokens, or a file of integers"),
    NIB_PARAM_FORMAT("recipe", NULL, "recipe"),
    NIB_PARAM_INTEGER("sequences", "2", 1, 65536, "sequences of one run"),
    NIB_PARAM_INTEGER("length", "512", 1, 1048576, "tokens of a sequence"),
    NIB_PARAM_INTEGER("skip", "0", 0, 1048576, "sequences of the file that are passed over"),
    NIB_PARAM_CHOICE("product", "blas", nib_product_names, "how products are formed of quantized operands"),
    NIB_PARAM_FORMAT("unit", NULL,
                     "with product unit: the matrix unit; otherwise one that takes the recipe's operands"),
    NIB_PARAM_CHOICE("precision", "bf16", nib_precision_names, "of activations between operations"),
    NIB_PARAM_CHOICE("backward", "yes", nib_no_yes, "gradients too"),
    NIB_PARAM_CHOICE("gemms", "yes", nib_no_yes, "measure every operand and GEMM, not only what the run leaves behind"),
    NIB_PARAM_CHOICE("part", "summary", part_choices, "which rows"),
    NIB_PARAM_INTEGER("seed", "0", 0, INT64_MAX, "seed of stochastic rounding and of random signs"),
    NIB_PARAM_END,
};

static const struct nib_column columns[] = {NIB_STACK_COLUMNS};
#define NAMES(field, heading, units, digits, long_name) #field, #field "_se",
static const char *const inexact[] = {NIB_DEPTH_LIST(NAMES) NULL};

struct opened {
    struct nib_stack_input input;
    const struct nib_recipe *recipe;
    const struct nib_unit *unit;
    const struct nib_rotation *rotation;
};

static void opened_close(struct opened *o) {
    nib_stack_input_close(&o->input);
    nib_recipe_close(o->recipe);
    nib_unit_close(o->unit);
    nib_rotation_close(o->rotation);
}

static enum nib_status request_of(const struct nib_argument *a, struct opened *o, struct nib_stack_request *out,
                                  struct nib_error *error) {
    static const int needed[] = {MODEL, TOKENS, RECIPE};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!a[needed[i]].given) return nib_fail(error, NIB_EINVAL, "%s must be given", parameters[needed[i]].name);
    if (a[GEMMS].integer == 0 && (a[PART].integer == NIB_DEPTH_OPERAND || a[PART].integer == NIB_DEPTH_PRODUCT))
        return nib_fail(error, NIB_EINVAL, "part %s needs gemms: yes", a[PART].text);
    if (a[BACKWARD].integer == 0 && a[PART].integer == NIB_DEPTH_WEIGHT)
        return nib_fail(error, NIB_EINVAL, "part %s needs backward: yes", a[PART].text);
    if (a[UNIT].given && a[PRODUCT].integer != NIB_PRODUCT_UNIT)
        return nib_fail(error, NIB_EINVAL, "unit goes with product: unit");
    enum nib_status status = nib_recipe_open(a[RECIPE].path, &o->recipe, error);
    if (status == NIB_OK && a[UNIT].given) status = nib_unit_open(a[UNIT].path, &o->unit, error);
    if (status == NIB_OK) status = nib_rotation_open("rht16", &o->rotation, error);
    if (status == NIB_OK)
        status = nib_stack_input_open(a[MODEL].path, a[TOKENS].path, (size_t)a[SEQUENCES].integer,
                                      (size_t)a[LENGTH].integer, 1, (size_t)a[SKIP].integer, &o->input, error);
    if (status != NIB_OK) return status;
    *out = (struct nib_stack_request){.input = &o->input,
                                      .recipes = &o->recipe,
                                      .recipe_count = 1,
                                      .precision = a[PRECISION].integer == 0 ? NIB_STACK_F32 : NIB_STACK_BF16,
                                      .product = (enum nib_product)a[PRODUCT].integer,
                                      .unit = o->unit,
                                      .rotation = o->rotation,
                                      .backward = a[BACKWARD].integer == 1,
                                      .products = a[GEMMS].integer == 1 && a[PART].integer != NIB_DEPTH_WEIGHT,
                                      .seed = (uint64_t)a[SEED].integer,
                                      .threads = 1};
    return nib_stack_check(out, error);
}

static enum nib_status check(const struct nib_argument *arguments, struct nib_error *error) {
    struct opened opened = {.recipe = NULL};
    struct nib_stack_request request;
    enum nib_status status = request_of(arguments, &opened, &request, error);
    opened_close(&opened);
    return status;
}

static enum nib_status table_of(const struct nib_stack_report *report, int part, struct nib_table **out,
                                struct nib_error *error) {
    struct nib_table *table = NULL;
    enum nib_status status = nib_table_new("stack", columns, sizeof columns / sizeof *columns, &table, error);
    for (size_t i = 0; status == NIB_OK && i < report->records; i++) {
        const struct nib_depth_record *record = nib_stack_record(report, 0, i);
        if (part != NIB_DEPTH_PARTS && (int)record->part != part) continue;
        size_t row = nib_table_row(table);
        if (row == SIZE_MAX)
            status = nib_fail(error, NIB_ENOMEM, "result table: out of memory");
        else
            nib_stack_row(table, row, 0, record);
    }
    if (status == NIB_OK)
        *out = table;
    else if (table != NULL)
        nib_table_free(table);
    return status;
}

static enum nib_status run(const struct nib_argument *arguments, int threads, struct nib_table **out,
                           struct nib_error *error) {
    (void)threads;
    struct opened opened = {.recipe = NULL};
    struct nib_stack_request request = {.input = NULL};
    struct nib_stack_report report = {.record = NULL};
    enum nib_status status = request_of(arguments, &opened, &request, error);
    if (status == NIB_OK) {
        status = nib_stack_measure(&request, &report, error);
        if (status == NIB_OK) status = table_of(&report, (int)arguments[PART].integer, out, error);
    }
    nib_stack_report_free(&report);
    opened_close(&opened);
    return status;
}

static enum nib_status cite(const struct nib_argument *arguments, struct nib_provenance *provenance,
                            struct nib_error *error) {
    struct opened opened = {.recipe = NULL};
    struct nib_stack_request request = {.input = NULL};
    enum nib_status status = request_of(arguments, &opened, &request, error);
    if (status == NIB_OK) {
        nib_cite_recipe(provenance, opened.recipe);
        if (opened.unit != NULL) nib_cite_unit(provenance, opened.unit);
        nib_provenance_add_seed(provenance, "seed", request.seed);
        status = nib_stack_input_cite(&opened.input, arguments[TOKENS].path, provenance, error);
    }
    opened_close(&opened);
    return status;
}

NIB_JOB(stack) = {.parameters = parameters,
                  .columns = columns,
                  .column_count = sizeof columns / sizeof *columns,
                  .inexact = inexact,
                  .check = check,
                  .run = run,
                  .cite = cite};
