/* Stochastic rounding against its definition in rational arithmetic (GMP): every random integer of 8 bits, given as
 * bits, over every region between two levels; the exact mean; and which Philox bytes an element consumes. */
#include "core/key.h"
#include "core/philox.h"
#include "nib_test.h"
#include "oracle_round.h"
#include "quantize/sr.h"

#include <nibble/quantize.h>

static const char *const elements[] = {"e2m1", "e1m2", "e0m3", "e3m0", "int4", "int4-full", "nf4"};
enum { ELEMENTS = sizeof elements / sizeof *elements, MOST = 2048 };

/* The two neighbours of x, and the floor of 2^n times the fraction of the way from the one nearer to zero (that
 * has the side of zero) to the other: away if whole + r >= 2^n. */
struct oracle_sr {
    int toward, away; /* codes */
    double toward_value, away_value;
    uint64_t whole;
};
static struct oracle_sr oracle_sr(const struct oracle_grid *g, float x, unsigned n) {
    bool minus = signbit(x);
    mpq_t value, part, step;
    mpz_t whole;
    mpq_inits(value, part, step, NULL);
    mpz_init(whole);
    int lo = 0, hi = g->count - 1;
    if (!isinf(x)) {
        mpq_set_d(value, (double)x);
        while (lo < g->count - 1 && mpq_cmp(g->level[lo + 1], value) <= 0) lo++;
        while (hi > 0 && mpq_cmp(g->level[hi - 1], value) >= 0) hi--;
    } else
        lo = hi = minus ? 0 : g->count - 1;
    if (!isinf(x) && mpq_cmp(value, g->level[0]) < 0) hi = lo = 0;
    if (!isinf(x) && mpq_cmp(value, g->level[g->count - 1]) > 0) hi = lo = g->count - 1;
    int toward = minus ? hi : lo, away = minus ? lo : hi;
    struct oracle_sr result = {oracle_code(g, toward, minus), oracle_code(g, away, minus), g->value[toward], g->value[away], 0};
    if (lo != hi) {
        mpq_sub(part, value, g->level[toward]);
        mpq_sub(step, g->level[away], g->level[toward]);
        mpq_div(part, part, step);
        mpq_mul_2exp(part, part, n);
        mpz_fdiv_q(whole, mpq_numref(part), mpq_denref(part));
        result.whole = mpz_get_ui(whole);
    }
    mpq_clears(value, part, step, NULL);
    mpz_clear(whole);
    return result;
}

static void grid_of(const struct nib_element *element, struct oracle_grid *grid) {
    oracle_grid_init(grid, element->level);
}

/* Levels, thirds of cells, 256ths of cells and their neighbours, subnormals, what saturates; both signs. */
static size_t inputs(const struct nib_element *element, float *x) {
    size_t count = 0;
    for (unsigned r = 0; r < element->levels; r++) {
        float a = element->level_of_rank[r], b = r + 1 < element->levels ? element->level_of_rank[r + 1] : 2 * a;
        const float places[] = {0, 1 / 3.0f, 1 / 256.0f, 0.5f, 100 / 256.0f, 255 / 256.0f, 0.9999f, 3 / 65536.0f};
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            float middle = a + (b - a) * places[p];
            x[count++] = middle;
            x[count++] = nextafterf(middle, INFINITY);
            x[count++] = nextafterf(middle, -INFINITY);
        }
    }
    const float others[] = {0, 1e-45f, 1e-40f, 1e-30f, 1e-9f, 1e6f, 3e38f, INFINITY};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        x[count++] = others[i];
        x[count++] = -others[i];
    }
    return count;
}

