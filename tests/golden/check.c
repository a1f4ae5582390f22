#include "golden/check.h"

#include <math.h>
#include <nibble/compare.h>
#include <nibble/rotate.h>
#include <nibble/tensor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/rendition.h"
#include "core/widen.h"
#include "io/entry.h"

/* What a tensor of a golden file is compared with: a rendition of the quantized matrix, or one of these. */
enum {
    CODES_OF_VALUES = NIB_RENDITIONS, /* by a table of values that has no -0: zeros are 8, what it lacks (-0, NaN) is 255 */
    LEVELS,                      /* of the codes, without the scale; NaN where the scaled element is */
    LEVELS_OF_CODES,             /* the same, but NaN has the level of its code */
    SCALES_USED,                 /* the block scale as the arithmetic sees it, before it is stored */
    STORED,                      /* values that codes and scales give back, by nib_dequantize */
    ROTATED,                     /* what the rotation gives to the quantizer */
    NONE,                        /* an input of the implementation, not compared */
    UNKNOWN
};
static const char *const other_names[] = {"codes-of-values", "levels", "levels-of-codes", "scales-used", "stored", "rotated", "none"};
static const struct {
    const char *tensor;
    int source;
} usual[] = {
    {"codes", NIB_AS_CODES},       {"packed", NIB_AS_PACKED},
    {"scale", NIB_AS_SCALES},      {"scale_value", NIB_AS_SCALE_VALUES},
    {"scale_f16", NIB_AS_SCALES},  {"scale_f32", NIB_AS_SCALE_VALUES},
    {"value", NIB_AS_VALUES},      {"scale_blocked", NIB_AS_SCALES_BLOCKED},
    {"dequant", NIB_AS_VALUES},    {"amax", NIB_AS_AMAX},
    {"amax_row", NIB_AS_AMAX},     {"amax_col", NIB_AS_AMAX},
    {"tensor_scale", NIB_AS_DECODE}, {"rht", ROTATED},
};

/* A quantized orientation of the input: [0] as it lies, [1] its transpose. */
struct side {
    bool done;
    struct nib_view view;
    struct nib_quantize_options options;
    struct nib_quantized q;
    float *rotated;
};

struct check {
    const struct row *row;
    const struct nib_quantizer *quantizer;
    struct nib_quantizer_info info;
    struct nib_file *golden, *input;
    uint16_t *all_bf16;
    struct nib_view x;
    size_t row_step;
    const char *isa;
    struct side side[2];
};

/* ---- input */

static bool complain(const struct check *c, const char *what, const char *why) {
    fprintf(stderr, "%s: %s: %s\n", c->row->variant, what, why);
    return false;
}

/* Case "adv_f32" of "adv_f32.cpu.safetensors". */
static bool open_input(struct check *c, const char *tree, const char *name) {
    char path[1024], stem[128];
    struct nib_error error;
    snprintf(stem, sizeof stem, "%.*s", (int)strcspn(name, "."), name);
    if (strcmp(stem, "allbf16") == 0) { /* every pattern in order; no file needed */
        c->all_bf16 = malloc(sizeof(uint16_t) << 16);
        if (c->all_bf16 == NULL) return complain(c, name, "out of memory");
        for (uint32_t i = 0; i < 1u << 16; i++) c->all_bf16[i] = (uint16_t)i;
        c->x = (struct nib_view){c->all_bf16, NIB_BF16, 256, 256, 256};
        return true;
    }
    size_t at;
    snprintf(path, sizeof path, "%s/inputs/%s.safetensors", tree, stem);
    if (nib_file_open(path, &c->input, &error) != NIB_OK || nib_file_find(c->input, "x", &at, &error) != NIB_OK ||
        nib_file_view(c->input, at, false, &c->x, &error) != NIB_OK)
        return complain(c, path, error.text);
    return true;
}

static float finite_amax(struct nib_view x) {
    float amax = 0, line[4096];
    for (size_t r = 0; r < x.rows; r++)
        for (size_t start = 0; start < x.cols; start += 4096) {
            size_t count = x.cols - start < 4096 ? x.cols - start : 4096;
            nib_widen(x, r * x.cols + start, count, line);
            for (size_t j = 0; j < count; j++)
                if (isfinite(line[j]) && fabsf(line[j]) > amax) amax = fabsf(line[j]);
        }
    return amax;
}

/* ---- what the quantizer gives */

