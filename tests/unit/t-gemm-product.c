/* Products: what happens around the unit, and that speed changes no bit. */
#include "nib_test.h"

#include <gmp.h>
#include <math.h>
#include <nibble/gemm.h>

static uint64_t state = 12345;
static uint64_t draw(void) {
    uint64_t z = state += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}
static float gaussian(void) { /* twelve uniforms are near enough */
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += (double)(draw() >> 11) * 0x1p-53;
    return (float)sum;
}
static float *matrix(size_t count) {
    float *x = malloc(count * sizeof *x);
    for (size_t i = 0; i < count; i++) x[i] = gaussian();
    return x;
}
static struct nib_view view_of(const float *x, size_t rows, size_t cols) {
    return (struct nib_view){x, NIB_F32, rows, cols, cols};
}

struct product {
    const struct nib_unit *unit;
    const struct nib_quantizer *quantizer;
    struct nib_gemm_buffer a, b;
    float *x, *y;
    struct nib_gemm gemm;
};

/* M x N x K Gaussian values, quantized if a quantizer is named, or cast to an operand format. */
static bool make(struct product *p, const char *unit, const char *quantizer, const char *operand, size_t m, size_t n,
                 size_t k) {
    struct nib_error error = {.text = ""};
    enum nib_status status = nib_unit_open(unit, &p->unit, &error);
    p->quantizer = NULL;
    p->x = matrix(m * k), p->y = matrix(n * k);
    if (status == NIB_OK && quantizer != NULL) status = nib_quantizer_open(quantizer, &p->quantizer, &error);
    for (int i = 0; i < 2 && status == NIB_OK; i++) {
        struct nib_view view = view_of(i ? p->y : p->x, i ? n : m, k);
        struct nib_gemm_buffer *buffer = i ? &p->b : &p->a;
        enum nib_operand format;
        if (quantizer == NULL) {
            status = nib_operand_parse(operand, &format, &error);
            if (status == NIB_OK) status = nib_gemm_from_values(p->unit, format, view, buffer, &error);
            continue;
        }
        struct nib_quantized q;
        status = nib_quantized_alloc(p->quantizer, view.rows, k, NIB_ALONG_COLS, NIB_WANT_PACKED | NIB_WANT_SCALES, &q,
                                     &error);
        if (status == NIB_OK) status = nib_quantize(p->quantizer, view, NULL, &q, &error);
        if (status == NIB_OK) status = nib_gemm_from_quantized(p->unit, p->quantizer, &q, buffer, &error);
        nib_quantized_free(&q);
    }
    NIB_CHECKF(status == NIB_OK, "%s", error.text);
    p->gemm = (struct nib_gemm){.unit = p->unit,
                                .m = m,
                                .n = n,
                                .k = k,
                                .a = p->a.operand,
                                .b = p->b.operand,
                                .block_scale_k = p->a.block_scale_k,
                                .alpha = p->a.tensor_scale_decode * p->b.tensor_scale_decode};
    return status == NIB_OK;
}
static void drop(struct product *p) {
    nib_gemm_buffer_clear(&p->a);
    nib_gemm_buffer_clear(&p->b);
    nib_quantizer_close(p->quantizer);
    nib_unit_close(p->unit);
    free(p->x), free(p->y);
}
static bool run(const struct nib_gemm *g, const char *isa, int threads, void *d) {
    struct nib_error error = {.text = ""};
    struct nib_unit_options options = {threads, isa};
    enum nib_status status = nib_gemm_run(g, &options, d, g->n, &error);
    NIB_CHECKF(status == NIB_OK, "%s", error.text);
    return status == NIB_OK;
}

