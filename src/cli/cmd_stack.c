/* nibble stack: a model's layer stack under recipes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "cli/lists.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/remember.h"
#include "cli/signals.h"
#include "io/json_out.h"
#include "job/cite.h"
#include "job/stack.h"
#include "plot/figure.h"
#include "stack/recipe.h"
#include "stack/stack.h"

struct arguments {
    struct nib_texts recipes, show;
    const char *tokens, *unit, *rotation, *plot;
    int64_t sequences, length, repeats, skip;
    int product, precision;
    bool forward_only, quick;
};

static const struct arguments defaults = {.sequences = 2, .length = 512, .repeats = 1, .rotation = "rht16", .precision = 1};
static const char *const products[] = {"blas", "exact", "unit", NULL}; /* enum nib_product */
static const char *const precisions[] = {"f32", "bf16", NULL};

static const struct nib_option options[] = {
    NIB_OPT_LIST(struct arguments, recipes, "recipe", 'r', "RECIPE",
                 "recipes to compare; by default bf16, ufp4, e2m1-baseline, nvfp4 and mxfp4"),
    NIB_OPT_TEXT(struct arguments, tokens, "tokens", 0, "FILE",
                 "what the model reads: a text, each byte of which is a token, or FILE[:tensor] of integers"),
    NIB_OPT_INTEGER(struct arguments, sequences, "sequences", 's', "N", 1, 65536, "sequences of a run"),
    NIB_OPT_INTEGER(struct arguments, length, "length", 'l', "L", 1, 1048576, "tokens of a sequence"),
    NIB_OPT_INTEGER(struct arguments, repeats, "repeat", 'n', "N", 1, 65536,
                    "runs of each recipe, each on the following sequences and with the following seed; means and standard "
                    "errors are over them"),
    NIB_OPT_INTEGER(struct arguments, skip, "skip", 0, "N", 0, 1048576, "sequences of the file to pass over"),
    NIB_OPT_CHOICE(struct arguments, product, "product", 0, "HOW", products,
                   "products of quantized operands: by BLAS (fast, not bit-exact), exactly (binary64, rounded once), or bit for "
                   "bit through a matrix unit"),
    NIB_OPT_TEXT(struct arguments, unit, "unit", 'u', "UNIT", "with --product unit; by default one that takes the operands"),
    NIB_OPT_CHOICE(struct arguments, precision, "precision", 0, "WIDTH", precisions,
                   "of activations and their gradients between operations"),
    NIB_OPT_FLAG(struct arguments, forward_only, "no-backward", 0, "leave out the gradients"),
    NIB_OPT_FLAG(struct arguments, quick, "quick", 0,
                 "losses, residual stream and weight gradients alone: no operand and no GEMM is measured"),
    NIB_OPT_TEXT(struct arguments, rotation, "rotate", 0, "ROTATION",
                 "what recipes without a rotation are compared with, operand by operand; none: nothing"),
    NIB_OPT_LIST(struct arguments, show, "show", 0, "PART",
                 "tables besides the summary: stream, operand, product, weight, or all"),
    NIB_OPT_TEXT(struct arguments, plot, "plot", 'p', "DIR",
                 "draw accumulation over depth, a heat map of layers and GEMMs, and SQNR and B_eff by layer with gnuplot"),
    NIB_OPT_END,
};

static const struct nib_example examples[] = {
    {"nibble stack data/bytelm-8m.safetensors --tokens data/heldout.txt", "five recipes on a trained transformer"},
    {"nibble stack model/ --tokens text.txt --recipe ufp4,nvfp4 --show stream,product -o stack.h5 --plot figures",
     "layer by layer, into a file and figures"},
    {"nibble stack model/ --tokens text.txt --recipe nvfp4 --product unit", "bit for bit through the tensor core"},
    {NULL, NULL},
};

