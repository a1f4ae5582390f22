#include <stdlib.h>
#include "base/error.h"
#include "base/fpenv.h"
#include "quantize/stages.h"
#include "quantize/quantize_ref.h"

/* The tile that holds the element is loaded as for quantizing, and its block goes through the reference. */
static void explain_block(const struct nib_quantizer *q, const struct nib_walk *w, const struct nib_isa *isa,
                          const struct nib_tensor_scale *t, size_t line, size_t at, struct nib_scratch *scratch,
                          struct nib_trace *trace) {
    size_t first_line = line / w->tile_rows * w->tile_rows, start = at / w->tile_inner * w->tile_inner;
    nib_tile_load(w, isa, first_line, start, scratch->x);
    size_t band = (line - first_line) / w->block_rows * w->block_rows;
    size_t column = (at - start) / w->block_size * w->block_size;
    for (size_t r = 0; r < w->block_rows; r++)
        for (size_t j = 0; j < w->block_size; j++)
            scratch->block_x[r * w->block_size + j] = scratch->x[(band + r) * w->tile_inner + column + j];
    if (w->random.bytes > 0) {
        nib_tile_random(w, &isa->random, first_line, start, scratch->random);
        for (size_t r = 0; r < w->block_rows; r++)
            for (size_t j = 0; j < w->block_size; j++)
                scratch->block_random[r * w->block_size + j] =
                    nib_sr_word(scratch->random, (band + r) * w->tile_inner + column + j, w->random.bytes);
    }
    struct nib_ref_block block = {.x = scratch->block_x,
                                  .random = scratch->block_random,
                                  .count = (size_t)w->block_rows * w->block_size,
                                  .codes = scratch->block_codes,
                                  .values = scratch->block_values,
                                  .trace = trace,
                                  .traced = (line - first_line - band) * w->block_size + (at - start - column)};
    nib_trace_tensor(trace, q, t);
    nib_ref_quantize(q, t, &block);
}

/* The elements whose amax decides on the tensor scale of element (row, col). */
static struct nib_view scope_of(const struct nib_quantizer *q, struct nib_view x, bool along_cols, size_t row,
                                size_t col) {
    if (!nib_tensor_scoped(q)) return x;
    size_t size = x.dtype == NIB_F32 ? 4 : 2, inner = along_cols ? x.cols : x.rows, start = 0;
    if (q->axes.tensor_scope == NIB_TENSOR_SCOPE_1X128) {
        start = (along_cols ? col : row) / NIB_TENSOR_SEGMENT * NIB_TENSOR_SEGMENT;
        inner = inner - start < NIB_TENSOR_SEGMENT ? inner - start : NIB_TENSOR_SEGMENT;
    }
    size_t first_row = along_cols ? row : start, first_col = along_cols ? start : col;
    x.data = (const char *)x.data + (first_row * x.stride + first_col) * size;
    x.rows = along_cols ? 1 : inner;
    x.cols = along_cols ? inner : 1;
    return x;
}

enum nib_status nib_quantize_explain(const struct nib_quantizer *q, struct nib_view x,
                                     const struct nib_quantize_options *given, size_t row, size_t col,
                                     struct nib_trace *out, struct nib_error *error) {
    struct nib_quantize_options copy = given != NULL ? *given : (struct nib_quantize_options){.threads = 0};
    const struct nib_quantize_options *options = &copy;
    float *rotated = NULL;
    const struct nib_isa *isa;
    bool reference;
    if (q == NULL || out == NULL) return nib_fail(error, NIB_EINVAL, "the quantizer or the result is NULL");
    enum nib_status status = nib_view_check(x, error);
    if (status == NIB_OK && (row >= x.rows || col >= x.cols))
        status = nib_fail(error, NIB_EINVAL, "element %zu,%zu lies outside the %zu x %zu tensor (counted from 0)", row,
                          col, x.rows, x.cols);
    if (status == NIB_OK) status = nib_isa_choose(options->isa, &isa, &reference, error);
    struct nib_sr_source random;
    if (status == NIB_OK) status = nib_sr_source_choose(q, x, options, &random, error);
    if (status == NIB_OK) status = nib_rotate_apart(q, isa, &x, &copy, &rotated, error);
    if (status != NIB_OK) return status;
    struct nib_walk walk;
    bool fits;
    nib_walk_make(q, x, options->axis, &walk);
    status = nib_walk_rotate(options->rotation, isa, &walk, &fits, error);
    walk.random = random;
    struct nib_scratch *scratch = status == NIB_OK ? nib_scratch_new(&walk, error) : NULL;
    if (status == NIB_OK && scratch == NULL) status = NIB_ENOMEM;
    if (status != NIB_OK) {
        free(rotated);
        return status;
    }
    struct nib_fpenv saved = nib_fpenv_enter();
    struct nib_tensor_scale scale;
    struct nib_trace trace = {0};
    bool along_cols = options->axis == NIB_ALONG_COLS;
    status = nib_tensor_scale_choose(q, scope_of(q, x, along_cols, row, col), options, isa, &scale, error);
    if (status == NIB_OK)
        explain_block(q, &walk, isa, &scale, along_cols ? row : col, along_cols ? col : row, scratch, &trace);
    nib_fpenv_leave(saved);
    nib_scratch_free(scratch);
    free(rotated);
    if (status == NIB_OK) *out = trace;
    return status;
}
