#include "base/threads.h"

#include <omp.h>

/* libgomp lays out a team on the stack, which OMP_NUM_THREADS=100000 overflows. */
enum { MOST_THREADS = 4096 };

int nib_threads(int requested) {
    int threads = requested > 0 ? requested : omp_get_max_threads();
    if (threads > MOST_THREADS) return MOST_THREADS;
    return threads > 0 ? threads : 1;
}

int nib_threads_for(int requested, size_t parts) {
    int threads = nib_threads(requested);
    if ((size_t)threads <= parts) return threads;
    return parts == 0 ? 1 : (int)parts;
}
