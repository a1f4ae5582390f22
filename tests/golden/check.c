#include "golden/check.h"

#include <math.h>
#include <nibble/compare.h>
#include <nibble/rotate.h>
#include <nibble/tensor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/convert.h"
#include "core/widen.h"
#include "golden/bytes.h"
#include "io/entry.h"

/* What a tensor of a golden file is compared with. */
enum source {
    CODES,
    CODES_SWAPPED,               /* pairs of neighbours exchanged */
    CODES_OF_VALUES,             /* by a table of values that has no -0: zeros are 8, what it lacks (-0, NaN) is 255 */
    PACKED,
    BYTES,                       /* whole blocks; the option bytes=LAYOUT says how */
    SCALES,
    SCALE_VALUES,                /* decoded */
    SCALE_EXPONENTS,             /* log2 of them */
    SCALES_BLOCKED,              /* in the 128x4 layout of tensor cores, padded with 0 */
    VALUES,
    AMAX,
    ENCODE,
    DECODE,
    ROTATED,                     /* what the rotation gives to the quantizer */
    NONE,                        /* an input of the implementation, not compared */
    SOURCES
};
static const char *const source_names[SOURCES] = {"codes", "codes-swapped", "codes-of-values", "packed", "bytes", "scales",
    "scale-values", "scale-exponents", "scales-blocked", "values", "amax", "encode", "decode", "rotated", "none"};
static const struct {
    const char *tensor;
    enum source source;
} usual[] = {
    {"codes", CODES},          {"packed", PACKED},          {"bytes", BYTES},
    {"scale", SCALES},         {"scale_value", SCALE_VALUES}, {"scale_f32", SCALE_VALUES},
    {"scale_f16", SCALES},     {"scale_blocked", SCALES_BLOCKED}, {"value", VALUES},
    {"dequant", VALUES},       {"amax", AMAX},              {"amax_row", AMAX},
    {"amax_col", AMAX},        {"tensor_scale", DECODE},    {"rht", ROTATED},
    {"rht_t", ROTATED},
};

/* A quantized orientation of the input: [0] as it lies, [1] its transpose. */
struct side {
    bool done;
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
    struct nib_view view = c->x;
    const char *amax = row_option(c->row, "amax"), *rotation = row_option(c->row, which == 0 ? "rotate" : "rotate_t");
    if (rotation != NULL && !rotate(c, which, &view, rotation)) return false;
    struct nib_quantize_options options = {.axis = which == 0 ? NIB_ALONG_COLS : NIB_ALONG_ROWS, .isa = c->isa};
    if (amax != NULL && strcmp(amax, "finite") == 0) {
        options.has_tensor_amax = true;
        options.tensor_amax = finite_amax(view);
    }
    unsigned all = NIB_WANT_CODES | NIB_WANT_PACKED | NIB_WANT_SCALES | NIB_WANT_VALUES;
    if (nib_quantized_alloc(c->quantizer, view.rows, view.cols, options.axis, all, &side->q, &error) != NIB_OK ||
        nib_quantize(c->quantizer, view, &options, &side->q, &error) != NIB_OK)
        return complain(c, "nib_quantize", error.text);
    return side->done = true;
}

/* ---- what is compared: an owned array of rows */

struct made {
    struct nib_part part;
    uint8_t *data;
    size_t rows, row_bytes;
};

static bool make(struct made *m, enum nib_part_type type, unsigned item, size_t rows, size_t cols) {
    *m = (struct made){.rows = rows, .row_bytes = cols * item};
    m->part = (struct nib_part){.type = type, .bytes = item, .rank = 2, .shape = {rows, cols}};
    m->part.data = m->data = calloc(rows * cols + 1, item);
    return m->data != NULL;
}

static uint32_t scale_at(const struct nib_quantized *q, size_t row, size_t col) {
    uint32_t code = 0;
    memcpy(&code, q->scales + (row * q->scale_cols + col) * q->scale_bytes, q->scale_bytes);
    return code;
}

/* Position of (line, j) along the reduction axis. */
static size_t place(const struct nib_quantized *q, size_t line, size_t j) {
    return q->axis == NIB_ALONG_COLS ? line * q->cols + j : j * q->cols + line;
}