/* What a call names, opened. */
struct opened {
    const struct nib_recipe **recipes;
    size_t recipe_count;
    const struct nib_unit *unit;
    const struct nib_rotation *rotation;
    struct nib_stack_input input;
    bool shown[NIB_DEPTH_PARTS];
};

static void opened_close(struct opened *o) {
    for (size_t i = 0; i < o->recipe_count; i++) nib_recipe_close(o->recipes[i]);
    free(o->recipes);
    if (o->unit != NULL) nib_unit_close(o->unit);
    if (o->rotation != NULL) nib_rotation_close(o->rotation);
    nib_stack_input_close(&o->input);
}

static enum nib_status read_parts(const struct arguments *a, bool shown[NIB_DEPTH_PARTS], struct nib_error *error) {
    for (size_t i = 0; i < a->show.count; i++) {
        bool all = strcmp(a->show.item[i], "all") == 0, found = all;
        for (int part = 0; part < NIB_DEPTH_PARTS; part++)
            if (all || strcmp(a->show.item[i], nib_depth_part_name((enum nib_depth_part)part)) == 0)
                shown[part] = found = true;
        if (!found)
            return nib_fail(error, NIB_EINVAL, "--show has no part \"%s\"; expected stream, operand, product, weight or all",
                            a->show.item[i]);
        bool measured = shown[NIB_DEPTH_OPERAND] || shown[NIB_DEPTH_PRODUCT];
        if (!all && a->quick && measured)
            return nib_fail(error, NIB_EINVAL, "--quick measures no %s", a->show.item[i]);
        if (!all && a->forward_only && shown[NIB_DEPTH_WEIGHT])
            return nib_fail(error, NIB_EINVAL, "--no-backward leaves no gradients of weights");
    }
    return NIB_OK;
}

static enum nib_status open_all(const struct nib_call *call, struct opened *out, struct nib_error *error) {
    static const char *const usual[] = {"bf16", "ufp4", "e2m1-baseline", "nvfp4", "mxfp4"};
    const struct arguments *a = call->options;
    size_t count = a->recipes.count == 0 ? sizeof usual / sizeof *usual : a->recipes.count;
    if (a->tokens == NULL) return nib_fail(error, NIB_EINVAL, "--tokens is missing: what shall the model read?");
    static const char *const of_unit[] = {"unit", NULL};
    enum nib_status status = NIB_OK;
    if (a->product != NIB_PRODUCT_UNIT) status = nib_options_refuse(call, of_unit, "goes with --product unit", error);
    if (status == NIB_OK) status = read_parts(a, out->shown, error);
    out->recipes = calloc(count, sizeof *out->recipes);
    if (out->recipes == NULL) return nib_fail(error, NIB_ENOMEM, "out of memory");
    if (status == NIB_OK) status = nib_recipes_open(a->recipes.count == 0 ? usual : a->recipes.item, count, out->recipes, error);
    if (status == NIB_OK) out->recipe_count = count;
    if (status == NIB_OK && a->unit != NULL) status = nib_unit_open(a->unit, &out->unit, error);
    if (status == NIB_OK && strcmp(a->rotation, "none") != 0) status = nib_rotation_open(a->rotation, &out->rotation, error);
    if (status == NIB_OK)
        status = nib_stack_input_open(call->values[0], a->tokens, (size_t)a->sequences, (size_t)a->length, (size_t)a->repeats,
                                      (size_t)a->skip, &out->input, error);
    return status;
}

static enum nib_status table_of(const struct nib_stack_report *report, const struct opened *o, enum nib_depth_part part,
                                struct nib_table **out, struct nib_error *error) {
    return nib_stack_table(report, o->recipes, part, out, error);
}

