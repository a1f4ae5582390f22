#include <nibble/compare.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "compare/rendition.h"
#include "core/convert.h"

/* How the parts of a dump may be written, the usual way first. Parts are known by their usual name. */
static const struct {
    const char *name;
    enum nib_rendition ways[6];
    size_t count;
} readings[] = {
    {"tensor_amax", {NIB_AS_AMAX}, 1},
    {"tensor_scale_encode", {NIB_AS_ENCODE, NIB_AS_DECODE}, 2},
    {"tensor_scale_decode", {NIB_AS_DECODE, NIB_AS_ENCODE}, 2},
    {"scales", {NIB_AS_SCALES, NIB_AS_SCALES_PER_LINE, NIB_AS_SCALES_BLOCKED}, 3},
    {"scale_values", {NIB_AS_SCALE_VALUES, NIB_AS_SCALE_EXPONENTS}, 2},
    {"codes", {NIB_AS_CODES, NIB_AS_CODES_SWAPPED}, 2},
    {"packed",
     {NIB_AS_PACKED, NIB_AS_PACKED_HIGH, NIB_AS_BYTES_FIRST_LOW, NIB_AS_BYTES_FIRST_HIGH, NIB_AS_BYTES_HALVES, NIB_AS_BYTES_NVFP4},
     6},
    {"dequantized", {NIB_AS_VALUES}, 1},
};
enum { READINGS = sizeof readings / sizeof *readings, UNKNOWN = READINGS };

static size_t reading_of(const struct nib_part *part) {
    size_t i = 0;
    while (i < READINGS && strcmp(readings[i].name, part->name) != 0) i++;
    return i;
}

bool nib_identify_uses(const struct nib_part *part) { return reading_of(part) != UNKNOWN; }

static uint64_t items_of(const struct nib_part *part) {
    uint64_t count = 1;
    for (unsigned i = 0; i < part->rank; i++) count *= part->shape[i];
    return count;
}

/* Codes and values of a dump may lie as the input does, though blocks run along rows. */
static void transpose(struct nib_rendered *r) {
    size_t rows = r->part.shape[0], cols = r->part.shape[1], size = r->part.bytes;
    uint8_t *out = malloc(rows * cols * size + 1);
    if (out == NULL) return;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) memcpy(out + (j * rows + i) * size, r->data + (i * cols + j) * size, size);
    free(r->data);
    r->part.data = r->data = out;
    r->part.shape[0] = cols;
    r->part.shape[1] = rows;
}

static uint64_t differing_bytes(const uint8_t *a, const uint8_t *b, size_t count) {
    uint64_t differ = 0;
    for (size_t i = 0; i < count; i++) differ += a[i] != b[i];
    return differ;
}

/* NaN equals NaN. Parts of a file may lie at any address. */
static uint64_t differing_floats(const uint8_t *a, const uint8_t *b, size_t count) {
    uint64_t differ = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t x, y;
        memcpy(&x, a + 4 * i, 4);
        memcpy(&y, b + 4 * i, 4);
        bool both_nan = (x & NIB_BITS_MAGNITUDE) > 0x7F800000 && (y & NIB_BITS_MAGNITUDE) > 0x7F800000;
        differ += x != y && !both_nan;
    }
    return differ;
}

/* Shapes are not held against a rendition of the right size: layouts are stored flat, folded, padded. */
static uint64_t differing(const struct nib_part *part, struct nib_rendered *r) {
    struct nib_difference d;
    bool whole = items_of(part) == r->part.shape[0] * r->part.shape[1];
    bool same_kind = (part->type == NIB_PART_INTEGER) == (r->part.type == NIB_PART_INTEGER);
    if (!whole || !same_kind) return items_of(part);
    bool same_type = part->type == r->part.type && part->bytes == r->part.bytes;
    if (same_type && part->bytes == 1) return differing_bytes(part->data, r->data, items_of(part));
    if (same_type && part->type == NIB_PART_F32) return differing_floats(part->data, r->data, items_of(part));
    struct nib_part flat = *part;
    flat.rank = r->part.rank;
    memcpy(flat.shape, r->part.shape, sizeof flat.shape);
    nib_part_compare(&flat, &r->part, &d);
    return d.items;
}

static void mention(struct nib_candidate *c, const char *what) {
    size_t used = strlen(c->layout);
    snprintf(c->layout + used, sizeof c->layout - used, "%s%s", used > 0 ? ", " : "", what);
}

