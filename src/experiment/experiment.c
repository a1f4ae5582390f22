/* Experiment files: reading and checking. */
#include "experiment/experiment.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/path.h"
#include "format/yaml.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_POINTS = 100000000 };

struct record {
    char title[160], job[40];
    int kind;
    const struct nib_yaml_node *sweep, *set, *keep;
};

static const char *const kinds[] = {"experiment", NULL};
#define PLACE(member) offsetof(struct record, member), sizeof(((struct record *)0)->member)
static const struct nib_field fields[] = {
    {"kind", NIB_FIELD_CHOICE, true, PLACE(kind), 0, 0, kinds},
    {"title", NIB_FIELD_TEXT, true, PLACE(title), 0, 0, NULL},
    {"job", NIB_FIELD_TEXT, true, PLACE(job), 0, 0, NULL},
    {"sweep", NIB_FIELD_NODE, false, PLACE(sweep), 0, 0, NULL},
    {"set", NIB_FIELD_NODE, false, PLACE(set), 0, 0, NULL},
    {"keep", NIB_FIELD_NODE, false, PLACE(keep), 0, 0, NULL},
    {NULL, NIB_FIELD_NODE, false, 0, 0, 0, 0, NULL},
};
#undef PLACE

struct range {
    int64_t from, to, step;
};
#define PLACE(member) offsetof(struct range, member), sizeof(((struct range *)0)->member)
static const struct nib_field range_fields[] = {
    {"from", NIB_FIELD_INTEGER, true, PLACE(from), INT64_MIN / 4, INT64_MAX / 4, NULL},
    {"to", NIB_FIELD_INTEGER, true, PLACE(to), INT64_MIN / 4, INT64_MAX / 4, NULL},
    {"step", NIB_FIELD_INTEGER, false, PLACE(step), 1, INT64_MAX / 4, NULL},
    {NULL, NIB_FIELD_NODE, false, 0, 0, 0, 0, NULL},
};
#undef PLACE

struct reading {
    struct nib_experiment *experiment;
    const struct nib_yaml *document;
    const char *folder; /* of the paths being read */
    struct nib_error *error;
};

/* A mistake found below, on this line of the file. */
static enum nib_status at_line(const struct reading *r, int line, enum nib_status status) {
    if (status != NIB_OK && status != NIB_ENOMEM && r->error != NULL && r->error->file[0] == '\0') {
        snprintf(r->error->file, sizeof r->error->file, "%s", r->experiment->label);
        r->error->line = line;
        if (status == NIB_EINVAL || status == NIB_ENOTFOUND) status = r->error->status = NIB_ESYNTAX;
    }
    return status;
}

char *nib_experiment_keep(struct nib_experiment *experiment, const char *text, struct nib_error *error) {
    if (experiment->string_count == experiment->string_capacity) {
        size_t capacity = experiment->string_capacity == 0 ? 64 : 2 * experiment->string_capacity;
        char **strings = realloc(experiment->strings, capacity * sizeof *strings);
        if (strings == NULL) {
            nib_fail(error, NIB_ENOMEM, "experiment: out of memory");
            return NULL;
        }
        experiment->strings = strings;
        experiment->string_capacity = capacity;
    }
    char *copy = strdup(text);
    if (copy == NULL)
        nib_fail(error, NIB_ENOMEM, "experiment: out of memory");
    else
        experiment->strings[experiment->string_count++] = copy;
    return copy;
}

/* Adds what one text of a list stands for: one value, or many tensors. */
static enum nib_status add_value(struct reading *r, struct nib_experiment_axis *axis, const char *text) {
    return nib_experiment_expand(r->experiment, axis, r->folder, text, r->error);
}

static enum nib_status add_range(struct reading *r, struct nib_experiment_axis *axis,
                                 const struct nib_yaml_node *node) {
    struct range range = {.step = 1};
    enum nib_status status = nib_yaml_read(r->document, node, range_fields, &range, r->error);
    if (status == NIB_OK && (range.to < range.from || (range.to - range.from) / range.step >= MOST_POINTS))
        status = nib_fail_at(r->error, NIB_ESYNTAX, r->experiment->label, nib_yaml_line(node),
                             "from %lld to %lld: expected a range upwards, of at most %d values", (long long)range.from,
                             (long long)range.to, (int)MOST_POINTS);
    for (int64_t value = range.from; status == NIB_OK && value <= range.to; value += range.step) {
        char text[32];
        snprintf(text, sizeof text, "%lld", (long long)value);
        status = add_value(r, axis, text);
    }
    return status;
}

