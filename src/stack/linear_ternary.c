/* PT2-LLM: alpha T + mu for each block of a row, T in {-1, 0, 1}; fitted to the weights, then to the activations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "base/memory.h"
#include "base/threads.h"
#include "stack/linear.h"

static bool round_all(const float *w, size_t m, double alpha, double mu, int8_t *t) {
    bool changed = false;
    for (size_t i = 0; i < m; i++) {
        double r = ((double)w[i] - mu) / alpha;
        int8_t level = r > 0.5 ? 1 : r < -0.5 ? -1 : 0;
        changed |= level != t[i];
        t[i] = level;
    }
    return changed;
}

unsigned nib_linear_ternary_fit(const float *w, size_t m, unsigned iterations, int8_t *t, double *alpha, double *mu) {
    double sum = 0, magnitudes = 0, kept = 0, count = 0;
    for (size_t i = 0; i < m; i++) sum += (double)w[i];
    *mu = sum / (double)m;
    for (size_t i = 0; i < m; i++) magnitudes += fabs((double)w[i] - *mu);
    for (size_t i = 0; i < m; i++) {
        double centred = (double)w[i] - *mu;
        t[i] = fabs(centred) <= 0.75 * magnitudes / (double)m ? 0 : centred > 0 ? 1 : -1;
        kept += t[i] * centred;
        count += abs(t[i]);
    }
    *alpha = count > 0 ? kept / count : 0;
    unsigned done = 0;
    for (bool changed = true; changed && done < iterations && *alpha > 0;) {
        double a = 0, b = 0, c = 0;
        for (size_t i = 0; i < m; i++) {
            a += t[i] * t[i];
            b += t[i];
            c += t[i] * (double)w[i];
        }
        double determinant = (double)m * a - b * b;
        if (!(determinant > 0)) break;
        *alpha = ((double)m * c - b * sum) / determinant;
        *mu = (a * sum - b * c) / determinant;
        changed = *alpha > 0 && round_all(w, m, *alpha, *mu, t);
        done++;
    }
    return done;
}

/* alpha and mu that leave the smallest error of the products with these inputs; s is their m x m second moment. */
static void fit_to_inputs(const float *w, size_t m, const double *s, size_t stride, const int8_t *t, double *alpha,
                          double *mu) {
    double tst = 0, ost = 0, oso = 0, wst = 0, wso = 0;
    for (size_t i = 0; i < m; i++) {
        double st = 0, so = 0;
        for (size_t j = 0; j < m; j++) {
            st += s[i * stride + j] * t[j];
            so += s[i * stride + j];
        }
        tst += t[i] * st;
        ost += st;
        oso += so;
        wst += (double)w[i] * st;
        wso += (double)w[i] * so;
    }
    double determinant = tst * oso - ost * ost;
    if (!(determinant > 1e-12 * tst * oso)) return; /* T or the inputs say too little */
    *alpha = (wst * oso - wso * ost) / determinant;
    *mu = (wso * tst - wst * ost) / determinant;
}

/* Every block of every row of w; `levels` has room for a block of each thread. */
static void fit_rows(const struct nib_linear_operand *w, unsigned block, unsigned iterations, const double *moment,
                     int8_t *levels, int threads, float *used) {
    size_t n = w->cols;
    int worker = 0;
#pragma omp parallel num_threads(threads)
    {
        int mine;
#pragma omp atomic capture
        mine = worker++;
        struct nib_fpenv saved = nib_fpenv_enter();
        int8_t *t = levels + (size_t)mine * block;
#pragma omp for schedule(static)
        for (size_t row = 0; row < w->rows; row++)
            for (size_t first = 0; first < n; first += block) {
                size_t m = n - first < block ? n - first : block;
                const float *from = w->presented + row * n + first;
                double alpha, mu;
                nib_linear_ternary_fit(from, m, iterations, t, &alpha, &mu);
                fit_to_inputs(from, m, moment + first * n + first, n, t, &alpha, &mu);
                for (size_t i = 0; i < m; i++) used[row * n + first + i] = (float)(alpha * t[i] + mu);
            }
        nib_fpenv_leave(saved);
    }
}

enum nib_status nib_linear_ternary(const struct nib_linear_operand *x, unsigned block, unsigned iterations, int threads,
                                   struct nib_linear_operand *w, struct nib_error *error) {
    size_t n = w->cols;
    int most = nib_threads_for(threads, w->rows);
    double *moment = nib_alloc_raw(n * n, sizeof *moment, "second moments", error);
    float *used = nib_alloc_raw(w->rows * n, sizeof *used, "ternary weights", error);
    int8_t *levels = nib_alloc_raw((size_t)most, block, "ternary levels", error);
    enum nib_status status = moment == NULL || used == NULL || levels == NULL ? NIB_ENOMEM : NIB_OK;
    if (status == NIB_OK) status = nib_linear_moment(x, threads, moment, error);
    if (status == NIB_OK) {
        fit_rows(w, block, iterations, moment, levels, most, used);
        int i = 0;
        while (w->memory[i] != NULL) i++;
        w->memory[i] = used;
        w->used = used;
    } else {
        free(used);
    }
    free(moment);
    free(levels);
    return status;
}
