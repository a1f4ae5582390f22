/* What an observer of linear layers writes down. */
#ifndef NIB_STACK_DEPTH_OBSERVE_H
#define NIB_STACK_DEPTH_OBSERVE_H

#include "stack/depth.h"
#include "stack/likeness.h"

/* One operand of the GEMM at hand, through the quantizer without and with a rotation; NULL where it is not known. */
struct nib_depth_side {
    float *raw, *rotated;
    size_t rows, cols;
    bool quantized;
};

struct nib_depth_observer {
    const struct nib_depth_request *request;
    struct nib_depth_record *operands, *products; /* by layer, module and slot; by layer, module and pass */
    unsigned slots, passes;                       /* of a linear layer */
    struct nib_depth_side side[2];
    size_t done;
};
void nib_depth_observer_clear(struct nib_depth_observer *observer);
/* struct nib_linear_observer's functions; self is the observer. */
enum nib_status nib_depth_see_operand(void *self, const struct nib_operand_event *event, struct nib_error *error);
enum nib_status nib_depth_see_product(void *self, const struct nib_product_event *event, struct nib_error *error);

#endif
