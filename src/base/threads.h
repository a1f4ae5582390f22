/* How many threads a call may use. */
#ifndef NIB_BASE_THREADS_H
#define NIB_BASE_THREADS_H

#include <stddef.h>

/* `requested` > 0 wins; 0 means OMP_NUM_THREADS or all processors. At least 1. */
int nib_threads(int requested);
/* The same, but no more threads than there are parts of work: starting one costs more than a small part. */
int nib_threads_for(int requested, size_t parts);

#endif
