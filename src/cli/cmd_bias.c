/* nibble bias: how much each quantizer shrinks each tensor, raw and rotated. */
#include <stdlib.h>
#include <string.h>

#include "base/axis.h"
#include "base/error.h"
#include "cli/input.h"
#include "cli/lists.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/remember.h"
#include "cli/result_file.h"
#include "cli/signals.h"
#include "format/quantizer.h"
#include "io/json_out.h"
#include "job/bias_file.h"
#ifdef NIB_WITH_EXPECT
#include "job/equations.h"
#include "job/expected.h"
#include "job/explain.h"
#endif
#include "job/cite.h"
#include "plot/figure.h"

struct arguments {
    struct nib_texts quantizers, settings, rotations, distributions;
    int64_t count;
    int axis, gemm, operand, figure, cast;
    bool per_level, all, equations, explain;
    const char *plot;
};

static const struct arguments defaults = {.count = 1 << 22, .axis = -1, .gemm = -1, .operand = -1};
static const char *const figures[] = {"tensors", "usage", NULL};

static const struct nib_option options[] = {
    NIB_OPT_LIST(struct arguments, quantizers, "quantizer", 'q', "QUANTIZER",
                 "quantizers to compare; by default e2m1-fp32, e1m2-fp32, te-nvfp4 and ocp-mxfp4"),
    NIB_OPT_TEXTS(struct arguments, settings, "set", 's', "AXIS=VALUE",
                  "change one arithmetic choice of every quantizer"),
    NIB_OPT_LIST(struct arguments, rotations, "rotate", 'r', "ROTATION",
                 "rotations along the reduction axis; results without one are always shown beside"),
    NIB_OPT_LIST(struct arguments, distributions, "dist", 'd', "DIST",
                 "random tensors instead of files: gaussian, laplace, logistic, uniform, tNU (t3), siluA (silu4), "
                 "ggBETA (gg0.5), outlierA (outlier30)"),
    NIB_OPT_INTEGER(struct arguments, count, "count", 'n', "N", 1024, INT64_C(1) << 32, "elements of a random tensor"),
    NIB_OPT_CHOICE(struct arguments, axis, "axis", 0, "AXIS", nib_axis_names, "reduction axis of every tensor"),
    NIB_OPT_CHOICE(struct arguments, gemm, "gemm", 0, "GEMM", nib_gemm_names,
                   "only this GEMM; by default each one that a tensor takes part in"),
    NIB_OPT_CHOICE(struct arguments, operand, "operand", 0, "OPERAND", nib_operand_names,
                   "what the tensors are; by default their names tell (NAME.input, NAME.weight, NAME.grad_output)"),
    NIB_OPT_CHOICE(struct arguments, cast, "cast", 0, "TYPE", nib_casts,
                   "round binary64 tensors to binary32; not done unless asked for"),
    NIB_OPT_FLAG(struct arguments, all, "all", 'a', "a line for every tensor even where there are many"),
    NIB_OPT_FLAG(struct arguments, per_level, "per-level", 'l', "count, share and mean error of every level"),
    NIB_OPT_FLAG(struct arguments, equations, "equations", 0,
                 "the equations of the UFP4 and INT v.s. FP papers beside what is measured"),
    NIB_OPT_FLAG(struct arguments, explain, "explain", 'e', "say in words which bins cause each bias"),
    NIB_OPT_TEXT(struct arguments, plot, "plot", 'p', "PREFIX",
                 "draw SQNR and 1 - alpha of every tensor with gnuplot: PREFIX.png, PREFIX.pdf and PREFIX.gp"),
    NIB_OPT_CHOICE(struct arguments, figure, "figure", 0, "KIND", figures,
                   "what --plot draws: every tensor, or B_eff against the change of SQNR by the rotation"),
    NIB_OPT_END,
};

static const struct nib_example examples[] = {
    {"nibble bias --dist gaussian,laplace,t3 --rotate rht16", "both grids on random tensors"},
    {"nibble bias --dist gaussian --quantizer e2m1-fp32 --per-level", "which levels cause the bias"},
    {"nibble bias --dist gaussian --quantizer te-nvfp4 --set rounding=rna", "what one arithmetic choice changes"},
    {NULL, NULL},
};

