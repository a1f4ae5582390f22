/* The error of a product, against exact sums of exact products. */
#include <nibble/gemm.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/threads.h"
#include "gemm/epilogue.h"
#include "gemm/view_value.h"
#include "unit/exact.h"
#include "unit/number.h"

/* A row of exact numbers: integers times powers of two. */
struct exact_row {
    int64_t *significand;
    int *lsb;
    bool finite;
};

static void set_element(struct exact_row *row, size_t i, double value) {
    if (!isfinite(value))
        row->finite = false;
    else
        nib_exact_split(value, &row->significand[i], &row->lsb[i]);
}

/* A row of an operand: element times its scales; exact in binary64 for every format here. */
static void operand_row(const struct nib_gemm *g, const struct nib_gemm_operand *x, size_t row, double tensor_scale,
                        const double *table, struct exact_row *out) {
    const struct nib_unit_matrix *m = &x->matrix;
    const void *bits = (const char *)m->bits + row * m->stride;
    out->finite = true;
    for (size_t i = 0; i < g->k; i++) {
        uint64_t code = nib_operand_load(m->operand, bits, i);
        double value = table != NULL ? table[code] : nib_operand_value(m->operand, code);
        if (m->scales != NULL) {
            struct nib_number s =
                nib_number_of_scale(g->unit->scale, m->scales[row * m->scale_stride + i / g->unit->scale_block]);
            value *= s.class == NIB_NUMBER_NAN ? NAN : ldexp((double)s.significand, s.lsb);
        }
        if (x->block_scales != NULL)
            value *= (double)x->block_scales[row / x->block_scale_rows * x->block_scale_stride + i / g->block_scale_k];
        set_element(out, i, value * tensor_scale);
    }
}

static void view_row(struct nib_view view, size_t row, struct exact_row *out) {
    out->finite = true;
    for (size_t i = 0; i < view.cols; i++) set_element(out, i, (double)nib_view_value(view, row, i));
}

static void exact_dot(const struct exact_row *a, const struct exact_row *b, size_t k, struct nib_exact *out) {
    nib_exact_clear(out);
    for (size_t i = 0; i < k; i++) {
        int64_t x = a->significand[i], y = b->significand[i];
        if (x == 0 || y == 0) continue;
        unsigned __int128 product = (unsigned __int128)(uint64_t)(x < 0 ? -x : x) * (uint64_t)(y < 0 ? -y : y);
        nib_exact_add_wide(out, (x < 0) != (y < 0), product, a->lsb[i] + b->lsb[i]);
    }
    nib_exact_carry(out);
}

/* Four rows of scratch for a thread, and the decoding tables of both operands. */
enum { ROWS = 4 };
struct scratch {
    struct exact_row row[ROWS];
    double table[2][256];
    bool has_table[2];
};
static void scratch_free(struct scratch *s) {
    for (int i = 0; i < ROWS; i++) free(s->row[i].significand), free(s->row[i].lsb);
    free(s);
}
static struct scratch *scratch_new(const struct nib_gemm *g, struct nib_error *error) {
    struct scratch *s = nib_alloc(1, sizeof *s, "scratch of an exact product", error);
    if (s == NULL) return NULL;
    bool all = true;
    for (int i = 0; i < ROWS; i++) {
        s->row[i].significand = nib_alloc(g->k, sizeof *s->row[i].significand, "a row of exact numbers", error);
        s->row[i].lsb = nib_alloc(g->k, sizeof *s->row[i].lsb, "a row of exact numbers", error);
        all = all && s->row[i].significand != NULL && s->row[i].lsb != NULL;
    }
    if (!all) {
        scratch_free(s);
        return NULL;
    }
    const enum nib_operand operand[2] = {g->a.matrix.operand, g->b.matrix.operand};
    for (int i = 0; i < 2; i++) {
        s->has_table[i] = nib_operand_bits(operand[i]) <= 8;
        for (unsigned code = 0; s->has_table[i] && code < 1u << nib_operand_bits(operand[i]); code++)
            s->table[i][code] = nib_operand_value(operand[i], code);
    }
    return s;
}
static const double *table_of(const struct scratch *s, int i) { return s->has_table[i] ? s->table[i] : NULL; }

static uint64_t sample_count(const struct nib_gemm *g, uint64_t most) {
    uint64_t all = (uint64_t)g->m * g->n;
    return most == 0 || most > all ? all : most;
}
/* Output i of `count`, evenly spaced. */
static size_t sample_at(const struct nib_gemm *g, uint64_t i, uint64_t count) {
    return (size_t)((unsigned __int128)i * ((uint64_t)g->m * g->n) / count);
}

