/* GPTQ: columns are rounded one after the other, and what rounding one loses is made up for by those that follow, as
 * the inputs' second moments say. Scales are those of the weights before, so that the order of columns costs nothing
 * later. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/threads.h"
#include "core/key.h"
#include "core/round.h"
#include "format/quantizer.h"
#include "stack/linear.h"

struct hessian {
    size_t n;
    double *matrix; /* n x n; in the end U, upper triangular, the inverse being its transpose times it */
    size_t *order;  /* columns by falling diagonal */
    bool *dead;     /* columns whose input is always zero */
};

static void hessian_free(struct hessian *h) {
    free(h->matrix);
    free(h->order);
    free(h->dead);
}

/* 2/N X^T X, damped. */
static enum nib_status gather(const struct nib_linear_operand *x, double damping, int threads, struct hessian *h,
                              struct nib_error *error) {
    size_t n = x->cols;
    h->n = n;
    h->matrix = nib_alloc_raw(n * n, sizeof *h->matrix, "a Hessian", error);
    h->order = nib_alloc(n, sizeof *h->order, "an order of columns", error);
    h->dead = nib_alloc(n, sizeof *h->dead, "dead columns", error);
    if (h->matrix == NULL || h->order == NULL || h->dead == NULL) return NIB_ENOMEM;
    enum nib_status status = nib_linear_moment(x, threads, h->matrix, error);
    if (status != NIB_OK) return status;
    double mean = 0;
    for (size_t i = 0; i < n * n; i++) h->matrix[i] *= 2 / (double)x->rows;
    for (size_t i = 0; i < n; i++) {
        h->dead[i] = h->matrix[i * n + i] == 0;
        if (h->dead[i]) h->matrix[i * n + i] = 1;
        mean += h->matrix[i * n + i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) h->matrix[i * n + i] += damping * mean;
    return NIB_OK;
}

struct place {
    double diagonal;
    size_t column;
};
static int falling(const void *left, const void *right) {
    const struct place *a = left, *b = right;
    if (a->diagonal != b->diagonal) return a->diagonal > b->diagonal ? -1 : 1;
    return a->column < b->column ? -1 : 1;
}

static enum nib_status permute(struct hessian *h, struct nib_error *error) {
    size_t n = h->n;
    struct place *places = nib_alloc(n, sizeof *places, "an order of columns", error);
    double *moved = nib_alloc_raw(n * n, sizeof *moved, "a Hessian", error);
    if (places == NULL || moved == NULL) {
        free(places);
        free(moved);
        return NIB_ENOMEM;
    }
    for (size_t i = 0; i < n; i++) places[i] = (struct place){h->matrix[i * n + i], i};
    qsort(places, n, sizeof *places, falling);
    for (size_t i = 0; i < n; i++) h->order[i] = places[i].column;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) moved[i * n + j] = h->matrix[h->order[i] * n + h->order[j]];
    free(places);
    free(h->matrix);
    h->matrix = moved;
    return NIB_OK;
}

/* H = R R^T with R upper triangular, by Cholesky's method from the last column on. */
static bool decompose(double *a, size_t n, double *column) {
    for (size_t k = n; k-- > 0;) {
        double root = sqrt(a[k * n + k]);
        if (!(root > 0)) return false;
        for (size_t i = 0; i < k; i++) {
            column[i] = a[i * n + k] / root;
            a[i * n + k] = column[i];
            a[k * n + i] = 0;
        }
        a[k * n + k] = root;
        for (size_t i = 0; i < k; i++)
            for (size_t j = 0; j < k; j++) a[i * n + j] -= column[i] * column[j];
    }
    return true;
}

/* The inverse of an upper triangular matrix, in place: each row from those below it. */
static void invert(double *a, size_t n, double *given) {
    for (size_t i = n; i-- > 0;) {
        double *row = a + i * n, reciprocal = 1 / row[i];
        memcpy(given, row, n * sizeof *given);
        memset(row, 0, n * sizeof *row);
        for (size_t k = i + 1; k < n; k++)
            for (size_t j = k; j < n; j++) row[j] -= given[k] * a[k * n + j];
        for (size_t j = i + 1; j < n; j++) row[j] *= reciprocal;
        row[i] = reciprocal;
    }
}

