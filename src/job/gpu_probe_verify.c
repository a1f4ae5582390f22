#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nibble/layout.h>

#include "base/error.h"
#include "base/memory.h"
#include "core/round.h"
#include "job/gpu_probe.h"
#include "job/gpu_products.h"
#include "job/gpu_report.h"
#include "quantize/sr.h"

/* A whole file; NIB_ENOTFOUND where it is not there. *size must be a multiple of `unit`. */
static enum nib_status load(const char *folder, const char *name, size_t unit, uint8_t **out, size_t *size,
                            struct nib_error *error) {
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return nib_fail_at(error, errno == ENOENT ? NIB_ENOTFOUND : NIB_EIO, path, 0, "cannot be read: %s",
                           strerror(errno));
    long length = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (length <= 0 || length > 1 << 28 || (size_t)length % unit != 0) {
        fclose(file);
        return nib_fail_at(error, NIB_EINCONSISTENT, path, 0, "has %ld bytes; expected a multiple of %zu", length,
                           unit);
    }
    uint8_t *data = nib_alloc_raw((size_t)length, 1, path, error);
    rewind(file);
    bool read = data != NULL && fread(data, 1, (size_t)length, file) == (size_t)length;
    fclose(file);
    if (!read) {
        free(data);
        return data == NULL ? NIB_ENOMEM : nib_fail_at(error, NIB_EIO, path, 0, "cannot be read");
    }
    *out = data;
    *size = (size_t)length;
    return NIB_OK;
}

/* The same, of exactly `expected` bytes. */
static enum nib_status load_exactly(const char *folder, const char *name, size_t expected, uint8_t **out,
                                    struct nib_error *error) {
    size_t size;
    enum nib_status status = load(folder, name, 1, out, &size, error);
    if (status != NIB_OK || size == expected) return status;
    free(*out);
    *out = NULL;
    return nib_fail_at(error, NIB_EINCONSISTENT, folder, 0, "%s has %zu bytes; expected %zu", name, size, expected);
}

/* A row for outputs that are not there. */
static enum nib_status missing(struct nib_table *report, const struct nib_gpu_case *what, const char *file,
                               struct nib_error *error) {
    char why[96];
    snprintf(why, sizeof why, "%s is not in the folder", file);
    return nib_gpu_report_skip(report, what, NIB_GPU_NOT_RUN, why, error);
}

static float number(const uint8_t *x, size_t i) {
    float value;
    memcpy(&value, x + 4 * i, sizeof value);
    return value;
}

static enum nib_status verify_nearest(const char *folder, const struct nib_element *e2m1, struct nib_table *report,
                                      bool *any, struct nib_error *error) {
    static const struct nib_gpu_case what = {"convert", "cvt.rn.satfinite.e2m1x2", "", "fp32", "",
                                             "rne",     "borders, bf16, random"};
    uint8_t *x = NULL, *out = NULL;
    size_t size;
    struct nib_rule rule;
    struct nib_gpu_counts counts = {.calls = 1};
    enum nib_status status = load(folder, "e2m1.x", 8, &x, &size, error);
    if (status != NIB_OK) return status;
    status = load_exactly(folder, "e2m1.out", size / 8, &out, error);
    if (status == NIB_ENOTFOUND) {
        free(x);
        return missing(report, &what, "e2m1.out", error);
    }
    nib_rule_compile(e2m1, NIB_RNE, &rule);
    for (size_t i = 0; status == NIB_OK && i < size / 4; i++) {
        uint32_t bits = nib_bits_of_float(number(x, i)),
                 want = nib_bits_are_nan(bits) ? 7 : nib_round_code(&rule, bits);
        uint32_t got = out[i / 2] >> (i % 2 * 4) & 15u;
        counts.compared++;
        if (got == want) continue;
        counts.codes++;
        nib_gpu_counts_note(&counts, "code %zu: device %X, rule %X; x = %08X", i, got, want, bits);
    }
    free(x);
    free(out);
    if (status != NIB_OK) return status;
    *any = true;
    return nib_gpu_report_add(report, &what, &counts, error);
}

