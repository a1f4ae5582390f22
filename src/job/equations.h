/* The papers' equations beside what a bias report measured. Part of libnibble-expect. */
#ifndef NIB_JOB_EQUATIONS_H
#define NIB_JOB_EQUATIONS_H

#include "job/bias.h"

/* One row per equation, quantizer and view; `eta` is measured by products of random matrices of the same density. */
NIB_CHECK enum nib_status nib_bias_equations(const struct nib_bias_result *result,
                                             const struct nib_bias_request *request, struct nib_table **out,
                                             struct nib_error *error);

#endif
