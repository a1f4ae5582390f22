/* nibble run: experiments. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/number.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/remember.h"
#include "cli/result_file.h"
#include "cli/run_again.h"
#include "cli/signals.h"
#include "experiment/journal.h"
#include "experiment/run.h"
#include "experiment/store.h"
#include "experiment/team.h"
#include "io/json_out.h"

struct arguments {
    struct nib_texts settings;
    const char *shard, *again;
    int64_t merge;
    bool dry_run, fresh, repair;
};

static const struct arguments defaults = {.merge = 0};
static const struct nib_option options[] = {
    NIB_OPT_FLAG(struct arguments, dry_run, "dry-run", 'n', "check every point and list them"),
    NIB_OPT_TEXTS(struct arguments, settings, "set", 's', "PARAMETER=VALUE,...",
                  "replace an axis or a value of the experiment"),
    NIB_OPT_TEXT(struct arguments, shard, "shard", 0, "I/N", "run only part I of N of the points"),
    NIB_OPT_INTEGER(struct arguments, merge, "merge", 0, "N", 1, 1000000, "join the results of --shard 1/N to N/N"),
    NIB_OPT_TEXT(struct arguments, again, "again", 0, "FILE",
                 "run what a result file came from once more, and compare the digests"),
    NIB_OPT_FLAG(struct arguments, fresh, "fresh", 0, "forget finished points and an existing result, and start over"),
    NIB_OPT_FLAG(struct arguments, repair, "repair", 0, "go on from a damaged journal; lost points are computed again"),
    NIB_OPT_END,
};

static const struct nib_example examples[] = {
    {"nibble run experiments/grid-sweep.yaml -o sweep.h5", "run, or go on after an interruption"},
    {"nibble run experiments/grid-sweep.yaml --dry-run", "the points"},
    {"nibble run experiments/grid-sweep.yaml -o sweep.h5 --shard 2/8", "a part, for a job array"},
    {"nibble run experiments/grid-sweep.yaml -o sweep.h5 --merge 8", "the parts together"},
    {"nibble run --again sweep.h5", "does this machine give the same bits?"},
    {NULL, NULL},
};

/* One call, on one rank. */
struct context {
    struct nib_call *call;
    const struct arguments *arguments;
    struct nib_experiment *experiment;
    int rank, ranks;
    unsigned shard, shards;
    char *journal;
    struct nib_stored_experiment stored; /* with --again */
    struct nib_progress progress;
    size_t done;
    bool bar;
};

static enum nib_status parse_shard(const char *text, unsigned *shard, unsigned *shards, struct nib_error *error) {
    const char *slash = strchr(text, '/');
    char first[16] = "";
    int64_t i, n;
    if (slash != NULL && slash - text < 16) memcpy(first, text, (size_t)(slash - text));
    if (slash == NULL || !nib_number_integer(first, 1, 1000000, &i) || !nib_number_integer(slash + 1, 1, 1000000, &n) ||
        i > n)
        return nib_fail(error, NIB_EINVAL, "--shard %s: expected I/N, as in 2/8", text);
    *shard = (unsigned)i;
    *shards = (unsigned)n;
    return NIB_OK;
}

/* Finished points lie beside the result file. */
static char *journal_name(const char *output, unsigned shard, unsigned shards) {
    char *name = malloc(strlen(output) + 64);
    if (name == NULL) return NULL;
    if (shards == 1)
        sprintf(name, "%s.journal", output);
    else
        sprintf(name, "%s.%uof%u.journal", output, shard, shards);
    return name;
}