/* Which byte of the random word goes to which element is not documented: the row names the byte that fits each one, and
 * counts against the byte that fits best. */
static enum nib_status verify_stochastic(const char *folder, const struct nib_element *e2m1, struct nib_table *report,
                                         bool *any, struct nib_error *error) {
    uint8_t *x = NULL, *r = NULL, *out = NULL;
    size_t size;
    struct nib_gpu_case what = {"convert", "cvt.rs.satfinite.e2m1x4", "", "fp32", "", "sr", "cells, borders"};
    enum nib_status status = load(folder, "sr.x", 16, &x, &size, error);
    if (status == NIB_OK) status = load_exactly(folder, "sr.rbits", size / 4, &r, error);
    if (status != NIB_OK) {
        free(x);
        return status;
    }
    status = load_exactly(folder, "sr.out", size / 8, &out, error);
    if (status == NIB_ENOTFOUND) {
        free(x);
        free(r);
        return missing(report, &what, "sr.out", error);
    }
    for (unsigned element = 0; element < 4 && status == NIB_OK; element++) {
        struct nib_gpu_counts best = {.codes = UINT64_MAX};
        unsigned byte = 0;
        for (unsigned b = 0; b < 4; b++) {
            struct nib_gpu_counts counts = {.calls = 1};
            for (size_t i = 0; i < size / 16; i++) {
                float y = number(x, 4 * i + element);
                uint32_t want = nib_sr_code(e2m1, y, 8, r[4 * i + b]),
                         got = out[2 * i + element / 2] >> (element % 2 * 4) & 15u;
                counts.compared++;
                if (got == want) continue;
                counts.codes++;
                nib_gpu_counts_note(&counts, "four %zu: device %X, rule %X; x = %08X, random byte %02X", i, got, want,
                                    nib_bits_of_float(y), r[4 * i + b]);
            }
            if (counts.codes < best.codes) best = counts, byte = b;
        }
        char name[80], text[192];
        snprintf(name, sizeof name, "cvt.rs.satfinite.e2m1x4, element %u takes byte %u of the random word", element,
                 byte);
        snprintf(text, sizeof text, "%s", best.first);
        what.name = name;
        status = nib_gpu_report_add(report, &what, &best, error);
    }
    free(x);
    free(r);
    free(out);
    *any = true;
    return status;
}

static enum nib_status verify_set(const struct nib_gpu_probe_product *p, const struct nib_unit *unit,
                                  uint8_t *const data[6], size_t set, struct nib_gpu_counts *counts,
                                  struct nib_error *error) {
    const size_t k = (size_t)p->k * NIB_GPU_PROBE_STEPS, row = 32 * NIB_GPU_PROBE_STEPS, per_row = k / p->scale_block;
    float d[128];
    for (size_t i = set * NIB_GPU_PROBE_TILES; i < (set + 1) * NIB_GPU_PROBE_TILES; i++) {
        struct nib_unit_matrix a = {p->operand, data[0] + i * 16 * row, row, data[3] + i * 16 * per_row, per_row};
        struct nib_unit_matrix b = {p->operand, data[1] + i * 8 * row, row, data[4] + i * 8 * per_row, per_row};
        enum nib_status status = nib_unit_multiply(unit, &a, &b, 16, 8, k, data[2] + i * 512, 8,
                                                   &(struct nib_unit_options){.threads = 1}, d, 8, error);
        if (status != NIB_OK) return status;
        for (size_t j = 0; j < 128; j++) {
            uint32_t got = nib_bits_of_float(number(data[5], i * 128 + j)), want = nib_bits_of_float(d[j]);
            counts->compared++;
            if (got == want) continue;
            counts->values++;
            nib_gpu_counts_note(counts, "output (%zu, %zu) of tile %zu: device %08X, model %08X", j / 8, j % 8, i, got,
                                want);
        }
    }
    return NIB_OK;
}

