/* nibble layout: where codes and scales lie in memory, and from one order to another. */
#include <nibble/layout.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/number.h"
#include "cli/input.h"
#include "cli/output.h"
#include "io/json_out.h"

struct arguments {
    const char *scales, *codes, *packed, *bytes, *shape, *from, *to, *interleaving;
    struct nib_texts offsets, group;
    int64_t block, sections;
    bool transpose, explain;
};

static const struct arguments defaults = {.block = 0};

static const struct nib_option options[] = {
    NIB_OPT_TEXT(struct arguments, shape, "shape", 0, "ROWSxCOLS", "shape of the scales, or of the codes where codes are given"),
    NIB_OPT_TEXT(struct arguments, scales, "scales", 0, "BYTES", "scales in the layout --from: FILE[:tensor], FILE:raw, or hexadecimal "
                 "digits after 0x"),
    NIB_OPT_TEXT(struct arguments, codes, "codes", 'c', "BYTES", "codes to pack, one a byte"),
    NIB_OPT_TEXT(struct arguments, packed, "packed", 'p', "BYTES", "packed codes in the order --from"),
    NIB_OPT_TEXT(struct arguments, bytes, "bytes", 0, "BYTES", "codes and scales together, to take apart by --interleave"),
    NIB_OPT_TEXT(struct arguments, from, "from", 0, "LAYOUT", "scales: linear (the default), 128x4, 8x4; codes: low (the default), high, j|j+8, j|j+16"),
    NIB_OPT_TEXT(struct arguments, to, "to", 0, "LAYOUT", "the same; packed codes are unpacked without it"),
    NIB_OPT_TEXTS(struct arguments, offsets, "offset", 'o', "ROW,COL", "print the byte of this scale in the layout --to"),
    NIB_OPT_LIST(struct arguments, group, "group", 'g', "ROWS,ROWS,...", "rows of each expert, each padded by itself"),
    NIB_OPT_TEXT(struct arguments, interleaving, "interleave", 0, "NAME", "fbgemm-mx4, fbgemm-mx4-triton, ggml-mxfp4, ggml-nvfp4, ggml-q4-0"),
    NIB_OPT_FLAG(struct arguments, transpose, "transpose", 0, "transpose packed codes, pairing nibbles anew"),
    NIB_OPT_INTEGER(struct arguments, block, "block", 'b', "N", 1, 65536, "elements of a block: sizes of a scale and an element section"),
    NIB_OPT_INTEGER(struct arguments, sections, "align", 0, "N", 1, 65536, "sections are padded to this many bytes; 1 by default"),
    NIB_OPT_FLAG(struct arguments, explain, "explain", 'e', "print the formula of the layout --to, and a picture of one tile"),
    NIB_OPT_END,
};

static const struct nib_example examples[] = {
    {"nibble layout --shape 256x12 --to 128x4 --offset 37,5 --offset 128,0", "where scales lie, and how many bytes there are"},
    {"nibble layout --shape 2x2 --scales 0x01020304 --to 8x4", "scales into tiles, padded with zeros"},
    {"nibble layout --shape 1x4 --codes 0x020f0105 --to low", "four codes in two bytes"},
    {"nibble layout --shape 2x2 --packed 0x2143 --transpose", "transpose packed codes"},
    {NULL, NULL},
};

/* What a command found out: sizes, then bytes. */
struct report {
    struct {
        const char *key;
        uint64_t values[64];
        size_t count;
        bool list;
    } number[8];
    size_t numbers;
    struct {
        const char *key;
        uint8_t *bytes;
        size_t count;
        bool integers;
    } data[2];
    size_t blobs;
};

static void add(struct report *r, const char *key, const uint64_t *values, size_t count, bool list) {
    if (r->numbers == 8 || count > 64) return;
    r->number[r->numbers].key = key;
    r->number[r->numbers].count = count;
    r->number[r->numbers].list = list;
    memcpy(r->number[r->numbers++].values, values, count * sizeof *values);
}
static void add_one(struct report *r, const char *key, uint64_t value) { add(r, key, &value, 1, false); }
static void add_data(struct report *r, const char *key, uint8_t *bytes, size_t count, bool integers) {
    r->data[r->blobs].key = key;
    r->data[r->blobs].bytes = bytes;
    r->data[r->blobs].count = count;
    r->data[r->blobs++].integers = integers;
}