static enum nib_status check_distinct(const struct reading *r, const struct nib_experiment_axis *axis) {
    if (axis->count > 10000) return NIB_OK; /* ranges and globs */
    for (size_t i = 0; i < axis->count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(axis->values[i].text, axis->values[k].text) == 0)
                return nib_fail(r->error, NIB_EINVAL, "%s is given twice", axis->values[i].text);
    return NIB_OK;
}

/* One value is set, several are an axis. Moves `axis` into the experiment. */
static enum nib_status adopt(struct reading *r, struct nib_experiment_axis *axis, bool sweep) {
    struct nib_experiment *e = r->experiment;
    enum nib_status status = check_distinct(r, axis);
    const char *name = e->job.parameters[axis->parameter].name;
    if (status == NIB_OK && axis->count == 0) status = nib_fail(r->error, NIB_EINVAL, "%s has no value", name);
    size_t place = e->axes; /* a setting takes the place of the file's axis */
    for (size_t i = 0; i < e->axes; i++)
        if (e->axis[i].parameter == axis->parameter) place = i;
    if (status == NIB_OK && place < e->axes && r->document != NULL)
        status = nib_fail(r->error, NIB_EINVAL, "%s is swept already; expected it in sweep or in set", name);
    if (status == NIB_OK && !sweep && axis->count == 1 && place == e->axes) {
        e->fixed[axis->parameter] = axis->values[0];
        free(axis->values);
        return NIB_OK;
    }
    if (status == NIB_OK && !sweep && axis->count > 1 && place == e->axes && r->document != NULL)
        status =
            nib_fail(r->error, NIB_EINVAL, "%s has %zu values; set takes one, sweep takes many", name, axis->count);
    if (status == NIB_OK && place == NIB_EXPERIMENT_AXES)
        status = nib_fail(r->error, NIB_EINVAL, "more than %d axes", NIB_EXPERIMENT_AXES);
    if (status != NIB_OK) {
        free(axis->values);
        return status;
    }
    if (place < e->axes)
        free(e->axis[place].values);
    else
        e->axes++;
    e->axis[place] = *axis;
    return NIB_OK;
}

static enum nib_status read_parameter(struct reading *r, const char *name, const struct nib_yaml_node *node,
                                      bool sweep) {
    struct nib_experiment_axis axis = {0};
    enum nib_status status = nib_job_parameter(&r->experiment->job, name, &axis.parameter, r->error);
    if (status != NIB_OK) return status;
    if (nib_yaml_kind_of(node) == NIB_YAML_MAPPING) {
        status = add_range(r, &axis, node);
    } else if (nib_yaml_kind_of(node) == NIB_YAML_SEQUENCE) {
        for (size_t i = 0; status == NIB_OK && i < nib_yaml_count(node); i++) {
            const struct nib_yaml_node *item = nib_yaml_item(node, i);
            const char *text = nib_yaml_scalar(item);
            status = text == NULL ? nib_fail(r->error, NIB_EINVAL, "%s: expected single values in the list", name)
                                  : add_value(r, &axis, text);
            status = at_line(r, nib_yaml_line(item), status);
        }
    } else {
        status = add_value(r, &axis, nib_yaml_scalar(node));
    }
    if (status != NIB_OK) {
        free(axis.values);
        return status;
    }
    return adopt(r, &axis, sweep);
}

static enum nib_status read_parameters(struct reading *r, const struct nib_yaml_node *mapping, bool sweep) {
    if (mapping == NULL) return NIB_OK;
    if (nib_yaml_kind_of(mapping) != NIB_YAML_MAPPING)
        return nib_fail_at(r->error, NIB_ESYNTAX, r->experiment->label, nib_yaml_line(mapping),
                           "expected parameters of job %s with values", r->experiment->job.name);
    enum nib_status status = NIB_OK;
    for (size_t i = 0; status == NIB_OK && i < nib_yaml_count(mapping); i++) {
        const char *name = nib_yaml_key(mapping, i);
        status = at_line(r, nib_yaml_key_line(mapping, i), read_parameter(r, name, nib_yaml_value(mapping, i), sweep));
    }
    return status;
}

