#include "quantize/quantize_ref.h"

#include <float.h>
#include <math.h>
#include "core/round.h"
#include "quantize/choice.h"
#include "quantize/ref_e8m0.h"
#include "quantize/ref_ggml.h"
#include "quantize/ref_hif4.h"

enum { CANDIDATE_MOST = 1024 }; /* elements of a block that chooses among candidates */

float nib_ref_amax(const struct nib_quantizer *q, const float *x, size_t count) {
    float amax = 0;
    for (size_t i = 0; i < count; i++) {
        float magnitude = fabsf(x[i]);
        if (isnan(magnitude)) { /* a signalling one would end fmaxf's memory of what came before */
            if (q->axes.amax_nan == NIB_AMAX_NAN_PROPAGATE) return magnitude;
            continue;
        }
        if (isinf(magnitude) && q->axes.amax_inf == NIB_AMAX_INF_MAX) magnitude = FLT_MAX;
        amax = fmaxf(amax, magnitude);
    }
    return amax;
}

static uint32_t random_at(const struct nib_ref_block *block, size_t i) {
    return block->random != NULL ? block->random[i] : 0;
}

static unsigned random_width(const struct nib_quantizer *q) { return 8 * nib_axes_random_bytes(&q->axes); }

/* The random integer of the second candidate: the same one, or its bits in reverse order. */
static uint32_t second_random_at(const struct nib_quantizer *q, const struct nib_ref_block *block, size_t i) {
    uint32_t r = random_at(block, i), reversed = 0;
    if (q->axes.select != NIB_SELECT_4OVER6_TWICE && q->axes.select != NIB_SELECT_IF4_TWICE) return r;
    for (unsigned bit = 0, n = random_width(q); bit < n; bit++) reversed |= (r >> bit & 1) << (n - 1 - bit);
    return reversed;
}

/* One way to quantize a block. */
struct candidate {
    struct nib_ref_scale scale;
    uint8_t code[CANDIDATE_MOST];
    float level[CANDIDATE_MOST];
    float error;
};

static float error_of(const struct nib_quantizer *q, const struct nib_tensor_scale *t,
                      const struct nib_ref_scale *scale, float level, float x) {
    const float s = scale->value;
    switch ((enum nib_axis_error_value)q->axes.error_value) {
    case NIB_ERROR_VALUE_QSG_T: return ((level * s) * t->amax) / t->target - x;
    case NIB_ERROR_VALUE_QSG_RT: return ((level * s) * t->amax) * t->target_reciprocal - x;
    case NIB_ERROR_VALUE_SCALED: return (isnan(s) ? 98304.0f : level * s) - x * t->encode;
    case NIB_ERROR_VALUE_FMA: return fmaf(-level, (s == 0 ? 1 : s) * t->decode, x);
    case NIB_ERROR_VALUE_QS:
    case NIB_AXIS_error_value_COUNT: break;
    }
    return level * s - x;
}

static void measure(const struct nib_quantizer *q, const struct nib_tensor_scale *t, const struct nib_ref_block *block,
                    struct candidate *c) {
    float d[CANDIDATE_MOST];
    for (size_t i = 0; i < block->count; i++) d[i] = error_of(q, t, &c->scale, c->level[i], block->x[i]);
    c->error = nib_ref_error_sum(q, d, block->count, q->block->block_cols);
}

static void make_candidate(const struct nib_quantizer *q, const struct nib_tensor_scale *t,
                           const struct nib_ref_block *block, float amax, float expand, struct candidate *c) {
    c->scale = nib_ref_scale_of(q, t, block->x, block->count, amax, expand);
    for (size_t i = 0; i < block->count; i++) {
        uint32_t random = expand == 1 ? random_at(block, i) : second_random_at(q, block, i);
        struct nib_ref_element e = nib_ref_element_of(q, t, &c->scale, block->x[i], random);
        c->code[i] = e.code;
        c->level[i] = e.level;
    }
    measure(q, t, block, c);
}

/* |y| to an integer: to nearest even, or up with the probability of its fraction: floor(|y| + r/2^n), exactly. */
static float integer_level(const struct nib_quantizer *q, float y, uint32_t random) {
    float magnitude = fminf(fabsf(y), 7);
    if (!nib_axes_stochastic(&q->axes)) return copysignf(rintf(magnitude), y);
    double one = ldexp(1, (int)random_width(q)), whole = floor((double)magnitude * one) + (double)random;
    return copysignf((float)fmin(floor(whole / one), 7), y);
}

