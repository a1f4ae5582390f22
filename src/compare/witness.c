/* Two quantizers seldom differ on what one would think of first. Inputs are drawn from where they do: amax near the
 * borders of scale codes, elements near ties, tiny and huge tensors, zeros of both signs, NaN and infinity. */
#include <nibble/compare.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "core/convert.h"
#include "core/philox.h"

struct search {
    const struct nib_quantizer *q[2];
    struct nib_quantized out[2];
    size_t cols;
    bool same_formats;           /* else only values can be held against each other */
    float *x, *trial;
    uint64_t seed, counter;
    struct nib_error *error;
};

static uint32_t draw(struct search *s) {
    struct nib_philox_block block = nib_philox(s->seed, s->counter / 4, 0);
    return block.word[s->counter++ % 4];
}
static uint32_t below(struct search *s, uint32_t n) { return (uint32_t)((uint64_t)draw(s) * n >> 32); }

/* ---- inputs */

/* `bits` bits of mantissa, uniform in [1, 2). */
static float mantissa(struct search *s, unsigned bits) { return 1 + (float)below(s, 1u << bits) / (float)(1u << bits); }

/* A level border or its neighbourhood, in units of the block scale: k/4 covers all of E2M1, E1M2 and INT4. */
static float near_tie(struct search *s, float unit) {
    float tie = (float)below(s, 28) / 4 * unit;
    uint32_t steps = below(s, 5);
    return nib_float_of_bits(nib_bits_of_float(tie) + steps - (tie > 0 ? 2 : 0));
}

static float special(struct search *s) {
    static const uint32_t bits[] = {0, 0x80000000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0x7F800000, 0xFF800000, 1, 0x80000001,
        0x00400000, 0x7F7FFFFF, 0x00800000};
    return nib_float_of_bits(bits[below(s, sizeof bits / sizeof *bits)]);
}

/* One row: the first block holds the tensor amax, the rest vary. */
static void fill(struct search *s, uint64_t try) {
    unsigned kind = (unsigned)(try % 8);
    unsigned bits = 3 + below(s, 3) * 10; /* 3, 13 or 23 */
    float top = ldexpf(mantissa(s, bits), (int)below(s, 9) - 4);
    if (kind == 6) top = ldexpf(top, below(s, 2) == 0 ? -120 : 118);
    float block = ldexpf(mantissa(s, bits), -(int)below(s, kind == 5 ? 22 : 6)) * top / 2;
    for (size_t i = 0; i < s->cols; i++) {
        float x = kind < 3 ? near_tie(s, block / 6) : block * (float)(int32_t)draw(s) * 0x1p-31f;
        if (below(s, 2) == 0) x = -x;
        if (kind == 7 && below(s, 4) == 0) x = special(s);
        s->x[i] = x;
    }
    s->x[below(s, (uint32_t)s->cols)] = block;
    if (kind != 4) s->x[0] = top;
}

/* ---- where they part */

static bool differ(struct search *s, const float *x, struct nib_witness *out, enum nib_status *status) {
    struct nib_view view = {x, NIB_F32, 1, s->cols, s->cols};
    for (int i = 0; i < 2 && *status == NIB_OK; i++)
        *status = nib_quantize(s->q[i], view, &(struct nib_quantize_options){.threads = 1}, &s->out[i], s->error);
    if (*status != NIB_OK) return false;
    struct nib_part a[NIB_QUANTIZED_PARTS], b[NIB_QUANTIZED_PARTS];
    size_t count = nib_quantized_parts(s->q[0], &s->out[0], a);
    size_t other = nib_quantized_parts(s->q[1], &s->out[1], b);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < other; k++) {
            struct nib_difference d;
            enum nib_stage stage = a[i].stage;
            if (strcmp(a[i].name, b[k].name) != 0 || stage == NIB_STAGE_TENSOR_SCALE || stage == NIB_STAGE_PACKED) continue;
            if (stage != NIB_STAGE_VALUES && !s->same_formats) continue;
            nib_part_compare(&a[i], &b[k], &d);
            if (d.items == 0) continue;
            out->stage = stage;
            out->at = (size_t)d.first;
            out->bits_a = (uint32_t)d.a;
            out->bits_b = (uint32_t)d.b;
            return true;
        }
    return false;
}

/* ---- plainer */

