#include "quantize/stages.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include "core/convert.h"
#include "core/round.h"
#include "quantize/approx.h"
#include "quantize/ref_e8m0.h"

/* Whether a factor divides; choices without a stage function do not matter here. */
enum nib_operation nib_element_operation(int element_scale) {
    static const bool divides[NIB_AXIS_element_scale_COUNT] = {[NIB_ELEMENT_X_OVER_SD] = true,
                                                               [NIB_ELEMENT_X_OVER_SS] = true,
                                                               [NIB_ELEMENT_X_OVER_S_RCP0] = true,
                                                               [NIB_ELEMENT_X_OVER_S_DIV_S] = true,
                                                               [NIB_ELEMENT_X_OVER_S] = true};
    return divides[element_scale] ? NIB_DIVIDE : NIB_MULTIPLY;
}

/* What is added to the bits of a positive normal number, by its exponent field, before the field is read. The log2
 * rules differ from floor and ceiling within a few mantissas of a power of two, by the size of the logarithm. */
static void fill_addends(const struct nib_quantizer *q, bool bf16, uint32_t addend[256]) {
    static const uint32_t down[7] = {0, 1, 2, 5, 0xB, 0x16, 0x2C}, up[7] = {0x1, 0x1, 0x2, 0x3, 0x6, 0xC, 0x17},
                          nearest[7] = {0x3504F3, 0x3504F3, 0x3504F2, 0x3504F0, 0x3504EC, 0x3504E4, 0x3504D4};
    for (int field = 0; field < 256; field++) {
        int exponent = field - 127, size = exponent >= 0 ? exponent : -exponent - 1, row = 0;
        for (; size > 1 && row < 6; size >>= 1) row++;
        switch ((enum nib_axis_scale_rounding)q->axes.scale_rounding) {
        case NIB_SCALE_ROUND_UP:
        case NIB_SCALE_ROUND_UP_BITS: addend[field] = 0x7FFFFF; break;
        case NIB_SCALE_ROUND_EVEN: addend[field] = 0x200000; break;
        case NIB_SCALE_ROUND_EVEN_MINUS: addend[field] = 0x1FFFFF; break;
        case NIB_SCALE_ROUND_LOG2_DOWN_INPUT:
            addend[field] = bf16 ? 0x800000 - nib_log2_border_bf16(exponent) : down[row];
            break;
        case NIB_SCALE_ROUND_LOG2_EVEN_MINUS: /* first_addend is added before */
        case NIB_SCALE_ROUND_LOG2_DOWN: addend[field] = down[row]; break;
        case NIB_SCALE_ROUND_LOG2_UP: addend[field] = 0x800000 - up[row]; break;
        case NIB_SCALE_ROUND_LOG2_NEAREST: addend[field] = 0x800000 - nearest[row]; break;
        default: addend[field] = 0; break;
        }
    }
}

/* 1/x as div.full multiplies by it; NaN where it scales its operands first. */
static float approx_reciprocal(float x) {
    return fabsf(x) >= FLT_MIN && fabsf(x) < 0x1p126f ? nib_rcp_approx_ftz(x) : NAN;
}

/* Factors up to which it shows in no code that an element was flushed. */
static float flush_limit(const struct nib_quantizer *q) {
    return nib_axes_stochastic(&q->axes) ? 0x1p60f : 0x1p100f;
}

/* Of Model-Optimizer's extension, flushed; NaN, and so for the reference, where flushing may show. */
static float double_factor(const struct nib_quantizer *q, float s, double encode) {
    float factor = (float)(1.0 / ((double)s / encode)), limit = flush_limit(q);
    return factor > 1 / limit && factor < limit ? factor : NAN;
}

/* Of qutlass: a product with three times a power of two, where s is one. */
static float thrice_reciprocal(const struct nib_quantizer *q, float s) {
    float limit = flush_limit(q);
    bool power = (nib_bits_of_float(s) & 0x7FFFFF) == 0 && s > 1 / limit && s < limit;
    return power ? 3 * nib_rcp_approx_ftz(s) : NAN;
}

/* Of TetraJet-v2, likewise. */
static float flushed_reciprocal(const struct nib_quantizer *q, float x) {
    float limit = flush_limit(q);
    return x == 0 ? 0 : x > 1 / limit && x < limit ? nib_rcp_approx_ftz(x) : NAN;
}