/* The same scale with INT4 levels, 6/7 of a step apart; the sign bit of the scale tells. */
static void make_int4_candidate(const struct nib_quantizer *q, const struct nib_tensor_scale *t,
                                const struct nib_ref_block *block, const struct candidate *fp4, struct candidate *c) {
    float d[CANDIDATE_MOST];
    c->scale = fp4->scale;
    for (size_t i = 0; i < block->count; i++) {
        struct nib_ref_element e = nib_ref_element_of(q, t, &c->scale, block->x[i], random_at(block, i));
        float wide = e.scaled * 1.16666666f;
        float level = isnan(wide) ? wide : integer_level(q, wide, second_random_at(q, block, i));
        c->code[i] = isnan(level) ? 0 : (uint8_t)((int)level & 15);
        c->level[i] = level;
        float value = ((level * c->scale.value) * t->amax) * 0.8571428571f;
        bool divide = q->axes.error_value == NIB_ERROR_VALUE_QSG_T;
        d[i] = (divide ? value / t->target : value * t->target_reciprocal) - block->x[i];
    }
    c->error = nib_ref_error_sum(q, d, block->count, q->block->block_cols);
}

static void pick(const struct nib_quantizer *q, const struct nib_tensor_scale *t, const struct nib_ref_block *block,
                 float amax, struct candidate *best) {
    struct candidate other;
    make_candidate(q, t, block, amax, 1, best);
    switch ((enum nib_axis_select)q->axes.select) {
    case NIB_SELECT_4OVER6:
    case NIB_SELECT_4OVER6_TWICE:
    case NIB_SELECT_4OVER6_NAN4:
        make_candidate(q, t, block, amax, 1.5f, &other);
        if (q->axes.select != NIB_SELECT_4OVER6_NAN4 ? other.error < best->error : !(best->error <= other.error))
            *best = other;
        return;
    case NIB_SELECT_IF4:
    case NIB_SELECT_IF4_TWICE:
        make_int4_candidate(q, t, block, best, &other);
        if (other.error < best->error || (best->scale.code & 0x80) != 0) {
            if (other.error < best->error) other.scale.code |= 0x80;
            *best = other;
        }
        return;
    case NIB_SELECT_HALVES:
        make_candidate(q, t, block, amax * 0.5f, 1, &other);
        if (other.error < best->error) *best = other;
        make_candidate(q, t, block, amax * 2, 1, &other);
        if (other.error < best->error) *best = other;
        return;
    case NIB_SELECT_NONE:
    case NIB_AXIS_select_COUNT: return;
    }
}

/* The sign bit of an IF4 scale says INT4 and is no sign. */
static bool is_int4(const struct nib_quantizer *q, uint32_t scale) {
    bool flagged = q->axes.select == NIB_SELECT_IF4 || q->axes.select == NIB_SELECT_IF4_TWICE;
    return flagged && (scale & 0x80) != 0;
}
static float int4_level(uint8_t code) {
    return (float)(code > 7 ? (int)code - 16 : (int)code) * 0.8571428571f;
}

/* What exceeds a nibble spills into the other one of its byte. */
static void spill(uint8_t *codes, size_t count) {
    for (size_t i = 0; i + 1 < count; i += 2) {
        uint8_t byte = (uint8_t)(codes[i + 1] << 4 | codes[i]);
        codes[i] = byte & 15;
        codes[i + 1] = byte >> 4;
    }
    if (count % 2 != 0) codes[count - 1] &= 15;
}

static void select_block(const struct nib_quantizer *q, const struct nib_tensor_scale *t, struct nib_ref_block *block,
                         float amax) {
    struct candidate best;
    pick(q, t, block, amax, &best);
    block->scale = best.scale.code;
    for (size_t i = 0; i < block->count; i++) {
        block->codes[i] = best.code[i];
        block->values[i] =
            nib_ref_value(q, t, &best.scale, is_int4(q, block->scale) ? int4_level(best.code[i]) : best.level[i]);
    }
}

/* Distance from the scaled element to the nearest cell border, in binary32 steps at its size. Borders are the middles
 * between levels, or the levels themselves when rounding toward zero. */
static double tie_distance(const struct nib_quantizer *q, float y) {
    const struct nib_element *element = q->block->element;
    double best = INFINITY, step = ldexp(1, (y == 0 || !isfinite(y) || fabsf(y) < FLT_MIN ? -126 : ilogbf(y)) - 23);
    for (unsigned r = 1; r < element->levels; r++) {
        double low = (double)element->level_of_rank[r - 1], high = (double)element->level_of_rank[r];
        double border = q->axes.rounding < NIB_ROUNDING_RTZ ? (low + high) / 2 : y > 0 ? high : low;
        if (low < high) best = fmin(best, fabs((double)y - border) / step);
    }
    return isnan(y) ? NAN : best;
}

