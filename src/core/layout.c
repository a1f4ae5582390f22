#include <nibble/layout.h>

#include <string.h>
#include "base/error.h"

static size_t ceil_div(size_t a, size_t b) { return a / b + (a % b != 0); }

static const struct {
    const char *name, *formula;
    size_t rows, cols; /* of a tile */
} layouts[NIB_SCALE_LAYOUTS] = {
    [NIB_SCALES_LINEAR] = {"linear", "m*K + k", 1, 1},
    [NIB_SCALES_128X4] = {"128x4", "((m/128)*ceil(K/4) + k/4)*512 + (m%32)*16 + ((m%128)/32)*4 + k%4", 128, 4},
    [NIB_SCALES_8X4] = {"8x4", "((m/8)*ceil(K/4) + k/4)*32 + (m%8)*4 + k%4", 8, 4},
};
static const struct {
    const char *name;
    size_t group; /* elements that share bytes */
} orders[NIB_NIBBLE_ORDERS] = {
    [NIB_NIBBLES_LOW] = {"low", 2}, [NIB_NIBBLES_HIGH] = {"high", 2}, [NIB_NIBBLES_HALVES_16] = {"j|j+8", 16}, [NIB_NIBBLES_HALVES_32] = {"j|j+16", 32}};

static const struct nib_interleaving interleavings[] = {
    {"fbgemm-mx4", "FBGEMM 71d6f8b2, CUDA: 16 bytes of codes, then the scale", 32, 1, 1, false, NIB_NIBBLES_HIGH},
    {"fbgemm-mx4-triton", "FBGEMM 71d6f8b2, Triton and Python: the same, low nibble first", 32, 1, 1, false, NIB_NIBBLES_LOW},
    {"ggml-mxfp4", "ggml d99724f2, block_mxfp4: the scale, then 16 bytes of codes", 32, 1, 1, true, NIB_NIBBLES_HALVES_32},
    {"ggml-nvfp4", "ggml d99724f2, block_nvfp4: four scales, then four times 8 bytes of codes", 16, 4, 1, true, NIB_NIBBLES_HALVES_16},
    {"ggml-q4-0", "ggml d99724f2, block_q4_0: a binary16 scale, then 16 bytes of codes", 32, 1, 2, true, NIB_NIBBLES_HALVES_32},
};

const char *nib_scale_layout_name(enum nib_scale_layout layout) {
    return layout < NIB_SCALE_LAYOUTS ? layouts[layout].name : NULL;
}
const char *nib_scale_layout_formula(enum nib_scale_layout layout) {
    return layout < NIB_SCALE_LAYOUTS ? layouts[layout].formula : NULL;
}
const char *nib_nibble_order_name(enum nib_nibble_order order) {
    return order < NIB_NIBBLE_ORDERS ? orders[order].name : NULL;
}
const struct nib_interleaving *nib_interleaving_at(size_t i) {
    return i < sizeof interleavings / sizeof *interleavings ? &interleavings[i] : NULL;
}

enum nib_status nib_scale_layout_parse(const char *name, enum nib_scale_layout *out, struct nib_error *error) {
    for (int i = 0; i < NIB_SCALE_LAYOUTS; i++)
        if (strcmp(name, layouts[i].name) == 0) {
            *out = (enum nib_scale_layout)i;
            return NIB_OK;
        }
    return nib_fail(error, NIB_EINVAL, "no scale layout \"%.40s\"; expected linear, 128x4 or 8x4", name);
}

enum nib_status nib_nibble_order_parse(const char *name, enum nib_nibble_order *out, struct nib_error *error) {
    for (int i = 0; i < NIB_NIBBLE_ORDERS; i++)
        if (strcmp(name, orders[i].name) == 0) {
            *out = (enum nib_nibble_order)i;
            return NIB_OK;
        }
    return nib_fail(error, NIB_EINVAL, "no nibble order \"%.40s\"; expected low, high, j|j+8 or j|j+16", name);
}

size_t nib_scales_padded(enum nib_scale_layout layout, size_t rows, size_t cols, size_t *padded_rows, size_t *padded_cols) {
    *padded_rows = ceil_div(rows, layouts[layout].rows) * layouts[layout].rows;
    *padded_cols = ceil_div(cols, layouts[layout].cols) * layouts[layout].cols;
    return *padded_rows * *padded_cols;
}

