/* nibble selftest: does this build, on this machine, give the bytes that it must give? */
#include <nibble/quantize.h>
#include <nibble/rotate.h>
#include <stdlib.h>
#include <string.h>

#include "base/axis.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "cli/output.h"
#include "cli/selftest_input.h"
#include "core/key.h"
#include "core/round.h"

static const struct {
    const char *what, *digest;
} golden[] = {
#define SELFTEST(what, digest) {what, digest},
#include "cli/selftest.def"
#undef SELFTEST
};

enum { WHAT, BODY, CHECKS, FAILED, FIRST };
static const struct nib_column columns[] = {
    {"what", "What", "", "what was computed", NIB_COLUMN_TEXT, 0},
    {"body", "By", "", "instruction set, or the definition (ref)", NIB_COLUMN_TEXT, 0},
    {"checks", "Checks", "1", "number of digests compared", NIB_COLUMN_INTEGER, 0},
    {"failed", "Failed", "1", "number of digests that differ", NIB_COLUMN_INTEGER, 0},
    {"first_failed", "First that differs", "", "name of the first digest that differs", NIB_COLUMN_TEXT, 0},
};

/* Compares the digest of the bytes and counts it in the row. */
static void check(struct nib_table *table, size_t row, const char *what, const void *bytes, size_t size) {
    char digest[65];
    nib_sha256_hex(bytes, size, digest);
    nib_table_set_integer(table, row, CHECKS, nib_table_integer(table, row, CHECKS) + 1);
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++)
        if (strcmp(golden[i].what, what) == 0 && strcmp(golden[i].digest, digest) == 0) return;
    if (nib_table_integer(table, row, FAILED) == 0) nib_table_set_text(table, row, FIRST, what);
    nib_table_set_integer(table, row, FAILED, nib_table_integer(table, row, FAILED) + 1);
}

static size_t new_row(struct nib_table *table, const char *what, const char *body) {
    size_t row = nib_table_row(table);
    if (row == SIZE_MAX) return row;
    nib_table_set_text(table, row, WHAT, what);
    nib_table_set_text(table, row, BODY, body);
    return row;
}

/* One input in one direction: codes, packed codes, scales, and values where no NaN is among them. */
static enum nib_status check_quantized(const struct nib_quantizer *quantizer, const char *name, const char *isa,
                                       enum nib_selftest_tensor tensor, bool bf16, enum nib_axis axis,
                                       struct nib_table *table, size_t row, struct nib_error *error) {
    static uint32_t bits[NIB_SELFTEST_COUNT];
    static uint16_t halves[NIB_SELFTEST_COUNT];
    nib_selftest_input(tensor, bf16, bits);
    for (unsigned i = 0; i < NIB_SELFTEST_COUNT; i++) halves[i] = (uint16_t)(bits[i] >> 16);
    struct nib_view x = {bf16 ? (const void *)halves : bits, bf16 ? NIB_BF16 : NIB_F32, NIB_SELFTEST_ROWS,
                         NIB_SELFTEST_COLS, NIB_SELFTEST_COLS};
    struct nib_quantized q;
    enum nib_status status =
        nib_quantized_alloc(quantizer, x.rows, x.cols, axis,
                            NIB_WANT_CODES | NIB_WANT_PACKED | NIB_WANT_SCALES | NIB_WANT_VALUES, &q, error);
    if (status != NIB_OK) return status;
    status = nib_quantize(quantizer, x, &(struct nib_quantize_options){.axis = axis, .isa = isa}, &q, error);
    size_t outer = axis == NIB_ALONG_COLS ? x.rows : x.cols, inner = axis == NIB_ALONG_COLS ? x.cols : x.rows;
    size_t packed = outer * ((inner + 1) / 2), scales = q.scale_rows * q.scale_cols * q.scale_bytes;
    unsigned char *bytes =
        status == NIB_OK ? nib_alloc(NIB_SELFTEST_COUNT * 5 + packed + scales, 1, "selftest", error) : NULL;
    if (bytes != NULL) {
        unsigned char *end = bytes;
        memcpy(end, q.codes, NIB_SELFTEST_COUNT);
        end += NIB_SELFTEST_COUNT;
        for (size_t i = 0; i < outer; i++, end += (inner + 1) / 2)
            memcpy(end, q.packed + i * q.packed_stride, (inner + 1) / 2);
        memcpy(end, q.scales, scales);
        end += scales;
        if (tensor != NIB_SELFTEST_SPECIAL) {
            memcpy(end, q.values, NIB_SELFTEST_COUNT * sizeof(float));
            end += NIB_SELFTEST_COUNT * sizeof(float);
        }
        char what[96];
        snprintf(what, sizeof what, "%s %s %s %s", name, nib_axis_names[axis],
                 nib_selftest_tensor_name(tensor), bf16 ? "bf16" : "fp32");
        check(table, row, what, bytes, (size_t)(end - bytes));
        free(bytes);
    } else if (status == NIB_OK) {
        status = NIB_ENOMEM;
    }
    nib_quantized_free(&q);
    return status;
}