static bool rotate(struct check *c, int which, struct nib_view *view, const char *name) {
    const struct nib_rotation *rotation;
    struct nib_error error;
    float *out = malloc(c->x.rows * c->x.cols * sizeof *out);
    if (out == NULL || nib_rotation_open(name, &rotation, &error) != NIB_OK) {
        free(out);
        return complain(c, name, "the rotation cannot be opened");
    }
    bool good = nib_rotate(rotation, c->x, which == 0 ? NIB_ALONG_COLS : NIB_ALONG_ROWS, 1, out, &error) == NIB_OK;
    nib_rotation_close(rotation);
    c->side[which].rotated = out;
    *view = (struct nib_view){out, NIB_F32, c->x.rows, c->x.cols, c->x.cols};
    return good || complain(c, name, error.text);
}

static bool quantize(struct check *c, int which) {
    struct side *side = &c->side[which];
    if (side->done) return true;
    struct nib_error error;
    const char *given = row_option(c->row, "given"), *rotation = row_option(c->row, which == 0 ? "rotate" : "rotate_t");
    side->view = c->x;
    if (rotation != NULL && !rotate(c, which, &side->view, rotation)) return false;
    side->options = (struct nib_quantize_options){.axis = which == 0 ? NIB_ALONG_COLS : NIB_ALONG_ROWS, .isa = c->isa};
    const char *seed = row_option(c->row, "seed"), *stream = row_option(c->row, "stream");
    if (seed != NULL) side->options.seed = strtoull(seed, NULL, 10);
    if (stream != NULL) side->options.stream = strtoull(stream, NULL, 10);
    if (given != NULL && strcmp(given, "finite-amax") == 0) {
        side->options.has_tensor_amax = true;
        side->options.tensor_amax = finite_amax(side->view);
    }
    unsigned all = NIB_WANT_CODES | NIB_WANT_PACKED | NIB_WANT_SCALES | NIB_WANT_VALUES;
    if (nib_quantized_alloc(c->quantizer, c->x.rows, c->x.cols, side->options.axis, all, &side->q, &error) != NIB_OK ||
        nib_quantize(c->quantizer, side->view, &side->options, &side->q, &error) != NIB_OK)
        return complain(c, "nib_quantize", error.text);
    return side->done = true;
}

/* ---- what is compared */

/* Whether elements are NaN once they are scaled: their code then follows the axis element_nan. */
static uint8_t *nan_map(const struct check *c, const struct side *side) {
    static const char *const settings[2] = {"element_nan=max", "element_nan=min"};
    size_t count = c->x.rows * c->x.cols;
    uint8_t *codes[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        const struct nib_quantizer *other;
        struct nib_quantized q;
        struct nib_error error;
        if (nib_quantizer_with(c->quantizer, &settings[i], 1, &other, &error) != NIB_OK) continue;
        if (nib_quantized_alloc(other, c->x.rows, c->x.cols, side->q.axis, NIB_WANT_CODES, &q, &error) == NIB_OK) {
            if (nib_quantize(other, side->view, &side->options, &q, &error) == NIB_OK) {
                codes[i] = q.codes;
                q.codes = NULL;
            }
            nib_quantized_free(&q);
        }
        nib_quantizer_close(other);
    }
    for (size_t i = 0; i < count && codes[0] != NULL && codes[1] != NULL; i++) codes[0][i] = codes[0][i] != codes[1][i];
    free(codes[1]);
    return codes[0];
}

static bool codes_of_values(const struct check *c, const struct side *side, struct nib_rendered *out) {
    uint8_t *nan = nan_map(c, side);
    bool good = nan != NULL && side->q.axis == NIB_ALONG_COLS && nib_render(c->quantizer, &side->q, NIB_AS_CODES, NIB_PART_INTEGER, out);
    for (size_t i = 0; good && i < side->q.rows * side->q.cols; i++) {
        uint8_t code = side->q.codes[i];
        float level = c->info.block->element->level[code];
        out->data[i] = nan[i] || (level == 0 && signbit(level)) ? 255 : level == 0 ? 8 : code;
    }
    free(nan);
    return good;
}

/* Other numbers in place of the values. */
static bool instead(const struct check *c, const struct side *side, float *numbers, enum nib_part_type type,
                    struct nib_rendered *out) {
    struct nib_quantized q = side->q;
    q.values = numbers;
    return numbers != NULL && nib_render(c->quantizer, &q, NIB_AS_VALUES, type, out);
}

