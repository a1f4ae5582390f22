#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "core/convert.h"
#include "quantize/stages.h"
#include "quantize/quantize_ref.h"
#include "quantize/tile_eden.h"

struct nib_scratch *nib_scratch_new(const struct nib_walk *walk, struct nib_error *error) {
    size_t count = walk->tile_rows * walk->tile_inner;
    struct nib_scratch *scratch = nib_alloc(1, sizeof *scratch, "a tile", error);
    if (scratch == NULL) return NULL;
    scratch->x = nib_alloc(count, sizeof *scratch->x, "a tile of elements", error);
    scratch->values = nib_alloc(count, sizeof *scratch->values, "a tile of values", error);
    scratch->codes = nib_alloc(count, 1, "a tile of codes", error);
    size_t block = (size_t)walk->block_rows * walk->block_size;
    scratch->block_x = nib_alloc(block, sizeof *scratch->block_x, "a block of elements", error);
    scratch->block_codes = nib_alloc(block, 1, "a block of codes", error);
    scratch->other_codes = nib_alloc(count, 1, "codes of another candidate", error);
    scratch->terms = nib_alloc(count, sizeof *scratch->terms, "errors of elements", error);
    scratch->block_values = nib_alloc(block, sizeof *scratch->block_values, "a block of values", error);
    scratch->random = nib_alloc(count, walk->random.bytes, "random bits", error);
    scratch->other_random = nib_alloc(count, walk->random.bytes, "random bits of another candidate", error);
    scratch->block_random = nib_alloc(block, sizeof *scratch->block_random, "random bits of a block", error);
    if (scratch->x && scratch->other_codes && scratch->terms && scratch->values && scratch->codes && scratch->block_x &&
        scratch->block_values && scratch->block_codes && scratch->random && scratch->other_random &&
        scratch->block_random)
        return scratch;
    nib_scratch_free(scratch);
    return NULL;
}

void nib_scratch_free(struct nib_scratch *scratch) {
    if (scratch == NULL) return;
    free(scratch->x);
    free(scratch->values);
    free(scratch->codes);
    free(scratch->other_codes);
    free(scratch->terms);
    free(scratch->block_x);
    free(scratch->block_codes);
    free(scratch->random);
    free(scratch->other_random);
    free(scratch->block_random);
    free(scratch->block_values);
    free(scratch);
}

