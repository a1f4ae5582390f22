/* What an experiment depends on: checks, citations, and the identity that ties a journal to it. */
#include "experiment/experiment.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/entry.h"
#include "io/locator.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static enum nib_status check_point(const struct nib_experiment *e, size_t point, struct nib_error *error) {
    struct nib_argument arguments[NIB_EXPERIMENT_PARAMETERS];
    nib_experiment_point(e, point, arguments);
    enum nib_status status = e->job.check == NULL ? NIB_OK : e->job.check(arguments, error);
    if (status == NIB_OK || error == NULL || status == NIB_ENOMEM) return status;
    nib_experiment_blame(e, point, error);
    if (error->file[0] == '\0') snprintf(error->file, sizeof error->file, "%s", e->label);
    return status;
}

/* Numbers are checked and cited for the first values of their axis only: thousands of seeds are alike. */
static size_t worth_a_look(const struct nib_experiment *e, size_t axis) {
    enum { SAMPLE = 256 };
    enum nib_parameter_type type = e->job.parameters[e->axis[axis].parameter].type;
    bool number = type == NIB_PARAMETER_INTEGER || type == NIB_PARAMETER_REAL;
    return number && e->axis[axis].count > SAMPLE ? SAMPLE : e->axis[axis].count;
}

/* The point with value `place` on one axis and the first value on the others. */
static size_t point_of_value(const struct nib_experiment *e, size_t axis, size_t place) {
    for (size_t i = e->axes - 1; i > axis; i--) place *= e->axis[i].count;
    return place;
}

enum nib_status nib_experiment_check(const struct nib_experiment *e, bool every, struct nib_error *error) {
    enum nib_status status = check_point(e, 0, error);
    for (size_t point = 1; every && status == NIB_OK && point < e->points; point++)
        status = check_point(e, point, error);
    for (size_t i = 0; !every && i < e->axes; i++)
        for (size_t place = 1; status == NIB_OK && place < worth_a_look(e, i); place++)
            status = check_point(e, point_of_value(e, i, place), error);
    return status;
}

/* Visits each tensor file once. */
typedef enum nib_status visitor(const struct nib_file *file, void *context, struct nib_error *error);

static enum nib_status visit_file(const struct nib_argument *argument, char **last, visitor *visit, void *context,
                                  struct nib_error *error) {
    struct nib_locator locator;
    struct nib_file *file = NULL;
    enum nib_status status = nib_locator_parse(argument->path, &locator, error);
    if (status != NIB_OK) return status;
    if (*last == NULL || strcmp(*last, locator.path) != 0) { /* tensors of a file stand together */
        status = nib_file_open(locator.path, &file, error);
        if (status == NIB_OK) status = visit(file, context, error);
        if (file != NULL) nib_file_close(file);
        free(*last);
        *last = strdup(locator.path);
    }
    nib_locator_free(&locator);
    return status;
}

static enum nib_status visit_files(const struct nib_experiment *e, visitor *visit, void *context,
                                   struct nib_error *error) {
    enum nib_status status = NIB_OK;
    char *last = NULL;
    for (size_t i = 0; status == NIB_OK && i < e->parameters; i++)
        if (e->job.parameters[i].type == NIB_PARAMETER_TENSOR && e->fixed[i].given)
            status = visit_file(&e->fixed[i], &last, visit, context, error);
    for (size_t i = 0; i < e->axes; i++) {
        if (e->job.parameters[e->axis[i].parameter].type != NIB_PARAMETER_TENSOR) continue;
        for (size_t k = 0; status == NIB_OK && k < e->axis[i].count; k++)
            status = visit_file(&e->axis[i].values[k], &last, visit, context, error);
    }
    free(last);
    return status;
}

static enum nib_status cite_file(const struct nib_file *file, void *context, struct nib_error *error) {
    return nib_provenance_add_file(context, file, error);
}