static enum nib_status verify_product(const char *folder, const struct nib_gpu_probe_product *p,
                                      struct nib_table *report, bool *any, struct nib_error *error) {
    static const char *const suffixes[] = {"a", "b", "c", "a-scales", "b-scales", "out"};
    const size_t tiles = (size_t)NIB_GPU_OPERANDS_COUNT * NIB_GPU_PROBE_TILES, row = 32 * NIB_GPU_PROBE_STEPS;
    const size_t per_row = (size_t)p->k * NIB_GPU_PROBE_STEPS / p->scale_block;
    const size_t bytes[] = {tiles * 16 * row,     tiles * 8 * row,     tiles * 512,
                            tiles * 16 * per_row, tiles * 8 * per_row, tiles * 512};
    struct nib_gpu_case what = {"mma", p->name, "", p->unit, "", "", ""};
    const struct nib_unit *unit = NULL;
    uint8_t *data[6] = {NULL};
    char name[64];
    enum nib_status status = NIB_OK;
    for (size_t i = 0; i < 6 && status == NIB_OK; i++) {
        snprintf(name, sizeof name, "%s.%s", p->name, suffixes[i]);
        status = load_exactly(folder, name, bytes[i], &data[i], error);
        if (i == 5 && status == NIB_ENOTFOUND) status = missing(report, &what, name, error);
    }
    if (status == NIB_OK && data[5] != NULL) {
        *any = true;
        status = nib_unit_open(p->unit, &unit, error);
        for (size_t set = 0; set < NIB_GPU_OPERANDS_COUNT && status == NIB_OK; set++) {
            struct nib_gpu_counts counts = {.calls = 1};
            what.inputs = nib_gpu_operands_names[set];
            status = verify_set(p, unit, data, set, &counts, error);
            if (status == NIB_OK) status = nib_gpu_report_add(report, &what, &counts, error);
        }
        nib_unit_close(unit);
    }
    for (size_t i = 0; i < 6; i++) free(data[i]);
    return status;
}

/* NaN equals NaN: the epilogue's multiplication by alpha may give one of its own. */
static enum nib_status verify_square(const struct nib_unit *unit, uint8_t *const data[5], size_t set, float *d,
                                     struct nib_gpu_counts *counts, struct nib_error *error) {
    enum { SIDE = NIB_GPU_PROBE_SIDE, ROW = NIB_GPU_PROBE_DEPTH / 2, PER_ROW = NIB_GPU_PROBE_SCALES_PER_ROW };
    uint8_t a_scales[SIDE * PER_ROW], b_scales[SIDE * PER_ROW];
    nib_scales_convert(NIB_SCALES_128X4, data[3] + set * sizeof a_scales, NIB_SCALES_LINEAR, a_scales, SIDE, PER_ROW);
    nib_scales_convert(NIB_SCALES_128X4, data[4] + set * sizeof b_scales, NIB_SCALES_LINEAR, b_scales, SIDE, PER_ROW);
    struct nib_unit_matrix a = {NIB_OPERAND_E2M1, data[1] + set * SIDE * ROW, ROW, a_scales, PER_ROW};
    struct nib_unit_matrix b = {NIB_OPERAND_E2M1, data[2] + set * SIDE * ROW, ROW, b_scales, PER_ROW};
    enum nib_status status = nib_unit_multiply(unit, &a, &b, SIDE, SIDE, NIB_GPU_PROBE_DEPTH, NULL, 0,
                                               &(struct nib_unit_options){.threads = 1}, d, SIDE, error);
    for (size_t i = 0; status == NIB_OK && i < SIDE * SIDE; i++) {
        uint32_t got = nib_bits_of_float(number(data[0], set * SIDE * SIDE + i)), want = nib_bits_of_float(d[i]);
        counts->compared++;
        if (got == want || (nib_bits_are_nan(got) && nib_bits_are_nan(want))) continue;
        counts->values++;
        nib_gpu_counts_note(counts, "output (%zu, %zu): device %08X, model %08X", i / SIDE, i % SIDE, got, want);
    }
    return status;
}

