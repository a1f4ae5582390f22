/* nibble chain: what accumulates along synthetic chains of layers. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/lists.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/remember.h"
#include "cli/result_file.h"
#include "cli/signals.h"
#include "io/json_out.h"
#include "job/chain.h"
#include "job/cite.h"
#include "plot/figure.h"

struct arguments {
    struct nib_texts quantizers, rotations, recipes;
    int64_t depth, width, inner, rows, seeds;
    int rounding, activation;
    bool norm, residual, forward_only, all;
    const char *weights, *input, *plot;
};

static const struct arguments defaults = {
    .depth = 12, .width = 128, .inner = 256, .rows = 48, .seeds = 32, .weights = "gaussian", .input = "gaussian"};

static const struct nib_option options[] = {
    NIB_OPT_LIST(struct arguments, quantizers, "quantizer", 'q', "QUANTIZER",
                 "quantizers of every operand, one chain for each; by default e2m1-fp32 and e1m2-fp32"),
    NIB_OPT_LIST(struct arguments, rotations, "rotate", 'r', "ROTATION",
                 "rotations of both operands of every GEMM; results without one are always shown beside"),
    NIB_OPT_LIST(struct arguments, recipes, "recipe", 0, "RECIPE",
                 "recipes: their quantizers and rotations of each operand, without what only `nibble stack` has (sources, "
                 "masks, factors)"),
    NIB_OPT_CHOICE(struct arguments, rounding, "rounding", 0, "MODE", nib_chain_rounding_names,
                   "of the quantizers: their own, or stochastic with 32 bits"),
    NIB_OPT_INTEGER(struct arguments, depth, "depth", 'k', "K", 1, 1024, "layers"),
    NIB_OPT_INTEGER(struct arguments, width, "width", 'w', "N", 1, 8192, "width of the signal"),
    NIB_OPT_INTEGER(struct arguments, inner, "inner", 0, "N", 1, 32768, "width between the GEMMs of SwiGLU"),
    NIB_OPT_INTEGER(struct arguments, rows, "rows", 0, "N", 1, 65536, "rows of the signal (tokens)"),
    NIB_OPT_CHOICE(struct arguments, activation, "activation", 'a', "KIND", nib_chain_activation_names, "what stands before each GEMM"),
    NIB_OPT_FLAG(struct arguments, norm, "norm", 0, "RMSNorm before each layer"),
    NIB_OPT_FLAG(struct arguments, residual, "residual", 0, "residual connections"),
    NIB_OPT_FLAG(struct arguments, forward_only, "no-backward", 0, "leave out the gradients"),
    NIB_OPT_TEXT(struct arguments, weights, "dist", 'd', "DIST",
                 "law of the weights: gaussian, laplace, logistic, uniform, tNU (t3), siluA, ggBETA, outlierA (outlier30)"),
    NIB_OPT_TEXT(struct arguments, input, "input", 0, "DIST", "law of the input and of the gradient at the top"),
    NIB_OPT_INTEGER(struct arguments, seeds, "seeds", 'n', "N", 1, 65536, "chains, with consecutive seeds from --seed on"),
    NIB_OPT_FLAG(struct arguments, all, "all", 0, "every depth, not only the powers of two and the last"),
    NIB_OPT_TEXT(struct arguments, plot, "plot", 'p', "PREFIX",
                 "draw gain, norm ratio and cosine over depth with gnuplot: PREFIX.png, PREFIX.pdf and PREFIX.gp"),
    NIB_OPT_END,
};

static const struct nib_example examples[] = {
    {"nibble chain --depth 12", "the multiplicative accumulation that the UFP4 paper argues for"},
    {"nibble chain --depth 64 --norm --residual --activation swiglu --rotate rht16", "what is left of it in a real block"},
    {"nibble chain --recipe ufp4,e2m1-baseline,nvfp4 --activation relu --norm", "recipes side by side"},
    {NULL, NULL},
};

/* One chain of a call. */
struct variant {
    const struct nib_quantizer *quantizer; /* and rotation, of every operand; or */
    const struct nib_rotation *rotation;
    const struct nib_recipe *recipe;
    char name[320];
    struct nib_chain_summary summary;
};

