/* How many threads a call may use. */
#ifndef NIB_BASE_THREADS_H
#define NIB_BASE_THREADS_H

/* `requested` > 0 wins; 0 means OMP_NUM_THREADS or all processors. At least 1. */
int nib_threads(int requested);

#endif
