/* nibble explore: grids judged without sampling, and searches for better ones. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/output.h"
#ifdef NIB_WITH_EXPECT
#include "base/number.h"
#include "cli/lists.h"
#include "cli/remember.h"
#include "cli/result_file.h"
#include "cli/signals.h"
#include "base/path.h"
#include "base/text_file.h"
#include "io/json_out.h"
#include "job/explain.h"
#include "job/explore.h"
#include "plot/figure.h"
#endif

struct arguments {
    struct nib_texts levels, rules, grids, densities, blocks, scales, rotations, settings;
    bool as_signed, mid_rise, best, crossover, explain, all;
    double offset, weight;
    int64_t integers, count, confirm, top;
    int objective, figure;
    const char *plot, *write;
};

static const struct arguments defaults = {.count = 1 << 22, .confirm = -1, .top = 12, .weight = 0.5, .figure = -1};
static const char *const objectives[] = {"mse", "alpha", "weighted", NULL}; /* the order of enum nib_objective */
static const char *const figures[] = {"grids", "pareto", "heat", "crest", NULL};

static const struct nib_option options[] = {
    NIB_OPT_TEXTS(
        struct arguments, levels, "levels", 0, "A,B,...",
        "a grid by its magnitudes (0,1,2,3,4,6,8,12), or by all levels where one is negative"),
    NIB_OPT_TEXTS(
        struct arguments, rules, "rule", 0, "RULE",
        "a grid by rule: float:E,M[,BIAS], uniform[:K], power:P, geometric:R, quantiles:DENSITY"),
    NIB_OPT_LIST(struct arguments, grids, "grid", 'g', "ELEMENT", "built-in elements or YAML files"),
    NIB_OPT_INTEGER(struct arguments, integers, "integer-grids", 0, "N", 7, 24,
                    "every grid of 0 and seven of the numbers 1 to N"),
    NIB_OPT_FLAG(struct arguments, as_signed, "signed", 0,
                 "--levels gives levels with their signs even where none is negative"),
    NIB_OPT_FLAG(struct arguments, mid_rise, "mid-rise", 0, "no zero: magnitudes move to the middles of their gaps"),
    NIB_OPT_REAL(struct arguments, offset, "offset", 0, "X", -1e6, 1e6, "added to every signed level"),
    NIB_OPT_LIST(struct arguments, densities, "dist", 'd', "DIST",
                 "densities: gaussian, laplace, logistic, uniform, tNU (t5), siluA (silu4), ggBETA (gg0.7), hist:FILE; "
                 "default gaussian"),
    NIB_OPT_LIST(struct arguments, blocks, "block", 'b', "N", "block sizes; default 16"),
    NIB_OPT_LIST(struct arguments, scales, "scale", 's', "SCALE", "scale formats; default fp32"),
    NIB_OPT_LIST(struct arguments, rotations, "rotate", 'r', "ROTATION", "rotations, by sampled blocks; default none"),
    NIB_OPT_TEXTS(struct arguments, settings, "set", 0, "AXIS=VALUE", "an axis of every quantizer"),
    NIB_OPT_CHOICE(struct arguments, objective, "objective", 0, "WHAT", objectives,
                   "what ranks the grids: NMSE, |1 - alpha|, or (1 - w) NMSE + w |1 - alpha|"),
    NIB_OPT_REAL(struct arguments, weight, "weight", 0, "W", 0, 1, "w of the weighted objective"),
    NIB_OPT_FLAG(struct arguments, best, "best", 0,
                 "search for the best grid from each given one: Lloyd-Max with the maximum fixed"),
    NIB_OPT_TEXT(struct arguments, write, "write", 'w', "FILE.yaml",
                 "write the grid that ranks first in the first ranking as an element format"),
    NIB_OPT_FLAG(struct arguments, crossover, "crossover", 0,
                 "the crest factor at which the first grid and each other one are equally good"),
    NIB_OPT_INTEGER(struct arguments, confirm, "confirm", 0, "N", 0, 1000,
                    "measure the N best of each ranking; default 3 for --integer-grids, otherwise 0"),
    NIB_OPT_INTEGER(struct arguments, count, "count", 'n', "N", 1024, INT64_C(1) << 32, "elements of a sample"),
    NIB_OPT_INTEGER(struct arguments, top, "top", 0, "N", 1, 1000000, "rows of each ranking on the terminal"),
    NIB_OPT_FLAG(struct arguments, explain, "explain", 'e', "say in words which bins cause each result"),
    NIB_OPT_TEXT(struct arguments, plot, "plot", 'p', "PREFIX",
                 "draw a figure with gnuplot: PREFIX.png, PREFIX.pdf and PREFIX.gp"),
    NIB_OPT_CHOICE(struct arguments, figure, "figure", 0, "KIND", figures,
                   "grids with bins and their errors, Pareto front, heat map of SQNR, or bias against crest factor"),
    NIB_OPT_END,
};

