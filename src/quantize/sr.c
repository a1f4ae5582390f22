#include "quantize/sr.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "core/key.h"
#include "core/philox.h"
#include "format/quantizer.h"

/* The sign of 2^n * |y - level| - border * step, exactly: each side as a sum of two binary64 numbers. */
static int compare_border(double y, double level, double step, unsigned n, double border) {
    double high = y - level, z = high - y, low = (y - (high - z)) - (level + z); /* y - level = high + low */
    double sign = high < 0 ? -1 : 1, range = ldexp(1, (int)n);
    double bound = border * step, rest = fma(border, step, -bound);
    double difference = (sign * high * range - bound) + (sign * low * range - rest);
    return (difference > 0) - (difference < 0);
}

/* Where F = 2^n part/step: floor(F) + r >= 2^n is F >= M with M = 2^n - r, an integer; rounding F to nearest first
 * lowers the border by a half, which itself belongs to M by the tie rule. */
static bool goes_away(double y, double level, double step, unsigned n, uint32_t r, enum nib_sr_comparison comparison) {
    double missing = ldexp(1, (int)n) - (double)r;
    bool odd = (r & 1) != 0; /* M as well, n being above 0 */
    int order = compare_border(y, level, step, n, comparison == NIB_SR_FLOOR ? missing : missing - 0.5);
    switch (comparison) {
    case NIB_SR_TO_EVEN: return order > 0 || (order == 0 && !odd);
    case NIB_SR_TO_ODD: return order > 0 || (order == 0 && odd);
    case NIB_SR_FLOOR:
    case NIB_SR_HALF_MORE: break;
    }
    return order >= 0;
}

uint8_t nib_sr_code_compared(const struct nib_element *element, float y, unsigned n, uint32_t r,
                             enum nib_sr_comparison comparison) {
    const float *level = element->level_of_rank;
    const unsigned last = element->levels - 1;
    const bool negative = signbit(y) != 0;
    unsigned toward = 0; /* rank of the level at y or next to it on the side of zero */
    if (negative) {
        toward = last;
        while (toward > 0 && level[toward - 1] >= y) toward--;
    } else
        while (toward < last && level[toward + 1] <= y) toward++;
    bool outside = negative ? level[toward] < y || toward == 0 : level[toward] > y || toward == last;
    if (outside || level[toward] == y) return element->code_of_rank[toward];
    unsigned away = negative ? toward - 1 : toward + 1;
    double step = fabs((double)level[away] - (double)level[toward]);
    bool goes = goes_away((double)y, (double)level[toward], step, n, r, comparison);
    return element->code_of_rank[goes ? away : toward];
}

uint8_t nib_sr_code(const struct nib_element *element, float y, unsigned n, uint32_t r) {
    return nib_sr_code_compared(element, y, n, r, NIB_SR_FLOOR);
}

/* Codes by count and sign, if every level has its negative. */
static unsigned magnitudes_of(const struct nib_element *element, float magnitude[8], uint8_t code[16]) {
    unsigned count = 0;
    memset(code, 0, 16);
    for (unsigned rank = 0; rank < element->levels; rank++) {
        float level = element->level_of_rank[rank];
        if (signbit(level)) continue;
        if (count == 8) return 0;
        magnitude[count] = level;
        code[count] = element->code_of_rank[rank];
        code[count + 8] = level == 0 ? code[count] : 0xFF;
        count++;
    }
    unsigned negatives = 0;
    for (unsigned rank = 0; rank < element->levels; rank++) {
        float level = element->level_of_rank[rank];
        if (!signbit(level)) continue;
        for (unsigned i = 0; i < count; i++)
            if (magnitude[i] == -level) code[i + 8] = element->code_of_rank[rank];
        negatives += level != 0;
    }
    bool mirrored = count > 1 && magnitude[0] == 0 && negatives == count - 1;
    for (unsigned i = 0; i < count; i++) mirrored = mirrored && code[i + 8] != 0xFF;
    for (unsigned i = count; i < 8; i++) code[i] = code[count - 1], code[i + 8] = code[count + 7];
    return mirrored ? count : 0;
}

