/* Rank 0 hands out points to its own threads and to other ranks, a few ahead of what they compute, and writes down what
 * comes back. Which thread or rank computes a point decides nothing about its result. */
#include "experiment/run.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "experiment/pack.h"
#include "experiment/pool.h"
#include "experiment/team.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long to wait for a thread before looking after other ranks again, in microseconds. */
enum { ALONE = 200000, TOGETHER = 300 };

struct member {
    bool ready;
    size_t threads, pending;
};

struct run {
    const struct nib_run_request *request;
    const struct nib_experiment *experiment;
    struct nib_run_result *result;
    struct nib_error *error;
    enum nib_status status; /* the first failure; after it nothing new is handed out */
    struct nib_pool *pool;
    size_t threads;
    struct member *members; /* by rank */
    size_t next;            /* point to look at next */
    size_t total, done;     /* of this shard */
};

static enum nib_status result_new(size_t points, struct nib_run_result *out, struct nib_error *error) {
    struct nib_run_result result = {.points = points};
    result.bytes = nib_alloc(points, sizeof *result.bytes, "results", error);
    result.size = nib_alloc(points, sizeof *result.size, "results", error);
    *out = result;
    return result.bytes == NULL || result.size == NULL ? NIB_ENOMEM : NIB_OK;
}

void nib_run_result_free(struct nib_run_result *result, bool remove_journal) {
    for (size_t i = 0; result->bytes != NULL && i < result->points; i++) free(result->bytes[i]);
    free(result->bytes);
    free(result->size);
    nib_journal_close(result->journal, remove_journal);
    *result = (struct nib_run_result){0};
}

/* What a journal gives back: checked against the experiment, and taken once. */
struct finding {
    const struct nib_experiment *experiment;
    struct nib_run_result *result;
    const char *path;
    unsigned shard, shards;
};

static enum nib_status take_found(void *context, size_t point, const uint8_t *bytes, size_t size,
                                  struct nib_error *error) {
    const struct finding *f = context;
    const struct nib_experiment *e = f->experiment;
    struct nib_column columns[NIB_EXPERIMENT_COLUMNS];
    size_t rows;
    for (size_t i = 0; i < e->kept; i++) columns[i] = e->job.columns[e->keep[i]];
    if (!nib_pack_rows(bytes, size, columns, e->kept, &rows) || point % f->shards != f->shard - 1)
        return nib_fail_at(error, NIB_EINCONSISTENT, f->path, 0, "the result of point %zu does not fit this experiment",
                           point);
    if (f->result->bytes[point] != NULL)
        return nib_fail_at(error, NIB_EINCONSISTENT, f->path, 0, "point %zu is there twice", point);
    uint8_t *copy = nib_alloc_raw(size, 1, "a result", error);
    if (copy == NULL) return NIB_ENOMEM;
    memcpy(copy, bytes, size);
    f->result->bytes[point] = copy;
    f->result->size[point] = size;
    f->result->resumed++;
    return NIB_OK;
}

/* The next point that is nobody's yet; false when there is none. */
static bool next_point(struct run *run, size_t *out) {
    const struct nib_run_request *r = run->request;
    for (; run->next < run->experiment->points; run->next += r->shards) {
        if (run->result->bytes[run->next] != NULL) continue;
        *out = run->next;
        run->next += r->shards;
        return true;
    }
    return false;
}

static void fail(struct run *run, enum nib_status status, const struct nib_error *error) {
    if (run->status != NIB_OK) return;
    run->status = status;
    if (run->error != NULL && error != NULL) *run->error = *error;
}

static void fail_point(struct run *run, size_t point, enum nib_status status, struct nib_error *error) {
    nib_experiment_blame(run->experiment, point, error);
    fail(run, status, error);
}

static void store(struct run *run, size_t point, uint8_t *bytes, size_t size) {
    struct nib_error error = {0};
    enum nib_status status = NIB_OK;
    if (run->result->journal != NULL) status = nib_journal_append(run->result->journal, point, bytes, size, &error);
    if (status != NIB_OK || run->result->bytes[point] != NULL) {
        free(bytes);
        if (status != NIB_OK) fail(run, status, &error);
        return;
    }
    run->result->bytes[point] = bytes;
    run->result->size[point] = size;
    run->done++;
    if (run->request->progress == NULL) return;
    char name[300];
    nib_experiment_name(run->experiment, point, name, sizeof name);
    run->request->progress(run->request->context, run->done, run->total, name);
}

