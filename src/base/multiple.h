/* Extents that several things must divide. */
#ifndef NIB_BASE_MULTIPLE_H
#define NIB_BASE_MULTIPLE_H

#include <stddef.h>

/* Of numbers of at least 1. */
static inline size_t nib_least_common_multiple(size_t a, size_t b) {
    size_t x = a, y = b;
    while (y != 0) {
        size_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

#endif
