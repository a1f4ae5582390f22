/* The floating-point environment that all arithmetic of the library assumes: round to nearest, no
 * flush to zero, no denormals-are-zero. Every entry point, and every worker thread, sets it and
 * restores the caller's. */
#ifndef NIB_BASE_FPENV_H
#define NIB_BASE_FPENV_H

#include <stdint.h>

struct nib_fpenv {
    uint64_t control; /* MXCSR on x86-64, FPCR on AArch64 */
    int rounding;     /* of <fenv.h>, for the rest */
};

struct nib_fpenv nib_fpenv_enter(void);
void nib_fpenv_leave(struct nib_fpenv saved);

#endif