static const struct nib_example examples[] = {
    {"nibble explore --integer-grids 12 --dist gaussian --block 16 --scale fp32", "ranks 792 grids"},
    {"nibble explore --levels 0,1,2,3,4,6,8,12 --rule uniform --dist gaussian,laplace --block 16,32 --scale fp32,e8m0",
     "a sweep"},
    {"nibble explore --grid e2m1,int4 --explain", "which bins cause the bias"},
    {"nibble explore --grid e2m1 --best --dist laplace --block 32 --write best.yaml",
     "a better grid, as a format file for -q ./best.yaml"},
    {"nibble explore --grid e2m1,int4 --crossover", "which grid for which crest factor"},
    {NULL, NULL},
};

#ifndef NIB_WITH_EXPECT
static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    (void)call;
    return nib_fail(error, NIB_EUNAVAILABLE,
                    "explore needs libnibble-expect; this build has none (NIBBLE_EXPECT=OFF, no GSL)");
}
#else

/* The formats of a call, opened. */
struct formats {
    struct nib_explore_grids grids;
    const struct nib_scale **scales;
    struct nib_rotations rotations;
    int64_t *blocks;
    size_t scale_count, block_count;
};

static void formats_close(struct formats *f) {
    nib_explore_grids_free(&f->grids);
    for (size_t i = 0; i < f->scale_count; i++) nib_scale_close(f->scales[i]);
    nib_rotations_close(&f->rotations);
    free(f->scales);
    free(f->blocks);
}

/* Grids by name or path, the first ones: no two are called alike. */
static enum nib_status part_grids(const struct arguments *a, struct nib_explore_grids *grids, struct nib_error *error) {
    if (grids->count == 0) return NIB_OK;
    const char **labels = calloc(grids->count, sizeof *labels);
    if (labels == NULL) return nib_fail(error, NIB_ENOMEM, "out of memory");
    for (size_t i = 0; i < grids->count; i++) labels[i] = grids->grid[i].label;
    enum nib_status status = nib_labels_part("grid", a->grids.item, labels, grids->count, error);
    for (size_t i = 0; status == NIB_OK && i < grids->count; i++) {
        struct nib_explore_grid *grid = &grids->grid[i];
        if (labels[i] != a->grids.item[i]) continue;
        snprintf(grid->label, sizeof grid->label, "%s", labels[i]);
        snprintf(grid->name, sizeof grid->name, "%s", labels[i]);
    }
    free(labels);
    return status;
}

