/* Block scales of a tile, and which blocks are for the reference. */
#include <math.h>
#include <string.h>
#include "core/key.h"
#include "quantize/stages.h"

void nib_tile_scale(const struct nib_stages *stages, const float *base, size_t blocks, struct nib_tile_scales *to) {
    const struct nib_consts *k = &stages->k;
    if (stages->bound != NULL)
        stages->bound(k, base, to->v);
    else
        memcpy(to->v, base, sizeof to->v);
    stages->codec(k, to->v, to->code, to->s);
    if (stages->straight_through != NULL) stages->straight_through(to->v, to->s);
    if (stages->factor != NULL) {
        stages->factor(k, to->s, to->factor);
        return;
    }
    for (size_t i = 0; i < blocks; i++)
        to->factor[i] = stages->tabulated ? k->factor_of_code[to->code[i] & 0xFF]
                                          : nib_factor_under(stages->q, &k->tensor, to->s[i]);
}

/* Whether sub-block i must go to the reference; settles the factor of zero scales. */
static bool is_special(const struct nib_stages *stages, const struct nib_scratch *t, struct nib_tile_scales *scales,
                       size_t i) {
    const struct nib_axes *axes = &stages->q->axes;
    const struct nib_consts *k = &stages->k;
    const float v = fabsf(scales->v[i]), s = fabsf(scales->s[i]); /* only the choice of signed scales has others */
    float *factor = &scales->factor[i];
    if (t->amax[i] >= NIB_BITS_INFINITY || !(v < INFINITY) || !(s < k->s_high)) return true;
    bool bounded = axes->scale_overflow == NIB_SCALE_OVERFLOW_NAN || axes->rounding == NIB_ROUNDING_ARGMIN;
    if (bounded && v > k->largest_scale) return true;
    if ((v < k->v_low || t->b[i] < k->b_low) && t->b[i] != 0) return true;
    if (axes->rounding == NIB_ROUNDING_ARGMIN && s == 0) { /* every level is as near as the first, 0 */
        *factor = INFINITY;
        return false;
    }
    if (t->b[i] > s * k->ratio_high) return true;
    if (!(t->b[i] * fabsf(*factor) < k->y_high) && !isinf(k->y_high)) return true;
    if (s == 0 && t->b[i] == 0 &&
        (axes->zero_scale == NIB_ZERO_SCALE_ONE || axes->zero_scale == NIB_ZERO_SCALE_EMPTY)) {
        *factor = stages->operation == NIB_MULTIPLY ? 0 : INFINITY;
        return false;
    }
    /* +0 and x*0 are the same where the encoding drops the sign of zero */
    bool drops_sign = axes->signed_zero == NIB_SIGNED_ZERO_NEGATIVE || axes->signed_zero == NIB_SIGNED_ZERO_DROP ||
                      axes->rounding == NIB_ROUNDING_FLOAT_BITS || !stages->q->rule.symmetric;
    if (s == 0 && (axes->zero_scale == NIB_ZERO_SCALE_X0 || (axes->zero_scale == NIB_ZERO_SCALE_PLUS && drops_sign))) {
        *factor = stages->operation == NIB_MULTIPLY ? 0 : INFINITY; /* either way x*0 */
        return false;
    }
    if (s == 0 && axes->zero_scale != NIB_ZERO_SCALE_FORMULA) return true; /* subnormal amaxes flushed to 0 included */
    return !(fabsf(*factor) < k->factor_high) || (stages->operation == NIB_DIVIDE && *factor == 0);
}

bool nib_tile_find_specials(const struct nib_stages *stages, const struct nib_scratch *t,
                            struct nib_tile_scales *scales, size_t blocks, bool *special) {
    bool any = false;
    if (!stages->isa->screen(&stages->k, t->b, scales->v, scales->s, scales->factor, blocks)) return false;
    for (size_t i = 0; i < blocks; i++) {
        special[i] |= is_special(stages, t, scales, i);
        any |= special[i];
    }
    return any;
}