static void trace_element(const struct nib_quantizer *q, struct nib_trace *trace, float x, uint32_t random,
                          const struct nib_ref_element *e, uint8_t code, float value) {
    nib_trace_number(trace, "element", "x", x);
    nib_trace_number(trace, "scaled element", NIB_CHOICE_NAME(q, element_scale), e->scaled);
    if (nib_axes_stochastic(&q->axes)) nib_trace_code(trace, "random integer", "r", random, (float)random);
    nib_trace_code(trace, "code", NIB_CHOICE_NAME(q, rounding), code, e->level);
    nib_trace_number(trace, "dequantized value", NIB_CHOICE_NAME(q, dequantize), value);
    trace->tie_distance_ulp = tie_distance(q, e->scaled);
}

/* x times the identity on tensor cores: TF32 operands, and 0*inf in every other sum of the block. */
static void through_tf32(const float *x, size_t count, float *out) {
    size_t special = 0, at = 0;
    for (size_t i = 0; i < count; i++) {
        out[i] = nib_float_of_bits(nib_bits_of_float(x[i]) & 0xFFFFE000u);
        if (!isfinite(x[i])) special++, at = i;
    }
    for (size_t i = 0; special > 0 && i < count; i++)
        if (special > 1 || i != at) out[i] = NAN;
}

static void quantize_block(const struct nib_quantizer *q, const struct nib_tensor_scale *t,
                           struct nib_ref_block *block);

void nib_ref_quantize(const struct nib_quantizer *q, const struct nib_tensor_scale *t, struct nib_ref_block *block) {
    if (q->axes.input_precision != NIB_INPUT_TF32 || block->count > CANDIDATE_MOST) {
        quantize_block(q, t, block);
        return;
    }
    float x[CANDIDATE_MOST];
    const float *given = block->x;
    through_tf32(given, block->count, x);
    if (t->bf16) /* exact products: only what is not finite spreads */
        for (size_t i = 0; i < block->count; i++) x[i] = isnan(x[i]) ? x[i] : given[i];
    block->x = x;
    quantize_block(q, t, block);
    block->x = given;
}

static void quantize_block(const struct nib_quantizer *q, const struct nib_tensor_scale *t,
                           struct nib_ref_block *block) {
    struct nib_trace *trace = block->trace;
    if (q->axes.procedure == NIB_PROCEDURE_Q4_0) {
        nib_ref_ggml_q4_0(q, block);
        return;
    }
    if (q->axes.procedure == NIB_PROCEDURE_IQ4_NL) {
        nib_ref_ggml_iq4_nl(q, block);
        return;
    }
    if (q->axes.procedure == NIB_PROCEDURE_HIF4) {
        nib_ref_hif4(q, block);
        return;
    }
    float amax = nib_ref_amax(q, block->x, block->count);
    nib_trace_number(trace, "block amax", "b", amax);
    struct nib_ref_scale s = nib_ref_scale_of(q, t, block->x, block->count, amax, 1);
    struct nib_ref_element traced = {0, 0, 0};
    if (q->axes.select != NIB_SELECT_NONE && block->count <= CANDIDATE_MOST) {
        select_block(q, t, block, amax);
        if (trace != NULL)
            traced = nib_ref_element_of(q, t, &s, block->x[block->traced], random_at(block, block->traced));
    } else {
        block->scale = s.code;
        for (size_t i = 0; i < block->count; i++) {
            struct nib_ref_element e = nib_ref_element_of(q, t, &s, block->x[i], random_at(block, i));
            block->codes[i] = e.code;
            block->values[i] = nib_ref_value(q, t, &s, e.level);
            if (trace != NULL && i == block->traced) traced = e;
        }
    }
    if (q->axes.rounding == NIB_ROUNDING_FLOAT_BITS) spill(block->codes, block->count);
    if (trace == NULL) return;
    nib_trace_number(trace, "block scale before rounding", NIB_CHOICE_NAME(q, block_scale), s.before);
    nib_trace_code(trace, "block scale", q->block->scale->name, s.code, s.value);
    if (s.code != block->scale)
        nib_trace_code(trace, "block scale of the better candidate", NIB_CHOICE_NAME(q, select), block->scale, 0);
    trace_element(q, trace, block->x[block->traced], random_at(block, block->traced), &traced,
                  block->codes[block->traced], block->values[block->traced]);
}

float nib_ref_dequantize(const struct nib_quantizer *q, const struct nib_tensor_scale *t, uint32_t scale, unsigned part,
                         uint8_t code) {
    bool int4 = is_int4(q, scale);
    struct nib_ref_scale s = {.code = scale};
    if (q->block->scale->kind == NIB_SCALE_E8M0)
        s.value = nib_ref_e8m0_decode(q, scale);
    else
        s.value = nib_scale_decode_part(q->block->scale, int4 ? scale & 0x7F : scale, part);
    float level = int4 ? int4_level(code) : q->block->element->level[code];
    if (level == 0 && q->axes.value_zero == NIB_VALUE_ZERO_PLUS) level = 0;
    return nib_ref_value(q, t, &s, level);
}