/* The definition itself, with r at and around every border: 2^n - whole is the least r that goes away. */
static void the_definition_is_that_of_rational_arithmetic(void) {
    for (int e = 0; e < ELEMENTS; e++) {
        const struct nib_element *element;
        struct nib_error error;
        NIB_OK_OR_FAIL(nib_element_open(elements[e], &element, &error), error);
        struct oracle_grid grid;
        grid_of(element, &grid);
        static float x[MOST];
        size_t count = inputs(element, x);
        int wrong = 0;
        for (size_t i = 0; i < count; i++)
            for (unsigned n = 8; n <= 32; n *= 2) {
                struct oracle_sr o = oracle_sr(&grid, x[i], n);
                uint64_t range = UINT64_C(1) << n, border = range - o.whole;
                const uint64_t random[] = {0, 1, border - 1, border, border + 1, range / 2, range - 1};
                for (size_t k = 0; k < 7; k++) {
                    if (random[k] >= range) continue;
                    int expected = o.whole + random[k] >= range ? o.away : o.toward;
                    wrong += nib_sr_code(element, x[i], n, (uint32_t)random[k]) != expected;
                }
            }
        NIB_CHECKF(wrong == 0, "%s: %d wrong codes", elements[e], wrong);
        oracle_grid_clear(&grid);
        nib_element_close(element);
    }
}

/* A quantizer whose scale is 1 because each block holds its largest level, so that elements are rounded as they are. */
static bool open_plain(const struct nib_element *element, unsigned n, const struct nib_quantizer **out) {
    const struct nib_scale *scale = NULL;
    const struct nib_quantizer *base = NULL;
    struct nib_error error;
    char bits[16];
    snprintf(bits, sizeof bits, "sr_bits=%u", n);
    const char *settings[] = {"rounding=sr", bits};
    bool ok = nib_scale_open("fp32", &scale, &error) == NIB_OK &&
              nib_quantizer_of_grid(element, scale, 16, &base, &error) == NIB_OK &&
              nib_quantizer_with(base, settings, 2, out, &error) == NIB_OK;
    CU_ASSERT_FATAL(ok);
    nib_quantizer_close(base);
    nib_scale_close(scale);
    return ok;
}

static void quantize(const struct nib_quantizer *q, struct nib_view view, struct nib_quantize_options options, uint8_t *codes) {
    struct nib_quantized out;
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, view.rows, view.cols, options.axis, NIB_WANT_CODES, &out, &error), error);
    NIB_OK_OR_FAIL(nib_quantize(q, view, &options, &out, &error), error);
    memcpy(codes, out.codes, view.rows * view.cols);
    nib_quantized_free(&out);
}

static const char *const isas[] = {"ref", "generic", "avx2", "avx512"};
static bool usable(const char *isa) {
#if defined(__x86_64__)
    if (strcmp(isa, "avx2") == 0) return __builtin_cpu_supports("avx2");
    if (strcmp(isa, "avx512") == 0) return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    return true;
#else
    return strncmp(isa, "avx", 3) != 0;
#endif
}