/* What each part shows on the terminal; errors stand beside those that are marked. */
struct shown {
    enum nib_depth_quantity quantity;
    bool error;
};
static const struct shown of_summary[] = {
    {NIB_DEPTH_loss, false}, {NIB_DEPTH_loss_change, true}, {NIB_DEPTH_sqnr_db, false}, {NIB_DEPTH_fprop_sqnr_db, false},
    {NIB_DEPTH_dgrad_sqnr_db, false}, {NIB_DEPTH_wgrad_sqnr_db, false}, {NIB_DEPTH_gain, true},
    {NIB_DEPTH_cosine, false}, {NIB_DEPTH_gradient_cosine, true}, {NIB_DEPTH_weight_alpha, true},
    {NIB_DEPTH_weight_cosine, true}, {NIB_DEPTH_stall, true}};
static const struct shown of_stream[] = {{NIB_DEPTH_gain, true}, {NIB_DEPTH_product_predicted, false},
                                         {NIB_DEPTH_product_measured, false}, {NIB_DEPTH_norm_ratio, true},
                                         {NIB_DEPTH_cosine, true}};
static const struct shown of_operand[] = {
    {NIB_DEPTH_alpha, true}, {NIB_DEPTH_b_relative, true}, {NIB_DEPTH_b_eff, false}, {NIB_DEPTH_sqnr_db, true},
    {NIB_DEPTH_crest, false}, {NIB_DEPTH_raw_sqnr_db, false}, {NIB_DEPTH_rotated_sqnr_db, false},
    {NIB_DEPTH_rotation_gain_db, true}, {NIB_DEPTH_raw_b_eff, false}, {NIB_DEPTH_rotated_b_eff, false}};
static const struct shown of_product[] = {{NIB_DEPTH_eta_predicted, false}, {NIB_DEPTH_eta_measured, true},
                                          {NIB_DEPTH_sqnr_db, true}, {NIB_DEPTH_rotation_gain_db, true}};
static const struct shown of_weight[] = {{NIB_DEPTH_alpha, true}, {NIB_DEPTH_cosine, true}, {NIB_DEPTH_norm_ratio, false},
                                         {NIB_DEPTH_stall, true}};
#define SHOWN(array) {array, sizeof array / sizeof *(array)}
static const struct {
    const struct shown *item;
    size_t count;
} terminal[NIB_DEPTH_PARTS] = {SHOWN(of_summary), SHOWN(of_stream), SHOWN(of_operand), SHOWN(of_product), SHOWN(of_weight)};

/* Whether any row has the value, so that columns of NaN do not stand there. */
static bool any(const struct nib_table *table, size_t column) {
    for (size_t row = 0; row < nib_table_rows(table); row++) {
        double value = nib_table_real(table, row, column);
        if (value == value) return true;
    }
    return false;
}

static void print_part(const struct nib_call *call, const struct nib_table *table, enum nib_depth_part part,
                       const char *headline) {
    enum { MOST = 1 + NIB_STACK_FIRST + 2 * NIB_DEPTH_QUANTITIES };
    bool hidden[MOST];
    for (size_t i = 0; i < MOST; i++) hidden[i] = true;
    hidden[0] = false;
    hidden[1 + NIB_STACK_LAYER] = part == NIB_DEPTH_SUMMARY || part == NIB_DEPTH_WEIGHT;
    hidden[1 + NIB_STACK_MODULE] = part == NIB_DEPTH_SUMMARY || part == NIB_DEPTH_STREAM;
    hidden[1 + NIB_STACK_PASS] = part == NIB_DEPTH_SUMMARY || part == NIB_DEPTH_WEIGHT;
    hidden[1 + NIB_STACK_OPERAND] = part != NIB_DEPTH_OPERAND;
    for (size_t i = 0; i < terminal[part].count; i++) {
        size_t at = 1 + NIB_STACK_FIRST + 2 * (size_t)terminal[part].item[i].quantity;
        hidden[at] = !any(table, at);
        hidden[at + 1] = !terminal[part].item[i].error || !any(table, at + 1);
    }
    struct nib_layout layout = {headline, part != NIB_DEPTH_SUMMARY, 0, hidden};
    nib_output_aligned(call, table, &layout, stdout);
}

