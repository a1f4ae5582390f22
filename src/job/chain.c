#include "job/chain.h"

#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/threads.h"
#include "stack/recipe.h"
#include <math.h>
#include <stdlib.h>

const char *const nib_chain_activation_names[] = {"linear", "relu", "silu", "swiglu", NULL};
const char *const nib_chain_rounding_names[] = {"own", "sr", NULL};

static void fill(const void *self, uint64_t seed, uint64_t first, size_t count, float *out) {
    nib_distribution_fill(self, seed, first, count, 1, out);
}

void nib_chain_treat(struct nib_chain *chain, const struct nib_quantizer *quantizer,
                     const struct nib_rotation *rotation) {
    for (int slot = 0; slot < NIB_SLOTS; slot++) chain->operand[slot] = (struct nib_chain_operand){quantizer, rotation};
}

enum nib_status nib_chain_follow(struct nib_chain *chain, const struct nib_recipe *recipe, struct nib_error *error) {
    if (recipe->slot[NIB_SLOT_FPROP_W].method == NIB_METHOD_TERNARY)
        return nib_fail(error, NIB_EINVAL, "recipe %s: chains have no ternary weights; nibble stack has",
                        nib_recipe_name(recipe));
    for (int slot = 0; slot < NIB_SLOTS; slot++)
        chain->operand[slot] = (struct nib_chain_operand){nib_recipe_quantizer(recipe, (enum nib_slot)slot),
                                                          nib_recipe_rotation(recipe, (enum nib_slot)slot)};
    return NIB_OK;
}

enum nib_status nib_chain_quantizer(const char *name, bool stochastic, const struct nib_quantizer **out,
                                    struct nib_error *error) {
    static const char *const settings[] = {"rounding=sr", "sr_bits=32"};
    const struct nib_quantizer *base = NULL;
    if (!stochastic) return nib_quantizer_open(name, out, error);
    enum nib_status status = nib_quantizer_open(name, &base, error);
    if (status == NIB_OK) status = nib_quantizer_with(base, settings, 2, out, error);
    nib_quantizer_close(base);
    return status;
}

/* Means and standard errors over seeds, in order of seed. */
static void estimate(const struct nib_chain_record *all, size_t records, size_t seeds, struct nib_chain_summary *out) {
    for (size_t r = 0; r < records; r++)
        for (size_t q = 0; q < NIB_CHAIN_QUANTITIES; q++) {
            double mean = 0, square = 0;
            for (size_t s = 0; s < seeds; s++) mean += all[s * records + r].value[q];
            mean /= (double)seeds;
            for (size_t s = 0; s < seeds; s++) {
                double off = all[s * records + r].value[q] - mean;
                square += off * off;
            }
            double variance = square / ((double)seeds - 1) / (double)seeds;
            out->estimate[r][q] = (struct nib_estimate){mean, seeds < 2 ? NAN : sqrt(variance)};
        }
}

enum nib_status nib_chain_summarize(const struct nib_chain_request *request, struct nib_chain_summary *out,
                                    struct nib_error *error) {
    struct nib_chain chain = request->chain;
    chain.weights = (struct nib_chain_source){fill, &request->weights};
    chain.signals = (struct nib_chain_source){fill, &request->signals};
    enum nib_status status = nib_chain_check(&chain, error);
    if (status != NIB_OK) return status;
    struct nib_chain_summary summary = {.records = nib_chain_records(&chain)};
    size_t records = summary.records;
    struct nib_chain_record *all = nib_alloc(request->seeds, records * sizeof *all, "records of chains", error);
    summary.record = nib_alloc(records, sizeof *summary.record, "records of chains", error);
    summary.estimate = nib_alloc(records, sizeof *summary.estimate, "estimates of chains", error);
    if (all == NULL || summary.record == NULL || summary.estimate == NULL) status = NIB_ENOMEM;
    int threads = nib_threads_for(request->threads, request->seeds);
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (status == NIB_OK)
    for (size_t s = 0; s < (status == NIB_OK ? request->seeds : 0); s++) {
        struct nib_chain one = chain;
        struct nib_error failure = {NIB_OK, 0, "", ""};
        one.seed = request->first + s;
        enum nib_status done = nib_chain_run(&one, all + s * records, &failure);
#pragma omp critical(nib_chain_seeds)
        {
            if (done != NIB_OK && status == NIB_OK) {
                status = done;
                if (error != NULL) *error = failure;
            }
            if (request->progress != NULL) request->progress(request->context);
        }
    }
    if (status == NIB_OK) {
        struct nib_fpenv saved = nib_fpenv_enter();
        for (size_t r = 0; r < records; r++) summary.record[r] = all[r];
        estimate(all, records, request->seeds, &summary);
        nib_fpenv_leave(saved);
        *out = summary;
    } else {
        nib_chain_summary_free(&summary);
    }
    free(all);
    return status;
}

void nib_chain_summary_free(struct nib_chain_summary *summary) {
    free(summary->record);
    free(summary->estimate);
    *summary = (struct nib_chain_summary){0};
}

void nib_chain_row(struct nib_table *table, size_t row, size_t at, const struct nib_chain_summary *summary,
                   size_t record) {
    const struct nib_chain_record *r = &summary->record[record];
    nib_table_set_integer(table, row, at + NIB_CHAIN_DEPTH, r->depth);
    nib_table_set_text(table, row, at + NIB_CHAIN_PASS, nib_pass_name(r->pass));
    nib_table_set_text(table, row, at + NIB_CHAIN_GEMM, r->gemm);
    for (size_t q = 0; q < NIB_CHAIN_QUANTITIES; q++) {
        nib_table_set_real(table, row, at + NIB_CHAIN_FIRST + 2 * q, summary->estimate[record][q].value);
        nib_table_set_real(table, row, at + NIB_CHAIN_FIRST + 2 * q + 1, summary->estimate[record][q].error);
    }
}