static enum nib_status open_grids(const struct arguments *a, struct nib_explore_grids *grids, struct nib_error *error) {
    struct nib_explore_shape shape = {a->as_signed, a->mid_rise, a->offset};
    enum nib_status status = NIB_OK;
    for (size_t i = 0; status == NIB_OK && i < a->grids.count; i++)
        status = nib_explore_add_element(grids, a->grids.item[i], &shape, error);
    if (status == NIB_OK) status = part_grids(a, grids, error);
    for (size_t i = 0; status == NIB_OK && i < a->levels.count; i++)
        status = nib_explore_add_levels(grids, a->levels.item[i], &shape, error);
    for (size_t i = 0; status == NIB_OK && i < a->rules.count; i++)
        status = nib_explore_add_rule(grids, a->rules.item[i], &shape, error);
    if (status == NIB_OK && a->integers > 0) status = nib_explore_add_integers(grids, (unsigned)a->integers, error);
    if (status == NIB_OK && grids->count == 0)
        status = nib_fail(error, NIB_EINVAL, "no grid to explore; give --grid, --levels, --rule or --integer-grids");
    return status;
}

static enum nib_status formats_open(const struct arguments *a, struct formats *out, struct nib_error *error) {
    static const char *const fp32[] = {"fp32"}, *const none[] = {"none"}, *const sixteen[] = {"16"};
    struct nib_texts scales = nib_texts_or(&a->scales, fp32, 1), rotations = nib_texts_or(&a->rotations, none, 1);
    struct nib_texts blocks = nib_texts_or(&a->blocks, sixteen, 1);
    out->scales = calloc(scales.count, sizeof *out->scales);
    out->blocks = calloc(blocks.count, sizeof *out->blocks);
    if (out->scales == NULL || out->blocks == NULL)
        return nib_fail(error, NIB_ENOMEM, "out of memory");
    enum nib_status status = open_grids(a, &out->grids, error);
    for (size_t i = 0; status == NIB_OK && i < scales.count; i++) {
        status = nib_scale_open(scales.item[i], &out->scales[i], error);
        out->scale_count += status == NIB_OK;
    }
    if (status == NIB_OK) status = nib_rotations_open(rotations.item, rotations.count, &out->rotations, error);
    for (size_t i = 0; status == NIB_OK && i < blocks.count; i++, out->block_count++)
        if (!nib_number_integer(blocks.item[i], 1, 1 << 16, &out->blocks[i]))
            status = nib_fail(error, NIB_EINVAL, "--block %s: expected a whole number from 1 to 65536", blocks.item[i]);
    return status;
}

static void label_of(const struct nib_explore_point *p, char out[640]) {
    snprintf(out, 640, "%s on %s, blocks of %u, %s%s%s", p->grid->label, p->data, p->block, p->scale,
             strcmp(p->rotation, "none") == 0 ? "" : " after ", strcmp(p->rotation, "none") == 0 ? "" : p->rotation);
}

static void explain(const struct arguments *a, const struct nib_explore_result *result, FILE *stream) {
    char label[640];
    for (size_t i = 0; i < result->count; i++) {
        const struct nib_explore_point *p = &result->point[i];
        if (p->rank > (size_t)a->top && p->grid->name[0] == '\0') continue;
        label_of(p, label);
        fputc('\n', stream);
        nib_explain_bias(p->grid->element, &p->sums, label, stream);
    }
}

/* "e2m1 ranks 53 of 792" for each known grid of the first ranking. */
static void headline_of(const struct nib_explore_result *result, char *out, size_t size) {
    size_t length = 0;
    out[0] = '\0';
    if (result->group_size < 2 || result->count == 0) return;
    length += (size_t)snprintf(out, size, "Best for %s in blocks of %u, %s scale: %s, %.3f dB", result->point[0].data,
                               result->point[0].block, result->point[0].scale, result->point[0].grid->label,
                               result->point[0].bias.sqnr_db);
    for (size_t i = 0; i < result->group_size && length < size; i++) {
        const struct nib_explore_point *p = &result->point[i];
        if (p->grid->name[0] == '\0' || i == 0) continue;
        length += (size_t)snprintf(out + length, size - length, "; %s ranks %zu of %zu, %.3f dB", p->grid->name,
                                   p->rank, result->group_size, p->bias.sqnr_db);
    }
}

