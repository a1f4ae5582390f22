#include "stack/modules.h"

#include "base/fpenv.h"
#include "base/threads.h"
#include <math.h>

void nib_rotary_table(size_t positions, size_t size, double theta, enum nib_width wide, double *cosine, double *sine) {
    size_t half = size / 2;
    for (size_t i = 0; i < half; i++) {
        double frequency = pow(theta, -2.0 * (double)i / (double)size);
        for (size_t position = 0; position < positions; position++) {
            double angle = (double)position * frequency;
            cosine[position * half + i] = nib_width_round(cos(angle), wide);
            sine[position * half + i] = nib_width_round(sin(angle), wide);
        }
    }
}

void nib_rotary_apply(size_t tokens, size_t length, size_t heads, size_t size, const double *cosine, const double *sine,
                      bool back, enum nib_width narrow, int threads, double *x) {
    size_t half = size / 2;
    double sign = back ? -1 : 1;
#pragma omp parallel num_threads(nib_threads_for(threads, tokens / 16))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(static)
        for (int64_t t = 0; t < (int64_t)tokens; t++) {
            const double *restrict c = cosine + (size_t)t % length * half, *restrict s =
                                                                               sine + (size_t)t % length * half;
            for (size_t head = 0; head < heads; head++) {
                double *restrict low = x + ((size_t)t * heads + head) * size, *restrict high = low + half;
                for (size_t i = 0; i < half; i++) {
                    double a = low[i], b = high[i], turn = sign * s[i];
                    low[i] = a * c[i] - b * turn;
                    high[i] = b * c[i] + a * turn;
                }
                nib_width_round_run(low, low, size, narrow);
            }
        }
        nib_fpenv_leave(saved);
    }
}
