/* Running an experiment: from points to a result file. */
#ifndef NIB_EXPERIMENT_RUN_H
#define NIB_EXPERIMENT_RUN_H

#include "experiment/experiment.h"
#include "experiment/journal.h"

struct nib_run_request {
    const struct nib_experiment *experiment;
    const char *journal;     /* where finished points are kept; NULL keeps them in memory only */
    unsigned shard, shards;  /* 1 of 1 for all points; otherwise every `shards`-th point, from `shard` - 1 on */
    enum nib_journal_mode mode;
    int threads;             /* of this rank; 0: OMP_NUM_THREADS or all */
    int rank, ranks;         /* from nib_team_open */
    /* Called on rank 0 with the number of finished points, and what the last one was ("" at the start). */
    void (*progress)(void *context, size_t done, size_t total, const char *point);
    void *context;
};

/* Finished points: packed results by point, NULL where there is none. */
struct nib_run_result {
    size_t points;
    uint8_t **bytes;
    size_t *size;
    size_t resumed; /* that were found in the journal */
    struct nib_journal *journal; /* stays locked until the result is stored */
};

/* On ranks other than 0 `out` stays empty. After a failure all points that finished are in the journal. */
NIB_CHECK enum nib_status nib_run(const struct nib_run_request *request, struct nib_run_result *out,
                                  struct nib_error *error);
/* The journal goes away when its points are stored elsewhere. */
void nib_run_result_free(struct nib_run_result *result, bool remove_journal);

/* Tells the other ranks that there is nothing to do; nib_run does it by itself. */
void nib_run_dismiss(int ranks);

/* Points of all shards from their journals; which points are missing is an error. */
NIB_CHECK enum nib_status nib_run_merge(const struct nib_experiment *experiment, const char *const *journals,
                                        unsigned shards, struct nib_run_result *out, struct nib_error *error);

/* One row per row of every point's result: the point, its axes, the kept measures. */
NIB_CHECK enum nib_status nib_run_table(const struct nib_experiment *experiment, const struct nib_run_result *result,
                                        struct nib_table **out, struct nib_error *error);

#endif
