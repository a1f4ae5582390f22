/* A run that was killed between the rename of its result and the end of its journal leaves both. */
#include "experiment/run.h"
#include "experiment/store.h"

#include "nib_files.h"

static const char text[] = "kind: experiment\n"
                           "title: Two grids\n"
                           "job: bias\n"
                           "sweep:\n"
                           "  quantizer: [e2m1-fp32, e1m2-fp32]\n"
                           "set: {dist: gaussian, count: 1024, seed: 1}\n"
                           "keep: [sqnr_db, count]\n";

struct state {
    struct nib_experiment *experiment;
    struct nib_journal_owner owner;
    char result[512], journal[512];
};

static struct nib_experiment *parse(const char *count) {
    struct nib_experiment *experiment = NULL;
    struct nib_error error;
    enum nib_status status = nib_experiment_parse(text, "two", "", &count, 1, "", &experiment, &error);
    NIB_CHECKF(status == NIB_OK, "%s", status == NIB_OK ? "" : error.text);
    return experiment;
}

static struct nib_journal_owner owner_of(const struct nib_experiment *experiment) {
    return (struct nib_journal_owner){experiment->identity, experiment->points, 1, 1};
}

static enum nib_status store(const struct state *state, const struct nib_run_result *result, struct nib_error *error) {
    struct nib_table *points = NULL, *digests = NULL;
    struct nib_provenance *provenance = NULL;
    struct nib_result *file = NULL;
    enum nib_status status = nib_result_open(state->result, "two", &file, error);
    if (status == NIB_OK) status = nib_run_table(state->experiment, result, &points, error);
    if (status == NIB_OK) status = nib_result_digests(state->experiment, points, &digests, error);
    if (status == NIB_OK) status = nib_experiment_store(state->experiment, points, digests, file, error);
    if (status == NIB_OK) status = nib_provenance_new(&provenance, error);
    if (status == NIB_OK) status = nib_result_commit(file, provenance, error);
    if (provenance != NULL) nib_provenance_free(provenance);
    nib_table_free(digests);
    nib_table_free(points);
    return status;
}

/* A run into `name`, up to the kill: the result is in place, the journal unlocked and not yet removed. */
static void run_killed_after_the_rename(const char *name, struct state *state) {
    struct nib_error error;
    struct nib_run_result result = {0};
    char journal[64];
    snprintf(journal, sizeof journal, "%s.journal", name);
    strcpy(state->result, nib_temporary(name));
    strcpy(state->journal, nib_temporary(journal));
    state->experiment = parse("count=1024");
    state->owner = owner_of(state->experiment);
    struct nib_run_request request = {.experiment = state->experiment, .journal = state->journal, .shard = 1, .shards = 1,
                                      .mode = NIB_JOURNAL_CONTINUE, .threads = 1, .ranks = 1};
    NIB_OK_OR_FAIL(nib_run(&request, &result, &error), error);
    NIB_OK_OR_FAIL(store(state, &result, &error), error);
    nib_run_result_free(&result, false);
    CU_ASSERT(access(state->result, F_OK) == 0 && access(state->journal, F_OK) == 0);
}

static size_t read_all(const char *path, uint8_t *bytes, size_t room) {
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) return 0;
    size_t size = fread(bytes, 1, room, stream);
    fclose(stream);
    return size;
}

static void the_journal_goes_and_the_result_stays_as_it_was(void) {
    enum { ROOM = 1 << 20 };
    struct state state;
    struct nib_error error;
    struct nib_stored_experiment before, after;
    uint8_t *bytes = malloc(ROOM), *now = malloc(ROOM);
    run_killed_after_the_rename("both.h5", &state);
    size_t size = read_all(state.result, bytes, ROOM);
    NIB_OK_OR_FAIL(nib_experiment_read(state.result, &before, &error), error);
    CU_ASSERT(strcmp(before.identity, state.experiment->identity) == 0);
    NIB_OK_OR_FAIL(nib_journal_discard(state.journal, &state.owner, &error), error);
    CU_ASSERT(access(state.journal, F_OK) != 0);
    CU_ASSERT(size > 0 && read_all(state.result, now, ROOM) == size && memcmp(bytes, now, size) == 0);
    NIB_OK_OR_FAIL(nib_experiment_read(state.result, &after, &error), error);
    size_t all = nib_table_rows(before.digests) - 1;
    CU_ASSERT(nib_table_rows(after.digests) == all + 1 && strcmp(nib_table_text(after.digests, all, 0), "all") == 0);
    CU_ASSERT(strcmp(nib_table_text(before.digests, all, 1), nib_table_text(after.digests, all, 1)) == 0);
    NIB_OK_OR_FAIL(nib_journal_discard(state.journal, &state.owner, &error), error); /* once more: nothing is there */
    nib_stored_experiment_free(&before);
    nib_stored_experiment_free(&after);
    nib_experiment_close(state.experiment);
    free(bytes);
    free(now);
}

/* A stale journal beside the result of something else holds points that nobody has stored. */
static void a_journal_of_another_experiment_stays(void) {
    uint8_t before[8192], after[8192];
    struct state state;
    struct nib_error error;
    run_killed_after_the_rename("other.h5", &state);
    size_t size = read_all(state.journal, before, sizeof before);
    struct nib_experiment *other = parse("count=2048");
    struct nib_journal_owner owner = owner_of(other), part = state.owner;
    nib_expect_error(nib_journal_discard(state.journal, &owner, &error), NIB_EINCONSISTENT, &error, "other.h5.journal",
                     "another run", "another experiment");
    part.shards = 2;
    nib_expect_error(nib_journal_discard(state.journal, &part, &error), NIB_EINCONSISTENT, &error, "other.h5.journal",
                     "another run", "a part");
    CU_ASSERT(size > 0 && read_all(state.journal, after, sizeof after) == size && memcmp(before, after, size) == 0);
    nib_experiment_close(other);
    nib_experiment_close(state.experiment);
}

static enum nib_status pass(void *context, size_t point, const uint8_t *bytes, size_t size, struct nib_error *error) {
    (void)context, (void)point, (void)bytes, (void)size, (void)error;
    return NIB_OK;
}

static void what_is_in_use_or_is_no_journal_stays(void) {
    struct state state;
    struct nib_error error;
    struct nib_journal *journal;
    run_killed_after_the_rename("busy.h5", &state);
    NIB_OK_OR_FAIL(nib_journal_open(state.journal, &state.owner, NIB_JOURNAL_CONTINUE, pass, NULL, &journal, &error), error);
    nib_expect_error(nib_journal_discard(state.journal, &state.owner, &error), NIB_EIO, &error, "busy.h5.journal",
                     "another process", "in use");
    CU_ASSERT(access(state.journal, F_OK) == 0);
    nib_journal_close(journal, false);
    nib_write("busy.h5.journal", "dear diary\n", 11);
    nib_expect_error(nib_journal_discard(state.journal, &state.owner, &error), NIB_ESYNTAX, &error, "busy.h5.journal",
                     "not a journal", "a diary");
    CU_ASSERT(access(state.journal, F_OK) == 0);
    nib_experiment_close(state.experiment);
}

static void nothing_is_left_behind(void) { CU_ASSERT(nib_remove_folder() == 5); }

NIB_TEST_MAIN("experiment leftover",
              {"the journal goes and the result stays as it was", the_journal_goes_and_the_result_stays_as_it_was},
              {"a journal of another experiment stays", a_journal_of_another_experiment_stays},
              {"what is in use or is no journal stays", what_is_in_use_or_is_no_journal_stays},
              {"nothing is left behind", nothing_is_left_behind})
