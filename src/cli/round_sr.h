/* Stochastic rounding of single numbers, for nibble round. */
#ifndef NIB_CLI_ROUND_SR_H
#define NIB_CLI_ROUND_SR_H

#include <nibble/element.h>

#include "cli/command.h"

struct nib_round_sr {
    const struct nib_element *element;
    const char *form;        /* of the sr_form axis */
    unsigned bits;           /* 0: the form's own, or 8 */
    bool exhaustive;
    uint64_t seed, stream;
    const uint32_t *values;  /* binary32 bits, no NaN */
    size_t count;
};
NIB_CHECK enum nib_status nib_round_sr_print(const struct nib_call *call, const struct nib_round_sr *request,
                                             struct nib_error *error);

#endif
