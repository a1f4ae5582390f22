/* Weights as numbers, from whatever type holds them. */
#include "stack/stack.h"

#include "base/fpenv.h"
#include "base/threads.h"
#include "core/widen.h"
#include <math.h>
#include <string.h>

enum { CHUNK = 4096 };

/* Elements first, first + 1, ... */
static void widen(const struct nib_stack_weight *weight, size_t first, size_t count, double *out) {
    if (weight->f64 != NULL) {
        memcpy(out, (const char *)weight->f64 + first * sizeof *out, count * sizeof *out);
        return;
    }
    float values[CHUNK];
    nib_widen(weight->view, first, count, values);
    for (size_t i = 0; i < count; i++) out[i] = (double)values[i];
}

static void narrow(const struct nib_stack_weight *weight, size_t first, size_t count, float *out) {
    if (weight->f64 == NULL) {
        nib_widen(weight->view, first, count, out);
        return;
    }
    double values[CHUNK];
    widen(weight, first, count, values);
    for (size_t i = 0; i < count; i++) out[i] = (float)values[i];
}

/* Into one of the two. */
static void convert(const struct nib_stack_weight *weight, int threads, double *wide, float *single) {
    size_t elements = weight->rows * weight->cols;
    int64_t chunks = (int64_t)((elements + CHUNK - 1) / CHUNK);
#pragma omp parallel num_threads(nib_threads_for(threads, elements / (16 * CHUNK)))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(static)
        for (int64_t chunk = 0; chunk < chunks; chunk++) {
            size_t first = (size_t)chunk * CHUNK, count = elements - first < CHUNK ? elements - first : CHUNK;
            if (wide != NULL)
                widen(weight, first, count, wide + first);
            else
                narrow(weight, first, count, single + first);
        }
        nib_fpenv_leave(saved);
    }
}

void nib_stack_weight_f64(const struct nib_stack_weight *weight, int threads, double *out) {
    convert(weight, threads, out, NULL);
}

void nib_stack_weight_f32(const struct nib_stack_weight *weight, int threads, float *out) {
    convert(weight, threads, NULL, out);
}

size_t nib_stack_weight_nonfinite(const struct nib_stack_weight *weight, int threads) {
    size_t elements = weight->rows * weight->cols, found = 0;
    int64_t chunks = (int64_t)((elements + CHUNK - 1) / CHUNK);
#pragma omp parallel num_threads(nib_threads_for(threads, elements / (16 * CHUNK))) reduction(+ : found)
    {
        struct nib_fpenv saved = nib_fpenv_enter();
        double values[CHUNK];
#pragma omp for schedule(static)
        for (int64_t chunk = 0; chunk < chunks; chunk++) {
            size_t first = (size_t)chunk * CHUNK, count = elements - first < CHUNK ? elements - first : CHUNK;
            widen(weight, first, count, values);
            for (size_t i = 0; i < count; i++) found += !isfinite(values[i]);
        }
        nib_fpenv_leave(saved);
    }
    return found;
}
