/* The bias report: how much each quantizer shrinks each tensor, raw and rotated. */
#ifndef NIB_JOB_BIAS_H
#define NIB_JOB_BIAS_H

#include <nibble/measure.h>
#include <nibble/table.h>

#include "job/sample.h"
#include "job/view_of.h"

enum { NIB_AXIS_BY_ROLE = -1 };

struct nib_bias_request {
    /* "FILE", "FILE:tensor" or "FILE:glob". A bare FILE means its linear-layer tensors; a name or a glob
     * is taken at its word. */
    const char *const *files;
    size_t file_count;
    /* Random tensors of `sample_count` elements (rounded up to rows of 1024). */
    const struct nib_distribution *distributions;
    size_t distribution_count;
    uint64_t sample_count, seed; /* the seed also of stochastic rounding */

    const struct nib_quantizer *const *quantizers;
    size_t quantizer_count;
    const struct nib_rotation *const *rotations; /* the first is what the others are compared with */
    size_t rotation_count;

    bool cast_f64;             /* round binary64 tensors to binary32 instead of refusing them */
    int axis;                  /* enum nib_axis, or NIB_AXIS_BY_ROLE */
    enum nib_gemm gemm;        /* NONE: all that the operand takes part in */
    enum nib_operand operand;  /* NONE: by the tensor's name */
    int threads;
    /* Called from one thread, between measurements; `done` of `total` in elements. */
    void (*progress)(void *context, size_t done, size_t total, const char *tensor);
    void *context;
};

/* One tensor along one axis. */
struct nib_bias_view {
    char *tensor;              /* its name; the distribution's for a random tensor */
    const char *file;          /* "" for a random tensor */
    char module[64];
    int layer;
    enum nib_gemm gemm;
    enum nib_operand operand;
    enum nib_axis axis;
    size_t rows, cols;
};

/* One view through one quantizer, after one rotation. */
struct nib_bias_entry {
    struct nib_sums total;
    unsigned batches;
    float bits_per_value;
    float tensor_amax;         /* 0 where the format has no tensor scale */
    uint64_t scale_count[NIB_SCALE_BINS];
    struct nib_estimate estimate[NIB_STATISTICS];
    struct nib_level_estimate level[NIB_CODES];   /* by code */
    struct nib_estimate by_rotation[NIB_STATISTICS];  /* minus the same quantizer after the first rotation */
    struct nib_estimate by_quantizer[NIB_STATISTICS]; /* minus the first quantizer after the same rotation */
};

struct nib_bias_result;

NIB_CHECK enum nib_status nib_bias_run(const struct nib_bias_request *request, struct nib_bias_result **out,
                                       struct nib_error *error);
/* Finds what is wrong with a request (no such tensor, an extent that a rotation cannot take) without measuring. */
NIB_CHECK enum nib_status nib_bias_check(const struct nib_bias_request *request, struct nib_error *error);
void nib_bias_result_free(struct nib_bias_result *result);

size_t nib_bias_views(const struct nib_bias_result *result);
const struct nib_bias_view *nib_bias_view_at(const struct nib_bias_result *result, size_t view);
size_t nib_bias_quantizers(const struct nib_bias_result *result);
size_t nib_bias_rotations(const struct nib_bias_result *result);
const char *nib_bias_quantizer_name(const struct nib_bias_result *result, size_t quantizer);
const struct nib_element *nib_bias_element(const struct nib_bias_result *result, size_t quantizer);
const char *nib_bias_rotation_name(const struct nib_bias_result *result, size_t rotation);
const struct nib_bias_entry *nib_bias_entry_at(const struct nib_bias_result *result, size_t view, size_t rotation,
                                               size_t quantizer);
size_t nib_bias_skipped(const struct nib_bias_result *result); /* tensors of bare FILEs that are no linear layer's */

/* "weights, fprop", "activations, wgrad", "gaussian", ... */
void nib_bias_class_of(const struct nib_bias_view *view, char *out, size_t size);
/* "layers.15.mlp.down_proj.input, fprop along cols" */
void nib_bias_label_of(const struct nib_bias_view *view, char *out, size_t size);

/* Tables. Totals, levels: one row per view, quantizer and rotation (and level). Differences: rotated minus raw, and
 * quantizer minus the first. Summary: means over the tensors of a class. */
NIB_CHECK enum nib_status nib_bias_totals(const struct nib_bias_result *result, struct nib_table **out,
                                          struct nib_error *error);
NIB_CHECK enum nib_status nib_bias_levels(const struct nib_bias_result *result, struct nib_table **out,
                                          struct nib_error *error);
NIB_CHECK enum nib_status nib_bias_differences(const struct nib_bias_result *result, struct nib_table **out,
                                               struct nib_error *error);
NIB_CHECK enum nib_status nib_bias_summary(const struct nib_bias_result *result, struct nib_table **out,
                                           struct nib_error *error);
/* The columns of the summary, each tensor for itself. */
NIB_CHECK enum nib_status nib_bias_by_tensor(const struct nib_bias_result *result, struct nib_table **out,
                                             struct nib_error *error);
/* The most telling line: where a rotation parts the quantizers the most. */
void nib_bias_headline(const struct nib_bias_result *result, char *out, size_t size);

#endif