float nib_factor_under(const struct nib_quantizer *q, const struct nib_tensor_scale *t, float s) {
    const float S = t->encode, D = t->decode;
    switch ((enum nib_axis_element_scale)q->axes.element_scale) {
    case NIB_ELEMENT_X_RCP_APPROX: return nib_rcp_approx_ftz(s * nib_rcp_approx_ftz(S));
    case NIB_ELEMENT_X_BF16_COEFFICIENT:
        return nib_float_of_bits(nib_bits_of_bf16(nib_bf16_of_bits(nib_bits_of_float(fminf(S / s, 0x1.fep+127f)))));
    case NIB_ELEMENT_X_S_DIV: return nib_div_full(S, s);
    case NIB_ELEMENT_X_DIV_S: return approx_reciprocal(s);
    case NIB_ELEMENT_X_RDIV_S: return nib_div_full(1, s);
    case NIB_ELEMENT_X_RCP_SD: return flushed_reciprocal(q, s * D);
    case NIB_ELEMENT_X_APPROX_S_3: return thrice_reciprocal(q, s);
    case NIB_ELEMENT_X_DOUBLE: return double_factor(q, s, t->encode_double);
    case NIB_ELEMENT_X_DIV_SD: return approx_reciprocal(s * D);
    case NIB_ELEMENT_X_DIV_SD_1: return approx_reciprocal(s * D >= 1e-5f ? s * D : 1);
    case NIB_ELEMENT_X_OVER_S_DIV_S: return nib_div_full(s, S);
    default: return NAN;
    }
}

static float back_under(const struct nib_quantizer *q, const struct nib_tensor_scale *t, float s) {
    switch ((enum nib_axis_dequantize)q->axes.dequantize) {
    case NIB_DEQUANTIZE_S_DIV_S: return nib_div_full(s, t->encode);
    case NIB_DEQUANTIZE_DOUBLE: return (float)((double)s / t->encode_double); /* see double_factor */
    case NIB_DEQUANTIZE_S_X_D_1: return s * t->decode >= 1e-5f ? s * t->decode : 1;
    default: return NAN;
    }
}

static bool has_factor_under(int element_scale) {
    static const bool has[NIB_AXIS_element_scale_COUNT] = {
        [NIB_ELEMENT_X_RCP_APPROX] = true,  [NIB_ELEMENT_X_BF16_COEFFICIENT] = true, [NIB_ELEMENT_X_S_DIV] = true,
        [NIB_ELEMENT_X_DIV_S] = true,       [NIB_ELEMENT_X_RDIV_S] = true,           [NIB_ELEMENT_X_DOUBLE] = true,
        [NIB_ELEMENT_X_RCP_SD] = true,      [NIB_ELEMENT_X_DIV_SD] = true,           [NIB_ELEMENT_X_DIV_SD_1] = true,
        [NIB_ELEMENT_X_OVER_S_DIV_S] = true, [NIB_ELEMENT_X_APPROX_S_3] = true};
    return has[element_scale];
}
static bool has_back_under(int dequantize) {
    return dequantize == NIB_DEQUANTIZE_S_DIV_S || dequantize == NIB_DEQUANTIZE_S_X_D_1 ||
           dequantize == NIB_DEQUANTIZE_DOUBLE;
}

/* Whether all scales that are not special are powers of two times one number, by which elements are divided. */
static bool divides_by_powers_of_one(const struct nib_quantizer *q, const struct nib_stages *out) {
    int choice = q->axes.block_scale;
    return (choice == NIB_BLOCK_SCALE_QUEST || choice == NIB_BLOCK_SCALE_POW2_3_4) &&
           q->axes.element_scale == NIB_ELEMENT_X_DIV_S && q->axes.select == NIB_SELECT_NONE &&
           q->block->scale->kind == NIB_SCALE_FP32 && out->bound == NULL && out->straight_through == NULL;
}

/* How factors without a stage are found. */
static void choose_tables(const struct nib_quantizer *q, struct nib_stages *out) {
    const struct nib_scale *scale = q->block->scale;
    bool small = scale->kind == NIB_SCALE_MINIFLOAT && scale->bits == 8 && q->axes.scale_ste == NIB_SCALE_STE_OFF;
    bool few = nib_tensor_scoped(q) && q->axes.tensor_scope == NIB_TENSOR_SCOPE_1X128; /* blocks, fewer than codes */
    bool needed = out->factor == NULL && has_factor_under(q->axes.element_scale);
    out->tabulated = small && !few && needed;
    out->one_by_one = !out->tabulated && needed;
    out->back_tabulated = small && out->dequantize == NULL && has_back_under(q->axes.dequantize);
}

