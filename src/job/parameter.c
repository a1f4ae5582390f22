/* Values of parameters from text, and finding parameters and columns by name. */
#include "job/job.h"

#include "base/error.h"
#include "base/number.h"
#include "base/suggest.h"
#include <stdio.h>
#include <string.h>

size_t nib_job_parameters(const struct nib_job *job) {
    size_t count = 0;
    while (job->parameters[count].name != NULL) count++;
    return count;
}

static const char *parameter_name(size_t i, const void *context) {
    const struct nib_job *job = context;
    return i < nib_job_parameters(job) ? job->parameters[i].name : NULL;
}

static const char *column_name(size_t i, const void *context) {
    const struct nib_job *job = context;
    return i < job->column_count ? job->columns[i].name : NULL;
}

static enum nib_status find(const struct nib_job *job, const char *what, const char *name,
                            const char *(*name_of)(size_t, const void *), size_t *out, struct nib_error *error) {
    for (size_t i = 0; name_of(i, job) != NULL; i++)
        if (strcmp(name_of(i, job), name) == 0) {
            *out = i;
            return NIB_OK;
        }
    const char *near = nib_suggest(name, name_of, job);
    if (near != NULL)
        return nib_fail(error, NIB_ENOTFOUND, "job %s has no %s \"%s\"; did you mean \"%s\"?", job->name, what, name,
                        near);
    char known[400] = "";
    size_t length = 0;
    for (size_t i = 0; name_of(i, job) != NULL && length < sizeof known; i++)
        length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", i == 0 ? "" : ", ", name_of(i, job));
    return nib_fail(error, NIB_ENOTFOUND, "job %s has no %s \"%s\"; expected %s", job->name, what, name, known);
}

enum nib_status nib_job_parameter(const struct nib_job *job, const char *name, size_t *out, struct nib_error *error) {
    return find(job, "parameter", name, parameter_name, out, error);
}

enum nib_status nib_job_column(const struct nib_job *job, const char *name, size_t *out, struct nib_error *error) {
    return find(job, "measure", name, column_name, out, error);
}

static enum nib_status parse_choice(const struct nib_parameter *parameter, const char *text, int64_t *out,
                                    struct nib_error *error) {
    char known[300] = "";
    size_t length = 0;
    for (int64_t i = 0; parameter->choices[i] != NULL; i++) {
        if (strcmp(parameter->choices[i], text) == 0) {
            *out = i;
            return NIB_OK;
        }
        if (length < sizeof known)
            length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", i == 0 ? "" : ", ",
                                       parameter->choices[i]);
    }
    return nib_fail(error, NIB_EINVAL, "%s is \"%s\"; expected one of %s", parameter->name, text, known);
}

enum nib_status nib_argument_parse(const struct nib_parameter *parameter, const char *text, struct nib_argument *out,
                                   struct nib_error *error) {
    struct nib_argument argument = {.given = true, .text = text, .path = text};
    enum nib_status status = NIB_OK;
    switch (parameter->type) {
    case NIB_PARAMETER_INTEGER:
        if (!nib_number_integer(text, parameter->low, parameter->high, &argument.integer))
            status = nib_fail(error, NIB_EINVAL, "%s is \"%s\"; expected an integer from %lld to %lld", parameter->name,
                              text, (long long)parameter->low, (long long)parameter->high);
        break;
    case NIB_PARAMETER_REAL:
        if (!nib_number_double(text, &argument.real) ||
            !(argument.real >= parameter->real_low && argument.real <= parameter->real_high))
            status = nib_fail(error, NIB_EINVAL, "%s is \"%s\"; expected a number from %g to %g", parameter->name, text,
                              parameter->real_low, parameter->real_high);
        break;
    case NIB_PARAMETER_CHOICE: status = parse_choice(parameter, text, &argument.integer, error); break;
    case NIB_PARAMETER_TEXT:
    case NIB_PARAMETER_FORMAT:
    case NIB_PARAMETER_TENSOR:
    case NIB_PARAMETER_FILE:
        if (text[0] == '\0') status = nib_fail(error, NIB_EINVAL, "%s is empty", parameter->name);
        break;
    }
    if (status == NIB_OK) *out = argument;
    return status;
}

enum nib_status nib_job_initial(const struct nib_job *job, struct nib_argument *out, struct nib_error *error) {
    enum nib_status status = NIB_OK;
    for (size_t i = 0; status == NIB_OK && job->parameters[i].name != NULL; i++) {
        out[i] = (struct nib_argument){.text = "", .path = ""};
        if (job->parameters[i].initial != NULL)
            status = nib_argument_parse(&job->parameters[i], job->parameters[i].initial, &out[i], error);
    }
    return status;
}
