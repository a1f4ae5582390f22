/* nibble run --again: the experiment that a result came from, and whether it gives the same. */
#ifndef NIB_CLI_RUN_AGAIN_H
#define NIB_CLI_RUN_AGAIN_H

#include "experiment/store.h"

/* What the result file `path` says of itself, and its experiment, whose formats must still be those it was computed
 * from. The caller frees both, also after a failure. */
NIB_CHECK enum nib_status nib_again_open(const char *path, struct nib_stored_experiment *stored,
                                         struct nib_experiment **out, struct nib_error *error);
/* NIB_EINCONSISTENT names the first input that has changed since, which would explain any difference. */
NIB_CHECK enum nib_status nib_again_check_inputs(const struct nib_stored_experiment *stored,
                                                 const struct nib_provenance *provenance, const char *path,
                                                 struct nib_error *error);
/* Dataset by dataset, stored and now. *differs becomes true where what must be equal is not. */
NIB_CHECK enum nib_status nib_again_compare(const struct nib_stored_experiment *stored, const struct nib_table *digests,
                                            struct nib_table **out, bool *differs, struct nib_error *error);

#endif
