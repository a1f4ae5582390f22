#include "cli/run_again.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "base/table.h"
#include "format/registry.h"
#include "io/provenance.h"

static bool is_file_of(const struct nib_argument *argument, const char *name) {
    char own[40];
    if (argument->path == NULL || !nib_path_is_file(argument->path)) return false;
    nib_registry_name_of(argument->path, own);
    return strcmp(own, name) == 0;
}

/* The file of a format that an argument names; NULL for built-ins and for what other files name. */
static const char *file_of(const struct nib_experiment *e, const char *name) {
    for (size_t i = 0; i < e->parameters; i++)
        if (e->fixed[i].given && is_file_of(&e->fixed[i], name)) return e->fixed[i].path;
    for (size_t i = 0; i < e->axes; i++)
        for (size_t k = 0; k < e->axis[i].count; k++)
            if (is_file_of(&e->axis[i].values[k], name)) return e->axis[i].values[k].path;
    return NULL;
}

static bool is_stored(const struct nib_stored_experiment *stored, const char *format, const char *sha256) {
    for (size_t i = 0; i < nib_table_rows(stored->formats); i++)
        if (nib_table_is(stored->formats, i, 0, format) && nib_table_is(stored->formats, i, 1, sha256))
            return true;
    return false;
}

/* NIB_EINCONSISTENT names the first format or recipe whose text is not in the result file `path`. */
static enum nib_status check_formats(const struct nib_experiment *experiment,
                                     const struct nib_stored_experiment *stored, const char *path,
                                     struct nib_error *error) {
    struct nib_provenance *provenance = NULL;
    struct nib_provenance_facts facts;
    enum nib_status status = nib_provenance_new(&provenance, error);
    if (status != NIB_OK) return status;
    status = nib_experiment_cite(experiment, false, provenance, error);
    if (status == NIB_OK) status = nib_provenance_facts(provenance, &facts, error);
    for (size_t i = 0; status == NIB_OK && i < nib_table_rows(facts.formats); i++) {
        const char *format = nib_table_text(facts.formats, i, 0), *slash = strchr(format, '/');
        if (is_stored(stored, format, nib_table_text(facts.formats, i, 1))) continue;
        const char *file = file_of(experiment, slash == NULL ? format : slash + 1);
        status = nib_fail_at(error, NIB_EINCONSISTENT, file == NULL ? format : file, 0,
                             "is no longer the %s that %s was computed from", file == NULL ? "format" : "file", path);
    }
    nib_provenance_free(provenance);
    return status;
}

static char *with_slash(const char *folder) {
    char *path = malloc(strlen(folder) + 2);
    if (path != NULL) sprintf(path, "%s%s", folder, folder[0] == '\0' ? "" : "/");
    return path;
}

enum nib_status nib_again_open(const char *path, struct nib_stored_experiment *stored, struct nib_experiment **out,
                               struct nib_error *error) {
    enum nib_status status = nib_experiment_read(path, stored, error);
    if (status != NIB_OK) return status;
    if (stored->text[0] == '\0')
        return nib_fail_at(error, NIB_EINVAL, path, 0, "is not the result of an experiment; it came from: %s",
                           stored->command_line[0] == '\0' ? "(it does not say)" : stored->command_line);
    const char *settings[256];
    size_t count = 0;
    char *rest = strdup(stored->settings), *copy = rest, *line;
    char *folder = with_slash(stored->folder), *working = with_slash(stored->working_folder);
    if (rest == NULL || folder == NULL || working == NULL) status = nib_fail(error, NIB_ENOMEM, "out of memory");
    while (status == NIB_OK && (line = strsep(&rest, "\n")) != NULL && count < 256)
        if (line[0] != '\0') settings[count++] = line;
    if (status == NIB_OK)
        status = nib_experiment_parse(stored->text, path, folder, settings, count, working, out, error);
    if (status == NIB_EIO && error != NULL) { /* a file is gone */
        size_t used = strlen(error->text);
        snprintf(error->text + used, sizeof error->text - used, "; %s was computed from it", path);
    }
    if (status == NIB_OK) status = check_formats(*out, stored, path, error);
    free(working);
    free(folder);
    free(copy);
    return status;
}

static const char *stored_digest(const struct nib_table *pairs, const char *name) {
    for (size_t i = 0; i < nib_table_rows(pairs); i++)
        if (nib_table_is(pairs, i, 0, name)) return nib_table_text(pairs, i, 1);
    return "";
}

enum nib_status nib_again_compare(const struct nib_stored_experiment *stored, const struct nib_table *digests,
                                  struct nib_table **out, bool *differs, struct nib_error *error) {
    static const struct nib_column columns[] = {
        {"dataset", "dataset", "", "dataset", NIB_COLUMN_TEXT, 0},
        {"exact", "exact", "", "whether the bits are the same on every machine", NIB_COLUMN_TEXT, 0},
        {"stored", "stored", "", "digest in the file", NIB_COLUMN_TEXT, 0},
        {"now", "now", "", "digest of this run", NIB_COLUMN_TEXT, 0},
        {"same", "same", "", "yes or no", NIB_COLUMN_TEXT, 0}};
    struct nib_table *table = NULL;
    enum nib_status status = nib_table_new("comparison", columns, 5, &table, error);
    for (size_t i = 0; status == NIB_OK && i < nib_table_rows(digests); i++) {
        const char *name = nib_table_text(digests, i, NIB_DIGEST_DATASET),
                   *now = nib_table_text(digests, i, NIB_DIGEST_XXH3);
        const char *exact = nib_table_text(digests, i, NIB_DIGEST_EXACT),
                   *before = stored_digest(stored->digests, name);
        bool same = strcmp(now, before) == 0;
        size_t row = nib_table_row(table);
        if (row == SIZE_MAX) {
            status = nib_fail(error, NIB_ENOMEM, "out of memory");
            break;
        }
        nib_table_set_text(table, row, 0, name);
        nib_table_set_text(table, row, 1, exact);
        nib_table_set_text(table, row, 2, before);
        nib_table_set_text(table, row, 3, now);
        nib_table_set_text(table, row, 4, same ? "yes" : "no");
        if (!same && strcmp(exact, "yes") == 0) *differs = true;
    }
    if (status == NIB_OK)
        *out = table;
    else
        nib_table_free(table);
    return status;
}

enum nib_status nib_again_check_inputs(const struct nib_stored_experiment *stored,
                                       const struct nib_provenance *provenance, const char *path,
                                       struct nib_error *error) {
    struct nib_provenance_facts facts;
    enum nib_status status = nib_provenance_facts(provenance, &facts, error);
    for (size_t i = 0; status == NIB_OK && i < nib_table_rows(facts.inputs); i++) {
        const char *digest = nib_table_text(facts.inputs, i, 2);
        bool known = false;
        for (size_t k = 0; k < nib_table_rows(stored->inputs); k++)
            known |= strcmp(digest, nib_table_text(stored->inputs, k, 1)) == 0;
        if (!known)
            status = nib_fail_at(error, NIB_EINCONSISTENT, nib_table_text(facts.inputs, i, 0), 0,
                                 "is no longer the file that %s was computed from", path);
    }
    return status;
}