/* Fills the tables that this quantizer needs; codes above max_code are never looked up. */
static void tabulate(const struct nib_quantizer *q, const struct nib_tensor_scale *t, struct nib_stages *out) {
    const struct nib_scale *scale = q->block->scale;
    for (uint32_t code = 0; code <= scale->max_code && (out->tabulated || out->back_tabulated); code++) {
        float s = nib_scale_decode(scale, code);
        if (out->tabulated) out->k.factor_of_code[code] = nib_factor_under(q, t, s);
        if (out->back_tabulated) out->k.back_of_code[code] = back_under(q, t, s);
    }
}

static bool rounds_exponents(const struct nib_quantizer *q) {
    switch ((enum nib_axis_scale_rounding)q->axes.scale_rounding) {
    case NIB_SCALE_ROUND_UP:
    case NIB_SCALE_ROUND_DOWN:
    case NIB_SCALE_ROUND_UP_BITS:
    case NIB_SCALE_ROUND_EVEN:
    case NIB_SCALE_ROUND_EVEN_MINUS:
    case NIB_SCALE_ROUND_LOG2_DOWN:
    case NIB_SCALE_ROUND_LOG2_DOWN_INPUT:
    case NIB_SCALE_ROUND_LOG2_EVEN_MINUS:
    case NIB_SCALE_ROUND_LOG2_UP:
    case NIB_SCALE_ROUND_LOG2_NEAREST: return true;
    default: return false;
    }
}

static void fill_powers(const struct nib_quantizer *q, struct nib_consts *k) {
    const struct nib_axes *axes = &q->axes;
    fill_addends(q, k->tensor.bf16, k->addend);
    k->first_addend = axes->scale_rounding == NIB_SCALE_ROUND_LOG2_EVEN_MINUS ? 0x1FFFFF : 0;
    k->exponent_offset = axes->block_scale == NIB_BLOCK_SCALE_EXPONENT ? q->block->element->emax : 0;
    k->top_code = (int32_t)axes->exponent_max + 127;
    k->bottom_value = axes->e8m0_bottom == NIB_E8M0_BOTTOM_ZERO  ? 0
                      : axes->e8m0_bottom == NIB_E8M0_BOTTOM_ONE ? 1
                                                                 : 0x1p-127f;
    k->zero_code = axes->e8m0_zero == NIB_E8M0_ZERO_ONE      ? 127
                   : axes->e8m0_zero == NIB_E8M0_ZERO_LOG2_1 ? (uint32_t)(128 - k->exponent_offset)
                                                             : 0;
    k->zero_value = k->zero_code == 0 ? k->bottom_value : ldexpf(1, (int)k->zero_code - 127);
    /* Below, exponents of subnormal numbers; above, powers whose reciprocals are not exact or are flushed. */
    k->v_low = axes->e8m0_bottom == NIB_E8M0_BOTTOM_EXP2 ? ldexpf(1, k->exponent_offset - 125) : 0x1p-126f;
    k->s_high = 0x1p125f;
    if (axes->e8m0_high == NIB_E8M0_HIGH_NAN) k->s_high = fminf(k->s_high, ldexpf(1, (int)axes->exponent_max));
    if (axes->scale_rounding == NIB_SCALE_ROUND_NEAREST) /* whose codec knows no other top than its format's */
        k->s_high = fminf(k->s_high, ldexpf(1, (int)fminf(axes->exponent_max, 126) + 1));
    if (axes->e8m0_low == NIB_E8M0_LOW_WRAP) k->v_low = ldexpf(1, k->exponent_offset - 126);
    /* Numbers that are flushed must be far too small for any code but 0, and no value may be. */
    if (axes->element_scale == NIB_ELEMENT_X_POW2_FTZ || axes->dequantize == NIB_DEQUANTIZE_QS_FTZ)
        k->v_low = fmaxf(k->v_low, nib_axes_stochastic(axes) ? 0x1p-60f : 0x1p-110f);
}