static enum nib_status print(const struct nib_call *call, const struct report *r, struct nib_error *error) {
    if (call->common.json) {
        struct nib_json *json;
        enum nib_status status = nib_output_json(call, &json, error);
        if (status != NIB_OK) return status;
        for (size_t i = 0; i < r->numbers; i++) {
            if (!r->number[i].list) {
                nib_json_unsigned(json, r->number[i].key, r->number[i].values[0]);
                continue;
            }
            nib_json_array(json, r->number[i].key);
            for (size_t k = 0; k < r->number[i].count; k++) nib_json_unsigned(json, NULL, r->number[i].values[k]);
            nib_json_close(json);
        }
        for (size_t i = 0; i < r->blobs; i++) {
            if (r->data[i].integers)
                nib_json_bytes(json, r->data[i].key, r->data[i].bytes, r->data[i].count);
            else
                nib_json_hex(json, r->data[i].key, r->data[i].bytes, r->data[i].count);
        }
        nib_json_end(json);
        return NIB_OK;
    }
    for (size_t i = 0; i < r->numbers; i++) {
        printf("%s:", r->number[i].key);
        for (size_t k = 0; k < r->number[i].count; k++) printf(" %llu", (unsigned long long)r->number[i].values[k]);
        putchar('\n');
    }
    for (size_t i = 0; i < r->blobs; i++) {
        printf("%s: %s", r->data[i].key, r->data[i].integers ? "" : "0x");
        for (size_t k = 0; k < r->data[i].count; k++) printf("%0*x", r->data[i].integers ? 1 : 2, r->data[i].bytes[k]);
        putchar('\n');
    }
    return NIB_OK;
}

/* Bytes of an option, exactly as many as expected. */
static enum nib_status exact_bytes(const char *text, const char *option, size_t expected, const char *why, uint8_t **out,
                                   struct nib_error *error) {
    size_t count;
    enum nib_status status = nib_input_bytes(text, option, out, &count, error);
    if (status == NIB_OK && count != expected) {
        status = nib_fail(error, NIB_EINVAL, "--%s holds %zu bytes; expected %zu, %s", option, count, expected, why);
        free(*out);
        *out = NULL;
    }
    return status;
}

static enum nib_status layouts_of(const struct arguments *a, enum nib_scale_layout *from, enum nib_scale_layout *to,
                                  struct nib_error *error) {
    enum nib_status status = nib_scale_layout_parse(a->from != NULL ? a->from : "linear", from, error);
    return status == NIB_OK ? nib_scale_layout_parse(a->to != NULL ? a->to : "linear", to, error) : status;
}

/* Each expert's rows are padded by themselves, and its bytes follow those of the one before. */
static enum nib_status experts(const struct arguments *a, size_t cols, enum nib_scale_layout layout, size_t *rows, uint64_t *bytes,
                               uint64_t *start, struct nib_error *error) {
    uint64_t total = 0;
    for (size_t i = 0; i < a->group.count; i++) {
        int64_t value;
        if (i == 64 || !nib_number_integer(a->group.item[i], 0, INT64_C(1) << 40, &value))
            return nib_fail(error, NIB_EINVAL, "--group \"%s\": expected up to 64 numbers of rows", a->group.item[i]);
        size_t padded_rows, padded_cols;
        rows[i] = (size_t)value;
        bytes[i] = nib_scales_padded(layout, rows[i], cols, &padded_rows, &padded_cols);
        start[i] = total;
        total += bytes[i];
    }
    return NIB_OK;
}

static enum nib_status convert_scales(const struct arguments *a, size_t rows, size_t cols, enum nib_scale_layout from,
                                      enum nib_scale_layout to, struct report *r, struct nib_error *error) {
    size_t pr, pc, in = nib_scales_padded(from, rows, cols, &pr, &pc), out = nib_scales_padded(to, rows, cols, &pr, &pc);
    uint8_t *bytes = NULL, *converted = nib_alloc(out, 1, "scales", error);
    enum nib_status status = converted == NULL ? NIB_ENOMEM : NIB_OK;
    if (status == NIB_OK) status = exact_bytes(a->scales, "scales", in, "padding included", &bytes, error);
    if (status == NIB_OK) {
        nib_scales_convert(from, bytes, to, converted, rows, cols);
        add_data(r, "scales", converted, out, false);
    } else
        free(converted);
    free(bytes);
    return status;
}

