/* Quantizers and rotations in the terms of the plug-in. */
#ifndef NIB_JOB_GPU_SUBJECT_H
#define NIB_JOB_GPU_SUBJECT_H

#include <nibble/quantizer.h>
#include <nibble/rotate.h>
#include <nibble/unit.h>
#include <nibble/view.h>

#include "gpu/plugin.h"

/* The plug-in's description of a quantizer, without rotation. NIB_EUNAVAILABLE names the axis that the device's kernels
 * do not follow. */
NIB_CHECK enum nib_status nib_gpu_describe_quantizer(const struct nib_quantizer *quantizer, enum nib_axis axis,
                                                     struct nib_gpu_quantizer *out, struct nib_error *error);
/* A copy with 16x16 blocks. */
NIB_CHECK enum nib_status nib_gpu_square_blocks(const struct nib_quantizer *base, const struct nib_quantizer **out,
                                                struct nib_error *error);

enum { NIB_GPU_SUBJECTS = 32 };
/* The quantizers that are compared: built-in ones, MX rules through settings, and explored grids. */
struct nib_gpu_subjects {
    const struct nib_quantizer *quantizer[NIB_GPU_SUBJECTS];
    char name[NIB_GPU_SUBJECTS][80];
    bool rotated[NIB_GPU_SUBJECTS];            /* also compared behind rotations */
    size_t count;
};
NIB_CHECK enum nib_status nib_gpu_subjects_open(struct nib_gpu_subjects *out, struct nib_error *error);
/* "rne" or "sr". */
const char *nib_gpu_rounding_of(const struct nib_quantizer *quantizer);
void nib_gpu_subjects_close(struct nib_gpu_subjects *subjects);

/* A rotation of `size` with seeded signs, in both forms; the emulator's is the butterfly. */
struct nib_gpu_turn {
    char name[48];               /* "16 butterfly bf16", "" for none */
    struct nib_gpu_rotation device;
    const struct nib_rotation *emulator;
};
NIB_CHECK enum nib_status nib_gpu_turn_open(unsigned size, enum nib_gpu_rotate_by by, bool bf16, uint64_t seed,
                                            struct nib_gpu_turn *out, struct nib_error *error);
void nib_gpu_turn_close(struct nib_gpu_turn *turn);
/* The rotated x (rows x cols, binary32, dense) by the emulator: the butterfly, or the chain of matrix instructions of
 * `unit` and one multiplication. */
NIB_CHECK enum nib_status nib_gpu_turn_emulate(const struct nib_gpu_turn *turn, const struct nib_unit *unit,
                                               struct nib_view x, enum nib_axis axis, int threads, float *out,
                                               struct nib_error *error);

#endif