/* Names of units, quantizers and operand formats that cover every kernel and every outer step. */
static const struct {
    const char *unit, *quantizer, *operand;
    unsigned promote, split;
} cases[] = {
    {"blackwell-tcgen05-nvfp4", "te-nvfp4", NULL, 0, 1},
    {"blackwell-tcgen05-mxfp4", "ocp-mxfp4", NULL, 0, 3},
    {"blackwell-tcgen05-mxf8f6f4", NULL, "e4m3", 0, 1},
    {"blackwell-rtx-mma-mxf8f6f4", "ocp-mxfp4", NULL, 2, 1},
    {"ampere-mma-int8-k16-s32", "e1m2-fp32", NULL, 0, 1},
    {"ampere-mma-int8-k16-s32", "e2m1-fp32", NULL, 0, 2},
    {"hopper-wgmma-fp8-f32", NULL, "e4m3", 4, 1},
    {"hopper-wgmma-fp8-f16", NULL, "e5m2", 0, 2},
    {"hopper-mma-fp8-f32", NULL, "e4m3", 0, 1},
    {"hopper-wgmma-16bit-f32", NULL, "bf16", 0, 4},
    {"hopper-wgmma-16bit-f32", NULL, "fp16", 3, 2},
    {"hopper-wgmma-tf32-f32", NULL, "tf32", 8, 1},
    {"ampere-mma-int8-s32", NULL, "s8", 0, 2},
    {"cdna3-mfma-16bit", NULL, "bf16", 0, 1},
};
enum { CASES = sizeof cases / sizeof *cases };

static void threads_tiles_and_instruction_sets_change_no_bit(void) {
    enum { M = 37, N = 29, K = 384 };
    static float want[M * N], got[M * N];
    const char *isas[4] = {"generic"};
    size_t known = 1;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) isas[known++] = "avx2";
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw")) isas[known++] = "avx512";
    for (size_t i = 0; i < CASES; i++) {
        struct product p;
        if (!make(&p, cases[i].unit, cases[i].quantizer, cases[i].operand, M, N, K)) return;
        p.gemm.promote = cases[i].promote;
        p.gemm.split_k = cases[i].split;
        if (!run(&p.gemm, "ref", 1, want)) return;
        for (size_t isa = 0; isa < known; isa++)
            for (int threads = 1; threads <= 7; threads += 3) {
                memset(got, 0xCA, sizeof got);
                if (!run(&p.gemm, isas[isa], threads, got)) return;
                NIB_CHECKF(memcmp(got, want, sizeof want) == 0, "%s on %s, %d threads", cases[i].unit, isas[isa],
                           threads);
            }
        drop(&p);
    }
}

/* Split K, promotion and their additions, from products of parts of K. */
static void parts_of_k_are_added_in_binary32_in_order(void) {
    enum { M = 5, N = 6, K = 512 };
    struct product p;
    float whole[M * N], part[M * N], sum[M * N];
    if (!make(&p, "hopper-wgmma-fp8-f32", NULL, "e4m3", M, N, K)) return;
    for (int promoted = 0; promoted < 2; promoted++) {
        struct nib_gemm g = p.gemm;
        if (promoted)
            g.promote = 4;
        else
            g.split_k = 4;
        if (!run(&g, NULL, 1, whole)) return;
        for (size_t k = 0; k < K; k += 128) {
            g = p.gemm;
            g.k = 128;
            g.a.matrix.bits = (const char *)g.a.matrix.bits + k;
            g.b.matrix.bits = (const char *)g.b.matrix.bits + k;
            if (!run(&g, "ref", 1, part)) return;
            for (size_t i = 0; i < M * N; i++) sum[i] = k == 0 ? part[i] : sum[i] + part[i];
        }
        CU_ASSERT(memcmp(whole, sum, sizeof sum) == 0);
    }
    drop(&p);
}

static void block_scales_of_the_epilogue_follow_the_stated_formula(void) {
    enum { M = 4, N = 3, K = 64, BLOCK = 16 };
    struct product p;
    float d[M * N];
    if (!make(&p, "ampere-mma-int8-k16-s32", "e1m2-fp32", NULL, M, N, K)) return;
    for (int form = NIB_GEMM_PRODUCT; form <= NIB_GEMM_SEQUENTIAL; form++) {
        p.gemm.scaling = (enum nib_gemm_scaling)form;
        if (!run(&p.gemm, NULL, 2, d)) return;
        const int8_t *a = p.gemm.a.matrix.bits, *b = p.gemm.b.matrix.bits;
        for (size_t i = 0; i < M * N; i++) {
            float sum = 0;
            for (size_t block = 0; block < K / BLOCK; block++) {
                int dot = 0;
                for (size_t k = block * BLOCK; k < (block + 1) * BLOCK; k++) dot += a[i / N * K + k] * b[i % N * K + k];
                float sa = p.gemm.a.block_scales[i / N * (K / BLOCK) + block];
                float sb = p.gemm.b.block_scales[i % N * (K / BLOCK) + block], first = form ? (float)dot * sa : sa * sb;
                sum = form ? fmaf(first, sb, sum) : fmaf(first, (float)dot, sum);
            }
            NIB_CHECKF(sum == d[i], "output %zu: %a, expected %a", i, (double)d[i], (double)sum);
        }
    }
    drop(&p);
}