static void print_formula(enum nib_scale_layout layout) {
    printf("byte of scale (m, k), K scales a row: %s\n", nib_scale_layout_formula(layout));
    if (layout == NIB_SCALES_LINEAR) return;
    static const size_t rows[] = {0, 1, 2, 7, 8, 31, 32, 64, 127};
    puts("one tile, 4 scales a row:");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (layout == NIB_SCALES_8X4 && rows[i] > 7) break;
        printf("  row %3zu:", rows[i]);
        for (size_t k = 0; k < 4; k++) printf(" %4zu", nib_scales_offset(layout, 4, rows[i], k));
        putchar('\n');
    }
}

static enum nib_status run_scales(const struct arguments *a, size_t rows, size_t cols, bool json, struct report *r,
                                  struct nib_error *error) {
    enum nib_scale_layout from, to;
    size_t padded_rows, padded_cols, expert_rows[64];
    uint64_t expert_bytes[64], expert_start[64], offsets[64];
    enum nib_status status = layouts_of(a, &from, &to, error);
    if (status != NIB_OK) return status;
    if (a->explain && !json) print_formula(to);
    uint64_t total = nib_scales_padded(to, rows, cols, &padded_rows, &padded_cols);
    add(r, "shape", (uint64_t[]){rows, cols}, 2, true);
    add(r, "padded_shape", (uint64_t[]){padded_rows, padded_cols}, 2, true);
    if (a->group.count > 0) {
        status = experts(a, cols, to, expert_rows, expert_bytes, expert_start, error);
        if (status != NIB_OK) return status;
        size_t sum = 0;
        for (size_t i = 0; i < a->group.count; i++) sum += expert_rows[i];
        if (sum != rows)
            return nib_fail(error, NIB_EINVAL, "--group has %zu rows in all, --shape %zu; expected the same", sum, rows);
        add(r, "bytes_per_expert", expert_bytes, a->group.count, true);
        add(r, "start_of_expert", expert_start, a->group.count, true);
        total = expert_start[a->group.count - 1] + expert_bytes[a->group.count - 1];
    }
    add_one(r, "bytes", total);
    for (size_t i = 0; i < a->offsets.count; i++) {
        size_t row, col, expert = 0;
        if (i == 64) return nib_fail(error, NIB_EINVAL, "--offset is given more than 64 times");
        status = nib_input_place(a->offsets.item[i], &row, &col, error);
        if (status == NIB_OK && (row >= rows || col >= cols))
            status = nib_fail(error, NIB_EINVAL, "--offset %s lies outside %zu x %zu (counted from 0)", a->offsets.item[i], rows, cols);
        if (status != NIB_OK) return status;
        while (a->group.count > 0 && row >= expert_rows[expert]) row -= expert_rows[expert++];
        offsets[i] = (a->group.count > 0 ? expert_start[expert] : 0) + nib_scales_offset(to, cols, row, col);
    }
    if (a->offsets.count > 0) add(r, "offsets", offsets, a->offsets.count, true);
    if (a->scales == NULL) return NIB_OK;
    if (a->group.count > 0) return nib_fail(error, NIB_EINVAL, "--scales and --group are both given; convert one expert at a time");
    return convert_scales(a, rows, cols, from, to, r, error);
}

