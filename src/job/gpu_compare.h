/* One call of the plug-in against the emulator. */
#ifndef NIB_JOB_GPU_COMPARE_H
#define NIB_JOB_GPU_COMPARE_H

#include <nibble/quantize.h>
#include <nibble/unit.h>

#include "gpu/loader.h"
#include "job/gpu_report.h"
#include "job/gpu_subject.h"

struct nib_gpu_comparison {
    const struct nib_gpu *gpu;
    const struct nib_quantizer *quantizer;
    const struct nib_gpu_turn *turn;     /* of size 0 for none */
    const struct nib_unit *unit;         /* of rotations on the tensor cores */
    const float *rotated;                /* x as the emulator rotates it, or NULL */
    enum nib_axis axis;
    bool has_tensor_amax;
    float tensor_amax;
    int threads;
    uint64_t seed;                       /* of stochastic rounding */
};

/* Quantizes x on both sides (rotated first, where a rotation is given), and adds what differs: tensor scales, block
 * scales, codes, packed bytes, values. The device quantizes twice, without and with values, because other kernels may
 * do that. `dequantized` (may be NULL) counts the standalone dequantize kernel. */
NIB_CHECK enum nib_status nib_gpu_compare_quantize(const struct nib_gpu_comparison *how, struct nib_view x,
                                                   struct nib_gpu_counts *counts, struct nib_gpu_counts *dequantized,
                                                   struct nib_error *error);
/* The device against `q`, which the emulator made of x with every buffer but the codes; `device` describes the
 * quantizer, rotation and random numbers included. */
NIB_CHECK enum nib_status nib_gpu_compare_made(const struct nib_gpu *gpu, const struct nib_gpu_quantizer *device,
                                               struct nib_view x, bool has_tensor_amax, float tensor_amax,
                                               const struct nib_quantized *q, struct nib_gpu_counts *counts,
                                               struct nib_gpu_counts *dequantized, struct nib_error *error);
/* The standalone rotation of x (dense), against `emulator`. */
NIB_CHECK enum nib_status nib_gpu_compare_turned(const struct nib_gpu *gpu, const struct nib_gpu_rotation *device,
                                                 enum nib_axis axis, struct nib_view x, const float *emulator,
                                                 struct nib_gpu_counts *counts, struct nib_error *error);
/* The standalone rotation. */
NIB_CHECK enum nib_status nib_gpu_compare_rotate(const struct nib_gpu_comparison *how, struct nib_view x,
                                                 struct nib_gpu_counts *counts, struct nib_error *error);
/* The scale layout of 128 or 8 rows, against its definition. */
NIB_CHECK enum nib_status nib_gpu_compare_swizzle(const struct nib_gpu *gpu, size_t rows, size_t cols,
                                                  unsigned tile_rows, uint64_t seed, struct nib_gpu_counts *counts,
                                                  struct nib_error *error);

#endif
