/* Operands from quantized matrices and from values. */
#include <nibble/gemm.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "format/quantizer.h"
#include "gemm/cast.h"
#include "gemm/operand.h"
#include "gemm/view_value.h"

void nib_gemm_buffer_clear(struct nib_gemm_buffer *buffer) {
    for (size_t i = 0; i < sizeof buffer->memory / sizeof *buffer->memory; i++) free(buffer->memory[i]);
    memset(buffer, 0, sizeof *buffer);
}

/* The codes of an operand format that stand for the levels of an element format. */
struct translation {
    enum nib_operand operand;
    float factor; /* operand value = factor * level */
    uint64_t code[NIB_CODES];
};

static bool translates(const struct nib_element *element, enum nib_operand operand, struct translation *out) {
    /* Integers take the levels doubled until they are whole; floats take them as they are. */
    bool integer = operand == NIB_OPERAND_S4 || operand == NIB_OPERAND_S8;
    for (float factor = 1; factor <= 128; factor *= 2) {
        bool all = true;
        for (unsigned code = 0; code < NIB_CODES && all; code++) {
            if (element->rank_of_code[code] == 255) {
                out->code[code] = 0;
                continue;
            }
            float value = factor * element->level[code];
            out->code[code] = nib_cast_code(operand, value);
            all = nib_operand_value(operand, out->code[code]) == (double)value;
        }
        if (all) {
            out->operand = operand;
            out->factor = factor;
            return true;
        }
        if (!integer) break;
    }
    return false;
}

/* The narrowest operand format of the unit that holds the element's levels. */
static enum nib_status translate(const struct nib_unit *unit, const struct nib_element *element,
                                 struct translation *out, struct nib_error *error) {
    static const enum nib_operand order[] = {
        NIB_OPERAND_E2M1, NIB_OPERAND_S4,   NIB_OPERAND_S8,       NIB_OPERAND_E2M3,     NIB_OPERAND_E3M2,
        NIB_OPERAND_E4M3, NIB_OPERAND_E5M2, NIB_OPERAND_E4M3FNUZ, NIB_OPERAND_E5M2FNUZ, NIB_OPERAND_FP16,
        NIB_OPERAND_BF16, NIB_OPERAND_TF32, NIB_OPERAND_FP32,     NIB_OPERAND_FP64};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if ((unit->operands >> order[i] & 1) != 0 && translates(element, order[i], out)) return NIB_OK;
    return nib_fail(error, NIB_EINVAL,
                    "unit %s has no operand format that holds the levels of %s; --fake rounds the values into one, and "
                    "units of 16 bits hold most grids",
                    unit->name, element->name);
}

static bool unit_takes_scale(const struct nib_unit *unit, const struct nib_scale *scale) {
    if (unit->scale == NIB_UNIT_SCALE_UE8M0) return scale->kind == NIB_SCALE_E8M0;
    return scale->kind == NIB_SCALE_MINIFLOAT && scale->ebits == 4 && scale->mbits == 3 && scale->bias == 7 &&
           scale->max_code == 0x7E;
}

static enum nib_status check_scales(const struct nib_unit *unit, const struct nib_block *block,
                                    struct nib_error *error) {
    if (unit->scale_block == 0) return NIB_OK;
    if (!unit_takes_scale(unit, block->scale))
        return nib_fail(error, NIB_EINVAL, "unit %s takes %s scales; block format %s has scale format %s", unit->name,
                        unit->scale == NIB_UNIT_SCALE_UE8M0 ? "e8m0" : "e4m3", block->name, block->scale->name);
    if (block->block_cols != unit->scale_block)
        return nib_fail(error, NIB_EINVAL, "block format %s has one scale for %u elements; unit %s expects one for %u",
                        block->name, block->block_cols, unit->name, unit->scale_block);
    return NIB_OK;
}

static uint32_t scale_code(const struct nib_quantized *q, size_t index) {
    uint32_t code = 0;
    memcpy(&code, q->scales + index * q->scale_bytes, q->scale_bytes);
    return code;
}

bool nib_gemm_takes_codes_of(const struct nib_quantizer *q) {
    return q->axes.select != NIB_SELECT_IF4 && q->axes.select != NIB_SELECT_IF4_TWICE &&
           nib_scale_parts(q->block->scale) == 1 &&
           (!q->block->has_tensor_scale ||
            (q->axes.dequantize != NIB_DEQUANTIZE_ENCODE && q->axes.tensor_scope == NIB_TENSOR_SCOPE_TENSOR));
}