/* How many points a member may have at a time: ahead of its threads while many are left, so that none waits for the
 * next; no more than its threads near the end, so that none waits for another's queue. */
static size_t window(const struct run *run, size_t threads) {
    size_t left = run->total - run->done, ranks = (size_t)run->request->ranks;
    return left > 16 * threads * ranks ? 8 * threads : left > 4 * threads * ranks ? 2 * threads : threads;
}

static void hand_out(struct run *run) {
    struct nib_error error = {0};
    size_t point;
    bool more = true;
    while (more && run->status == NIB_OK) { /* one each in turn */
        more = false;
        for (int rank = 0; rank < run->request->ranks && run->status == NIB_OK; rank++) {
            struct member *member = &run->members[rank];
            if (!member->ready || member->pending >= window(run, member->threads) || !next_point(run, &point)) continue;
            struct nib_message message = {.kind = NIB_MESSAGE_POINT, .rank = rank, .point = point};
            enum nib_status status =
                rank == 0 ? nib_pool_push(run->pool, point, &error) : nib_team_send(&message, &error);
            if (status == NIB_OK)
                member->pending++;
            else
                fail(run, status, &error);
            more = true;
        }
    }
}

static void take_own(struct run *run, long microseconds) {
    struct nib_done done;
    while (nib_pool_pop(run->pool, microseconds, &done)) {
        run->members[0].pending--;
        if (done.status == NIB_OK)
            store(run, done.point, done.bytes, done.size);
        else
            fail_point(run, done.point, done.status, &done.error);
        microseconds = 0;
    }
}

static void welcome(struct run *run, const struct nib_message *m) {
    struct nib_error error = {0};
    struct member *member = &run->members[m->rank];
    if (m->size != sizeof run->experiment->identity || memcmp(m->bytes, run->experiment->identity, m->size) != 0) {
        enum nib_status status = nib_fail(&error, NIB_EINCONSISTENT,
                                          "rank %d sees another experiment: its files or formats differ from rank 0's", m->rank);
        fail(run, status, &error);
        return;
    }
    member->ready = true;
    member->threads = m->point;
}

static void take_messages(struct run *run) {
    struct nib_error error = {0};
    struct nib_message m;
    bool got = true;
    while (got && run->request->ranks > 1) {
        enum nib_status status = nib_team_receive(&m, &got, &error);
        if (status != NIB_OK) {
            fail(run, status, &error);
            return;
        }
        if (!got) return;
        if (m.kind == NIB_MESSAGE_RESULT) {
            run->members[m.rank].pending--;
            store(run, m.point, m.bytes, m.size);
            continue;
        }
        if (m.kind == NIB_MESSAGE_HELLO) welcome(run, &m);
        if (m.kind == NIB_MESSAGE_FAILED && m.size == sizeof error) {
            memcpy(&error, m.bytes, sizeof error);
            run->members[m.rank].pending--;
            fail_point(run, m.point, error.status, &error);
        }
        free(m.bytes);
    }
}

static size_t all_pending(const struct run *run) {
    size_t pending = 0;
    for (int i = 0; i < run->request->ranks; i++) pending += run->members[i].pending;
    return pending;
}

void nib_run_dismiss(int ranks) {
    for (int rank = 1; rank < ranks; rank++) {
        struct nib_error error;
        struct nib_message stop = {.kind = NIB_MESSAGE_STOP, .rank = rank};
        if (nib_team_send(&stop, &error) != NIB_OK) continue; /* MPI ends a job whose messages fail */
    }
}

static void lead(struct run *run) {
    bool alone = run->request->ranks == 1;
    run->members[0].ready = true;
    run->members[0].threads = run->threads;
    if (run->request->progress != NULL) run->request->progress(run->request->context, run->done, run->total, "");
    while (run->status == NIB_OK ? run->done < run->total : all_pending(run) > 0) {
        hand_out(run);
        take_own(run, alone ? ALONE : TOGETHER);
        take_messages(run);
    }
}

static enum nib_status answer(const struct nib_done *done, struct nib_error *error) {
    struct nib_message message = {
        .kind = NIB_MESSAGE_RESULT, .point = done->point, .bytes = done->bytes, .size = done->size};
    uint8_t text[sizeof done->error];
    if (done->status != NIB_OK) {
        memcpy(text, &done->error, sizeof text);
        message =
            (struct nib_message){.kind = NIB_MESSAGE_FAILED, .point = done->point, .bytes = text, .size = sizeof text};
    }
    enum nib_status status = nib_team_send(&message, error);
    free(done->bytes);
    return status;
}