static enum nib_status check_range(const struct nib_gemm *g, struct nib_error *error) {
    if (g->unit->accumulator != NIB_ACC_FP64 && g->m != 0 && g->n != 0) return NIB_OK;
    if (g->m == 0 || g->n == 0) return nib_fail(error, NIB_EINVAL, "an empty product has no error");
    return nib_fail(error, NIB_EINVAL, "unit %s: exact products of fp64 operands are not computed", g->unit->name);
}

/* Errors are written down per output and summed in order, so that threads do not show. */
struct sample {
    double error, exact;
    bool finite;
};

static struct sample sample_output(const struct nib_gemm *g, const void *d, size_t d_stride, size_t index,
                                   struct scratch *s, size_t *row_held) {
    size_t r = index / g->n, c = index % g->n;
    if (*row_held != r) operand_row(g, &g->a, r, 1, table_of(s, 0), &s->row[0]);
    *row_held = r;
    operand_row(g, &g->b, c, 1, table_of(s, 1), &s->row[1]);
    double value = nib_epilogue_decode(g, d, r * d_stride + c);
    struct sample out = {0, 0, s->row[0].finite && s->row[1].finite && isfinite(value)};
    if (!out.finite) return out;
    struct nib_exact dot, exact;
    exact_dot(&s->row[0], &s->row[1], g->k, &dot);
    nib_exact_clear(&exact);
    nib_exact_add_multiple(&exact, &dot, (double)g->alpha);
    if (g->beta != 0) nib_exact_add_double(&exact, (double)g->beta * (double)g->c[r * g->c_stride + c]);
    out.exact = nib_exact_value(&exact);
    struct nib_exact difference;
    nib_exact_clear(&difference);
    nib_exact_add_double(&difference, value);
    nib_exact_add_exact(&difference, &exact, -1);
    out.error = nib_exact_value(&difference);
    return out;
}

enum nib_status nib_gemm_measure(const struct nib_gemm *g, const void *d, size_t d_stride, uint64_t most, int threads,
                                 struct nib_gemm_error *out, struct nib_error *error) {
    enum nib_status status = check_range(g, error);
    if (status != NIB_OK) return status;
    uint64_t count = sample_count(g, most);
    struct sample *samples = nib_alloc(count, sizeof *samples, "sampled errors", error);
    if (samples == NULL) return NIB_ENOMEM;
    bool failed = false;
#pragma omp parallel num_threads(nib_threads(threads))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
        struct scratch *s = scratch_new(g, NULL);
        size_t row_held = SIZE_MAX;
        if (s == NULL) {
#pragma omp atomic write
            failed = true;
        }
#pragma omp for schedule(static)
        for (int64_t i = 0; i < (int64_t)count; i++)
            if (s != NULL) samples[i] = sample_output(g, d, d_stride, sample_at(g, (uint64_t)i, count), s, &row_held);
        if (s != NULL) scratch_free(s);
        nib_fpenv_leave(saved);
    }
    struct nib_gemm_error e = {.outputs = count};
    double squares = 0, exact_squares = 0, sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (!samples[i].finite) {
            e.nonfinite++;
            continue;
        }
        if (samples[i].error == 0) e.exact++;
        if (fabs(samples[i].error) > e.max_abs) e.max_abs = fabs(samples[i].error);
        sum += samples[i].error;
        squares += samples[i].error * samples[i].error;
        exact_squares += samples[i].exact * samples[i].exact;
    }
    free(samples);
    if (failed) return nib_fail(error, NIB_ENOMEM, "out of memory for exact products of %zu terms", g->k);
    double finite = (double)(count - e.nonfinite);
    e.rms = sqrt(squares / finite);
    e.mean = sum / finite;
    e.relative = sqrt(squares / exact_squares);
    *out = e;
    return NIB_OK;
}

struct parts {
    double y, a, b, both, interaction, accumulation, total;
};

