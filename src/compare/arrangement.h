/* Whether two arrays that differ hold the same in another order. */
#ifndef NIB_COMPARE_ARRANGEMENT_H
#define NIB_COMPARE_ARRANGEMENT_H

#include <nibble/compare.h>

/* "equal, B in the 128x4 layout"; NULL where no order that is known makes them equal. */
const char *nib_arrangement(const struct nib_part *a, const struct nib_part *b);

#endif
