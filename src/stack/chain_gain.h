/* How gains multiply along a chain, and what the signal's own gain is beside them. */
#ifndef NIB_STACK_CHAIN_GAIN_H
#define NIB_STACK_CHAIN_GAIN_H

#include <nibble/chain.h>

/* Products of the gains of the GEMMs on the way to a place. */
struct nib_chain_gain {
    double predicted, measured;
};
/* With one more GEMM on the way. */
struct nib_chain_gain nib_chain_gain_times(struct nib_chain_gain gain, const struct nib_chain_record *record);
/* Of two ways that meet. */
struct nib_chain_gain nib_chain_gain_joined(struct nib_chain_gain a, struct nib_chain_gain b);

/* Quantized against exact: gain, norm and angle go into `record`, beside the gain that leads here. */
NIB_CHECK enum nib_status nib_chain_compare(struct nib_chain_record *record, size_t count, const double *exact,
                                            const double *quantized, struct nib_chain_gain gain,
                                            struct nib_error *error);

#endif
