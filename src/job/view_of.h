/* What a tensor is in a training step, from its name, and along which axes it is quantized there. */
#ifndef NIB_JOB_VIEW_OF_H
#define NIB_JOB_VIEW_OF_H

#include <nibble/tensor.h>

/* Y = X W^T (fprop), dX = dY W (dgrad), dW = dY^T X (wgrad). NONE: no such GEMM is meant. */
enum nib_gemm { NIB_GEMM_NONE = -1, NIB_GEMM_FPROP, NIB_GEMM_DGRAD, NIB_GEMM_WGRAD, NIB_GEMMS };
enum nib_operand { NIB_OPERAND_NONE = -1, NIB_OPERAND_X, NIB_OPERAND_W, NIB_OPERAND_DY, NIB_OPERANDS };

extern const char *const nib_gemm_names[NIB_GEMMS + 1];       /* "fprop", ..., NULL */
extern const char *const nib_operand_names[NIB_OPERANDS + 1]; /* "x", "w", "dy", NULL */

/* The axis along which the operand is reduced in the GEMM, if it takes part in it. W is stored as
 * outputs x inputs, X as tokens x inputs, dY as tokens x outputs. */
bool nib_gemm_axis(enum nib_gemm gemm, enum nib_operand operand, enum nib_axis *axis);

/* What the name of a tensor tells. */
struct nib_tensor_role {
    enum nib_operand operand; /* NONE for a name that tells nothing */
    int layer;                /* the number after "layers.", -1 without one */
    char module[64];          /* "mlp.down_proj" */
    bool linear;              /* of a linear layer: two dimensions, no embedding, no norm */
};
void nib_tensor_role_of(const struct nib_tensor_info *info, struct nib_tensor_role *out);

#endif
