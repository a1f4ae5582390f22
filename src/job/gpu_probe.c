#include "job/gpu_probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nibble/layout.h>

#include "base/error.h"
#include "base/memory.h"
#include "core/key.h"
#include "core/philox.h"
#include "job/gpu_products.h"

const struct nib_gpu_probe_product nib_gpu_probe_products[NIB_GPU_PROBE_PRODUCTS] = {
    {"nvfp4", "blackwell-rtx-mma-nvfp4", NIB_OPERAND_E2M1, 64, 16},
    {"mxfp4", "blackwell-rtx-mma-mxfp4", NIB_OPERAND_E2M1, 64, 32},
    {"mxfp8", "blackwell-rtx-mma-mxf8f6f4", NIB_OPERAND_E4M3, 32, 32},
};

/* Every file that this module creates, so that a failure can take them away again. */
static const char *const files[] = {"probe.cu",
                                    "README.md",
                                    "e2m1.x",
                                    "sr.x",
                                    "sr.rbits",
                                    "nvfp4.a",
                                    "nvfp4.b",
                                    "nvfp4.c",
                                    "nvfp4.a-scales",
                                    "nvfp4.b-scales",
                                    "mxfp4.a",
                                    "mxfp4.b",
                                    "mxfp4.c",
                                    "mxfp4.a-scales",
                                    "mxfp4.b-scales",
                                    "mxfp8.a",
                                    "mxfp8.b",
                                    "mxfp8.c",
                                    "mxfp8.a-scales",
                                    "mxfp8.b-scales",
                                    NIB_GPU_PROBE_CUBLASLT ".a",
                                    NIB_GPU_PROBE_CUBLASLT ".b",
                                    NIB_GPU_PROBE_CUBLASLT ".a-scales",
                                    NIB_GPU_PROBE_CUBLASLT ".b-scales"};

static enum nib_status write_file(const char *folder, const char *name, const void *data, size_t size,
                                  struct nib_error *error) {
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wbx");
    if (file == NULL) return nib_fail_at(error, NIB_EIO, path, 0, "cannot be created: %s", strerror(errno));
    bool written = fwrite(data, 1, size, file) == size;
    int code = errno;
    if (fclose(file) != 0 && written) written = false, code = errno;
    if (!written) return nib_fail_at(error, NIB_EIO, path, 0, "cannot be written: %s", strerror(code));
    return NIB_OK;
}

