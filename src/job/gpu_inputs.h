/* Input sets of the comparison with the device. */
#ifndef NIB_JOB_GPU_INPUTS_H
#define NIB_JOB_GPU_INPUTS_H

#include <nibble/quantize.h>

enum nib_gpu_inputs {
    NIB_GPU_INPUTS_GAUSSIAN,
    NIB_GPU_INPUTS_T3,           /* heavy tails: Student's t, three degrees of freedom */
    NIB_GPU_INPUTS_TIES,         /* thresholds times scales, give or take steps of the input type */
    NIB_GPU_INPUTS_NAN,          /* Gaussian with NaN of every kind, and blocks of nothing else */
    NIB_GPU_INPUTS_INFINITY,     /* Gaussian with infinities */
    NIB_GPU_INPUTS_TINY,         /* rows that end in subnormals */
    NIB_GPU_INPUTS_HUGE,         /* rows that end in the largest numbers */
    NIB_GPU_INPUTS_SPREAD,       /* every exponent equally often */
    NIB_GPU_INPUTS_ZEROS,        /* zeros of both signs, a few numbers */
    NIB_GPU_INPUTS_BITS,         /* random bit patterns */
    NIB_GPU_INPUTS_COUNT
};
extern const char *const nib_gpu_inputs_names[NIB_GPU_INPUTS_COUNT];

/* A matrix that owns its data. */
struct nib_gpu_tensor {
    struct nib_view view;
    void *data;
};

/* TIES takes the quantizer and the direction; the others ignore them. */
NIB_CHECK enum nib_status nib_gpu_inputs_make(enum nib_gpu_inputs set, enum nib_dtype dtype, size_t rows, size_t cols,
                                              uint64_t seed, int threads, const struct nib_quantizer *quantizer,
                                              enum nib_axis axis, struct nib_gpu_tensor *out, struct nib_error *error);
void nib_gpu_tensor_free(struct nib_gpu_tensor *tensor);
/* The tensor in another input type, rounded to nearest. */
NIB_CHECK enum nib_status nib_gpu_tensor_cast(struct nib_view from, enum nib_dtype dtype, struct nib_gpu_tensor *out,
                                              struct nib_error *error);
const char *nib_gpu_dtype_name(enum nib_dtype dtype);

#endif
