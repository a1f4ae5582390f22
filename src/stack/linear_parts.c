/* What recipes add to the plain products: clamping with a residual, masks, the gradient estimator. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/threads.h"
#include "stack/linear.h"

static void exchange(float *a, float *b) {
    float t = *a;
    *a = *b;
    *b = t;
}

/* The element of rank `rank`, by quickselect; x is reordered. */
static float select_rank(float *x, size_t count, size_t rank) {
    size_t low = 0, high = count - 1;
    while (low < high) {
        float pivot = x[low + (high - low) / 2];
        size_t i = low, j = high;
        while (i <= j) {
            while (x[i] < pivot) i++;
            while (x[j] > pivot) j--;
            if (i <= j) {
                exchange(&x[i++], &x[j]);
                if (j == 0) break;
                j--;
            }
        }
        if (rank <= j)
            high = j;
        else if (rank >= i)
            low = i;
        else
            return x[rank];
    }
    return x[low];
}

enum nib_status nib_linear_clamp(const float *x, size_t count, double quantile, float *clamped, float *rest,
                                 struct nib_error *error) {
    float *sorted = nib_alloc_raw(count, sizeof *sorted, "values to clamp", error);
    if (sorted == NULL) return NIB_ENOMEM;
    size_t numbers = 0;
    for (size_t i = 0; i < count; i++)
        if (!isnan(x[i])) sorted[numbers++] = x[i];
    float low = -INFINITY, high = INFINITY;
    if (numbers > 0) {
        size_t upper = (size_t)(quantile * (double)numbers);
        size_t lower = (size_t)((1 - quantile) * (double)numbers);
        low = select_rank(sorted, numbers, lower);
        high = select_rank(sorted, numbers, upper < numbers ? upper : numbers - 1);
    }
    for (size_t i = 0; i < count; i++) {
        clamped[i] = x[i] < low ? low : x[i] > high ? high : x[i];
        rest[i] = isnan(x[i]) ? 0 : x[i] - clamped[i];
    }
    free(sorted);
    return NIB_OK;
}

enum nib_status nib_linear_add_residual(const struct nib_linear_operand *x, const struct nib_linear_operand *w,
                                        float *y, int threads, struct nib_error *error) {
    size_t tokens = x->rows, in = x->cols, out = w->rows;
    float *columns = nib_alloc_raw(in * out, sizeof *columns, "transposed weights", error);
    int most = nib_threads_for(threads, tokens);
    double *sums = nib_alloc_raw((size_t)most * out, sizeof *sums, "sums", error);
    if (columns == NULL || sums == NULL) {
        free(columns);
        free(sums);
        return NIB_ENOMEM;
    }
    for (size_t o = 0; o < out; o++)
        for (size_t i = 0; i < in; i++) columns[i * out + o] = w->used[o * in + i];
    int worker = 0;
#pragma omp parallel num_threads(most)
    {
        int mine;
#pragma omp atomic capture
        mine = worker++;
        struct nib_fpenv saved = nib_fpenv_enter();
        double *sum = sums + (size_t)mine * out;
#pragma omp for schedule(static)
        for (size_t t = 0; t < tokens; t++) {
            memset(sum, 0, out * sizeof *sum);
            for (size_t i = 0; i < in; i++) {
                double r = (double)x->residual[t * in + i];
                const float *column = columns + i * out;
                if (r != 0)
                    for (size_t o = 0; o < out; o++) sum[o] += r * (double)column[o];
            }
            for (size_t o = 0; o < out; o++) y[t * out + o] = (float)((double)y[t * out + o] + sum[o]);
        }
        nib_fpenv_leave(saved);
    }
    free(columns);
    free(sums);
    return NIB_OK;
}

/* 1 where the element lies within the largest level. */
static enum nib_status make_mask(const struct nib_linear_operand *p, uint8_t **out, struct nib_error *error) {
    struct nib_quantizer_info info;
    nib_quantizer_describe(p->quantizer, &info);
    uint8_t *mask = nib_alloc_raw(p->tensor_rows, p->tensor_cols, "a mask", error);
    if (mask == NULL) return NIB_ENOMEM;
    for (size_t r = 0; r < p->tensor_rows; r++)
        for (size_t c = 0; c < p->tensor_cols; c++)
            mask[r * p->tensor_cols + c] = fabsf(nib_linear_scaled(p, r, c)) < info.block->element->max_magnitude;
    *out = mask;
    return NIB_OK;
}

/* The derivative of the soft step between neighbouring levels: (1/k)|u|^(1/k-1), u = 2x/delta - 1 with x from the lower
 * level on; 0 beyond the largest level. */
static enum nib_status make_surrogate(const struct nib_linear_operand *p, int power, float cap, float **out,
                                      struct nib_error *error) {
    struct nib_quantizer_info info;
    nib_quantizer_describe(p->quantizer, &info);
    const struct nib_element *element = info.block->element;
    size_t count = p->tensor_rows * p->tensor_cols;
    float *factor = nib_alloc_raw(count, sizeof *factor, "a gradient factor", error);
    if (factor == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        float scaled = nib_linear_scaled(p, i / p->tensor_cols, i % p->tensor_cols), below = NAN, above = NAN;
        for (unsigned rank = 0; rank < element->levels; rank++) {
            float level = element->level[element->code_of_rank[rank]];
            if (level <= scaled) below = level;
            if (level >= scaled && isnan(above)) above = level;
        }
        if (below == above) /* on a level: the interval above it, or below the largest */
            for (unsigned rank = 0; rank < element->levels; rank++) {
                float level = element->level[element->code_of_rank[rank]];
                if (level > below && above == below) above = level;
            }
        double slope;
        if (isnan(below) || isnan(above))
            slope = 0;
        else if (below == above)
            slope = 1.0 / power; /* |u| = 1 */
        else {
            double u = 2 * ((double)scaled - (double)below) / ((double)above - (double)below) - 1;
            slope = pow(fabs(u), 1.0 / power - 1) / power;
        }
        factor[i] = slope < (double)cap ? (float)slope : cap;
    }
    *out = factor;
    return NIB_OK;
}

enum nib_status nib_linear_keep(const struct nib_recipe *recipe, const struct nib_linear_operand operand[2],
                                struct nib_linear_saved *saved, struct nib_error *error) {
    const struct nib_pass_rule *wgrad = &recipe->pass[NIB_PASS_WGRAD];
    enum nib_status status = NIB_OK;
    for (int i = 0; i < 2 && status == NIB_OK; i++)
        if (recipe->slot[NIB_SLOT_FPROP_X + i].mask) status = make_mask(&operand[i], &saved->mask[i], error);
    if (status == NIB_OK && wgrad->surrogate > 0)
        status = make_surrogate(&operand[1], wgrad->surrogate, wgrad->surrogate_cap, &saved->surrogate, error);
    return status;
}