/* The cut at 2^-23 moves the first threshold of a grid whose first level is 1/2, and no other. */
static bool drops_bits(const struct nib_quantizer *q) {
    return q->axes.rounding == NIB_ROUNDING_RNE_DROP && q->rule.symmetric && q->block->element->level[1] == 0.5f;
}

/* What follows from the tensor scale. */
static void fill_tensor(const struct nib_quantizer *q, const struct nib_tensor_scale *t, struct nib_consts *k) {
    const int choice = q->axes.block_scale;
    bool by_d = choice == NIB_BLOCK_SCALE_BQ_DIV_D || choice == NIB_BLOCK_SCALE_B_APPROX_D_Q;
    k->tensor = *t;
    k->target_x_brq = t->encode * t->block_reciprocal;
    k->target_x_decode = t->block_target * t->decode;
    if (choice == NIB_BLOCK_SCALE_B_DIV_QD) k->approx_qd = approx_reciprocal(t->block_target * t->decode);
    if (by_d) k->approx_d = approx_reciprocal(t->decode);
    k->encode_reciprocal = 1.0f / t->encode;
    k->decode_reciprocal = 1.0f / t->decode;
}

static int precision_of(const struct nib_quantizer *q, const struct nib_tensor_scale *t) {
    if (q->axes.element_precision != NIB_ELEMENT_INPUT) return q->axes.element_precision;
    return t->bf16 ? NIB_ELEMENT_BF16 : NIB_ELEMENT_FP32;
}

/* A power of two has an exact reciprocal, however the axis says that it divides. */
static bool divides_by_power(const struct nib_quantizer *q) {
    int choice = q->axes.element_scale;
    return q->block->scale->kind == NIB_SCALE_E8M0 &&
           (choice == NIB_ELEMENT_X_OVER_S || choice == NIB_ELEMENT_X_RS || choice == NIB_ELEMENT_X_DIV_S ||
            choice == NIB_ELEMENT_X_RDIV_S || choice == NIB_ELEMENT_X_POW2 || choice == NIB_ELEMENT_X_POW2_FTZ ||
            choice == NIB_ELEMENT_X_FTZ_POW2);
}

static bool other_form(const struct nib_quantizer *q) {
    return q->axes.rounding == NIB_ROUNDING_SR && q->axes.sr_form != NIB_SR_CARRY;
}

/* The first product of an element and its factor that the encodings do not treat like the others: infinities and
 * numbers like them, what does not saturate, logarithms that round up. Lower where a rounding to bfloat16 follows. */
static float first_unlike(const struct nib_quantizer *q, const struct nib_tensor_scale *t) {
    float first = INFINITY;
    if (q->axes.element_inf != NIB_ELEMENT_INF_SATURATE) first = 0x1p127f;
    if (q->axes.rounding == NIB_ROUNDING_FLOAT_BITS) first = 7;
    if (q->axes.rounding == NIB_ROUNDING_RTZ_LOG2_INPUT) first = t->bf16 ? 0x1.fd3c2p+2f : 0x1.fffffep+2f;
    if (other_form(q)) first = fminf(first, 0x1p20f);
    bool exact = t->bf16 && divides_by_power(q);
    return precision_of(q, t) == NIB_ELEMENT_BF16 && !exact ? first * 0x1.fep-1f : first;
}