static bool levels(const struct check *c, const struct side *side, bool keep_nan, enum nib_part_type type,
                   struct nib_rendered *out) {
    size_t count = side->q.rows * side->q.cols;
    uint8_t *nan = keep_nan ? nan_map(c, side) : calloc(count + 1, 1);
    float *numbers = malloc((count + 1) * sizeof *numbers);
    for (size_t i = 0; i < count && nan != NULL && numbers != NULL; i++)
        numbers[i] = nan[i] ? NAN : c->info.block->element->level[side->q.codes[i]];
    bool good = nan != NULL && instead(c, side, numbers, type, out);
    free(nan);
    free(numbers);
    return good;
}

static bool stored(const struct check *c, const struct side *side, enum nib_part_type type, struct nib_rendered *out) {
    struct nib_error error;
    float *numbers = malloc((side->q.rows * side->q.cols + 1) * sizeof *numbers);
    bool good = numbers != NULL && nib_dequantize(c->quantizer, &side->q, numbers, &error) == NIB_OK &&
                instead(c, side, numbers, type, out);
    free(numbers);
    return good;
}

/* As the explanation of the first element of each block tells. */
static bool scales_used(const struct check *c, const struct side *side, struct nib_rendered *out) {
    const struct nib_quantized *q = &side->q;
    struct nib_error error;
    if (q->axis != NIB_ALONG_COLS || !nib_render(c->quantizer, q, NIB_AS_SCALE_VALUES, NIB_PART_F32, out)) return false;
    for (size_t r = 0; r < out->part.shape[0]; r++)
        for (size_t k = 0; k < q->scale_cols; k++) {
            struct nib_trace trace;
            if (nib_quantize_explain(c->quantizer, side->view, &side->options, r, k * c->info.block->block_cols, &trace, &error) != NIB_OK)
                return false;
            for (size_t i = 0; i < trace.count; i++) {
                float value = (float)trace.step[i].value;
                if (strcmp(trace.step[i].what, "block scale") == 0) memcpy(out->data + (r * q->scale_cols + k) * 4, &value, 4);
            }
        }
    return true;
}

static bool make_any(const struct check *c, int which, int source, enum nib_part_type type, struct nib_rendered *out) {
    const struct side *side = &c->side[which];
    switch (source) {
    case NIB_AS_SCALES: return nib_render(c->quantizer, &side->q, NIB_AS_SCALES_PER_LINE, type, out);
    case CODES_OF_VALUES: return codes_of_values(c, side, out);
    case LEVELS:
    case LEVELS_OF_CODES: return levels(c, side, source == LEVELS, type, out);
    case SCALES_USED: return scales_used(c, side, out);
    case STORED: return stored(c, side, type, out);
    case ROTATED: return instead(c, side, side->rotated, type, out);
    default: return nib_render(c->quantizer, &side->q, (enum nib_rendition)source, type, out);
    }
}

/* Golden tensors keep row i of every row_step, and often only the first of those. */
static void select_rows(struct nib_rendered *m, const struct nib_part *golden, size_t step) {
    size_t items = 1, total = m->part.shape[0] * m->part.shape[1];
    for (unsigned i = 0; i < golden->rank; i++) items *= golden->shape[i];
    bool flat = golden->rank == 1 && step > 1 && (total + step - 1) / step == items; /* its items are its rows */
    size_t row_items = golden->rank > 1 ? golden->shape[golden->rank - 1] : flat ? 1 : m->part.shape[1];
    size_t row_bytes = row_items * m->part.bytes;
    size_t wanted = row_items > 0 ? items / row_items : 0;
    if (items != wanted * row_items || (wanted > 0 && ((wanted - 1) * step + 1) * row_items > total)) return; /* a wrong shape */
    for (size_t r = 0; r < wanted && step > 1; r++) memmove(m->data + r * row_bytes, m->data + r * step * row_bytes, row_bytes);
    m->part.rank = golden->rank;
    memcpy(m->part.shape, golden->shape, sizeof m->part.shape);
}

/* ---- the tensors of a file */

static int source_of(const struct row *row, const char *tensor) {
    const char *chosen = row_option(row, tensor);
    for (int i = 0; chosen != NULL && i < NIB_RENDITIONS; i++)
        if (strcmp(chosen, nib_rendition_names[i]) == 0) return i;
    for (int i = 0; chosen != NULL && i < UNKNOWN - NIB_RENDITIONS; i++)
        if (strcmp(chosen, other_names[i]) == 0) return NIB_RENDITIONS + i;
    for (size_t i = 0; chosen == NULL && i < sizeof usual / sizeof *usual; i++)
        if (strcmp(tensor, usual[i].tensor) == 0) return usual[i].source;
    return UNKNOWN;
}