/* Borders of E2M1 and their neighbours, all bfloat16 numbers, random bits: an even number of elements. */
static enum nib_status write_numbers(const char *folder, uint64_t seed, struct nib_error *error) {
    enum { NEAR = 7 * 2 * 9, BF16 = 1 << 16, RANDOM = 1 << 17, COUNT = NEAR + BF16 + RANDOM };
    static const float borders[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
    uint32_t *x = nib_alloc_raw(COUNT, sizeof *x, "numbers of the probe", error);
    if (x == NULL) return NIB_ENOMEM;
    size_t n = 0;
    for (int i = 0; i < 7; i++)
        for (int step = -4; step <= 4; step++)
            for (uint32_t sign = 0; sign < 2; sign++)
                x[n++] = (uint32_t)((int32_t)nib_bits_of_float(borders[i]) + step) | sign << 31;
    for (uint32_t half = 0; half < BF16; half++) x[n++] = half << 16;
    for (size_t i = 0; i < RANDOM; i++) x[n++] = nib_philox(seed, i, 200).word[0];
    enum nib_status status = write_file(folder, "e2m1.x", x, COUNT * sizeof *x, error);
    free(x);
    return status;
}

/* Every random byte against numbers in all cells: near the levels, between them, and with few and many discarded bits.
 */
static enum nib_status write_stochastic(const char *folder, uint64_t seed, struct nib_error *error) {
    enum { FOURS = 1 << 16 };
    static const float levels[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    uint32_t *x = nib_alloc_raw(4 * FOURS, sizeof *x, "numbers of the probe", error),
             *r = nib_alloc_raw(FOURS, sizeof *r, "random bits", error);
    enum nib_status status = x == NULL || r == NULL ? NIB_ENOMEM : NIB_OK;
    for (size_t i = 0; status == NIB_OK && i < 4 * FOURS; i++) {
        struct nib_philox_block w = nib_philox(seed, i, 201);
        unsigned level = w.word[0] % 7;
        float step = levels[level + 1] - levels[level], y;
        switch (w.word[1] % 4) {
        case 0: y = levels[level] + step * (float)(w.word[2] % 256) / 256; break; /* a multiple of 1/256 of the step */
        case 1: y = levels[level] + step * (float)(w.word[2] >> 8) * 0x1p-24f; break;        /* anywhere */
        case 2:
            y = nib_float_of_bits(nib_bits_of_float(levels[level + 1]) - 1 - w.word[2] % 4);
            break; /* just below a level */
        default: y = 7 * (float)(w.word[2] >> 8) * 0x1p-24f; break;
        }
        x[i] = nib_bits_of_float(y) | (w.word[3] & 0x80000000u);
        if (i % 4 == 0) r[i / 4] = nib_philox(seed, i, 202).word[0];
    }
    if (status == NIB_OK) status = write_file(folder, "sr.x", x, 4 * FOURS * sizeof *x, error);
    if (status == NIB_OK) status = write_file(folder, "sr.rbits", r, FOURS * sizeof *r, error);
    free(x);
    free(r);
    return status;
}

/* The sets of operands one after the other, each of TILES tiles. */
static enum nib_status write_product(const char *folder, const struct nib_gpu_probe_product *p, uint64_t seed,
                                     struct nib_error *error) {
    enum { TILES = NIB_GPU_PROBE_TILES, SETS = NIB_GPU_OPERANDS_COUNT };
    const size_t k = (size_t)p->k * NIB_GPU_PROBE_STEPS, row = 32 * NIB_GPU_PROBE_STEPS, per_row = k / p->scale_block;
    const enum nib_unit_scale format = p->scale_block == 16 ? NIB_UNIT_SCALE_UE4M3 : NIB_UNIT_SCALE_UE8M0;
    const struct {
        const char *suffix;
        size_t bytes;            /* of a set */
    } parts[] = {{"a", TILES * 16 * row},
                 {"b", TILES * 8 * row},
                 {"c", TILES * 128 * 4},
                 {"a-scales", TILES * 16 * per_row},
                 {"b-scales", TILES * 8 * per_row}};
    enum nib_status status = NIB_OK;
    for (size_t part = 0; part < 5 && status == NIB_OK; part++) {
        char name[64];
        char *data = nib_alloc_raw(SETS, parts[part].bytes, "operands of the probe", error);
        if (data == NULL) return NIB_ENOMEM;
        for (int set = 0; set < SETS; set++) {
            char *at = data + (size_t)set * parts[part].bytes;
            enum nib_gpu_operands kind = (enum nib_gpu_operands)set;
            switch (part) {
            case 0: nib_gpu_operands_fill(kind, p->operand, false, seed, TILES * 16, k, at); break;
            case 1: nib_gpu_operands_fill(kind, p->operand, true, seed, TILES * 8, k, at); break;
            case 2: nib_gpu_accumulators_fill(kind, NIB_ACC_FP32, seed, TILES * 128, at); break;
            case 3: nib_gpu_scales_fill(kind, format, seed + 1, parts[part].bytes, (uint8_t *)at); break;
            default: nib_gpu_scales_fill(kind, format, seed + 2, parts[part].bytes, (uint8_t *)at); break;
            }
        }
        snprintf(name, sizeof name, "%s.%s", p->name, parts[part].suffix);
        status = write_file(folder, name, data, SETS * parts[part].bytes, error);
        free(data);
    }
    return status;
}

/* One product of the library per set of operands. */
static enum nib_status write_cublaslt(const char *folder, uint64_t seed, struct nib_error *error) {
    enum {
        SIDE = NIB_GPU_PROBE_SIDE,
        SETS = NIB_GPU_OPERANDS_COUNT,
        CODES = SIDE * NIB_GPU_PROBE_DEPTH / 2,
        SCALES = SIDE * NIB_GPU_PROBE_SCALES_PER_ROW
    };
    uint8_t linear[SCALES], *data = nib_alloc_raw(SETS, CODES, "operands of the probe", error);
    enum nib_status status = data == NULL ? NIB_ENOMEM : NIB_OK;
    for (unsigned right = 0; right < 2 && status == NIB_OK; right++) {
        for (size_t set = 0; set < SETS; set++)
            nib_gpu_operands_fill((enum nib_gpu_operands)set, NIB_OPERAND_E2M1, right, seed + 3, SIDE,
                                  NIB_GPU_PROBE_DEPTH, data + set * CODES);
        status = write_file(folder, right ? NIB_GPU_PROBE_CUBLASLT ".b" : NIB_GPU_PROBE_CUBLASLT ".a", data,
                            SETS * CODES, error);
        if (status != NIB_OK) break;
        for (size_t set = 0; set < SETS; set++) {
            nib_gpu_scales_fill((enum nib_gpu_operands)set, NIB_UNIT_SCALE_UE4M3, seed + 4 + right, SCALES, linear);
            nib_scales_convert(NIB_SCALES_LINEAR, linear, NIB_SCALES_128X4, data + set * SCALES, SIDE,
                               NIB_GPU_PROBE_SCALES_PER_ROW);
        }
        status = write_file(folder, right ? NIB_GPU_PROBE_CUBLASLT ".b-scales" : NIB_GPU_PROBE_CUBLASLT ".a-scales",
                            data, SETS * SCALES, error);
    }
    free(data);
    return status;
}

enum nib_status nib_gpu_probe_write(const char *folder, uint64_t seed, struct nib_error *error) {
    bool made = mkdir(folder, 0777) == 0;
    if (!made && errno != EEXIST)
        return nib_fail_at(error, NIB_EIO, folder, 0, "cannot be created: %s", strerror(errno));
    if (!made && rmdir(folder) != 0) /* removes nothing but an empty folder */
        return nib_fail_at(error, NIB_EIO, folder, 0,
                           errno == ENOTEMPTY || errno == EEXIST ? "is not empty; give a new folder"
                                                                 : "is no folder that can be used");
    if (!made && mkdir(folder, 0777) != 0)
        return nib_fail_at(error, NIB_EIO, folder, 0, "cannot be created: %s", strerror(errno));
    enum nib_status status = write_file(folder, "probe.cu", nib_gpu_probe_probe_cu, nib_gpu_probe_probe_cu_size, error);
    if (status == NIB_OK)
        status = write_file(folder, "README.md", nib_gpu_probe_README_md, nib_gpu_probe_README_md_size, error);
    if (status == NIB_OK) status = write_numbers(folder, seed, error);
    if (status == NIB_OK) status = write_stochastic(folder, seed, error);
    for (size_t i = 0; i < NIB_GPU_PROBE_PRODUCTS && status == NIB_OK; i++)
        status = write_product(folder, &nib_gpu_probe_products[i], seed, error);
    if (status == NIB_OK) status = write_cublaslt(folder, seed, error);
    if (status == NIB_OK) return NIB_OK;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    rmdir(folder);
    return status;
}