static void fill_consts(const struct nib_quantizer *q, const struct nib_tensor_scale *t, struct nib_consts *k) {
    const struct nib_scale *scale = q->block->scale;
    const struct nib_element *element = q->block->element;
    memset(k, 0, sizeof *k);
    fill_tensor(q, t, k);
    k->approx_q = approx_reciprocal(t->block_target);
    k->approx_3_4 = approx_reciprocal(0.75f);
    k->approx_size = approx_reciprocal((float)q->block->block_cols);
    k->scale_min = q->axes.scale_min;
    k->scale_max = q->axes.scale_max;
    k->element_emax = element->emax;
    k->mbits = scale->mbits;
    k->bias = scale->bias;
    k->top_exponent = scale->kind == NIB_SCALE_MINIFLOAT ? (1u << scale->ebits) - 1 : 0;
    k->max_code = scale->max_code;
    k->nan_code = scale->nan_code;
    k->largest_scale = scale->max_value;
    for (int i = 0; i < 7; i++) k->below_magnitude[i] = q->rule.magnitude_threshold[i] - 1;
    memcpy(k->threshold, q->rule.threshold, sizeof k->threshold);
    for (uint32_t i = 0; i < NIB_CODES; i++) k->code_of_rank[i] = (uint8_t)nib_round_code_of_rank(q->rule.codes, i);
    memcpy(k->level, element->level, sizeof k->level);
    if (q->axes.value_zero == NIB_VALUE_ZERO_PLUS) k->level[q->code_of_minus_zero] = 0;
    k->mirrored = true;
    for (int i = 0; i < 8; i++) k->mirrored = k->mirrored && element->level[i + 8] == -element->level[i];
    for (int i = 0; i < 7; i++) k->middle[i] = (element->level[i] + element->level[i + 1]) / 2;
    for (int i = 0; i < 16; i++) k->int4_level[i] = (float)(i > 7 ? i - 16 : i);
    for (int i = 0; i < 16; i++) k->int4_value[i] = k->int4_level[i] * 0.8571428571f;
    if (drops_bits(q)) k->below_magnitude[0] = 0x3E800003;        /* 1/4 + 2^-23: less than that is cut off */
    bool wide = t->bf16 && q->axes.rounding != NIB_ROUNDING_RNE_HALF; /* steps of bfloat16 */
    k->half_bits = (int32_t)(nib_bits_of_float(element->level[1] / 2) - (wide ? 0x10000 : 1));
    k->scale_if_zero = q->axes.scale_if_zero;
    k->code_if_zero = (uint32_t)q->axes.code_if_zero;
    k->s_high = INFINITY;
    k->factor_high = INFINITY;
    if (q->axes.flush == NIB_FLUSH_ON) {
        k->b_low = 0x1p-98f;
        k->s_high = 0x1p125f;
        k->factor_high = flush_limit(q);
    }
    k->y_high = first_unlike(q, t);
    k->ratio_high =
        q->axes.rounding == NIB_ROUNDING_ARGMIN ? 0x1p20f : INFINITY; /* differences keep the levels apart */
    k->precision = precision_of(q, t);
    if (scale->kind == NIB_SCALE_E8M0) fill_powers(q, k);
    if (!nib_axes_stochastic(&q->axes)) return;
    nib_sr_grid_make(element, &k->sr);
    for (uint8_t i = 0; i < 16; i++) k->translated |= k->sr.code[i] != i;
    k->signed_zero = q->axes.signed_zero;
    k->approx_3_2 = approx_reciprocal(1.5f);
}

static nib_stochastic_stage *stochastic_of(const struct nib_quantizer *q, const struct nib_stages *stages) {
    const struct nib_axes *axes = &q->axes;
    const unsigned width = nib_axes_random_bytes(axes) / 2;
    if (axes->rounding != NIB_ROUNDING_SR || !stages->k.sr.regular) return NULL;
    if (axes->sr_form == NIB_SR_CARRY)
        return stages->isa->carry[stages->operation][precision_of(q, &stages->k.tensor)][width];
    bool plain_codes = axes->sr_form != NIB_SR_FLOOR_ADD || (stages->k.sr.top == 7 && !stages->k.translated);
    return stages->operation == NIB_MULTIPLY && plain_codes ? stages->isa->form[axes->sr_form][width] : NULL;
}

/* E2M1 under scales of so few bits that their products with the middles between levels are exact. */
static bool compares_products(const struct nib_quantizer *q) {
    const struct nib_scale *scale = q->block->scale;
    return q->axes.rounding == NIB_ROUNDING_ARGMIN && nib_axis_applies(NIB_APPLIES_E2M1, q->block) &&
           (scale->kind == NIB_SCALE_E8M0 || (scale->kind == NIB_SCALE_MINIFLOAT && scale->bits == 8));
}

