/* Quantizing what a rotation makes of a tensor. */
#include <math.h>
#include <stdlib.h>
#include <nibble/rotate.h>
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/threads.h"
#include "core/key.h"
#include "quantize/stages.h"

enum nib_status nib_rotate_apart(const struct nib_quantizer *q, const struct nib_isa *isa, struct nib_view *x,
                                 struct nib_quantize_options *options, float **memory, struct nib_error *error) {
    struct nib_walk walk;
    bool fits;
    *memory = NULL;
    nib_walk_make(q, *x, options->axis, &walk);
    enum nib_status status = nib_walk_rotate(options->rotation, isa, &walk, &fits, error);
    if (status != NIB_OK || fits) return status;
    float *rotated = nib_alloc_raw(x->rows * x->cols, sizeof *rotated, "the rotated tensor", error);
    if (rotated == NULL) return NIB_ENOMEM;
    status = nib_rotate(options->rotation, *x, options->axis, options->threads, rotated, error);
    if (status != NIB_OK) {
        free(rotated);
        return status;
    }
    *x = (struct nib_view){rotated, NIB_F32, x->rows, x->cols, x->cols};
    options->rotation = NULL;
    *memory = rotated;
    return NIB_OK;
}

/* Tile by tile; a tile with NaN or infinity is looked through as the axes say. */
static uint32_t tile_amax(const struct nib_quantizer *q, const struct nib_walk *w, const struct nib_isa *isa,
                          size_t tile, float *x) {
    size_t line = tile / w->tiles_along * w->tile_rows, start = tile % w->tiles_along * w->tile_inner;
    nib_tile_load(w, isa, line, start, x);
    size_t count = w->tile_rows * w->tile_inner;
    uint32_t most = isa->amax_f32(x, count);
    if (most < NIB_BITS_INFINITY) return most;
    struct nib_view all = {x, NIB_F32, w->tile_rows, w->tile_inner, w->tile_inner};
    return nib_bits_of_float(nib_amax_compute(q, all, 1, isa));
}

enum nib_status nib_amax_choose(const struct nib_quantizer *q, struct nib_view x,
                                const struct nib_quantize_options *options, const struct nib_isa *isa, float *out,
                                struct nib_error *error) {
    if (options->rotation == NULL) {
        *out = nib_amax_compute(q, x, options->threads, isa);
        return NIB_OK;
    }
    struct nib_walk walk;
    bool fits;
    nib_walk_make(q, x, options->axis, &walk);
    enum nib_status status = nib_walk_rotate(options->rotation, isa, &walk, &fits, error);
    if (status != NIB_OK) return status;
    size_t tiles = walk.tiles_across * walk.tiles_along, size = walk.tile_rows * walk.tile_inner;
    int threads = nib_threads(options->threads);
    if ((size_t)threads > tiles) threads = tiles > 0 ? (int)tiles : 1;
    float *memory = nib_alloc((size_t)threads, size * sizeof *memory, "tiles", error);
    if (memory == NULL) return NIB_ENOMEM;
    uint32_t most = 0;
    int worker = 0;
#pragma omp parallel num_threads(threads) reduction(max : most)
    {
        int mine;
#pragma omp atomic capture
        mine = worker++;
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(static)
        for (size_t tile = 0; tile < tiles; tile++) {
            uint32_t here = tile_amax(q, &walk, isa, tile, memory + (size_t)mine * size);
            most = here > most ? here : most;
        }
        nib_fpenv_leave(saved);
    }
    free(memory);
    *out = most > NIB_BITS_INFINITY ? NAN : nib_float_of_bits(most);
    return NIB_OK;
}
