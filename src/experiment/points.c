/* The points of an experiment: the product of its axes, in row-major order. */
#include "experiment/experiment.h"

#include "base/error.h"
#include <stdio.h>
#include <string.h>

size_t nib_experiment_place(const struct nib_experiment *e, size_t point, size_t axis) {
    for (size_t i = e->axes - 1; i > axis; i--) point /= e->axis[i].count;
    return point % e->axis[axis].count;
}

void nib_experiment_point(const struct nib_experiment *e, size_t point,
                          struct nib_argument out[NIB_EXPERIMENT_PARAMETERS]) {
    memcpy(out, e->fixed, sizeof e->fixed);
    for (size_t i = 0; i < e->axes; i++)
        out[e->axis[i].parameter] = e->axis[i].values[nib_experiment_place(e, point, i)];
}

void nib_experiment_name(const struct nib_experiment *e, size_t point, char *out, size_t size) {
    size_t length = 0;
    out[0] = '\0';
    for (size_t i = 0; i < e->axes && length < size; i++) {
        const char *text = e->axis[i].values[nib_experiment_place(e, point, i)].text;
        const char *name = e->job.parameters[e->axis[i].parameter].name;
        length += (size_t)snprintf(out + length, size - length, "%s%s=%s", i == 0 ? "" : " ", name, text);
    }
}

void nib_experiment_blame(const struct nib_experiment *e, size_t point, struct nib_error *error) {
    char name[300], text[512];
    nib_experiment_name(e, point, name, sizeof name);
    snprintf(text, sizeof text, "%.300s", error->text);
    snprintf(error->text, sizeof error->text, "%.300s (point %zu%s%.150s)", text, point, name[0] == '\0' ? "" : ": ",
             name);
}

enum nib_status nib_experiment_list(const struct nib_experiment *e, unsigned shard, unsigned shards,
                                    struct nib_table **out, struct nib_error *error) {
    struct nib_column columns[NIB_EXPERIMENT_AXES + 1] = {
        {"point", "point", "1", "number of the point", NIB_COLUMN_INTEGER, 0}};
    struct nib_table *table = NULL;
    for (size_t i = 0; i < e->axes; i++) {
        const struct nib_parameter *p = &e->job.parameters[e->axis[i].parameter];
        columns[i + 1] = (struct nib_column){p->name, p->name, "", p->help, NIB_COLUMN_TEXT, 0};
    }
    enum nib_status status = nib_table_new("points", columns, e->axes + 1, &table, error);
    if (status != NIB_OK) return status;
    for (size_t point = shard - 1; point < e->points; point += shards) {
        size_t row = nib_table_row(table);
        if (row == SIZE_MAX) {
            nib_table_free(table);
            return nib_fail(error, NIB_ENOMEM, "list of points: out of memory");
        }
        nib_table_set_integer(table, row, 0, (int64_t)point);
        for (size_t i = 0; i < e->axes; i++)
            nib_table_set_text(table, row, i + 1, e->axis[i].values[nib_experiment_place(e, point, i)].text);
    }
    *out = table;
    return NIB_OK;
}
