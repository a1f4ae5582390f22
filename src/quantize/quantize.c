#include <math.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/threads.h"
#include "quantize/ref_ggml.h"
#include "quantize/eden.h"
#include "quantize/stages.h"

enum nib_status nib_tensor_scale_check(const struct nib_quantizer *q, const struct nib_quantize_options *options,
                                       struct nib_error *error) {
    bool given = options->has_tensor_amax || options->has_tensor_scale;
    if (!q->block->has_tensor_scale && given)
        return nib_fail(error, NIB_EINVAL, "block format %s of quantizer %s has no tensor scale", q->block->name,
                        q->name);
    if (options->has_tensor_amax && options->has_tensor_scale)
        return nib_fail(error, NIB_EINVAL, "a tensor amax and a tensor scale are both given; expected one");
    if (options->has_tensor_amax && !(options->tensor_amax >= 0))
        return nib_fail(error, NIB_EINVAL, "tensor amax %g: expected a number of at least 0",
                        (double)options->tensor_amax);
    if (options->has_tensor_scale && !(options->tensor_scale_encode > 0 && options->tensor_scale_decode > 0))
        return nib_fail(error, NIB_EINVAL, "tensor scale: expected a number above 0");
    return NIB_OK;
}

struct nib_tensor_scale nib_tensor_scale_from(const struct nib_quantizer *q, enum nib_dtype dtype,
                                              const struct nib_quantize_options *options, float amax) {
    if (!q->block->has_tensor_scale) return nib_tensor_scale_none(q, dtype);
    if (options->has_tensor_scale)
        return nib_tensor_scale_given(q, dtype, options->tensor_scale_encode, options->tensor_scale_decode);
    return nib_tensor_scale_of_amax(q, dtype, options->has_tensor_amax ? options->tensor_amax : amax);
}

enum nib_status nib_tensor_scale_choose(const struct nib_quantizer *q, struct nib_view x,
                                        const struct nib_quantize_options *options, const struct nib_isa *isa,
                                        struct nib_tensor_scale *out, struct nib_error *error) {
    float amax = 0;
    enum nib_status status = nib_tensor_scale_check(q, options, error);
    bool computed = q->block->has_tensor_scale && !options->has_tensor_amax && !options->has_tensor_scale;
    if (status == NIB_OK && computed) status = nib_amax_choose(q, x, options, isa, &amax, error);
    if (status == NIB_OK) *out = nib_tensor_scale_from(q, x.dtype, options, amax);
    return status;
}

enum nib_status nib_walk_prepare(const struct nib_quantizer *q, struct nib_walk *walk, struct nib_error *error) {
    if (q->axes.scale_correction != NIB_SCALE_CORRECTION_EDEN) return NIB_OK;
    size_t group = NIB_EDEN_GROUP, padded = (walk->inner + group - 1) / group * group;
    if (q->block->block_rows != 1 || group % q->block->block_cols != 0)
        return nib_fail(error, NIB_EINVAL, "scale_correction eden of quantizer %s: expected blocks of 1 x 16 or 1 x 32",
                        q->name);
    if (walk->inner != padded)
        return nib_fail(error, NIB_EINVAL,
                        "%zu elements along the axis are no whole groups of %d for scale_correction eden; "
                        "pad them to %zu",
                        walk->inner, NIB_EDEN_GROUP, padded);
    nib_walk_deepen(walk, group / q->block->block_cols);
    return NIB_OK;
}

struct nib_scratch **nib_scratches_new(const struct nib_walk *walk, int count, struct nib_error *error) {
    struct nib_scratch **all = nib_alloc((size_t)count, sizeof *all, "work space", error);
    for (int i = 0; all != NULL && i < count; i++) {
        all[i] = nib_scratch_new(walk, error);
        if (all[i] != NULL) continue;
        nib_scratches_free(all, i);
        return NULL;
    }
    return all;
}

void nib_scratches_free(struct nib_scratch **scratches, int count) {
    for (int i = 0; i < count; i++) nib_scratch_free(scratches[i]);
    free(scratches);
}

/* Below this many tiles (of 64 blocks) another thread costs more than it saves. */
enum { TILES_A_THREAD = 8 };

