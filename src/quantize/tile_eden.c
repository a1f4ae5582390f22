/* MS-EDEN, a tile at once. */
#include "quantize/tile_eden.h"

#include <math.h>
#include <string.h>
#include "quantize/approx.h"

static bool has_stages(const struct nib_stages *stages) {
    const struct nib_axes *axes = &stages->q->axes;
    return !stages->reference && stages->contest.others == 0 && stages->straight_through == NULL &&
           stages->codec == stages->isa->codec[NIB_CODEC_MINIFLOAT] && axes->code_if_zero == 0 &&
           axes->value_zero == NIB_VALUE_ZERO_KEEP && axes->rounding != NIB_ROUNDING_ARGMIN;
}

/* Scales before rounding, of a group that begins at block i; false where the stages cannot round them. */
static bool correct_group(const struct nib_stages *stages, const struct nib_tile_scales *scales,
                          const struct nib_eden_tile *tile, size_t i, const float *x, const uint8_t *codes, float *v) {
    const unsigned blocks = NIB_EDEN_GROUP / tile->size;
    bool good = true;
    for (unsigned b = 0; b < blocks; b++) good = good && !tile->special[i + b];
    if (!good) return false;
    float square, product;
    stages->isa->eden_dots(&stages->k, x, scales->factor + i, codes, tile->size, stages->operation, &square, &product);
    float correction = product == 0 ? 1 : nib_div_full(square, product);
    for (unsigned b = 0; b < blocks; b++) {
        float s = scales->s[i + b];
        if (s == 0 && stages->q->axes.zero_scale == NIB_ZERO_SCALE_ONE) s = 1;
        v[i + b] = s * correction;
        good = good && !signbit(v[i + b]) && v[i + b] < stages->k.largest_scale;
    }
    return good;
}

/* A scale of zero counts as one in the values, if the axis says so. */
static bool is_usual(const struct nib_stages *stages, const uint32_t *code, unsigned blocks) {
    bool zero = false;
    for (unsigned b = 0; b < blocks; b++) zero = zero || code[b] == 0;
    return !zero || stages->q->axes.zero_scale != NIB_ZERO_SCALE_ONE;
}

void nib_tile_eden(const struct nib_stages *stages, struct nib_scratch *t, const struct nib_eden_tile *tile,
                   bool left[NIB_TILE]) {
    float v[NIB_TILE] = {0}, s[NIB_TILE];
    uint32_t code[NIB_TILE];
    uint8_t words[4 * NIB_TILE] = {0};
    const unsigned blocks = NIB_EDEN_GROUP / tile->size;
    const bool staged = has_stages(stages);
    for (size_t i = 0; i < NIB_TILE; i++) left[i] = true;
    for (size_t r = 0; r < tile->lines && staged; r++) {
        stages->isa->random.words[NIB_SR_SOURCE_TRITON](tile->seed, 0, tile->first_block + r * tile->blocks_of_line,
                                                        tile->blocks, words + 4 * r * tile->across);
        for (size_t c = 0; c < tile->blocks; c += blocks) {
            size_t i = r * tile->across + c;
            left[i] =
                !correct_group(stages, &t->chosen, tile, i, tile->x + i * tile->size, tile->codes + i * tile->size, v);
            if (left[i]) memset(v + i, 0, blocks * sizeof *v);
        }
    }
    if (!staged) return;
    stages->isa->eden_draw(&stages->k, v, words, code, s);
    for (size_t i = 0; i < NIB_TILE; i += blocks) {
        left[i] = left[i] || !is_usual(stages, code + i, blocks);
        if (left[i]) continue;
        memcpy(t->chosen.code + i, code + i, blocks * sizeof *code);
        memcpy(t->chosen.s + i, s + i, blocks * sizeof *s);
    }
}