/* The formats of a call, opened. */
struct formats {
    struct nib_quantizers quantizers;
    struct nib_rotations rotations;
    struct nib_distribution *distributions;
    size_t distribution_count;
};

static void formats_close(struct formats *formats) {
    nib_quantizers_close(&formats->quantizers);
    nib_rotations_close(&formats->rotations);
    free(formats->distributions);
}

/* "none" comes first, once. */
static enum nib_status open_rotations(const struct nib_texts *given, struct nib_rotations *out,
                                      struct nib_error *error) {
    const char **names = calloc(given->count + 1, sizeof *names);
    if (names == NULL) return nib_fail(error, NIB_ENOMEM, "out of memory");
    size_t count = 0;
    names[count++] = "none";
    for (size_t i = 0; i < given->count; i++)
        if (strcmp(given->item[i], "none") != 0) names[count++] = given->item[i];
    enum nib_status status = nib_rotations_open(names, count, out, error);
    free(names);
    return status;
}

static enum nib_status formats_open(const struct arguments *arguments, struct formats *out, struct nib_error *error) {
    static const char *const usual[] = {"e2m1-fp32", "e1m2-fp32", "te-nvfp4", "ocp-mxfp4"};
    const struct nib_texts *distributions = &arguments->distributions;
    struct nib_texts names = nib_texts_or(&arguments->quantizers, usual, sizeof usual / sizeof *usual);
    enum nib_status status =
        nib_quantizers_open(names.item, names.count, &arguments->settings, &out->quantizers, error);
    if (status == NIB_OK) status = open_rotations(&arguments->rotations, &out->rotations, error);
    out->distributions = calloc(distributions->count + 1, sizeof *out->distributions);
    if (status == NIB_OK && out->distributions == NULL) status = nib_fail(error, NIB_ENOMEM, "out of memory");
    for (size_t i = 0; status == NIB_OK && i < distributions->count; i++, out->distribution_count++)
        status = nib_distribution_parse(distributions->item[i], &out->distributions[i], error);
    return status;
}

/* Whether --seed changes anything. */
static bool draws(const struct formats *formats) {
    bool any = formats->distribution_count > 0;
    for (size_t i = 0; i < formats->quantizers.count; i++)
        any |= nib_axes_stochastic(&formats->quantizers.item[i]->axes);
    return any;
}

static enum nib_status remember(const struct nib_call *call, const struct formats *formats,
                                const struct nib_bias_result *result, struct nib_provenance **out,
                                struct nib_error *error) {
    enum nib_status status = nib_remember_call(call, NULL, 1, out, error);
    if (status != NIB_OK) return status;
    if (draws(formats)) nib_provenance_add_seed(*out, "seed", (uint64_t)call->common.seed);
    for (size_t i = 0; i < formats->quantizers.count; i++) nib_cite_quantizer(*out, formats->quantizers.item[i]);
    for (size_t i = 0; i < formats->rotations.count; i++) nib_cite_rotation(*out, formats->rotations.item[i]);
    const char *last = "";
    for (size_t v = 0; status == NIB_OK && v < nib_bias_views(result); v++) {
        const char *file = nib_bias_view_at(result, v)->file;
        if (file[0] != '\0' && strcmp(file, last) != 0) status = nib_provenance_add_input(*out, file, error);
        last = file;
    }
    return status;
}

static enum nib_status store(const struct nib_call *call, const struct formats *formats,
                             const struct nib_bias_result *result, const struct nib_table *expected,
                             struct nib_result *file, struct nib_provenance **out, struct nib_error *error) {
    enum nib_status status = nib_bias_store(result, file, error);
    if (status == NIB_OK && expected != NULL && nib_table_rows(expected) > 0)
        status = nib_result_table(file, "expected", expected, error);
    return status == NIB_OK ? remember(call, formats, result, out, error) : status;
}

struct bar {
    struct nib_progress progress;
    const struct nib_call *call;
    size_t done;
    bool started;
};

static void advance(void *context, size_t done, size_t total, const char *tensor) {
    struct bar *bar = context;
    if (!bar->started) nib_progress_start(&bar->progress, bar->call, "tensors", total);
    bar->started = true;
    nib_progress_step(&bar->progress, done - bar->done, tensor);
    bar->done = done;
}