static void the_order_of_k_is_that_of_the_instructions(void) {
    enum { M = 9, N = 8, K = 64 * 6 };
    static const unsigned interleaved[6] = {0, 4, 1, 5, 2, 3};
    struct product p;
    float d[M * N], want[M * N];
    if (!make(&p, "blackwell-tcgen05-nvfp4", "te-nvfp4", NULL, M, N, K)) return;
    for (int order = NIB_GEMM_DESCENDING; order <= NIB_GEMM_INTERLEAVED; order++) {
        p.gemm.order = (enum nib_gemm_order)order;
        p.gemm.interleave = 4;
        if (!run(&p.gemm, NULL, 1, d)) return;
        struct nib_unit_matrix a = p.gemm.a.matrix, b = p.gemm.b.matrix;
        for (size_t i = 0; i < M * N; i++) {
            uint64_t c = 0;
            for (unsigned step = 0; step < 6; step++) {
                size_t at = order == NIB_GEMM_DESCENDING ? 5 - step : interleaved[step];
                struct nib_unit_matrix x = a, y = b;
                x.bits = (const char *)a.bits + 32 * at, x.scales = a.scales + 4 * at;
                y.bits = (const char *)b.bits + 32 * at, y.scales = b.scales + 4 * at;
                c = nib_unit_dot_ref(p.unit, &x, i / N, &y, i % N, 64, c);
            }
            uint32_t bits = (uint32_t)c;
            memcpy(&want[i], &bits, 4);
            want[i] *= p.gemm.alpha;
        }
        CU_ASSERT(memcmp(d, want, sizeof want) == 0);
    }
    drop(&p);
}

static void the_epilogue_rounds_alpha_then_beta_then_the_type(void) {
    enum { M = 3, N = 4, K = 32 };
    struct product p;
    float acc[M * N], c[M * N];
    uint16_t half[M * N];
    uint8_t byte[M * N];
    if (!make(&p, "hopper-wgmma-16bit-f32", NULL, "bf16", M, N, K)) return;
    if (!run(&p.gemm, NULL, 1, acc)) return;
    for (size_t i = 0; i < M * N; i++) c[i] = gaussian();
    p.gemm.alpha = 0.3f, p.gemm.beta = -1.7f, p.gemm.c = c, p.gemm.c_stride = N;
    p.gemm.output = NIB_GEMM_BF16;
    if (!run(&p.gemm, NULL, 1, half)) return;
    p.gemm.output = NIB_GEMM_E4M3;
    p.gemm.alpha = 1000;
    p.gemm.beta = 0;
    if (!run(&p.gemm, NULL, 1, byte)) return;
    for (size_t i = 0; i < M * N; i++) {
        float value = 0.3f * acc[i];
        value = fmaf(-1.7f, c[i], value);
        double exact = (double)value, got = nib_operand_value(NIB_OPERAND_BF16, half[i]);
        double up = nib_operand_value(NIB_OPERAND_BF16, half[i] + 1u),
               down = nib_operand_value(NIB_OPERAND_BF16, half[i] - 1u);
        NIB_CHECKF(fabs(got - exact) <= fabs(up - exact) && fabs(got - exact) <= fabs(down - exact), "%g for %g", got,
                   exact);
        if (fabsf(1000 * acc[i]) >= 464) CU_ASSERT_EQUAL(byte[i] & 0x7F, 0x7E); /* saturates at 448 */
    }
    drop(&p);
}