static void load_run(const struct nib_view *x, const struct nib_isa *isa, size_t offset, size_t count, float *out) {
    switch (x->dtype) {
    case NIB_F32: memcpy(out, (const float *)x->data + offset, count * sizeof *out); break;
    case NIB_BF16: isa->load_bf16((const uint16_t *)x->data + offset, out, count); break;
    case NIB_F16: isa->load_f16((const uint16_t *)x->data + offset, out, count); break;
    }
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static void load_lines(const struct nib_walk *w, const struct nib_isa *isa, size_t line, size_t start, float *x) {
    size_t lines = smaller(w->tile_rows, w->outer - line), count = smaller(w->tile_inner, w->inner - start);
    if (lines < w->tile_rows || count < w->tile_inner) memset(x, 0, w->tile_rows * w->tile_inner * sizeof *x);
    if (w->axis == NIB_ALONG_COLS) {
        for (size_t r = 0; r < lines; r++)
            load_run(&w->x, isa, (line + r) * w->x.stride + start, count, x + r * w->tile_inner);
        return;
    }
    float run[NIB_TILE];
    for (size_t j = 0; j < count; j++)
        for (size_t r = 0; r < lines; r += NIB_TILE) {
            size_t n = smaller(NIB_TILE, lines - r);
            load_run(&w->x, isa, (start + j) * w->x.stride + line + r, n, run);
            for (size_t i = 0; i < n; i++) x[(r + i) * w->tile_inner + j] = run[i];
        }
}

void nib_tile_load(const struct nib_walk *w, const struct nib_isa *isa, size_t line, size_t start, float *x) {
    size_t lines = smaller(w->tile_rows, w->outer - line), count = smaller(w->tile_inner, w->inner - start);
    bool whole = count == w->tile_inner && lines == w->tile_rows;
    bool apart = w->rotation != NULL && w->axis == NIB_ALONG_COLS && w->x.dtype == NIB_F32 && whole;
    if (!apart) load_lines(w, isa, line, start, x);
    if (w->rotation == NULL) return;
    for (size_t r = 0; r < lines; r++) {
        float *to = x + r * w->tile_inner;
        const float *from = apart ? (const float *)w->x.data + (line + r) * w->x.stride + start : to;
        nib_rotate_groups(w->rotation, w->rotate, from, to, count);
    }
}

void nib_tile_random(const struct nib_walk *w, const struct nib_random_stages *stages, size_t line, size_t start,
                     uint8_t *random) {
    const struct nib_sr_source *source = &w->random;
    size_t lines = smaller(w->tile_rows, w->outer - line), count = smaller(w->tile_inner, w->inner - start);
    if (w->axis == NIB_ALONG_COLS) {
        bool joined = count == source->cols && count == w->tile_inner; /* one line follows the other in both */
        for (size_t r = 0; r < (joined ? 1 : lines); r++)
            nib_sr_bytes(source, stages, (uint64_t)(line + r) * source->cols + start, joined ? lines * count : count,
                         random + r * w->tile_inner * source->bytes);
        return;
    }
    for (size_t r = 0; r < lines && nib_sr_strides(source); r++)
        nib_sr_bytes_apart(source, (uint64_t)start * source->cols + line + r, source->cols, count,
                           random + r * w->tile_inner * source->bytes);
    if (nib_sr_strides(source)) return;
    uint8_t run[4 * NIB_TILE];
    for (size_t j = 0; j < count; j++)
        for (size_t r = 0; r < lines; r += NIB_TILE) {
            size_t n = smaller(NIB_TILE, lines - r);
            nib_sr_bytes(source, stages, (uint64_t)(start + j) * source->cols + line + r, n, run);
            for (size_t i = 0; i < n; i++)
                memcpy(random + ((r + i) * w->tile_inner + j) * source->bytes, run + i * source->bytes, source->bytes);
        }
}

/* Where the tile lies, and how much of it exists. */
struct place {
    size_t line, start, lines, count;
    const float *x;
    uint8_t *codes;
    float *values;
};

/* The whole tile can be read where it is. */
static bool is_direct(const struct nib_walk *w, const struct place *p) {
    return w->axis == NIB_ALONG_COLS && p->count == w->tile_inner && p->lines == w->tile_rows &&
           (w->tile_rows == 1 || w->x.stride == w->tile_inner);
}

/* One block by the reference. Its elements are gathered, because its lines are apart in the tile. */
static void reference_block(const struct nib_stages *stages, const struct nib_walk *w, struct nib_scratch *scratch,
                            const struct place *p, size_t band, size_t column, bool want_values) {
    size_t size = w->block_size;
    float *x = scratch->block_x;
    uint8_t *codes = scratch->block_codes;
    for (size_t r = 0; r < w->block_rows; r++)
        memcpy(x + r * size, p->x + (band * w->block_rows + r) * w->tile_inner + column * size, size * sizeof *x);
    for (size_t r = 0; w->random.bytes > 0 && r < w->block_rows; r++)
        for (size_t j = 0; j < size; j++)
            scratch->block_random[r * size + j] = nib_sr_word(
                scratch->random, (band * w->block_rows + r) * w->tile_inner + column * size + j, w->random.bytes);
    struct nib_ref_block block = {.x = x,
                                  .count = size * w->block_rows,
                                  .codes = codes,
                                  .values = scratch->block_values,
                                  .random = scratch->block_random};
    nib_ref_quantize(stages->q, &stages->k.tensor, &block);
    for (size_t r = 0; r < w->block_rows; r++) {
        size_t line = band * w->block_rows + r, at = line * w->tile_inner + column * size;
        scratch->chosen.code[line * w->tile_blocks + column] = block.scale;
        memcpy(p->codes + at, codes + r * size, size);
        if (want_values) memcpy(p->values + at, block.values + r * size, size * sizeof *p->values);
    }
}

static void count_specials(const float *x, size_t count, struct nib_specials *specials) {
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = nib_bits_of_float(x[i]) & NIB_BITS_MAGNITUDE;
        specials->nan += magnitude > NIB_BITS_INFINITY;
        specials->inf += magnitude == NIB_BITS_INFINITY;
    }
}

