#include "job/gpu_subject.h"

#include <float.h>
#include <math.h>
#include <nibble/unit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "core/convert.h"
#include "core/philox.h"
#include "format/quantizer.h"

static enum nib_status unlike(const struct nib_quantizer *q, const char *axis, struct nib_error *error) {
    return nib_fail(error, NIB_EUNAVAILABLE, "%s: no device kernel follows its choice of %s", q->name, axis);
}

static enum nib_status describe_rule(const struct nib_quantizer *q, struct nib_gpu_quantizer *out,
                                     struct nib_error *error) {
    const struct nib_axes *a = &q->axes;
    if (q->block->has_tensor_scale) {
        if (q->block->scale->kind != NIB_SCALE_MINIFLOAT || strcmp(q->block->scale->name, "e4m3") != 0)
            return unlike(q, "scale", error);
        if (a->tensor_target != 2688 || a->block_target != 6) return unlike(q, "tensor_target or block_target", error);
        if (a->tensor_scale != NIB_TENSOR_SCALE_T_OVER_G) return unlike(q, "tensor_scale", error);
        if (a->tensor_scale_guard != NIB_TENSOR_GUARD_MAX_EMPTY) return unlike(q, "tensor_scale_guard", error);
        if (a->block_scale != NIB_BLOCK_SCALE_B_X_SRQ) return unlike(q, "block_scale", error);
        if (a->element_scale != NIB_ELEMENT_X_RSRS_FMIN) return unlike(q, "element_scale", error);
        if (a->zero_scale != NIB_ZERO_SCALE_FORMULA) return unlike(q, "zero_scale", error);
        if (a->dequantize != NIB_DEQUANTIZE_SGT) return unlike(q, "dequantize", error);
        if (a->amax_nan != NIB_AMAX_NAN_SKIP || a->tensor_amax_min != 0)
            return unlike(q, "amax_nan or tensor_amax_min", error);
        if (a->tensor_scope != NIB_TENSOR_SCOPE_TENSOR || a->tensor_amax_nan != NIB_TENSOR_AMAX_NAN_SAME ||
            a->tensor_zero != NIB_TENSOR_ZERO_FORMULA)
            return unlike(q, "tensor_scope, tensor_amax_nan or tensor_zero", error);
        if (a->scale_max != FLT_MAX || a->scale_bound_nan != NIB_SCALE_BOUND_NAN_NUMBER)
            return unlike(q, "scale_max", error);
        if (a->scale_rounding != NIB_SCALE_ROUND_NEAREST) return unlike(q, "scale_rounding", error);
        out->scale = NIB_GPU_SCALE_E4M3;
        out->rule = NIB_GPU_RULE_NVFP4;
        return NIB_OK;
    }
    if (a->block_target != q->block->element->max_magnitude) return unlike(q, "block_target", error);
    if (a->element_scale != NIB_ELEMENT_X_OVER_S) return unlike(q, "element_scale", error);
    if (a->dequantize != NIB_DEQUANTIZE_QS) return unlike(q, "dequantize", error);
    if (q->block->scale->kind == NIB_SCALE_E8M0) {
        out->scale = NIB_GPU_SCALE_E8M0;
        if (a->e8m0_nan != NIB_E8M0_NAN_FF ||
            (a->e8m0_inf != NIB_E8M0_INF_CLAMP && a->e8m0_inf != NIB_E8M0_INF_FF_NAN) ||
            a->e8m0_low != NIB_E8M0_LOW_CLAMP || a->e8m0_zero != NIB_E8M0_ZERO_BOTTOM ||
            a->e8m0_bottom != NIB_E8M0_BOTTOM_127 || a->exponent_max != 127)
            return unlike(q, "e8m0_nan, e8m0_inf, e8m0_low, e8m0_zero, e8m0_bottom or exponent_max", error);
        out->infinite_scale_is_nan = a->e8m0_inf == NIB_E8M0_INF_FF_NAN;
        if (a->block_scale == NIB_BLOCK_SCALE_EXPONENT && a->scale_rounding == NIB_SCALE_ROUND_DOWN)
            out->rule = NIB_GPU_RULE_MX_FLOOR;
        else if (a->block_scale == NIB_BLOCK_SCALE_EXPONENT && a->scale_rounding == NIB_SCALE_ROUND_UP_BITS)
            out->rule = NIB_GPU_RULE_MX_CEIL;
        else if (a->block_scale == NIB_BLOCK_SCALE_EXPONENT && a->scale_rounding == NIB_SCALE_ROUND_EVEN)
            out->rule = NIB_GPU_RULE_MX_EVEN;
        else if (a->block_scale == NIB_BLOCK_SCALE_B_X_RQ && a->scale_rounding == NIB_SCALE_ROUND_UP)
            out->rule = NIB_GPU_RULE_MX_RCEIL;
        else if (a->block_scale == NIB_BLOCK_SCALE_B_OVER_Q && a->scale_rounding == NIB_SCALE_ROUND_UP)
            out->rule = NIB_GPU_RULE_ABSMAX;
        else
            return unlike(q, "block_scale or scale_rounding", error);
        return NIB_OK;
    }
    if (q->block->scale->kind != NIB_SCALE_FP32 && strcmp(q->block->scale->name, "e4m3") != 0)
        return unlike(q, "scale", error);
    if (a->block_scale != NIB_BLOCK_SCALE_B_OVER_Q) return unlike(q, "block_scale", error);
    if (!isinf(a->scale_max)) return unlike(q, "scale_max", error);
    if (a->zero_scale != NIB_ZERO_SCALE_X0) return unlike(q, "zero_scale", error);
    if (a->scale_rounding != NIB_SCALE_ROUND_NEAREST) return unlike(q, "scale_rounding", error);
    out->scale = q->block->scale->kind == NIB_SCALE_FP32 ? NIB_GPU_SCALE_FP32 : NIB_GPU_SCALE_E4M3;
    out->rule = NIB_GPU_RULE_ABSMAX;
    return NIB_OK;
}

