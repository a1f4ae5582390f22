/* A journal keeps finished points until the result file is written: an append-only file of records, each with its
 * length, its number and an XXH3 checksum. A record goes to the operating system at once, so that no kill loses it, and
 * is synced in the background, so that computing does not wait for the disk.
 *
 * On opening, a torn last record (a power cut while it was written) is dropped. Damage before intact records, another
 * experiment, another version of nibble, or a second process on the same journal are errors, and change nothing. */
#ifndef NIB_EXPERIMENT_JOURNAL_H
#define NIB_EXPERIMENT_JOURNAL_H

#include <nibble/status.h>
#include <stddef.h>

struct nib_journal;

/* Called for each finished point found, in the order of the file. A status other than NIB_OK ends the reading. */
typedef enum nib_status nib_journal_found(void *context, size_t point, const uint8_t *bytes, size_t size,
                                          struct nib_error *error);

/* What a journal must belong to. */
struct nib_journal_owner {
    const char *identity; /* nib_experiment.identity */
    size_t points;
    unsigned shard, shards;  /* 1 of 1 for a whole experiment */
};

enum nib_journal_mode {
    NIB_JOURNAL_CONTINUE,
    NIB_JOURNAL_REPAIR, /* damaged records are left out of a new copy */
    NIB_JOURNAL_FRESH   /* whatever is there is forgotten */
};

/* Opens or starts the journal for writing and locks it. */
NIB_CHECK enum nib_status nib_journal_open(const char *path, const struct nib_journal_owner *owner,
                                           enum nib_journal_mode mode, nib_journal_found *found, void *context,
                                           struct nib_journal **out, struct nib_error *error);
/* Appends a finished point. On failure (a full disk) the journal is as before. Not thread-safe. */
NIB_CHECK enum nib_status nib_journal_append(struct nib_journal *journal, size_t point, const uint8_t *bytes,
                                             size_t size, struct nib_error *error);
/* Waits until all that was appended is on disk. */
NIB_CHECK enum nib_status nib_journal_sync(struct nib_journal *journal, struct nib_error *error);
/* Unlocks and closes; `remove` also removes the file. NULL is allowed. */
void nib_journal_close(struct nib_journal *journal, bool remove);
/* Removes the journal of a run that was killed after its result was in place and before the journal was gone; that none
 * is there is no error. One that another process holds, that is damaged, or that belongs to something else stays, and
 * the error says why. */
NIB_CHECK enum nib_status nib_journal_discard(const char *path, const struct nib_journal_owner *owner,
                                              struct nib_error *error);

/* Reads a journal without locking or changing it; a torn end is passed over. */
NIB_CHECK enum nib_status nib_journal_read(const char *path, const struct nib_journal_owner *owner,
                                           nib_journal_found *found, void *context, struct nib_error *error);

#endif
