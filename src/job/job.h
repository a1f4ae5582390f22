/* Jobs: every analysis as typed parameters -> result table. The command line and experiments call them by name.
 *
 * A job is one row of jobs.def and one definition NIB_JOB(name) = {...} in job_<name>.c. It must be a function of its
 * arguments: the same table, bit for bit, for any number of threads, in any order, in any process. */
#ifndef NIB_JOB_JOB_H
#define NIB_JOB_JOB_H

#include <nibble/table.h>

#include "io/provenance.h"

enum nib_parameter_type {
    NIB_PARAMETER_TEXT,
    NIB_PARAMETER_INTEGER, /* in [low, high] */
    NIB_PARAMETER_REAL,    /* in [real_low, real_high] */
    NIB_PARAMETER_CHOICE,  /* one of `choices` */
    NIB_PARAMETER_FORMAT,  /* a built-in's name or the path of a file */
    NIB_PARAMETER_TENSOR, /* FILE:tensor; experiments expand FILE and FILE:glob */
    NIB_PARAMETER_FILE    /* a file, or a folder, or FILE:tensor, taken as it is; the job cites it */
};

struct nib_parameter {
    const char *name; /* as in experiment files: lower case, with underscores */
    enum nib_parameter_type type;
    const char *initial; /* the value where none is given; NULL: none */
    const char *help;    /* lower case, no full stop */
    int64_t low, high;
    double real_low, real_high;
    const char *const *choices; /* ended by NULL */
};

#define NIB_PARAM_TEXT(name, initial, help) {name, NIB_PARAMETER_TEXT, initial, help, 0, 0, 0, 0, NULL}
#define NIB_PARAM_FORMAT(name, initial, help) {name, NIB_PARAMETER_FORMAT, initial, help, 0, 0, 0, 0, NULL}
#define NIB_PARAM_TENSOR(name, help) {name, NIB_PARAMETER_TENSOR, NULL, help, 0, 0, 0, 0, NULL}
#define NIB_PARAM_FILE(name, help) {name, NIB_PARAMETER_FILE, NULL, help, 0, 0, 0, 0, NULL}
#define NIB_PARAM_INTEGER(name, initial, low, high, help) \
    {name, NIB_PARAMETER_INTEGER, initial, help, low, high, 0, 0, NULL}
#define NIB_PARAM_REAL(name, initial, low, high, help) {name, NIB_PARAMETER_REAL, initial, help, 0, 0, low, high, NULL}
#define NIB_PARAM_CHOICE(name, initial, choices, help) {name, NIB_PARAMETER_CHOICE, initial, help, 0, 0, 0, 0, choices}
#define NIB_PARAM_END {NULL, NIB_PARAMETER_TEXT, NULL, NULL, 0, 0, 0, 0, NULL}

/* The value of one parameter. Arguments of a job stand in the order of its parameters. */
struct nib_argument {
    bool given;       /* false: neither a value nor an initial one; the rest is blank */
    const char *text; /* as written; "" when not given */
    const char *path; /* of formats, tensors and files: what to open, seen from the working directory */
    int64_t integer;  /* of integers; of choices their index */
    double real;
};

struct nib_job {
    const struct nib_parameter *parameters; /* ended by NIB_PARAM_END */
    const struct nib_column *columns;       /* of the result table, whatever the arguments are */
    size_t column_count;
    /* Columns whose last bits depend on the mathematical library of the machine (logarithms and their kin); ended by
     * NULL. All others are the same bits everywhere. */
    const char *const *inexact;
    /* Finds at once, without computing, what is wrong with the arguments; may be NULL. */
    enum nib_status (*check)(const struct nib_argument *arguments, struct nib_error *error);
    /* `threads` >= 1 for this one call. */
    enum nib_status (*run)(const struct nib_argument *arguments, int threads, struct nib_table **out,
                           struct nib_error *error);
    /* Adds the formats and files that the arguments name; may be NULL. Tensor files are added by the caller. */
    enum nib_status (*cite)(const struct nib_argument *arguments, struct nib_provenance *provenance,
                            struct nib_error *error);
    /* From jobs.def: */
    const char *name, *summary;
};

extern const char *const nib_no_yes[]; /* the choices of a switch: "no", "yes", NULL */

#define NIB_JOB(name) const struct nib_job nib_job_##name

/* All jobs in the order of jobs.def; false past the end. */
bool nib_job_at(size_t i, struct nib_job *out);
/* NIB_ENOTFOUND suggests the nearest. */
NIB_CHECK enum nib_status nib_job_find(const char *name, struct nib_job *out, struct nib_error *error);

size_t nib_job_parameters(const struct nib_job *job);
/* Index of a parameter or a column; NIB_ENOTFOUND suggests the nearest. */
NIB_CHECK enum nib_status nib_job_parameter(const struct nib_job *job, const char *name, size_t *out,
                                            struct nib_error *error);
NIB_CHECK enum nib_status nib_job_column(const struct nib_job *job, const char *name, size_t *out,
                                         struct nib_error *error);
/* Reads a value; out->text and out->path point to `text`. */
NIB_CHECK enum nib_status nib_argument_parse(const struct nib_parameter *parameter, const char *text,
                                             struct nib_argument *out, struct nib_error *error);
/* The initial values of all parameters. */
NIB_CHECK enum nib_status nib_job_initial(const struct nib_job *job, struct nib_argument *out, struct nib_error *error);

#endif
