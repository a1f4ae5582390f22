/* A progress bar on stderr: only on a terminal, not with --quiet, and only for work that takes more than a second. */
#ifndef NIB_CLI_PROGRESS_H
#define NIB_CLI_PROGRESS_H

#include <stddef.h>
#include <time.h>

#include "cli/command.h"

struct nib_progress {
    const char *what; /* "tensors" */
    size_t total;     /* of the unit that step() counts, or the sum of the weights */
    size_t done;
    struct timespec start, drawn;
    bool active, visible;
};

/* `total` counts work in any unit that grows steadily (elements, say). */
void nib_progress_start(struct nib_progress *progress, const struct nib_call *call, const char *what, size_t total);
/* `amount` more is done; `label` names what comes next, may be NULL. Call it from one thread. */
void nib_progress_step(struct nib_progress *progress, size_t amount, const char *label);
/* Erases the bar. */
void nib_progress_end(struct nib_progress *progress);

#endif