static const char *const headlines[NIB_DEPTH_PARTS] = {
    NULL, "Residual stream: after each layer, and its gradient there", "Operands as quantized",
    "Outputs of the three GEMMs of each linear layer", "Gradients of weights"};

static void print_terminal(const struct nib_call *call, const struct nib_stack_report *report, const char *ranking,
                           struct nib_table *const tables[NIB_DEPTH_PARTS]) {
    const struct arguments *a = call->options;
    char headline[400];
    snprintf(headline, sizeof headline, "%.200s, %lld x %lld tokens%s, products by %s, against binary64 (loss %.5f)", call->values[0],
             (long long)a->sequences, (long long)a->length, a->forward_only ? ", forward" : ", forward and backward",
             a->product == NIB_PRODUCT_BLAS ? "BLAS (not bit-exact)" : a->product == NIB_PRODUCT_EXACT ? "binary64" : "matrix unit",
             nib_stack_record(report, 0, 0)->value[NIB_DEPTH_loss_reference].value);
    for (int part = 0; part < NIB_DEPTH_PARTS; part++) {
        if (tables[part] == NULL) continue;
        if (part > 0) putchar('\n');
        print_part(call, tables[part], (enum nib_depth_part)part, part == 0 ? headline : headlines[part]);
        if (part == NIB_DEPTH_SUMMARY && ranking[0] != '\0') printf("\n%s.\n", ranking);
    }
    printf("\ngain, cosine: of the residual stream after the last layer, <Xq, X>/||X||^2 and the angle to binary64's.%s\n",
           a->forward_only ? "" : " R: of all weights'\ngradients, ||g||/(sigma sqrt(d)); below sqrt(3) = 1.73 FP4 All the Way sees training stall.");
    if (a->repeats > 1)
        printf("Means over %lld runs on different sequences with different seeds; +- is the standard error.\n",
               (long long)a->repeats);
    else
        printf("+- is the standard error from sequences; of operands from batches of rows. --repeat N gives it for weights "
               "too.\n");
}

static enum nib_status print_json(const struct nib_call *call, const char *ranking, struct nib_table *const tables[NIB_DEPTH_PARTS],
                                  struct nib_error *error) {
    struct nib_json *json;
    enum nib_status status = nib_output_json(call, &json, error);
    if (status != NIB_OK) return status;
    nib_json_text(json, "headline", ranking);
    for (int part = 0; part < NIB_DEPTH_PARTS; part++)
        if (tables[part] != NULL) nib_json_table(json, nib_depth_part_name((enum nib_depth_part)part), tables[part]);
    nib_json_end(json);
    return NIB_OK;
}

static enum nib_status print(const struct nib_call *call, const struct opened *o, const struct nib_stack_report *report,
                             struct nib_error *error) {
    struct nib_table *tables[NIB_DEPTH_PARTS] = {NULL}, *whole = NULL;
    char ranking[800];
    nib_stack_headline(report, o->recipes, ranking, sizeof ranking);
    enum nib_status status = NIB_OK;
    if (call->common.tsv) { /* one table: of the parts that are shown */
        bool any_shown = false;
        for (int i = 0; i < NIB_DEPTH_PARTS; i++) any_shown |= o->shown[i];
        status = any_shown ? nib_stack_table_of_parts(report, o->recipes, o->shown, &whole, error)
                           : table_of(report, o, NIB_DEPTH_SUMMARY, &whole, error);
        if (status == NIB_OK) status = nib_output_table(call, whole, NULL, error);
        if (whole != NULL) nib_table_free(whole);
        return status;
    }
    for (int part = 0; status == NIB_OK && part < NIB_DEPTH_PARTS; part++)
        if (part == NIB_DEPTH_SUMMARY || o->shown[part])
            status = table_of(report, o, (enum nib_depth_part)part, &tables[part], error);
    if (status == NIB_OK && call->common.json)
        status = print_json(call, ranking, tables, error);
    else if (status == NIB_OK)
        print_terminal(call, report, ranking, tables);
    for (int part = 0; part < NIB_DEPTH_PARTS; part++)
        if (tables[part] != NULL) nib_table_free(tables[part]);
    return status;
}

