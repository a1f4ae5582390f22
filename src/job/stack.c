#include "job/stack.h"

#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "io/locator.h"
#include "io/model_config.h"
#include "io/tokens.h"
#include "stack/linear.h"
#include "stack/recipe.h"
#include "stack/stack.h"
#include <math.h>
#include <nibble/unit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const nib_product_names[] = {"blas", "exact", "unit", NULL};
const char *const nib_precision_names[] = {"f32", "bf16", NULL};

/* Names the file in an error that names none. */
static void blame(enum nib_status status, const char *path, struct nib_error *error) {
    if (status != NIB_OK && error != NULL && error->file[0] == '\0')
        snprintf(error->file, sizeof error->file, "%s", path);
}

static enum nib_status read_tokens(const char *path, size_t skip, struct nib_stack_input *in, struct nib_error *error) {
    struct nib_tokens tokens = {0};
    size_t wanted = skip + in->repeats * in->sequences, row = in->length + 1;
    uint32_t *all = NULL;
    if (in->length > in->config.positions)
        return nib_fail(error, NIB_EINVAL, "sequences of %zu tokens; the model takes %u (max_position_embeddings)",
                        in->length, in->config.positions);
    enum nib_status status = nib_tokens_read(path, in->config.vocabulary, &tokens, error);
    if (status == NIB_OK) status = nib_tokens_sequences(&tokens, wanted, in->length, &all, error);
    nib_tokens_clear(&tokens);
    blame(status, path, error);
    if (status != NIB_OK) return status;
    memmove(all, all + skip * row, (wanted - skip) * row * sizeof *all);
    in->tokens = all;
    return NIB_OK;
}

enum nib_status nib_stack_input_open(const char *model, const char *tokens, size_t sequences, size_t length,
                                     size_t repeats, size_t skip, struct nib_stack_input *out,
                                     struct nib_error *error) {
    struct nib_stack_input in = {.sequences = sequences, .length = length, .repeats = repeats};
    enum nib_status status = nib_model_config_find(model, &in.config_path, error);
    if (status == NIB_OK) status = nib_model_config_read(in.config_path, &in.config, error);
    if (status == NIB_OK) status = nib_file_open(model, &in.file, error);
    if (status == NIB_OK) {
        status = nib_stack_config_check(&in.config, error);
        blame(status, in.config_path, error);
    }
    if (status == NIB_OK) status = nib_stack_open(&in.config, in.file, &in.stack, error);
    blame(status, model, error);
    if (status == NIB_OK) status = read_tokens(tokens, skip, &in, error);
    if (status == NIB_OK)
        *out = in;
    else
        nib_stack_input_close(&in);
    return status;
}

void nib_stack_input_close(struct nib_stack_input *input) {
    if (input->stack != NULL) nib_stack_close(input->stack);
    if (input->file != NULL) nib_file_close(input->file);
    free(input->tokens);
    free(input->config_path);
    *input = (struct nib_stack_input){.stack = NULL};
}

enum nib_status nib_stack_input_cite(const struct nib_stack_input *input, const char *tokens,
                                     struct nib_provenance *provenance, struct nib_error *error) {
    struct nib_locator locator;
    enum nib_status status = nib_provenance_add_file(provenance, input->file, error);
    if (status == NIB_OK) status = nib_provenance_add_input(provenance, input->config_path, error);
    if (status == NIB_OK) status = nib_locator_parse(tokens, &locator, error);
    if (status != NIB_OK) return status;
    status = nib_provenance_add_input(provenance, locator.path, error);
    nib_locator_free(&locator);
    return status;
}

/* Work of a recipe's run: one step for each product; the reference counts as one for each of its own. */
static size_t steps_of_run(const struct nib_stack_request *r) {
    return (size_t)r->input->config.layers * NIB_MODULES * (r->backward ? NIB_PASSES : 1);
}
size_t nib_stack_steps(const struct nib_stack_request *r) {
    return r->input->repeats * steps_of_run(r) * (1 + r->recipe_count);
}

struct bar {
    const struct nib_stack_request *request;
    const char *what;
};
static void advance(void *context, size_t products) {
    struct bar *bar = context;
    bar->request->progress(bar->request->context, products, bar->what);
}

/* Values of all repetitions of one recipe into means and standard errors. */
static void combine(struct nib_depth_record *const *repetition, size_t repeats, size_t records,
                    struct nib_depth_record *out) {
    for (size_t i = 0; i < records; i++) {
        out[i] = repetition[0][i];
        if (repeats < 2) continue;
        for (size_t q = 0; q < NIB_DEPTH_QUANTITIES; q++) {
            double mean = 0, square = 0;
            for (size_t r = 0; r < repeats; r++) mean += repetition[r][i].value[q].value;
            mean /= (double)repeats;
            for (size_t r = 0; r < repeats; r++) {
                double off = repetition[r][i].value[q].value - mean;
                square += off * off;
            }
            out[i].value[q] = (struct nib_estimate){mean, sqrt(square / ((double)repeats - 1) / (double)repeats)};
        }
    }
}