static enum nib_status check_options(struct context *c, struct nib_error *error) {
    const struct arguments *a = c->arguments;
    const char *output = c->call->common.output;
    c->shard = c->shards = 1;
    if ((c->call->value_count == 1) == (a->again != NULL))
        return nib_fail(error, NIB_EINVAL, "%s", a->again == NULL ? "which experiment? give its FILE, or --again RESULT"
                                                                  : "FILE and --again exclude each other");
    if (a->again != NULL && (a->settings.count > 0 || a->shard != NULL || a->merge > 0))
        return nib_fail(error, NIB_EINVAL, "--again takes no --set, --shard or --merge");
    if (a->merge > 0 && (a->shard != NULL || a->dry_run))
        return nib_fail(error, NIB_EINVAL, "--merge excludes --shard and --dry-run");
    if (output == NULL && (a->fresh || a->repair))
        return nib_fail(error, NIB_EINVAL, "--%s goes with -o FILE.h5, beside which the journal lies",
                        a->fresh ? "fresh" : "repair");
    if (a->fresh && a->repair) return nib_fail(error, NIB_EINVAL, "--fresh and --repair exclude each other");
    enum nib_status status = a->shard == NULL ? NIB_OK : parse_shard(a->shard, &c->shard, &c->shards, error);
    if (status == NIB_OK && (a->shard != NULL || a->merge > 0) && output == NULL && !a->dry_run)
        status = nib_fail(error, NIB_EINVAL, "%s needs -o FILE.h5, beside which the parts lie",
                          a->merge > 0 ? "--merge" : "--shard");
    if (status == NIB_OK && output != NULL) {
        c->journal = journal_name(output, c->shard, c->shards);
        if (c->journal == NULL) status = nib_fail(error, NIB_ENOMEM, "out of memory");
    }
    return status;
}

static enum nib_status open_experiment(struct context *c, struct nib_error *error) {
    const struct arguments *a = c->arguments;
    if (a->again != NULL) return nib_again_open(a->again, &c->stored, &c->experiment, error);
    return nib_experiment_open(c->call->values[0], a->settings.item, a->settings.count, &c->experiment, error);
}

/* What an interruption says: what is kept, and how to go on. */
static void prepare_last_words(const struct context *c, size_t done, size_t total) {
    char line[500];
    if (c->call->common.quiet) return;
    if (c->journal == NULL)
        snprintf(line, sizeof line, "interrupted: %zu of %zu points were finished, and none is kept without -o FILE.h5",
                 done, total);
    else
        snprintf(line, sizeof line, "interrupted: %zu of %zu points are kept in %.300s; the same command%s goes on",
                 done, total, c->journal, c->arguments->fresh ? " without --fresh" : "");
    nib_signals_last_words(line);
}

static void advance(void *context, size_t done, size_t total, const char *point) {
    struct context *c = context;
    prepare_last_words(c, done, total);
    if (!c->bar) {
        c->done = done; /* found in the journal: they took no time */
        nib_progress_start(&c->progress, c->call, "points", total - done);
        c->bar = true;
        return;
    }
    nib_progress_step(&c->progress, done - c->done, point);
    c->done = done;
}

static enum nib_status remember(const struct context *c, struct nib_provenance **out, struct nib_error *error) {
    enum nib_status status = nib_remember_call(c->call, NULL, c->ranks, out, error);
    if (status != NIB_OK) return status;
    if (nib_team_library() != NULL) nib_provenance_add_library(*out, "mpi", nib_team_library());
    return nib_experiment_cite(c->experiment, true, *out, error);
}

/* Whether the result file is there already. Another result in its place is an error. */
static enum nib_status look_for_result(const struct context *c, bool *there, struct nib_error *error) {
    struct nib_stored_experiment stored;
    const char *output = c->call->common.output;
    *there = false;
    if (output == NULL || c->arguments->fresh || access(output, F_OK) != 0) return NIB_OK;
    if (nib_experiment_read(output, &stored, NULL) == NIB_OK) {
        *there = strcmp(stored.identity, c->experiment->identity) == 0;
        nib_stored_experiment_free(&stored);
    }
    if (*there) return NIB_OK;
    return nib_fail_at(error, NIB_EIO, output, 0,
                       "is there already, and is no result of this experiment; move it away, choose another name, or say "
                       "--fresh");
}