static enum nib_status run_codes(const struct arguments *a, size_t rows, size_t cols, struct report *r, struct nib_error *error) {
    enum nib_nibble_order from = NIB_NIBBLES_LOW, to = NIB_NIBBLES_LOW;
    enum nib_status status = nib_nibble_order_parse(a->from != NULL ? a->from : "low", &from, error);
    if (status == NIB_OK) status = nib_nibble_order_parse(a->to != NULL ? a->to : nib_nibble_order_name(from), &to, error);
    if (status == NIB_OK && a->codes != NULL && a->packed != NULL)
        status = nib_fail(error, NIB_EINVAL, "--codes and --packed are both given; expected one");
    uint8_t *codes = NULL, *bytes = NULL;
    if (status == NIB_OK && a->codes != NULL)
        status = exact_bytes(a->codes, "codes", rows * cols, "one for each element", &codes, error);
    if (status == NIB_OK && a->packed != NULL) {
        status = exact_bytes(a->packed, "packed", rows * nib_codes_packed_bytes(from, cols), "rows of whole groups", &bytes, error);
        if (status == NIB_OK && (codes = nib_alloc(rows * cols, 1, "codes", error)) == NULL) status = NIB_ENOMEM;
        if (status == NIB_OK) nib_codes_unpack(from, bytes, rows, cols, codes);
    }
    for (size_t i = 0; status == NIB_OK && i < rows * cols; i++)
        if (codes[i] > 15) status = nib_fail(error, NIB_EINVAL, "--codes: byte %zu is %u; a code is at most 15", i, codes[i]);
    if (status == NIB_OK && a->transpose) {
        uint8_t *turned = nib_alloc(rows * cols, 1, "codes", error);
        if (turned == NULL) status = NIB_ENOMEM;
        for (size_t i = 0; status == NIB_OK && i < rows * cols; i++) turned[i % cols * rows + i / cols] = codes[i];
        if (status == NIB_OK) {
            free(codes);
            codes = turned;
            size_t keep = rows;
            rows = cols;
            cols = keep;
        }
    }
    bool pack = a->codes != NULL || a->to != NULL || a->transpose;
    if (status == NIB_OK) add(r, "shape", (uint64_t[]){rows, cols}, 2, true);
    if (status == NIB_OK && pack) {
        size_t count = rows * nib_codes_packed_bytes(to, cols);
        uint8_t *packed = nib_alloc(count, 1, "packed codes", error);
        if (packed == NULL) status = NIB_ENOMEM;
        if (status == NIB_OK) {
            nib_codes_pack(to, codes, rows, cols, packed);
            add_data(r, "packed", packed, count, false);
        }
    } else if (status == NIB_OK) {
        add_data(r, "codes", codes, rows * cols, true);
        codes = NULL;
    }
    free(codes);
    free(bytes);
    return status;
}

static enum nib_status run_interleaved(const struct arguments *a, size_t rows, size_t cols, struct report *r, struct nib_error *error) {
    const struct nib_interleaving *way = NULL;
    for (size_t i = 0; nib_interleaving_at(i) != NULL; i++)
        if (strcmp(nib_interleaving_at(i)->name, a->interleaving) == 0) way = nib_interleaving_at(i);
    if (way == NULL)
        return nib_fail(error, NIB_EINVAL,
                        "no interleaving \"%.40s\"; expected fbgemm-mx4, fbgemm-mx4-triton, ggml-mxfp4, ggml-nvfp4 or ggml-q4-0",
                        a->interleaving);
    size_t group = (size_t)way->block * way->blocks, count = rows * cols, scales = count / way->block * way->scale_bytes;
    if (cols % group != 0)
        return nib_fail(error, NIB_EINVAL, "%zu columns are no whole groups of %zu of %s; pad them to %zu", cols, group, way->name,
                        (cols / group + 1) * group);
    size_t all = nib_interleaved_bytes(way, count);
    uint8_t *codes = NULL, *scale = NULL, *bytes = NULL;
    enum nib_status status = NIB_OK;
    if (a->bytes != NULL) {
        status = exact_bytes(a->bytes, "bytes", all, "codes and scales", &bytes, error);
        if (status == NIB_OK) codes = nib_alloc(count, 1, "codes", error);
        if (status == NIB_OK) scale = nib_alloc(scales, 1, "scales", error);
        if (status == NIB_OK && (codes == NULL || scale == NULL)) status = NIB_ENOMEM;
        if (status == NIB_OK) {
            nib_deinterleave(way, bytes, count, codes, scale);
            add_data(r, "codes", codes, count, true);
            add_data(r, "scales", scale, scales, false);
            codes = scale = NULL;
        }
    } else if (a->codes == NULL || a->scales == NULL) {
        add_one(r, "bytes", all);
        add_one(r, "bytes_per_group", all / (count / group));
        add_one(r, "elements_per_group", group);
    } else {
        status = exact_bytes(a->codes, "codes", count, "one for each element", &codes, error);
        if (status == NIB_OK) status = exact_bytes(a->scales, "scales", scales, "those of every block", &scale, error);
        if (status == NIB_OK && (bytes = nib_alloc(all, 1, "bytes", error)) == NULL) status = NIB_ENOMEM;
        if (status == NIB_OK) {
            nib_interleave(way, codes, scale, count, bytes);
            add_data(r, "bytes", bytes, all, false);
            bytes = NULL;
        }
    }
    free(codes);
    free(scale);
    free(bytes);
    return status;
}