/* The outputs come first: a kit written before there was this product has none of its files. */
static enum nib_status verify_cublaslt(const char *folder, struct nib_table *report, bool *any,
                                       struct nib_error *error) {
    enum {
        SIDE = NIB_GPU_PROBE_SIDE,
        SETS = NIB_GPU_OPERANDS_COUNT,
        CODES = SIDE * NIB_GPU_PROBE_DEPTH / 2,
        SCALES = SIDE * NIB_GPU_PROBE_SCALES_PER_ROW
    };
    static const struct {
        const char *name;
        size_t bytes;            /* of a set */
    } parts[] = {{NIB_GPU_PROBE_CUBLASLT ".out", SIDE * SIDE * 4},
                 {NIB_GPU_PROBE_CUBLASLT ".a", CODES},
                 {NIB_GPU_PROBE_CUBLASLT ".b", CODES},
                 {NIB_GPU_PROBE_CUBLASLT ".a-scales", SCALES},
                 {NIB_GPU_PROBE_CUBLASLT ".b-scales", SCALES}};
    struct nib_gpu_case what = {"cublaslt", "nvfp4", "", NIB_GPU_PROBE_CUBLASLT_UNIT, "", "", ""};
    const struct nib_unit *unit = NULL;
    uint8_t *data[5] = {NULL};
    enum nib_status status = NIB_OK;
    for (size_t i = 0; i < 5 && status == NIB_OK; i++) {
        status = load_exactly(folder, parts[i].name, SETS * parts[i].bytes, &data[i], error);
        if (i == 0 && status == NIB_ENOTFOUND) return missing(report, &what, parts[0].name, error);
    }
    float *d = status == NIB_OK ? nib_alloc_raw(SIDE * SIDE, sizeof *d, "outputs of the model", error) : NULL;
    if (status == NIB_OK) status = d == NULL ? NIB_ENOMEM : nib_unit_open(NIB_GPU_PROBE_CUBLASLT_UNIT, &unit, error);
    for (size_t set = 0; set < SETS && status == NIB_OK; set++) {
        struct nib_gpu_counts counts = {.calls = 1};
        what.inputs = nib_gpu_operands_names[set];
        status = verify_square(unit, data, set, d, &counts, error);
        if (status == NIB_OK) status = nib_gpu_report_add(report, &what, &counts, error);
    }
    nib_unit_close(unit);
    for (size_t i = 0; i < 5; i++) free(data[i]);
    free(d);
    *any = true;
    return status;
}

/* The first lines of device.txt as one. */
static void read_device(const char *folder, char device[160]) {
    uint8_t *text;
    size_t size;
    snprintf(device, 160, "an unnamed device");
    if (load(folder, "device.txt", 1, &text, &size, NULL) != NIB_OK) return;
    size_t used = 0;
    for (size_t i = 0; i < size && used < 150; i++) {
        if (text[i] == '\n' && i + 1 < size) device[used++] = ',', device[used++] = ' ';
        if (text[i] >= ' ' && text[i] < 127) device[used++] = (char)text[i];
    }
    device[used] = '\0';
    free(text);
}

enum nib_status nib_gpu_probe_verify(const char *folder, struct nib_table **out, char device[160],
                                     struct nib_error *error) {
    struct nib_table *report;
    const struct nib_element *e2m1;
    bool any = false;
    enum nib_status status = nib_gpu_report_new(&report, error);
    if (status != NIB_OK) return status;
    status = nib_element_open("e2m1", &e2m1, error);
    if (status == NIB_OK) {
        status = verify_nearest(folder, e2m1, report, &any, error);
        if (status == NIB_OK) status = verify_stochastic(folder, e2m1, report, &any, error);
        nib_element_close(e2m1);
    }
    for (size_t i = 0; i < NIB_GPU_PROBE_PRODUCTS && status == NIB_OK; i++)
        status = verify_product(folder, &nib_gpu_probe_products[i], report, &any, error);
    if (status == NIB_OK) status = verify_cublaslt(folder, report, &any, error);
    if (status == NIB_ENOTFOUND)
        status = nib_fail_at(error, NIB_EIO, folder, 0, "is no folder of \"nibble gpu probe\": an input is missing");
    if (status == NIB_OK && !any)
        status = nib_fail_at(error, NIB_EIO, folder, 0, "holds no outputs; run the probe first, as its README.md says");
    if (status != NIB_OK) {
        nib_table_free(report);
        return status;
    }
    read_device(folder, device);
    *out = report;
    return NIB_OK;
}