static enum nib_status check_quantizer(const char *name, const char *isa, struct nib_table *table,
                                       struct nib_error *error) {
    const struct nib_quantizer *quantizer;
    enum nib_status status = nib_quantizer_open(name, &quantizer, error);
    if (status != NIB_OK) return status;
    size_t row = new_row(table, name, isa);
    if (row == SIZE_MAX) status = nib_fail(error, NIB_ENOMEM, "selftest: out of memory");
    for (int i = 0; i < NIB_SELFTEST_TENSORS * 4 && status == NIB_OK; i++)
        status = check_quantized(quantizer, name, isa, (enum nib_selftest_tensor)(i / 4), (i & 2) != 0,
                                 (i & 1) != 0 ? NIB_ALONG_ROWS : NIB_ALONG_COLS, table, row, error);
    if (status == NIB_EUNAVAILABLE) { /* this processor lacks it: nothing to compare, and the row says so */
        nib_table_set_text(table, row, FIRST, "not on this processor");
        status = NIB_OK;
    }
    nib_quantizer_close(quantizer);
    return status;
}

/* bf16 zeros, subnormals, infinities, and the numbers of 32 binades around 1. */
static bool goes_through_grids(uint32_t half) {
    uint32_t exponent = half >> 7 & 0xFF;
    return !nib_bits_are_nan(half << 16) && (exponent == 0 || exponent == 255 || (exponent >= 112 && exponent < 144));
}

/* Numbers of every kind through one grid, by thresholds and by the definition. */
static enum nib_status check_element(const char *name, struct nib_table *table, struct nib_error *error) {
    static uint8_t codes[2][65536];
    const struct nib_element *element;
    enum nib_status status = nib_element_open(name, &element, error);
    if (status != NIB_OK) return status;
    size_t rows[2] = {new_row(table, name, "thresholds"), new_row(table, name, "ref")};
    if (rows[0] == SIZE_MAX || rows[1] == SIZE_MAX) status = nib_fail(error, NIB_ENOMEM, "selftest: out of memory");
    for (int mode = 0; mode < NIB_ROUNDINGS && status == NIB_OK; mode++) {
        struct nib_rule rule;
        size_t count = 0;
        nib_rule_compile(element, (enum nib_rounding)mode, &rule);
        for (uint32_t half = 0; half < 65536; half++) {
            if (!goes_through_grids(half)) continue;
            codes[0][count] = (uint8_t)nib_round_code(&rule, half << 16);
            codes[1][count] = nib_element_round_ref(element, (enum nib_rounding)mode, nib_float_of_bits(half << 16));
            count++;
        }
        char what[64];
        snprintf(what, sizeof what, "%s %s", name, nib_rounding_name((enum nib_rounding)mode));
        for (int i = 0; i < 2; i++) check(table, rows[i], what, codes[i], count);
    }
    nib_element_close(element);
    return status;
}

