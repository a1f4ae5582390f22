/* Experiments: a job, the axes along which its parameters vary, and the measures that are kept.
 *
 *     kind: experiment
 *     title: Shrinkage bias of every weight
 *     job: bias
 *     sweep:                          # the first axis varies slowest
 *       tensor: ../data/model.safetensors:*.weight
 *       quantizer: [e2m1-fp32, e1m2-fp32]
 *       seed: {from: 1, to: 8}
 *     set: {gemm: fprop}              # the same for every point
 *     keep: [sqnr_db, one_minus_alpha]
 *
 * Relative paths in the file are meant from its folder. The points are the product of the axes in row-major order. */
#ifndef NIB_EXPERIMENT_EXPERIMENT_H
#define NIB_EXPERIMENT_EXPERIMENT_H

#include "job/job.h"

enum { NIB_EXPERIMENT_AXES = 8, NIB_EXPERIMENT_PARAMETERS = 64, NIB_EXPERIMENT_COLUMNS = 256 };

struct nib_experiment_axis {
    size_t parameter; /* of the job */
    size_t count;
    struct nib_argument *values;
};

struct nib_experiment {
    char label[256]; /* the file, for errors */
    char title[160];
    char *text;      /* the file as read */
    char *folder;    /* that relative paths are meant from */
    char *settings;  /* changes on the command line, one a line; "" for none */
    char *settings_folder; /* that relative paths in them are meant from; "" for the working directory */
    struct nib_job job;
    size_t parameters; /* of the job */
    struct nib_argument fixed[NIB_EXPERIMENT_PARAMETERS];
    size_t axes;
    struct nib_experiment_axis axis[NIB_EXPERIMENT_AXES];
    size_t kept;
    size_t keep[NIB_EXPERIMENT_COLUMNS]; /* columns of the job's table */
    size_t points;
    char identity[33]; /* XXH3-128 of what decides the results: points, formats, inputs */
    char **strings;    /* what arguments point to */
    size_t string_count, string_capacity;
};

/* `settings` are "parameter=value,value,...": they replace the axis or value of the file. Paths in them are seen
 * from the working directory. */
NIB_CHECK enum nib_status nib_experiment_open(const char *path, const char *const *settings, size_t setting_count,
                                              struct nib_experiment **out, struct nib_error *error);
/* The same from a text. `folder` and `settings_folder` end in '/' or are "". */
NIB_CHECK enum nib_status nib_experiment_parse(const char *text, const char *label, const char *folder,
                                               const char *const *settings, size_t setting_count,
                                               const char *settings_folder, struct nib_experiment **out,
                                               struct nib_error *error);
void nib_experiment_close(struct nib_experiment *experiment);

/* Arguments of a point, in the order of the job's parameters. */
void nib_experiment_point(const struct nib_experiment *experiment, size_t point,
                          struct nib_argument out[NIB_EXPERIMENT_PARAMETERS]);
/* The place of a point along an axis. */
size_t nib_experiment_place(const struct nib_experiment *experiment, size_t point, size_t axis);
/* "quantizer=te-nvfp4 rotation=rht16" */
void nib_experiment_name(const struct nib_experiment *experiment, size_t point, char *out, size_t size);
/* Says behind an error which point it is of. */
void nib_experiment_blame(const struct nib_experiment *experiment, size_t point, struct nib_error *error);
/* The axes as a table: one row per point of the shard. */
NIB_CHECK enum nib_status nib_experiment_list(const struct nib_experiment *experiment, unsigned shard, unsigned shards,
                                              struct nib_table **out, struct nib_error *error);

/* What is wrong with each value, or (`every`) with each point. */
NIB_CHECK enum nib_status nib_experiment_check(const struct nib_experiment *experiment, bool every,
                                               struct nib_error *error);
/* Formats, seeds and input files; `contents` also reads and hashes the files. */
NIB_CHECK enum nib_status nib_experiment_cite(const struct nib_experiment *experiment, bool contents,
                                              struct nib_provenance *provenance, struct nib_error *error);

/* For the parts of this module. */
char *nib_experiment_keep(struct nib_experiment *experiment, const char *text, struct nib_error *error);
NIB_CHECK enum nib_status nib_experiment_expand(struct nib_experiment *experiment, struct nib_experiment_axis *axis,
                                                const char *folder, const char *text, struct nib_error *error);
NIB_CHECK enum nib_status nib_experiment_identify(struct nib_experiment *experiment, struct nib_error *error);

#endif
