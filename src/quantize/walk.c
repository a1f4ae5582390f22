/* The walk over a tensor in tiles. */
#include "base/error.h"
#include "quantize/stages.h"

enum { TILE_ELEMENTS = 1 << 14 }; /* a tile stays in the second-level cache, unless one block does not */

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}
static size_t ceil_div(size_t a, size_t b) {
    return a / b + (a % b != 0);
}
static size_t at_least_one(size_t a) {
    return a > 0 ? a : 1;
}

static void divide_walk(struct nib_walk *w) {
    w->tile_inner = w->tile_blocks * w->block_size;
    w->tiles_across = ceil_div(w->outer, w->tile_rows);
    w->tiles_along = ceil_div(w->inner, w->tile_inner);
}

/* Tiles that keep to one line, and to one segment of it. */
static void narrow_walk(const struct nib_quantizer *q, struct nib_walk *w, size_t blocks) {
    size_t most = smaller(NIB_TILE, at_least_one(TILE_ELEMENTS / w->block_size));
    if (q->axes.tensor_scope == NIB_TENSOR_SCOPE_1X128) most = at_least_one(NIB_TENSOR_SEGMENT / w->block_size);
    w->tile_rows = 1;
    w->tile_blocks = q->axes.tensor_scope == NIB_TENSOR_SCOPE_1X128 ? most : smaller(blocks, most);
    if (w->block_size % 2 != 0) w->tile_blocks += w->tile_blocks % 2;
}

/* A block of a whole line is as long as the line, not as long as lines may be; where no axis looks at how many elements
 * a block has. */
static unsigned length_of(const struct nib_quantizer *q, size_t inner) {
    enum { LINES = 1024, STEP = 16 }; /* blocks beyond so many elements know no candidates and no TF32 */
    const struct nib_axes *axes = &q->axes;
    const size_t padded = at_least_one(ceil_div(inner, STEP)) * STEP;
    bool counts = axes->block_scale == NIB_BLOCK_SCALE_QUEST || axes->select != NIB_SELECT_NONE ||
                  axes->input_precision != NIB_INPUT_EXACT || axes->procedure != NIB_PROCEDURE_AXES;
    bool shorter = q->block->block_rows == 1 && q->block->block_cols > LINES && padded < q->block->block_cols;
    return shorter && !counts ? (unsigned)padded : q->block->block_cols;
}

void nib_walk_make(const struct nib_quantizer *q, struct nib_view x, enum nib_axis axis, struct nib_walk *out) {
    struct nib_walk w = {.x = x, .axis = axis, .scoped = nib_tensor_scoped(q)};
    w.outer = axis == NIB_ALONG_COLS ? x.rows : x.cols;
    w.inner = axis == NIB_ALONG_COLS ? x.cols : x.rows;
    w.block_rows = q->block->block_rows;
    w.block_size = length_of(q, w.inner);
    size_t bands = NIB_TILE / w.block_rows; /* bands of block_rows lines in a tile, at most */
    bands = at_least_one(smaller(bands, TILE_ELEMENTS / ((size_t)w.block_rows * w.block_size)));
    size_t blocks = at_least_one(ceil_div(w.inner, w.block_size));
    size_t odd = w.block_size % 2; /* a tile starts on a whole byte */
    if (axis == NIB_ALONG_COLS)    /* long along the line, which is contiguous */
        w.tile_blocks = blocks < bands ? blocks + (blocks & odd) : bands;
    else /* across the lines, whose elements are contiguous */
        w.tile_blocks = 1 + odd;
    if (odd && w.tile_blocks % 2 != 0) w.tile_blocks = w.tile_blocks > 1 ? w.tile_blocks - 1 : 2;
    w.tile_rows = at_least_one(bands / w.tile_blocks) * w.block_rows;
    if (w.scoped) narrow_walk(q, &w, blocks);
    divide_walk(&w);
    *out = w;
}

void nib_walk_deepen(struct nib_walk *w, size_t blocks) {
    if (w->axis != NIB_ALONG_ROWS || w->scoped || blocks <= w->tile_blocks || blocks * w->block_rows > NIB_TILE) return;
    w->tile_blocks = blocks;
    w->tile_rows = NIB_TILE / (blocks * w->block_rows) * w->block_rows;
    divide_walk(w);
}

enum nib_status nib_walk_rotate(const struct nib_rotation *rotation, const struct nib_isa *isa, struct nib_walk *w,
                                bool *fits, struct nib_error *error) {
    *fits = true;
    if (rotation == NULL || nib_rotation_is_identity(rotation)) return NIB_OK;
    enum nib_status status =
        nib_rotation_check(rotation, w->inner, w->axis == NIB_ALONG_COLS ? "columns" : "rows", error);
    if (status != NIB_OK) return status;
    size_t size = nib_rotation_size(rotation);
    if (size % w->block_size == 0) nib_walk_deepen(w, size / w->block_size);
    *fits = w->tile_inner % size == 0 || w->tiles_along == 1;
    w->rotation = rotation;
    w->rotate = nib_rotate_kernel_of(isa->name);
    return NIB_OK;
}

enum nib_status nib_sr_source_choose(const struct nib_quantizer *q, struct nib_view x,
                                     const struct nib_quantize_options *options, struct nib_sr_source *out,
                                     struct nib_error *error) {
    if (nib_axes_stochastic(&q->axes)) {
        enum nib_status status = nib_sr_source_make(nib_axes_random_bytes(&q->axes), x, options, out, error);
        if (status == NIB_OK) out->kind = q->axes.sr_source;
        return status;
    }
    if (options->random_bits != NULL)
        return nib_fail(error, NIB_EINVAL, "random bits are given, but quantizer %s does not round stochastically",
                        q->name);
    *out = (struct nib_sr_source){.bytes = 0,
                                  .seed = options->seed,
                                  .first = options->first, /* for scale_correction */
                                  .cols = options->tensor_cols != 0 ? options->tensor_cols : x.cols};
    return NIB_OK;
}
