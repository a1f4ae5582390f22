/* The numbers that the stages of a quantizer need, and from where on they leave blocks to the reference. */
#include <math.h>
#include <string.h>
#include "core/convert.h"
#include "core/round.h"
#include "quantize/ref_e8m0.h"
#include "quantize/stages.h"

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

bool nib_rounds_exponents(const struct nib_quantizer *q) {
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
bool nib_drops_bits(const struct nib_quantizer *q) {
    return q->axes.rounding == NIB_ROUNDING_RNE_DROP && q->rule.symmetric && q->block->element->level[1] == 0.5f;
}

/* What follows from the tensor scale. */
void nib_consts_retarget(const struct nib_quantizer *q, const struct nib_tensor_scale *t, struct nib_consts *k) {
    const int choice = q->axes.block_scale;
    bool by_d = choice == NIB_BLOCK_SCALE_BQ_DIV_D || choice == NIB_BLOCK_SCALE_B_APPROX_D_Q;
    k->tensor = *t;
    k->target_x_brq = t->encode * t->block_reciprocal;
    k->target_x_decode = t->block_target * t->decode;
    if (choice == NIB_BLOCK_SCALE_B_DIV_QD) k->approx_qd = nib_approx_reciprocal(t->block_target * t->decode);
    if (by_d) k->approx_d = nib_approx_reciprocal(t->decode);
    k->encode_reciprocal = 1.0f / t->encode;
    k->decode_reciprocal = 1.0f / t->decode;
}

int nib_precision_of(const struct nib_quantizer *q, const struct nib_tensor_scale *t) {
    if (q->axes.element_precision != NIB_ELEMENT_INPUT) return q->axes.element_precision;
    return t->bf16 ? NIB_ELEMENT_BF16 : NIB_ELEMENT_FP32;
}

/* A power of two has an exact reciprocal, however the axis says that it divides. */
bool nib_divides_by_power(const struct nib_quantizer *q) {
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
    bool exact = t->bf16 && nib_divides_by_power(q);
    return nib_precision_of(q, t) == NIB_ELEMENT_BF16 && !exact ? first * 0x1.fep-1f : first;
}

void nib_consts_make(const struct nib_quantizer *q, const struct nib_tensor_scale *t, struct nib_consts *k) {
    const struct nib_scale *scale = q->block->scale;
    const struct nib_element *element = q->block->element;
    memset(k, 0, sizeof *k);
    nib_consts_retarget(q, t, k);
    k->approx_q = nib_approx_reciprocal(t->block_target);
    k->approx_3_4 = nib_approx_reciprocal(0.75f);
    k->approx_size = nib_approx_reciprocal((float)q->block->block_cols);
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
    if (nib_drops_bits(q)) k->below_magnitude[0] = 0x3E800003;        /* 1/4 + 2^-23: less than that is cut off */
    bool wide = t->bf16 && q->axes.rounding != NIB_ROUNDING_RNE_HALF; /* steps of bfloat16 */
    k->half_bits = (int32_t)(nib_bits_of_float(element->level[1] / 2) - (wide ? 0x10000 : 1));
    k->scale_if_zero = q->axes.scale_if_zero;
    k->code_if_zero = (uint32_t)q->axes.code_if_zero;
    k->s_high = INFINITY;
    k->factor_high = INFINITY;
    if (q->axes.flush == NIB_FLUSH_ON) {
        k->b_low = 0x1p-98f;
        k->s_high = 0x1p125f;
        k->factor_high = nib_flush_limit(q);
    }
    k->y_high = first_unlike(q, t);
    k->ratio_high =
        q->axes.rounding == NIB_ROUNDING_ARGMIN ? 0x1p20f : INFINITY; /* differences keep the levels apart */
    k->precision = nib_precision_of(q, t);
    if (scale->kind == NIB_SCALE_E8M0) fill_powers(q, k);
    if (!nib_axes_stochastic(&q->axes)) return;
    nib_sr_grid_make(element, &k->sr);
    for (uint8_t i = 0; i < 16; i++) k->translated |= k->sr.code[i] != i;
    k->signed_zero = q->axes.signed_zero;
    k->approx_3_2 = nib_approx_reciprocal(1.5f);
}