enum nib_status nib_gpu_describe_quantizer(const struct nib_quantizer *q, enum nib_axis axis,
                                           struct nib_gpu_quantizer *out, struct nib_error *error) {
    const struct nib_axes *a = &q->axes;
    const struct nib_element *e = q->block->element;
    static const float e2m1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    struct nib_gpu_quantizer g;
    memset(&g, 0, sizeof g);
    enum nib_status status = describe_rule(q, &g, error);
    if (status != NIB_OK) return status;
    bool e8m0 = q->block->scale->kind == NIB_SCALE_E8M0;
    if (a->rounding != NIB_ROUNDING_RNE && a->rounding != NIB_ROUNDING_SR) return unlike(q, "rounding", error);
    const bool random = a->rounding == NIB_ROUNDING_SR;
    if (random && (a->sr_form != NIB_SR_CARRY || a->sr_source != NIB_SR_SOURCE_ELEMENT))
        return unlike(q, "sr_form or sr_source", error);
    if (a->signed_zero != NIB_SIGNED_ZERO_KEEP) return unlike(q, "signed_zero", error);
    if (a->element_nan != NIB_ELEMENT_NAN_MAX && a->element_nan != NIB_ELEMENT_NAN_PAYLOAD)
        return unlike(q, "element_nan", error);
    if (a->element_inf != NIB_ELEMENT_INF_SATURATE) return unlike(q, "element_inf", error);
    if (a->input_precision != NIB_INPUT_EXACT || a->amax_inf != NIB_AMAX_INF_KEEP)
        return unlike(q, "input_precision or amax_inf", error);
    if (a->scale_precision != NIB_SCALE_PRECISION_FP32) return unlike(q, "scale_precision", error);
    if (a->value_nan != NIB_VALUE_NAN_CODE || a->value_zero != NIB_VALUE_ZERO_KEEP)
        return unlike(q, "value_nan or value_zero", error);
    if (a->select != NIB_SELECT_NONE) return unlike(q, "select", error);
    if (!e8m0 && (a->scale_if_zero != 0 || a->code_if_zero != 0 || a->scale_ste != NIB_SCALE_STE_OFF))
        return unlike(q, "scale_if_zero, code_if_zero or scale_ste", error);
    if (a->element_precision != NIB_ELEMENT_FP32) return unlike(q, "element_precision", error);
    if (!e8m0 && (a->scale_overflow != NIB_SCALE_OVERFLOW_SATURATE || a->scale_min != 0))
        return unlike(q, "scale_overflow or scale_min", error);
    memcpy(g.level, e->level, sizeof g.level);
    g.is_e2m1 = memcmp(e->level, e2m1, sizeof e2m1) == 0;
    g.max_magnitude = e->max_magnitude;
    g.emax = e->emax;
    g.nan_code = a->element_nan == NIB_ELEMENT_NAN_MAX ? q->code_of_max
                                                       : 4; /* torchao: a NaN of all ones, rounded as an integer */
    g.random_bits = !random ? 0 : a->sr_bits == NIB_SR_BITS_8 ? 8 : a->sr_bits == NIB_SR_BITS_16 ? 16 : 32;
    g.amax_nan_propagates = a->amax_nan == NIB_AMAX_NAN_PROPAGATE;
    g.block_rows = q->block->block_rows;
    g.block_cols = q->block->block_cols;
    g.along_rows = axis == NIB_ALONG_ROWS;
    *out = g;
    return NIB_OK;
}

