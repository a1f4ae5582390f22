/* A model's layer stack under recipes: repetitions with means and standard errors, as tables and as a result file. */
#ifndef NIB_JOB_STACK_H
#define NIB_JOB_STACK_H

#include <nibble/table.h>

#include "io/hdf5_out.h"
#include "stack/depth.h"

extern const char *const nib_product_names[];   /* "blas", "exact", "unit", NULL: enum nib_product */
extern const char *const nib_precision_names[]; /* "f32", "bf16", NULL: NIB_STACK_F32 + i */

/* A model and its tokens, read and checked; nothing computed. */
struct nib_stack_input {
    struct nib_stack_config config;
    struct nib_file *file;
    const struct nib_stack *stack;
    uint32_t *tokens; /* repeats x sequences x (length + 1) */
    char *config_path;
    size_t sequences, length, repeats;
};
/* `model`: a folder, or a .safetensors file with its config beside it. Repetition r takes the r-th run of sequences,
 * after `skip` sequences. */
NIB_CHECK enum nib_status nib_stack_input_open(const char *model, const char *tokens, size_t sequences, size_t length,
                                               size_t repeats, size_t skip, struct nib_stack_input *out,
                                               struct nib_error *error);
void nib_stack_input_close(struct nib_stack_input *input);
/* Files of the model and of the tokens. */
NIB_CHECK enum nib_status nib_stack_input_cite(const struct nib_stack_input *input, const char *tokens,
                                               struct nib_provenance *provenance, struct nib_error *error);

struct nib_stack_request {
    const struct nib_stack_input *input;
    const struct nib_recipe *const *recipes;
    size_t recipe_count;
    enum nib_stack_precision precision;
    enum nib_product product;
    const struct nib_unit *unit;         /* NULL: one that takes the recipe's operands */
    const struct nib_rotation *rotation; /* for recipes without one; NULL: none */
    bool backward, products;
    uint64_t seed;                       /* of the first repetition; the next has the next */
    int threads;
    /* Steps of about equal work; may be NULL. */
    void (*progress)(void *context, size_t steps, const char *what);
    void *context;
};
/* Steps of a request, for a progress bar. */
size_t nib_stack_steps(const struct nib_stack_request *request);
/* Whether recipes, shapes and unit fit; costs next to nothing. */
NIB_CHECK enum nib_status nib_stack_check(const struct nib_stack_request *request, struct nib_error *error);

/* By recipe, then by record. With several repetitions values are their means and errors the standard errors over
 * repetitions, that is over sequences and seeds; with one they come from its batches and sequences. */
struct nib_stack_report {
    size_t recipes, records, layers;
    bool backward, products;
    struct nib_depth_record *record;
    double *loss_change;         /* by recipe, then by repetition; by sequence where there is one repetition */
    size_t samples, repeats;     /* so many for each recipe */
};
NIB_CHECK enum nib_status nib_stack_measure(const struct nib_stack_request *request, struct nib_stack_report *out,
                                            struct nib_error *error);
void nib_stack_report_free(struct nib_stack_report *report);
static inline const struct nib_depth_record *nib_stack_record(const struct nib_stack_report *report, size_t recipe,
                                                              size_t i) {
    return &report->record[recipe * report->records + i];
}

/* Which recipe loses the least, and whether its difference to the next is resolved: by Student's t on pairs of the same
 * sequences, at 95 %. Recipes that quantize nothing are left out; "" for fewer than two others. */
void nib_stack_headline(const struct nib_stack_report *report, const struct nib_recipe *const *recipes, char *out,
                        size_t size);

/* The columns of a record. */
#define NIB_STACK_COLUMN(field, heading, units, digits, long_name)                                       \
    {#field, heading, units, long_name, NIB_COLUMN_REAL, digits},                                        \
        {#field "_se", "+-", units, "standard error: " long_name, NIB_COLUMN_REAL, (digits) < 0 ? -2 : (digits)},
#define NIB_STACK_COLUMNS                                                                                             \
    {"part", "part", "", "summary, stream, operand, product or weight", NIB_COLUMN_TEXT, 0},                          \
        {"layer", "layer", "1", "layer, from 0; of the residual stream: layers below it, 0 to all; -1: of none", NIB_COLUMN_INTEGER, 0},  \
        {"module", "module", "", "linear layer within its layer, or name of a weight", NIB_COLUMN_TEXT, 0},           \
        {"pass", "pass", "", "fprop, dgrad or wgrad; of the residual stream: fprop up, dgrad down", NIB_COLUMN_TEXT, 0}, \
        {"operand", "operand", "", "x, w or dy", NIB_COLUMN_TEXT, 0},                                                 \
        {"quantizer", "quantizer", "", "of the operand; empty in high precision", NIB_COLUMN_TEXT, 0},                \
        NIB_DEPTH_LIST(NIB_STACK_COLUMN)
enum { NIB_STACK_PART, NIB_STACK_LAYER, NIB_STACK_MODULE, NIB_STACK_PASS, NIB_STACK_OPERAND, NIB_STACK_QUANTIZER, NIB_STACK_FIRST };
/* Fills in these columns of a row, the first of which is `at`. */
void nib_stack_row(struct nib_table *table, size_t row, size_t at, const struct nib_depth_record *record);
/* "case" (the recipe) and the columns of a record; `part` NIB_DEPTH_PARTS: all. */
NIB_CHECK enum nib_status nib_stack_table(const struct nib_stack_report *report,
                                          const struct nib_recipe *const *recipes, enum nib_depth_part part,
                                          struct nib_table **out, struct nib_error *error);
/* One table of several parts. */
NIB_CHECK enum nib_status nib_stack_table_of_parts(const struct nib_stack_report *report,
                                                   const struct nib_recipe *const *recipes,
                                                   const bool wanted[NIB_DEPTH_PARTS], struct nib_table **out,
                                                   struct nib_error *error);
/* Groups summary, streams, operands, products and weights, over dimension scales. */
NIB_CHECK enum nib_status nib_stack_store(const struct nib_stack_report *report,
                                          const struct nib_recipe *const *recipes, struct nib_result *file,
                                          struct nib_error *error);

#endif