/* [scales][elements], each section padded. */
static void run_sections(const struct arguments *a, size_t rows, size_t cols, struct report *r) {
    size_t align = a->sections > 0 ? (size_t)a->sections : 1, block = (size_t)a->block;
    size_t scales = (rows * cols + block - 1) / block, elements = rows * ((cols + 1) / 2);
    size_t start = (scales + align - 1) / align * align;
    add(r, "shape", (uint64_t[]){rows, cols}, 2, true);
    add_one(r, "scale_bytes", scales);
    add_one(r, "element_offset", start);
    add_one(r, "element_bytes", elements);
    add_one(r, "total", start + (elements + align - 1) / align * align);
}

/* What a call is about follows from its options; those that say nothing about it are refused. */
static enum nib_status check_options(const struct nib_call *call, struct nib_error *error) {
    static const char *const not_interleaved[] = {"packed", "from", "to", "offset", "group", "transpose", "block", "align", "explain", NULL};
    static const char *const not_sections[] = {"scales", "codes", "packed", "bytes", "from", "to", "offset", "group", "transpose", "explain", NULL};
    static const char *const not_codes[] = {"scales", "bytes", "offset", "group", "align", "explain", NULL};
    static const char *const not_scales[] = {"bytes", "transpose", "align", NULL};
    static const char *const whole[] = {"codes", "scales", NULL}, *const from[] = {"from", NULL};
    const struct arguments *a = call->options;
    if (a->interleaving != NULL) {
        enum nib_status status = nib_options_refuse(call, not_interleaved, "does not go with --interleave", error);
        if (status == NIB_OK && a->bytes != NULL)
            status = nib_options_refuse(call, whole, "and --bytes are both given; --bytes is to be taken apart", error);
        if (status == NIB_OK && (a->codes == NULL) != (a->scales == NULL))
            status = nib_fail(error, NIB_EINVAL, "--interleave puts --codes and --scales together; --%s is missing",
                              a->codes == NULL ? "codes" : "scales");
        return status;
    }
    if (a->block > 0) return nib_options_refuse(call, not_sections, "does not go with --block, which asks for sizes", error);
    if (a->codes != NULL || a->packed != NULL)
        return nib_options_refuse(call, not_codes, "does not go with --codes or --packed", error);
    enum nib_status status = nib_options_refuse(call, not_scales, "says nothing about scales; it goes with --interleave (bytes), "
                                                "--packed (transpose) or --block (align)", error);
    if (status == NIB_OK && a->scales == NULL)
        status = nib_options_refuse(call, from, "goes with --scales, --codes or --packed", error);
    if (status == NIB_OK && a->explain && call->common.json)
        status = nib_fail(error, NIB_EINVAL, "--explain draws a picture; leave out --json");
    return status;
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    const struct arguments *a = call->options;
    if (a->shape == NULL) return nib_fail(error, NIB_EINVAL, "--shape is missing: ROWSxCOLS such as 256x12");
    size_t rows, cols;
    struct report report = {.numbers = 0};
    enum nib_status status = check_options(call, error);
    if (status == NIB_OK) status = nib_input_shape(a->shape, &rows, &cols, error);
    if (status == NIB_OK && rows > (SIZE_MAX >> 8) / cols)
        status = nib_fail(error, NIB_EINVAL, "--shape %s is larger than memory can address", a->shape);
    if (status != NIB_OK) return status;
    if (a->interleaving != NULL)
        status = run_interleaved(a, rows, cols, &report, error);
    else if (a->block > 0)
        run_sections(a, rows, cols, &report);
    else if (a->codes != NULL || a->packed != NULL)
        status = run_codes(a, rows, cols, &report, error);
    else
        status = run_scales(a, rows, cols, call->common.json, &report, error);
    if (status == NIB_OK) status = print(call, &report, error);
    for (size_t i = 0; i < report.blobs; i++) free(report.data[i].bytes);
    return status;
}

NIB_COMMAND(layout) = {
    .values = NULL,
    .least = 0,
    .most = 0,
    .description =
        "Says where scales lie in a layout, and brings scales and packed codes from one order into another. Scale layouts: "
        "linear, 128x4 (what block-scaled tensor-core instructions read), 8x4; rows and columns are padded to whole tiles with "
        "zeros. Orders of codes: low or high (nibble of the even element), j|j+8 and j|j+16 (halves of 16 or 32 elements).",
    .options = options,
    .defaults = &defaults,
    .size = sizeof(struct arguments),
    .takes = NIB_TAKES_JSON_ONLY,
    .examples = examples,
    .run = run,
};