enum nib_status nib_gemm_from_quantized(const struct nib_unit *unit, const struct nib_quantizer *quantizer,
                                        const struct nib_quantized *q, struct nib_gemm_buffer *out,
                                        struct nib_error *error) {
    struct nib_quantizer_info info;
    struct translation t = {.factor = 1};
    if (unit == NULL || quantizer == NULL || q == NULL || out == NULL)
        return nib_fail(error, NIB_EINVAL, "the unit, the quantizer, the quantized matrix or the result is NULL");
    nib_quantizer_describe(quantizer, &info);
    const struct nib_block *block = info.block;
    if (q->packed == NULL || q->scales == NULL)
        return nib_fail(error, NIB_EINVAL, "a product needs packed codes and scales");
    if (!nib_gemm_takes_codes_of(quantizer))
        return nib_fail(error, NIB_EINVAL, "codes and scales of %s do not say its values to a unit (flags or doublings in a "
                        "scale, encode scales, scales of lines); multiply the dequantized values", info.name);
    enum nib_status status = check_scales(unit, block, error);
    if (status == NIB_OK) status = translate(unit, block->element, &t, error);
    if (status != NIB_OK) return status;
    bool along_rows = q->axis == NIB_ALONG_ROWS, inside = unit->scale_block != 0;
    struct nib_gemm_buffer b = {.rows = along_rows ? q->cols : q->rows, .k = along_rows ? q->rows : q->cols};
    size_t stride = nib_operand_bytes(t.operand, b.k), scale_size = inside ? 1 : sizeof(float);
    b.memory[0] = nib_alloc(b.rows, stride, "operands of a product", error);
    b.memory[1] = nib_alloc(b.rows, q->scale_cols * scale_size, "scales of a product", error);
    if (b.memory[0] == NULL || b.memory[1] == NULL) {
        nib_gemm_buffer_clear(&b);
        return NIB_ENOMEM;
    }
    for (size_t r = 0; r < b.rows; r++)
        for (size_t i = 0; i < b.k; i++) {
            unsigned code = q->packed[r * q->packed_stride + i / 2] >> (i % 2 * 4) & 15;
            nib_cast_store(t.operand, (char *)b.memory[0] + r * stride, i, t.code[code]);
        }
    for (size_t r = 0; r < b.rows; r++)
        for (size_t i = 0; i < q->scale_cols; i++) {
            uint32_t code = scale_code(q, r / block->block_rows * q->scale_cols + i);
            if (inside)
                ((uint8_t *)b.memory[1])[r * q->scale_cols + i] = (uint8_t)code;
            else
                ((float *)b.memory[1])[r * q->scale_cols + i] = nib_scale_decode(block->scale, code) / t.factor;
        }
    b.operand.matrix =
        (struct nib_unit_matrix){t.operand, b.memory[0], stride, inside ? b.memory[1] : NULL, q->scale_cols};
    if (!inside) {
        b.operand.block_scales = b.memory[1];
        b.operand.block_scale_stride = q->scale_cols;
        b.operand.block_scale_rows = 1;
        b.block_scale_k = block->block_cols;
    }
    b.tensor_scale_decode = block->has_tensor_scale ? q->tensor_scale_decode : 1;
    *out = b;
    return NIB_OK;
}

/* OCP MX: the exponent of a block's scale. */
static int block_exponent(const float *value, size_t count, enum nib_operand operand) {
    float amax = 0;
    for (size_t i = 0; i < count; i++)
        if (fabsf(value[i]) > amax) amax = fabsf(value[i]);
    int exponent = amax == 0 ? -127 : isinf(amax) ? 127 : ilogbf(amax) - nib_cast_emax(operand);
    return exponent < -127 ? -127 : exponent > 127 ? 127 : exponent;
}

enum nib_status nib_gemm_from_values(const struct nib_unit *unit, enum nib_operand operand, struct nib_view values,
                                     struct nib_gemm_buffer *out, struct nib_error *error) {
    if ((unit->operands >> operand & 1) == 0) return nib_unit_accepts(unit, operand, operand, unit->k, error);
    if (unit->scale == NIB_UNIT_SCALE_UE4M3)
        return nib_fail(error, NIB_EINVAL, "unit %s takes ue4m3 scales of %u elements; quantize the values first",
                        unit->name, unit->scale_block);
    size_t k = values.cols, stride = nib_operand_bytes(operand, k),
           per = unit->scale_block != 0 ? unit->scale_block : k;
    size_t blocks = per != 0 ? (k + per - 1) / per : 0;
    struct nib_gemm_buffer b = {.rows = values.rows, .k = k, .tensor_scale_decode = 1};
    b.memory[0] = nib_alloc(b.rows, stride, "operands of a product", error);
    b.memory[1] = nib_alloc(b.rows, blocks, "scales of a product", error);
    b.memory[2] = nib_alloc(k, sizeof(float), "a row of values", error);
    if (b.memory[0] == NULL || b.memory[1] == NULL || b.memory[2] == NULL) {
        nib_gemm_buffer_clear(&b);
        return NIB_ENOMEM;
    }
    struct nib_fpenv saved = nib_fpenv_enter();
    float *row = b.memory[2];
    for (size_t r = 0; r < b.rows; r++) {
        for (size_t i = 0; i < k; i++) row[i] = nib_view_value(values, r, i);
        for (size_t block = 0; block < blocks; block++) {
            size_t first = block * per, count = k - first < per ? k - first : per;
            int exponent = unit->scale_block != 0 ? block_exponent(row + first, count, operand) : 0;
            ((uint8_t *)b.memory[1])[r * blocks + block] = (uint8_t)(exponent + 127);
            for (size_t i = first; i < first + count; i++) {
                float scaled = ldexpf(row[i], -exponent);
                uint64_t code = nib_cast_code(operand, scaled);
                nib_cast_store(operand, (char *)b.memory[0] + r * stride, i, code);
                if (nib_operand_value(operand, code) != (double)scaled) b.inexact++;
            }
        }
    }
    nib_fpenv_leave(saved);
    b.operand.matrix =
        (struct nib_unit_matrix){operand, b.memory[0], stride, unit->scale_block != 0 ? b.memory[1] : NULL, blocks};
    *out = b;
    return NIB_OK;
}

enum nib_status nib_gemm_unswizzle(const uint8_t *swizzled, size_t size, size_t rows, size_t columns, uint8_t *linear,
                                   struct nib_error *error) {
    size_t across = (columns + 3) / 4, expected = (rows + 127) / 128 * across * 512;
    if (size != expected)
        return nib_fail(error, NIB_EINVAL, "%zu swizzled scales; %zux%zu scales in 128x4 tiles take %zu", size, rows,
                        columns, expected);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            linear[r * columns + c] =
                swizzled[(r / 128 * across + c / 4) * 512 + r % 32 * 16 + r % 128 / 32 * 4 + c % 4];
    return NIB_OK;
}