/* Every table that the call may want. */
struct tables {
    struct nib_table *summary, *by_tensor, *totals, *differences, *levels;
    struct nib_table *expected, *equations; /* NULL in a build without GSL; equations where not asked for */
};

static enum nib_status tables_make(const struct nib_bias_result *result, const struct nib_bias_request *request,
                                   const struct arguments *arguments, struct tables *out, struct nib_error *error) {
    enum nib_status status = nib_bias_summary(result, &out->summary, error);
    if (status == NIB_OK) status = nib_bias_by_tensor(result, &out->by_tensor, error);
    if (status == NIB_OK) status = nib_bias_totals(result, &out->totals, error);
    if (status == NIB_OK) status = nib_bias_differences(result, &out->differences, error);
    if (status == NIB_OK) status = nib_bias_levels(result, &out->levels, error);
#ifdef NIB_WITH_EXPECT
    if (status == NIB_OK) status = nib_bias_expected(result, request->quantizers, &out->expected, error);
    if (status == NIB_OK && arguments->equations) status = nib_bias_equations(result, request, &out->equations, error);
#else
    (void)request;
    if (arguments->equations || arguments->explain)
        return nib_fail(error, NIB_EUNAVAILABLE, "--%s needs libnibble-expect; this build has none (NIBBLE_EXPECT=OFF)",
                        arguments->equations ? "equations" : "explain");
#endif
    return status;
}

static void tables_free(struct tables *tables) {
    nib_table_free(tables->summary);
    nib_table_free(tables->by_tensor);
    nib_table_free(tables->totals);
    nib_table_free(tables->differences);
    nib_table_free(tables->levels);
    nib_table_free(tables->expected);
    nib_table_free(tables->equations);
}

static enum nib_status print_json(const struct nib_call *call, const struct tables *tables, const char *headline,
                                  struct nib_error *error) {
    const struct arguments *arguments = call->options;
    struct nib_json *json;
    enum nib_status status = nib_output_json(call, &json, error);
    if (status != NIB_OK) return status;
    nib_output_parameters(call, json);
    nib_json_text(json, "headline", headline);
    nib_json_table(json, "summary", tables->summary);
    nib_json_table(json, "totals", tables->totals);
    nib_json_table(json, "differences", tables->differences);
    if (tables->expected != NULL && nib_table_rows(tables->expected) > 0)
        nib_json_table(json, "expected", tables->expected);
    if (tables->equations != NULL) nib_json_table(json, "equations", tables->equations);
    if (arguments->per_level) nib_json_table(json, "levels", tables->levels);
    nib_json_end(json);
    return NIB_OK;
}

/* The summary's statistics as they are expected, and how far off the measurement is. */
static void print_expected(const struct nib_call *call, const struct nib_table *expected) {
    enum { DIST, QUANTIZER, FIRST, NOTE = FIRST + 2 * NIB_STATISTICS };
    static const enum nib_statistic shown[] = {NIB_STATISTIC_sqnr_db, NIB_STATISTIC_one_minus_alpha,
                                               NIB_STATISTIC_b_relative, NIB_STATISTIC_b_eff};
    bool hidden[NOTE + 1];
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) hidden[i] = true;
    hidden[DIST] = hidden[QUANTIZER] = false;
    for (size_t row = 0; row < nib_table_rows(expected); row++)
        hidden[NOTE] &= nib_table_text(expected, row, NOTE)[0] == '\0';
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        hidden[FIRST + 2 * shown[i]] = hidden[FIRST + 2 * shown[i] + 1] = false;
    struct nib_layout layout = {"Expected without sampling, and how many standard errors the measurement is off", true,
                                DIST, hidden};
    putchar('\n');
    nib_output_aligned(call, expected, &layout, stdout);
}

static void explain(const struct nib_bias_result *result) {
#ifdef NIB_WITH_EXPECT
    for (size_t v = 0; v < nib_bias_views(result); v++)
        for (size_t q = 0; q < nib_bias_quantizers(result); q++)
            for (size_t r = 0; r < nib_bias_rotations(result); r++) {
                char view[400], label[640];
                nib_bias_label_of(nib_bias_view_at(result, v), view, sizeof view);
                snprintf(label, sizeof label, "%s on %s, rotation %s", nib_bias_quantizer_name(result, q), view,
                         nib_bias_rotation_name(result, r));
                putchar('\n');
                nib_explain_bias(nib_bias_element(result, q), &nib_bias_entry_at(result, v, r, q)->total, label,
                                 stdout);
            }
#else
    (void)result;
#endif
}