struct variants {
    struct variant *item;
    size_t count;
};

static void variants_free(struct variants *variants) {
    for (size_t i = 0; i < variants->count; i++) {
        nib_quantizer_close(variants->item[i].quantizer);
        nib_rotation_close(variants->item[i].rotation);
        nib_recipe_close(variants->item[i].recipe);
        nib_chain_summary_free(&variants->item[i].summary);
    }
    free(variants->item);
}

static enum nib_status variant_open(const struct arguments *a, const char *quantizer, const char *label,
                                    const char *rotation, struct variant *out, struct nib_error *error) {
    enum nib_status status = nib_chain_quantizer(quantizer, a->rounding == 1, &out->quantizer, error);
    if (status == NIB_OK) nib_quantizer_call(out->quantizer, label);
    if (status == NIB_OK) status = nib_rotation_open(rotation, &out->rotation, error);
    if (status != NIB_OK) return status;
    struct nib_quantizer_info info;
    nib_quantizer_describe(out->quantizer, &info);
    bool rotated = nib_rotation_size(out->rotation) > 1;
    snprintf(out->name, sizeof out->name, "%.*s%s%s%.50s", (int)strcspn(info.name, "+"), info.name,
             a->rounding == 1 ? ", stochastic" : "", rotated ? ", " : "",
             rotated ? nib_rotation_name(out->rotation) : "");
    return NIB_OK;
}

static enum nib_status add_recipes(const struct arguments *a, struct variants *out, struct nib_error *error) {
    size_t count = a->recipes.count;
    const struct nib_recipe **recipes = calloc(count + 1, sizeof *recipes);
    if (recipes == NULL) return nib_fail(error, NIB_ENOMEM, "out of memory");
    enum nib_status status = nib_recipes_open(a->recipes.item, count, recipes, error);
    for (size_t i = 0; status == NIB_OK && i < count; i++) {
        struct variant *variant = &out->item[out->count];
        variant->recipe = recipes[i];
        snprintf(variant->name, sizeof variant->name, "%s", nib_recipe_name(recipes[i]));
        for (size_t k = 0; k < out->count; k++) /* a quantizer of that name */
            if (strcmp(variant->name, out->item[k].name) == 0)
                snprintf(variant->name, sizeof variant->name, "recipe %s", nib_recipe_name(recipes[i]));
        out->count++;
    }
    free(recipes);
    return status;
}

static enum nib_status variants_open(const struct arguments *a, struct variants *out, struct nib_error *error) {
    static const char *const usual[] = {"e2m1-fp32", "e1m2-fp32"};
    size_t recipes = a->recipes.count;
    struct nib_texts names = nib_texts_or(&a->quantizers, usual, recipes > 0 ? 0 : sizeof usual / sizeof *usual);
    out->item = calloc(names.count * (a->rotations.count + 1) + recipes, sizeof *out->item);
    if (out->item == NULL) return nib_fail(error, NIB_ENOMEM, "out of memory");
    static const struct nib_texts none;
    struct nib_quantizers named = {NULL, 0}; /* for their names, no two the same */
    enum nib_status status = nib_quantizers_open(names.item, names.count, &none, &named, error);
    for (size_t q = 0; status == NIB_OK && q < names.count; q++)
        for (size_t r = 0; status == NIB_OK && r <= a->rotations.count; r++) {
            const char *rotation = r == 0 ? "none" : a->rotations.item[r - 1];
            if (r > 0 && strcmp(rotation, "none") == 0) continue;
            struct nib_quantizer_info info;
            nib_quantizer_describe(named.item[q], &info);
            status = variant_open(a, names.item[q], info.name, rotation, &out->item[out->count++], error);
        }
    nib_quantizers_close(&named);
    return status == NIB_OK ? add_recipes(a, out, error) : status;
}

static enum nib_status treat(struct nib_chain *chain, const struct variant *variant, struct nib_error *error) {
    if (variant->recipe != NULL) return nib_chain_follow(chain, variant->recipe, error);
    nib_chain_treat(chain, variant->quantizer, variant->rotation);
    return NIB_OK;
}

