#include "compare/rendition.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/block_bytes.h"
#include "core/convert.h"
#include "format/quantizer.h"

const char *const nib_rendition_names[NIB_RENDITIONS] = {"codes", "codes-swapped", "packed", "packed-high", "first-high",
    "first-low", "halves", "nvfp4", "scales", "scales-per-line", "scales-128x4", "scale-values", "scale-exponents", "values", "amax",
    "encode", "decode"};

static bool make(struct nib_rendered *out, enum nib_part_type type, unsigned bytes, size_t rows, size_t cols) {
    *out = (struct nib_rendered){.part = {.stage = NIB_STAGE_OTHER, .type = type, .bytes = bytes, .rank = 2, .shape = {rows, cols}}};
    out->part.data = out->data = calloc(rows * cols + 1, bytes);
    return out->data != NULL;
}

static size_t lines_of(const struct nib_quantized *q) { return q->axis == NIB_ALONG_COLS ? q->rows : q->cols; }
static size_t inner_of(const struct nib_quantized *q) { return q->axis == NIB_ALONG_COLS ? q->cols : q->rows; }
/* Where element j of a line lies in codes and values. */
static size_t place(const struct nib_quantized *q, size_t line, size_t j) {
    return q->axis == NIB_ALONG_COLS ? line * q->cols + j : j * q->cols + line;
}

static uint32_t scale_at(const struct nib_quantized *q, size_t row, size_t col) {
    uint32_t code = 0;
    memcpy(&code, q->scales + (row * q->scale_cols + col) * q->scale_bytes, q->scale_bytes);
    return code;
}

static bool codes(const struct nib_quantized *q, bool swapped, struct nib_rendered *out) {
    size_t lines = lines_of(q), inner = inner_of(q);
    if ((swapped && inner % 2 != 0) || !make(out, NIB_PART_INTEGER, 1, lines, inner)) return false;
    for (size_t line = 0; line < lines; line++)
        for (size_t j = 0; j < inner; j++) out->data[line * inner + j] = q->codes[place(q, line, swapped ? j ^ 1 : j)];
    return true;
}

static bool packed(const struct nib_quantized *q, bool high, struct nib_rendered *out) {
    size_t lines = lines_of(q), count = (inner_of(q) + 1) / 2;
    if (!make(out, NIB_PART_INTEGER, 1, lines, count)) return false;
    for (size_t line = 0; line < lines; line++)
        for (size_t j = 0; j < count; j++) {
            uint8_t byte = q->packed[line * q->packed_stride + j];
            out->data[line * count + j] = high ? (uint8_t)(byte << 4 | byte >> 4) : byte;
        }
    return true;
}

static bool bytes(const struct nib_quantizer *quantizer, const struct nib_quantized *q, enum nib_block_layout layout,
                  struct nib_rendered *out) {
    size_t unit = nib_block_elements(layout), size = quantizer->block->block_cols, count = inner_of(q) / unit;
    bool one_scale = layout != NIB_BLOCK_NVFP4;
    if (inner_of(q) % unit != 0 || quantizer->block->block_rows != 1 || size != (one_scale ? unit : unit / 4)) return false;
    struct nib_rendered flat;
    if (!codes(q, false, &flat)) return false;
    size_t units = lines_of(q) * count, length = nib_block_bytes(layout, q->scale_bytes);
    bool made = make(out, NIB_PART_INTEGER, 1, units, length);
    for (size_t i = 0; i < units && made; i++)
        nib_block_write(layout, flat.data + i * unit, q->scales + i * (unit / size) * q->scale_bytes, q->scale_bytes,
                        out->data + i * length);
    free(flat.data);
    return made;
}

static float scale_value(const struct nib_quantizer *quantizer, uint32_t code, bool exponent) {
    float value = nib_scale_decode(quantizer->block->scale, code);
    return exponent && isfinite(value) && value != 0 ? (float)ilogbf(value) : value;
}

static bool scales(const struct nib_quantizer *quantizer, const struct nib_quantized *q, enum nib_rendition rendition,
                   struct nib_rendered *out) {
    bool per_line = rendition == NIB_AS_SCALES_PER_LINE, as_codes = rendition == NIB_AS_SCALES || per_line;
    size_t rows = per_line ? lines_of(q) : q->scale_rows;
    if (!make(out, as_codes ? NIB_PART_INTEGER : NIB_PART_F32, as_codes ? q->scale_bytes : 4, rows, q->scale_cols)) return false;
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < q->scale_cols; k++) {
            uint32_t code = scale_at(q, per_line ? r / quantizer->block->block_rows : r, k);
            float value = scale_value(quantizer, code, rendition == NIB_AS_SCALE_EXPONENTS);
            const void *item = as_codes ? (const void *)&code : &value;
            memcpy(out->data + (r * q->scale_cols + k) * out->part.bytes, item, out->part.bytes);
        }
    return true;
}