/* The terminal shows what differs: the rest is in --json, --tsv and -o. */
static void print_terminal(const struct nib_call *call, const struct nib_bias_result *result,
                           const struct tables *tables, const char *headline) {
    enum { FEW = 4, TENSORS_COLUMN = 3 };
    const struct arguments *arguments = call->options;
    bool several = nib_bias_views(result) > FEW && !arguments->all;
    bool hidden[64] = {false}, level_hidden[64] = {false};
    hidden[TENSORS_COLUMN] = !several;
    for (size_t i = 0; i < 8; i++) level_hidden[i] = true; /* all keys but quantizer and rotation */
    struct nib_layout layout = {headline[0] == '\0' ? NULL : headline, true, 0, hidden};
    nib_output_aligned(call, several ? tables->summary : tables->by_tensor, &layout, stdout);
    if (several)
        printf("\nMeans over tensors; +- is the standard error of the mean. --all prints every tensor.\n");
    else
        printf("\n+- is the standard error from batches of rows; differences are paired by batch.\n");
    if (tables->expected != NULL && nib_table_rows(tables->expected) > 0) print_expected(call, tables->expected);
    if (tables->equations != NULL) {
        struct nib_layout equations = {"Equations as printed, and what is measured", true, 0, NULL};
        putchar('\n');
        nib_output_aligned(call, tables->equations, &equations, stdout);
    }
    if (arguments->explain) explain(result);
    if (!arguments->per_level) return;
    struct nib_layout levels = {"Levels", true, 0, level_hidden};
    putchar('\n');
    nib_output_aligned(call, tables->levels, &levels, stdout);
    printf("\nmean error: of a magnitude |x|/scale that rounds to the level, in units of the grid; shares times mean errors add up to "
           "b.\n");
}

/* What the numbers leave out. */
static void print_notes(const struct nib_call *call, const struct nib_bias_result *result) {
    if (nib_bias_skipped(result) > 0)
        nib_output_note(call, "%zu tensors are no linear layer's and were left out; name them to measure them",
                        nib_bias_skipped(result));
    for (size_t v = 0; v < nib_bias_views(result); v++) {
        const struct nib_sums *total = &nib_bias_entry_at(result, v, 0, 0)->total;
        const struct nib_bias_view *view = nib_bias_view_at(result, v);
        bool again = v > 0 && strcmp(view->tensor, nib_bias_view_at(result, v - 1)->tensor) == 0;
        if (!again && (total->nan_count > 0 || total->inf_count > 0))
            nib_output_note(call, "%s: %llu NaN and %llu infinite elements were left out", view->tensor,
                            (unsigned long long)total->nan_count, (unsigned long long)total->inf_count);
    }
}

static enum nib_status print(const struct nib_call *call, const struct nib_bias_result *result,
                             const struct tables *tables, struct nib_error *error) {
    const struct arguments *arguments = call->options;
    char headline[1024];
    nib_bias_headline(result, headline, sizeof headline);
    if (call->common.json) return print_json(call, tables, headline, error);
    if (call->common.tsv)
        return nib_output_table(call, arguments->per_level ? tables->levels : tables->totals, NULL, error);
    print_terminal(call, result, tables, headline);
    print_notes(call, result);
    return NIB_OK;
}

