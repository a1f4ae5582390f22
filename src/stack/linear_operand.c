/* From a tensor to the values that enter a product. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "core/philox.h"
#include "format/quantizer.h"
#include "rotate/rotation.h"
#include "stack/linear.h"

void nib_linear_operand_clear(struct nib_linear_operand *operand) {
    if (operand->has_codes) nib_quantized_free(&operand->quantized);
    for (size_t i = 0; i < sizeof operand->memory / sizeof *operand->memory; i++) free(operand->memory[i]);
    free(operand->residual);
    *operand = (struct nib_linear_operand){.factor = 1};
}

uint64_t nib_linear_draw(const struct nib_linear_options *o, unsigned purpose) {
    uint64_t what = (uint64_t)o->layer << 16 | (uint64_t)o->module << 8 | purpose;
    struct nib_philox_block block = nib_philox(o->seed, o->step, what);
    return (uint64_t)block.word[1] << 32 | block.word[0];
}

enum nib_status nib_linear_rotation(const struct nib_linear_call *call, enum nib_pass pass,
                                    const struct nib_rotation **out, bool *own, struct nib_error *error) {
    const struct nib_pass_rule *rule = call->recipe != NULL ? &call->recipe->pass[pass] : NULL;
    *own = false;
    *out = rule != NULL ? rule->rotation : NULL;
    if (*out == NULL || rule->signs == NIB_SIGNS_FIXED) return NIB_OK;
    unsigned size = nib_rotation_size(rule->rotation);
    float *sign = nib_alloc_raw(size, sizeof *sign, "signs", error);
    if (sign == NULL) return NIB_ENOMEM;
    uint64_t key = nib_linear_draw(call->options, NIB_SLOTS + (unsigned)pass);
    for (unsigned i = 0; i < size; i++) {
        struct nib_philox_block block = nib_philox(key, i / 128, 0);
        bool minus = rule->signs == NIB_SIGNS_DRAWN && (block.word[i % 128 / 32] >> i % 32 & 1) != 0;
        sign[i] = minus ? -1.0f : 1.0f;
    }
    enum nib_status status = nib_rotation_with_signs(rule->rotation, sign, out, error);
    free(sign);
    *own = status == NIB_OK;
    return status;
}

void nib_linear_round_bf16(float *x, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1)) & 0xFFFF0000u;
        uint32_t quiet = (bits & 0xFFFF0000u) | 0x400000u;
        bits = (bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

static enum nib_status reserve(struct nib_linear_operand *p, float **out, struct nib_error *error) {
    int i = 0;
    while (p->memory[i] != NULL) i++;
    *out = p->memory[i] = nib_alloc_raw(p->rows * p->cols, sizeof **out, "an operand of a linear layer", error);
    return *out != NULL ? NIB_OK : NIB_ENOMEM;
}

/* From the layout of the tensor to rows x cols, in place. */
static void spread(const struct nib_linear_operand *p, float *x) {
    size_t more = p->cols - p->tensor_cols;
    for (size_t r = p->tensor_rows; more > 0 && r-- > 0;) {
        memmove(x + r * p->cols, x + r * p->tensor_cols, p->tensor_cols * sizeof *x);
        memset(x + r * p->cols + p->tensor_cols, 0, more * sizeof *x);
    }
    memset(x + p->tensor_rows * p->cols, 0, (p->rows - p->tensor_rows) * p->cols * sizeof *x);
}

static bool is_padded(const struct nib_linear_operand *p) {
    return p->rows != p->tensor_rows || p->cols != p->tensor_cols;
}

/* The tensor with its zeros; the tensor itself where there are none. */
static enum nib_status pad(struct nib_linear_operand *p, const float *tensor, const float **out,
                           struct nib_error *error) {
    float *padded = NULL;
    *out = tensor;
    if (!is_padded(p)) return NIB_OK;
    enum nib_status status = reserve(p, &padded, error);
    if (status != NIB_OK) return status;
    memcpy(padded, tensor, p->tensor_rows * p->tensor_cols * sizeof *padded);
    spread(p, padded);
    *out = padded;
    return NIB_OK;
}

