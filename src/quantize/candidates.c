/* The best of several ways to quantize a block. */
#include "quantize/stages.h"

static void measure(const struct nib_stages *stages, struct nib_scratch *t, const float *x, size_t blocks,
                    unsigned size, size_t across, const uint8_t *codes, bool int4, float unit, const float *s,
                    float *errors) {
    const struct nib_contest *contest = &stages->contest;
    const float *level = int4 ? stages->k.int4_level : stages->k.level;
    contest->terms(&stages->k, x, codes, level, unit, s, blocks, size, t->terms);
    if (contest->square)
        stages->isa->square_sums(t->terms, blocks, across, contest->summation, errors);
    else
        stages->isa->sums(t->terms, blocks, size, contest->summation, errors);
}

static void scale_other(const struct nib_stages *stages, struct nib_scratch *t, size_t blocks,
                        const struct nib_candidate *other) {
    float in[NIB_TILE], base[NIB_TILE];
    nib_scale_stage *wider = stages->isa->wider_scale[stages->q->axes.block_scale];
    if (other->differs == NIB_OF_LEVELS) {
        t->other = t->chosen;
        return;
    }
    if (other->differs == NIB_OF_AMAX) {
        for (int i = 0; i < NIB_TILE; i++) in[i] = t->b[i] * other->times;
        stages->block_scale(&stages->k, in, base);
    } else if (wider != NULL)
        wider(&stages->k, t->b, base);
    else
        for (int i = 0; i < NIB_TILE; i++) base[i] = t->base[i] * other->times;
    nib_tile_scale(stages, base, blocks, &t->other);
}

static void encode_other(const struct nib_stages *stages, struct nib_scratch *t, const float *x, size_t blocks,
                         unsigned size, const struct nib_candidate *other) {
    const struct nib_consts *k = &stages->k;
    const unsigned width = nib_axes_random_bytes(&stages->q->axes);
    const uint8_t *random = t->random;
    if (other->stochastic == NULL) {
        other->encode(k, x, t->other.factor, blocks, size, t->other_codes);
        return;
    }
    if (stages->contest.reversed) {
        stages->isa->reverse_bits(random, blocks * size, width, t->other_random);
        random = t->other_random;
    }
    other->stochastic(k, x, t->other.factor, random, blocks, size, t->other_codes);
}

bool nib_tile_contest(const struct nib_stages *stages, struct nib_scratch *t, const float *x, size_t blocks,
                      unsigned size, size_t across, uint8_t *codes, bool *special) {
    const struct nib_contest *contest = &stages->contest;
    float best[NIB_TILE] = {0}, error[NIB_TILE] = {0};
    bool any = false;
    measure(stages, t, x, blocks, size, across, codes, false, 1, t->chosen.s, best);
    for (unsigned c = 0; c < contest->others; c++) {
        const struct nib_candidate *other = &contest->other[c];
        scale_other(stages, t, blocks, other);
        if (other->differs != NIB_OF_LEVELS) any |= nib_tile_find_specials(stages, t, &t->other, blocks, special);
        encode_other(stages, t, x, blocks, size, other);
        measure(stages, t, x, blocks, size, across, t->other_codes, other->differs == NIB_OF_LEVELS, other->unit,
                t->other.s, error);
        const struct nib_verdict verdict = {.best = best,
                                            .s = t->chosen.s,
                                            .code = t->chosen.code,
                                            .error = error,
                                            .other_s = t->other.s,
                                            .other_code = t->other.code,
                                            .flag = other->differs == NIB_OF_LEVELS ? 0x80 : 0,
                                            .nan_loses = contest->nan_loses};
        stages->isa->take_better(&verdict, blocks, size, codes, t->other_codes);
    }
    return any;
}
