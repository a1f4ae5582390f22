#include "experiment/journal.h"

#include "base/error.h"
#include "base/memory.h"
#include "experiment/journal_record.h"
#include <errno.h>
#include <fcntl.h>
#include <nibble/version.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct nib_journal {
    char *path;
    int descriptor;
    uint64_t records; /* written so far */
    off_t end;        /* of the last whole record */
    bool failed;
    /* The thread that syncs. */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t wanted, synced; /* records */
    int sync_error;          /* errno of a failed sync; it stays */
    bool stop;
};

static void *sync_loop(void *context) {
    struct nib_journal *journal = context;
    pthread_mutex_lock(&journal->lock);
    while (true) {
        while (!journal->stop && journal->synced >= journal->wanted)
            pthread_cond_wait(&journal->changed, &journal->lock);
        if (journal->synced >= journal->wanted) break;
        uint64_t upto = journal->wanted;
        pthread_mutex_unlock(&journal->lock);
        int failed = fdatasync(journal->descriptor) != 0 ? errno : 0;
        pthread_mutex_lock(&journal->lock);
        if (failed != 0) journal->sync_error = failed;
        journal->synced = upto;
        pthread_cond_broadcast(&journal->changed);
    }
    pthread_mutex_unlock(&journal->lock);
    return NULL;
}

/* What is said on the first record; compared letter by letter. */
static void describe(const struct nib_journal_owner *owner, char out[400]) {
    snprintf(out, 400, "nibble journal\nversion %s (%s)\nexperiment %s\npoints %zu\nshard %u/%u\n", nib_version(),
             nib_commit(), owner->identity, owner->points, owner->shard, owner->shards);
}

/* Line `number` of a text, without its end. */
static const char *line_of(const char *text, int number, int *length) {
    while (number-- > 0 && *text != '\0') {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    *length = (int)strcspn(text, "\n");
    return text;
}

static enum nib_status check_owner(const char *path, const struct nib_record *first, const struct nib_journal_owner *owner,
                                   struct nib_error *error) {
    char wanted[400], found[400];
    describe(owner, wanted);
    snprintf(found, sizeof found, "%.*s", (int)first->length, (const char *)first->payload);
    for (int line = 0; line < 5; line++) {
        int own_length, length;
        const char *own = line_of(wanted, line, &own_length), *other = line_of(found, line, &length);
        if (own_length == length && strncmp(own, other, (size_t)length) == 0) continue;
        if (line == 0) return nib_fail_at(error, NIB_ESYNTAX, path, 0, "is not a journal of nibble");
        return nib_fail_at(error, NIB_EINCONSISTENT, path, 0,
                           "holds finished points of another run (%.*s, here %.*s); finish that one as it was started, move "
                           "the journal away, or choose another result file",
                           length, other, own_length, own);
    }
    return NIB_OK;
}

/* The whole file; the caller frees it. */
static enum nib_status read_whole(const char *path, int descriptor, uint8_t **out, size_t *size, struct nib_error *error) {
    struct stat about;
    if (fstat(descriptor, &about) != 0) return nib_fail_at(error, NIB_EIO, path, 0, "cannot read: %s", strerror(errno));
    if (!S_ISREG(about.st_mode)) return nib_fail_at(error, NIB_EIO, path, 0, "is not a regular file");
    uint8_t *bytes = nib_alloc_raw((size_t)about.st_size, 1, path, error);
    if (bytes == NULL) return NIB_ENOMEM;
    size_t at = 0;
    while (at < (size_t)about.st_size) {
        ssize_t got = pread(descriptor, bytes + at, (size_t)about.st_size - at, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            int why = errno;
            free(bytes);
            return nib_fail_at(error, NIB_EIO, path, 0, "cannot read: %s", strerror(why));
        }
        if (got == 0) break;
        at += (size_t)got;
    }
    *out = bytes;
    *size = at;
    return NIB_OK;
}

static uint64_t load_point(const uint8_t *payload) {
    uint64_t point = 0;
    for (unsigned i = 0; i < 8; i++) point |= (uint64_t)payload[i] << (8 * i);
    return point;
}

/* What reading found. */
struct scan {
    uint64_t records;
    size_t end;      /* of the last intact record */
    size_t damaged;  /* places where a record should begin and none does, before others */
};

static enum nib_status scan(const char *path, const uint8_t *bytes, size_t size, const struct nib_journal_owner *owner,
                            bool repair, nib_journal_found *found, void *context, struct scan *out,
                            struct nib_error *error) {
    struct scan s = {0};
    struct nib_record record;
    size_t at = 0;
    enum nib_status status = NIB_OK;
    while (status == NIB_OK && at < size) {
        bool good = nib_record_at(bytes, size, at, &record);
        if (good && (record.number == s.records || repair)) {
            if (record.number == 0)
                status = check_owner(path, &record, owner, error);
            else if (record.length < 8 || load_point(record.payload) >= owner->points)
                status = nib_fail_at(error, NIB_EINCONSISTENT, path, 0, "record %llu is of no point of this experiment",
                                     (unsigned long long)record.number);
            else
                status = found(context, (size_t)load_point(record.payload), record.payload + 8, record.length - 8, error);
            s.records = record.number + 1;
            at = s.end = at + NIB_RECORD_HEAD + record.length;
            continue;
        }
        size_t next = good ? at : nib_record_next(bytes, size, at);
        if (next == size && (at > 0 || memcmp(bytes, "NJR1", size < 4 ? size : 4) == 0)) break; /* a torn end */
        if (next == size) return nib_fail_at(error, NIB_ESYNTAX, path, 0, "is not a journal of nibble");
        if (!repair || at == 0)
            return nib_fail_at(error, NIB_EINCONSISTENT, path, 0,
                               "is damaged at byte %zu, before intact records; nothing was changed. --repair goes on without "
                               "the damaged points, which are computed again",
                               at);
        s.damaged++;
        at = next;
    }
    *out = s;
    return status;
}

enum nib_status nib_journal_read(const char *path, const struct nib_journal_owner *owner, nib_journal_found *found,
                                 void *context, struct nib_error *error) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return nib_fail_at(error, NIB_EIO, path, 0, "cannot open: %s", strerror(errno));
    uint8_t *bytes = NULL;
    size_t size = 0;
    struct scan found_here;
    enum nib_status status = read_whole(path, descriptor, &bytes, &size, error);
    close(descriptor);
    if (status == NIB_OK) status = scan(path, bytes, size, owner, false, found, context, &found_here, error);
    free(bytes);
    return status;
}