/* sum of exact products with GMP rationals, against the superaccumulator's report. */
static void errors_are_those_of_exact_rational_arithmetic(void) {
    enum { M = 4, N = 5 };
    for (size_t i = 0; i < CASES; i++) {
        size_t k = 192;
        struct product p;
        struct nib_gemm_error report;
        struct nib_error error = {.text = ""};
        float d[M * N];
        if (!make(&p, cases[i].unit, cases[i].quantizer, cases[i].operand, M, N, k)) return;
        if (!run(&p.gemm, NULL, 1, d)) return;
        NIB_OK_OR_FAIL(nib_gemm_measure(&p.gemm, d, N, 0, 2, &report, &error), error);
        mpq_t sum, term, factor;
        mpq_inits(sum, term, factor, NULL);
        double largest = 0, exact_count = 0;
        for (size_t out = 0; out < M * N; out++) {
            mpq_set_ui(sum, 0, 1);
            for (size_t at = 0; at < k; at++) {
                mpq_set_d(term, (double)p.gemm.alpha);
                for (int side = 0; side < 2; side++) {
                    const struct nib_gemm_operand *x = side ? &p.gemm.b : &p.gemm.a;
                    size_t row = side ? out % N : out / N;
                    const uint8_t *bits = (const uint8_t *)x->matrix.bits + row * x->matrix.stride;
                    uint64_t code = 0;
                    unsigned width = nib_operand_bits(x->matrix.operand);
                    if (width == 4)
                        code = bits[at / 2] >> (at % 2 * 4) & 15;
                    else
                        memcpy(&code, bits + at * (width / 8), width / 8);
                    mpq_set_d(factor, nib_operand_value(x->matrix.operand, code));
                    mpq_mul(term, term, factor);
                    if (x->matrix.scales != NULL) {
                        uint8_t scale = x->matrix.scales[row * x->matrix.scale_stride + at / p.unit->scale_block];
                        mpq_set_d(factor, p.unit->scale == NIB_UNIT_SCALE_UE8M0
                                              ? ldexp(1, scale - 127)
                                              : nib_operand_value(NIB_OPERAND_E4M3, scale));
                        mpq_mul(term, term, factor);
                    }
                    if (x->block_scales != NULL) {
                        mpq_set_d(factor,
                                  (double)x->block_scales[row * x->block_scale_stride + at / p.gemm.block_scale_k]);
                        mpq_mul(term, term, factor);
                    }
                }
                mpq_add(sum, sum, term);
            }
            bool integer = p.unit->accumulator == NIB_ACC_S32 && p.gemm.output == NIB_GEMM_ACCUMULATOR;
            mpq_set_d(term, integer ? 0 : (double)d[out]);
            mpq_sub(term, term, sum);
            double e = fabs(mpq_get_d(term)); /* truncated; the report rounds to nearest */
            if (e > largest) largest = e;
            exact_count += mpq_sgn(term) == 0;
        }
        mpq_clears(sum, term, factor, NULL);
        NIB_CHECKF(report.max_abs >= largest && report.max_abs <= nextafter(largest, INFINITY),
                   "%s: largest error %a, expected %a", cases[i].unit, report.max_abs, largest);
        CU_ASSERT_EQUAL(report.exact, exact_count);
        CU_ASSERT_EQUAL(report.outputs, M * N);
        drop(&p);
    }
}

static void the_anatomy_adds_up(void) {
    enum { M = 24, N = 16, K = 512 };
    struct product p;
    struct nib_gemm_anatomy s;
    struct nib_error error;
    static float d[M * N];
    if (!make(&p, "blackwell-tcgen05-nvfp4", "te-nvfp4", NULL, M, N, K)) return;
    if (!run(&p.gemm, NULL, 2, d)) return;
    NIB_OK_OR_FAIL(nib_gemm_dissect(&p.gemm, view_of(p.x, M, K), view_of(p.y, N, K), p.a.tensor_scale_decode,
                                    p.b.tensor_scale_decode, d, N, 0, 2, &s, &error),
                   error);
    /* Gaussian values through NVFP4 lose 9.05e-3 of the squared norm; independent errors add. */
    CU_ASSERT(fabs(s.from_a - 9.05e-3) < 1.5e-3 && fabs(s.from_b - 9.05e-3) < 1.5e-3);
    CU_ASSERT(fabs(s.from_both - s.from_a - s.from_b) < 3e-3);
    CU_ASSERT(s.interaction > s.from_a * s.from_b / 3 && s.interaction < s.from_a * s.from_b * 3);
    CU_ASSERT(s.from_accumulation > 0 && s.from_accumulation < 1e-12);
    CU_ASSERT(fabs(s.total - s.from_both) < 1e-6);
    drop(&p);
}