static enum nib_status check_scale(const char *name, struct nib_table *table, struct nib_error *error) {
    static const char *const modes[] = {"nearest", "up", "down"};
    static uint8_t codes[65536];
    const struct nib_scale *scale;
    enum nib_status status = nib_scale_open(name, &scale, error);
    if (status != NIB_OK) return status;
    size_t row = new_row(table, name, "codec");
    if (row == SIZE_MAX) status = nib_fail(error, NIB_ENOMEM, "selftest: out of memory");
    for (int mode = 0; mode < 3 && status == NIB_OK; mode++) {
        for (uint32_t half = 0; half < 65536; half++)
            codes[half] =
                (uint8_t)nib_scale_encode(scale, (enum nib_scale_rounding)mode, nib_float_of_bits(half << 16));
        char what[64];
        snprintf(what, sizeof what, "%s %s", name, modes[mode]);
        check(table, row, what, codes, sizeof codes);
    }
    nib_scale_close(scale);
    return status;
}

static enum nib_status check_rotation(const char *name, struct nib_table *table, struct nib_error *error) {
    static uint32_t bits[NIB_SELFTEST_COUNT];
    static float rotated[NIB_SELFTEST_COUNT];
    const struct nib_rotation *rotation;
    enum nib_status status = nib_rotation_open(name, &rotation, error);
    if (status != NIB_OK) return status;
    nib_selftest_input(NIB_SELFTEST_NORMAL, false, bits);
    struct nib_view x = {bits, NIB_F32, NIB_SELFTEST_COUNT / 16, 16, 16};
    status = nib_rotate(rotation, x, NIB_ALONG_COLS, 0, rotated, error);
    size_t row = status == NIB_OK ? new_row(table, name, "fp32") : 0;
    if (row == SIZE_MAX) status = nib_fail(error, NIB_ENOMEM, "selftest: out of memory");
    if (status == NIB_OK) check(table, row, name, rotated, sizeof rotated);
    nib_rotation_close(rotation);
    return status;
}

static enum nib_status check_all(struct nib_table *table, struct nib_error *error) {
    static const char *const quantizers[] = {"te-nvfp4", "ocp-mxfp4", "e1m2-fp32", "e2m1-fp32"};
    static const char *const bodies[] = {"ref", "generic", "avx2", "avx512"};
    static const char *const elements[] = {"e2m1", "e1m2", "e3m0", "e0m3"};
    static const char *const scales[] = {"e4m3", "e5m2", "ue5m3", "e8m0"};
    enum nib_status status = NIB_OK;
    for (int i = 0; i < 4 && status == NIB_OK; i++) status = check_element(elements[i], table, error);
    for (int i = 0; i < 4 && status == NIB_OK; i++) status = check_scale(scales[i], table, error);
    if (status == NIB_OK) status = check_rotation("rht16", table, error);
    for (int i = 0; i < 16 && status == NIB_OK; i++)
        status = check_quantizer(quantizers[i / 4], bodies[i % 4], table, error);
    return status;
}

static enum nib_status run(struct nib_call *call, struct nib_error *error) {
    struct nib_table *table;
    enum nib_status status = nib_table_new("selftest", columns, sizeof columns / sizeof *columns, &table, error);
    if (status != NIB_OK) return status;
    status = check_all(table, error);
    int64_t checks = 0, failed = 0;
    for (size_t row = 0; status == NIB_OK && row < nib_table_rows(table); row++) {
        checks += nib_table_integer(table, row, CHECKS);
        failed += nib_table_integer(table, row, FAILED);
    }
    if (status == NIB_OK) {
        call->check_failed = failed > 0;
        char headline[96];
        if (failed == 0)
            snprintf(headline, sizeof headline, "all %lld digests agree", (long long)checks);
        else
            snprintf(headline, sizeof headline, "%lld of %lld digests DIFFER", (long long)failed, (long long)checks);
        status = nib_output_table(call, table, &(struct nib_layout){.headline = headline}, error);
    }
    nib_table_free(table);
    return status;
}

static const struct nib_example examples[] = {
    {"nibble selftest", "after installing on a new machine"},
    {"nibble selftest --json", "every row, for a bug report"},
    {NULL, NULL},
};

NIB_COMMAND(selftest) = {
    .description =
        "Rounds, scales, rotates and quantizes fixed inputs with every instruction set that this processor has, and "
        "compares the SHA-256 of the bytes with those that an independent program computed from the specifications. "
        "Exit code 1 if one differs: then do not trust this build on this machine.",
    .takes = NIB_TAKES_JSON,
    .examples = examples,
    .run = run,
};
