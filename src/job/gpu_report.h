/* What a comparison of the device with the emulator found: one row per kernel, quantizer, direction, input type,
 * rotation, rounding and input set. */
#ifndef NIB_JOB_GPU_REPORT_H
#define NIB_JOB_GPU_REPORT_H

#include <nibble/table.h>

/* What stands in the result column of a comparison. */
#define NIB_GPU_EQUAL "equal"
#define NIB_GPU_DIFFERS "DIFFERS"
#define NIB_GPU_FAILED "FAILED"
#define NIB_GPU_NOT_RUN "not run on this device"

/* Columns of the report. */
enum nib_gpu_column {
    NIB_GPU_PART, NIB_GPU_NAME, NIB_GPU_AXIS, NIB_GPU_TYPE, NIB_GPU_ROTATION, NIB_GPU_ROUNDING, NIB_GPU_INPUTS,
    NIB_GPU_CALLS, NIB_GPU_COMPARED, NIB_GPU_TENSOR, NIB_GPU_SCALES, NIB_GPU_CODES, NIB_GPU_BYTES, NIB_GPU_VALUES,
    NIB_GPU_RESULT, NIB_GPU_FIRST, NIB_GPU_COLUMNS
};

/* Where one case stands; strings must outlive the call that begins the row. */
struct nib_gpu_case {
    const char *part;            /* "quantize", "dequantize", "rotate", "swizzle", "convert", "mma", "cublaslt" */
    const char *name;            /* quantizer, conversion or instruction */
    const char *axis, *type, *rotation, *rounding, *inputs; /* "" where they do not apply */
};

/* Differences counted by stage; `values` also counts outputs of products and rotations. */
struct nib_gpu_counts {
    uint64_t calls, compared;    /* calls of the plug-in; elements (quantize), outputs, bytes or conversions */
    uint64_t tensor, scales, codes, bytes, values;
    char first[192];             /* the first difference: stage, place, both values */
};

NIB_CHECK enum nib_status nib_gpu_report_new(struct nib_table **out, struct nib_error *error);
/* A row with what was counted: NIB_GPU_EQUAL or NIB_GPU_DIFFERS. */
NIB_CHECK enum nib_status nib_gpu_report_add(struct nib_table *report, const struct nib_gpu_case *what,
                                             const struct nib_gpu_counts *counts, struct nib_error *error);
/* A row that could not run: `result` is NIB_GPU_NOT_RUN or "no emulator counterpart yet". */
NIB_CHECK enum nib_status nib_gpu_report_skip(struct nib_table *report, const struct nib_gpu_case *what,
                                              const char *result, const char *why, struct nib_error *error);
/* A row whose kernel failed: it counts as a difference, and the check goes on. Statuses that are no failure of the
 * device come back unchanged. */
NIB_CHECK enum nib_status nib_gpu_report_failure(struct nib_table *report, const struct nib_gpu_case *what,
                                                 enum nib_status status, struct nib_error *error);
uint64_t nib_gpu_counts_different(const struct nib_gpu_counts *counts);
/* Notes the first difference; later ones only count. */
void nib_gpu_counts_note(struct nib_gpu_counts *counts, const char *format, ...) NIB_PRINTF(2, 3);

/* Totals over a whole report, this one or that of job/gpu_stack.h. Every other result than the four words is that of a
 * row without a counterpart. */
struct nib_gpu_totals {
    uint64_t rows, quantized, rotated, products, differing_rows, not_run, without_counterpart;
};
void nib_gpu_report_totals(const struct nib_table *report, struct nib_gpu_totals *out);
/* One row per part, name and rotation, summed. */
NIB_CHECK enum nib_status nib_gpu_report_summary(const struct nib_table *report, struct nib_table **out,
                                                 struct nib_error *error);

#endif
