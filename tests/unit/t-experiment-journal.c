/* Journals: every cut and every flipped byte. */
#include "experiment/journal.h"

#include "nib_files.h"

enum { POINTS = 5 };
static const struct nib_journal_owner owner = {"0123456789abcdef0123456789abcdef", POINTS, 1, 1};

/* The result of point i: i + 1 letters. */
static size_t payload(size_t point, uint8_t out[POINTS]) {
    memset(out, 'a' + (int)point, point + 1);
    return point + 1;
}

/* What was found: how often each point, all with the right contents. */
struct seen {
    unsigned times[POINTS];
    unsigned total;
    bool wrong;
};

static enum nib_status find(void *context, size_t point, const uint8_t *bytes, size_t size, struct nib_error *error) {
    struct seen *seen = context;
    uint8_t expected[POINTS];
    (void)error;
    if (payload(point, expected) != size || memcmp(bytes, expected, size) != 0) seen->wrong = true;
    seen->times[point]++;
    seen->total++;
    return NIB_OK;
}

static enum nib_status open(const char *path, enum nib_journal_mode mode, struct seen *seen, struct nib_journal **out,
                            struct nib_error *error) {
    *seen = (struct seen){.total = 0};
    *out = NULL;
    return nib_journal_open(path, &owner, mode, find, seen, out, error);
}

static void append(struct nib_journal *journal, size_t point) {
    struct nib_error error;
    uint8_t bytes[POINTS];
    size_t size = payload(point, bytes);
    NIB_CHECKF(nib_journal_append(journal, point, bytes, size, &error) == NIB_OK, "append: %s", error.text);
}

/* A journal of all points, and its bytes. */
static size_t make(const char *path, uint8_t *bytes, size_t room) {
    struct nib_journal *journal;
    struct nib_error error;
    struct seen seen;
    remove(path);
    NIB_CHECKF(open(path, NIB_JOURNAL_CONTINUE, &seen, &journal, &error) == NIB_OK, "%s", error.text);
    for (size_t i = 0; i < POINTS; i++) append(journal, i);
    CU_ASSERT(nib_journal_sync(journal, &error) == NIB_OK);
    nib_journal_close(journal, false);
    FILE *stream = fopen(path, "rb");
    size_t size = fread(bytes, 1, room, stream);
    fclose(stream);
    return size;
}

static void check_points(const struct seen *seen, const char *where, size_t at) {
    NIB_CHECKF(!seen->wrong, "%s %zu: a result with other contents", where, at);
    for (size_t i = 0; i < POINTS; i++) NIB_CHECKF(seen->times[i] <= 1, "%s %zu: point %zu twice", where, at, i);
}

static void a_journal_gives_back_what_was_appended(void) {
    uint8_t bytes[4096];
    struct nib_journal *journal;
    struct nib_error error;
    struct seen seen;
    char path[512];
    strcpy(path, nib_temporary("journal"));
    make(path, bytes, sizeof bytes);
    CU_ASSERT(open(path, NIB_JOURNAL_CONTINUE, &seen, &journal, &error) == NIB_OK);
    CU_ASSERT(seen.total == POINTS);
    check_points(&seen, "whole", 0);
    nib_journal_close(journal, true);
    CU_ASSERT(access(path, F_OK) != 0);
}

/* A write that was cut at any byte loses the record that it cut, and no other; the journal goes on from there. */
static void a_torn_end_loses_one_record_at_most(void) {
    uint8_t bytes[4096];
    struct nib_journal *journal;
    struct nib_error error;
    struct seen seen;
    char path[512];
    strcpy(path, nib_temporary("torn"));
    size_t size = make(path, bytes, sizeof bytes), before = 0;
    for (size_t cut = 0; cut <= size; cut++) {
        nib_write("torn", bytes, cut);
        enum nib_status status = open(path, NIB_JOURNAL_CONTINUE, &seen, &journal, &error);
        NIB_CHECKF(status == NIB_OK, "cut at %zu: %s", cut, status == NIB_OK ? "" : error.text);
        if (status != NIB_OK) continue;
        check_points(&seen, "cut at", cut);
        NIB_CHECKF(seen.total == before || seen.total == before + 1, "cut at %zu: %u points after %zu", cut, seen.total, before);
        before = seen.total;
        for (size_t i = seen.total; i < POINTS; i++) append(journal, i);
        nib_journal_close(journal, false);
        CU_ASSERT(open(path, NIB_JOURNAL_CONTINUE, &seen, &journal, &error) == NIB_OK);
        NIB_CHECKF(seen.total == POINTS, "cut at %zu: %u points after going on", cut, seen.total);
        check_points(&seen, "after going on from", cut);
        nib_journal_close(journal, false);
    }
    CU_ASSERT(before == POINTS);
}