static enum nib_status request_of(const struct nib_call *call, struct nib_chain_request *out, struct nib_error *error) {
    const struct arguments *a = call->options;
    struct nib_chain_request request = {.first = (uint64_t)call->common.seed,
                                        .seeds = (size_t)a->seeds,
                                        .threads = (int)call->common.threads,
                                        .chain = {.depth = (unsigned)a->depth,
                                                  .width = (size_t)a->width,
                                                  .rows = (size_t)a->rows,
                                                  .inner = (size_t)a->inner,
                                                  .activation = (enum nib_chain_activation)a->activation,
                                                  .norm = a->norm,
                                                  .residual = a->residual,
                                                  .backward = !a->forward_only}};
    enum nib_status status = nib_distribution_parse(a->weights, &request.weights, error);
    if (status == NIB_OK) status = nib_distribution_parse(a->input, &request.signals, error);
    if (status == NIB_OK) *out = request;
    return status;
}

enum { CASE, QUANTIZER, ROTATION, FIRST };
static const struct nib_column columns[] = {
    {"case", "chain", "", "quantizer, rounding and rotation, or recipe", NIB_COLUMN_TEXT, 0},
    {"quantizer", "quantizer", "", "quantizer of every operand; empty under a recipe", NIB_COLUMN_TEXT, 0},
    {"rotation", "rotation", "", "rotation of every operand; empty under a recipe", NIB_COLUMN_TEXT, 0},
    NIB_CHAIN_COLUMNS};
enum { COLUMNS = sizeof columns / sizeof *columns };

static bool shown(const struct arguments *a, unsigned depth) {
    return a->all || depth == (unsigned)a->depth || (depth & (depth - 1)) == 0;
}

/* `every`: all depths, for files and figures. */
static enum nib_status table_of(const struct nib_call *call, const struct variants *variants, bool every,
                                struct nib_table **out, struct nib_error *error) {
    struct nib_table *table = NULL;
    enum nib_status status = nib_table_new("chain", columns, COLUMNS, &table, error);
    for (size_t v = 0; status == NIB_OK && v < variants->count; v++) {
        const struct variant *variant = &variants->item[v];
        struct nib_quantizer_info info = {.name = ""};
        if (variant->recipe == NULL) nib_quantizer_describe(variant->quantizer, &info);
        for (unsigned pass = 0; status == NIB_OK && pass < NIB_PASSES; pass++)
            for (size_t r = 0; status == NIB_OK && r < variant->summary.records; r++) {
                const struct nib_chain_record *record = &variant->summary.record[r];
                if (record->pass != (enum nib_pass)pass || !(every || shown(call->options, record->depth))) continue;
                size_t row = nib_table_row(table);
                if (row == SIZE_MAX) {
                    status = nib_fail(error, NIB_ENOMEM, "result table: out of memory");
                    break;
                }
                nib_table_set_text(table, row, CASE, variant->name);
                nib_table_set_text(table, row, QUANTIZER, info.name);
                nib_table_set_text(table, row, ROTATION,
                                   variant->recipe == NULL ? nib_rotation_name(variant->rotation) : "");
                nib_chain_row(table, row, FIRST, &variant->summary, r);
            }
    }
    if (status == NIB_OK)
        *out = table;
    else
        nib_table_free(table);
    return status;
}

/* Whether the signal at the end of each chain is what the alphas of its operands say. */
static void print_conclusions(const struct variants *variants) {
    for (size_t v = 0; v < variants->count; v++) {
        const struct nib_chain_summary *summary = &variants->item[v].summary;
        size_t last = SIZE_MAX;
        for (size_t r = 0; r < summary->records; r++)
            if (summary->record[r].pass == NIB_PASS_FPROP &&
                (last == SIZE_MAX || summary->record[r].depth >= summary->record[last].depth))
                last = r;
        if (last == SIZE_MAX) continue;
        const struct nib_estimate *e = summary->estimate[last], off = e[NIB_CHAIN_excess];
        printf("At depth %u %s: gain %.4f, product of alphas %.4f: ", summary->record[last].depth,
               variants->item[v].name, e[NIB_CHAIN_gain].value, e[NIB_CHAIN_product_predicted].value);
        if (!isfinite(off.error))
            printf("%.4f apart; one seed has no standard error.\n", off.value);
        else if (fabs(off.value) <= 3 * off.error)
            printf("they agree within 3 standard errors (%.4f +- %.4f).\n", off.value, off.error);
        else
            printf("they differ by %.4f +- %.4f, more than 3 standard errors.\n", off.value, off.error);
    }
}

