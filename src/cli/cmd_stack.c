/* nibble stack: a model's layer stack under recipes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/lists.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/result_file.h"
#include "cli/stack.h"
#include "stack/recipe.h"
#include "stack/stack.h"

static const struct nib_stack_arguments defaults = {
    .sequences = 2, .length = 512, .repeats = 1, .rotation = "rht16", .precision = 1};

static const struct nib_option options[] = {
    NIB_OPT_LIST(struct nib_stack_arguments, recipes, "recipe", 'r', "RECIPE",
                 "recipes to compare; by default bf16, ufp4, e2m1-baseline, nvfp4 and mxfp4"),
    NIB_OPT_TEXT(struct nib_stack_arguments, tokens, "tokens", 0, "FILE",
                 "what the model reads: a text, each byte of which is a token, or FILE[:tensor] of integers"),
    NIB_OPT_INTEGER(struct nib_stack_arguments, sequences, "sequences", 's', "N", 1, 65536, "sequences of a run"),
    NIB_OPT_INTEGER(struct nib_stack_arguments, length, "length", 'l', "L", 1, 1048576, "tokens of a sequence"),
    NIB_OPT_INTEGER(struct nib_stack_arguments, repeats, "repeat", 'n', "N", 1, 65536,
                    "runs of each recipe, each on the following sequences and with the following seed; means and standard "
                    "errors are over them"),
    NIB_OPT_INTEGER(struct nib_stack_arguments, skip, "skip", 0, "N", 0, 1048576, "sequences of the file to pass over"),
    NIB_OPT_CHOICE(struct nib_stack_arguments, product, "product", 0, "HOW", nib_product_names,
                   "products of quantized operands: by BLAS (fast, not bit-exact), exactly (binary64, rounded once), or bit for "
                   "bit through a matrix unit"),
    NIB_OPT_TEXT(struct nib_stack_arguments, unit, "unit", 'u', "UNIT", "with --product unit; by default one that takes the operands"),
    NIB_OPT_CHOICE(struct nib_stack_arguments, precision, "precision", 0, "WIDTH", nib_precision_names,
                   "of activations and their gradients between operations"),
    NIB_OPT_FLAG(struct nib_stack_arguments, forward_only, "no-backward", 0, "leave out the gradients"),
    NIB_OPT_FLAG(struct nib_stack_arguments, quick, "quick", 0,
                 "losses, residual stream and weight gradients alone: no operand and no GEMM is measured"),
    NIB_OPT_TEXT(struct nib_stack_arguments, rotation, "rotate", 0, "ROTATION",
                 "what recipes without a rotation are compared with, operand by operand; none: nothing"),
    NIB_OPT_LIST(struct nib_stack_arguments, show, "show", 0, "PART",
                 "tables besides the summary: stream, operand, product, weight, or all"),
    NIB_OPT_TEXT(struct nib_stack_arguments, plot, "plot", 'p', "DIR",
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

static void opened_close(struct nib_stack_opened *o) {
    for (size_t i = 0; i < o->recipe_count; i++) nib_recipe_close(o->recipes[i]);
    free(o->recipes);
    nib_unit_close(o->unit);
    nib_rotation_close(o->rotation);
    nib_stack_input_close(&o->input);
}

static enum nib_status read_parts(const struct nib_stack_arguments *a, bool shown[NIB_DEPTH_PARTS],
                                  struct nib_error *error) {
    for (size_t i = 0; i < a->show.count; i++) {
        bool all = strcmp(a->show.item[i], "all") == 0, found = all;
        for (int part = 0; part < NIB_DEPTH_PARTS; part++)
            if (all || strcmp(a->show.item[i], nib_depth_part_name((enum nib_depth_part)part)) == 0)
                shown[part] = found = true;
        if (!found)
            return nib_fail(error, NIB_EINVAL,
                            "--show has no part \"%s\"; expected stream, operand, product, weight or all",
                            a->show.item[i]);
        bool measured = shown[NIB_DEPTH_OPERAND] || shown[NIB_DEPTH_PRODUCT];
        if (!all && a->quick && measured)
            return nib_fail(error, NIB_EINVAL, "--quick measures no %s", a->show.item[i]);
        if (!all && a->forward_only && shown[NIB_DEPTH_WEIGHT])
            return nib_fail(error, NIB_EINVAL, "--no-backward leaves no gradients of weights");
    }
    return NIB_OK;
}

static enum nib_status open_all(const struct nib_call *call, struct nib_stack_opened *out, struct nib_error *error) {
    static const char *const usual[] = {"bf16", "ufp4", "e2m1-baseline", "nvfp4", "mxfp4"};
    const struct nib_stack_arguments *a = call->options;
    struct nib_texts names = nib_texts_or(&a->recipes, usual, sizeof usual / sizeof *usual);
    if (a->tokens == NULL) return nib_fail(error, NIB_EINVAL, "--tokens is missing: what shall the model read?");
    static const char *const of_unit[] = {"unit", NULL};
    enum nib_status status = NIB_OK;
    if (a->product != NIB_PRODUCT_UNIT) status = nib_options_refuse(call, of_unit, "goes with --product unit", error);
    if (status == NIB_OK) status = read_parts(a, out->shown, error);
    out->recipes = calloc(names.count, sizeof *out->recipes);
    if (out->recipes == NULL) return nib_fail(error, NIB_ENOMEM, "out of memory");
    if (status == NIB_OK) status = nib_recipes_open(names.item, names.count, out->recipes, error);
    if (status == NIB_OK) out->recipe_count = names.count;
    if (status == NIB_OK && a->unit != NULL) status = nib_unit_open(a->unit, &out->unit, error);
    if (status == NIB_OK && strcmp(a->rotation, "none") != 0)
        status = nib_rotation_open(a->rotation, &out->rotation, error);
    if (status == NIB_OK)
        status = nib_stack_input_open(call->values[0], a->tokens, (size_t)a->sequences, (size_t)a->length,
                                      (size_t)a->repeats, (size_t)a->skip, &out->input, error);
    return status;
}

/* NaN and infinity are no error, but explain a table without numbers. */
static void note_nonfinite(const struct nib_call *call, const struct nib_stack_input *input) {
    for (size_t i = 0; !call->common.quiet && i < input->stack->count; i++) {
        const struct nib_stack_weight *weight = &input->stack->weights[i];
        size_t count = nib_stack_weight_nonfinite(weight, (int)call->common.threads);
        if (count > 0)
            nib_output_note(call, "%s: NaN or infinite are %zu of %zu elements", weight->name, count,
                            weight->rows * weight->cols);
    }
}

