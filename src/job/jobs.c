/* The table of jobs. */
#include "job/job.h"

#include "base/error.h"
#include "base/suggest.h"
#include <stdio.h>
#include <string.h>

#define JOB(name, summary) extern NIB_JOB(name);
#include "job/jobs.def"
#undef JOB

static const struct row {
    const struct nib_job *definition;
    const char *name, *summary;
} rows[] = {
#define JOB(name, summary) {&nib_job_##name, #name, summary},
#include "job/jobs.def"
#undef JOB
};
enum { ROWS = sizeof rows / sizeof *rows };

const char *const nib_no_yes[] = {"no", "yes", NULL};

bool nib_job_at(size_t i, struct nib_job *out) {
    if (i >= ROWS) return false;
    *out = *rows[i].definition;
    out->name = rows[i].name;
    out->summary = rows[i].summary;
    return true;
}

static const char *name_at(size_t i, const void *context) {
    (void)context;
    return i < ROWS ? rows[i].name : NULL;
}

enum nib_status nib_job_find(const char *name, struct nib_job *out, struct nib_error *error) {
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0) {
            nib_job_at(i, out);
            return NIB_OK;
        }
    const char *near = nib_suggest(name, name_at, NULL);
    if (near != NULL) return nib_fail(error, NIB_ENOTFOUND, "no job \"%s\"; did you mean \"%s\"?", name, near);
    char known[300] = "";
    size_t length = 0;
    for (size_t i = 0; i < ROWS && length < sizeof known; i++)
        length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", i == 0 ? "" : ", ", rows[i].name);
    return nib_fail(error, NIB_ENOTFOUND, "no job \"%s\"; expected %s", name, known);
}