/* A rank other than 0. */
static enum nib_status follow(struct run *run, struct nib_error *error) {
    uint8_t identity[sizeof run->experiment->identity];
    memcpy(identity, run->experiment->identity, sizeof identity);
    struct nib_message hello = {
        .kind = NIB_MESSAGE_HELLO, .point = run->threads, .bytes = identity, .size = sizeof identity};
    enum nib_status status = nib_team_send(&hello, error);
    bool stop = false;
    while (status == NIB_OK && !stop) {
        struct nib_message m = {.kind = NIB_MESSAGE_STOP};
        struct nib_done done;
        bool got = true;
        while (status == NIB_OK && got && !stop) {
            status = nib_team_receive(&m, &got, error);
            if (status != NIB_OK || !got) break;
            if (m.kind == NIB_MESSAGE_POINT) status = nib_pool_push(run->pool, m.point, error);
            stop = m.kind == NIB_MESSAGE_STOP;
            free(m.bytes);
        }
        long wait = TOGETHER;
        while (status == NIB_OK && !stop && nib_pool_pop(run->pool, wait, &done)) {
            status = answer(&done, error);
            wait = 0;
        }
    }
    return status;
}

static enum nib_status open_journal(struct run *run, struct nib_error *error) {
    const struct nib_run_request *r = run->request;
    struct finding finding = {run->experiment, run->result, r->journal, r->shard, r->shards};
    struct nib_journal_owner owner = {run->experiment->identity, run->experiment->points, r->shard, r->shards};
    if (r->journal == NULL) return NIB_OK;
    return nib_journal_open(r->journal, &owner, r->mode, take_found, &finding, &run->result->journal, error);
}

enum nib_status nib_run(const struct nib_run_request *request, struct nib_run_result *out, struct nib_error *error) {
    const struct nib_experiment *e = request->experiment;
    struct nib_run_result result = {0};
    struct run run = {
        .request = request, .experiment = e, .result = &result, .error = error, .next = request->shard - 1};
    size_t points = e->points, ranks = (size_t)request->ranks;
    run.total = (points + request->shards - request->shard) / request->shards;
    /* More threads than points: the rest serve inside each point. */
    size_t threads = (size_t)nib_threads(request->threads), share = (run.total + ranks - 1) / ranks;
    run.threads = threads < share ? threads : share == 0 ? 1 : share;
    enum nib_status status = nib_pool_start(e, (int)run.threads, (int)(threads / run.threads), &run.pool, error);
    if (status == NIB_OK && request->rank > 0) {
        status = follow(&run, error);
    } else if (status == NIB_OK) {
        run.members = nib_alloc(ranks, sizeof *run.members, "ranks", error);
        status = run.members == NULL ? NIB_ENOMEM : result_new(points, &result, error);
        if (status == NIB_OK) status = open_journal(&run, error);
        run.done = result.resumed;
        if (status == NIB_OK) {
            lead(&run);
            status = run.status;
        }
        if (status == NIB_OK && result.journal != NULL) status = nib_journal_sync(result.journal, error);
        free(run.members);
    }
    if (request->rank == 0) nib_run_dismiss(request->ranks);
    nib_pool_stop(run.pool);
    if (status == NIB_OK)
        *out = result;
    else
        nib_run_result_free(&result, false);
    return status;
}

enum nib_status nib_run_merge(const struct nib_experiment *e, const char *const *journals, unsigned shards,
                              struct nib_run_result *out, struct nib_error *error) {
    struct nib_run_result result = {0};
    enum nib_status status = result_new(e->points, &result, error);
    for (unsigned i = 0; status == NIB_OK && i < shards; i++) {
        struct finding finding = {e, &result, journals[i], i + 1, shards};
        struct nib_journal_owner owner = {e->identity, e->points, i + 1, shards};
        size_t wanted = (e->points + shards - (i + 1)) / shards, before = result.resumed;
        status = nib_journal_read(journals[i], &owner, take_found, &finding, error);
        if (status == NIB_OK && result.resumed - before < wanted)
            status = nib_fail_at(error, NIB_EINCONSISTENT, journals[i], 0,
                                 "%zu of its %zu points are missing; run --shard %u/%u again", wanted - (result.resumed - before),
                                 wanted, i + 1, shards);
    }
    if (status == NIB_OK)
        *out = result;
    else
        nib_run_result_free(&result, false);
    return status;
}