/* A recipe may mean an operand to stay in bf16, or may have forgotten it: once for all of them. */
static void note_left_out(const struct nib_call *call, const struct nib_stack_opened *o) {
    char text[400] = "";
    size_t length = 0;
    for (size_t i = 0; !call->common.quiet && i < o->recipe_count; i++)
        for (int slot = 0; slot < NIB_SLOTS; slot++) {
            const struct nib_operand_rule *rule = o->recipes[i]->slot;
            if (rule[slot].quantized || !rule[slot ^ 1].quantized)
                continue; /* the operands of a GEMM are 2k and 2k + 1 */
            if (length < sizeof text)
                length += (size_t)snprintf(text + length, sizeof text - length, "%s%s of %s", length == 0 ? "" : ", ",
                                           nib_slot_name((enum nib_slot)slot), nib_recipe_name(o->recipes[i]));
        }
    if (length > 0) nib_output_note(call, "in bf16 beside a quantized operand, the recipe leaving it out: %s", text);
}

static void advance(void *bar, size_t steps, const char *what) { nib_progress_step(bar, steps, what); }

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    const struct nib_stack_arguments *a = call->options;
    struct nib_stack_opened o = {.recipes = NULL};
    struct nib_stack_report report = {.record = NULL};
    struct nib_result *file = NULL;
    struct nib_provenance *provenance = NULL;
    struct nib_progress bar;
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
    if (status == NIB_OK && a->plot != NULL) status = nib_stack_figures_folder(a->plot, error);
    if (status == NIB_OK) status = nib_result_file_open(call, "a layer stack under recipes", &file, error);
    if (status == NIB_OK) {
        note_nonfinite(call, &o.input);
        note_left_out(call, &o);
        nib_progress_start(&bar, call, "GEMMs", nib_stack_steps(&request));
        status = nib_stack_measure(&request, &report, error);
        nib_progress_end(&bar);
    }
    if (status == NIB_OK) status = nib_stack_print(call, &o, &report, error);
    if (status == NIB_OK && file != NULL) status = nib_stack_keep(call, &o, &report, file, &provenance, error);
    status = nib_result_file_end(status, file, provenance, error);
    if (status == NIB_OK && a->plot != NULL) status = nib_stack_draw(call, &o, &report, error);
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
        "Layers count from 0, as in names of weights. For the residual stream and its gradient, layer (in files: boundary) says "
        "how many layers lie below: 0 is the embedded tokens, the number of layers what the final norm takes.\n"
        "MODEL is a folder with config.json and its .safetensors, or a .safetensors file with NAME.config.json beside it. "
        "Synthetic chains of layers: nibble chain.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct nib_stack_arguments),
    .takes = NIB_TAKES_JSON | NIB_TAKES_OUTPUT | NIB_TAKES_THREADS | NIB_TAKES_SEED,
    .examples = examples,
    .run = run,
};
