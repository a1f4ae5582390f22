/* The result file of an experiment, and what it says about itself. */
#ifndef NIB_EXPERIMENT_STORE_H
#define NIB_EXPERIMENT_STORE_H

#include "experiment/experiment.h"
#include "io/hdf5_out.h"

/* XXH3-128 of every column of the results table (nib_run_table): the dataset's name, whether its bits are the same on
 * every machine (all but what goes through the mathematical library), and the digest, of cells packed as in pack.h. The
 * last row, "all", is of the others together. */
NIB_CHECK enum nib_status nib_result_digests(const struct nib_experiment *experiment, const struct nib_table *results,
                                             struct nib_table **out, struct nib_error *error);
enum { NIB_DIGEST_DATASET, NIB_DIGEST_EXACT, NIB_DIGEST_XXH3 };

/* Groups of `file`:
 *   points                one row per row of every point's result: point, axes, measures
 *   grid                  the measures over the axes, where every point has one row
 *   provenance/digests    see above
 * and what is needed to run it again: the experiment's text, settings, folder and identity. */
NIB_CHECK enum nib_status nib_experiment_store(const struct nib_experiment *experiment, const struct nib_table *results,
                                               const struct nib_table *digests, struct nib_result *file,
                                               struct nib_error *error);

/* What a result file says of the experiment it came from; "" for what it does not say. */
struct nib_stored_experiment {
    char identity[40];
    char *text, *settings, *folder, *working_folder, *command_line;
    struct nib_table *digests; /* dataset and digest, without exactness */
    struct nib_table *inputs;  /* path and digest */
    struct nib_table *formats; /* "kind/name" and SHA-256 of the text */
};
NIB_CHECK enum nib_status nib_experiment_read(const char *path, struct nib_stored_experiment *out,
                                              struct nib_error *error);
void nib_stored_experiment_free(struct nib_stored_experiment *stored);

#endif
