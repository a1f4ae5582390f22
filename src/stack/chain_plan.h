/* The GEMMs of a chain: which there are, their shapes, and where each has its record. */
#ifndef NIB_STACK_CHAIN_PLAN_H
#define NIB_STACK_CHAIN_PLAN_H

#include <nibble/chain.h>

/* The GEMMs of a layer: those of SwiGLU, or the single one. */
enum { NIB_CHAIN_GATE, NIB_CHAIN_UP, NIB_CHAIN_DOWN, NIB_CHAIN_GEMMS, NIB_CHAIN_SINGLE = 0 };
size_t nib_chain_gemms(const struct nib_chain *chain);

/* tokens, in and out as in fprop. */
struct nib_chain_shape {
    size_t tokens, in, out;
};
struct nib_chain_shape nib_chain_shape_of(const struct nib_chain *chain, size_t gemm);

/* `records`: nib_chain_records entries. */
struct nib_chain_record *nib_chain_record_at(const struct nib_chain *chain, struct nib_chain_record *records,
                                             size_t layer, enum nib_pass pass, size_t gemm);
/* Fills in depth, pass and GEMM of every record. */
void nib_chain_name_records(const struct nib_chain *chain, struct nib_chain_record *records);

#endif
