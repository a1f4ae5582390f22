/* (Random) Hadamard transforms along the reduction axis. */
#ifndef NIBBLE_ROTATE_H
#define NIBBLE_ROTATE_H

#include <nibble/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A rotation: y = (x * signs) H / sqrt(size) on consecutive groups of `size` elements along the axis, H the
 * Hadamard matrix of Sylvester, or of order 12, 20, 28 or 40 times one. How sums are formed, what they are
 * multiplied by and where they are rounded is part of the rotation. Built-ins are YAML files under
 * formats/rotations: "none", "rht16" (the fixed sign vector of TransformerEngine, quantizer-semantics row HD1),
 * "hadamard16", ... */
struct nib_rotation;

NIB_API NIB_CHECK enum nib_status nib_rotation_open(const char *name_or_path, const struct nib_rotation **out,
                                                    struct nib_error *error);
NIB_API NIB_CHECK enum nib_status nib_rotation_parse(const char *text, size_t length, const char *label,
                                                     const struct nib_rotation **out, struct nib_error *error);
/* The rotation that undoes this one up to rounding: the same evaluation with H transposed, signs afterwards, and the
 * factor that makes the product 1. */
NIB_API NIB_CHECK enum nib_status nib_rotation_inverse(const struct nib_rotation *rotation, const struct nib_rotation **out,
                                                       struct nib_error *error);
NIB_API void nib_rotation_close(const struct nib_rotation *rotation);
NIB_API const char *nib_rotation_name(const struct nib_rotation *rotation);
NIB_API unsigned nib_rotation_size(const struct nib_rotation *rotation); /* 1 for "none" */
NIB_API const char *nib_rotation_text(const struct nib_rotation *rotation);
NIB_API const char *nib_rotation_sha256(const struct nib_rotation *rotation);

/* out (rows x cols, binary32, dense) = the rotated x. The extent along the axis must be a multiple of
 * the size: NIB_EINVAL names the padded extent otherwise. A NaN in a group makes the whole group
 * 7FFFFFFF, the NaN of GPU arithmetic; "none" leaves every bit alone. */
NIB_API NIB_CHECK enum nib_status nib_rotate(const struct nib_rotation *rotation, struct nib_view x, enum nib_axis axis,
                                             int threads, float *out, struct nib_error *error);

#ifdef __cplusplus
}
#endif
#endif
