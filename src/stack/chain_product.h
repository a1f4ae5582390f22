/* One GEMM of a chain, quantized, beside the exact product of the same inputs. */
#ifndef NIB_STACK_CHAIN_PRODUCT_H
#define NIB_STACK_CHAIN_PRODUCT_H

#include "stack/chain_plan.h"

/* Scratch of one thread for the largest GEMM of a chain. */
struct nib_chain_scratch {
    size_t size;
    float *given, *rotated;
    double *a, *b, *exact;
};
NIB_CHECK enum nib_status nib_chain_scratch_new(size_t elements, struct nib_chain_scratch *out,
                                                struct nib_error *error);
void nib_chain_scratch_free(struct nib_chain_scratch *scratch);

/* c = the product of binary64 matrices as they are. fprop: a = x (tokens x in), b = w (out x in), c tokens x out;
 * dgrad: a = dy, b = w, c tokens x in; wgrad: a = dy, b = x, c out x in. */
void nib_chain_exact(enum nib_pass pass, struct nib_chain_shape shape, const double *a, const double *b, double *c);

/* The same through quantizers and rotations, rounded to binary32; alpha of the operands, gain and SQNR of the result go
 * into `record`. a and b hold binary32 numbers. `stream` numbers the GEMM for stochastic rounding. */
NIB_CHECK enum nib_status nib_chain_multiply(const struct nib_chain *chain, enum nib_pass pass,
                                             struct nib_chain_shape shape, uint64_t stream, const double *a,
                                             const double *b, double *c, struct nib_chain_scratch *scratch,
                                             struct nib_chain_record *record, struct nib_error *error);

/* <x, y> in order of index. */
double nib_chain_dot(size_t count, const double *x, const double *y);

#endif