static enum nib_status print_json(const struct context *c, const struct nib_table *results,
                                  const struct nib_table *digests, const struct nib_table *comparison,
                                  struct nib_error *error) {
    struct nib_json *json;
    enum nib_status status = nib_output_json(c->call, &json, error);
    if (status != NIB_OK) return status;
    nib_json_text(json, "title", c->experiment->title);
    nib_json_text(json, "job", c->experiment->job.name);
    nib_json_text(json, "identity", c->experiment->identity);
    nib_json_table(json, "points", results);
    nib_json_table(json, "digests", digests);
    if (comparison != NULL) nib_json_table(json, "comparison", comparison);
    nib_json_end(json);
    return NIB_OK;
}

static const char *digest_of_all(const struct nib_table *digests) {
    return nib_table_text(digests, nib_table_rows(digests) - 1, NIB_DIGEST_XXH3);
}

/* Columns without any value, where all of a job's measures were kept because nobody chose. */
static void hide_blanks(const struct nib_experiment *experiment, const struct nib_table *results, bool *hidden) {
    for (size_t i = 0; experiment->kept == experiment->job.column_count && i < nib_table_columns(results); i++) {
        const enum nib_column_type type = nib_table_column(results, i)->type;
        hidden[i] = type != NIB_COLUMN_INTEGER;
        for (size_t row = 0; row < nib_table_rows(results) && hidden[i]; row++)
            hidden[i] = type == NIB_COLUMN_TEXT ? nib_table_text(results, row, i)[0] == '\0'
                                                : isnan(nib_table_real(results, row, i));
    }
}

static enum nib_status print(const struct context *c, const struct nib_table *results, const struct nib_table *digests,
                             const struct nib_table *comparison, struct nib_error *error) {
    enum { SHORT = 50, BROAD = 20 };
    struct nib_call *call = c->call;
    if (call->common.json) return print_json(c, results, digests, comparison, error);
    const struct nib_table *table = comparison != NULL ? comparison : results;
    if (call->common.tsv) return nib_output_table(call, table, NULL, error);
    size_t rows = nib_table_rows(results);
    if (comparison != NULL || call->common.output == NULL || rows <= SHORT) {
        bool hidden[NIB_EXPERIMENT_COLUMNS + NIB_EXPERIMENT_AXES + 1] = {false};
        if (comparison == NULL) hide_blanks(c->experiment, results, hidden);
        nib_output_aligned(call, table, &(struct nib_layout){.headline = c->experiment->title, .hidden = hidden},
                           stdout);
        putchar('\n');
        size_t columns = 0;
        for (size_t i = 0; i < nib_table_columns(table); i++) columns += !hidden[i];
        if (columns > BROAD && comparison == NULL)
            nib_output_note(call, "%zu columns; `keep: [...]` in the experiment chooses, and `nibble show jobs/%s` lists them",
                            columns, c->experiment->job.name);
    }
    printf("%zu points, digest %s%s%s\n", c->experiment->points, digest_of_all(digests),
           call->common.output == NULL ? "" : ", in ", call->common.output == NULL ? "" : call->common.output);
    return NIB_OK;
}

/* From finished points to the file and the terminal. */
static enum nib_status finish(struct context *c, const struct nib_run_result *result, struct nib_result *file,
                              struct nib_error *error) {
    struct nib_table *results = NULL, *digests = NULL, *comparison = NULL;
    struct nib_provenance *provenance = NULL;
    enum nib_status status = nib_run_table(c->experiment, result, &results, error);
    if (status == NIB_OK) status = nib_result_digests(c->experiment, results, &digests, error);
    if (status == NIB_OK && (file != NULL || c->arguments->again != NULL)) status = remember(c, &provenance, error);
    if (status == NIB_OK && c->arguments->again != NULL) {
        status = nib_again_check_inputs(&c->stored, provenance, c->arguments->again, error);
        if (status == NIB_OK)
            status = nib_again_compare(&c->stored, digests, &comparison, &c->call->check_failed, error);
    }
    if (status == NIB_OK && file != NULL) status = nib_experiment_store(c->experiment, results, digests, file, error);
    status = nib_result_file_end(status, file, provenance, error);
    if (status == NIB_OK) status = print(c, results, digests, comparison, error);
    nib_table_free(comparison);
    nib_table_free(digests);
    nib_table_free(results);
    return status;
}