enum nib_status nib_gpu_square_blocks(const struct nib_quantizer *base, const struct nib_quantizer **out,
                                      struct nib_error *error) {
    static const char line[] = "shape: 1x16\n";
    const char *text = base->block->text, *at = strstr(text, line);
    const struct nib_quantizer *copy;
    const struct nib_block *block;
    struct nib_quantizer *own;
    char square[1024];
    if (at == NULL || strlen(text) + 2 > sizeof square)
        return nib_fail(error, NIB_EINVAL, "%s: expected a block format with the line \"shape: 1x16\"", base->name);
    snprintf(square, sizeof square, "%.*sshape: 16x16\n%s", (int)(at - text), text, at + sizeof line - 1);
    enum nib_status status = nib_block_parse(square, strlen(square), base->block->name, &block, error);
    if (status != NIB_OK) return status;
    status = nib_quantizer_with(base, NULL, 0, &copy, error);
    if (status != NIB_OK) {
        nib_block_close(block);
        return status;
    }
    memcpy(&own, &copy, sizeof own); /* ours: nobody else holds the copy */
    nib_block_close(own->block);
    own->block = block;
    *out = copy;
    return NIB_OK;
}

/* ---- the list ---- */

static void take(struct nib_gpu_subjects *s, const struct nib_quantizer *q, const char *name, bool rotated) {
    s->quantizer[s->count] = q;
    s->rotated[s->count] = rotated;
    snprintf(s->name[s->count], sizeof s->name[0], "%s", name);
    s->count++;
}

static enum nib_status add_builtin(struct nib_gpu_subjects *s, const char *name, bool rotated, bool square,
                                   struct nib_error *error) {
    const struct nib_quantizer *q, *tiles;
    enum nib_status status = nib_quantizer_open(name, &q, error);
    if (status != NIB_OK) return status;
    take(s, q, name, rotated);
    if (!square) return NIB_OK;
    char text[80];
    status = nib_gpu_square_blocks(q, &tiles, error);
    if (status != NIB_OK) return status;
    snprintf(text, sizeof text, "%.60s 16x16", name);
    take(s, tiles, text, false);
    return NIB_OK;
}

/* A grid has no file whose settings could change. */
static void make_stochastic(const struct nib_quantizer *grid) {
    struct nib_quantizer *own;
    memcpy(&own, &grid, sizeof own);
    own->axes.rounding = NIB_ROUNDING_SR;
    own->axes.sr_bits = NIB_SR_BITS_8;
}

static enum nib_status add_settings(struct nib_gpu_subjects *s, const char *base, const char *const *settings,
                                    size_t count, const char *name, bool rotated, bool square,
                                    struct nib_error *error) {
    const struct nib_quantizer *q, *changed;
    enum nib_status status = nib_quantizer_open(base, &q, error);
    if (status != NIB_OK) return status;
    status = nib_quantizer_with(q, settings, count, &changed, error);
    nib_quantizer_close(q);
    if (status == NIB_OK && square) {
        q = changed;
        status = nib_gpu_square_blocks(q, &changed, error);
        nib_quantizer_close(q);
    }
    if (status == NIB_OK) take(s, changed, name, rotated);
    return status;
}

static enum nib_status add_grid(struct nib_gpu_subjects *s, const char *element, const char *scale, unsigned block,
                                bool stochastic, struct nib_error *error) {
    const struct nib_element *e;
    const struct nib_scale *f;
    const struct nib_quantizer *q = NULL;
    enum nib_status status = nib_element_open(element, &e, error);
    if (status != NIB_OK) return status;
    status = nib_scale_open(scale, &f, error);
    if (status == NIB_OK) {
        status = nib_quantizer_of_grid(e, f, block, &q, error);
        nib_scale_close(f);
    }
    nib_element_close(e);
    char name[80];
    snprintf(name, sizeof name, "%s %s 1x%u%s", element, scale, block, stochastic ? " sr" : "");
    if (status == NIB_OK && stochastic) make_stochastic(q);
    if (status == NIB_OK) take(s, q, name, false);
    return status;
}