/* Opens and locks. The name may be removed or replaced while we wait for the lock: then it is opened again. */
static enum nib_status open_locked(const char *path, int *out, struct nib_error *error) {
    for (int turn = 0; turn < 100; turn++) {
        struct stat named, opened;
        int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (descriptor < 0) return nib_fail_at(error, NIB_EIO, path, 0, "cannot open: %s", strerror(errno));
        if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
            int why = errno;
            close(descriptor);
            if (why == EWOULDBLOCK)
                return nib_fail_at(error, NIB_EIO, path, 0, "another process is running this experiment into the same result");
            return nib_fail_at(error, NIB_EIO, path, 0, "cannot be locked: %s", strerror(why));
        }
        if (fstat(descriptor, &opened) == 0 && stat(path, &named) == 0 && opened.st_ino == named.st_ino &&
            opened.st_dev == named.st_dev) {
            *out = descriptor;
            return NIB_OK;
        }
        close(descriptor);
    }
    return nib_fail_at(error, NIB_EIO, path, 0, "keeps changing; another process is running this experiment");
}

static enum nib_status write_at(const char *path, int descriptor, const uint8_t *bytes, size_t size, off_t at,
                                struct nib_error *error) {
    while (size > 0) {
        ssize_t written = pwrite(descriptor, bytes, size, at);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0)
            return nib_fail_at(error, NIB_EIO, path, 0,
                               "cannot write: %s; the points that are finished are safe, and the same command goes on from "
                               "there",
                               written < 0 ? strerror(errno) : "no progress");
        bytes += written;
        at += written;
        size -= (size_t)written;
    }
    return NIB_OK;
}