/* One repetition: the reference, then every recipe. */
static enum nib_status repeat(const struct nib_stack_request *r, size_t number, struct nib_depth_record **out,
                              double *loss_change, struct nib_error *error) {
    const struct nib_stack_input *in = r->input;
    const uint32_t *tokens = in->tokens + number * in->sequences * (in->length + 1);
    struct nib_stack_result reference = {0};
    struct nib_stack_run run = {.precision = NIB_STACK_F64, .backward = r->backward, .threads = r->threads};
    enum nib_status status = nib_stack_execute(in->stack, &run, tokens, in->sequences, in->length, &reference, error);
    if (status == NIB_OK && r->progress != NULL) r->progress(r->context, steps_of_run(r), "reference");
    run.precision = r->precision;
    run.linear = (struct nib_linear_options){.product = r->product, .unit = r->unit, .seed = r->seed + number,
                                             .threads = r->threads};
    for (size_t i = 0; status == NIB_OK && i < r->recipe_count; i++) {
        struct bar bar = {r, nib_recipe_name(r->recipes[i])};
        run.linear.recipe = r->recipes[i];
        struct nib_depth_request request = {.stack = in->stack,
                                            .run = &run,
                                            .tokens = tokens,
                                            .sequences = in->sequences,
                                            .length = in->length,
                                            .reference = &reference,
                                            .loss_change = loss_change + i * in->sequences,
                                            .products = r->products,
                                            .rotation = r->rotation,
                                            .progress = r->progress == NULL ? NULL : advance,
                                            .context = &bar};
        status = nib_depth_measure(&request, &out[i], error);
        if (status == NIB_OK && !r->products && r->progress != NULL) advance(&bar, steps_of_run(r));
    }
    nib_stack_result_clear(&reference);
    return status;
}

enum nib_status nib_stack_measure(const struct nib_stack_request *r, struct nib_stack_report *out,
                                  struct nib_error *error) {
    enum nib_status status = nib_stack_check(r, error);
    if (status != NIB_OK) return status;
    struct nib_stack_report report = {.recipes = r->recipe_count,
                                      .records = nib_depth_records(r->input->stack, r->backward, r->products),
                                      .layers = r->input->config.layers,
                                      .backward = r->backward,
                                      .products = r->products,
                                      .repeats = r->input->repeats};
    size_t repeats = r->input->repeats, sequences = r->input->sequences, runs = repeats * r->recipe_count;
    struct nib_depth_record **all = nib_alloc(runs + repeats, sizeof *all, "measures of a stack", error);
    report.record = nib_alloc(r->recipe_count, report.records * sizeof *report.record, "measures of a stack", error);
    report.samples = repeats > 1 ? repeats : sequences;
    report.loss_change = nib_alloc(r->recipe_count * (report.samples + sequences), sizeof(double), "losses", error);
    if (all == NULL || report.record == NULL || report.loss_change == NULL) status = NIB_ENOMEM;
    double *change =
        repeats > 1 && report.loss_change != NULL ? report.loss_change + r->recipe_count * repeats : report.loss_change;
    for (size_t n = 0; status == NIB_OK && n < repeats; n++) {
        status = repeat(r, n, all + n * r->recipe_count, change, error);
        for (size_t i = 0; status == NIB_OK && repeats > 1 && i < r->recipe_count; i++)
            report.loss_change[i * repeats + n] = all[n * r->recipe_count + i]->value[NIB_DEPTH_loss_change].value;
    }
    struct nib_fpenv saved = nib_fpenv_enter();
    for (size_t i = 0; status == NIB_OK && i < r->recipe_count; i++) {
        struct nib_depth_record **of_recipe = all + runs;
        for (size_t n = 0; n < repeats; n++) of_recipe[n] = all[n * r->recipe_count + i];
        combine(of_recipe, repeats, report.records, report.record + i * report.records);
    }
    nib_fpenv_leave(saved);
    for (size_t i = 0; all != NULL && i < runs; i++) free(all[i]);
    free(all);
    if (status == NIB_OK)
        *out = report;
    else
        nib_stack_report_free(&report);
    return status;
}

void nib_stack_report_free(struct nib_stack_report *report) {
    free(report->record);
    free(report->loss_change);
    report->record = NULL;
    report->loss_change = NULL;
}