/* The encoding that the element stage implements, or NIB_ENCODINGS where only the reference does. */
static enum nib_encoding encoding_of(const struct nib_quantizer *q, const struct nib_tensor_scale *t,
                                     enum nib_operation operation) {
    static const enum nib_encoding by_axis[NIB_AXIS_signed_zero_COUNT] = {
        NIB_ENCODE_KEEP, NIB_ENCODE_NEGATIVE, NIB_ENCODE_DROP, NIB_ENCODE_NONPOSITIVE, NIB_ENCODE_NOT_POSITIVE};
    const int rounding = q->axes.rounding, sign = q->axes.signed_zero;
    const bool multiplies = operation == NIB_MULTIPLY; /* y_high is compared with the product */
    bool halves = rounding == NIB_ROUNDING_RNE_HALF || rounding == NIB_ROUNDING_RNE_HALF_INPUT ||
                  rounding == NIB_ROUNDING_RNA_HALF_INPUT;
    bool logarithm =
        rounding == NIB_ROUNDING_RTZ_LOG2_INPUT && multiplies && t->bf16 == (precision_of(q, t) == NIB_ELEMENT_BF16);
    if (rounding == NIB_ROUNDING_FLOAT_BITS) return multiplies ? NIB_ENCODE_NEGATIVE : NIB_ENCODINGS;
    if (compares_products(q)) return NIB_ENCODE_PRODUCTS;
    if (halves) return q->rule.symmetric && sign == NIB_SIGNED_ZERO_NEGATIVE ? NIB_ENCODE_HALF : NIB_ENCODINGS;
    if (rounding > NIB_ROUNDING_RTZ && !drops_bits(q) && !logarithm) return NIB_ENCODINGS;
    if (q->rule.symmetric) return by_axis[sign];
    bool sign_free = !q->block->element->has_negative_zero || sign == NIB_SIGNED_ZERO_KEEP;
    return sign_free && !logarithm ? NIB_ENCODE_GRID : NIB_ENCODINGS;
}

static bool is_e4m3(const struct nib_scale *scale) {
    return scale->bits == 8 && scale->mbits == 3 && scale->bias == 7 && scale->max_code == 0x7E;
}

static nib_codec_stage *codec_of(const struct nib_quantizer *q, const struct nib_isa *isa) {
    int rounding = q->axes.scale_rounding;
    bool replaced = q->axes.code_if_zero != 0;
    switch (q->block->scale->kind) {
    case NIB_SCALE_E8M0:
        if (rounds_exponents(q)) return isa->codec[NIB_CODEC_EXPONENT];
        return rounding == NIB_SCALE_ROUND_NEAREST && q->axes.block_scale != NIB_BLOCK_SCALE_EXPONENT
                   ? isa->codec[NIB_CODEC_E8M0]
                   : NULL;
    case NIB_SCALE_MINIFLOAT:
        if (rounding == NIB_SCALE_ROUND_GGML) return is_e4m3(q->block->scale) ? isa->codec[NIB_CODEC_HALF_UP] : NULL;
        if (rounding == NIB_SCALE_ROUND_FREXP) return isa->codec[NIB_CODEC_FREXP];
        return rounding == NIB_SCALE_ROUND_NEAREST ? isa->codec[NIB_CODEC_MINIFLOAT] : NULL;
    case NIB_SCALE_BF16: return rounding == NIB_SCALE_ROUND_NEAREST && !replaced ? isa->codec[NIB_CODEC_BF16] : NULL;
    case NIB_SCALE_FP32: return rounding <= NIB_SCALE_ROUND_DOWN && !replaced ? isa->codec[NIB_CODEC_FP32] : NULL;
    case NIB_SCALE_HIF4: break;
    }
    return NULL;
}

/* y_high is compared with products. */
static bool inf_is_screened(const struct nib_quantizer *q, enum nib_operation operation) {
    return operation == NIB_MULTIPLY && q->axes.rounding != NIB_ROUNDING_FLOAT_BITS &&
           q->axes.rounding != NIB_ROUNDING_ARGMIN && q->axes.rounding != NIB_ROUNDING_RTZ_LOG2_INPUT;
}

/* A formula that does not look at the amax gives blocks of zeros their usual scale. */
static bool zeros_are_usual(const struct nib_axes *axes) {
    if (axes->block_scale == NIB_BLOCK_SCALE_QUEST || axes->block_scale == NIB_BLOCK_SCALE_PLUS_TINY)
        return axes->e8m0_zero == NIB_E8M0_ZERO_BOTTOM;
    return axes->block_scale != NIB_BLOCK_SCALE_ONE || axes->e8m0_zero != NIB_E8M0_ZERO_LOG2_1;
}

/* Axes that no stage knows must stand at their first choice, unless they only concern blocks that the reference gets.
 */