static enum nib_status keep_column(struct reading *r, const char *name) {
    struct nib_experiment *e = r->experiment;
    size_t column;
    enum nib_status status = nib_job_column(&e->job, name, &column, r->error);
    for (size_t i = 0; status == NIB_OK && i < e->kept; i++)
        if (e->keep[i] == column) status = nib_fail(r->error, NIB_EINVAL, "measure %s is given twice", name);
    if (status == NIB_OK) e->keep[e->kept++] = column;
    return status;
}

static enum nib_status read_keep(struct reading *r, const struct nib_yaml_node *list) {
    struct nib_experiment *e = r->experiment;
    if (list == NULL) {
        for (size_t i = 0; i < e->job.column_count; i++) e->keep[e->kept++] = i;
        return NIB_OK;
    }
    if (nib_yaml_kind_of(list) != NIB_YAML_SEQUENCE || nib_yaml_count(list) == 0)
        return nib_fail_at(r->error, NIB_ESYNTAX, e->label, nib_yaml_line(list), "keep: expected a list of measures");
    enum nib_status status = NIB_OK;
    for (size_t i = 0; status == NIB_OK && i < nib_yaml_count(list); i++) {
        const struct nib_yaml_node *item = nib_yaml_item(list, i);
        const char *name = nib_yaml_scalar(item);
        status =
            name == NULL ? nib_fail(r->error, NIB_EINVAL, "keep: expected names of measures") : keep_column(r, name);
        status = at_line(r, nib_yaml_line(item), status);
    }
    return status;
}

/* "quantizer=a,b"; the earlier settings are looked through for the same parameter. */
static enum nib_status apply_setting(struct reading *r, const char *const *settings, size_t which) {
    const char *setting = settings[which];
    struct nib_experiment_axis axis = {0};
    const char *equals = strchr(setting, '=');
    if (equals == NULL || equals == setting)
        return nib_fail(r->error, NIB_EINVAL, "setting \"%s\": expected parameter=value or parameter=value,value",
                        setting);
    size_t name = (size_t)(equals - setting);
    for (size_t i = 0; i < which; i++)
        if (strncmp(settings[i], setting, name + 1) == 0)
            return nib_fail(r->error, NIB_EINVAL,
                            "%.*s is set twice; expected all its values at once: %.*s=%.80s,%.80s", (int)name, setting,
                            (int)name, setting, settings[i] + name + 1, equals + 1);
    char *copy = nib_experiment_keep(r->experiment, setting, r->error);
    if (copy == NULL) return NIB_ENOMEM;
    copy[name] = '\0';
    enum nib_status status = nib_job_parameter(&r->experiment->job, copy, &axis.parameter, r->error);
    char *rest = copy + name + 1, *value;
    while (status == NIB_OK && (value = strsep(&rest, ",")) != NULL) status = add_value(r, &axis, value);
    if (status != NIB_OK) {
        free(axis.values);
        return status;
    }
    return adopt(r, &axis, false);
}

static enum nib_status remember_settings(struct nib_experiment *e, const char *const *settings, size_t count,
                                         struct nib_error *error) {
    size_t length = 1;
    for (size_t i = 0; i < count; i++) length += strlen(settings[i]) + 1;
    e->settings = nib_alloc(length, 1, "settings", error);
    if (e->settings == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        strcat(e->settings, settings[i]);
        strcat(e->settings, "\n");
    }
    return NIB_OK;
}

