/* Speed of the device's kernels. */
#ifndef NIB_JOB_GPU_BENCH_H
#define NIB_JOB_GPU_BENCH_H

#include "gpu/loader.h"
#include <nibble/table.h>

/* One row per kernel and shape (bf16): time, bandwidth, share of the device copy of the same shape, and for fused and
 * unfused rotations the time relative to quantization alone. */
NIB_CHECK enum nib_status nib_gpu_bench_run(const struct nib_gpu *gpu, const size_t (*shapes)[2], size_t shape_count,
                                            int repetitions, struct nib_table **out, struct nib_error *error);

#endif
