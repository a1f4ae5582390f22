/* Walking K in another order: copies of the operands in that order. */
#ifndef NIB_GEMM_ORDER_H
#define NIB_GEMM_ORDER_H

#include <nibble/gemm.h>

struct nib_order_copy {
    void *memory[6];
};
/* Replaces the operands of `gemm` by copies whose instructions stand in the order asked for; block
 * scales move with their blocks. */
enum nib_status nib_order_apply(struct nib_gemm *gemm, struct nib_order_copy *copy, struct nib_error *error);
void nib_order_clear(struct nib_order_copy *copy);

#endif