/* Rotation and factor: what the quantizer sees. */
static enum nib_status present(struct nib_linear_operand *p, const float *source, const struct nib_rotation *rotation,
                               int threads, struct nib_error *error) {
    float *to = NULL;
    p->presented = source;
    if (rotation == NULL && p->factor == 1) return NIB_OK;
    enum nib_status status = reserve(p, &to, error);
    struct nib_view view = {source, NIB_F32, p->rows, p->cols, p->cols};
    if (status == NIB_OK && rotation != NULL) status = nib_rotate(rotation, view, p->axis, threads, to, error);
    if (status != NIB_OK) return status;
    const float *from = rotation != NULL ? to : source;
    for (size_t i = 0; i < p->rows * p->cols; i++) to[i] = from[i] * p->factor;
    p->presented = to;
    return NIB_OK;
}

static enum nib_status quantize(const struct nib_linear_options *o, struct nib_linear_operand *p, uint64_t seed,
                                bool codes, struct nib_error *error) {
    unsigned want = NIB_WANT_VALUES | NIB_WANT_SCALES;
    if (codes) want |= NIB_WANT_CODES;
    if (o->observer != NULL && o->observer->operand != NULL) want |= NIB_WANT_CODES;
    if (o->product == NIB_PRODUCT_UNIT) want |= NIB_WANT_PACKED;
    enum nib_status status = nib_quantized_alloc(p->quantizer, p->rows, p->cols, p->axis, want, &p->quantized, error);
    if (status != NIB_OK) return status;
    p->has_codes = true;
    struct nib_view view = {p->presented, NIB_F32, p->rows, p->cols, p->cols};
    struct nib_quantize_options options = {.axis = p->axis, .seed = seed, .threads = o->threads};
    status = nib_quantize(p->quantizer, view, &options, &p->quantized, error);
    if (status != NIB_OK) return status;
    p->used = p->quantized.values;
    if (p->factor == 1) return NIB_OK;
    float *used = NULL;
    status = reserve(p, &used, error);
    for (size_t i = 0; status == NIB_OK && i < p->rows * p->cols; i++) used[i] = p->quantized.values[i] / p->factor;
    p->used = used;
    return status;
}

static enum nib_status high_precision(const struct nib_linear_call *call, struct nib_linear_operand *p,
                                      struct nib_error *error) {
    p->used = p->presented;
    if (call->options->recipe == NULL) return NIB_OK;
    float *used = NULL;
    enum nib_status status = reserve(p, &used, error);
    if (status != NIB_OK) return status;
    memcpy(used, p->presented, p->rows * p->cols * sizeof *used);
    nib_linear_round_bf16(used, p->rows * p->cols);
    p->used = used;
    return NIB_OK;
}

bool nib_linear_same_codes(const struct nib_recipe *recipe, enum nib_slot slot) {
    const struct nib_operand_rule *rule = &recipe->slot[nib_slot_forward(slot)];
    const struct nib_quantizer *q = rule->quantizer;
    if (recipe->slot[slot].source != NIB_SOURCE_SAME || q == NULL || rule->method != NIB_METHOD_NONE || rule->residual)
        return false;
    /* Random bits go by the position in the matrix, which padded columns move. */
    if (recipe->pass[NIB_PASS_FPROP].pad && nib_axes_stochastic(&q->axes)) return false;
    if (recipe->pass[NIB_PASS_FPROP].rotation != NULL || recipe->pass[nib_slot_pass(slot)].rotation != NULL)
        return false;
    return q->block->block_rows == q->block->block_cols &&
           (!q->block->has_tensor_scale || q->axes.tensor_scope == NIB_TENSOR_SCOPE_TENSOR);
}

/* The tensor cut at its quantiles, and what was cut off beside it; zeros take no part in the quantiles. */
static enum nib_status clamp(struct nib_linear_operand *p, const float *tensor, const struct nib_operand_rule *rule,
                             const float **out, struct nib_error *error) {
    float *clamped = NULL;
    enum nib_status status = reserve(p, &clamped, error);
    p->residual = nib_alloc_raw(p->rows * p->cols, sizeof *p->residual, "clamped values", error);
    if (status != NIB_OK || p->residual == NULL) return NIB_ENOMEM;
    status = nib_linear_clamp(tensor, p->tensor_rows * p->tensor_cols, rule->quantile, clamped, p->residual, error);
    if (status != NIB_OK) return status;
    spread(p, clamped);
    spread(p, p->residual);
    if (!rule->residual) { /* what was cut off is gone */
        free(p->residual);
        p->residual = NULL;
    }
    *out = clamped;
    return NIB_OK;
}

static enum nib_status fill(const struct nib_linear_call *call, const float *source,
                            const struct nib_rotation *rotation, const struct nib_operand_rule *rule, unsigned purpose,
                            struct nib_linear_operand *p, struct nib_error *error) {
    enum nib_status status = present(p, source, rotation, call->options->threads, error);
    if (status != NIB_OK) return status;
    if (p->quantizer == NULL) return high_precision(call, p, error);
    return quantize(call->options, p, nib_linear_draw(call->options, purpose), rule->method == NIB_METHOD_GPTQ, error);
}