static enum nib_status print_json(const struct nib_call *call, const struct nib_explore_result *result,
                                  const struct nib_table *table, const struct nib_table *crossings,
                                  struct nib_error *error) {
    const struct arguments *a = call->options;
    char headline[1024];
    struct nib_json *json;
    headline_of(result, headline, sizeof headline);
    enum nib_status status = nib_output_json(call, &json, error);
    if (status != NIB_OK) return status;
    nib_json_text(json, "headline", headline);
    nib_output_parameters(call, json);
    nib_json_text(json, "objective", objectives[a->objective]);
    nib_json_table(json, "grids", table);
    if (crossings != NULL) nib_json_table(json, "crossovers", crossings);
    if (a->explain) {
        char *text = NULL;
        size_t length;
        FILE *stream = open_memstream(&text, &length);
        if (stream != NULL) {
            explain(a, result, stream);
            fclose(stream);
            nib_json_text(json, "explanation", text);
        }
        free(text);
    }
    nib_json_end(json);
    return NIB_OK;
}

static enum nib_status print(const struct nib_call *call, const struct nib_explore_result *result,
                             const struct nib_table *full, const struct nib_table *crossings, struct nib_error *error) {
    enum {
        DATA,
        BLOCK,
        SCALE,
        ROTATION,
        METHOD,
        RANK,
        GRID,
        NAME,
        PARETO,
        OBJECTIVE,
        MEASURED,
        MEASURED_SE,
        OFF,
        FIRST
    };
    static const enum nib_statistic shown[] = {NIB_STATISTIC_sqnr_db, NIB_STATISTIC_one_minus_alpha, NIB_STATISTIC_b,
                                               NIB_STATISTIC_b_relative, NIB_STATISTIC_b_eff};
    const struct arguments *a = call->options;
    if (call->common.json) return print_json(call, result, full, crossings, error);
    if (call->common.tsv) return nib_output_table(call, a->crossover ? crossings : full, NULL, error);
    struct nib_table *table = NULL;
    enum nib_status status = nib_explore_table(result, (size_t)a->top, &table, error);
    if (status != NIB_OK) return status;
    bool hidden[FIRST + NIB_STATISTICS] = {false}, sampled = false, measured = false, named = false, rotated = false;
    for (size_t i = 0; i < result->count; i++) {
        const struct nib_explore_point *p = &result->point[i];
        sampled |= strcmp(p->method, "sampled") == 0;
        measured |= p->measured.value == p->measured.value;
        named |= p->grid->name[0] != '\0' && strcmp(p->grid->name, p->grid->label) != 0;
        rotated |= strcmp(p->rotation, "none") != 0;
    }
    for (int s = 0; s < NIB_STATISTICS; s++) hidden[FIRST + s] = true;
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) hidden[FIRST + shown[i]] = false;
    hidden[NAME] = !named;
    hidden[ROTATION] = !rotated;
    hidden[METHOD] = !sampled;
    hidden[PARETO] = result->group_size < 3;
    hidden[OBJECTIVE] = a->objective == NIB_OBJECTIVE_MSE;
    hidden[MEASURED] = hidden[MEASURED_SE] = hidden[OFF] = !measured;
    char headline[1024];
    headline_of(result, headline, sizeof headline);
    struct nib_layout layout = {headline[0] == '\0' ? NULL : headline, true, DATA, hidden};
    nib_output_aligned(call, table, &layout, stdout);
    if (sampled) printf("\nRotated and real elements are not independent: their rows come from sampled blocks.\n");
    if (crossings != NULL) {
        printf("\nEqually good for a generalised Gaussian, density proportional to exp(-|x|^exponent):\n");
        nib_output_aligned(call, crossings, NULL, stdout);
    }
    if (a->explain) explain(a, result, stdout);
    nib_table_free(table);
    return NIB_OK;
}

