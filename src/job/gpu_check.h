/* Every kernel of the device against the emulator. */
#ifndef NIB_JOB_GPU_CHECK_H
#define NIB_JOB_GPU_CHECK_H

#include <nibble/unit.h>

#include "gpu/loader.h"
#include "job/gpu_report.h"

struct nib_gpu_check_request {
    const struct nib_gpu *gpu;
    bool full;                   /* 10^9 and more quantized values; otherwise well under a minute */
    bool small;                  /* a few thousand values a row, for memory checkers */
    bool shared;                 /* of the small ones only what uses shared memory, for race checkers */
    uint64_t seed;
    int threads;
    const char *const *files;    /* real tensors: every floating-point matrix of each file */
    size_t file_count;
    /* Called before each part; may be NULL. */
    void (*progress)(void *context, const char *part, size_t done, size_t total);
    void *context;
};

/* Rows are added to a new report. A difference is no failure of the call. */
NIB_CHECK enum nib_status nib_gpu_check_run(const struct nib_gpu_check_request *request, struct nib_table **out,
                                            struct nib_error *error);

/* The parts, in order. */
NIB_CHECK enum nib_status nib_gpu_check_quantize(const struct nib_gpu_check_request *request, struct nib_table *report,
                                                 struct nib_error *error);
NIB_CHECK enum nib_status nib_gpu_check_rotated(const struct nib_gpu_check_request *request, struct nib_table *report,
                                                struct nib_error *error);
NIB_CHECK enum nib_status nib_gpu_check_files(const struct nib_gpu_check_request *request, struct nib_table *report,
                                              struct nib_error *error);
NIB_CHECK enum nib_status nib_gpu_check_rest(const struct nib_gpu_check_request *request, struct nib_table *report,
                                             struct nib_error *error);
NIB_CHECK enum nib_status nib_gpu_check_products(const struct nib_gpu_check_request *request, struct nib_table *report,
                                                 struct nib_error *error);
NIB_CHECK enum nib_status nib_gpu_check_cublaslt(const struct nib_gpu_check_request *request, struct nib_table *report,
                                                 struct nib_error *error);

/* The model of mma.m16n8k16 bf16 on the open device, for rotations on the tensor cores; NULL when none is known. */
NIB_CHECK enum nib_status nib_gpu_check_rotation_unit(const struct nib_gpu *gpu, const struct nib_unit **out,
                                                      struct nib_error *error);

#endif
