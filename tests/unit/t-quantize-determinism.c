/* The same bytes for every thread count, instruction set, compiler and floating-point environment: outputs hash to what
 * tests/vectors/quantize-digests.txt says. NIBBLE_PRINT_DIGESTS=1 prints the file; a change needs a reason in the
 * history. */
#include "base/sha256.h"
#include "core/convert.h"
#include "core/philox.h"
#include "format/embedded.h"
#include "nib_test.h"

#include <fenv.h>
#include <math.h>
#include <nibble/quantize.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { ROWS = 17, COLS = 93, WHOLE = 128 }; /* WHOLE x WHOLE for quantizers that take whole groups only */
static float x_f32[WHOLE * WHOLE];
static uint16_t x_bf16[WHOLE * WHOLE];

/* Any binary32 in a range of 2^24 about 1, some zeros and subnormals; one NaN and one infinity in the last row. */
static void fill(void) {
    for (size_t i = 0; i < WHOLE * WHOLE; i++) {
        struct nib_philox_block r = nib_philox(7, i, 0);
        uint32_t exponent = 115 + r.word[1] % 24;
        uint32_t bits = (r.word[0] & 0x807FFFFF) | exponent << 23;
        if (r.word[2] % 50 == 0) bits = r.word[0] & 0x80000000;
        if (r.word[2] % 51 == 1) bits = r.word[0] & 0x807FFFFF;
        x_f32[i] = nib_float_of_bits(bits);
        x_bf16[i] = nib_bf16_of_bits(bits);
    }
    x_f32[ROWS * COLS - 1] = NAN;
    x_f32[ROWS * COLS - 2] = INFINITY;
}

struct outcome {
    char digest[65];
};
static struct outcome run_shape(const struct nib_quantizer *q, size_t rows, size_t cols, bool bf16, enum nib_axis axis,
                                const char *isa, int threads) {
    struct outcome outcome = {"failed"};
    struct nib_error error;
    struct nib_quantized out;
    struct nib_quantizer_info info;
    nib_quantizer_describe(q, &info);
    struct nib_quantize_options options = {.axis = axis,
                                           .isa = isa,
                                           .threads = threads,
                                           .has_tensor_amax = info.block->has_tensor_scale,
                                           .tensor_amax = 3011.25f};
    struct nib_view view = {bf16 ? (const void *)x_bf16 : x_f32, bf16 ? NIB_BF16 : NIB_F32, rows, cols, cols};
    if (nib_quantized_alloc(q, rows, cols, axis, 15, &out, &error) != NIB_OK) return outcome;
    enum nib_status status = nib_quantize(q, view, &options, &out, &error);
    if (status == NIB_EUNAVAILABLE) strcpy(outcome.digest, "unavailable");
    if (status == NIB_OK) {
        for (size_t i = 0; i < rows * cols; i++)
            if (isnan(out.values[i])) out.values[i] = NAN;
        size_t lines = axis == NIB_ALONG_COLS ? rows : cols;
        char parts[4][65];
        nib_sha256_hex(out.codes, rows * cols, parts[0]);
        nib_sha256_hex(out.packed, lines * out.packed_stride, parts[1]);
        nib_sha256_hex(out.scales, out.scale_rows * out.scale_cols * out.scale_bytes, parts[2]);
        nib_sha256_hex(out.values, rows * cols * sizeof(float), parts[3]);
        nib_sha256_hex(parts, sizeof parts, outcome.digest);
    }
    nib_quantized_free(&out);
    return outcome;
}

static struct outcome run(const struct nib_quantizer *q, bool bf16, enum nib_axis axis, const char *isa, int threads) {
    struct outcome outcome = run_shape(q, ROWS, COLS, bf16, axis, isa, threads);
    return strcmp(outcome.digest, "failed") != 0 ? outcome : run_shape(q, WHOLE, WHOLE, bf16, axis, isa, threads);
}

static struct outcome run_hostile(const struct nib_quantizer *q, bool bf16, enum nib_axis axis, const char *isa) {
    fesetround(FE_UPWARD);
#if defined(__x86_64__)
    unsigned saved = _mm_getcsr();
    _mm_setcsr(saved | 0x8040); /* flush to zero, denormals are zero */
#endif
    struct outcome outcome = run(q, bf16, axis, isa, 2);
#if defined(__x86_64__)
    _mm_setcsr(saved);
#endif
    fesetround(FE_TONEAREST);
    return outcome;
}

/* The digest that the file has for a line that begins with `key`, "" without one. */
static void recorded(const char *key, char out[65]) {
    char line[256];
    FILE *file = fopen(NIB_SOURCE_DIR "/tests/vectors/quantize-digests.txt", "r");
    out[0] = '\0';
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ' ') sscanf(line + strlen(key), " %64s", out);
    if (file != NULL) fclose(file);
}

static void check(const struct nib_quantizer *q, const char *name, bool bf16, enum nib_axis axis) {
    static const char *const isas[] = {"ref", "generic", "avx2", "avx512"};
    char key[128], expected[65];
    snprintf(key, sizeof key, "%s %s %s", name, bf16 ? "bf16" : "fp32", axis == NIB_ALONG_COLS ? "cols" : "rows");
    if (getenv("NIBBLE_PRINT_DIGESTS") != NULL) {
        printf("%s %s\n", key, run(q, bf16, axis, "ref", 1).digest);
        return;
    }
    recorded(key, expected);
    for (int i = 0; i < 4; i++) {
        struct outcome calm = run(q, bf16, axis, isas[i], i == 1 ? 7 : i + 1);
        if (strcmp(calm.digest, "unavailable") == 0) continue;
        NIB_CHECKF(strcmp(calm.digest, "failed") != 0 && strcmp(calm.digest, expected) == 0,
                   "%s: %s gives %s, recorded is \"%s\"", key, isas[i], calm.digest, expected);
        struct outcome hostile = run_hostile(q, bf16, axis, isas[i]);
        NIB_CHECKF(strcmp(hostile.digest, expected) == 0, "%s: %s in a hostile environment gives %s", key, isas[i],
                   hostile.digest);
    }
}

static void bytes_are_the_recorded_ones(void) {
    fill();
    for (size_t i = 0; i < nib_embedded_count; i++) {
        if (strcmp(nib_embedded_formats[i].kind, "quantizers") != 0) continue;
        const struct nib_quantizer *q;
        struct nib_error error;
        NIB_OK_OR_FAIL(nib_quantizer_open(nib_embedded_formats[i].name, &q, &error), error);
        for (int k = 0; k < 4; k++)
            check(q, nib_embedded_formats[i].name, k % 2 == 1, k < 2 ? NIB_ALONG_COLS : NIB_ALONG_ROWS);
        nib_quantizer_close(q);
    }
}

NIB_TEST_MAIN("determinism of quantizers", {"bytes are the recorded ones", bytes_are_the_recorded_ones})