static enum nib_status store(const struct nib_call *call, const struct formats *formats, const struct nib_table *table,
                             const struct nib_table *crossings, struct nib_result *file, struct nib_provenance **out,
                             struct nib_error *error) {
    enum nib_status status = nib_result_table(file, "grids", table, error);
    if (status == NIB_OK && crossings != NULL) status = nib_result_table(file, "crossovers", crossings, error);
    if (status == NIB_OK) status = nib_remember_call(call, NULL, 1, out, error);
    if (status != NIB_OK) return status;
    nib_provenance_add_seed(*out, "seed", (uint64_t)call->common.seed);
    for (size_t i = 0; i < formats->scale_count; i++) {
        char name[128];
        snprintf(name, sizeof name, "scales/%s", formats->scales[i]->name);
        nib_provenance_add_format(*out, name, formats->scales[i]->text, formats->scales[i]->sha256);
    }
    for (size_t i = 0; i < formats->grids.count && formats->grids.count <= 64; i++) {
        char name[220];
        snprintf(name, sizeof name, "elements/%s", formats->grids.grid[i].label);
        nib_provenance_add_format(*out, name, formats->grids.grid[i].element->text,
                                  formats->grids.grid[i].element->sha256);
    }
    return NIB_OK;
}

/* The best of the first density, block size and scale. */
static enum nib_status write_best(const struct nib_call *call, const struct nib_explore_result *result,
                                  struct nib_error *error) {
    const struct arguments *a = call->options;
    const struct nib_explore_point *best = &result->point[0];
    for (size_t i = 1; i < result->group_size; i++)
        if (result->point[i].rank < best->rank) best = &result->point[i];
    const struct nib_before before = nib_output_before(a->write);
    enum nib_status status = nib_text_file_write(a->write, best->grid->element->text, error);
    if (status == NIB_OK) nib_output_note_replaced(call, &before);
    if (status == NIB_OK)
        nib_output_note(call, "%s holds the levels of %s, best for %s in blocks of %u", a->write, best->grid->label, best->data,
                        (unsigned)best->block);
    return status;
}

enum { FIGURE_GRIDS, FIGURE_PARETO, FIGURE_HEAT, FIGURE_CREST };

static enum nib_status draw(const struct arguments *a, const struct formats *formats,
                            const struct nib_explore_result *result, const struct nib_table *table,
                            struct nib_error *error) {
    int figure = a->figure >= 0                       ? a->figure
                 : a->integers > 0                    ? FIGURE_PARETO
                 : result->count > result->group_size ? FIGURE_HEAT
                                                      : FIGURE_GRIDS;
    nib_signals_guard_figure(a->plot);
    if (figure == FIGURE_PARETO) return nib_plot_pareto(table, a->plot, error);
    if (figure == FIGURE_HEAT) return nib_plot_heat(table, a->plot, error);
    struct nib_table *own = NULL;
    enum nib_status status = figure == FIGURE_GRIDS
                                 ? nib_explore_bins(result, &own, error)
                                 : nib_explore_family(&formats->grids, (unsigned)formats->blocks[0], &own, error);
    if (status != NIB_OK) return status;
    status = figure == FIGURE_GRIDS ? nib_plot_grids(own, a->plot, error) : nib_plot_crest(own, a->plot, error);
    nib_table_free(own);
    return status;
}