/* Rows: A, B, Q(A), Q(B). */
static struct parts dissect_output(const struct nib_gemm *g, struct nib_view a, struct nib_view b, double scale_a,
                                   double scale_b, const void *d, size_t d_stride, size_t index, struct scratch *s) {
    size_t r = index / g->n, c = index % g->n;
    struct parts p = {0, 0, 0, 0, 0, 0, 0};
    view_row(a, r, &s->row[0]);
    view_row(b, c, &s->row[1]);
    operand_row(g, &g->a, r, scale_a, table_of(s, 0), &s->row[2]);
    operand_row(g, &g->b, c, scale_b, table_of(s, 1), &s->row[3]);
    double value = nib_epilogue_decode(g, d, r * d_stride + c);
    for (int i = 0; i < ROWS; i++)
        if (!s->row[i].finite) value = NAN;
    if (!isfinite(value)) return p;
    struct nib_exact y, qa, qb, both, x;
    exact_dot(&s->row[0], &s->row[1], g->k, &y);
    exact_dot(&s->row[2], &s->row[1], g->k, &qa);
    exact_dot(&s->row[0], &s->row[3], g->k, &qb);
    exact_dot(&s->row[2], &s->row[3], g->k, &both);
    x = y, p.y = nib_exact_value(&x);
    x = qa, nib_exact_add_exact(&x, &y, -1), p.a = nib_exact_value(&x);
    x = qb, nib_exact_add_exact(&x, &y, -1), p.b = nib_exact_value(&x);
    x = both, nib_exact_add_exact(&x, &y, -1), p.both = nib_exact_value(&x);
    nib_exact_add_exact(&x, &qa, -1), nib_exact_add_exact(&x, &qb, -1);
    nib_exact_add_exact(&x, &y, 1), nib_exact_add_exact(&x, &y, 1);
    p.interaction = nib_exact_value(&x);
    nib_exact_clear(&x), nib_exact_add_double(&x, value), nib_exact_add_exact(&x, &both, -1);
    p.accumulation = nib_exact_value(&x);
    nib_exact_add_exact(&x, &both, 1), nib_exact_add_exact(&x, &y, -1);
    p.total = nib_exact_value(&x);
    return p;
}

enum nib_status nib_gemm_dissect(const struct nib_gemm *g, struct nib_view a, struct nib_view b, float tensor_scale_a,
                                 float tensor_scale_b, const void *d, size_t d_stride, uint64_t most, int threads,
                                 struct nib_gemm_anatomy *out, struct nib_error *error) {
    enum nib_status status = check_range(g, error);
    if (status != NIB_OK) return status;
    if (a.rows != g->m || a.cols != g->k || b.rows != g->n || b.cols != g->k)
        return nib_fail(error, NIB_EINVAL, "original values of %zux%zu and %zux%zu; expected %zux%zu and %zux%zu",
                        a.rows, a.cols, b.rows, b.cols, g->m, g->k, g->n, g->k);
    if (g->beta != 0) return nib_fail(error, NIB_EINVAL, "the anatomy of an error needs beta = 0");
    uint64_t count = sample_count(g, most);
    struct parts *parts = nib_alloc(count, sizeof *parts, "sampled errors", error);
    if (parts == NULL) return NIB_ENOMEM;
    bool failed = false;
#pragma omp parallel num_threads(nib_threads(threads))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
        struct scratch *s = scratch_new(g, NULL);
        if (s == NULL) {
#pragma omp atomic write
            failed = true;
        }
#pragma omp for schedule(static)
        for (int64_t i = 0; i < (int64_t)count; i++)
            if (s != NULL)
                parts[i] = dissect_output(g, a, b, (double)tensor_scale_a, (double)tensor_scale_b, d, d_stride,
                                          sample_at(g, (uint64_t)i, count), s);
        if (s != NULL) scratch_free(s);
        nib_fpenv_leave(saved);
    }
    struct parts sum = {0, 0, 0, 0, 0, 0, 0};
    for (uint64_t i = 0; i < count; i++) {
        sum.y += parts[i].y * parts[i].y;
        sum.a += parts[i].a * parts[i].a;
        sum.b += parts[i].b * parts[i].b;
        sum.both += parts[i].both * parts[i].both;
        sum.interaction += parts[i].interaction * parts[i].interaction;
        sum.accumulation += parts[i].accumulation * parts[i].accumulation;
        sum.total += parts[i].total * parts[i].total;
    }
    free(parts);
    if (failed) return nib_fail(error, NIB_ENOMEM, "out of memory for exact products of %zu terms", g->k);
    *out = (struct nib_gemm_anatomy){count,
                                     sum.a / sum.y,
                                     sum.b / sum.y,
                                     sum.both / sum.y,
                                     sum.interaction / sum.y,
                                     sum.accumulation / sum.y,
                                     sum.total / sum.y};
    return NIB_OK;
}