enum nib_status nib_gpu_subjects_open(struct nib_gpu_subjects *out, struct nib_error *error) {
    static const char *const rceil[] = {"block_scale=b*rQ", "scale_rounding=up"};
    static const char *const ceiling[] = {"block_scale=b/Q", "scale_rounding=up"};
    static const char *const propagate[] = {"amax_nan=propagate"}, *const sr[] = {"rounding=sr"};
    static const char *const sr16[] = {"rounding=sr", "sr_bits=16"}, *const sr32[] = {"rounding=sr", "sr_bits=32"};
    static const struct {
        const char *base, *const *settings;
        size_t count;
        const char *name;
        bool rotated, square;
    } changed[] = {
        {"ocp-mxfp4", rceil, 2, "ocp-mxfp4 b*rQ up (rceil)", false, false},
        {"ocp-mxfp4", ceiling, 2, "ocp-mxfp4 b/Q up", false, false},
        {"e2m1-fp32", propagate, 1, "e2m1-fp32 amax_nan=propagate", false, false},
        {"ocp-mxfp4", propagate, 1, "ocp-mxfp4 amax_nan=propagate", false, false},
        {"te-nvfp4", sr, 1, "te-nvfp4 sr", true, false},
        {"te-nvfp4", sr, 1, "te-nvfp4 16x16 sr", false, true},
        {"ocp-mxfp4", sr, 1, "ocp-mxfp4 sr", false, false},
        {"e1m2-fp32", sr, 1, "e1m2-fp32 sr", true, false},
        {"e2m1-fp32", sr, 1, "e2m1-fp32 sr", false, false},
        {"te-nvfp4", sr32, 2, "te-nvfp4 sr 32 bits", false, false},
        {"e1m2-fp32", sr32, 2, "e1m2-fp32 sr 32 bits", false, false},
        {"e2m1-fp32", sr16, 2, "e2m1-fp32 sr 16 bits", false, false},
    };
    static const struct {
        const char *element, *scale;
        unsigned block;
        bool stochastic;
    } grids[] = {{"int4", "fp32", 16, false}, {"int4-full", "fp32", 32, false}, {"int4", "e8m0", 32, false},
                 {"nf4", "fp32", 64, false},  {"nf4", "e4m3", 16, false},       {"e3m0", "fp32", 128, false},
                 {"int4", "fp32", 16, true},  {"nf4", "fp32", 16, true}};
    struct nib_gpu_subjects s = {.count = 0};
    enum nib_status status = add_builtin(&s, "te-nvfp4", true, true, error);
    if (status == NIB_OK) status = add_builtin(&s, "ocp-mxfp4", true, false, error);
    if (status == NIB_OK) status = add_builtin(&s, "e1m2-fp32", true, true, error);
    if (status == NIB_OK) status = add_builtin(&s, "e2m1-fp32", true, true, error);
    static const char *const torchao[] = {"torchao-mxfp4-floor", "torchao-mxfp4-ceil", "torchao-mxfp4-even",
                                          "torchao-mxfp4-rceil"};
    for (size_t i = 0; i < 4 && status == NIB_OK; i++) status = add_builtin(&s, torchao[i], false, false, error);
    for (size_t i = 0; i < sizeof changed / sizeof *changed && status == NIB_OK; i++)
        status = add_settings(&s, changed[i].base, changed[i].settings, changed[i].count, changed[i].name,
                              changed[i].rotated, changed[i].square, error);
    for (size_t i = 0; i < sizeof grids / sizeof *grids && status == NIB_OK; i++)
        status = add_grid(&s, grids[i].element, grids[i].scale, grids[i].block, grids[i].stochastic, error);
    if (status == NIB_OK)
        *out = s;
    else
        nib_gpu_subjects_close(&s);
    return status;
}

const char *nib_gpu_rounding_of(const struct nib_quantizer *q) {
    return q->axes.rounding == NIB_ROUNDING_SR ? "sr" : "rne";
}

void nib_gpu_subjects_close(struct nib_gpu_subjects *s) {
    for (size_t i = 0; i < s->count; i++) nib_quantizer_close(s->quantizer[i]);
    s->count = 0;
}

/* ---- rotations ---- */