/* How many of the best are measured. */
static size_t confirmed(const struct arguments *a) {
    if (a->confirm >= 0) return (size_t)a->confirm;
    return a->integers > 0 ? 3 : 0;
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    const struct arguments *a = call->options;
    static const char *const gaussian[] = {"gaussian"};
    struct formats formats = {0};
    struct nib_explore_result result = {0};
    struct nib_table *table = NULL, *crossings = NULL;
    struct nib_result *file = NULL;
    struct nib_provenance *provenance = NULL;
    static const char *const of_levels[] = {"signed", NULL}, *const of_figure[] = {"figure", NULL}, *const of_samples[] = {"count", "seed", NULL},
                             *const of_weight[] = {"weight", NULL};
    enum nib_status status = NIB_OK;
    if (a->levels.count == 0) status = nib_options_refuse(call, of_levels, "goes with --levels", error);
    if (status == NIB_OK && a->plot == NULL)
        status = nib_options_refuse(call, of_figure, "says what --plot draws; --plot is missing", error);
    if (status == NIB_OK && a->objective != NIB_OBJECTIVE_WEIGHTED)
        status = nib_options_refuse(call, of_weight, "goes with --objective weighted", error);
    if (status == NIB_OK && call->value_count == 0 && a->rotations.count == 0 && confirmed(a) == 0)
        status = nib_options_refuse(call, of_samples, "goes with --confirm, --rotate or a FILE; nothing is sampled here", error);
    if (status != NIB_OK) return status;
    struct nib_texts densities = nib_texts_or(&a->densities, gaussian, call->value_count > 0 ? 0 : 1);
    status = formats_open(a, &formats, error);
    if (status == NIB_OK) status = nib_result_file_open(call, "grids explored", &file, error);
    if (status == NIB_OK && a->write != NULL) status = nib_path_check_target(a->write, error); /* before the search */
    struct nib_explore_request request = {.grids = &formats.grids,
                                          .densities = densities.item,
                                          .density_count = densities.count,
                                          .blocks = formats.blocks,
                                          .block_count = formats.block_count,
                                          .scales = formats.scales,
                                          .scale_count = formats.scale_count,
                                          .rotations = formats.rotations.item,
                                          .rotation_count = formats.rotations.count,
                                          .files = call->values,
                                          .file_count = call->value_count,
                                          .settings = a->settings.item,
                                          .setting_count = a->settings.count,
                                          .objective = (enum nib_objective)a->objective,
                                          .weight = a->weight,
                                          .confirm = confirmed(a),
                                          .improve = a->best,
                                          .samples = (uint64_t)a->count,
                                          .seed = (uint64_t)call->common.seed,
                                          .threads = (int)call->common.threads};
    if (status == NIB_OK) status = nib_explore_run(&request, &result, error);
    if (status == NIB_OK) status = nib_explore_table(&result, SIZE_MAX, &table, error);
    if (status == NIB_OK && a->crossover)
        status = nib_explore_crossings(&formats.grids, formats.blocks, formats.block_count, &crossings, error);
    if (status == NIB_OK) status = print(call, &result, table, crossings, error);
    if (status == NIB_OK && file != NULL)
        status = store(call, &formats, table, crossings, file, &provenance, error);
    status = nib_result_file_end(status, file, provenance, error);
    if (status == NIB_OK && a->write != NULL) status = write_best(call, &result, error);
    if (status == NIB_OK && a->plot != NULL) status = draw(a, &formats, &result, table, error);
    nib_table_free(table);
    nib_table_free(crossings);
    nib_explore_result_free(&result);
    formats_close(&formats);
    return status;
}
#endif

NIB_COMMAND(explore) = {
    .values = "[FILE[:tensor]...]",
    .least = 0,
    .most = 4096,
    .description = "Judges 4-bit grids by exact expectation: for independent elements of a density nothing is sampled. "
                   "Grids come by "
                   "levels, rule or name, or are all small integer grids; each is combined with every density, block "
                   "size, scale format "
                   "and rotation given. Rotated tensors and files are measured instead, and the table says so.\n"
                   "The scale of a block is its largest magnitude over the grid's, rounded up in E8M0 and to nearest "
                   "in other formats "
                   "(--set changes that). --best moves the levels of each grid to where the objective is least, the "
                   "largest magnitude "
                   "fixed; --write keeps the best, to be used like any format: nibble bias -q ./FILE.yaml.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct arguments),
    .takes = NIB_TAKES_JSON | NIB_TAKES_OUTPUT | NIB_TAKES_THREADS | NIB_TAKES_SEED,
    .examples = examples,
    .run = run,
};