/* What fprop multiplied with: the dequantized values, and what its side product added to them. fprop's zeros are left
 * out, those of this operand put behind. */
static enum nib_status values_of(struct nib_linear_operand *p, const struct nib_linear_operand *forward,
                                 const float **out, struct nib_error *error) {
    float *sum = NULL;
    *out = forward->used;
    if (forward->residual == NULL && !is_padded(forward) && !is_padded(p)) return NIB_OK;
    enum nib_status status = reserve(p, &sum, error);
    if (status != NIB_OK) return status;
    for (size_t r = 0; r < p->tensor_rows; r++)
        for (size_t c = 0; c < p->tensor_cols; c++) {
            size_t at = r * forward->cols + c;
            float value = forward->used[at];
            sum[r * p->tensor_cols + c] = forward->residual != NULL ? value + forward->residual[at] : value;
        }
    spread(p, sum);
    *out = sum;
    return NIB_OK;
}

enum nib_status nib_linear_prepare(const struct nib_linear_call *call, enum nib_slot slot, const float *original,
                                   size_t rows, size_t cols, const struct nib_linear_operand *forward,
                                   const struct nib_rotation *rotation, struct nib_linear_operand *out,
                                   struct nib_error *error) {
    const struct nib_operand_rule *rule = call->recipe != NULL ? &call->recipe->slot[slot] : NULL;
    struct nib_linear_operand p = {.slot = slot,
                                   .axis = nib_slot_axis(slot),
                                   .rows = rows,
                                   .cols = cols,
                                   .tensor_rows = rows,
                                   .tensor_cols = cols,
                                   .factor = 1};
    enum nib_status status = nib_linear_extent(call, nib_slot_pass(slot), p.axis == NIB_ALONG_COLS ? cols : rows,
                                               p.axis == NIB_ALONG_COLS ? &p.cols : &p.rows, error);
    if (status == NIB_OK) status = pad(&p, original, &p.original, error);
    if (status != NIB_OK) {
        nib_linear_operand_clear(&p);
        return status;
    }
    if (rule != NULL && rule->source == NIB_SOURCE_SAME) {
        enum nib_slot from = nib_slot_forward(slot);
        p.quantizer = call->recipe->slot[from].quantizer;
        if (nib_linear_same_codes(call->recipe, slot)) {
            rule = &call->recipe->slot[from];
            p.factor = rule->factor;
            const float *source = p.original;
            if (rule->quantile > 0) status = clamp(&p, original, rule, &source, error);
            if (status == NIB_OK) status = fill(call, source, NULL, rule, from, &p, error);
        } else {
            status = values_of(&p, forward, &p.presented, error);
            if (status == NIB_OK) status = present(&p, p.presented, rotation, call->options->threads, error);
            p.used = p.presented;
        }
    } else {
        if (rule != NULL) p.quantizer = rule->quantizer, p.factor = rule->factor;
        const float *source = p.original;
        if (rule != NULL && rule->source == NIB_SOURCE_DEQUANTIZED)
            status = values_of(&p, forward, &source, error);
        else if (rule != NULL && rule->quantile > 0)
            status = clamp(&p, original, rule, &source, error);
        if (status == NIB_OK) status = fill(call, source, rotation, rule, slot, &p, error);
    }
    if (status != NIB_OK) {
        nib_linear_operand_clear(&p);
        return status;
    }
    *out = p;
    return NIB_OK;
}

float nib_linear_scaled(const struct nib_linear_operand *p, size_t row, size_t col) {
    struct nib_quantizer_info info;
    nib_quantizer_describe(p->quantizer, &info);
    const struct nib_block *block = info.block;
    const struct nib_quantized *q = &p->quantized;
    size_t line = p->axis == NIB_ALONG_COLS ? row : col, along = p->axis == NIB_ALONG_COLS ? col : row;
    size_t index = line / block->block_rows * q->scale_cols + along / block->block_cols;
    uint32_t code = 0;
    memcpy(&code, q->scales + index * q->scale_bytes, q->scale_bytes); /* little-endian, as binary32 is here */
    float scale = nib_scale_decode(block->scale, code) * (block->has_tensor_scale ? q->tensor_scale_decode : 1);
    return scale != 0 ? p->presented[row * p->cols + col] / scale : 0;
}