static enum nib_status print_json(const struct nib_call *call, const struct variants *variants,
                                  const struct nib_table *table, struct nib_error *error) {
    struct nib_json *json;
    enum nib_status status = nib_output_json(call, &json, error);
    if (status != NIB_OK) return status;
    nib_output_parameters(call, json);
    nib_json_array(json, "cases");
    for (size_t v = 0; v < variants->count; v++) nib_json_text(json, NULL, variants->item[v].name);
    nib_json_close(json);
    nib_json_table(json, "rows", table);
    nib_json_end(json);
    return NIB_OK;
}

static enum nib_status print(const struct nib_call *call, const struct variants *variants, struct nib_error *error) {
    const struct arguments *a = call->options;
    bool machine = call->common.json || call->common.tsv, hidden[COLUMNS] = {false};
    struct nib_table *table = NULL;
    enum nib_status status = table_of(call, variants, machine, &table, error);
    if (status != NIB_OK) return status;
    static const enum nib_chain_quantity bare[] = {NIB_CHAIN_alpha_a, NIB_CHAIN_alpha_b, NIB_CHAIN_eta_predicted,
                                                   NIB_CHAIN_sqnr_db, NIB_CHAIN_product_predicted, NIB_CHAIN_product_measured};
    hidden[QUANTIZER] = hidden[ROTATION] = true;
    hidden[FIRST + NIB_CHAIN_GEMM] = a->activation != NIB_CHAIN_SWIGLU;
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        hidden[FIRST + NIB_CHAIN_FIRST + 2 * (size_t)bare[i] + 1] = true;
    hidden[FIRST + NIB_CHAIN_FIRST + 2 * NIB_CHAIN_product_measured] = true;
    char inner[40] = "", headline[400];
    if (a->activation == NIB_CHAIN_SWIGLU) snprintf(inner, sizeof inner, " (inner %lld)", (long long)a->inner);
    snprintf(
        headline, sizeof headline,
        "%s chain of %lld layers, width %lld%s, %lld rows, weights %.60s, input %.60s, %s norm, %s residual, seeds %llu to %llu",
        nib_chain_activation_names[a->activation], (long long)a->depth, (long long)a->width, inner, (long long)a->rows,
        a->weights, a->input, a->norm ? "with" : "no", a->residual ? "with" : "no",
        (unsigned long long)call->common.seed,
        (unsigned long long)call->common.seed + (unsigned long long)a->seeds - 1);
    struct nib_layout layout = {headline, true, CASE, hidden};
    status =
        call->common.json ? print_json(call, variants, table, error) : nib_output_table(call, table, &layout, error);
    if (status == NIB_OK && !machine) {
        putchar('\n');
        print_conclusions(variants);
    }
    if (status == NIB_OK && !machine)
        printf(
            "\nMeans over %lld seeds; +- is the standard error. A, B: the two operands of the layer's GEMM; eta: the gain of its\n"
            "product, aA aB as expected. gain, norm ratio, cosine: of the signal (fprop), its gradient (dgrad) and the weight's\n"
            "gradient (wgrad) against the chain that is not quantized; prod: of the alphas on the way.\n",
            (long long)a->seeds);
    nib_table_free(table);
    return status;
}

static enum nib_status store(const struct nib_call *call, const struct variants *variants, struct nib_result *file,
                             struct nib_provenance **out, struct nib_error *error) {
    struct nib_table *table = NULL;
    enum nib_status status = table_of(call, variants, true, &table, error);
    if (status == NIB_OK) status = nib_result_table(file, "chain", table, error);
    nib_table_free(table);
    if (status == NIB_OK) status = nib_remember_call(call, NULL, 1, out, error);
    if (status != NIB_OK) return status;
    nib_provenance_add_seed(*out, "first seed", (uint64_t)call->common.seed);
    for (size_t i = 0; i < variants->count; i++) {
        if (variants->item[i].recipe != NULL) {
            nib_cite_recipe(*out, variants->item[i].recipe);
            continue;
        }
        nib_cite_quantizer(*out, variants->item[i].quantizer);
        nib_cite_rotation(*out, variants->item[i].rotation);
    }
    return NIB_OK;
}

