#include "gemm/order.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

/* The step of K that stands at place `i` of `count`. */
static size_t step_at(const struct nib_gemm *g, size_t i, size_t count) {
    if (g->order == NIB_GEMM_DESCENDING) return count - 1 - i;
    size_t w = g->interleave, first = 0;
    while (i >= (count - first + w - 1) / w) i -= (count - first + w - 1) / w, first++;
    return first + i * w;
}

/* Copies `count` pieces of `bytes` each of every row, in the order. */
static enum nib_status reorder(const struct nib_gemm *g, const void *in, size_t rows, size_t stride, size_t count,
                               size_t bytes, void **out, struct nib_error *error) {
    char *copy = nib_alloc_raw(rows, count * bytes, "operands in the order of K", error);
    if (copy == NULL) return NIB_ENOMEM;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < count; i++)
            memcpy(copy + (r * count + i) * bytes, (const char *)in + r * stride + step_at(g, i, count) * bytes, bytes);
    *out = copy;
    return NIB_OK;
}

static enum nib_status reorder_operand(const struct nib_gemm *g, struct nib_gemm_operand *x, size_t rows, size_t step,
                                       void **memory, struct nib_error *error) {
    size_t count = g->k / step, bytes = nib_operand_bytes(x->matrix.operand, step);
    enum nib_status status = reorder(g, x->matrix.bits, rows, x->matrix.stride, count, bytes, &memory[0], error);
    if (status != NIB_OK) return status;
    x->matrix.bits = memory[0];
    x->matrix.stride = count * bytes;
    if (x->matrix.scales != NULL) {
        size_t scales = step / g->unit->scale_block;
        status = reorder(g, x->matrix.scales, rows, x->matrix.scale_stride, count, scales, &memory[1], error);
        if (status != NIB_OK) return status;
        x->matrix.scales = memory[1];
        x->matrix.scale_stride = count * scales;
    }
    if (x->block_scales != NULL) {
        size_t scale_rows = (rows + x->block_scale_rows - 1) / x->block_scale_rows;
        status = reorder(g, x->block_scales, scale_rows, x->block_scale_stride * sizeof(float), count, sizeof(float),
                         &memory[2], error);
        if (status != NIB_OK) return status;
        x->block_scales = memory[2];
        x->block_scale_stride = count;
    }
    return NIB_OK;
}

enum nib_status nib_order_apply(struct nib_gemm *g, struct nib_order_copy *copy, struct nib_error *error) {
    memset(copy, 0, sizeof *copy);
    size_t step = g->a.block_scales != NULL ? g->block_scale_k : g->unit->k;
    if (step < g->unit->scale_block) step = g->unit->scale_block;
    if (g->k % step != 0)
        return nib_fail(error, NIB_EINVAL, "K is %zu; expected a multiple of %zu to reorder its blocks", g->k, step);
    enum nib_status status = reorder_operand(g, &g->a, g->m, step, copy->memory, error);
    if (status == NIB_OK) status = reorder_operand(g, &g->b, g->n, step, copy->memory + 3, error);
    g->order = NIB_GEMM_ASCENDING;
    return status;
}

void nib_order_clear(struct nib_order_copy *copy) {
    for (size_t i = 0; i < sizeof copy->memory / sizeof *copy->memory; i++) free(copy->memory[i]);
}
