/* Where codes and scales lie in memory. */
#ifndef NIBBLE_LAYOUT_H
#define NIBBLE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>
#include <nibble/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Scales of one byte, `rows` x `cols` of them, cols along the reduction axis.
 * LINEAR: row-major.
 * 128X4: tiles of 128 x 4, 512 bytes each, tile after tile along a row of tiles; in a tile, row m and column k lie at
 *        (m mod 32) * 16 + (m / 32) * 4 + k. Block-scaled tensor-core instructions read this.
 * 8X4: tiles of 8 x 4 row-major, 32 bytes each; TensorRT-LLM for few rows.
 * Rows and columns are padded to whole tiles; the padding is zero. */
enum nib_scale_layout { NIB_SCALES_LINEAR, NIB_SCALES_128X4, NIB_SCALES_8X4, NIB_SCALE_LAYOUTS };

/* Order of two codes in a byte.
 * LOW: even element in the low nibble. HIGH: even element in the high nibble.
 * HALVES_16: of 16 elements, j in the low and j + 8 in the high nibble. HALVES_32: j and j + 16 of 32. */
enum nib_nibble_order { NIB_NIBBLES_LOW, NIB_NIBBLES_HIGH, NIB_NIBBLES_HALVES_16, NIB_NIBBLES_HALVES_32, NIB_NIBBLE_ORDERS };

/* Codes and scales together, group by group: `blocks` blocks of `block` elements with `scale_bytes` bytes of scale each. */
struct nib_interleaving {
    const char *name;            /* "ggml-mxfp4" */
    const char *source;
    unsigned block, blocks, scale_bytes;
    bool scales_first;
    enum nib_nibble_order order;
};

/* Names are NULL past the last. */
NIB_API const char *nib_scale_layout_name(enum nib_scale_layout layout);
NIB_API NIB_CHECK enum nib_status nib_scale_layout_parse(const char *name, enum nib_scale_layout *out, struct nib_error *error);
NIB_API const char *nib_scale_layout_formula(enum nib_scale_layout layout);
NIB_API const char *nib_nibble_order_name(enum nib_nibble_order order);
NIB_API NIB_CHECK enum nib_status nib_nibble_order_parse(const char *name, enum nib_nibble_order *out, struct nib_error *error);
/* The i-th interleaving, NULL past the end. */
NIB_API const struct nib_interleaving *nib_interleaving_at(size_t i);

/* The padded shape, and its bytes. */
NIB_API size_t nib_scales_padded(enum nib_scale_layout layout, size_t rows, size_t cols, size_t *padded_rows, size_t *padded_cols);
/* The byte of scale (row, col); row and col may lie in the padding. */
NIB_API size_t nib_scales_offset(enum nib_scale_layout layout, size_t cols, size_t row, size_t col);
/* From one layout to another; padding in `to` becomes zero. */
NIB_API void nib_scales_convert(enum nib_scale_layout from_layout, const uint8_t *from, enum nib_scale_layout to_layout,
                                uint8_t *to, size_t rows, size_t cols);

/* Bytes of a packed row: whole groups of 2, 16 or 32 elements. */
NIB_API size_t nib_codes_packed_bytes(enum nib_nibble_order order, size_t cols);
/* One code a byte, row-major, and packed rows; elements that do not exist are 0. */
NIB_API void nib_codes_pack(enum nib_nibble_order order, const uint8_t *codes, size_t rows, size_t cols, uint8_t *packed);
NIB_API void nib_codes_unpack(enum nib_nibble_order order, const uint8_t *packed, size_t rows, size_t cols, uint8_t *codes);

/* Bytes of `count` elements; 0 unless they are whole groups. */
NIB_API size_t nib_interleaved_bytes(const struct nib_interleaving *interleaving, size_t count);
NIB_API void nib_interleave(const struct nib_interleaving *interleaving, const uint8_t *codes, const uint8_t *scales, size_t count,
                            uint8_t *bytes);
NIB_API void nib_deinterleave(const struct nib_interleaving *interleaving, const uint8_t *bytes, size_t count, uint8_t *codes,
                              uint8_t *scales);

#ifdef __cplusplus
}
#endif
#endif