static void compare_part(const struct nib_part *part, size_t reading, const struct nib_quantized *q, struct nib_candidate *c) {
    uint64_t best = UINT64_MAX;
    const char *said = NULL;
    bool along_rows = q->axis == NIB_ALONG_ROWS;
    bool placed = along_rows && (part->stage == NIB_STAGE_CODES || part->stage == NIB_STAGE_VALUES);
    for (size_t i = 0; i < readings[reading].count; i++)
        for (int turned = 0; turned < (placed ? 2 : 1); turned++) {
            enum nib_rendition way = readings[reading].ways[i];
            struct nib_rendered r;
            if (!nib_render(c->quantizer, q, way, part->type, &r)) continue;
            bool in_place = placed && turned == 0;
            if (in_place) transpose(&r);
            uint64_t here = differing(part, &r);
            free(r.data);
            if (here >= best) continue;
            best = here;
            said = turned == 1 ? "transposed" : i > 0 ? nib_rendition_names[way] : NULL;
        }
    uint64_t items = items_of(part);
    if (best > items) best = items;
    c->compared += items;
    c->differing += best;
    if (best > 0 && part->stage < c->first) c->first = part->stage;
    if (said != NULL && best < items) mention(c, said);
}

/* A tensor amax in the dump is taken over. */
static void take_amax(const struct nib_part *parts, size_t count, struct nib_quantize_options *options) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(parts[i].name, "tensor_amax") == 0 && parts[i].type == NIB_PART_F32 && items_of(&parts[i]) == 1) {
            memcpy(&options->tensor_amax, parts[i].data, 4);
            options->has_tensor_amax = options->tensor_amax >= 0;
        }
}

struct trial {
    struct nib_view x;
    const struct nib_part *parts;
    size_t count;
    int threads;
};

/* Some quantizers take whole groups of elements alone: they made no dump of another shape. */
static void reject(const struct trial *t, struct nib_candidate *c) {
    for (size_t i = 0; i < t->count; i++)
        if (reading_of(&t->parts[i]) != UNKNOWN) c->compared += items_of(&t->parts[i]);
    c->differing = c->compared;
    c->first = NIB_STAGE_SHAPE;
}

/* Compares the parts up to the stage `last`. */
static enum nib_status try(const struct trial *t, enum nib_stage last, struct nib_candidate *c, struct nib_error *error) {
    struct nib_quantizer_info info;
    nib_quantizer_describe(c->quantizer, &info);
    struct nib_quantize_options options = {.axis = c->axis, .threads = t->threads};
    if (info.block->has_tensor_scale) take_amax(t->parts, t->count, &options);
    struct nib_quantized q;
    unsigned want = NIB_WANT_SCALES;
    if (last > NIB_STAGE_BLOCK_SCALES) want |= NIB_WANT_CODES | NIB_WANT_PACKED | NIB_WANT_VALUES;
    enum nib_status status = nib_quantized_alloc(c->quantizer, t->x.rows, t->x.cols, c->axis, want, &q, error);
    if (status != NIB_OK) return status;
    c->compared = c->differing = 0;
    c->first = NIB_STAGES;
    c->layout[0] = '\0';
    status = nib_quantize(c->quantizer, t->x, &options, &q, error);
    for (size_t i = 0; i < t->count && status == NIB_OK; i++) {
        const struct nib_part *part = &t->parts[i];
        size_t reading = reading_of(part);
        bool tensor_wide = part->stage == NIB_STAGE_TENSOR_SCALE;
        if (reading == UNKNOWN || part->stage > last || (tensor_wide && !info.block->has_tensor_scale)) continue;
        compare_part(part, reading, &q, c);
    }
    nib_quantized_free(&q);
    if (status == NIB_EINVAL) reject(t, c);
    return status;
}

/* Most quantizers part from a dump in its scales already: codes are made for those alone that do not, and for all
 * where then none fits. */
static enum nib_status try_all(const struct trial *t, struct nib_candidate *all, size_t count, nib_identify_step *step,
                               void *context, struct nib_error *error) {
    enum nib_status status = NIB_OK;
    size_t exact = 0, rejected = 0;
    bool *done = nib_alloc(count, sizeof *done, "candidates", error);
    if (done == NULL) return NIB_ENOMEM;
    for (size_t i = 0; i < count && (status == NIB_OK || status == NIB_EINVAL); i++) {
        status = try(t, NIB_STAGE_BLOCK_SCALES, &all[i], error);
        done[i] = status == NIB_EINVAL || all[i].differing == 0;
        rejected += status == NIB_EINVAL;
        if (status == NIB_OK && done[i]) status = try(t, NIB_STAGE_VALUES, &all[i], error);
        exact += status == NIB_OK && done[i] && all[i].differing == 0;
        if (step != NULL) step(context, i + 1, 2 * count);
    }
    if (status == NIB_EINVAL && rejected < count) status = NIB_OK;
    for (size_t i = 0; i < count && status == NIB_OK && exact == 0; i++) {
        if (!done[i]) status = try(t, NIB_STAGE_VALUES, &all[i], error);
        if (step != NULL) step(context, count + i + 1, 2 * count);
    }
    free(done);
    return status;
}

static bool better(const struct nib_candidate *a, const struct nib_candidate *b) {
    if (a->differing != b->differing) return a->differing < b->differing;
    return a->differing > 0 && a->first != b->first ? a->first > b->first : a->compared > b->compared;
}