/* What a figure has no room for. */
static void note_left_out(const struct nib_call *call, const struct nib_bias_result *result) {
    const struct arguments *arguments = call->options;
    size_t room = arguments->figure == 1 ? 2 : NIB_PLOT_QUANTIZERS, quantizers = nib_bias_quantizers(result);
    size_t rotations = nib_bias_rotations(result);
    if (quantizers > room)
        nib_output_note(call, "the figure shows the first %zu of %zu quantizers", room, quantizers);
    if (rotations > 2)
        nib_output_note(call, "the figure shows the last of %zu rotations, %s", rotations - 1,
                        nib_bias_rotation_name(result, rotations - 1));
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    const struct arguments *arguments = call->options;
    if (call->value_count == 0 && arguments->distributions.count == 0)
        return nib_fail(error, NIB_EINVAL, "nothing to measure; give FILE[:tensor] or --dist gaussian");
    static const char *const of_random[] = {"count", NULL}, *const of_figure[] = {"figure", NULL};
    enum nib_status status = NIB_OK;
    if (arguments->distributions.count == 0) status = nib_options_refuse(call, of_random, "goes with --dist", error);
    if (status == NIB_OK && arguments->plot == NULL)
        status = nib_options_refuse(call, of_figure, "says what --plot draws; --plot is missing", error);
    if (status != NIB_OK) return status;
    struct formats formats = {0};
    struct nib_bias_result *result = NULL;
    struct tables tables = {0};
    struct bar bar = {.call = call};
    struct nib_result *file = NULL;
    struct nib_provenance *provenance = NULL;
    status = formats_open(arguments, &formats, error);
    if (status == NIB_OK && nib_option_given(call, "seed") && !draws(&formats))
        status = nib_fail(error, NIB_EINVAL, "--seed goes with --dist or a quantizer that rounds stochastically");
    if (status == NIB_OK) status = nib_result_file_open(call, "shrinkage bias of 4-bit quantizers", &file, error);
    struct nib_bias_request request = {.files = NULL};
    if (status == NIB_OK) {
        request = (struct nib_bias_request){
            .files = call->values,
            .file_count = call->value_count,
            .distributions = formats.distributions,
            .distribution_count = formats.distribution_count,
            .sample_count = (uint64_t)arguments->count,
            .seed = (uint64_t)call->common.seed,
            .quantizers = formats.quantizers.item,
            .quantizer_count = formats.quantizers.count,
            .rotations = formats.rotations.item,
            .rotation_count = formats.rotations.count,
            .cast_f64 = arguments->cast != 0,
            .axis = arguments->axis,
            .gemm = (enum nib_gemm)arguments->gemm,
            .operand = (enum nib_operand)arguments->operand,
            .threads = (int)call->common.threads,
            .progress = advance,
            .context = &bar,
        };
        status = nib_bias_run(&request, &result, error);
        if (bar.started) nib_progress_end(&bar.progress);
    }
    if (status == NIB_OK) status = tables_make(result, &request, arguments, &tables, error);
    if (status == NIB_OK) status = print(call, result, &tables, error);
    if (status == NIB_OK && file != NULL)
        status = store(call, &formats, result, tables.expected, file, &provenance, error);
    status = nib_result_file_end(status, file, provenance, error);
    if (arguments->plot != NULL) nib_signals_guard_figure(arguments->plot);
    if (status == NIB_OK && arguments->plot != NULL)
        status = arguments->figure == 1 ? nib_plot_usage(tables.totals, arguments->plot, error)
                                        : nib_plot_bias(tables.totals, arguments->plot, error);
    if (status == NIB_OK && arguments->plot != NULL) note_left_out(call, result);
    tables_free(&tables);
    nib_bias_result_free(result);
    formats_close(&formats);
    return status;
}

NIB_COMMAND(bias) = {
    .values = "FILE[:tensor]...",
    .least = 0,
    .most = 4096,
    .description =
        "Quantizes tensors and says what that did to them: b = E[rho(t) - t] with t = |x|/s, also relative to E[t]; "
        "alpha = <Q(x), x>/||x||^2; the bucket utilization B_eff; SQNR. Standard errors come from batches of rows; "
        "differences between raw and rotated and between quantizers are paired by batch.\n"
        "A weight is reduced along its columns in fprop and along its rows in dgrad, an input along columns in fprop "
        "and rows in wgrad, an output gradient along columns in dgrad and rows in wgrad; each is measured along both "
        "unless --gemm or --axis chooses. A bare FILE means the weights, inputs and output gradients of its linear "
        "layers; FILE:tensor and FILE:glob ('*' also matches '.') are taken at their word.\n"
        "Of the densities, tNU is Student's t with NU degrees of freedom; siluA the product silu(A u) v of normal numbers u "
        "and v, as gated activations have it; ggBETA has the density exp(-|x|^BETA); outlierA is normal, every 16th channel "
        "A times as large.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct arguments),
    .takes = NIB_TAKES_JSON | NIB_TAKES_OUTPUT | NIB_TAKES_THREADS | NIB_TAKES_SEED,
    .examples = examples,
    .run = run,
};
