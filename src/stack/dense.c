/* Plain linear layers: binary64, or one binary32 product of rounded operands. */
#include "stack/pass.h"

#include "base/fpenv.h"
#include "base/threads.h"
#include "stack/linear.h"
#include "stack/product.h"

enum { CHUNK = 4096 };

/* Values that binary32 holds already, or one rounding. */
static void to_f32(const double *from, float *to, size_t count, int threads) {
    int64_t chunks = (int64_t)((count + CHUNK - 1) / CHUNK);
#pragma omp parallel num_threads(nib_threads_for(threads, (size_t)chunks / 8))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(static)
        for (int64_t chunk = 0; chunk < chunks; chunk++) {
            size_t first = (size_t)chunk * CHUNK, end = first + CHUNK < count ? first + CHUNK : count;
            for (size_t i = first; i < end; i++) to[i] = (float)from[i];
        }
        nib_fpenv_leave(saved);
    }
}

static void from_f32(const float *from, double *to, size_t count, bool add, enum nib_width width, int threads) {
    int64_t chunks = (int64_t)((count + CHUNK - 1) / CHUNK);
#pragma omp parallel num_threads(nib_threads_for(threads, (size_t)chunks / 8))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(static)
        for (int64_t chunk = 0; chunk < chunks; chunk++) {
            size_t first = (size_t)chunk * CHUNK, end = first + CHUNK < count ? first + CHUNK : count;
            for (size_t i = first; i < end; i++) to[i] = (add ? to[i] : 0) + (double)from[i];
            nib_width_round_run(to + first, to + first, end - first, width);
        }
        nib_fpenv_leave(saved);
    }
}

/* The weight as the products take it, into pass->weight_f32. */
static const float *weight_f32(const struct nib_stack_pass *pass, const struct nib_stack_weight *weight) {
    nib_stack_weight_f32(weight, pass->threads, pass->weight_f32);
    if (pass->widths.narrow == NIB_WIDTH_BF16) nib_linear_round_bf16(pass->weight_f32, weight->rows * weight->cols);
    return pass->weight_f32;
}

void nib_dense_forward(const struct nib_stack_pass *pass, size_t number, const double *x, double *y) {
    const struct nib_stack_weight *weight = &pass->stack->weights[number];
    size_t out = weight->rows, in = weight->cols, tokens = pass->tokens;
    int threads = pass->threads;
    if (pass->widths.narrow == NIB_WIDTH_F64) {
        nib_stack_weight_f64(weight, threads, pass->weight);
        nib_product_f64(false, true, tokens, out, in, x, pass->weight, false, y, threads);
        return;
    }
    to_f32(x, pass->x_f32, tokens * in, threads);
    nib_product_f32(false, true, tokens, out, in, pass->x_f32, weight_f32(pass, weight), false, pass->y_f32, threads);
    from_f32(pass->y_f32, y, tokens * out, false, pass->widths.narrow, threads);
}

void nib_dense_backward(const struct nib_stack_pass *pass, size_t number, const double *x, const double *dy, bool add,
                        double *dx) {
    const struct nib_stack_weight *weight = &pass->stack->weights[number];
    size_t out = weight->rows, in = weight->cols, tokens = pass->tokens;
    int threads = pass->threads;
    double *dw = pass->result.gradient[number];
    if (pass->widths.narrow == NIB_WIDTH_F64) {
        nib_stack_weight_f64(weight, threads, pass->weight);
        nib_product_f64(false, false, tokens, in, out, dy, pass->weight, false, dx, threads);
        nib_product_f64(true, false, out, in, tokens, dy, x, add, dw, threads);
        return;
    }
    to_f32(dy, pass->y_f32, tokens * out, threads);
    nib_product_f32(false, false, tokens, in, out, pass->y_f32, weight_f32(pass, weight), false, pass->x_f32, threads);
    from_f32(pass->x_f32, dx, tokens * in, false, pass->widths.narrow, threads);
    to_f32(x, pass->x_f32, tokens * in, threads);
    nib_product_f32(true, false, out, in, tokens, pass->y_f32, pass->x_f32, false, pass->weight_f32, threads);
    from_f32(pass->weight_f32, dw, out * in, add, pass->widths.wide, threads);
}
