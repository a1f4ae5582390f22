#include "stack/modules.h"

#include "base/fpenv.h"
#include "base/threads.h"
#include <math.h>

enum { COLUMNS = 64, ROWS = 16 };

static double sum_of_squares(const double *x, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += x[i] * x[i];
    return sum;
}

void nib_norm_forward(size_t tokens, size_t width, double epsilon, const double *x, const double *gain,
                      enum nib_width out, enum nib_width wide, int threads, double *inverse, double *y) {
#pragma omp parallel num_threads(nib_threads_for(threads, tokens / ROWS))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(static)
        for (int64_t t = 0; t < (int64_t)tokens; t++) {
            const double *restrict from = x + (size_t)t * width;
            double *restrict to = y + (size_t)t * width;
            double factor = 1 / sqrt(sum_of_squares(from, width) / (double)width + epsilon);
            inverse[t] = factor = nib_width_round(factor, wide);
            for (size_t i = 0; i < width; i++) to[i] = from[i] * factor * gain[i];
            nib_width_round_run(to, to, width, wide);
            nib_width_round_run(to, to, width, out);
        }
        nib_fpenv_leave(saved);
    }
}

/* dgain[i] = sum over tokens of dy x / rms, tokens ascending. */
static void gain_gradient(size_t tokens, size_t width, size_t first, size_t count, const double *x,
                          const double *inverse, const double *dy, enum nib_width wide, double *dgain) {
    double sums[COLUMNS] = {0};
    for (size_t t = 0; t < tokens; t++) {
        const double *row = x + t * width + first, *slope = dy + t * width + first;
        for (size_t i = 0; i < count; i++) sums[i] += slope[i] * (row[i] * inverse[t]);
    }
    nib_width_round_run(sums, dgain + first, count, wide);
}

void nib_norm_backward(size_t tokens, size_t width, const double *x, const double *gain, const double *inverse,
                       const double *dy, enum nib_width wide, int threads, double *dx, double *dgain) {
    int64_t parts = (int64_t)((width + COLUMNS - 1) / COLUMNS);
#pragma omp parallel num_threads(nib_threads_for(threads, tokens / ROWS))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(static) nowait
        for (int64_t part = 0; part < parts; part++) {
            size_t first = (size_t)part * COLUMNS, count = width - first < COLUMNS ? width - first : COLUMNS;
            gain_gradient(tokens, width, first, count, x, inverse, dy, wide, dgain);
        }
#pragma omp for schedule(static)
        for (int64_t t = 0; t < (int64_t)tokens; t++) {
            const double *restrict row = x + (size_t)t * width, *restrict slope = dy + (size_t)t * width;
            double *restrict to = dx + (size_t)t * width;
            double dot = 0, factor = inverse[t];
            for (size_t i = 0; i < width; i++) dot += slope[i] * gain[i] * row[i];
            double along = dot * factor * factor * factor / (double)width;
            for (size_t i = 0; i < width; i++) to[i] = slope[i] * gain[i] * factor - row[i] * along;
            nib_width_round_run(to, to, width, wide);
        }
        nib_fpenv_leave(saved);
    }
}
