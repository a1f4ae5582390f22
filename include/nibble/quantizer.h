/* Block formats and quantizers. A block format is an element, a block shape, a block-scale format and
 * an optional tensor scale; a quantizer is a block format with every arithmetic choice ("axis") fixed. */
#ifndef NIBBLE_QUANTIZER_H
#define NIBBLE_QUANTIZER_H

#include <stddef.h>
#include <nibble/element.h>
#include <nibble/scale.h>

#ifdef __cplusplus
extern "C" {
#endif

struct nib_block {
    char name[40];
    char title[96];
    char source[160];
    const struct nib_element *element;
    const struct nib_scale *scale;
    unsigned block_rows, block_cols; /* across and along the reduction axis: 1x16, 1x32, 16x16 */
    bool has_tensor_scale;           /* one binary32 scale above the block scales */
    float bits_per_value;            /* element bits plus the block's share of its scale */
    const char *text;
    char sha256[65];
};

NIB_API NIB_CHECK enum nib_status nib_block_open(const char *name_or_path, const struct nib_block **out,
                                                 struct nib_error *error);
NIB_API NIB_CHECK enum nib_status nib_block_parse(const char *text, size_t length, const char *label,
                                                  const struct nib_block **out, struct nib_error *error);
NIB_API void nib_block_close(const struct nib_block *block);

/* Opaque; its axes are listed in src/format/axes.def and explained by `nibble show axes/NAME`. */
struct nib_quantizer;

struct nib_quantizer_info {
    const char *name, *title, *source;
    const char *device;          /* "cuda", "cpu" or "any": whose arithmetic it describes */
    bool verified;               /* reproduced against outputs of the real implementation */
    const char *verified_by;     /* the evidence, or the reason why there is none */
    const char *note;            /* what its codes and scales do not hold of the values; "" where they hold all */
    const struct nib_block *block;
    const char *text;            /* the YAML as read */
    const char *sha256;
};

NIB_API NIB_CHECK enum nib_status nib_quantizer_open(const char *name_or_path, const struct nib_quantizer **out,
                                                     struct nib_error *error);
NIB_API NIB_CHECK enum nib_status nib_quantizer_parse(const char *text, size_t length, const char *label,
                                                      const struct nib_quantizer **out, struct nib_error *error);
/* A copy with axes changed. `settings` are "axis=value" strings. An axis that does not apply, an
 * unknown axis or an unknown choice is NIB_EINVAL and the error lists what was expected; an axis
 * that is set twice is NIB_EINVAL too. */
NIB_API NIB_CHECK enum nib_status nib_quantizer_with(const struct nib_quantizer *base, const char *const *settings,
                                                     size_t count, const struct nib_quantizer **out,
                                                     struct nib_error *error);
/* A quantizer for any element and scale format in the manner of the UFP4 paper (e1m2-fp32): one
 * block scale amax/g_max, rounded up in E8M0 or to nearest otherwise. For exploring grids. */
NIB_API NIB_CHECK enum nib_status nib_quantizer_of_grid(const struct nib_element *element, const struct nib_scale *scale,
                                                        unsigned block_size, const struct nib_quantizer **out,
                                                        struct nib_error *error);
NIB_API void nib_quantizer_close(const struct nib_quantizer *quantizer);
NIB_API void nib_quantizer_describe(const struct nib_quantizer *quantizer, struct nib_quantizer_info *out);
/* The i-th axis that applies, with its value; false past the end. */
NIB_API bool nib_quantizer_axis(const struct nib_quantizer *quantizer, size_t i, const char **axis, const char **value);

#ifdef __cplusplus
}
#endif
#endif