static enum nib_status cite_point(const struct nib_experiment *e, size_t point, struct nib_provenance *provenance,
                                  struct nib_error *error) {
    struct nib_argument arguments[NIB_EXPERIMENT_PARAMETERS];
    nib_experiment_point(e, point, arguments);
    return e->job.cite == NULL ? NIB_OK : e->job.cite(arguments, provenance, error);
}

enum nib_status nib_experiment_cite(const struct nib_experiment *e, bool contents, struct nib_provenance *provenance,
                                    struct nib_error *error) {
    enum nib_status status = cite_point(e, 0, provenance, error);
    for (size_t i = 0; i < e->axes; i++)
        for (size_t place = 1; status == NIB_OK && place < worth_a_look(e, i); place++) {
            if (e->job.parameters[e->axis[i].parameter].type == NIB_PARAMETER_TENSOR) continue; /* names no format */
            status = cite_point(e, point_of_value(e, i, place), provenance, error);
        }
    if (status == NIB_OK && contents) status = visit_files(e, cite_file, provenance, error);
    return status;
}

static void hash_text(XXH3_state_t *state, const char *text) { XXH3_128bits_update(state, text, strlen(text) + 1); }

/* Size, both ends and a sample of the middle: a checkpoint of hundreds of gigabytes is told apart in no time. The
 * whole contents are hashed once, for the provenance. */
static enum nib_status hash_file(const struct nib_file *file, void *context, struct nib_error *error) {
    enum { END = 1 << 16, PIECE = 4096, PIECES = 64 };
    XXH3_state_t *state = context;
    (void)error;
    for (size_t i = 0; i < file->mapping_count; i++) {
        const struct nib_mapping *mapping = file->mappings[i];
        uint64_t size = mapping->size, end = size < END ? size : END;
        XXH3_128bits_update(state, &size, sizeof size);
        XXH3_128bits_update(state, mapping->data, (size_t)end);
        XXH3_128bits_update(state, mapping->data + (size - end), (size_t)end);
        for (uint64_t k = 0; k < PIECES && size > 2 * END; k++)
            XXH3_128bits_update(state, mapping->data + (size - PIECE) / PIECES * k, PIECE);
    }
    return NIB_OK;
}

static void hash_values(XXH3_state_t *state, const struct nib_experiment *e) {
    for (size_t i = 0; i < e->parameters; i++) hash_text(state, e->fixed[i].given ? e->fixed[i].text : "");
    for (size_t i = 0; i < e->axes; i++) {
        hash_text(state, e->job.parameters[e->axis[i].parameter].name);
        for (size_t k = 0; k < e->axis[i].count; k++) hash_text(state, e->axis[i].values[k].text);
    }
    for (size_t i = 0; i < e->kept; i++) hash_text(state, e->job.columns[e->keep[i]].name);
}

enum nib_status nib_experiment_identify(struct nib_experiment *e, struct nib_error *error) {
    struct nib_provenance *provenance = NULL;
    struct nib_provenance_facts facts;
    XXH3_state_t *state = XXH3_createState();
    if (state == NULL) return nib_fail(error, NIB_ENOMEM, "experiment: out of memory");
    XXH3_128bits_reset(state);
    hash_text(state, e->job.name);
    hash_values(state, e);
    enum nib_status status = nib_provenance_new(&provenance, error);
    if (status == NIB_OK) status = nib_experiment_cite(e, false, provenance, error);
    if (status == NIB_OK) status = nib_provenance_facts(provenance, &facts, error);
    for (size_t i = 0; status == NIB_OK && i < nib_table_rows(facts.formats); i++) {
        hash_text(state, nib_table_text(facts.formats, i, 0));
        hash_text(state, nib_table_text(facts.formats, i, 1));
    }
    for (size_t i = 0; status == NIB_OK && i < nib_table_rows(facts.inputs); i++)
        hash_text(state, nib_table_text(facts.inputs, i, 2)); /* the digest */
    if (status == NIB_OK) status = visit_files(e, hash_file, state, error);
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    for (size_t i = 0; i < 16; i++) sprintf(e->identity + 2 * i, "%02x", canonical.digest[i]);
    nib_provenance_free(provenance);
    XXH3_freeState(state);
    return status;
}
