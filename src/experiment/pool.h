/* Threads that compute points. They are threads of their own, not a parallel region, so that the thread that talks to
 * other ranks and to the journal stays free, and a job that is alone may use OpenMP inside. */
#ifndef NIB_EXPERIMENT_POOL_H
#define NIB_EXPERIMENT_POOL_H

#include "experiment/experiment.h"

struct nib_pool;

struct nib_done {
    size_t point;
    enum nib_status status;
    struct nib_error error;
    uint8_t *bytes; /* packed result; freed by the receiver */
    size_t size;
};

/* `threads` points at a time, each with `inner` threads. */
NIB_CHECK enum nib_status nib_pool_start(const struct nib_experiment *experiment, int threads, int inner,
                                         struct nib_pool **out, struct nib_error *error);
NIB_CHECK enum nib_status nib_pool_push(struct nib_pool *pool, size_t point, struct nib_error *error);
/* Takes a finished point, waiting up to this many microseconds; false when there is none. */
bool nib_pool_pop(struct nib_pool *pool, long microseconds, struct nib_done *out);
/* Finishes the points that are being computed, drops those that wait, and frees. NULL is allowed. */
void nib_pool_stop(struct nib_pool *pool);

#endif
