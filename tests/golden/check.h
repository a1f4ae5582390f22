/* One golden file against the quantizer that should reproduce it. */
#ifndef NIB_GOLDEN_CHECK_H
#define NIB_GOLDEN_CHECK_H

#include "golden/row.h"

struct tally {
    uint64_t files, compared, differing;
    char first[200];             /* where the first difference is */
};

/* Adds what comes out for TREE/DIRECTORY/NAME. False with a message when it cannot be checked at all. */
bool check_file(const struct row *row, const struct nib_quantizer *quantizer, const char *tree, const char *name,
                struct tally *tally);

#endif
