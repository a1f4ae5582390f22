/* Tensor scales that cover less than a tensor: a line along the axis, or a segment of one. */
#include <math.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/threads.h"
#include "quantize/stages.h"

/* A run of elements with a scale of its own: in tiles of one line. */
struct unit {
    size_t line, start, count;
    size_t first_tile, tiles;
};

static size_t units_of_line(const struct nib_quantizer *q, const struct nib_walk *w) {
    return nib_tensor_parts(q, w->inner);
}

static struct unit unit_at(const struct nib_quantizer *q, const struct nib_walk *w, size_t i) {
    size_t parts = units_of_line(q, w), line = i / parts, part = i % parts;
    if (q->axes.tensor_scope == NIB_TENSOR_SCOPE_ROW)
        return (struct unit){line, 0, w->inner, line * w->tiles_along, w->tiles_along};
    size_t start = part * NIB_TENSOR_SEGMENT, left = w->inner - start;
    return (struct unit){line, start, left < NIB_TENSOR_SEGMENT ? left : NIB_TENSOR_SEGMENT, i, 1};
}

/* What lies in memory as it is quantized is looked through there, the rest as tiles bring it. */
static float amax_of(const struct nib_quantizer *q, const struct nib_walk *w, const struct nib_isa *isa,
                     const struct unit *unit, float *x) {
    if (w->rotation == NULL && w->axis == NIB_ALONG_COLS)
        return nib_amax_of_run(q, &w->x, isa, unit->line * w->x.stride + unit->start, unit->count);
    float most = 0;
    const struct nib_view tile = {x, NIB_F32, 1, w->tile_inner, w->tile_inner};
    for (size_t i = 0; i < unit->tiles; i++) {
        nib_tile_load(w, isa, unit->line, unit->start + i * w->tile_inner, x);
        float here = nib_amax_of_run(q, &tile, isa, 0, w->tile_inner);
        if (!(here <= most)) most = here;
        if (isnan(most)) break;
    }
    return most;
}

/* The workers' part; `amax` gets one number a unit. */
static enum nib_status run(const struct nib_stages *stages, const struct nib_walk *walk,
                           const struct nib_quantize_options *options, size_t units, float *amax,
                           struct nib_quantized *out, struct nib_error *error) {
    enum { A_THREAD = 64 }; /* units that are worth another thread */
    int threads = nib_threads_for(options->threads, (units + A_THREAD - 1) / A_THREAD), worker = 0;
    struct nib_scratch **scratches = nib_scratches_new(walk, threads, error);
    if (scratches == NULL) return NIB_ENOMEM;
    uint64_t nan = 0, inf = 0;
#pragma omp parallel num_threads(threads) reduction(+ : nan, inf)
    {
        int mine;
#pragma omp atomic capture
        mine = worker++;
        struct nib_fpenv saved = nib_fpenv_enter();
        struct nib_specials here = {0, 0};
        struct nib_stages own = *stages;
#pragma omp for schedule(static)
        for (size_t i = 0; i < units; i++) {
            struct unit unit = unit_at(own.q, walk, i);
            bool computed = !options->has_tensor_amax && !options->has_tensor_scale;
            float most = computed ? amax_of(own.q, walk, own.isa, &unit, scratches[mine]->x) : 0;
            struct nib_tensor_scale t = nib_tensor_scale_from(own.q, walk->x.dtype, options, most);
            nib_stages_retarget(&own, &t);
            amax[i] = t.amax;
            for (size_t tile = 0; tile < unit.tiles; tile++)
                nib_tile_quantize(&own, walk, unit.first_tile + tile, scratches[mine], out, &here);
        }
        nan += here.nan;
        inf += here.inf;
        nib_fpenv_leave(saved);
    }
    nib_scratches_free(scratches, threads);
    out->nan_count = nan;
    out->inf_count = inf;
    return NIB_OK;
}

/* A tensor whose units differ is said to have the scale of the one with the largest amax. */
static void report(const struct nib_quantizer *q, enum nib_dtype dtype, const struct nib_quantize_options *options,
                   const float *amax, size_t units, struct nib_quantized *out) {
    float most = units > 0 ? amax[0] : 0;
    for (size_t i = 1; i < units; i++)
        if (!(amax[i] <= most) && !isnan(most)) most = amax[i];
    struct nib_quantize_options computed = *options;
    computed.has_tensor_amax = false;
    struct nib_tensor_scale t = nib_tensor_scale_from(q, dtype, &computed, most);
    out->tensor_amax = most;
    out->tensor_scale_encode = t.encode;
    out->tensor_scale_decode = t.decode;
}

enum nib_status nib_quantize_scoped(const struct nib_quantizer *q, struct nib_view x,
                                    const struct nib_quantize_options *options, const struct nib_sr_source *random,
                                    const struct nib_isa *isa, bool reference, struct nib_quantized *out,
                                    struct nib_error *error) {
    struct nib_stages stages;
    struct nib_walk walk;
    bool fits;
    if (q->axes.tensor_scope == NIB_TENSOR_SCOPE_1X128 && NIB_TENSOR_SEGMENT % q->block->block_cols != 0)
        return nib_fail(error, NIB_EINVAL, "tensor_scope 1x128 of quantizer %s: blocks of %u do not divide %d", q->name,
                        q->block->block_cols, NIB_TENSOR_SEGMENT);
    nib_walk_make(q, x, options->axis, &walk);
    walk.random = *random;
    enum nib_status status = nib_tensor_scale_check(q, options, error);
    if (status == NIB_OK) status = nib_walk_prepare(q, &walk, error);
    if (status == NIB_OK) status = nib_walk_rotate(options->rotation, isa, &walk, &fits, error);
    if (status != NIB_OK) return status;
    struct nib_tensor_scale any = nib_tensor_scale_from(q, x.dtype, options, 1);
    nib_stages_make(q, &any, isa, reference, &stages);
    size_t units = walk.outer * units_of_line(q, &walk);
    float *amax = out->line_amax, *own = NULL;
    if (amax == NULL) amax = own = nib_alloc(units, sizeof *own, "tensor amax by line", error);
    if (amax == NULL) return NIB_ENOMEM;
    status = run(&stages, &walk, options, units, amax, out, error);
    if (status == NIB_OK) report(q, x.dtype, options, amax, units, out);
    free(own);
    return status;
}