/* `file` is freed here. */
static enum nib_status store(const struct nib_call *call, const struct opened *o, const struct nib_stack_report *report,
                             struct nib_result *file, struct nib_error *error) {
    const struct arguments *a = call->options;
    struct nib_provenance *provenance = NULL;
    enum nib_status status = nib_stack_store(report, o->recipes, file, error);
    if (status == NIB_OK) status = nib_remember_call(call, NULL, 1, &provenance, error);
    if (status == NIB_OK) {
        nib_provenance_add_seed(provenance, "first seed", (uint64_t)call->common.seed);
        for (size_t i = 0; i < o->recipe_count; i++) nib_cite_recipe(provenance, o->recipes[i]);
        if (o->unit != NULL) nib_cite_unit(provenance, o->unit);
        status = nib_stack_input_cite(&o->input, a->tokens, provenance, error);
    }
    if (status == NIB_OK)
        status = nib_result_commit(file, provenance, error);
    else
        nib_result_abandon(file);
    if (provenance != NULL) nib_provenance_free(provenance);
    return status;
}

static enum nib_status make_folder(const char *path, struct nib_error *error) {
    struct stat about;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) return NIB_OK;
    if (mkdir(path, 0777) == 0) return NIB_OK;
    return nib_fail_at(error, NIB_EIO, path, 0, "cannot make the folder of the figures");
}

static enum nib_status draw(const struct nib_call *call, const struct opened *o, const struct nib_stack_report *report,
                            struct nib_error *error) {
    const struct arguments *a = call->options;
    struct nib_table *table = NULL;
    enum nib_status status = table_of(report, o, NIB_DEPTH_PARTS, &table, error);
    char title[200];
    if (o->rotation != NULL)
        snprintf(title, sizeof title, "Change of SQNR by rotation: the recipe's own, %.60s where it has none", nib_rotation_name(o->rotation));
    else
        snprintf(title, sizeof title, "Change of SQNR by the recipe's own rotation");
    static const char *const names[] = {"stack-depth", "stack-gemms", "stack-operands"};
    for (size_t i = 0; status == NIB_OK && i < sizeof names / sizeof *names; i++) {
        char prefix[4000];
        if (i > 0 && a->quick) break;
        snprintf(prefix, sizeof prefix, "%.3900s/%s", a->plot, names[i]);
        nib_signals_guard_figure(prefix);
        status = i == 0   ? nib_plot_chain(table, "Residual stream and its gradient; dashed: product of alphas", prefix, error)
                 : i == 1 ? nib_plot_stack_gemms(table, title, prefix, error)
                          : nib_plot_stack_operands(table, prefix, error);
        if (status == NIB_EINVAL) { /* a figure for which these results have no numbers */
            nib_output_note(call, "%s is not drawn: %s", names[i], error->text);
            status = NIB_OK;
        }
    }
    if (table != NULL) nib_table_free(table);
    return status;
}

/* NaN and infinity are no error, but explain a table without numbers. */
static void note_nonfinite(const struct nib_call *call, const struct nib_stack_input *input) {
    for (size_t i = 0; !call->common.quiet && i < input->stack->count; i++) {
        const struct nib_stack_weight *weight = &input->stack->weights[i];
        size_t count = nib_stack_weight_nonfinite(weight, (int)call->common.threads);
        if (count > 0)
            nib_output_note(call, "%s: NaN or infinite are %zu of %zu elements", weight->name, count, weight->rows * weight->cols);
    }
}

