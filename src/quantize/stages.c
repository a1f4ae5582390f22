#include "quantize/stages.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include "core/convert.h"
#include "core/round.h"
#include "quantize/approx.h"
#include "quantize/ref_e8m0.h"

static nib_stochastic_stage *stochastic_of(const struct nib_quantizer *q, const struct nib_stages *stages) {
    const struct nib_axes *axes = &q->axes;
    const unsigned width = nib_axes_random_bytes(axes) / 2;
    if (axes->rounding != NIB_ROUNDING_SR || !stages->k.sr.regular) return NULL;
    if (axes->sr_form == NIB_SR_CARRY)
        return stages->isa->carry[stages->operation][nib_precision_of(q, &stages->k.tensor)][width];
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
    bool logarithm = rounding == NIB_ROUNDING_RTZ_LOG2_INPUT && multiplies &&
                     t->bf16 == (nib_precision_of(q, t) == NIB_ELEMENT_BF16);
    if (rounding == NIB_ROUNDING_FLOAT_BITS) return multiplies ? NIB_ENCODE_NEGATIVE : NIB_ENCODINGS;
    if (compares_products(q)) return NIB_ENCODE_PRODUCTS;
    if (halves) return q->rule.symmetric && sign == NIB_SIGNED_ZERO_NEGATIVE ? NIB_ENCODE_HALF : NIB_ENCODINGS;
    if (rounding > NIB_ROUNDING_RTZ && !nib_drops_bits(q) && !logarithm) return NIB_ENCODINGS;
    if (q->rule.symmetric) return by_axis[sign];
    bool sign_free = !q->block->element->has_negative_zero || sign == NIB_SIGNED_ZERO_KEEP;
    return sign_free && !logarithm ? NIB_ENCODE_GRID : NIB_ENCODINGS;
}

static nib_codec_stage *codec_of(const struct nib_quantizer *q, const struct nib_isa *isa) {
    int rounding = q->axes.scale_rounding;
    bool replaced = q->axes.code_if_zero != 0;
    switch (q->block->scale->kind) {
    case NIB_SCALE_E8M0:
        if (nib_rounds_exponents(q)) return isa->codec[NIB_CODEC_EXPONENT];
        return rounding == NIB_SCALE_ROUND_NEAREST && q->axes.block_scale != NIB_BLOCK_SCALE_EXPONENT
                   ? isa->codec[NIB_CODEC_E8M0]
                   : NULL;
    case NIB_SCALE_MINIFLOAT:
        if (rounding == NIB_SCALE_ROUND_GGML)
            return nib_is_e4m3(q->block->scale) ? isa->codec[NIB_CODEC_HALF_UP] : NULL;
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
    bool draws =
        axes->rounding == NIB_ROUNDING_SR && (axes->sr_form == NIB_SR_RINT || axes->sr_form == NIB_SR_COMPARE ||
                                              axes->sr_form == NIB_SR_COMPARE_NEXT || axes->sr_form == NIB_SR_MSLK);
    bool tells = draws || axes->rounding == NIB_ROUNDING_FLOAT_BITS || axes->signed_zero == NIB_SIGNED_ZERO_NEGATIVE ||
                 axes->signed_zero == NIB_SIGNED_ZERO_NONPOSITIVE; /* whether a number was flushed */
    bool powers = axes->dequantize != NIB_DEQUANTIZE_QS_FTZ || q->block->scale->kind == NIB_SCALE_E8M0; /* see v_low */
    return bounded && powers && doubled && !(flushes && tells) && zeros_are_usual(axes) &&
           (axes->element_inf == NIB_ELEMENT_INF_SATURATE || inf_is_screened(q, operation)) &&
           axes->procedure == NIB_PROCEDURE_AXES;
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
    stages->second = axes->dequantize == NIB_DEQUANTIZE_QS_X_D     ? t->decode
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
    nib_consts_make(q, t, &out->k);
    bool by_input = t->bf16 && axes->scale_precision == NIB_SCALE_PRECISION_INPUT;
    out->block_scale = by_input ? isa->block_scale_bf16[axes->block_scale] : isa->block_scale[axes->block_scale];
    /* what is finite stays below FLT_MAX by itself */
    bool bounded = q->block->scale->kind != NIB_SCALE_E8M0 &&
                   (axes->scale_max < FLT_MAX || axes->scale_min > 0 || axes->scale_if_zero > 0);
    out->bound = bounded ? isa->bound : NULL;
    out->codec = codec_of(q, isa);
    out->straight_through = axes->scale_ste == NIB_SCALE_STE_ON ? isa->straight_through : NULL;
    nib_factors_choose(q, out);
    enum nib_encoding encoding = encoding_of(q, t, out->operation);
    if (encoding == NIB_ENCODE_PRODUCTS) {
        out->factor = isa->factor[NIB_ELEMENT_X_OVER_S];
        out->operation = NIB_MULTIPLY;
    }
    out->encode = encoding == NIB_ENCODINGS ? NULL : isa->encode[out->operation][nib_precision_of(q, t)][encoding];
    out->stochastic = stochastic_of(q, out);
    out->dequantize = isa->dequantize[axes->dequantize];
    nib_factors_plan(q, out);
    nib_factors_tabulate(q, t, out);
    out->quest = axes->block_scale == NIB_BLOCK_SCALE_QUEST && q->block->block_rows == 1 &&
                 (q->block->block_cols == 16 || q->block->block_cols == 32) && axes->select != NIB_SELECT_HALVES;
    out->signed_scale = axes->block_scale == NIB_BLOCK_SCALE_SIGNED && q->block->block_rows == 1 &&
                        out->bound == NULL && q->block->scale->kind != NIB_SCALE_E8M0 &&
                        q->block->scale->kind != NIB_SCALE_MINIFLOAT && axes->select == NIB_SELECT_NONE;
    bool complete = (out->block_scale || out->quest || out->signed_scale) && out->codec &&
                    (out->factor || out->tabulated || out->one_by_one) && (out->encode || out->stochastic) &&
                    (out->dequantize || out->back_tabulated) && plain(q, out->operation);
    if (axes->select != NIB_SELECT_NONE && !nib_contest_make(q, isa, out)) complete = false;
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
    nib_consts_retarget(stages->q, t, &stages->k);
    if (!stages->incomplete) nib_factors_tabulate(stages->q, t, stages);
    choose_reference(stages, t);
}
