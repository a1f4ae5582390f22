/* Expectations beside the measurements of a bias report. Part of libnibble-expect. */
#ifndef NIB_JOB_EXPECTED_H
#define NIB_JOB_EXPECTED_H

#include "job/bias.h"

/* One row per random tensor and quantizer, not rotated: each statistic as expected, and measured minus expected in
 * standard errors. A pair without an expectation has a note instead that says why. */
NIB_CHECK enum nib_status nib_bias_expected(const struct nib_bias_result *result,
                                            const struct nib_quantizer *const *quantizers, struct nib_table **out,
                                            struct nib_error *error);

#endif
