#include <nibble/compare.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/convert.h"

/* One item as it is compared: its bits, and whether it is a NaN. */
struct item {
    uint64_t bits;
    bool nan;
    double value;
};

static struct item float_item(uint32_t bits, uint64_t own, enum nib_part_type type, enum nib_part_type as) {
    struct item item = {own, nib_bits_are_nan(bits), (double)NAN};
    if (!item.nan) item.value = (double)nib_float_of_bits(bits);
    if (as == NIB_PART_F32) item.bits = bits;
    if (as == NIB_PART_F64 && as != type) memcpy(&item.bits, &item.value, sizeof item.bits);
    return item;
}

/* Widened to the type `as`, in which both sides have a place; exact. */
static struct item item_at(const struct nib_part *part, uint64_t i, enum nib_part_type as) {
    uint64_t bits = 0;
    double value;
    memcpy(&bits, (const uint8_t *)part->data + i * part->bytes, part->bytes);
    switch (part->type) {
    case NIB_PART_F32: return float_item((uint32_t)bits, bits, NIB_PART_F32, as);
    case NIB_PART_BF16: return float_item(nib_bits_of_bf16((uint16_t)bits), bits, NIB_PART_BF16, as);
    case NIB_PART_F16: return float_item(nib_bits_of_f16((uint16_t)bits), bits, NIB_PART_F16, as);
    case NIB_PART_F64: memcpy(&value, &bits, sizeof value); return (struct item){bits, isnan(value), value};
    case NIB_PART_INTEGER: break;
    }
    return (struct item){bits, false, (double)bits};
}

static enum nib_part_type common_type(const struct nib_part *a, const struct nib_part *b) {
    if (a->type == b->type) return a->type;
    return a->type == NIB_PART_F64 || b->type == NIB_PART_F64 ? NIB_PART_F64 : NIB_PART_F32;
}

static unsigned width_of(enum nib_part_type type, unsigned bytes_a, unsigned bytes_b) {
    switch (type) {
    case NIB_PART_INTEGER: return 8 * (bytes_a > bytes_b ? bytes_a : bytes_b);
    case NIB_PART_F64: return 64;
    case NIB_PART_BF16:
    case NIB_PART_F16: return 16;
    case NIB_PART_F32: break;
    }
    return 32;
}

static uint64_t items_of(const struct nib_part *part) {
    uint64_t count = 1;
    for (unsigned i = 0; i < part->rank; i++) count *= part->shape[i];
    return count;
}

/* The same extents, those of 1 left out. */
static bool same_shape(const struct nib_part *a, const struct nib_part *b) {
    unsigned i = 0, k = 0;
    while (i < a->rank || k < b->rank) {
        if (i < a->rank && a->shape[i] == 1)
            i++;
        else if (k < b->rank && b->shape[k] == 1)
            k++;
        else if (i < a->rank && k < b->rank && a->shape[i] == b->shape[k])
            i++, k++;
        else
            return false;
    }
    return true;
}

static unsigned differing_bytes(uint64_t difference) {
    unsigned count = 0;
    for (; difference != 0; difference >>= 8) count += (difference & 0xFF) != 0;
    return count;
}

static void note(struct nib_difference *out, uint64_t i, struct item a, struct item b) {
    uint64_t difference = a.bits ^ b.bits;
    if (out->items++ == 0) {
        out->first = i;
        out->a = a.bits;
        out->b = b.bits;
        out->value_a = a.value;
        out->value_b = b.value;
    }
    out->bits += (unsigned)__builtin_popcountll(difference);
    out->bytes += differing_bytes(difference);
}

void nib_part_compare(const struct nib_part *a, const struct nib_part *b, struct nib_difference *out) {
    *out = (struct nib_difference){.stage = a->stage, .rank = a->rank, .rank_b = b->rank};
    snprintf(out->name, sizeof out->name, "%s", a->name);
    memcpy(out->shape, a->shape, sizeof out->shape);
    memcpy(out->shape_b, b->shape, sizeof out->shape_b);
    bool mixed = (a->type == NIB_PART_INTEGER) != (b->type == NIB_PART_INTEGER);
    if (!same_shape(a, b) || mixed) {
        out->stage = NIB_STAGE_SHAPE;
        out->items = 1;
        return;
    }
    enum nib_part_type type = common_type(a, b);
    out->width = width_of(type, a->bytes, b->bytes);
    out->compared = items_of(a);
    if (a->type == b->type && a->bytes == b->bytes && memcmp(a->data, b->data, out->compared * a->bytes) == 0) return;
    for (uint64_t i = 0; i < out->compared; i++) {
        struct item x = item_at(a, i, type), y = item_at(b, i, type);
        if (x.bits != y.bits && !(x.nan && y.nan)) note(out, i, x, y);
    }
}

static struct nib_part matrix(const char *name, enum nib_stage stage, enum nib_part_type type, unsigned bytes,
                              const void *data, size_t rows, size_t cols) {
    struct nib_part part = {.stage = stage, .type = type, .bytes = bytes, .rank = 2, .shape = {rows, cols}, .data = data};
    snprintf(part.name, sizeof part.name, "%s", name);
    return part;
}

static struct nib_part number(const char *name, const float *value) {
    return matrix(name, NIB_STAGE_TENSOR_SCALE, NIB_PART_F32, 4, value, 1, 1);
}

size_t nib_quantized_parts(const struct nib_quantizer *quantizer, const struct nib_quantized *q,
                           struct nib_part out[NIB_QUANTIZED_PARTS]) {
    struct nib_quantizer_info info;
    nib_quantizer_describe(quantizer, &info);
    size_t n = 0, lines = q->axis == NIB_ALONG_COLS ? q->rows : q->cols;
    if (info.block->has_tensor_scale) {
        out[n++] = number("tensor_amax", &q->tensor_amax);
        out[n++] = number("tensor_scale_encode", &q->tensor_scale_encode);
        out[n++] = number("tensor_scale_decode", &q->tensor_scale_decode);
    }
    if (q->scales != NULL)
        out[n++] = matrix("scales", NIB_STAGE_BLOCK_SCALES, NIB_PART_INTEGER, q->scale_bytes, q->scales, q->scale_rows,
                          q->scale_cols);
    if (q->codes != NULL) out[n++] = matrix("codes", NIB_STAGE_CODES, NIB_PART_INTEGER, 1, q->codes, q->rows, q->cols);
    if (q->packed != NULL)
        out[n++] = matrix("packed", NIB_STAGE_PACKED, NIB_PART_INTEGER, 1, q->packed, lines, q->packed_stride);
    if (q->values != NULL)
        out[n++] = matrix("dequantized", NIB_STAGE_VALUES, NIB_PART_F32, 4, q->values, q->rows, q->cols);
    return n;
}
