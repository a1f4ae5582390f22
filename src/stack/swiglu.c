#include "stack/modules.h"

#include "base/fpenv.h"
#include "base/threads.h"
#include <math.h>

enum { CHUNK = 1024 };

static double logistic(double x) {
    return 1 / (1 + exp(-x));
}

void nib_swiglu_forward(size_t count, const double *gate, const double *up, enum nib_width narrow, int threads,
                        double *h) {
    int64_t chunks = (int64_t)((count + CHUNK - 1) / CHUNK);
#pragma omp parallel num_threads(nib_threads_for(threads, (size_t)chunks))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(static)
        for (int64_t chunk = 0; chunk < chunks; chunk++) {
            size_t first = (size_t)chunk * CHUNK, end = first + CHUNK < count ? first + CHUNK : count;
            for (size_t i = first; i < end; i++)
                h[i] = nib_width_round(nib_width_round(gate[i] * logistic(gate[i]), narrow) * up[i], narrow);
        }
        nib_fpenv_leave(saved);
    }
}

void nib_swiglu_backward(size_t count, const double *gate, const double *up, const double *dh, enum nib_width narrow,
                         int threads, double *dgate, double *dup) {
    int64_t chunks = (int64_t)((count + CHUNK - 1) / CHUNK);
#pragma omp parallel num_threads(nib_threads_for(threads, (size_t)chunks))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(static)
        for (int64_t chunk = 0; chunk < chunks; chunk++) {
            size_t first = (size_t)chunk * CHUNK, end = first + CHUNK < count ? first + CHUNK : count;
            for (size_t i = first; i < end; i++) {
                double g = gate[i], s = logistic(g), slope = dh[i], through = nib_width_round(slope * up[i], narrow);
                dup[i] = nib_width_round(slope * nib_width_round(g * s, narrow), narrow);
                dgate[i] = nib_width_round(through * (s * (1 + g * (1 - s))), narrow);
            }
        }
        nib_fpenv_leave(saved);
    }
}

void nib_add(size_t count, const double *a, const double *b, enum nib_width width, int threads, double *sum) {
    int64_t chunks = (int64_t)((count + CHUNK - 1) / CHUNK);
#pragma omp parallel num_threads(nib_threads_for(threads, (size_t)chunks / 16))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(static)
        for (int64_t chunk = 0; chunk < chunks; chunk++) {
            size_t first = (size_t)chunk * CHUNK, end = first + CHUNK < count ? first + CHUNK : count;
            for (size_t i = first; i < end; i++) sum[i] = a[i] + b[i];
            nib_width_round_run(sum + first, sum + first, end - first, width);
        }
        nib_fpenv_leave(saved);
    }
}
