#include <nibble/compare.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "compare/rendition.h"

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

/* Shapes are not held against a rendition of the right size: layouts are stored flat, folded, padded. */
static uint64_t differing(const struct nib_part *part, struct nib_rendered *r) {
    struct nib_difference d;
    bool whole = items_of(part) == r->part.shape[0] * r->part.shape[1];
    bool same_kind = (part->type == NIB_PART_INTEGER) == (r->part.type == NIB_PART_INTEGER);
    if (!whole || !same_kind) return items_of(part);
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

static enum nib_status try(struct nib_view x, const struct nib_part *parts, size_t count, int threads,
                           struct nib_candidate *c, struct nib_error *error) {
    struct nib_quantizer_info info;
    nib_quantizer_describe(c->quantizer, &info);
    struct nib_quantize_options options = {.axis = c->axis, .threads = threads};
    for (size_t i = 0; i < count && info.block->has_tensor_scale; i++)
        if (strcmp(parts[i].name, "tensor_amax") == 0 && parts[i].type == NIB_PART_F32 && items_of(&parts[i]) == 1) {
            memcpy(&options.tensor_amax, parts[i].data, 4);
            options.has_tensor_amax = options.tensor_amax >= 0;
        }
    struct nib_quantized q;
    unsigned all = NIB_WANT_CODES | NIB_WANT_PACKED | NIB_WANT_SCALES | NIB_WANT_VALUES;
    enum nib_status status = nib_quantized_alloc(c->quantizer, x.rows, x.cols, c->axis, all, &q, error);
    if (status != NIB_OK) return status;
    status = nib_quantize(c->quantizer, x, &options, &q, error);
    for (size_t i = 0; i < count && status == NIB_OK; i++) {
        size_t reading = reading_of(&parts[i]);
        bool tensor_wide = parts[i].stage == NIB_STAGE_TENSOR_SCALE;
        if (reading != UNKNOWN && (!tensor_wide || info.block->has_tensor_scale)) compare_part(&parts[i], reading, &q, c);
    }
    nib_quantized_free(&q);
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

enum nib_status nib_identify(struct nib_view x, const struct nib_part *parts, size_t part_count,
                             const struct nib_quantizer *const *quantizers, size_t count, int threads,
                             struct nib_candidate *out, struct nib_error *error) {
    bool any = false;
    for (size_t i = 0; i < part_count; i++) any = any || (reading_of(&parts[i]) != UNKNOWN && parts[i].stage > NIB_STAGE_TENSOR_SCALE);
    if (!any)
        return nib_fail(error, NIB_EINVAL, "the dump holds nothing that a quantizer makes; expected codes, packed, scales or values");
    struct nib_candidate *made = calloc(2 * count + 1, sizeof *made);
    if (made == NULL) return nib_fail(error, NIB_ENOMEM, "out of memory for %zu candidates", 2 * count);
    enum nib_status status = NIB_OK;
    for (size_t i = 0; i < 2 * count && status == NIB_OK; i++) {
        made[i] = (struct nib_candidate){.quantizer = quantizers[i / 2], .axis = i % 2 == 0 ? NIB_ALONG_COLS : NIB_ALONG_ROWS,
            .first = NIB_STAGES};
        status = try(x, parts, part_count, threads, &made[i], error);
    }
    if (status == NIB_OK) {
        sort(made, 2 * count);
        memcpy(out, made, 2 * count * sizeof *out);
    }
    free(made);
    return status;
}
