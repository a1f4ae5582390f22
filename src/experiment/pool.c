#include "experiment/pool.h"

#include "base/error.h"
#include "base/memory.h"
#include "experiment/pack.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct link {
    struct link *next;
    struct nib_done done;
};

struct list {
    struct link *first, **end;
};

struct nib_pool {
    const struct nib_experiment *experiment;
    int threads, inner, started;
    pthread_mutex_t lock;
    pthread_cond_t work, finished;
    struct list waiting, done;
    bool stop;
    pthread_t *thread;
};

static void put(struct list *list, struct link *link) {
    link->next = NULL;
    *list->end = link;
    list->end = &link->next;
}

static struct link *take(struct list *list) {
    struct link *link = list->first;
    if (link == NULL) return NULL;
    list->first = link->next;
    if (list->first == NULL) list->end = &list->first;
    return link;
}

static void compute(const struct nib_pool *pool, struct nib_done *done) {
    const struct nib_experiment *e = pool->experiment;
    struct nib_argument arguments[NIB_EXPERIMENT_PARAMETERS];
    struct nib_table *table = NULL;
    nib_experiment_point(e, done->point, arguments);
    done->status = e->job.run(arguments, pool->inner, &table, &done->error);
    if (done->status == NIB_OK)
        done->status = nib_pack(table, e->keep, e->kept, &done->bytes, &done->size, &done->error);
    nib_table_free(table);
}

static void *work_loop(void *context) {
    struct nib_pool *pool = context;
    pthread_mutex_lock(&pool->lock);
    while (!pool->stop) {
        struct link *link = take(&pool->waiting);
        if (link == NULL) {
            pthread_cond_wait(&pool->work, &pool->lock);
            continue;
        }
        pthread_mutex_unlock(&pool->lock);
        compute(pool, &link->done);
        pthread_mutex_lock(&pool->lock);
        put(&pool->done, link);
        pthread_cond_signal(&pool->finished);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

enum nib_status nib_pool_start(const struct nib_experiment *experiment, int threads, int inner, struct nib_pool **out,
                               struct nib_error *error) {
    struct nib_pool *pool = nib_alloc(1, sizeof *pool, "threads", error);
    if (pool == NULL) return NIB_ENOMEM;
    pthread_condattr_t monotonic;
    pool->experiment = experiment;
    pool->threads = threads;
    pool->inner = inner;
    pool->waiting.end = &pool->waiting.first;
    pool->done.end = &pool->done.first;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->finished, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pool->thread = nib_alloc((size_t)threads, sizeof *pool->thread, "threads", error);
    enum nib_status status = pool->thread == NULL ? NIB_ENOMEM : NIB_OK;
    while (status == NIB_OK && pool->started < threads) {
        if (pthread_create(&pool->thread[pool->started], NULL, work_loop, pool) != 0)
            status = nib_fail(error, NIB_ENOMEM, "cannot start %d threads", threads);
        else
            pool->started++;
    }
    if (status == NIB_OK)
        *out = pool;
    else
        nib_pool_stop(pool);
    return status;
}

enum nib_status nib_pool_push(struct nib_pool *pool, size_t point, struct nib_error *error) {
    struct link *link = nib_alloc(1, sizeof *link, "a point", error);
    if (link == NULL) return NIB_ENOMEM;
    link->done.point = point;
    pthread_mutex_lock(&pool->lock);
    put(&pool->waiting, link);
    pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    return NIB_OK;
}

bool nib_pool_pop(struct nib_pool *pool, long microseconds, struct nib_done *out) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += microseconds % 1000000 * 1000;
    until.tv_sec += microseconds / 1000000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&pool->lock);
    int waited = 0;
    while (microseconds > 0 && waited == 0 && pool->done.first == NULL)
        waited = pthread_cond_timedwait(&pool->finished, &pool->lock, &until);
    struct link *link = take(&pool->done);
    pthread_mutex_unlock(&pool->lock);
    if (link == NULL) return false;
    *out = link->done;
    free(link);
    return true;
}

static void free_list(struct list *list) {
    struct link *link;
    while ((link = take(list)) != NULL) {
        free(link->done.bytes);
        free(link);
    }
}

void nib_pool_stop(struct nib_pool *pool) {
    if (pool == NULL) return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->started; i++) pthread_join(pool->thread[i], NULL);
    free_list(&pool->waiting);
    free_list(&pool->done);
    pthread_cond_destroy(&pool->finished);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool->thread);
    free(pool);
}