static enum nib_status draw(const struct nib_call *call, const struct variants *variants, struct nib_error *error) {
    const struct arguments *a = call->options;
    struct nib_table *table = NULL;
    char title[200];
    snprintf(title, sizeof title, "%s chain, width %lld, weights %.32s%s%s, %lld seeds; dashed: product of alphas",
             nib_chain_activation_names[a->activation], (long long)a->width, a->weights, a->norm ? ", norm" : "",
             a->residual ? ", residual" : "", (long long)a->seeds);
    enum nib_status status = table_of(call, variants, true, &table, error);
    nib_signals_guard_figure(a->plot);
    if (status == NIB_OK) status = nib_plot_chain(table, title, a->plot, error);
    nib_table_free(table);
    return status;
}

struct bar {
    struct nib_progress progress;
    const char *name;
};

static void advance(void *context) {
    struct bar *bar = context;
    nib_progress_step(&bar->progress, 1, bar->name);
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    const struct arguments *a = call->options;
    struct variants variants = {0};
    struct nib_chain_request request = {.seeds = 0};
    struct nib_result *file = NULL;
    struct nib_provenance *provenance = NULL;
    struct bar bar = {.name = NULL};
    static const char *const gated[] = {"inner", NULL}, *const of_quantizers[] = {"rounding", "rotate", NULL};
    enum nib_status status = NIB_OK;
    if (a->activation != NIB_CHAIN_SWIGLU)
        status = nib_options_refuse(call, gated, "goes with --activation swiglu", error);
    if (status == NIB_OK && a->recipes.count > 0 && a->quantizers.count == 0)
        status = nib_options_refuse(call, of_quantizers, "goes with --quantizer; a recipe has its own", error);
    if (status == NIB_OK) status = request_of(call, &request, error);
    if (status == NIB_OK) status = variants_open(a, &variants, error);
    for (size_t v = 0; status == NIB_OK && v < variants.count; v++) {
        status = treat(&request.chain, &variants.item[v], error);
        if (status == NIB_OK) status = nib_chain_check(&request.chain, error);
    }
    if (status == NIB_OK) status = nib_result_file_open(call, "accumulation along synthetic chains", &file, error);
    nib_progress_start(&bar.progress, call, "chains", variants.count * (size_t)a->seeds);
    request.progress = advance;
    request.context = &bar;
    for (size_t v = 0; status == NIB_OK && v < variants.count; v++) {
        bar.name = variants.item[v].name;
        status = treat(&request.chain, &variants.item[v], error);
        if (status == NIB_OK) status = nib_chain_summarize(&request, &variants.item[v].summary, error);
    }
    nib_progress_end(&bar.progress);
    if (status == NIB_OK) status = print(call, &variants, error);
    if (status == NIB_OK && file != NULL) status = store(call, &variants, file, &provenance, error);
    status = nib_result_file_end(status, file, provenance, error);
    if (status == NIB_OK && a->plot != NULL) status = draw(call, &variants, error);
    variants_free(&variants);
    return status;
}

NIB_COMMAND(chain) = {
    .description =
        "Sends a random signal up a chain of random layers, and a gradient down again, quantized and not, and says what "
        "accumulates. Each GEMM has the coherent gains alpha of its operands, the gain that they let expect, and the one "
        "it has; the signal after each layer has its gain against the chain that is not quantized, beside the product of "
        "the alphas on its way. A layer is y = act(norm(x)) W^T, or SwiGLU; the product is formed in binary64 of the "
        "quantized operands and rounded to binary32. depth is the layer, from 1: fprop has the signal above it, dgrad the "
        "gradient below it, wgrad the gradient of its weight. A trained transformer: nibble stack.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct arguments),
    .takes = NIB_TAKES_JSON | NIB_TAKES_OUTPUT | NIB_TAKES_THREADS | NIB_TAKES_SEED,
    .examples = examples,
    .run = run,
};