/* The level of a count in binades of 2^mbits steps. */
static double level_at(unsigned i, unsigned mbits, double step) {
    unsigned binade = i >> mbits, steps = (i & ((1u << mbits) - 1)) + (binade > 0 ? 1u << mbits : 0);
    return ldexp(step * steps, binade > 0 ? (int)binade - 1 : 0);
}

void nib_sr_grid_make(const struct nib_element *element, struct nib_sr_grid *out) {
    float magnitude[8];
    struct nib_sr_grid grid = {.regular = false};
    unsigned count = magnitudes_of(element, magnitude, grid.code);
    int exponent = 0;
    bool power = count > 1 && frexpf(magnitude[1], &exponent) == 0.5f && exponent > -60 && exponent < 60;
    for (unsigned mbits = 0; power && mbits <= 3 && !grid.regular; mbits++) {
        bool fits = true;
        for (unsigned i = 0; i < count; i++)
            fits = fits && (double)magnitude[i] == level_at(i, mbits, (double)magnitude[1]);
        if (!fits) continue;
        grid.regular = true;
        grid.inverse = 1 / magnitude[1];
        grid.lowest = ldexpf(magnitude[1], (int)mbits);
        grid.top = count - 1;
        grid.drop = 23 - mbits;
        grid.offset = (nib_bits_of_float(grid.lowest) >> grid.drop) - (1u << mbits);
    }
    *out = grid;
}

enum nib_status nib_sr_source_make(unsigned bytes, struct nib_view x, const struct nib_quantize_options *options,
                                   struct nib_sr_source *out, struct nib_error *error) {
    size_t needed = x.rows * x.cols * bytes;
    if (options->random_bits != NULL && options->random_bytes != needed)
        return nib_fail(error, NIB_EINVAL,
                        "random bits: %zu bytes for %zu x %zu elements of %u bits; expected %zu bytes",
                        options->random_bytes, x.rows, x.cols, 8 * bytes, needed);
    *out = (struct nib_sr_source){.bytes = bytes,
                                  .axis = options->axis,
                                  .seed = options->seed,
                                  .stream = options->stream,
                                  .given = options->random_bits,
                                  .first = options->first,
                                  .cols = options->tensor_cols != 0 ? options->tensor_cols : x.cols};
    return NIB_OK;
}

/* TransformerEngine's blockwise kernel: 256 threads take 128 x 128 elements; a thread takes 16 elements along the
 * reduction axis from each Philox block, a byte each, four rows one after the other, or four columns. */
static struct nib_philox_block te_block(const struct nib_sr_source *s, uint64_t row, uint64_t col) {
    uint64_t tile = col / 128 + row / 128 * ((s->cols + 127) / 128), r = row % 128, c = col % 128;
    if (s->axis == NIB_ALONG_COLS) return nib_philox(s->seed, s->stream + r / 32, r % 32 * 8 + c / 16 + 256 * tile);
    uint64_t block = c / 64 * 2 + c % 2 + (s->kind == NIB_SR_SOURCE_TE ? 4 : 0);
    return nib_philox(s->seed, s->stream + block, c % 64 / 2 * 8 + r / 16 + 256 * tile);
}

bool nib_sr_strides(const struct nib_sr_source *source) {
    bool te = source->kind == NIB_SR_SOURCE_TE || source->kind == NIB_SR_SOURCE_TE_ALONE;
    return te && source->given == NULL;
}