/* The amax of blocks, over all their lines. */
static void block_amaxes(const struct nib_walk *w, struct nib_scratch *t, size_t blocks) {
    for (size_t i = 0; i < blocks; i++) t->b[i] = nib_float_of_bits(t->amax[i]);
    if (w->block_rows == 1) return;
    for (size_t band = 0; band < blocks; band += w->block_rows * w->tile_blocks)
        for (size_t c = 0; c < w->tile_blocks; c++) {
            uint32_t most = 0; /* as bits, so that a NaN stays for the screen to see */
            for (size_t r = 0; r < w->block_rows; r++) {
                uint32_t line = t->amax[band + r * w->tile_blocks + c];
                most = line > most ? line : most;
            }
            for (size_t r = 0; r < w->block_rows; r++) t->b[band + r * w->tile_blocks + c] = nib_float_of_bits(most);
        }
}

static void store_scales(const struct nib_walk *w, const struct nib_scratch *t, const struct place *p,
                         struct nib_quantized *out) {
    size_t row = p->line / w->block_rows, column = p->start / w->block_size;
    size_t bands = smaller(w->tile_rows / w->block_rows, out->scale_rows - row);
    size_t blocks = smaller(w->tile_blocks, out->scale_cols - column);
    for (size_t band = 0; band < bands; band++) {
        uint8_t *to = out->scales + ((row + band) * out->scale_cols + column) * out->scale_bytes;
        const uint32_t *from = t->chosen.code + band * w->block_rows * w->tile_blocks;
        if (out->scale_bytes == 1) {
            for (size_t c = 0; c < blocks; c++) to[c] = (uint8_t)from[c];
            continue;
        }
        for (size_t c = 0; c < blocks; c++)
            for (unsigned byte = 0; byte < out->scale_bytes; byte++)
                to[c * out->scale_bytes + byte] = (uint8_t)(from[c] >> 8 * byte);
    }
}

static void store_packed(const struct nib_stages *stages, const struct nib_walk *w, const struct place *p,
                         struct nib_quantized *out) {
    for (size_t r = 0; r < p->lines; r++) {
        uint8_t *to = out->packed + (p->line + r) * out->packed_stride + p->start / 2;
        const uint8_t *from = p->codes + r * w->tile_inner;
        stages->isa->pack(from, p->count & ~(size_t)1, to);
        if (p->count % 2 != 0) to[p->count / 2] = from[p->count - 1];
    }
}

static void store_codes_and_values(const struct nib_walk *w, const struct place *p, struct nib_quantized *out,
                                   bool direct) {
    if (w->axis == NIB_ALONG_COLS) {
        for (size_t r = 0; r < p->lines && !direct; r++) {
            size_t to = (p->line + r) * out->cols + p->start, from = r * w->tile_inner;
            if (out->codes != NULL) memcpy(out->codes + to, p->codes + from, p->count);
            if (out->values != NULL) memcpy(out->values + to, p->values + from, p->count * sizeof *out->values);
        }
        return;
    }
    for (size_t j = 0; j < p->count; j++)
        for (size_t r = 0; r < p->lines; r++) {
            size_t to = (p->start + j) * out->cols + p->line + r, from = r * w->tile_inner + j;
            if (out->codes != NULL) out->codes[to] = p->codes[from];
            if (out->values != NULL) out->values[to] = p->values[from];
        }
}