static bool plain(const struct nib_quantizer *q, enum nib_operation operation) {
    const struct nib_axes *axes = &q->axes;
    bool doubled = (axes->element_scale == NIB_ELEMENT_X_DOUBLE) == (axes->dequantize == NIB_DEQUANTIZE_DOUBLE);
    bool flushes = axes->element_scale == NIB_ELEMENT_X_RCP_SD || axes->element_scale == NIB_ELEMENT_X_POW2_FTZ ||
                   axes->element_scale == NIB_ELEMENT_X_DOUBLE || axes->element_scale == NIB_ELEMENT_X_APPROX_S_3 ||
                   axes->flush == NIB_FLUSH_ON;
    bool bounded = axes->flush == NIB_FLUSH_OFF || operation == NIB_MULTIPLY; /* see b_low */
    bool draws = axes->rounding == NIB_ROUNDING_SR && (axes->sr_form == NIB_SR_RINT || axes->sr_form == NIB_SR_COMPARE ||
                                                       axes->sr_form == NIB_SR_COMPARE_NEXT || axes->sr_form == NIB_SR_MSLK);
    bool tells = draws || axes->rounding == NIB_ROUNDING_FLOAT_BITS || axes->signed_zero == NIB_SIGNED_ZERO_NEGATIVE ||
                 axes->signed_zero == NIB_SIGNED_ZERO_NONPOSITIVE; /* whether a number was flushed */
    bool powers = axes->dequantize != NIB_DEQUANTIZE_QS_FTZ || q->block->scale->kind == NIB_SCALE_E8M0; /* see v_low */
    return bounded && powers && doubled && !(flushes && tells) && zeros_are_usual(axes) &&
           (axes->element_inf == NIB_ELEMENT_INF_SATURATE || inf_is_screened(q, operation)) &&
           axes->procedure == NIB_PROCEDURE_AXES;
}

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
static bool make_contest(const struct nib_quantizer *q, const struct nib_isa *isa, struct nib_stages *out) {
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
        if (out->back_tabulated || !is_e4m3(q->block->scale)) return false;
        c->other[c->others++] = (struct nib_candidate){
            NIB_OF_LEVELS, 1, isa->encode[NIB_MULTIPLY][NIB_ELEMENT_FP32][NIB_ENCODE_INT4],
            out->stochastic != NULL ? isa->stochastic_int4[nib_axes_random_bytes(axes) / 2] : NULL, 0.8571428571f};
        break;
    case NIB_SELECT_NONE:
    case NIB_AXIS_select_COUNT: return false;
    }
    return c->terms != NULL;
}

/* Constants whose reciprocals are no simple products; bounds would hide the NaN that stands for them. */
static bool divides_oddly(const struct nib_consts *k, int block_scale) {
    switch (block_scale) {
    case NIB_BLOCK_SCALE_B_APPROX_D_Q:
    case NIB_BLOCK_SCALE_BQ_DIV_D: return isnan(k->approx_q) || isnan(k->approx_d);
    case NIB_BLOCK_SCALE_B_DIV_QD: return isnan(k->approx_qd);
    case NIB_BLOCK_SCALE_BQ_DIV_X_S:
    case NIB_BLOCK_SCALE_B_DIV_Q:
    case NIB_BLOCK_SCALE_B_APPROX_Q:
    case NIB_BLOCK_SCALE_DOUBLE: return isnan(k->approx_q);
    default: return false;
    }
}

/* What a tensor scale decides: the last factor, and whether the stages can work with it at all. */
static void choose_reference(struct nib_stages *stages, const struct nib_tensor_scale *t) {
    const struct nib_axes *axes = &stages->q->axes;
    bool tells = axes->tensor_zero != NIB_TENSOR_ZERO_FORMULA || axes->element_scale == NIB_ELEMENT_X_DOUBLE;
    bool empty = tells && t->amax == 0 && stages->q->block->has_tensor_scale;
    bool finite = isfinite(t->amax) && isfinite(t->encode) && isfinite(t->decode);
    stages->second = axes->dequantize == NIB_DEQUANTIZE_QS_X_D       ? t->decode
                     : axes->dequantize == NIB_DEQUANTIZE_QS_THIRD ? 1.0f / 3.0f
                                                                   : 1;
    /* zeros under a scale of 1 must stay zeros */
    bool far = axes->zero_scale == NIB_ZERO_SCALE_ONE && !(t->encode > 0x1p-120f && t->encode < 0x1p120f);
    /* and see b_low */
    if (axes->flush == NIB_FLUSH_ON) far = far || !(t->encode > 0x1p-24f && t->encode < 0x1p100f);
    stages->reference = stages->incomplete || empty || !finite || far || divides_oddly(&stages->k, axes->block_scale);
}