enum nib_status nib_gpu_turn_open(unsigned size, enum nib_gpu_rotate_by by, bool bf16, uint64_t seed,
                                  struct nib_gpu_turn *out, struct nib_error *error) {
    struct nib_gpu_turn turn;
    char text[2048];
    memset(&turn, 0, sizeof turn);
    if (size <= 1) {
        *out = turn;
        return NIB_OK;
    }
    turn.device.size = size;
    turn.device.by = by;
    turn.device.round_to_bf16 = bf16;
    snprintf(turn.name, sizeof turn.name, "%u %s%s", size, by == NIB_GPU_BUTTERFLY ? "butterfly" : "tensor core",
             bf16 ? " bf16" : "");
    int used =
        snprintf(text, sizeof text, "kind: rotation\ntitle: random signs\nsource: seeded\nsize: %u\nsigns: [", size);
    for (unsigned i = 0; i < size; i++) {
        turn.device.sign[i] = nib_philox(seed, i, 0).word[0] & 1 ? 1 : -1;
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%d", i == 0 ? "" : ", ", turn.device.sign[i]);
    }
    used += snprintf(text + used, sizeof text - (size_t)used,
                     "]\nevaluation: butterfly\nnormalization: orthonormal\noutput: %s\n", bf16 ? "bf16" : "fp32");
    enum nib_status status = nib_rotation_parse(text, (size_t)used, "rotation of the check", &turn.emulator, error);
    if (status == NIB_OK) *out = turn;
    return status;
}

void nib_gpu_turn_close(struct nib_gpu_turn *turn) {
    nib_rotation_close(turn->emulator);
    turn->emulator = NULL;
}

/* Entries are +-1/sqrt(size) where bfloat16 holds that exactly, +-1 elsewhere; *factor is what remains to multiply. */
static void hadamard(const struct nib_gpu_rotation *r, uint16_t *b, float *factor) {
    bool exact = r->size == 16 || r->size == 64 || r->size == 256;
    float norm = (float)(1 / sqrt((double)r->size)), entry = exact ? norm : 1;
    for (unsigned n = 0; n < r->size; n++)
        for (unsigned k = 0; k < r->size; k++) {
            bool negative = (__builtin_parity(k & n) != 0) != (r->sign[k] < 0);
            b[n * r->size + k] = nib_bf16_of_bits(nib_bits_of_float(negative ? -entry : entry));
        }
    *factor = exact ? 1 : norm;
}

static enum nib_status by_unit(const struct nib_gpu_turn *turn, const struct nib_unit *unit, struct nib_view x,
                               enum nib_axis axis, int threads, float *out, struct nib_error *error) {
    const unsigned size = turn->device.size;
    const size_t count = x.rows * x.cols;
    const bool down = axis == NIB_ALONG_ROWS;
    uint16_t *b = nib_alloc_raw((size_t)size * size, 2, "a Hadamard matrix", error);
    uint16_t *lines = nib_alloc_raw(count, 2, "lines of a rotation", error);
    float *product = nib_alloc_raw(count, sizeof *product, "a rotated tensor", error), factor;
    enum nib_status status = b == NULL || lines == NULL || product == NULL ? NIB_ENOMEM : NIB_OK;
    if (status == NIB_OK) {
        hadamard(&turn->device, b, &factor);
        const uint16_t *from = x.data;
        for (size_t r = 0; r < x.rows; r++)
            for (size_t c = 0; c < x.cols; c++) lines[down ? c * x.rows + r : r * x.cols + c] = from[r * x.stride + c];
        struct nib_unit_matrix left = {NIB_OPERAND_BF16, lines, 2 * (size_t)size, NULL, 0};
        struct nib_unit_matrix right = {NIB_OPERAND_BF16, b, 2 * (size_t)size, NULL, 0};
        status = nib_unit_multiply(unit, &left, &right, count / size, size, size, NULL, 0,
                                   &(struct nib_unit_options){.threads = threads}, product, size, error);
    }
    if (status == NIB_OK) {
        struct nib_fpenv saved = nib_fpenv_enter();
        for (size_t r = 0; r < x.rows; r++)
            for (size_t c = 0; c < x.cols; c++) {
                uint32_t bits = nib_bits_of_float(product[down ? c * x.rows + r : r * x.cols + c] * factor);
                if (turn->device.round_to_bf16) bits = nib_bits_of_bf16(nib_bf16_of_bits(bits));
                out[r * x.cols + c] = nib_float_of_bits(bits);
            }
        nib_fpenv_leave(saved);
    }
    free(b);
    free(lines);
    free(product);
    return status;
}

enum nib_status nib_gpu_turn_emulate(const struct nib_gpu_turn *turn, const struct nib_unit *unit, struct nib_view x,
                                     enum nib_axis axis, int threads, float *out, struct nib_error *error) {
    if (turn->device.by == NIB_GPU_TENSOR_CORE) return by_unit(turn, unit, x, axis, threads, out, error);
    return nib_rotate(turn->emulator, x, axis, threads, out, error);
}