void nib_sr_bytes_apart(const struct nib_sr_source *source, uint64_t index, size_t stride, size_t count, uint8_t *out) {
    if (count == 0) return; /* nor need there be columns */
    const uint64_t first = source->first + index, rows = stride / source->cols, cols = stride % source->cols;
    const bool by_cols = source->axis == NIB_ALONG_COLS,
               along = by_cols ? rows == 0 && cols == 1 : rows == 1 && cols == 0;
    uint64_t row = first / source->cols, col = first % source->cols;
    if (source->bytes > 1) memset(out, 0, count * source->bytes);
    for (size_t i = 0, n; i < count; i += n) {
        struct nib_philox_block words = te_block(source, row, col);
        unsigned at = (by_cols ? col : row) % 16;
        n = !along ? 1 : count - i < 16 - at ? count - i : 16 - at;
        if (along && by_cols && source->cols - col < n) n = source->cols - col;
        for (size_t j = 0; j < n; j++, at++)
            out[(i + j) * source->bytes] = (uint8_t)(words.word[at / 4] >> 8 * (at % 4));
        row += n * rows;
        col += n * cols;
        if (col < source->cols) continue;
        col -= source->cols;
        row++;
    }
}

enum { CHUNK = 128 }; /* elements */

/* Of four elements the second and the third change places. */
static void cvt_rs_bytes(const struct nib_sr_source *source, const struct nib_random_stages *stages, uint64_t index,
                         size_t count, uint8_t *out) {
    struct nib_sr_source plain = *source;
    plain.kind = NIB_SR_SOURCE_ELEMENT;
    plain.first = 0;
    uint8_t some[4 * (CHUNK + 8)];
    for (size_t i = 0; i < count; i += CHUNK) {
        uint64_t place = source->first + index + i, from = place & ~UINT64_C(3);
        size_t n = count - i < CHUNK ? count - i : CHUNK;
        nib_sr_bytes(&plain, stages, from, ((size_t)(place - from) + n + 3) & ~(size_t)3, some);
        for (size_t quad = 0; quad < (size_t)(place - from) + n; quad += 4)
            for (size_t b = 0; b < source->bytes; b++) {
                uint8_t *second = some + (quad + 1) * source->bytes + b, *third = second + source->bytes,
                        byte = *second;
                *second = *third;
                *third = byte;
            }
        memcpy(out + i * source->bytes, some + (place - from) * source->bytes, n * source->bytes);
    }
}

/* The low bytes of words. */
static void word_bytes(const struct nib_sr_source *source, nib_words_stage *words, uint64_t index, size_t count,
                       uint8_t *out) {
    const uint64_t first = source->first + index;
    uint8_t some[4 * CHUNK];
    if (source->bytes == 4) {
        words(source->seed, source->stream, first, count, out);
        return;
    }
    for (size_t i = 0; i < count; i += CHUNK) {
        size_t n = count - i < CHUNK ? count - i : CHUNK;
        words(source->seed, source->stream, first + i, n, some);
        for (size_t j = 0; j < n; j++)
            for (size_t b = 0; b < source->bytes; b++) out[(i + j) * source->bytes + b] = some[4 * j + b];
    }
}

static void element_bytes(const struct nib_sr_source *source, nib_philox_stage *philox, uint64_t index, size_t count,
                          uint8_t *out) {
    uint64_t at = (source->first + index) * source->bytes;
    size_t left = count * source->bytes;
    while (left > 0) {
        uint8_t some[512];
        size_t skip = at % 16, n = left;
        if (skip == 0 && left >= 16) {
            n = left & ~(size_t)15;
            philox(source->seed, source->stream, at / 16, n / 16, out);
        } else {
            if (n > sizeof some - skip) n = sizeof some - skip;
            philox(source->seed, source->stream, at / 16, (skip + n + 15) / 16, some);
            memcpy(out, some + skip, n);
        }
        at += n;
        out += n;
        left -= n;
    }
}

void nib_sr_bytes(const struct nib_sr_source *source, const struct nib_random_stages *stages, uint64_t index,
                  size_t count, uint8_t *out) {
    if (source->given != NULL)
        memcpy(out, source->given + (source->first + index) * source->bytes, count * source->bytes);
    else if (nib_sr_strides(source))
        nib_sr_bytes_apart(source, index, 1, count, out);
    else if (source->kind == NIB_SR_SOURCE_CVT_RS)
        cvt_rs_bytes(source, stages, index, count, out);
    else if (stages->words[source->kind] != NULL)
        word_bytes(source, stages->words[source->kind], index, count, out);
    else
        element_bytes(source, stages->philox, index, count, out);
}