/* U = R^-1, for then the inverse of H is U^T U. */
static enum nib_status factor(struct hessian *h, struct nib_error *error) {
    double *work = nib_alloc_raw(h->n, sizeof *work, "a column", error);
    if (work == NULL) return NIB_ENOMEM;
    bool definite = decompose(h->matrix, h->n, work);
    if (definite) invert(h->matrix, h->n, work);
    free(work);
    return definite ? NIB_OK
                    : nib_fail(error, NIB_ECONVERGE,
                               "GPTQ: the second moments of %zu inputs are not positive definite; "
                               "a larger damping helps",
                               h->n);
}

static double block_scale(const struct nib_linear_operand *w, size_t row, size_t col) {
    const struct nib_block *block = w->quantizer->block;
    const struct nib_quantized *q = &w->quantized;
    uint32_t code = 0;
    memcpy(&code, q->scales + (row / block->block_rows * q->scale_cols + col / block->block_cols) * q->scale_bytes,
           q->scale_bytes);
    return (double)nib_scale_decode(block->scale, code) *
           (block->has_tensor_scale ? (double)q->tensor_scale_decode : 1);
}

static void fit_row(const struct hessian *h, const struct nib_linear_operand *w, size_t row, double *x) {
    size_t n = h->n;
    const struct nib_quantizer *q = w->quantizer;
    for (size_t j = 0; j < n; j++) {
        size_t c = h->order[j];
        x[j] = h->dead[c] ? 0 : (double)w->presented[row * n + c];
    }
    for (size_t j = 0; j < n; j++) {
        size_t c = h->order[j];
        const double *u = h->matrix + j * n;
        double scale = block_scale(w, row, c);
        float scaled = scale != 0 ? (float)(x[j] / scale) : 0;
        uint8_t code = (uint8_t)nib_round_code(&q->rule, nib_bits_of_float(scaled));
        double lost = (x[j] - (double)q->block->element->level[code] * scale) / u[j];
        w->quantized.codes[row * n + c] = code;
        for (size_t l = j + 1; l < n; l++) x[l] -= lost * u[l];
    }
}

static void pack(struct nib_quantized *q) {
    for (size_t r = 0; q->packed != NULL && r < q->rows; r++)
        for (size_t i = 0; i < q->packed_stride; i++) {
            const uint8_t *code = q->codes + r * q->cols + 2 * i;
            unsigned high = 2 * i + 1 < q->cols ? code[1] : 0;
            q->packed[r * q->packed_stride + i] = (uint8_t)(code[0] | high << 4);
        }
}

static enum nib_status fit(const struct hessian *h, struct nib_linear_operand *w, int threads,
                           struct nib_error *error) {
    int most = nib_threads_for(threads, w->rows);
    double *work = nib_alloc_raw((size_t)most * h->n, sizeof *work, "rows of weights", error);
    if (work == NULL) return NIB_ENOMEM;
    int worker = 0;
#pragma omp parallel num_threads(most)
    {
        int mine;
#pragma omp atomic capture
        mine = worker++;
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(static)
        for (size_t row = 0; row < w->rows; row++) fit_row(h, w, row, work + (size_t)mine * h->n);
        nib_fpenv_leave(saved);
    }
    free(work);
    pack(&w->quantized);
    return nib_dequantize(w->quantizer, &w->quantized, w->quantized.values, error);
}

enum nib_status nib_linear_gptq(const struct nib_linear_operand *x, double damping, int threads,
                                struct nib_linear_operand *w, struct nib_error *error) {
    struct hessian h = {0};
    enum nib_status status = gather(x, damping, threads, &h, error);
    if (status == NIB_OK) status = permute(&h, error);
    if (status == NIB_OK) status = factor(&h, error);
    if (status == NIB_OK) status = fit(&h, w, threads, error);
    hessian_free(&h);
    return status;
}