static uint8_t code_of_value(uint8_t code, float value, const struct nib_element *element) {
    if (isnan(value) || (element->level[code] == 0 && signbit(element->level[code]))) return 255;
    return element->level[code] == 0 ? 8 : code;
}

static bool make_codes(const struct check *c, const struct nib_quantized *q, enum source source, struct made *m) {
    size_t lines = q->axis == NIB_ALONG_COLS ? q->rows : q->cols, inner = q->rows * q->cols / lines;
    if (!make(m, NIB_PART_INTEGER, 1, lines, inner)) return false;
    for (size_t line = 0; line < lines; line++)
        for (size_t j = 0; j < inner; j++) {
            size_t at = place(q, line, source == CODES_SWAPPED ? j ^ 1 : j);
            uint8_t code = q->codes[at];
            if (source == CODES_OF_VALUES) code = code_of_value(code, q->values[at], c->info.block->element);
            m->data[line * inner + j] = code;
        }
    return true;
}

/* In the type of the golden tensor: implementations return values in the type of their input. */
static bool make_floats(const struct nib_quantized *q, const float *values, enum nib_part_type type, struct made *m) {
    size_t lines = q->axis == NIB_ALONG_COLS ? q->rows : q->cols, inner = q->rows * q->cols / lines;
    bool bf16 = type == NIB_PART_BF16;
    if (!make(m, bf16 ? NIB_PART_BF16 : NIB_PART_F32, bf16 ? 2 : 4, lines, inner)) return false;
    for (size_t line = 0; line < lines; line++)
        for (size_t j = 0; j < inner; j++) {
            float value = values[place(q, line, j)];
            uint16_t half = nib_bf16_of_bits(nib_bits_of_float(value));
            memcpy(m->data + (line * inner + j) * m->part.bytes, bf16 ? (void *)&half : (void *)&value, m->part.bytes);
        }
    return true;
}

/* One scale per block; blocks that span several lines repeat theirs where the golden tensor has one row per line. */
static bool make_scales(const struct check *c, const struct nib_quantized *q, enum source source, bool repeat, struct made *m) {
    size_t lines = q->axis == NIB_ALONG_COLS ? q->rows : q->cols, rows = repeat ? lines : q->scale_rows;
    bool codes = source == SCALES;
    if (!make(m, codes ? NIB_PART_INTEGER : NIB_PART_F32, codes ? q->scale_bytes : 4, rows, q->scale_cols)) return false;
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < q->scale_cols; k++) {
            uint32_t code = scale_at(q, repeat ? r / c->info.block->block_rows : r, k);
            float value = nib_scale_decode(c->info.block->scale, code);
            if (source == SCALE_EXPONENTS) value = isfinite(value) ? (float)ilogbf(value) : value;
            memcpy(m->data + (r * q->scale_cols + k) * m->part.bytes, codes ? (void *)&code : (void *)&value, m->part.bytes);
        }
    return true;
}

/* offset(m, k) = (m/128 * ceil(K/4) + k/4) * 512 + m%32 * 16 + m%128/32 * 4 + k%4 */
static bool make_blocked(const struct check *c, const struct nib_quantized *q, struct made *m) {
    size_t lines = q->axis == NIB_ALONG_COLS ? q->rows : q->cols, across = (lines + 127) / 128, along = (q->scale_cols + 3) / 4;
    if (!make(m, NIB_PART_INTEGER, 1, 1, across * along * 512)) return false;
    for (size_t r = 0; r < lines; r++)
        for (size_t k = 0; k < q->scale_cols; k++)
            m->data[(r / 128 * along + k / 4) * 512 + r % 32 * 16 + r % 128 / 32 * 4 + k % 4] =
                (uint8_t)scale_at(q, r / c->info.block->block_rows, k);
    return true;
}

static bool make_bytes(const struct check *c, const struct nib_quantized *q, struct made *m) {
    const char *name = row_option(c->row, "bytes");
    enum block_layout layout = 0;
    while (layout < LAYOUTS && (name == NULL || strcmp(name, block_layout_names[layout]) != 0)) layout++;
    if (layout == LAYOUTS) return complain(c, "bytes", "expected the option bytes=LAYOUT");
    size_t unit = block_layout_elements(layout), units = q->cols / unit, blocks = unit / c->info.block->block_cols;
    if (!make(m, NIB_PART_INTEGER, 1, q->rows * units, block_layout_bytes(layout, q->scale_bytes))) return false;
    for (size_t i = 0; i < q->rows * units; i++)
        block_layout_write(layout, q->codes + i * unit, q->scales + i * blocks * q->scale_bytes, q->scale_bytes,
                           m->data + i * m->row_bytes);
    return true;
}