static enum nib_status compute(struct context *c, struct nib_error *error) {
    struct nib_result *file = NULL;
    struct nib_run_result result = {0};
    struct nib_run_request request = {
        .experiment = c->experiment,
        .journal = c->journal,
        .shard = c->shard,
        .shards = c->shards,
        .mode = c->arguments->fresh    ? NIB_JOURNAL_FRESH
                : c->arguments->repair ? NIB_JOURNAL_REPAIR
                                       : NIB_JOURNAL_CONTINUE,
        .threads = (int)c->call->common.threads,
        .rank = c->rank,
        .ranks = c->ranks,
        .progress = c->rank == 0 ? advance : NULL,
        .context = c,
    };
    enum nib_status status = NIB_OK;
    if (c->rank == 0 && c->shards == 1 && c->call->common.output != NULL)
        status = nib_result_open(c->call->common.output, c->experiment->title, &file, error);
    if (status != NIB_OK) {
        nib_run_dismiss(c->ranks);
        return status;
    }
    status = nib_run(&request, &result, error);
    nib_signals_last_words("");
    if (c->bar) nib_progress_end(&c->progress);
    if (status != NIB_OK || c->rank > 0 || c->shards > 1) nib_result_abandon(file);
    if (status == NIB_OK && c->rank == 0 && result.resumed > 0)
        nib_output_note(c->call, "%zu finished points were found in %s", result.resumed, c->journal);
    if (status == NIB_OK && c->rank == 0 && c->shards > 1)
        nib_output_note(c->call, "part %u of %u is finished, in %s; --merge %u joins the parts", c->shard, c->shards,
                        c->journal, c->shards);
    if (status == NIB_OK && c->rank == 0 && c->shards == 1) status = finish(c, &result, file, error);
    nib_run_result_free(&result, status == NIB_OK && c->shards == 1);
    return status;
}

static enum nib_status merge(struct context *c, struct nib_error *error) {
    unsigned shards = (unsigned)c->arguments->merge;
    struct nib_result *file = NULL;
    struct nib_run_result result = {0};
    char **names = calloc(shards, sizeof *names);
    enum nib_status status = names == NULL ? nib_fail(error, NIB_ENOMEM, "out of memory") : NIB_OK;
    for (unsigned i = 0; status == NIB_OK && i < shards; i++) {
        names[i] = journal_name(c->call->common.output, i + 1, shards);
        if (names[i] == NULL) status = nib_fail(error, NIB_ENOMEM, "out of memory");
    }
    if (status == NIB_OK) status = nib_result_open(c->call->common.output, c->experiment->title, &file, error);
    if (status == NIB_OK) {
        status = nib_run_merge(c->experiment, (const char *const *)names, shards, &result, error);
        if (status == NIB_OK)
            status = finish(c, &result, file, error);
        else
            nib_result_abandon(file);
    }
    for (unsigned i = 0; names != NULL && i < shards; i++) {
        if (status == NIB_OK) unlink(names[i]);
        free(names[i]);
    }
    nib_run_result_free(&result, false);
    free(names);
    return status;
}

static enum nib_status list(const struct context *c, struct nib_error *error) {
    struct nib_table *points = NULL;
    enum nib_status status = nib_experiment_check(c->experiment, true, error);
    if (status == NIB_OK) status = nib_experiment_list(c->experiment, c->shard, c->shards, &points, error);
    if (status == NIB_OK)
        status = nib_output_table(c->call, points, &(struct nib_layout){.headline = c->experiment->title}, error);
    nib_table_free(points);
    return status;
}

