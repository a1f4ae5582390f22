/* Synthetic chains as a job: one kind of chain, one quantizer or recipe; a row for every depth, pass and GEMM. */
#include "job/job.h"

#include "base/error.h"
#include "job/chain.h"
#include "job/cite.h"

enum {
    QUANTIZER, RECIPE, ROUNDING, ROTATION, DEPTH, WIDTH, INNER, ROWS, ACTIVATION, NORM, RESIDUAL, BACKWARD, WEIGHTS, INPUT, SEED, SEEDS,
    PARAMETERS
};

static const struct nib_parameter parameters[] = {
    NIB_PARAM_FORMAT("quantizer", NULL, "quantizer of every operand; this or recipe"),
    NIB_PARAM_FORMAT("recipe", NULL, "recipe: its quantizers and rotations of each operand"),
    NIB_PARAM_CHOICE("rounding", "own", nib_chain_rounding_names,
                     "of the quantizer: its own, or stochastic with 32 bits"),
    NIB_PARAM_FORMAT("rotation", "none", "with quantizer: rotation of both operands of every GEMM"),
    NIB_PARAM_INTEGER("depth", "12", 1, 1024, "layers"),
    NIB_PARAM_INTEGER("width", "128", 1, 8192, "width of the signal"),
    NIB_PARAM_INTEGER("inner", "256", 1, 32768, "width between the GEMMs of SwiGLU"),
    NIB_PARAM_INTEGER("rows", "48", 1, 65536, "rows of the signal (tokens)"),
    NIB_PARAM_CHOICE("activation", "linear", nib_chain_activation_names, "what stands before each GEMM"),
    NIB_PARAM_CHOICE("norm", "no", nib_no_yes, "RMSNorm before each layer"),
    NIB_PARAM_CHOICE("residual", "no", nib_no_yes, "residual connections"),
    NIB_PARAM_CHOICE("backward", "yes", nib_no_yes, "gradients of signals and weights too"),
    NIB_PARAM_TEXT("weights", "gaussian",
                   "law of the weights: gaussian, laplace, uniform, tNU (t3), outlierA (outlier30), ..."),
    NIB_PARAM_TEXT("input", "gaussian", "law of the input and of the gradient at the top"),
    NIB_PARAM_INTEGER("seed", "0", 0, INT64_MAX / 2, "the first seed"),
    NIB_PARAM_INTEGER("seeds", "32", 1, 65536, "chains, with consecutive seeds"),
    NIB_PARAM_END,
};

static const struct nib_column columns[] = {NIB_CHAIN_COLUMNS};

/* All of it goes through BLAS, and random numbers through logarithms. */
#define NAMES(field, heading, units, digits, long_name) #field, #field "_se",
static const char *const inexact[] = {NIB_CHAIN_LIST(NAMES) NULL};

struct formats {
    const struct nib_quantizer *quantizer;
    const struct nib_rotation *rotation;
    const struct nib_recipe *recipe;
};

static void formats_close(struct formats *formats) {
    nib_recipe_close(formats->recipe);
    nib_quantizer_close(formats->quantizer);
    nib_rotation_close(formats->rotation);
}

static enum nib_status request_of(const struct nib_argument *a, struct formats *formats, struct nib_chain_request *out,
                                  struct nib_error *error) {
    bool whole = a[RECIPE].given;
    if (a[QUANTIZER].given == whole)
        return nib_fail(error, NIB_EINVAL, "%s", whole ? "quantizer and recipe exclude each other"
                                                       : "quantizer or recipe must be given");
    enum nib_status status =
        whole ? nib_recipe_open(a[RECIPE].path, &formats->recipe, error)
              : nib_chain_quantizer(a[QUANTIZER].path, a[ROUNDING].integer == 1, &formats->quantizer, error);
    if (status == NIB_OK && !whole) status = nib_rotation_open(a[ROTATION].path, &formats->rotation, error);
    struct nib_chain_request request = {.first = (uint64_t)a[SEED].integer, .seeds = (size_t)a[SEEDS].integer};
    if (status == NIB_OK) status = nib_distribution_parse(a[WEIGHTS].text, &request.weights, error);
    if (status == NIB_OK) status = nib_distribution_parse(a[INPUT].text, &request.signals, error);
    if (status != NIB_OK) return status;
    request.chain = (struct nib_chain){.depth = (unsigned)a[DEPTH].integer,
                                       .width = (size_t)a[WIDTH].integer,
                                       .rows = (size_t)a[ROWS].integer,
                                       .inner = (size_t)a[INNER].integer,
                                       .activation = (enum nib_chain_activation)a[ACTIVATION].integer,
                                       .norm = a[NORM].integer == 1,
                                       .residual = a[RESIDUAL].integer == 1,
                                       .backward = a[BACKWARD].integer == 1};
    if (whole)
        status = nib_chain_follow(&request.chain, formats->recipe, error);
    else
        nib_chain_treat(&request.chain, formats->quantizer, formats->rotation);
    if (status != NIB_OK) return status;
    *out = request;
    return nib_chain_check(&request.chain, error);
}

static enum nib_status check(const struct nib_argument *arguments, struct nib_error *error) {
    struct formats formats = {0};
    struct nib_chain_request request = {.seeds = 0};
    enum nib_status status = request_of(arguments, &formats, &request, error);
    formats_close(&formats);
    return status;
}

static enum nib_status table_of(const struct nib_chain_summary *summary, struct nib_table **out,
                                struct nib_error *error) {
    struct nib_table *table = NULL;
    enum nib_status status = nib_table_new("chain", columns, sizeof columns / sizeof *columns, &table, error);
    if (status != NIB_OK) return status;
    for (size_t r = 0; r < summary->records; r++) {
        size_t row = nib_table_row(table);
        if (row == SIZE_MAX) {
            nib_table_free(table);
            return nib_fail(error, NIB_ENOMEM, "result table: out of memory");
        }
        nib_chain_row(table, row, 0, summary, r);
    }
    *out = table;
    return NIB_OK;
}

static enum nib_status run(const struct nib_argument *arguments, int threads, struct nib_table **out,
                           struct nib_error *error) {
    struct formats formats = {0};
    struct nib_chain_request request = {.seeds = 0};
    struct nib_chain_summary summary = {0};
    enum nib_status status = request_of(arguments, &formats, &request, error);
    if (status == NIB_OK) {
        request.threads = threads;
        status = nib_chain_summarize(&request, &summary, error);
    }
    if (status == NIB_OK) status = table_of(&summary, out, error);
    nib_chain_summary_free(&summary);
    formats_close(&formats);
    return status;
}

static enum nib_status cite(const struct nib_argument *arguments, struct nib_provenance *provenance,
                            struct nib_error *error) {
    struct formats formats = {0};
    struct nib_chain_request request = {.seeds = 0};
    enum nib_status status = request_of(arguments, &formats, &request, error);
    if (status == NIB_OK) {
        if (formats.recipe != NULL) {
            nib_cite_recipe(provenance, formats.recipe);
        } else {
            nib_cite_quantizer(provenance, formats.quantizer);
            nib_cite_rotation(provenance, formats.rotation);
        }
        nib_provenance_add_seed(provenance, "first seed", request.first);
    }
    formats_close(&formats);
    return status;
}

NIB_JOB(chain) = {.parameters = parameters,
                  .columns = columns,
                  .column_count = sizeof columns / sizeof *columns,
                  .inexact = inexact,
                  .check = check,
                  .run = run,
                  .cite = cite};