static bool make_number(const struct nib_quantized *q, enum source source, struct made *m) {
    float value = source == AMAX ? q->tensor_amax : source == ENCODE ? q->tensor_scale_encode : q->tensor_scale_decode;
    if (!make(m, NIB_PART_F32, 4, 1, 1)) return false;
    memcpy(m->data, &value, sizeof value);
    return true;
}

static bool make_packed(const struct nib_quantized *q, struct made *m) {
    size_t lines = q->axis == NIB_ALONG_COLS ? q->rows : q->cols;
    if (!make(m, NIB_PART_INTEGER, 1, lines, q->packed_stride)) return false;
    memcpy(m->data, q->packed, lines * q->packed_stride);
    return true;
}

static bool make_any(const struct check *c, int which, enum source source, const struct nib_part *golden, struct made *m) {
    const struct side *side = &c->side[which];
    const struct nib_quantized *q = &side->q;
    switch (source) {
    case CODES:
    case CODES_SWAPPED:
    case CODES_OF_VALUES: return make_codes(c, q, source, m);
    case PACKED: return make_packed(q, m);
    case BYTES: return make_bytes(c, q, m);
    case SCALES:
    case SCALE_VALUES:
    case SCALE_EXPONENTS: return make_scales(c, q, source, golden->rank == 2 && golden->shape[0] * c->row_step > q->scale_rows, m);
    case SCALES_BLOCKED: return make_blocked(c, q, m);
    case VALUES: return make_floats(q, q->values, golden->type, m);
    case ROTATED: return side->rotated != NULL ? make_floats(q, side->rotated, golden->type, m) : complain(c, "rht", "no rotation");
    case AMAX:
    case ENCODE:
    case DECODE: return make_number(q, source, m);
    case NONE:
    case SOURCES: break;
    }
    return false;
}

/* Golden tensors keep row i of every row_step, and often only the first of those. */
static void select_rows(struct made *m, const struct nib_part *golden, size_t step) {
    size_t items = 1;
    for (unsigned i = 0; i < golden->rank; i++) items *= golden->shape[i];
    size_t row_items = m->row_bytes / m->part.bytes, wanted = row_items > 0 ? items / row_items : 0;
    if (items != wanted * row_items || (wanted > 0 && (wanted - 1) * step >= m->rows)) return; /* compared as a wrong shape */
    for (size_t r = 0; r < wanted && step > 1; r++) memmove(m->data + r * m->row_bytes, m->data + r * step * m->row_bytes, m->row_bytes);
    m->part.rank = golden->rank;
    memcpy(m->part.shape, golden->shape, sizeof m->part.shape);
}

/* ---- the tensors of a file */

static enum source source_of(const struct row *row, const char *tensor) {
    const char *chosen = row_option(row, tensor);
    for (int i = 0; chosen != NULL && i < SOURCES; i++)
        if (strcmp(chosen, source_names[i]) == 0) return (enum source)i;
    for (size_t i = 0; chosen == NULL && i < sizeof usual / sizeof *usual; i++)
        if (strcmp(tensor, usual[i].tensor) == 0) return usual[i].source;
    return SOURCES;
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
    enum source source = source_of(c->row, name);
    if (source == NONE) return true;
    if (source == SOURCES) return complain(c, entry->name, "no row option says what it is");
    struct nib_part golden = {.stage = NIB_STAGE_OTHER, .type = types[entry->storage], .bytes = entry->item_bytes, .rank = entry->rank};
    snprintf(golden.name, sizeof golden.name, "%s", entry->name);
    memcpy(golden.shape, entry->shape, sizeof golden.shape);
    uint64_t bytes;
    struct nib_error error;
    if (nib_file_bytes(c->golden, i, &golden.data, &bytes, &error) != NIB_OK) return complain(c, where, error.text);
    struct made made;
    if (!quantize(c, which) || !make_any(c, which, source, &golden, &made)) return complain(c, entry->name, "cannot be made");
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
