/* nibble run --again: whether the formats are still those that a result was computed from. */
#ifndef NIB_CLI_RUN_AGAIN_H
#define NIB_CLI_RUN_AGAIN_H

#include "experiment/store.h"

/* NIB_EINCONSISTENT names the first format or recipe whose text is not in the result file `path`. */
NIB_CHECK enum nib_status nib_again_check_formats(const struct nib_experiment *experiment,
                                                  const struct nib_stored_experiment *stored, const char *path,
                                                  struct nib_error *error);

#endif
