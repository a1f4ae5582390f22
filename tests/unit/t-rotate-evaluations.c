/* Every size and every evaluation against exact arithmetic: integers through GMP-free counting, other numbers through
 * MPFR, kernels of each instruction set against the definition. */
#include <gmp.h>
#include <math.h>
#include <mpfr.h>
#include <nibble/rotate.h>

#include "core/key.h"
#include "core/philox.h"
#include "nib_test.h"
#include "rotate/kernel.h"

static const unsigned sizes[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 12, 20, 28, 40, 24, 48, 56, 80, 96, 112, 160, 192, 320, 768};
enum { SIZES = sizeof sizes / sizeof *sizes, MOST = 1024 };

static const struct nib_rotation *made(unsigned size, const char *more) {
    char text[500];
    struct nib_error error;
    const struct nib_rotation *rotation = NULL;
    int length = snprintf(text, sizeof text, "kind: rotation\ntitle: t\nsource: s\nsize: %u\n%s", size, more);
    enum nib_status status = nib_rotation_parse(text, (size_t)length, "test.yaml", &rotation, &error);
    NIB_CHECKF(status == NIB_OK, "size %u, %s: %s", size, more, error.text);
    CU_ASSERT_FATAL(status == NIB_OK);
    return rotation;
}
static void rotate(const struct nib_rotation *rotation, const float *x, float *y, size_t rows, size_t cols, enum nib_axis axis) {
    struct nib_error error;
    NIB_OK_OR_FAIL(nib_rotate(rotation, (struct nib_view){x, NIB_F32, rows, cols, cols}, axis, 2, y, &error), error);
}

static void base_matrices_are_hadamard(void) {
    static const unsigned bases[] = {1, 12, 20, 28, 40};
    for (size_t b = 0; b < 5; b++)
        for (unsigned i = 0; i < bases[b]; i++)
            for (unsigned j = 0; j < bases[b]; j++) {
                int rows = 0, columns = 0, expected = i == j ? (int)bases[b] : 0;
                for (unsigned k = 0; k < bases[b]; k++) {
                    rows += nib_hadamard_base(bases[b], i, k) * nib_hadamard_base(bases[b], j, k);
                    columns += nib_hadamard_base(bases[b], k, i) * nib_hadamard_base(bases[b], k, j);
                }
                NIB_CHECKF(rows == expected && columns == expected, "order %u, rows %u and %u", bases[b], i, j);
            }
}