/* Keeps the change of one element if the two still differ at the same stage. */
static bool keep(struct search *s, size_t i, float value, struct nib_witness *out, enum nib_status *status) {
    struct nib_witness here = *out;
    if (nib_bits_of_float(s->x[i]) == nib_bits_of_float(value)) return false;
    memcpy(s->trial, s->x, s->cols * sizeof *s->x);
    s->trial[i] = value;
    if (!differ(s, s->trial, &here, status) || here.stage != out->stage) return false;
    s->x[i] = value;
    *out = here;
    return true;
}

static void simplify(struct search *s, struct nib_witness *out, enum nib_status *status) {
    for (size_t i = 0; i < s->cols && *status == NIB_OK; i++) (void)keep(s, i, 0, out, status);
    for (size_t i = 0; i < s->cols && *status == NIB_OK; i++) {
        uint32_t bits = nib_bits_of_float(s->x[i]);
        if (nib_bits_are_nan(bits) || bits << 1 == 0) continue;
        if (keep(s, i, fabsf(s->x[i]), out, status)) bits &= NIB_BITS_MAGNITUDE;
        for (unsigned drop = 23; drop > 0; drop--) {
            uint32_t cut = bits & ~((1u << drop) - 1);
            if (keep(s, i, nib_float_of_bits(cut), out, status)) break;
            if (keep(s, i, nib_float_of_bits(cut + (1u << drop)), out, status)) break;
        }
    }
}

static enum nib_status search(struct search *s, uint64_t tries, bool *found, struct nib_witness *out) {
    enum nib_status status = NIB_OK;
    struct nib_witness here = {.cols = s->cols};
    *found = false;
    for (uint64_t i = 0; i < tries && status == NIB_OK && !*found; i++) {
        fill(s, i);
        *found = differ(s, s->x, &here, &status);
        here.tries = i;
    }
    if (status == NIB_OK && *found) simplify(s, &here, &status);
    if (status == NIB_OK && *found) {
        (void)differ(s, s->x, &here, &status);
        here.x = s->x;
        s->x = NULL;
        *out = here;
    }
    return status;
}

static bool same(const char *a, const char *b) { return strcmp(a, b) == 0; }

enum nib_status nib_witness_find(const struct nib_quantizer *a, const struct nib_quantizer *b, uint64_t seed, uint64_t tries,
                                 bool *found, struct nib_witness *out, struct nib_error *error) {
    struct search s = {.q = {a, b}, .seed = seed, .error = error};
    struct nib_quantizer_info info[2];
    if (a == NULL || b == NULL) return nib_fail(error, NIB_EINVAL, "a quantizer is NULL");
    for (int i = 0; i < 2; i++) nib_quantizer_describe(s.q[i], &info[i]);
    const struct nib_block *blocks[2] = {info[0].block, info[1].block};
    unsigned size = blocks[0]->block_cols > blocks[1]->block_cols ? blocks[0]->block_cols : blocks[1]->block_cols;
    s.cols = 2 * (size_t)size;
    s.same_formats = blocks[0]->block_cols == blocks[1]->block_cols && blocks[0]->block_rows == blocks[1]->block_rows &&
                     same(blocks[0]->scale->sha256, blocks[1]->scale->sha256) &&
                     same(blocks[0]->element->sha256, blocks[1]->element->sha256);
    s.x = nib_alloc(s.cols, sizeof *s.x, "a witness", error);
    s.trial = nib_alloc(s.cols, sizeof *s.trial, "a witness", error);
    enum nib_status status = s.x == NULL || s.trial == NULL ? NIB_ENOMEM : NIB_OK;
    for (int i = 0; i < 2 && status == NIB_OK; i++)
        status = nib_quantized_alloc(s.q[i], 1, s.cols, NIB_ALONG_COLS, NIB_WANT_CODES | NIB_WANT_SCALES | NIB_WANT_VALUES, &s.out[i],
                                     error);
    struct nib_fpenv saved = nib_fpenv_enter();
    if (status == NIB_OK) status = search(&s, tries, found, out);
    nib_fpenv_leave(saved);
    for (int i = 0; i < 2; i++) nib_quantized_free(&s.out[i]);
    free(s.x);
    free(s.trial);
    return status;
}

void nib_witness_free(struct nib_witness *witness) {
    if (witness == NULL) return;
    free(witness->x);
    witness->x = NULL;
}