static enum nib_status append(struct nib_journal *journal, const uint8_t *payload, size_t length, struct nib_error *error) {
    uint8_t *record = nib_alloc_raw(NIB_RECORD_HEAD + length, 1, "a journal record", error);
    if (record == NULL) return NIB_ENOMEM;
    nib_record_head(journal->records, payload, length, record);
    memcpy(record + NIB_RECORD_HEAD, payload, length);
    enum nib_status status =
        write_at(journal->path, journal->descriptor, record, NIB_RECORD_HEAD + length, journal->end, error);
    free(record);
    if (status != NIB_OK) {
        if (ftruncate(journal->descriptor, journal->end) != 0) journal->failed = true; /* a torn end, dropped next time */
        return status;
    }
    journal->end += NIB_RECORD_HEAD + (off_t)length;
    journal->records++;
    pthread_mutex_lock(&journal->lock);
    journal->wanted = journal->records;
    pthread_cond_broadcast(&journal->changed);
    pthread_mutex_unlock(&journal->lock);
    return NIB_OK;
}

enum nib_status nib_journal_append(struct nib_journal *journal, size_t point, const uint8_t *bytes, size_t size,
                                   struct nib_error *error) {
    pthread_mutex_lock(&journal->lock);
    int failed = journal->sync_error;
    pthread_mutex_unlock(&journal->lock);
    if (failed != 0 || journal->failed)
        return nib_fail_at(error, NIB_EIO, journal->path, 0, "cannot write: %s", strerror(failed == 0 ? EIO : failed));
    if (size > NIB_RECORD_LONGEST - 8) return nib_fail(error, NIB_EINVAL, "the result of a point is larger than 1 GiB");
    uint8_t *payload = nib_alloc_raw(size + 8, 1, "a journal record", error);
    if (payload == NULL) return NIB_ENOMEM;
    for (unsigned i = 0; i < 8; i++) payload[i] = (uint8_t)((uint64_t)point >> (8 * i));
    memcpy(payload + 8, bytes, size);
    enum nib_status status = append(journal, payload, size + 8, error);
    free(payload);
    return status;
}

enum nib_status nib_journal_sync(struct nib_journal *journal, struct nib_error *error) {
    pthread_mutex_lock(&journal->lock);
    while (journal->started && journal->synced < journal->wanted)
        pthread_cond_wait(&journal->changed, &journal->lock);
    int failed = journal->sync_error;
    pthread_mutex_unlock(&journal->lock);
    if (failed == 0) return NIB_OK;
    return nib_fail_at(error, NIB_EIO, journal->path, 0, "cannot write: %s", strerror(failed));
}

/* The name of a new file survives a power cut too; not every file system offers it. */
static void sync_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
    int descriptor = folder == NULL ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor >= 0) {
        fsync(descriptor);
        close(descriptor);
    }
    free(folder);
}

static enum nib_status write_new(struct nib_journal *journal, const struct nib_journal_owner *owner, struct nib_error *error) {
    char text[400];
    describe(owner, text);
    journal->records = 0;
    journal->end = 0;
    return append(journal, (const uint8_t *)text, strlen(text), error);
}

