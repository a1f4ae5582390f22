/* A bias report as a result file. */
#ifndef NIB_JOB_BIAS_FILE_H
#define NIB_JOB_BIAS_FILE_H

#include "io/hdf5_out.h"
#include "job/bias.h"

/* Groups of `file`:
 *   summary                  one row per class of tensors, quantizer and rotation
 *   tensors                  every statistic and count by view, quantizer and rotation
 *   by_rotation              the same minus that after the first rotation, paired by batch
 *   by_quantizer             the same minus that of the first quantizer, paired by batch
 *   levels                   count, share and mean error by view, quantizer, rotation and code
 *   scales                   blocks by view, quantizer, rotation and decode scale
 * A view is a tensor along one axis; its name, layer, GEMM and operand are coordinates. */
NIB_CHECK enum nib_status nib_bias_store(const struct nib_bias_result *bias, struct nib_result *file,
                                         struct nib_error *error);

#endif