/* A recipe may mean an operand to stay in bf16, or may have forgotten it: once for all of them. */
static void note_left_out(const struct nib_call *call, const struct opened *o) {
    char text[400] = "";
    size_t length = 0;
    for (size_t i = 0; !call->common.quiet && i < o->recipe_count; i++)
        for (int slot = 0; slot < NIB_SLOTS; slot++) {
            const struct nib_operand_rule *rule = o->recipes[i]->slot;
            if (rule[slot].quantized || !rule[slot ^ 1].quantized) continue; /* the operands of a GEMM are 2k and 2k + 1 */
            if (length < sizeof text)
                length += (size_t)snprintf(text + length, sizeof text - length, "%s%s of %s", length == 0 ? "" : ", ",
                                           nib_slot_name((enum nib_slot)slot), nib_recipe_name(o->recipes[i]));
        }
    if (length > 0) nib_output_note(call, "in bf16 beside a quantized operand, the recipe leaving it out: %s", text);
}

struct bar {
    struct nib_progress progress;
};
static void advance(void *context, size_t steps, const char *what) {
    struct bar *bar = context;
    nib_progress_step(&bar->progress, steps, what);
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    const struct arguments *a = call->options;
    struct opened o = {.recipes = NULL};
    struct nib_stack_report report = {.record = NULL};
    struct nib_result *file = NULL;
    struct bar bar;
    enum nib_status status = open_all(call, &o, error);
    struct nib_stack_request request = {.input = &o.input,
                                        .recipes = o.recipes,
                                        .recipe_count = o.recipe_count,
                                        .precision = a->precision == 0 ? NIB_STACK_F32 : NIB_STACK_BF16,
                                        .product = (enum nib_product)a->product,
                                        .unit = o.unit,
                                        .rotation = o.rotation,
                                        .backward = !a->forward_only,
                                        .products = !a->quick,
                                        .seed = (uint64_t)call->common.seed,
                                        .threads = (int)call->common.threads,
                                        .progress = advance,
                                        .context = &bar};
    if (status == NIB_OK) status = nib_stack_check(&request, error);
    if (status == NIB_OK && a->plot != NULL) status = make_folder(a->plot, error);
    if (status == NIB_OK && call->common.output != NULL)
        status = nib_result_open(call->common.output, "a layer stack under recipes", &file, error);
    if (status == NIB_OK) {
        note_nonfinite(call, &o.input);
        note_left_out(call, &o);
        nib_progress_start(&bar.progress, call, "GEMMs", nib_stack_steps(&request));
        status = nib_stack_measure(&request, &report, error);
        nib_progress_end(&bar.progress);
    }
    if (status == NIB_OK) status = print(call, &o, &report, error);
    if (file != NULL && status == NIB_OK)
        status = store(call, &o, &report, file, error);
    else
        nib_result_abandon(file);
    if (status == NIB_OK && a->plot != NULL) status = draw(call, &o, &report, error);
    nib_stack_report_free(&report);
    opened_close(&o);
    return status;
}

NIB_COMMAND(stack) = {
    .values = "MODEL",
    .least = 1,
    .most = 1,
    .description =
        "Runs a LLaMA-style model forward and backward under each recipe and in binary64, and says what the recipe changes: "
        "the loss; the residual stream after every layer, and its gradient; SQNR, alpha, bias and B_eff of every operand, raw "
        "and rotated; gain and SQNR of every GEMM against the exact product of its inputs; alpha and cosine of every weight's "
        "gradient, and R = ||g||/(sigma sqrt(d)), below whose sqrt(3) FP4 All the Way sees training stall.\n"
        "MODEL is a folder with config.json and its .safetensors, or a .safetensors file with NAME.config.json beside it. "
        "Synthetic chains of layers: nibble chain.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct arguments),
    .takes = NIB_TAKES_JSON | NIB_TAKES_OUTPUT | NIB_TAKES_THREADS | NIB_TAKES_SEED,
    .examples = examples,
    .run = run,
};