static void compute_values(const struct nib_stages *stages, struct nib_scratch *t, const struct place *p, size_t blocks,
                           unsigned size) {
    if (!stages->back_tabulated) stages->dequantize(&stages->k, t->chosen.s, t->back);
    for (int i = 0; stages->back_tabulated && i < NIB_TILE; i++)
        t->back[i] = stages->k.back_of_code[t->chosen.code[i] & 0xFF];
    stages->isa->values(stages->k.level, p->codes, t->back, blocks, size, stages->second, p->values);
    const bool flagged = stages->contest.others > 0 && stages->contest.other[0].differs == NIB_OF_LEVELS;
    for (size_t i = 0; i < blocks && flagged; i++)
        if ((t->chosen.code[i] & 0x80) != 0)
            stages->isa->values(stages->k.int4_value, p->codes + i * size, t->back + i, 1, size, stages->second,
                                p->values + i * size);
}

/* Lines are whole groups, and tiles too. x may be a part of a tensor: blocks are counted in the whole. */
static struct nib_eden_tile eden_tile(const struct nib_walk *w, const struct place *p, const bool *special) {
    const bool along_cols = w->axis == NIB_ALONG_COLS;
    size_t row = w->random.cols > 0 ? w->random.first / w->random.cols : 0,
           col = w->random.first - row * w->random.cols;
    size_t line = (along_cols ? row : col) + p->line, first = (along_cols ? col : row) / w->block_size;
    size_t blocks_of_line = (along_cols ? w->random.cols : w->inner) / w->block_size;
    return (struct nib_eden_tile){.x = p->x,
                                  .codes = p->codes,
                                  .special = special,
                                  .lines = p->lines,
                                  .blocks = p->count / w->block_size,
                                  .across = w->tile_blocks,
                                  .size = w->block_size,
                                  .first_block = line * blocks_of_line + first + p->start / w->block_size,
                                  .blocks_of_line = blocks_of_line,
                                  .seed = w->random.seed};
}

/* Groups that have no stages. */
static void correct_left(const struct nib_stages *stages, struct nib_scratch *t, const struct nib_eden_tile *tile,
                         const bool *left, float *values) {
    for (size_t r = 0; r < tile->lines; r++)
        for (size_t c = 0; c < tile->blocks; c += NIB_EDEN_GROUP / tile->size) {
            size_t i = r * tile->across + c, at = i * tile->size;
            struct nib_eden_group group = {tile->x + at,
                                           tile->codes + at,
                                           t->chosen.code + i,
                                           values != NULL ? values + at : NULL,
                                           tile->first_block + r * tile->blocks_of_line + c,
                                           tile->seed};
            if (left[i]) nib_eden_correct(stages->q, &stages->k.tensor, &group);
        }
}

static void correct_scales(const struct nib_stages *stages, const struct nib_walk *w, struct nib_scratch *t,
                           const struct place *p, const bool *special, bool want_values) {
    bool left[NIB_TILE];
    const struct nib_eden_tile tile = eden_tile(w, p, special);
    nib_tile_eden(stages, t, &tile, left);
    if (!stages->reference && want_values) compute_values(stages, t, p, w->tile_rows * w->tile_blocks, w->block_size);
    correct_left(stages, t, &tile, left, want_values ? p->values : NULL);
}

/* Scales, codes and values of a tile. True if there are special blocks, which are left to the reference. */
static bool compute_blocks(const struct nib_stages *stages, const struct nib_walk *w, struct nib_scratch *t,
                           const struct place *p, bool want_codes, bool want_values, bool *special) {
    const size_t blocks = w->tile_rows * w->tile_blocks;
    stages->isa->block_amax(p->x, blocks, w->block_size, t->amax);
    block_amaxes(w, t, blocks);
    if (stages->quest)
        stages->isa->quest_scale(&stages->k, p->x, blocks, w->block_size, t->base);
    else if (stages->signed_scale)
        stages->isa->signed_scale(p->x, t->b, blocks, w->block_size, t->base);
    else
        stages->block_scale(&stages->k, t->b, t->base);
    nib_tile_scale(stages, t->base, blocks, &t->chosen);
    bool any_special = nib_tile_find_specials(stages, t, &t->chosen, blocks, special);
    if (want_codes && stages->stochastic != NULL)
        stages->stochastic(&stages->k, p->x, t->chosen.factor, t->random, blocks, w->block_size, p->codes);
    else if (want_codes)
        stages->encode(&stages->k, p->x, t->chosen.factor, blocks, w->block_size, p->codes);
    if (stages->contest.others > 0)
        any_special |= nib_tile_contest(stages, t, p->x, blocks, w->block_size, w->tile_blocks, p->codes, special);
    if (want_values) compute_values(stages, t, p, blocks, w->block_size);
    return any_special;
}