/* The first rows as the fast-hadamard-transform library prints them (csrc/code_gen.py at e7706fa). */
static void base_matrices_are_those_of_the_library(void) {
    static const struct {
        unsigned base, row;
        const char *signs;
    } known[] = {{12, 0, "+-++++++++++"}, {12, 3, "+---+--+-++-"}, {12, 11, "+-+--+-++---"},
                 {20, 0, "+----+----++--++-++-"}, {20, 7, "++-++--+---+-+--+++-"}, {20, 19, "+--+--++------+----+"},
                 {28, 0, "+------++----++-+--+-+--++--"}, {28, 8, "---++++-+-----+-++--+-+-+--+"},
                 {40, 0, "+-------------------+-------------------"}, {40, 1, "++-++----+-+-++++--+++-++----+-+-++++--+"},
                 {40, 20, "+--------------------+++++++++++++++++++"}, {40, 39, "+-++----+-+-++++--++-+--++++-+-+----++--"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (unsigned j = 0; j < known[i].base; j++)
            NIB_CHECKF(nib_hadamard_base(known[i].base, known[i].row, j) == (known[i].signs[j] == '+' ? 1 : -1),
                       "order %u, row %u, column %u", known[i].base, known[i].row, j);
}

/* Sums of integers are exact in every order, so all evaluations must give the product with the matrix. */
static void integers_give_the_matrix_product(void) {
    static float x[MOST * 3], y[MOST * 3];
    static const char *const ways[] = {"evaluation: butterfly\n", "evaluation: sequential\n", "evaluation: runs\n", "evaluation: parity\n", "evaluation: exact\n",
                                       "evaluation: unit\nunit: hopper-mma-16bit-f32\n"};
    for (size_t s = 0; s < SIZES; s++)
        for (size_t w = 0; w < 4; w++)
            for (int inverse = 0; inverse < 2; inverse++)
                for (int axis = 0; axis < 2; axis++) {
                    unsigned n = sizes[s];
                    if ((n > 256 && w == 2) || (w == 3 && (n > 16 || n == 12))) continue;
                    char more[200];
                    snprintf(more, sizeof more, "%snormalization: none\nsigns: {seed: 5}\ninverse: %s\n", ways[w], inverse ? "true" : "false");
                    const struct nib_rotation *r = made(n, more);
                    size_t rows = axis == NIB_ALONG_COLS ? 3 : n, cols = axis == NIB_ALONG_COLS ? n : 3, wrong = 0;
                    for (size_t i = 0; i < 3 * n; i++) x[i] = (float)(int)(nib_philox(s, i, 1).word[0] % 255) - 127;
                    rotate(r, x, y, rows, cols, (enum nib_axis)axis);
                    for (size_t g = 0; g < 3; g++)
                        for (unsigned j = 0; j < n; j++) {
                            int64_t sum = 0;
                            for (unsigned i = 0; i < n; i++) {
                                struct nib_philox_block block = nib_philox(5, i / 128, 0);
                                int sign = block.word[i % 128 / 32] >> i % 32 & 1 ? -1 : 1;
                                int entry = inverse ? nib_hadamard_entry(r, i, j) : nib_hadamard_entry(r, j, i);
                                float v = axis == NIB_ALONG_COLS ? x[g * n + i] : x[i * 3 + g];
                                sum += entry * (inverse ? 1 : sign) * (int64_t)v;
                                if (inverse && i == n - 1) {
                                    struct nib_philox_block own = nib_philox(5, j / 128, 0);
                                    sum *= own.word[j % 128 / 32] >> j % 32 & 1 ? -1 : 1;
                                }
                            }
                            wrong += (int64_t)(axis == NIB_ALONG_COLS ? y[g * n + j] : y[j * 3 + g]) != sum;
                        }
                    NIB_CHECKF(wrong == 0, "size %u, %sinverse %d, axis %d: %zu wrong", n, ways[w], inverse, axis, wrong);
                    nib_rotation_close(r);
                }
}

/* Correct rounding of sum / sqrt(n), against MPFR with room for every bit. */
static void exact_is_correctly_rounded(void) {
    static const unsigned some[] = {2, 4, 8, 12, 16, 20, 32};
    float x[32], y[32];
    mpfr_t sum, root;
    mpfr_init2(sum, 1200);
    mpfr_init2(root, 1200);
    for (size_t s = 0; s < 7; s++) {
        unsigned n = some[s], wrong = 0;
        const struct nib_rotation *r = made(n, "evaluation: exact\n");
        for (unsigned trial = 0; trial < 60; trial++) {
            unsigned spread = trial % 4 == 0 ? 180 : trial % 4 == 1 ? 30 : trial % 4 == 2 ? 2 : 1;
            for (unsigned i = 0; i < n; i++) {
                struct nib_philox_block b = nib_philox(trial, i, s);
                int center = trial % 5 == 0 ? -150 : -20;
                x[i] = ldexpf((float)(int32_t)b.word[0], (int)(b.word[1] % spread) - (int)spread / 2 + center);
                if (trial % 7 == 3 && i % 2 == 1) x[i] = -x[i - 1]; /* cancels */
            }
            rotate(r, x, y, 1, n, NIB_ALONG_COLS);
            for (unsigned j = 0; j < n; j++) {
                mpfr_set_zero(sum, 1);
                for (unsigned i = 0; i < n; i++) {
                    if (nib_hadamard_entry(r, j, i) > 0)
                        mpfr_add_d(sum, sum, (double)x[i], MPFR_RNDN);
                    else
                        mpfr_sub_d(sum, sum, (double)x[i], MPFR_RNDN);
                }
                mpfr_sqrt_ui(root, n, MPFR_RNDN);
                mpfr_div(sum, sum, root, MPFR_RNDN);
                float expected = mpfr_get_flt(sum, MPFR_RNDN);
                wrong += expected != y[j];
            }
        }
        NIB_CHECKF(wrong == 0, "size %u: %u wrong", n, wrong);
        nib_rotation_close(r);
    }
    mpfr_clears(sum, root, NULL);
}

/* Kernels and the definition, on numbers whose sums round. */
static void kernels_give_the_bits_of_the_definition(void) {
    static float x[MOST * 5], y[MOST * 5], work[NIB_ROTATION_MAX];
    static const struct {
        const char *name;
        nib_rotate_kernel *kernel;
    } kernels[] = {{"generic", nib_rotate_generic},
#if defined(__x86_64__)
                   {"avx2", nib_rotate_avx2}, {"avx512", nib_rotate_avx512},
#endif
    };
    static const char *const evaluations[] = {"butterfly", "sequential", "runs", "parity"};
    for (size_t k = 0; k < 4 * sizeof kernels / sizeof *kernels; k++) {
        const char *evaluation = evaluations[k % 4], *isa = kernels[k / 4].name;
        if (nib_rotate_kernel_of(isa) != kernels[k / 4].kernel) continue; /* not on this processor */
        for (unsigned n = 1; n <= MOST; n *= 2)
            for (int bf16 = 0; bf16 < 2; bf16++) {
                char more[80];
                snprintf(more, sizeof more, "output: %s\nsigns: {seed: 9}\nevaluation: %s\n", bf16 ? "bf16" : "fp32", evaluation);
                const struct nib_rotation *r = made(n, more);
                if (k % 4 > 0) CU_ASSERT_EQUAL(nib_rotation_sums_terms(r), n == 16 || n == 32 || n == 64);
                if (!nib_rotation_is_fast(r) && !nib_rotation_sums_terms(r)) {
                    nib_rotation_close(r);
                    continue;
                }
                size_t count = (n == 1 ? 37 : 5) * (size_t)n;
                for (size_t i = 0; i < count; i++) {
                    struct nib_philox_block b = nib_philox(n, i, 3);
                    x[i] = ldexpf((float)(int32_t)b.word[0], (int)(b.word[1] % 60) - 60);
                }
                x[0] = -0.0f;
                x[count - 1] = INFINITY;
                if (n > 1) x[count - 2] = -INFINITY;
                kernels[k / 4].kernel(r, x, y, count);
                for (size_t g = 0; g < count; g += n) nib_rotation_evaluate(r, x + g, work);
                NIB_CHECKF(memcmp(x, y, count * sizeof *x) == 0, "%s, %s, size %u", isa, evaluation, n);
                nib_rotation_close(r);
            }
    }
}

/* There and back: at most (2k + 4) 2^-24 of the sum of magnitudes, k additions each way. */
static void the_inverse_undoes_the_rotation(void) {
    static float x[MOST], y[MOST], z[MOST];
    for (size_t s = 0; s < SIZES; s++)
        for (int none = 0; none < 2; none++) {
            unsigned n = sizes[s], steps = 0;
            const struct nib_rotation *r = made(n, none ? "normalization: none\nsigns: {seed: 2}\n" : "signs: {seed: 2}\n"), *back;
            struct nib_error error;
            NIB_OK_OR_FAIL(nib_rotation_inverse(r, &back, &error), error);
            double magnitude = 0, worst = 0;
            for (unsigned i = 0; i < n; i++) {
                x[i] = ldexpf((float)(int32_t)nib_philox(8, i, s).word[0], -31);
                magnitude += fabs((double)x[i]);
            }
            rotate(r, x, y, 1, n, NIB_ALONG_COLS);
            rotate(back, y, z, 1, n, NIB_ALONG_COLS);
            for (unsigned i = 0; i < n; i++) worst = fmax(worst, fabs((double)z[i] - (double)x[i]));
            for (unsigned left = n / r->base; left > 1; left /= 2) steps++;
            steps += r->base - 1;
            NIB_CHECKF(worst <= (2 * steps + 4) * 0x1p-24 * magnitude, "size %u: %g", n, worst);
            nib_rotation_close(r);
            nib_rotation_close(back);
        }
}

static void wrong_files_name_what_is_right(void) {
    static const struct {
        const char *text, *says;
    } bad[] = {{"size: 14\n", "the next one is 16"}, {"size: 48\nbase: 20\n", "the next one is 80"}, {"size: 24\nbase: 13\n", "expected 1, 12, 20, 28 or 40"},
               {"size: 12\nsigns: [1, -1]\n", "12 numbers"}, {"size: 2000\n", "the next one is 2560"}, {"size: 16\nunit: hopper-mma-16bit-f32\n", "evaluation: unit"},
               {"size: 12\nevaluation: unit\nunit: hopper-mma-16bit-f32\n", "power of two"}, {"size: 16\nevaluation: unit\n", "unit: NAME"},
               {"size: 16\nevaluation: unit\nunit: hopper-mma-16bit-f32\noperand: tf32\n", "tf32"}, {"size: 16\nsigns: {sed: 1}\n", "seed"},
               {"size: 16\nfactor: 0\n", "factor"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[300];
        struct nib_error error;
        const struct nib_rotation *rotation = NULL;
        int length = snprintf(text, sizeof text, "kind: rotation\ntitle: t\nsource: s\n%s", bad[i].text);
        CU_ASSERT(nib_rotation_parse(text, (size_t)length, "bad.yaml", &rotation, &error) != NIB_OK);
        NIB_CHECKF(strstr(error.text, bad[i].says) != NULL, "%s: %s", bad[i].text, error.text);
        CU_ASSERT(rotation == NULL);
    }
}

NIB_TEST_MAIN("evaluations of rotations", {"base matrices are Hadamard", base_matrices_are_hadamard},
              {"base matrices are those of the library", base_matrices_are_those_of_the_library},
              {"integers give the matrix product", integers_give_the_matrix_product},
              {"exact is correctly rounded", exact_is_correctly_rounded},
              {"kernels give the bits of the definition", kernels_give_the_bits_of_the_definition},
              {"the inverse undoes the rotation", the_inverse_undoes_the_rotation},
              {"wrong files name what is right", wrong_files_name_what_is_right})
