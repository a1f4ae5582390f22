#include <math.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "base/threads.h"
#include "quantize/stages.h"

enum nib_status nib_tensor_scale_choose(const struct nib_quantizer *q, struct nib_view x,
                                        const struct nib_quantize_options *options, const struct nib_isa *isa,
                                        struct nib_tensor_scale *out, struct nib_error *error) {
    if (!q->block->has_tensor_scale) {
        if (options->has_tensor_amax || options->has_tensor_scale)
            return nib_fail(error, NIB_EINVAL, "block format %s of quantizer %s has no tensor scale", q->block->name, q->name);
        *out = nib_tensor_scale_none(q);
        return NIB_OK;
    }
    if (options->has_tensor_amax && options->has_tensor_scale)
        return nib_fail(error, NIB_EINVAL, "a tensor amax and a tensor scale are both given; expected one");
    if (options->has_tensor_amax && !(options->tensor_amax >= 0))
        return nib_fail(error, NIB_EINVAL, "tensor amax %g: expected a number of at least 0", (double)options->tensor_amax);
    if (options->has_tensor_scale && !(options->tensor_scale_encode > 0 && options->tensor_scale_decode > 0))
        return nib_fail(error, NIB_EINVAL, "tensor scale: expected a number above 0");
    if (options->has_tensor_scale)
        *out = nib_tensor_scale_given(q, options->tensor_scale_encode, options->tensor_scale_decode);
    else
        *out = nib_tensor_scale_of_amax(
            q, options->has_tensor_amax ? options->tensor_amax : nib_amax_compute(q, x, options->threads, isa));
    return NIB_OK;
}

static struct nib_scratch **scratches_new(const struct nib_walk *walk, int count, struct nib_error *error) {
    struct nib_scratch **all = nib_alloc((size_t)count, sizeof *all, "work space", error);
    for (int i = 0; all != NULL && i < count; i++) {
        all[i] = nib_scratch_new(walk, error);
        if (all[i] != NULL) continue;
        while (i-- > 0) nib_scratch_free(all[i]);
        free(all);
        return NULL;
    }
    return all;
}

static enum nib_status run(const struct nib_stages *stages, const struct nib_walk *walk, int threads, struct nib_quantized *out,
                           struct nib_specials *specials, struct nib_error *error) {
    size_t tiles = walk->tiles_across * walk->tiles_along;
    if ((size_t)threads > tiles) threads = tiles > 0 ? (int)tiles : 1;
    struct nib_scratch **scratches = scratches_new(walk, threads, error);
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
    for (int i = 0; i < threads; i++) nib_scratch_free(scratches[i]);
    free(scratches);
    *specials = (struct nib_specials){nan, inf};
    return NIB_OK;
}

enum nib_status nib_quantize(const struct nib_quantizer *q, struct nib_view x, const struct nib_quantize_options *options,
                             struct nib_quantized *out, struct nib_error *error) {
    static const struct nib_quantize_options defaults;
    if (options == NULL) options = &defaults;
    const struct nib_isa *isa;
    bool reference;
    enum nib_status status = nib_view_check(x, error);
    if (status == NIB_OK) status = nib_quantized_check(q, x, options->axis, out, error);
    if (status == NIB_OK) status = nib_isa_choose(options->isa, &isa, &reference, error);
    if (status != NIB_OK) return status;
    struct nib_fpenv saved = nib_fpenv_enter();
    struct nib_tensor_scale scale;
    struct nib_specials specials = {0, 0};
    status = nib_tensor_scale_choose(q, x, options, isa, &scale, error);
    if (status == NIB_OK) {
        struct nib_stages stages;
        struct nib_walk walk;
        nib_stages_make(q, &scale, isa, reference, &stages);
        nib_walk_make(q, x, options->axis, &walk);
        status = nib_walk_random(q, options, &walk, error);
        if (status == NIB_OK) status = run(&stages, &walk, nib_threads(options->threads), out, &specials, error);
    }
    nib_fpenv_leave(saved);
    if (status != NIB_OK) return status;
    out->tensor_amax = q->block->has_tensor_scale ? scale.amax : 0;
    out->tensor_scale_encode = scale.encode;
    out->tensor_scale_decode = scale.decode;
    out->nan_count = specials.nan;
    out->inf_count = specials.inf;
    return NIB_OK;
}