static bool compute_hif4(const struct nib_stages *stages, struct nib_scratch *t, const struct place *p, size_t blocks,
                         bool want_values, bool *special) {
    const unsigned size = stages->q->block->block_cols;
    bool any_special = false;
    stages->isa->block_amax(p->x, blocks, size, t->amax);
    stages->isa->hif4(stages->k.level, p->x, blocks, p->codes, t->chosen.code, want_values ? p->values : NULL);
    for (size_t i = 0; i < blocks; i++) {
        special[i] = t->amax[i] >= NIB_BITS_INFINITY;
        any_special |= special[i];
    }
    return any_special;
}

void nib_tile_quantize(const struct nib_stages *stages, const struct nib_walk *w, size_t tile, struct nib_scratch *t,
                       struct nib_quantized *out, struct nib_specials *specials) {
    struct place p = {.line = tile / w->tiles_along * w->tile_rows,
                      .start = tile % w->tiles_along * w->tile_inner,
                      .codes = t->codes,
                      .values = t->values};
    p.lines = smaller(w->tile_rows, w->outer - p.line);
    p.count = smaller(w->tile_inner, w->inner - p.start);
    bool direct = is_direct(w, &p), in_f32 = w->x.dtype == NIB_F32;
    size_t at = p.line * out->cols + p.start; /* of a direct tile in codes and values */
    p.x = t->x;
    if (direct && in_f32 && w->rotation == NULL && !stages->cut)
        p.x = (const float *)w->x.data + p.line * w->x.stride + p.start;
    else
        nib_tile_load(w, stages->isa, p.line, p.start, t->x);
    if (stages->cut) stages->isa->cut_to_tf32(t->x, t->x, w->tile_rows * w->tile_inner);
    bool eden = stages->q->axes.scale_correction == NIB_SCALE_CORRECTION_EDEN;
    bool want_values = out->values != NULL,
         want_codes = out->codes != NULL || out->packed != NULL || want_values || eden || stages->contest.others > 0;
    bool dense = w->tile_rows == 1 || out->cols == w->tile_inner;
    if (direct && dense && out->codes != NULL) p.codes = out->codes + at;
    if (direct && dense && want_values) p.values = out->values + at;

    size_t blocks = w->tile_rows * w->tile_blocks;
    bool any_special = stages->reference, special[NIB_TILE] = {false};
    if (w->random.bytes > 0 && want_codes) nib_tile_random(w, &stages->isa->random, p.line, p.start, t->random);
    if (stages->hif4 && !stages->reference)
        any_special = compute_hif4(stages, t, &p, blocks, want_values, special);
    else if (!stages->reference)
        any_special = compute_blocks(stages, w, t, &p, want_codes, want_values && !eden, special);
    for (size_t band = 0; any_special && band < w->tile_rows / w->block_rows; band++)
        for (size_t c = 0; c < w->tile_blocks; c++) {
            bool here = stages->reference;
            for (size_t r = 0; r < w->block_rows && !stages->reference; r++)
                here |= special[(band * w->block_rows + r) * w->tile_blocks + c];
            if (!here) continue;
            reference_block(stages, w, t, &p, band, c, want_values);
            for (size_t r = 0; r < w->block_rows; r++)
                count_specials(p.x + (band * w->block_rows + r) * w->tile_inner + c * w->block_size, w->block_size,
                               specials);
        }
    if (eden) correct_scales(stages, w, t, &p, special, want_values);
    if (out->scales != NULL) store_scales(w, t, &p, out);
    if (out->packed != NULL) store_packed(stages, w, &p, out);
    if (out->codes != NULL || want_values) store_codes_and_values(w, &p, out, direct && dense);
}
