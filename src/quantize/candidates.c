/* The best of several ways to quantize a block. */
#include "quantize/stages.h"

/* How the errors of a block are summed; NIB_SUMMATIONS where only the reference can. */
static enum nib_summation summation_of(const struct nib_quantizer *q) {
    static const enum nib_summation of_line[NIB_AXIS_error_order_COUNT] = {
        [NIB_ERROR_ORDER_SEQUENTIAL] = NIB_SUM_SEQUENTIAL,
        [NIB_ERROR_ORDER_ROWS] = NIB_SUM_SEQUENTIAL,
        [NIB_ERROR_ORDER_TREE] = NIB_SUM_TREE,
        [NIB_ERROR_ORDER_CUDA_256] = NIB_SUM_TREE,
        [NIB_ERROR_ORDER_LANES] = NIB_SUM_LANES,
        [NIB_ERROR_ORDER_FMA_HALVES] = NIB_SUM_SQUARES};
    const struct nib_block *block = q->block;
    const int order = q->axes.error_order;
    bool most = q->axes.error_metric == NIB_ERROR_MAX && order != NIB_ERROR_ORDER_FMA_HALVES;
    if (block->block_rows == 1 && (block->block_cols == 16 || block->block_cols == 32))
        return most ? NIB_SUM_MOST : of_line[order];
    if (block->block_rows != 16 || block->block_cols != 16) return NIB_SUMMATIONS;
    if (most) return NIB_SUM_MOST;
    return order == NIB_ERROR_ORDER_ROWS       ? NIB_SUM_ROWS
           : order == NIB_ERROR_ORDER_CUDA_256 ? NIB_SUM_CUDA_256
           : order == NIB_ERROR_ORDER_LANES    ? NIB_SUM_LANES_256
                                               : NIB_SUMMATIONS;
}

/* Which candidates there are; false where only the reference knows. */
bool nib_contest_make(const struct nib_quantizer *q, const struct nib_isa *isa, struct nib_stages *out) {
    const struct nib_axes *axes = &q->axes;
    struct nib_contest *c = &out->contest;
    *c = (struct nib_contest){.summation = summation_of(q), .square = q->block->block_rows > 1};
    if (c->summation == NIB_SUMMATIONS || (out->encode == NULL && out->stochastic == NULL)) return false;
    enum nib_term term = axes->error_order == NIB_ERROR_ORDER_FMA_HALVES ? NIB_TERM_DIFFERENCE
                         : axes->error_metric == NIB_ERROR_MSE           ? NIB_TERM_SQUARE
                                                                         : NIB_TERM_MAGNITUDE;
    c->terms = isa->terms[axes->error_value][term];
    struct nib_candidate same = {NIB_OF_SCALE, 1.5f, out->encode, out->stochastic, 1};
    c->reversed = axes->select == NIB_SELECT_4OVER6_TWICE || axes->select == NIB_SELECT_IF4_TWICE;
    switch ((enum nib_axis_select)axes->select) {
    case NIB_SELECT_4OVER6_NAN4: c->nan_loses = true; /* fall through */
    case NIB_SELECT_4OVER6_TWICE:
    case NIB_SELECT_4OVER6: c->other[c->others++] = same; break;
    case NIB_SELECT_HALVES:
        same.differs = NIB_OF_AMAX;
        for (same.times = 0.5f; same.times <= 2; same.times *= 4) c->other[c->others++] = same;
        break;
    case NIB_SELECT_IF4:
    case NIB_SELECT_IF4_TWICE:
        if (axes->rounding == NIB_ROUNDING_ARGMIN || out->operation != NIB_MULTIPLY) return false;
        if (axes->element_precision != NIB_ELEMENT_FP32) return false;
        if (axes->error_value != NIB_ERROR_VALUE_QSG_T && axes->error_value != NIB_ERROR_VALUE_QSG_RT) return false;
        if (out->back_tabulated || !nib_is_e4m3(q->block->scale)) return false;
        c->other[c->others++] = (struct nib_candidate){
            NIB_OF_LEVELS, 1, isa->encode[NIB_MULTIPLY][NIB_ELEMENT_FP32][NIB_ENCODE_INT4],
            out->stochastic != NULL ? isa->stochastic_int4[nib_axes_random_bytes(axes) / 2] : NULL, 0.8571428571f};
        break;
    case NIB_SELECT_NONE:
    case NIB_AXIS_select_COUNT: return false;
    }
    return c->terms != NULL;
}

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
