/* What every entry point of this library sets and restores: the floating-point environment, and GSL's error handler,
 * which by default ends the program. */
#ifndef NIB_EXPECT_GUARD_H
#define NIB_EXPECT_GUARD_H

#include "base/fpenv.h"

struct nib_guard {
    struct nib_fpenv fpenv;
};

struct nib_guard nib_guard_enter(void);
void nib_guard_leave(struct nib_guard guard);

#endif
