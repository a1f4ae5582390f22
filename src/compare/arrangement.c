#include "compare/arrangement.h"

#include <nibble/layout.h>
#include <stdlib.h>
#include <string.h>

static uint64_t items_of(const struct nib_part *part) {
    uint64_t count = 1;
    for (unsigned i = 0; i < part->rank; i++) count *= part->shape[i];
    return count;
}

static bool is_bytes(const struct nib_part *part) { return part->type == NIB_PART_INTEGER && part->bytes == 1; }

/* The rows fold all extents but the last. */
static bool is_tiled(const struct nib_part *linear, const struct nib_part *tiled, enum nib_scale_layout layout) {
    if (linear->rank < 2) return false;
    size_t cols = (size_t)linear->shape[linear->rank - 1], rows = cols > 0 ? (size_t)(items_of(linear) / cols) : 0;
    if (rows == 0) return false;
    size_t padded_rows, padded_cols, bytes = nib_scales_padded(layout, rows, cols, &padded_rows, &padded_cols);
    if (items_of(tiled) != bytes) return false;
    uint8_t *expected = malloc(bytes);
    if (expected == NULL) return false;
    nib_scales_convert(NIB_SCALES_LINEAR, linear->data, layout, expected, rows, cols);
    bool same = memcmp(expected, tiled->data, bytes) == 0;
    free(expected);
    return same;
}

static bool is_swapped(const struct nib_part *a, const struct nib_part *b) {
    const uint8_t *left = a->data, *right = b->data;
    uint64_t count = items_of(a);
    if (count == 0 || count != items_of(b)) return false;
    for (uint64_t i = 0; i < count; i++)
        if (right[i] != (uint8_t)(left[i] << 4 | left[i] >> 4)) return false;
    return true;
}

const char *nib_arrangement(const struct nib_part *a, const struct nib_part *b) {
    if (!is_bytes(a) || !is_bytes(b)) return NULL;
    if (a->stage == NIB_STAGE_BLOCK_SCALES) {
        if (is_tiled(a, b, NIB_SCALES_128X4)) return "equal, B in the 128x4 layout";
        if (is_tiled(b, a, NIB_SCALES_128X4)) return "equal, A in the 128x4 layout";
        if (is_tiled(a, b, NIB_SCALES_8X4)) return "equal, B in the 8x4 layout";
        if (is_tiled(b, a, NIB_SCALES_8X4)) return "equal, A in the 8x4 layout";
    }
    if (a->stage == NIB_STAGE_PACKED && is_swapped(a, b)) return "equal, the nibbles swapped";
    return NULL;
}