static void swizzled_scales_are_found_again(void) {
    enum { ROWS = 200, COLUMNS = 10, PADDED = 256 * 12 };
    static uint8_t linear[ROWS * COLUMNS], swizzled[PADDED], back[ROWS * COLUMNS];
    struct nib_error error;
    /* torchao's to_blocked: (2,128,3,4) -> (2,3,128,4) -> (.,4,32,4) -> (.,32,4,4). */
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < COLUMNS; c++) {
            linear[r * COLUMNS + c] = (uint8_t)draw();
            size_t tile = r / 128 * 3 + c / 4, quarter = r % 128 / 32, lane = r % 32;
            swizzled[((tile * 32 + lane) * 4 + quarter) * 4 + c % 4] = linear[r * COLUMNS + c];
        }
    NIB_OK_OR_FAIL(nib_gemm_unswizzle(swizzled, PADDED, ROWS, COLUMNS, back, &error), error);
    CU_ASSERT(memcmp(linear, back, sizeof back) == 0);
    CU_ASSERT_EQUAL(nib_gemm_unswizzle(swizzled, PADDED - 512, ROWS, COLUMNS, back, &error), NIB_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "3072"));
}

static void refuse(const struct nib_gemm *g, const char *number) {
    struct nib_error error = {.text = ""};
    char d[4] = {1, 2, 3, 4};
    CU_ASSERT_EQUAL(nib_gemm_run(g, NULL, d, g->n, &error), NIB_EINVAL);
    NIB_CHECKF(strstr(error.text, number) != NULL, "\"%s\" does not name %s", error.text, number);
    CU_ASSERT(d[0] == 1 && d[3] == 4);
}

static void what_does_not_fit_is_refused_with_the_number_expected(void) {
    struct product p;
    struct nib_gemm g;
    if (!make(&p, "blackwell-tcgen05-nvfp4", "te-nvfp4", NULL, 1, 1, 96)) return;
    refuse(&p.gemm, "multiple of 64");
    drop(&p);
    if (!make(&p, "ampere-mma-int8-s32", "e1m2-fp32", NULL, 1, 1, 64)) return;
    refuse(&p.gemm, "multiple of 32");
    drop(&p);
    if (!make(&p, "hopper-wgmma-fp8-f32", NULL, "e4m3", 1, 1, 256)) return;
    g = p.gemm, g.split_k = 9;
    refuse(&g, "at most 8");
    g = p.gemm, g.beta = 1;
    refuse(&g, "no C");
    g = p.gemm, g.b.matrix.operand = NIB_OPERAND_BF16;
    refuse(&g, "e4m3, e5m2");
    drop(&p);
    const struct nib_quantizer *mx;
    const struct nib_unit *unit;
    struct nib_error error;
    struct nib_gemm_buffer buffer;
    struct nib_quantized q;
    float zero[64] = {0};
    NIB_OK_OR_FAIL(nib_quantizer_open("ocp-mxfp4", &mx, &error), error);
    NIB_OK_OR_FAIL(nib_unit_open("blackwell-tcgen05-mxf4nvf4-ue8m0", &unit, &error), error);
    NIB_OK_OR_FAIL(nib_quantized_alloc(mx, 1, 64, NIB_ALONG_COLS, NIB_WANT_PACKED | NIB_WANT_SCALES, &q, &error),
                   error);
    NIB_OK_OR_FAIL(nib_quantize(mx, view_of(zero, 1, 64), NULL, &q, &error), error);
    CU_ASSERT_EQUAL(nib_gemm_from_quantized(unit, mx, &q, &buffer, &error), NIB_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "one for 16"));
    nib_quantized_free(&q);
    nib_unit_close(unit);
    nib_quantizer_close(mx);
}

NIB_TEST_MAIN(
    "products through matrix units",
    {"threads, tiles and instruction sets change no bit", threads_tiles_and_instruction_sets_change_no_bit},
    {"parts of K are added in binary32 in order", parts_of_k_are_added_in_binary32_in_order},
    {"block scales of the epilogue follow the stated formula", block_scales_of_the_epilogue_follow_the_stated_formula},
    {"the order of K is that of the instructions", the_order_of_k_is_that_of_the_instructions},
    {"the epilogue rounds alpha, then beta, then the type", the_epilogue_rounds_alpha_then_beta_then_the_type},
    {"errors are those of exact rational arithmetic", errors_are_those_of_exact_rational_arithmetic},
    {"the anatomy adds up", the_anatomy_adds_up}, {"swizzled scales are found again", swizzled_scales_are_found_again},
    {"what does not fit is refused with the number expected", what_does_not_fit_is_refused_with_the_number_expected})
