/* The butterfly on consecutive groups, compiled once per instruction set from kernel_body.inc. */
#ifndef NIB_ROTATE_KERNEL_H
#define NIB_ROTATE_KERNEL_H

#include "rotate/rotation.h"

/* `count` numbers, a multiple of the size; signs, butterfly, factor, output precision. `in` and `x` may be the same. */
typedef void nib_rotate_kernel(const struct nib_rotation *rotation, const float *in, float *x, size_t count);

nib_rotate_kernel nib_rotate_generic;
#if defined(__x86_64__)
nib_rotate_kernel nib_rotate_avx2, nib_rotate_avx512;
#endif

/* The kernel of an instruction set by its name; NULL is NIBBLE_ISA or the best one. A name that is unknown here,
 * or that the processor lacks, gives the generic one: the bits are the same. */
nib_rotate_kernel *nib_rotate_kernel_of(const char *isa);

/* `count` consecutive numbers, a multiple of the size, by any evaluation; `in` and `x` may be the same. */
void nib_rotate_groups(const struct nib_rotation *rotation, nib_rotate_kernel *kernel, const float *in, float *x,
                       size_t count);
/* Whether nib_rotate_kernel computes it by butterflies alone, or by sums of up to NIB_TERMS_MOST terms; otherwise only
 * the definition does. */
enum { NIB_TERMS_MOST = 64 };
bool nib_rotation_is_fast(const struct nib_rotation *rotation);
bool nib_rotation_sums_terms(const struct nib_rotation *rotation);
/* Whether the rotation changes nothing, not even the payload of a NaN. */
bool nib_rotation_is_identity(const struct nib_rotation *rotation);
/* NIB_EINVAL naming the padded extent unless it is a multiple of the size. */
enum nib_status nib_rotation_check(const struct nib_rotation *rotation, size_t extent, const char *what,
                                   struct nib_error *error);

#endif