size_t nib_scales_offset(enum nib_scale_layout layout, size_t cols, size_t row, size_t col) {
    size_t tiles = ceil_div(cols, 4);
    switch (layout) {
    case NIB_SCALES_128X4: return ((row / 128) * tiles + col / 4) * 512 + (row % 32) * 16 + (row % 128) / 32 * 4 + col % 4;
    case NIB_SCALES_8X4: return ((row / 8) * tiles + col / 4) * 32 + (row % 8) * 4 + col % 4;
    case NIB_SCALES_LINEAR:
    case NIB_SCALE_LAYOUTS: break;
    }
    return row * cols + col;
}

void nib_scales_convert(enum nib_scale_layout from_layout, const uint8_t *from, enum nib_scale_layout to_layout, uint8_t *to,
                        size_t rows, size_t cols) {
    size_t padded_rows, padded_cols;
    memset(to, 0, nib_scales_padded(to_layout, rows, cols, &padded_rows, &padded_cols));
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            to[nib_scales_offset(to_layout, cols, r, c)] = from[nib_scales_offset(from_layout, cols, r, c)];
}

size_t nib_codes_packed_bytes(enum nib_nibble_order order, size_t cols) {
    return ceil_div(cols, orders[order].group) * (orders[order].group / 2);
}

/* The byte of element j in its row, and whether it takes the high nibble. */
static size_t place(enum nib_nibble_order order, size_t j, bool *high) {
    size_t half = orders[order].group / 2, in_group = j % (2 * half);
    *high = order == NIB_NIBBLES_HIGH ? in_group == 0 : in_group >= half;
    return j / (2 * half) * half + in_group % half;
}

void nib_codes_pack(enum nib_nibble_order order, const uint8_t *codes, size_t rows, size_t cols, uint8_t *packed) {
    size_t bytes = nib_codes_packed_bytes(order, cols);
    memset(packed, 0, rows * bytes);
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < cols; j++) {
            bool high;
            size_t at = place(order, j, &high);
            packed[r * bytes + at] |= (uint8_t)((codes[r * cols + j] & 15) << (high ? 4 : 0));
        }
}

void nib_codes_unpack(enum nib_nibble_order order, const uint8_t *packed, size_t rows, size_t cols, uint8_t *codes) {
    size_t bytes = nib_codes_packed_bytes(order, cols);
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < cols; j++) {
            bool high;
            size_t at = place(order, j, &high);
            codes[r * cols + j] = (uint8_t)(packed[r * bytes + at] >> (high ? 4 : 0) & 15);
        }
}

size_t nib_interleaved_bytes(const struct nib_interleaving *i, size_t count) {
    size_t group = (size_t)i->block * i->blocks;
    if (count % group != 0) return 0;
    return count / group * (group / 2 + (size_t)i->blocks * i->scale_bytes);
}

void nib_interleave(const struct nib_interleaving *i, const uint8_t *codes, const uint8_t *scales, size_t count, uint8_t *bytes) {
    size_t group = (size_t)i->block * i->blocks, half = group / 2, scale = (size_t)i->blocks * i->scale_bytes;
    for (size_t g = 0; g < count / group; g++) {
        uint8_t *at = bytes + g * (half + scale);
        memcpy(at + (i->scales_first ? 0 : half), scales + g * scale, scale);
        nib_codes_pack(i->order, codes + g * group, i->blocks, i->block, at + (i->scales_first ? scale : 0));
    }
}

void nib_deinterleave(const struct nib_interleaving *i, const uint8_t *bytes, size_t count, uint8_t *codes, uint8_t *scales) {
    size_t group = (size_t)i->block * i->blocks, half = group / 2, scale = (size_t)i->blocks * i->scale_bytes;
    for (size_t g = 0; g < count / group; g++) {
        const uint8_t *at = bytes + g * (half + scale);
        memcpy(scales + g * scale, at + (i->scales_first ? 0 : half), scale);
        nib_codes_unpack(i->order, at + (i->scales_first ? scale : 0), i->blocks, i->block, codes + g * group);
    }
}