/* A flipped bit is never taken for a result: it is an error, or the last record is computed again. */
static void a_flipped_bit_is_noticed(void) {
    uint8_t bytes[4096];
    struct nib_journal *journal;
    struct nib_error error;
    struct seen seen;
    char path[512];
    strcpy(path, nib_temporary("flipped"));
    size_t size = make(path, bytes, sizeof bytes), last = size - (24 + 8 + POINTS);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        nib_write("flipped", bytes, size);
        enum nib_status status = open(path, NIB_JOURNAL_CONTINUE, &seen, &journal, &error);
        check_points(&seen, "bit", bit);
        if (status == NIB_OK) {
            NIB_CHECKF(bit / 8 >= last && seen.total == POINTS - 1, "bit %zu: %u points, no error", bit, seen.total);
            nib_journal_close(journal, false);
        } else {
            NIB_CHECKF(status == NIB_EINCONSISTENT || status == NIB_ESYNTAX, "bit %zu: %s", bit, nib_status_name(status));
        }
        nib_write("flipped", bytes, size);
        status = open(path, NIB_JOURNAL_REPAIR, &seen, &journal, &error);
        if (status == NIB_OK) { /* all but the record that was hit */
            check_points(&seen, "repaired bit", bit);
            NIB_CHECKF(seen.total == POINTS - 1, "repaired bit %zu: %u points", bit, seen.total);
            nib_journal_close(journal, false);
            CU_ASSERT(open(path, NIB_JOURNAL_CONTINUE, &seen, &journal, &error) == NIB_OK);
            NIB_CHECKF(seen.total == POINTS - 1, "after repair of bit %zu: %u points", bit, seen.total);
            nib_journal_close(journal, false);
        }
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void only_one_process_writes(void) {
    uint8_t bytes[4096];
    struct nib_journal *first, *second;
    struct nib_error error;
    struct seen seen;
    char path[512];
    strcpy(path, nib_temporary("locked"));
    make(path, bytes, sizeof bytes);
    CU_ASSERT(open(path, NIB_JOURNAL_CONTINUE, &seen, &first, &error) == NIB_OK);
    nib_expect_error(open(path, NIB_JOURNAL_FRESH, &seen, &second, &error), NIB_EIO, &error, "locked", "another process", "second");
    nib_journal_close(first, false);
    CU_ASSERT(open(path, NIB_JOURNAL_CONTINUE, &seen, &second, &error) == NIB_OK);
    CU_ASSERT(seen.total == POINTS);
    nib_journal_close(second, false);
}

static void a_journal_of_something_else_is_left_alone(void) {
    uint8_t bytes[4096];
    struct nib_journal *journal = NULL;
    struct nib_error error;
    struct seen seen = {.total = 0};
    char path[512];
    strcpy(path, nib_temporary("other"));
    make(path, bytes, sizeof bytes);
    const struct nib_journal_owner others[] = {{"fedcba9876543210fedcba9876543210", POINTS, 1, 1},
                                               {owner.identity, POINTS + 1, 1, 1},
                                               {owner.identity, POINTS, 1, 2}};
    for (size_t i = 0; i < 3; i++) {
        enum nib_status status = nib_journal_open(path, &others[i], NIB_JOURNAL_CONTINUE, find, &seen, &journal, &error);
        nib_expect_error(status, NIB_EINCONSISTENT, &error, "other", "another run", "owner");
    }
    nib_write("text", "hello, world\n", 13);
    enum nib_status status = nib_journal_open(nib_temporary("text"), &owner, NIB_JOURNAL_CONTINUE, find, &seen, &journal, &error);
    nib_expect_error(status, NIB_ESYNTAX, &error, "text", "not a journal", "a text");
    CU_ASSERT(seen.total == 0);
}

static void nothing_is_left_behind(void) { CU_ASSERT(nib_remove_folder() > 0); }

NIB_TEST_MAIN("experiment journal",
              {"a journal gives back what was appended", a_journal_gives_back_what_was_appended},
              {"a torn end loses one record at most", a_torn_end_loses_one_record_at_most},
              {"a flipped bit is noticed", a_flipped_bit_is_noticed},
              {"only one process writes", only_one_process_writes},
              {"a journal of something else is left alone", a_journal_of_something_else_is_left_alone},
              {"nothing is left behind", nothing_is_left_behind})