static enum nib_status run(const struct nib_stages *stages, const struct nib_walk *walk, int threads,
                           struct nib_quantized *out, struct nib_specials *specials, struct nib_error *error) {
    size_t tiles = walk->tiles_across * walk->tiles_along;
    threads = nib_threads_for(threads, (tiles + TILES_A_THREAD - 1) / TILES_A_THREAD);
    struct nib_scratch **scratches = nib_scratches_new(walk, threads, error);
    if (scratches == NULL) return NIB_ENOMEM;
    uint64_t nan = 0, inf = 0;
    int worker = 0;
#pragma omp parallel num_threads(threads) reduction(+ : nan, inf)
    {
        int mine;
#pragma omp atomic capture
        mine = worker++;
        struct nib_fpenv saved = nib_fpenv_enter();
        struct nib_specials here = {0, 0};
#pragma omp for schedule(static)
        for (size_t tile = 0; tile < tiles; tile++) nib_tile_quantize(stages, walk, tile, scratches[mine], out, &here);
        nan += here.nan;
        inf += here.inf;
        nib_fpenv_leave(saved);
    }
    nib_scratches_free(scratches, threads);
    *specials = (struct nib_specials){nan, inf};
    return NIB_OK;
}

/* A tensor with one scale, or none. */
static enum nib_status quantize_whole(const struct nib_quantizer *q, struct nib_view x,
                                      const struct nib_quantize_options *options, const struct nib_sr_source *random,
                                      const struct nib_isa *isa, bool reference, struct nib_quantized *out,
                                      struct nib_error *error) {
    struct nib_tensor_scale scale;
    struct nib_specials specials = {0, 0};
    enum nib_status status = nib_tensor_scale_choose(q, x, options, isa, &scale, error);
    if (status != NIB_OK) return status;
    struct nib_stages stages;
    struct nib_walk walk;
    nib_stages_make(q, &scale, isa, reference, &stages);
    nib_walk_make(q, x, options->axis, &walk);
    walk.random = *random;
    status = nib_walk_prepare(q, &walk, error);
    if (status != NIB_OK) return status;
    bool fits;
    status = nib_walk_rotate(options->rotation, isa, &walk, &fits, error);
    if (status == NIB_OK) status = run(&stages, &walk, options->threads, out, &specials, error);
    if (status != NIB_OK) return status;
    out->tensor_amax = q->block->has_tensor_scale ? scale.amax : 0;
    out->tensor_scale_encode = scale.encode;
    out->tensor_scale_decode = scale.decode;
    out->nan_count = specials.nan;
    out->inf_count = specials.inf;
    return NIB_OK;
}

enum nib_status nib_quantize(const struct nib_quantizer *q, struct nib_view x, const struct nib_quantize_options *given,
                             struct nib_quantized *out, struct nib_error *error) {
    struct nib_quantize_options copy = given != NULL ? *given : (struct nib_quantize_options){.threads = 0};
    const struct nib_quantize_options *options = &copy;
    float *rotated = NULL;
    const struct nib_isa *isa;
    bool reference;
    if (q == NULL || out == NULL) return nib_fail(error, NIB_EINVAL, "the quantizer or the result is NULL");
    enum nib_status status = nib_view_check(x, error);
    if (status == NIB_OK) status = nib_axis_check(options->axis, error);
    if (status == NIB_OK) status = nib_quantized_check(q, x, options->axis, out, error);
    if (status == NIB_OK) status = nib_isa_choose(options->isa, &isa, &reference, error);
    struct nib_sr_source random;
    if (status == NIB_OK) status = nib_sr_source_choose(q, x, options, &random, error);
    if (status == NIB_OK) status = nib_rotate_apart(q, isa, &x, &copy, &rotated, error);
    if (status != NIB_OK) return status;
    struct nib_fpenv saved = nib_fpenv_enter();
    status = nib_tensor_scoped(q) ? nib_quantize_scoped(q, x, options, &random, isa, reference, out, error)
                                  : quantize_whole(q, x, options, &random, isa, reference, out, error);
    if (status == NIB_OK && q->axes.procedure == NIB_PROCEDURE_IQ4_NL) nib_ggml_stale_codes(q, x, out);
    nib_fpenv_leave(saved);
    free(rotated);
    return status;
}
