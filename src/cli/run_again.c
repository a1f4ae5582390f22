#include "cli/run_again.h"

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

enum nib_status nib_again_check_formats(const struct nib_experiment *experiment, const struct nib_stored_experiment *stored,
                                        const char *path, struct nib_error *error) {
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
        status = nib_fail_at(error, NIB_EINCONSISTENT, file == NULL ? format : file, 0, "is no longer the %s that %s was computed from",
                             file == NULL ? "format" : "file", path);
    }
    nib_provenance_free(provenance);
    return status;
}
