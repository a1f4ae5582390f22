/* Chains over seeds: means and standard errors of what nib_chain_run finds. */
#ifndef NIB_JOB_CHAIN_H
#define NIB_JOB_CHAIN_H

#include <nibble/chain.h>
#include <nibble/measure.h>
#include <nibble/table.h>

#include "job/sample.h"

struct nib_chain_request {
    struct nib_chain chain; /* weights, signals and seed are filled in */
    struct nib_distribution weights, signals;
    uint64_t first; /* seed */
    size_t seeds;
    int threads;    /* seeds run side by side; no bit depends on it */
    /* After each seed, from one thread at a time; may be NULL. */
    void (*progress)(void *context);
    void *context;
};

struct nib_chain_summary {
    size_t records;
    struct nib_chain_record *record; /* of the first seed: depth, pass and GEMM of each */
    struct nib_estimate (*estimate)[NIB_CHAIN_QUANTITIES];
};
NIB_CHECK enum nib_status nib_chain_summarize(const struct nib_chain_request *request, struct nib_chain_summary *out,
                                              struct nib_error *error);
void nib_chain_summary_free(struct nib_chain_summary *summary);

/* The same quantizer and rotation for every operand. */
void nib_chain_treat(struct nib_chain *chain, const struct nib_quantizer *quantizer,
                     const struct nib_rotation *rotation);

/* Those of a recipe; what else it says is left out, but for weights without a quantizer, which are refused. */
NIB_CHECK enum nib_status nib_chain_follow(struct nib_chain *chain, const struct nib_recipe *recipe,
                                           struct nib_error *error);
/* "linear", "relu", "silu", "swiglu", NULL: enum nib_chain_activation. */
extern const char *const nib_chain_activation_names[];
/* "own", "sr", NULL: the choices of `stochastic`. */
extern const char *const nib_chain_rounding_names[];
/* By name or path; `stochastic` replaces its rounding by a stochastic one of 32 bits. */
NIB_CHECK enum nib_status nib_chain_quantizer(const char *name, bool stochastic, const struct nib_quantizer **out,
                                              struct nib_error *error);

/* As columns of a table. */
#define NIB_CHAIN_COLUMN(field, heading, units, digits, long_name)    \
    {#field, heading, units, long_name, NIB_COLUMN_REAL, digits},     \
        {#field "_se", "+-", units, "standard error over seeds: " long_name, NIB_COLUMN_REAL, digits},
#define NIB_CHAIN_COLUMNS                                                                    \
    {"depth", "depth", "1", "layer, from 1: signal above, gradient below it", NIB_COLUMN_INTEGER, 0},                   \
        {"pass", "pass", "", "fprop, dgrad or wgrad", NIB_COLUMN_TEXT, 0},                   \
        {"gemm", "gemm", "", "linear layer of the chain's layer", NIB_COLUMN_TEXT, 0},       \
        NIB_CHAIN_LIST(NIB_CHAIN_COLUMN)
enum { NIB_CHAIN_DEPTH, NIB_CHAIN_PASS, NIB_CHAIN_GEMM, NIB_CHAIN_FIRST };
/* Fills in these columns of a row, the first of which is `at`. */
void nib_chain_row(struct nib_table *table, size_t row, size_t at, const struct nib_chain_summary *summary,
                   size_t record);

#endif