/* Every 8-bit random integer: codes, both neighbours only, monotone, and the exact mean. 16 and 32 bits at borders. */
static void given_bits_give_the_exact_distribution(void) {
    for (int e = 0; e < ELEMENTS; e++) {
        const struct nib_element *element;
        struct nib_error error;
        NIB_OK_OR_FAIL(nib_element_open(elements[e], &element, &error), error);
        struct oracle_grid grid;
        grid_of(element, &grid);
        static float x[MOST];
        size_t count = inputs(element, x), kept = 0;
        for (size_t i = 0; i < count; i++)
            if (fabsf(x[i]) <= element->max_magnitude) x[kept++] = x[i];
        count = kept;
        for (unsigned n = 8; n <= 32; n *= 2) {
            const struct nib_quantizer *q;
            if (!open_plain(element, n, &q)) return;
            /* 256 tensor rows; in row r element i gets the random integer of r, in blocks of 15 + the largest level */
            size_t cols = (count + 14) / 15 * 16;
            float *tensor = calloc(256 * cols, sizeof *tensor);
            uint8_t *random = calloc(256 * cols, n / 8), *codes = malloc(256 * cols);
            struct oracle_sr *o = calloc(count, sizeof *o);
            for (size_t i = 0; i < count; i++) o[i] = oracle_sr(&grid, x[i], n);
            for (size_t r = 0; r < 256; r++) {
                for (size_t b = 0; b < cols / 16; b++)
                    tensor[r * cols + b * 16 + 15] = element->max_magnitude == element->level_of_rank[element->levels - 1]
                                                         ? element->max_magnitude : -element->max_magnitude;
                for (size_t i = 0; i < count; i++) {
                    size_t at = r * cols + i / 15 * 16 + i % 15;
                    tensor[at] = x[i];
                    uint64_t word = n == 8 ? r : (UINT64_C(1) << n) - o[i].whole - 128 + r;
                    for (unsigned k = 0; k < n / 8; k++) random[at * (n / 8) + k] = (uint8_t)(word >> 8 * k);
                }
            }
            struct nib_view view = {tensor, NIB_F32, 256, cols, cols};
            struct nib_quantize_options options = {.random_bits = random, .random_bytes = 256 * cols * (n / 8)};
            for (size_t a = 0; a < 4; a++) {
                if (!usable(isas[a])) continue;
                options.isa = isas[a];
                quantize(q, view, options, codes);
                int wrong = 0, means = 0, backwards = 0;
                for (size_t i = 0; i < count; i++) {
                    uint64_t ups = 0;
                    bool was_away = false;
                    for (size_t r = 0; r < 256; r++) {
                        size_t at = r * cols + i / 15 * 16 + i % 15;
                        uint64_t word = nib_sr_word(random, at, n / 8);
                        bool away = o[i].whole + word >= UINT64_C(1) << n;
                        wrong += codes[at] != (away ? o[i].away : o[i].toward);
                        if (o[i].away == o[i].toward) continue;
                        bool is_away = codes[at] == o[i].away;
                        ups += is_away;
                        if (n == 8) backwards += was_away && !is_away;
                        was_away = is_away;
                    }
                    /* E = toward + step * floor(256 fraction) / 256 */
                    if (n == 8) means += o[i].away != o[i].toward && ups != o[i].whole;
                }
                NIB_CHECKF(wrong == 0 && means == 0 && backwards == 0, "%s, %u bits, %s: %d codes, %d means, %d not monotone",
                           elements[e], n, isas[a], wrong, means, backwards);
            }
            free(tensor);
            free(random);
            free(codes);
            free(o);
            nib_quantizer_close(q);
        }
        oracle_grid_clear(&grid);
        nib_element_close(element);
    }
}

/* Byte i of the stream of random bytes is byte i mod 16 of the Philox block with counter i/16. */
static uint8_t stream_byte(uint64_t seed, uint64_t stream, uint64_t i) {
    struct nib_philox_block block = nib_philox(seed, i / 16, stream);
    return (uint8_t)(block.word[i % 16 / 4] >> 8 * (i % 4));
}

static void an_element_consumes_the_bytes_at_its_place(void) {
    enum { ROWS = 37, COLS = 83 };
    static float x[ROWS * COLS];
    static uint8_t bytes[ROWS * COLS * 4], given[ROWS * COLS], drawn[ROWS * COLS];
    const uint64_t seed = UINT64_C(0x123456789ABCDEF), stream = UINT64_C(0xFEDCBA9876543210);
    for (size_t i = 0; i < ROWS * COLS; i++) x[i] = (float)(int)(nib_philox(1, i, 0).word[0] >> 8) * 0x1p-24f - 0.25f;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = stream_byte(seed, stream, i);
    x[5] = NAN;
    x[200] = INFINITY;
    const struct nib_element *element;
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_element_open("e2m1", &element, &error), error);
    for (unsigned n = 8; n <= 32; n *= 2) {
        const struct nib_quantizer *q;
        if (!open_plain(element, n, &q)) return;
        for (int axis = 0; axis < 2; axis++)
            for (size_t cols = COLS - 3; cols <= COLS; cols += 3) /* 80 and 83: rows that start on a block, and not */
                for (size_t a = 0; a < 4; a++) {
                    if (!usable(isas[a])) continue;
                    struct nib_view view = {x, NIB_F32, ROWS, cols, COLS};
                    struct nib_quantize_options options = {.axis = (enum nib_axis)axis, .isa = isas[a], .threads = 1 + (int)a,
                        .random_bits = bytes, .random_bytes = ROWS * cols * (n / 8)};
                    quantize(q, view, options, given);
                    options.random_bits = NULL;
                    options.seed = seed;
                    options.stream = stream;
                    quantize(q, view, options, drawn);
                    NIB_CHECKF(memcmp(given, drawn, ROWS * cols) == 0, "%u bits, axis %d, %zu columns, %s", n, axis, cols, isas[a]);
                }
        nib_quantizer_close(q);
    }
    nib_element_close(element);
}