/* Intact records of a damaged journal, written anew in place of it. */
static enum nib_status rewrite(struct nib_journal *journal, const uint8_t *bytes, size_t size,
                               const struct nib_journal_owner *owner, struct nib_error *error) {
    char *part = nib_alloc(strlen(journal->path) + 8, 1, journal->path, error);
    if (part == NULL) return NIB_ENOMEM;
    sprintf(part, "%s.part", journal->path);
    int old = journal->descriptor, new = open(part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    enum nib_status status = NIB_OK;
    if (new < 0 || flock(new, LOCK_EX | LOCK_NB) != 0)
        status = nib_fail_at(error, NIB_EIO, part, 0, "cannot create: %s", strerror(errno));
    if (status == NIB_OK) {
        journal->descriptor = new;
        status = write_new(journal, owner, error);
    }
    struct nib_record record = {0};
    for (size_t at = nib_record_next(bytes, size, 0); status == NIB_OK && at < size;
         at = nib_record_next(bytes, size, at + NIB_RECORD_HEAD + record.length)) {
        nib_record_at(bytes, size, at, &record);
        if (record.number > 0) status = append(journal, record.payload, record.length, error);
    }
    if (status == NIB_OK && (fsync(new) != 0 || rename(part, journal->path) != 0))
        status = nib_fail_at(error, NIB_EIO, journal->path, 0, "cannot be replaced: %s", strerror(errno));
    if (status == NIB_OK) {
        close(old);
        sync_folder(journal->path);
    } else {
        journal->descriptor = old;
        if (new >= 0) close(new);
        unlink(part);
    }
    free(part);
    return status;
}

static enum nib_status start(struct nib_journal *journal, const struct nib_journal_owner *owner,
                             enum nib_journal_mode mode, nib_journal_found *found, void *context, struct nib_error *error) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    struct scan s = {0};
    if (mode == NIB_JOURNAL_FRESH && ftruncate(journal->descriptor, 0) != 0)
        return nib_fail_at(error, NIB_EIO, journal->path, 0, "cannot be emptied: %s", strerror(errno));
    enum nib_status status = read_whole(journal->path, journal->descriptor, &bytes, &size, error);
    if (status == NIB_OK)
        status = scan(journal->path, bytes, size, owner, mode == NIB_JOURNAL_REPAIR, found, context, &s, error);
    if (status == NIB_OK && s.damaged > 0) {
        status = rewrite(journal, bytes, size, owner, error);
    } else if (status == NIB_OK) {
        journal->records = s.records;
        journal->end = (off_t)s.end;
        if (s.end < size && ftruncate(journal->descriptor, journal->end) != 0)
            status = nib_fail_at(error, NIB_EIO, journal->path, 0, "cannot drop a torn record: %s", strerror(errno));
        if (status == NIB_OK && s.records == 0) {
            status = write_new(journal, owner, error);
            if (status == NIB_OK) sync_folder(journal->path);
        }
    }
    free(bytes);
    if (status != NIB_OK) return status;
    journal->wanted = journal->records;
    if (pthread_create(&journal->thread, NULL, sync_loop, journal) != 0)
        return nib_fail(error, NIB_ENOMEM, "cannot start a thread");
    journal->started = true;
    return NIB_OK;
}

enum nib_status nib_journal_open(const char *path, const struct nib_journal_owner *owner, enum nib_journal_mode mode,
                                 nib_journal_found *found, void *context, struct nib_journal **out,
                                 struct nib_error *error) {
    struct nib_journal *journal = nib_alloc(1, sizeof *journal, path, error);
    if (journal == NULL) return NIB_ENOMEM;
    journal->descriptor = -1;
    journal->path = strdup(path);
    pthread_mutex_init(&journal->lock, NULL);
    pthread_cond_init(&journal->changed, NULL);
    enum nib_status status = journal->path == NULL ? nib_fail(error, NIB_ENOMEM, "journal: out of memory") : NIB_OK;
    if (status == NIB_OK) status = open_locked(path, &journal->descriptor, error);
    if (status == NIB_OK) status = start(journal, owner, mode, found, context, error);
    if (status == NIB_OK)
        *out = journal;
    else
        nib_journal_close(journal, false);
    return status;
}

void nib_journal_close(struct nib_journal *journal, bool remove) {
    if (journal == NULL) return;
    if (journal->started) {
        pthread_mutex_lock(&journal->lock);
        journal->stop = true;
        pthread_cond_broadcast(&journal->changed);
        pthread_mutex_unlock(&journal->lock);
        pthread_join(journal->thread, NULL);
    }
    if (remove && journal->path != NULL) unlink(journal->path);
    if (journal->descriptor >= 0) close(journal->descriptor);
    pthread_cond_destroy(&journal->changed);
    pthread_mutex_destroy(&journal->lock);
    free(journal->path);
    free(journal);
}

static enum nib_status pass_over(void *context, size_t point, const uint8_t *bytes, size_t size, struct nib_error *error) {
    (void)context, (void)point, (void)bytes, (void)size, (void)error;
    return NIB_OK;
}

enum nib_status nib_journal_discard(const char *path, const struct nib_journal_owner *owner, struct nib_error *error) {
    struct nib_journal *journal;
    if (access(path, F_OK) != 0) return NIB_OK;
    enum nib_status status = nib_journal_open(path, owner, NIB_JOURNAL_CONTINUE, pass_over, NULL, &journal, error);
    if (status == NIB_OK) nib_journal_close(journal, true);
    return status;
}