static void discard(const struct context *c, const char *journal, unsigned shard, unsigned shards) {
    struct nib_error error;
    struct nib_journal_owner owner = {c->experiment->identity, c->experiment->points, shard, shards};
    if (journal == NULL || nib_journal_discard(journal, &owner, &error) == NIB_OK) return;
    nib_output_note(c->call, "%s stays: %s", journal, error.text);
}

/* The result is there, so its points are needed no more. */
static void discard_journals(const struct context *c) {
    unsigned parts = (unsigned)c->arguments->merge;
    if (c->shards == 1) discard(c, c->journal, 1, 1);
    for (unsigned i = 1; i <= parts; i++) {
        char *name = journal_name(c->call->common.output, i, parts);
        discard(c, name, i, parts);
        free(name);
    }
}

/* Rank 0 decides; the others compute, or learn that there is nothing to do. */
static enum nib_status act(struct context *c, struct nib_error *error) {
    bool there = false;
    bool computes = !c->arguments->dry_run && c->arguments->merge == 0;
    enum nib_status status = NIB_OK;
    if (c->rank > 0) return computes ? compute(c, error) : NIB_OK;
    if (!c->arguments->dry_run) status = look_for_result(c, &there, error);
    if (status == NIB_OK && there) discard_journals(c);
    if (status == NIB_OK && there) nib_output_note(c->call, "%s is finished already", c->call->common.output);
    if (computes && (status != NIB_OK || there)) nib_run_dismiss(c->ranks);
    if (status != NIB_OK || there) return status;
    if (c->arguments->dry_run) return list(c, error);
    if (c->call->common.output == NULL && c->arguments->again == NULL && !c->call->common.json && !c->call->common.tsv)
        nib_output_note(c->call,
                        "without -o the results of the %zu points are only printed; -o FILE.h5 keeps them, and goes "
                        "on after an interruption",
                        c->experiment->points);
    return c->arguments->merge > 0 ? merge(c, error) : compute(c, error);
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    struct context c = {.call = call, .arguments = call->options};
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a write error, after which the journal is whole */
    enum nib_status status = check_options(&c, error);
    if (status == NIB_OK) status = nib_team_open(&c.rank, &c.ranks, error);
    if (status == NIB_OK && c.rank > 0) call->common.quiet = true; /* rank 0 says it once */
    if (status == NIB_OK) {
        status = open_experiment(&c, error);
        bool opened = status == NIB_OK;
        if (!opened && c.rank > 0) usleep(300000); /* rank 0 has most likely met the same, and says it for all */
        if (!opened && c.ranks > 1) nib_output_error(error);
        if (opened) status = act(&c, error);
        nib_team_close(opened);
    }
    nib_experiment_close(c.experiment);
    nib_stored_experiment_free(&c.stored);
    free(c.journal);
    return status;
}

NIB_COMMAND(run) = {
    .values = "FILE",
    .least = 0,
    .most = 1,
    .description =
        "Runs a declared experiment: a job for every point of a product of axes (quantizers, rotations, tensors by glob, "
        "grids, seeds, any parameter), and the measures that are kept. Results do not depend on threads, ranks, parts or "
        "interruptions.\n"
        "Each finished point is written at once into a journal beside the result file. The same command goes on after a "
        "kill or a full disk; the journal goes away when the result file is complete. Without -o nothing is kept. Two "
        "processes cannot run into the same result.\n"
        "On several machines: --shard 1/N to N/N into the same -o FILE.h5, then --merge N; or nibble-mpi, started by "
        "mpirun or srun, where the build has MPI.\n"
        "--again runs the experiment that a result file holds once more and compares the digests of all datasets. Those "
        "that must be equal on every machine and are not make the exit code 1. Tensor, format and recipe files are read "
        "from where they were: one that is gone or has changed ends it with 3. The texts of all formats and recipes are "
        "in the result file, under provenance/formats.",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct arguments),
    .takes = NIB_TAKES_JSON | NIB_TAKES_OUTPUT | NIB_TAKES_THREADS,
    .examples = examples,
    .run = run,
};