static enum nib_status count_points(struct nib_experiment *e, struct nib_error *error) {
    e->points = 1;
    for (size_t i = 0; i < e->axes; i++)
        if (__builtin_mul_overflow(e->points, e->axis[i].count, &e->points) || e->points > MOST_POINTS)
            return nib_fail_at(error, NIB_EINVAL, e->label, 0, "more than %d points", (int)MOST_POINTS);
    for (size_t i = 0; i < e->axes; i++)
        for (size_t k = 0; k < e->kept; k++)
            if (strcmp(e->job.parameters[e->axis[i].parameter].name, e->job.columns[e->keep[k]].name) == 0)
                return nib_fail_at(error, NIB_EINVAL, e->label, 0,
                                   "\"%s\" is an axis and a measure; leave it out of keep", e->job.columns[e->keep[k]].name);
    return NIB_OK;
}

enum nib_status nib_experiment_parse(const char *text, const char *label, const char *folder,
                                     const char *const *settings, size_t setting_count, const char *settings_folder,
                                     struct nib_experiment **out, struct nib_error *error) {
    struct nib_experiment *e = nib_alloc(1, sizeof *e, "an experiment", error);
    if (e == NULL) return NIB_ENOMEM;
    struct record record = {.kind = 0};
    struct nib_yaml *document = NULL;
    snprintf(e->label, sizeof e->label, "%s", label);
    e->text = strdup(text);
    e->folder = strdup(folder);
    e->settings_folder = strdup(settings_folder);
    enum nib_status status = NIB_OK;
    if (e->text == NULL || e->folder == NULL || e->settings_folder == NULL)
        status = nib_fail(error, NIB_ENOMEM, "experiment: out of memory");
    if (status == NIB_OK) status = remember_settings(e, settings, setting_count, error);
    if (status == NIB_OK) status = nib_yaml_parse(text, strlen(text), label, &document, error);
    struct reading r = {e, document, folder, error};
    if (status == NIB_OK) status = nib_yaml_read(document, nib_yaml_root(document), fields, &record, error);
    if (status == NIB_OK) {
        memcpy(e->title, record.title, sizeof e->title);
        status = nib_yaml_blame(document, "job", nib_job_find(record.job, &e->job, error), error);
    }
    if (status == NIB_OK) {
        e->parameters = nib_job_parameters(&e->job);
        if (e->parameters > NIB_EXPERIMENT_PARAMETERS || e->job.column_count > NIB_EXPERIMENT_COLUMNS)
            status = nib_fail(error, NIB_EINVAL, "job %s has too many parameters or measures", e->job.name);
    }
    if (status == NIB_OK) status = nib_job_initial(&e->job, e->fixed, error);
    if (status == NIB_OK) status = read_parameters(&r, record.sweep, true);
    if (status == NIB_OK) status = read_parameters(&r, record.set, false);
    if (status == NIB_OK) status = read_keep(&r, record.keep);
    r.document = NULL; /* no longer the file's lines */
    r.folder = settings_folder;
    for (size_t i = 0; status == NIB_OK && i < setting_count; i++) status = apply_setting(&r, settings, i);
    if (status == NIB_OK) status = count_points(e, error);
    if (status == NIB_OK) status = nib_experiment_check(e, false, error);
    if (status == NIB_OK) status = nib_experiment_identify(e, error);
    if (document != NULL) nib_yaml_free(document);
    if (status == NIB_OK)
        *out = e;
    else
        nib_experiment_close(e);
    return status;
}

enum nib_status nib_experiment_open(const char *path, const char *const *settings, size_t setting_count,
                                    struct nib_experiment **out, struct nib_error *error) {
    char *text = NULL;
    size_t length = 0;
    enum nib_status status = nib_path_read_text(path, &text, &length, error);
    if (status != NIB_OK) return status;
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? strdup("") : strndup(path, (size_t)(slash - path) + 1);
    if (folder == NULL)
        status = nib_fail(error, NIB_ENOMEM, "experiment: out of memory");
    else
        status = nib_experiment_parse(text, path, folder, settings, setting_count, "", out, error);
    free(folder);
    free(text);
    return status;
}

void nib_experiment_close(struct nib_experiment *experiment) {
    if (experiment == NULL) return;
    for (size_t i = 0; i < experiment->axes; i++) free(experiment->axis[i].values);
    for (size_t i = 0; i < experiment->string_count; i++) free(experiment->strings[i]);
    free(experiment->strings);
    free(experiment->settings);
    free(experiment->folder);
    free(experiment->settings_folder);
    free(experiment->text);
    free(experiment);
}
