/* What there is to choose from: axes of quantizers, and jobs of experiments. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/suggest.h"
#include "cli/show.h"
#include "format/axes.h"
#include "job/job.h"

static const char *axis_name(size_t i, const void *context) {
    (void)context;
    return i < nib_axis_count ? nib_axis_table[i].name : NULL;
}

enum nib_status nib_show_axis(const char *name, struct nib_shown *shown, struct nib_error *error) {
    static const struct nib_column columns[] = {
        {"choice", "choice", "", "value of the axis", NIB_COLUMN_TEXT, 0},
        {"applies", "applies when", "", "condition on the block format", NIB_COLUMN_TEXT, 0},
        {"meaning", "meaning", "", "what it does", NIB_COLUMN_TEXT, 0},
    };
    size_t index = nib_axis_find(name);
    if (index == nib_axis_count) {
        const char *near = nib_suggest(name, axis_name, NULL);
        return nib_fail(error, NIB_ENOTFOUND, "no axis \"%s\"%s%s%s", name,
                        near != NULL ? "; did you mean \"" : "; 'nibble list axes' names them",
                        near != NULL ? near : "", near != NULL ? "\"?" : "");
    }
    const struct nib_axis_info *axis = &nib_axis_table[index];
    nib_show_fact(shown, "axis", "%s", axis->name);
    nib_show_fact(shown, "decides", "%s", axis->what);
    nib_show_fact(shown, "applies_when", "%s", nib_applies_text(axis->applies));
    if (axis->is_number) nib_show_fact(shown, "value", "a number");
    enum nib_status status = nib_table_new("choices", columns, 3, &shown->table, error);
    for (size_t c = 0; c < axis->count && status == NIB_OK; c++) {
        size_t row = nib_table_row(shown->table);
        if (row == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "out of memory");
        nib_table_set_text(shown->table, row, 0, axis->choices[c].name);
        nib_table_set_text(shown->table, row, 1, nib_applies_text(axis->choices[c].applies));
        nib_table_set_text(shown->table, row, 2, axis->choices[c].what);
    }
    return status;
}

enum nib_status nib_show_axes(struct nib_shown *shown, struct nib_error *error) {
    static const struct nib_column columns[] = {
        {"axis", "axis", "", "arithmetic choice", NIB_COLUMN_TEXT, 0},
        {"choices", "choices", "", "how many there are, or a number", NIB_COLUMN_TEXT, 0},
        {"applies", "applies when", "", "condition on the block format", NIB_COLUMN_TEXT, 0},
        {"decides", "decides", "", "what it decides", NIB_COLUMN_TEXT, 0},
    };
    static const bool hidden[] = {false, false, true, false};
    enum nib_status status = nib_table_new("axes", columns, 4, &shown->table, error);
    shown->hidden = hidden;
    for (size_t i = 0; status == NIB_OK && i < nib_axis_count; i++) {
        const struct nib_axis_info *axis = &nib_axis_table[i];
        char count[24] = "a number";
        size_t row = nib_table_row(shown->table);
        if (row == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "out of memory");
        if (!axis->is_number) snprintf(count, sizeof count, "%zu", axis->count);
        nib_table_set_text(shown->table, row, 0, axis->name);
        nib_table_set_text(shown->table, row, 1, count);
        nib_table_set_text(shown->table, row, 2, nib_applies_text(axis->applies));
        nib_table_set_text(shown->table, row, 3, axis->what);
    }
    return status;
}

enum nib_status nib_show_jobs(struct nib_shown *shown, struct nib_error *error) {
    static const struct nib_column columns[] = {
        {"job", "job", "", "name", NIB_COLUMN_TEXT, 0},
        {"does", "does", "", "what it does", NIB_COLUMN_TEXT, 0},
    };
    struct nib_job job;
    enum nib_status status = nib_table_new("jobs", columns, 2, &shown->table, error);
    for (size_t i = 0; status == NIB_OK && nib_job_at(i, &job); i++) {
        size_t row = nib_table_row(shown->table);
        if (row == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "out of memory");
        nib_table_set_text(shown->table, row, 0, job.name);
        nib_table_set_text(shown->table, row, 1, job.summary);
    }
    return status;
}

/* "an integer from 1 to 65536; 16" */
static void values_text(const struct nib_parameter *p, char out[240]) {
    size_t used = 0;
    out[0] = '\0';
    switch (p->type) {
    case NIB_PARAMETER_TEXT: used += (size_t)snprintf(out, 240, "text"); break;
    case NIB_PARAMETER_FORMAT: used += (size_t)snprintf(out, 240, "a name or file"); break;
    case NIB_PARAMETER_TENSOR: used += (size_t)snprintf(out, 240, "FILE:tensor or glob"); break;
    case NIB_PARAMETER_FILE: used += (size_t)snprintf(out, 240, "file or folder"); break;
    case NIB_PARAMETER_INTEGER:
        used += (size_t)snprintf(out, 240, "%lld to %lld", (long long)p->low, (long long)p->high);
        break;
    case NIB_PARAMETER_REAL: used += (size_t)snprintf(out, 240, "%g to %g", p->real_low, p->real_high); break;
    case NIB_PARAMETER_CHOICE:
        for (size_t i = 0; p->choices[i] != NULL && used < 200; i++)
            used += (size_t)snprintf(out + used, 240 - used, "%s%s", i == 0 ? "" : ", ", p->choices[i]);
        break;
    }
    if (p->initial != NULL && used < 200) snprintf(out + used, 240 - used, " [%s]", p->initial);
}

static enum nib_status add_word(struct nib_table *table, const char *what, const char *name, const char *values,
                                const char *heading, const char *means, struct nib_error *error) {
    const char *const words[] = {what, name, values, heading, means};
    size_t row = nib_table_row(table);
    if (row == SIZE_MAX) return nib_fail(error, NIB_ENOMEM, "out of memory");
    for (size_t i = 0; i < 5; i++) nib_table_set_text(table, row, i, words[i]);
    return NIB_OK;
}

enum nib_status nib_show_job(const char *name, struct nib_shown *shown, struct nib_error *error) {
    static const struct nib_column columns[] = {
        {"what", "what", "", "parameter or measure", NIB_COLUMN_TEXT, 0},
        {"name", "name", "", "as in experiment files", NIB_COLUMN_TEXT, 0},
        {"values", "values", "", "of a parameter, the one by default in brackets; unit of a measure", NIB_COLUMN_TEXT, 0},
        {"heading", "on the terminal", "", "heading of a measure in tables on the terminal", NIB_COLUMN_TEXT, 0},
        {"means", "means", "", "what it is", NIB_COLUMN_TEXT, 0},
    };
    struct nib_job job;
    enum nib_status status = nib_job_find(name, &job, error);
    if (status != NIB_OK) return status;
    nib_show_fact(shown, "job", "%s", job.name);
    nib_show_fact(shown, "does", "%s", job.summary);
    status = nib_table_new("words", columns, 5, &shown->table, error);
    for (const struct nib_parameter *p = job.parameters; status == NIB_OK && p->name != NULL; p++) {
        char values[240];
        values_text(p, values);
        status = add_word(shown->table, "parameter", p->name, values, "", p->help, error);
    }
    for (size_t i = 0; status == NIB_OK && i < job.column_count; i++)
        status = add_word(shown->table, "measure", job.columns[i].name, job.columns[i].units,
                          job.columns[i].heading, job.columns[i].long_name, error);
    return status;
}