static void wrong_numbers_of_bits_name_the_right_one(void) {
    const struct nib_quantizer *base, *q;
    struct nib_error error;
    float x[32] = {1};
    uint8_t bytes[64] = {0};
    struct nib_quantized out;
    struct nib_view view = {x, NIB_F32, 2, 16, 16};
    const char *settings[] = {"rounding=sr", "sr_bits=16"};
    NIB_OK_OR_FAIL(nib_quantizer_open("te-nvfp4", &base, &error), error);
    NIB_OK_OR_FAIL(nib_quantizer_with(base, settings, 2, &q, &error), error);
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, 2, 16, NIB_ALONG_COLS, NIB_WANT_CODES, &out, &error), error);
    struct nib_quantize_options options = {.random_bits = bytes, .random_bytes = 32};
    CU_ASSERT_EQUAL(nib_quantize(q, view, &options, &out, &error), NIB_EINVAL);
    NIB_CHECKF(strstr(error.text, "expected 64 bytes") != NULL, "%s", error.text);
    options.random_bytes = 64;
    CU_ASSERT_EQUAL(nib_quantize(q, view, &options, &out, &error), NIB_OK);
    CU_ASSERT_EQUAL(nib_quantize(base, view, &options, &out, &error), NIB_EINVAL);
    NIB_CHECKF(strstr(error.text, "does not round stochastically") != NULL, "%s", error.text);
    nib_quantized_free(&out);
    CU_ASSERT_EQUAL(nib_quantizer_with(base, settings + 1, 1, &q, &error), NIB_EINVAL);
    NIB_CHECKF(strstr(error.text, "needs stochastic rounding") != NULL, "%s", error.text);
    nib_quantizer_close(base);
}

/* The sign of zero, NaN and what saturates do not depend on random bits. */
static void specials_are_those_of_the_other_roundings(void) {
    const char *const zeros[] = {"keep", "negative", "drop"};
    float x[16] = {6, -6, 0, -0.0f, NAN, -NAN, -1e-30f, 1e-30f};
    for (int z = 0; z < 3; z++) {
        char zero[32];
        snprintf(zero, sizeof zero, "signed_zero=%s", zeros[z]);
        const char *settings[] = {zero, "rounding=sr"};
        const struct nib_quantizer *base, *nearest, *q;
        struct nib_error error;
        NIB_OK_OR_FAIL(nib_quantizer_open("te-nvfp4", &base, &error), error);
        NIB_OK_OR_FAIL(nib_quantizer_with(base, settings, 1, &nearest, &error), error);
        NIB_OK_OR_FAIL(nib_quantizer_with(base, settings, 2, &q, &error), error);
        uint8_t ones[16], expected[16], codes[16];
        memset(ones, 0xFF, sizeof ones);
        for (int with_nan = 0; with_nan < 2; with_nan++)
            for (size_t a = 0; a < 4; a++) {
                if (!usable(isas[a])) continue;
                float block[16];
                memcpy(block, x, sizeof block);
                if (!with_nan) block[4] = block[5] = 0;
                struct nib_quantize_options options = {.isa = isas[a], .has_tensor_amax = true, .tensor_amax = 6};
                struct nib_view view = {block, NIB_F32, 1, 16, 16};
                quantize(nearest, view, options, expected);
                options.random_bits = ones;
                options.random_bytes = 16;
                quantize(q, view, options, codes);
                NIB_CHECKF(memcmp(codes, expected, 16) == 0, "signed_zero=%s, %s", zeros[z], isas[a]);
            }
        nib_quantizer_close(base);
        nib_quantizer_close(nearest);
        nib_quantizer_close(q);
    }
}

NIB_TEST_MAIN("stochastic rounding",
              {"the definition is that of rational arithmetic", the_definition_is_that_of_rational_arithmetic},
              {"given bits give the exact distribution", given_bits_give_the_exact_distribution},
              {"an element consumes the bytes at its place", an_element_consumes_the_bytes_at_its_place},
              {"wrong numbers of bits name the right one", wrong_numbers_of_bits_name_the_right_one},
              {"specials are those of the other roundings", specials_are_those_of_the_other_roundings})
