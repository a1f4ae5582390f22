#include "base/threads.h"

#include <omp.h>

int nib_threads(int requested) {
    int threads = requested > 0 ? requested : omp_get_max_threads();
    return threads > 0 ? threads : 1;
}