static void sort(struct nib_candidate *all, size_t count) {
    for (size_t i = 1; i < count; i++)
        for (size_t k = i; k > 0 && better(&all[k], &all[k - 1]); k--) {
            struct nib_candidate saved = all[k];
            all[k] = all[k - 1];
            all[k - 1] = saved;
        }
}

static enum nib_status identify(const struct trial *t, const struct nib_quantizer *const *quantizers, size_t count,
                                struct nib_candidate *out, nib_identify_step *step, void *context, struct nib_error *error) {
    struct nib_candidate *made = calloc(2 * count + 1, sizeof *made);
    if (made == NULL) return nib_fail(error, NIB_ENOMEM, "out of memory for %zu candidates", 2 * count);
    for (size_t i = 0; i < 2 * count; i++)
        made[i] = (struct nib_candidate){.quantizer = quantizers[i / 2], .axis = i % 2 == 0 ? NIB_ALONG_COLS : NIB_ALONG_ROWS};
    enum nib_status status = try_all(t, made, 2 * count, step, context, error);
    if (status == NIB_OK) {
        sort(made, 2 * count);
        memcpy(out, made, 2 * count * sizeof *out);
    }
    free(made);
    return status;
}

/* Elements may lie in any order, but as many as the input has; packed bytes hold two, or with scales of 4 bytes
 * in between 4/3. */
static enum nib_status check_size(struct nib_view x, const struct nib_part *part, struct nib_error *error) {
    uint64_t items = items_of(part), elements = (uint64_t)x.rows * x.cols, pair = part->stage == NIB_STAGE_PACKED ? 2 : 1;
    bool fits = items == elements;
    if (pair == 2) fits = 2 * items >= elements && (2 * items <= elements + x.rows + x.cols || 4 * items <= 3 * elements);
    if (fits || part->stage < NIB_STAGE_CODES) return NIB_OK;
    char shape[64];
    unsigned last = part->rank > 0 ? part->rank - 1 : 0;
    uint64_t cols = part->rank > 0 ? part->shape[last] * pair : pair;
    if (part->rank > 1)
        snprintf(shape, sizeof shape, "%" PRIu64 "x%" PRIu64, items * pair / (cols > 0 ? cols : 1), cols);
    else
        snprintf(shape, sizeof shape, "of %" PRIu64 " elements", items * pair);
    return nib_fail(error, NIB_EINCONSISTENT, "the input is %zux%zu, the dump %s (%s)", x.rows, x.cols, shape, part->name);
}

/* None of the names is known for what a quantizer makes, or all are, for several weights. */
static enum nib_status fail_unknown(const struct nib_part *parts, size_t count, struct nib_error *error) {
    char found[200] = "";
    size_t used = 0;
    bool several = false;
    if (count == 1 && parts[0].name[0] == '\0')
        return nib_fail(error, NIB_EINVAL,
                        "the one array of the dump has no name; FILE:packed, FILE:codes or FILE:scales says what it is");
    for (size_t i = 0; i < count; i++) {
        several = several || (parts[i].stage > NIB_STAGE_TENSOR_SCALE && parts[i].stage < NIB_STAGE_OTHER);
        size_t room = sizeof found - used, length = strlen(parts[i].name) + 2;
        if (length + 5 > room) {
            snprintf(found + used, room, ", ...");
            break;
        }
        used += (size_t)snprintf(found + used, room, "%s%s", used > 0 ? ", " : "", parts[i].name);
    }
    if (several)
        return nib_fail(error, NIB_EINVAL,
                        "the dump holds several weights (%s); FILE:WEIGHT chooses one, by what its tensors' names begin with",
                        found);
    return nib_fail(error, NIB_EINVAL,
                    "the dump holds nothing that a quantizer makes, by its names (%s); understood are codes, packed, weight_packed, "
                    "qdata, scales, scale, weight_scale, dequantized, and names that end so after a weight's",
                    used > 0 ? found : "there are none");
}

enum nib_status nib_identify_shown(struct nib_view x, const struct nib_part *parts, size_t part_count,
                                   const struct nib_quantizer *const *quantizers, size_t count, int threads,
                                   struct nib_candidate *out, nib_identify_step *step, void *context, struct nib_error *error) {
    bool any = false;
    for (size_t i = 0; i < part_count; i++) {
        if (reading_of(&parts[i]) == UNKNOWN) continue;
        any = any || parts[i].stage > NIB_STAGE_TENSOR_SCALE;
        enum nib_status status = check_size(x, &parts[i], error);
        if (status != NIB_OK) return status;
    }
    if (!any) return fail_unknown(parts, part_count, error);
    struct trial trial = {x, parts, part_count, threads};
    return identify(&trial, quantizers, count, out, step, context, error);
}

enum nib_status nib_identify(struct nib_view x, const struct nib_part *parts, size_t part_count,
                             const struct nib_quantizer *const *quantizers, size_t count, int threads,
                             struct nib_candidate *out, struct nib_error *error) {
    return nib_identify_shown(x, parts, part_count, quantizers, count, threads, out, NULL, NULL, error);
}