/* offset(m, k) = (m/128 * ceil(K/4) + k/4) * 512 + m%32 * 16 + m%128/32 * 4 + k%4 */
static bool blocked(const struct nib_quantizer *quantizer, const struct nib_quantized *q, struct nib_rendered *out) {
    size_t lines = lines_of(q), across = (lines + 127) / 128, along = (q->scale_cols + 3) / 4;
    if (q->scale_bytes != 1 || !make(out, NIB_PART_INTEGER, 1, 1, across * along * 512)) return false;
    for (size_t r = 0; r < lines; r++)
        for (size_t k = 0; k < q->scale_cols; k++)
            out->data[(r / 128 * along + k / 4) * 512 + r % 32 * 16 + r % 128 / 32 * 4 + k % 4] =
                (uint8_t)scale_at(q, r / quantizer->block->block_rows, k);
    return true;
}

static bool values(const struct nib_quantized *q, enum nib_part_type type, struct nib_rendered *out) {
    size_t lines = lines_of(q), inner = inner_of(q);
    bool half = type == NIB_PART_BF16 || type == NIB_PART_F16;
    if (!make(out, half ? type : NIB_PART_F32, half ? 2 : 4, lines, inner)) return false;
    for (size_t line = 0; line < lines; line++)
        for (size_t j = 0; j < inner; j++) {
            float value = q->values[place(q, line, j)];
            uint32_t bits = nib_bits_of_float(value);
            uint16_t narrow = type == NIB_PART_F16 ? nib_f16_of_bits(bits) : nib_bf16_of_bits(bits);
            memcpy(out->data + (line * inner + j) * out->part.bytes, half ? (const void *)&narrow : &value, out->part.bytes);
        }
    return true;
}

/* One number, or those of every line where lines have tensor scales of their own. */
static bool amax(const struct nib_quantized *q, struct nib_rendered *out) {
    size_t lines = q->line_amax != NULL ? lines_of(q) : 1, along = q->line_amax != NULL ? q->line_parts : 1;
    if (!make(out, NIB_PART_F32, 4, lines, along)) return false;
    memcpy(out->data, q->line_amax != NULL ? q->line_amax : &q->tensor_amax, lines * along * sizeof(float));
    return true;
}

static bool number(float value, struct nib_rendered *out) {
    if (!make(out, NIB_PART_F32, 4, 1, 1)) return false;
    memcpy(out->data, &value, sizeof value);
    return true;
}

bool nib_render(const struct nib_quantizer *quantizer, const struct nib_quantized *q, enum nib_rendition rendition,
                enum nib_part_type type, struct nib_rendered *out) {
    *out = (struct nib_rendered){.data = NULL};
    switch (rendition) {
    case NIB_AS_CODES: return codes(q, false, out);
    case NIB_AS_CODES_SWAPPED: return codes(q, true, out);
    case NIB_AS_PACKED: return packed(q, false, out);
    case NIB_AS_PACKED_HIGH: return packed(q, true, out);
    case NIB_AS_BYTES_FIRST_HIGH: return bytes(quantizer, q, NIB_BLOCK_FIRST_HIGH, out);
    case NIB_AS_BYTES_FIRST_LOW: return bytes(quantizer, q, NIB_BLOCK_FIRST_LOW, out);
    case NIB_AS_BYTES_HALVES: return bytes(quantizer, q, NIB_BLOCK_HALVES, out);
    case NIB_AS_BYTES_NVFP4: return bytes(quantizer, q, NIB_BLOCK_NVFP4, out);
    case NIB_AS_SCALES:
    case NIB_AS_SCALES_PER_LINE:
    case NIB_AS_SCALE_VALUES:
    case NIB_AS_SCALE_EXPONENTS: return scales(quantizer, q, rendition, out);
    case NIB_AS_SCALES_BLOCKED: return blocked(quantizer, q, out);
    case NIB_AS_VALUES: return values(q, type, out);
    case NIB_AS_AMAX: return amax(q, out);
    case NIB_AS_ENCODE: return number(q->tensor_scale_encode, out);
    case NIB_AS_DECODE: return number(q->tensor_scale_decode, out);
    case NIB_RENDITIONS: break;
    }
    return false;
}