/* Cuts `suffix` off the end; false where it is not there. */
static bool cut(char *name, const char *suffix) {
    size_t length = strlen(name), cut_length = strlen(suffix);
    if (length < cut_length || strcmp(name + length - cut_length, suffix) != 0) return false;
    name[length - cut_length] = '\0';
    return true;
}

static bool check_tensor(struct check *c, size_t i, const char *where, struct tally *tally) {
    const struct nib_entry *entry = &c->golden->entries[i];
    static const enum nib_part_type types[] = {[NIB_STORED_BYTES] = NIB_PART_INTEGER, [NIB_STORED_F32] = NIB_PART_F32,
        [NIB_STORED_BF16] = NIB_PART_BF16, [NIB_STORED_F16] = NIB_PART_F16, [NIB_STORED_F64] = NIB_PART_F64};
    char name[NIB_PART_NAME];
    snprintf(name, sizeof name, "%s", entry->name);
    const char *suffix = row_option(c->row, "suffix");
    if (suffix != NULL && !cut(name, suffix)) return true; /* of another row */
    int which = cut(name, "_t") || strcmp(name, "amax_col") == 0 ? 1 : 0;
    int source = source_of(c->row, name);
    if (source == NONE) return true;
    if (source == UNKNOWN) return complain(c, entry->name, "no row option says what it is");
    struct nib_part golden = {.stage = NIB_STAGE_OTHER, .type = types[entry->storage], .bytes = entry->item_bytes, .rank = entry->rank};
    snprintf(golden.name, sizeof golden.name, "%s", entry->name);
    memcpy(golden.shape, entry->shape, sizeof golden.shape);
    uint64_t bytes;
    struct nib_error error;
    if (nib_file_bytes(c->golden, i, &golden.data, &bytes, &error) != NIB_OK) return complain(c, where, error.text);
    struct nib_rendered made;
    if (!quantize(c, which) || !make_any(c, which, source, golden.type, &made)) return complain(c, entry->name, "cannot be made");
    select_rows(&made, &golden, c->row_step);
    struct nib_difference d;
    nib_part_compare(&golden, &made.part, &d);
    free(made.data);
    if (c->isa == NULL) tally->compared += d.compared;
    tally->differing += d.items;
    if (d.items > 0 && tally->first[0] == '\0') {
        unsigned long long width = d.rank > 0 ? d.shape[d.rank - 1] : 1;
        if (d.stage == NIB_STAGE_SHAPE)
            snprintf(tally->first, sizeof tally->first, "%s %s: not the shape that comes out", where, entry->name);
        else
            snprintf(tally->first, sizeof tally->first, "%s %s%s: %llu differ, first at %llu,%llu: %0*llx, got %0*llx", where,
                     entry->name, c->isa == NULL ? "" : " (reference)", (unsigned long long)d.items, d.first / width,
                     d.first % width, (int)d.width / 4, (unsigned long long)d.a, (int)d.width / 4, (unsigned long long)d.b);
    }
    return true;
}

static void forget(struct check *c) {
    for (int i = 0; i < 2; i++) {
        nib_quantized_free(&c->side[i].q);
        free(c->side[i].rotated);
        c->side[i] = (struct side){0};
    }
}

bool check_file(const struct row *row, const struct nib_quantizer *quantizer, const char *tree, const char *name,
                struct tally *tally) {
    static const char *const ways[] = {NULL, "ref"}; /* the fast way and the definition must both give the bytes */
    struct check c = {.row = row, .quantizer = quantizer, .row_step = 1};
    struct nib_error error;
    char path[1024];
    nib_quantizer_describe(quantizer, &c.info);
    snprintf(path, sizeof path, "%s/%s/%s", tree, row->directory, name);
    bool good = nib_file_open(path, &c.golden, &error) == NIB_OK || complain(&c, path, error.text);
    good = good && open_input(&c, tree, name);
    if (good && nib_file_metadata(c.golden, "row_step") != NULL)
        c.row_step = strtoul(nib_file_metadata(c.golden, "row_step"), NULL, 10);
    for (int way = 0; way < 2 && good; way++) {
        c.isa = ways[way];
        for (size_t i = 0; i < nib_file_count(c.golden) && good; i++) good = check_tensor(&c, i, name, tally);
        forget(&c);
    }
    tally->files++;
    free(c.all_bf16);
    nib_file_close(c.input);
    nib_file_close(c.golden);
    return good;
}