void nib_stages_make(const struct nib_quantizer *q, const struct nib_tensor_scale *t, const struct nib_isa *isa,
                     bool reference, struct nib_stages *out) {
    const struct nib_axes *axes = &q->axes;
    *out = (struct nib_stages){.q = q, .isa = isa};
    fill_consts(q, t, &out->k);
    bool by_input = t->bf16 && axes->scale_precision == NIB_SCALE_PRECISION_INPUT;
    out->block_scale = by_input ? isa->block_scale_bf16[axes->block_scale] : isa->block_scale[axes->block_scale];
    /* what is finite stays below FLT_MAX by itself */
    bool bounded = q->block->scale->kind != NIB_SCALE_E8M0 &&
                   (axes->scale_max < FLT_MAX || axes->scale_min > 0 || axes->scale_if_zero > 0);
    out->bound = bounded ? isa->bound : NULL;
    out->codec = codec_of(q, isa);
    out->straight_through = axes->scale_ste == NIB_SCALE_STE_ON ? isa->straight_through : NULL;
    int element_scale = divides_by_power(q) ? NIB_ELEMENT_X_RS : axes->element_scale;
    out->factor = isa->factor[element_scale];
    if (divides_by_powers_of_one(q, out)) {
        float significand = axes->block_scale == NIB_BLOCK_SCALE_QUEST ? 1 : out->k.approx_3_4;
        out->k.significand_reciprocal =
            nib_bits_of_float(approx_reciprocal(significand)) + (nib_bits_of_float(significand) & NIB_BITS_INFINITY);
        out->factor = isa->factor_of_power;
    }
    out->operation = nib_element_operation(element_scale);
    enum nib_encoding encoding = encoding_of(q, t, out->operation);
    if (encoding == NIB_ENCODE_PRODUCTS) {
        out->factor = isa->factor[NIB_ELEMENT_X_OVER_S];
        out->operation = NIB_MULTIPLY;
    }
    out->encode = encoding == NIB_ENCODINGS ? NULL : isa->encode[out->operation][precision_of(q, t)][encoding];
    out->stochastic = stochastic_of(q, out);
    out->dequantize = isa->dequantize[axes->dequantize];
    choose_tables(q, out);
    tabulate(q, t, out);
    out->quest = axes->block_scale == NIB_BLOCK_SCALE_QUEST && q->block->block_rows == 1 &&
                 (q->block->block_cols == 16 || q->block->block_cols == 32) && axes->select != NIB_SELECT_HALVES;
    out->signed_scale = axes->block_scale == NIB_BLOCK_SCALE_SIGNED && q->block->block_rows == 1 && out->bound == NULL &&
                        q->block->scale->kind != NIB_SCALE_E8M0 && q->block->scale->kind != NIB_SCALE_MINIFLOAT &&
                        axes->select == NIB_SELECT_NONE;
    bool complete = (out->block_scale || out->quest || out->signed_scale) && out->codec &&
                    (out->factor || out->tabulated || out->one_by_one) && (out->encode || out->stochastic) &&
                    (out->dequantize || out->back_tabulated) && plain(q, out->operation);
    if (axes->select != NIB_SELECT_NONE && !make_contest(q, isa, out)) complete = false;
    out->hif4 = axes->procedure == NIB_PROCEDURE_HIF4 && axes->value_zero == NIB_VALUE_ZERO_KEEP;
    if (out->hif4) {
        complete = true;
        out->contest.others = 0;
    }
    out->cut = axes->input_precision == NIB_INPUT_TF32 && !t->bf16 && complete && !reference;
    out->incomplete = reference || !complete;
    choose_reference(out, t);
}

void nib_stages_retarget(struct nib_stages *stages, const struct nib_tensor_scale *t) {
    fill_tensor(stages->q, t, &stages->k);
    if (!stages->incomplete) tabulate(stages->q, t, stages);
    choose_reference(stages, t);
}
