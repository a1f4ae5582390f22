/* Quantizers that no output of a real kernel vouches for, against oracles written from a catalogue of what their
 * sources say, not from the engine: each operation is one MPFR rounding, and scales and codes are exact searches.
 * Numbers in comments are sections of the catalogue (semantics of quantizers: Q, recipes: R). rcp.approx and div.full
 * are facts about the hardware, which t-quantize-approx holds to its tables; they are taken from the library. Inputs
 * are bf16 numbers, as the kernels take them. */
#include "core/key.h"
#include "nib_test.h"
#include "oracle_binary32.h"

#include <float.h>
#include <nibble/quantize.h>

#include "quantize/approx.h"

enum { MOST = 256 };

/* What a block of n elements should become; `g`: the tensor amax, `r`: a random word of each element. */
struct block {
    int n;
    float g, x[MOST];
    uint32_t r[MOST], index; /* of the first element, in the tensor */
    /* the answer */
    uint32_t scale;
    bool has_values;
    uint8_t code[MOST];
    float value[MOST];
};

static float amax(const struct block *b) {
    float largest = 0;
    for (int i = 0; i < b->n; i++) largest = fmaxf(largest, fabsf(b->x[i])); /* NaN is passed over */
    return largest;
}
static void encode(struct block *b, float (*scaled)(float, float), float factor, bool ties_away) {
    for (int i = 0; i < b->n; i++) b->code[i] = (uint8_t)oracle_e2m1_code(scaled(b->x[i], factor), ties_away);
}

/* ---- NVFP4 */

static float sixth(void) {
    return oracle_div(1, 6); /* RN(1/6); rcp~(6) is the same number, Q 12.8 */
}
/* Q 12.1: 2688 over a tensor, in PyTorch, is a product with the reciprocal. */
static float callers_scale(float g) {
    return oracle_mul(oracle_div(1, g), 2688);
}

/* Q 5, FlashInfer: sf = e4m3(S*(b*rcp~(6))); out = b != 0 ? rcp~(sf*rcp~(S)) : 0; -ftz. */
static void flashinfer(struct block *b) {
    float S = callers_scale(b->g), a = oracle_flushed(amax(b));
    b->scale = oracle_e4m3_code(oracle_mul_ftz(S, oracle_mul_ftz(a, sixth())));
    float sf = (float)oracle_e4m3_value(b->scale);
    float out = a != 0 ? nib_rcp_approx_ftz(oracle_mul_ftz(sf, nib_rcp_approx_ftz(S))) : 0;
    encode(b, oracle_mul_ftz, out, false);
}
/* Q 5, DISABLE_FP4_QUANT_FAST_MATH: TransformerEngine's b*(S*R6) and 1/(sf*(1/S)) by __fdiv_rn, without its bound, 0
 * for a block of zeros; -ftz still applies to products. */
static void flashinfer_exact(struct block *b) {
    float S = callers_scale(b->g), a = oracle_flushed(amax(b));
    b->scale = a != 0 ? oracle_e4m3_code(oracle_mul_ftz(a, oracle_mul_ftz(S, sixth()))) : 0;
    float sf = (float)oracle_e4m3_value(b->scale);
    float out = a != 0 ? oracle_div(1, oracle_mul_ftz(sf, oracle_div(1, S))) : 0;
    encode(b, oracle_mul_ftz, out, false);
}
/* Q 5, vLLM: the same formula as FlashInfer's, without -ftz, and out = sf != 0 ? ... : 0. */
static void vllm(struct block *b) {
    float S = callers_scale(b->g), a = amax(b);
    b->scale = oracle_e4m3_code(oracle_mul(S, oracle_mul(a, sixth())));
    float sf = (float)oracle_e4m3_value(b->scale);
    encode(b, oracle_mul, sf != 0 ? nib_rcp_approx_ftz(oracle_mul(sf, nib_rcp_approx_ftz(S))) : 0, false);
}
/* Q 5, qutlass: "NV: vLLM formula"; compiled with -use_fast_math (axis FT). */
static void qutlass_nvfp4(struct block *b) {
    float S = callers_scale(b->g), a = amax(b);
    b->scale = oracle_e4m3_code(oracle_mul_ftz(S, oracle_mul_ftz(a, sixth())));
    float sf = (float)oracle_e4m3_value(b->scale);
    encode(b, oracle_mul_ftz, sf != 0 ? nib_rcp_approx_ftz(oracle_mul_ftz(sf, nib_rcp_approx_ftz(S))) : 0, false);
}
/* Q 5, FBGEMM and MSLK: sf = e4m3((b div~ 6)*S); x div_rn (sf div~ S); 0/0 of an empty block gives codes 7. */
static void fbgemm(struct block *b) {
    float S = callers_scale(b->g), a = amax(b);
    b->scale = oracle_e4m3_code(oracle_mul(nib_div_full(a, 6), S));
    encode(b, oracle_div, nib_div_full((float)oracle_e4m3_value(b->scale), S), false);
}

/* Q 2(b): TransformerEngine's S and sf. */
static float te_scale(float g) {
    float S = g == 0 ? 1 : fminf(oracle_div(2688, g), FLT_MAX);
    return S == 0 ? 1 : S;
}
static float te_block(struct block *b, float S, float a) {
    b->scale = oracle_e4m3_code(fminf(oracle_mul(a, oracle_mul(S, sixth())), FLT_MAX));
    return (float)oracle_e4m3_value(b->scale);
}
static float te_encode(float S, float sf) {
    return fminf(oracle_div(1, oracle_mul(sf, oracle_div(1, S))), FLT_MAX);
}
static void te(struct block *b) {
    float S = te_scale(b->g), sf = te_block(b, S, amax(b));
    encode(b, oracle_mul, te_encode(S, sf), false);
}
/* Tuned 1D with NVTE_USE_FAST_MATH: the coefficient is bf16(min(S/sf, BF16_MAX)). */
static void te_fast_math(struct block *b) {
    float S = te_scale(b->g), sf = te_block(b, S, amax(b));
    encode(b, oracle_mul, oracle_bf16(fminf(oracle_div(S, sf), 0x1.FEp+127f)), false);
}
/* Q 2.5, M = 448, errors by magnitude, one after the other. */
static void te_four_over_six(struct block *b) {
    float S = te_scale(b->g), s = oracle_mul(oracle_div(amax(b), 6), S), error[2] = {0, 0};
    struct block candidate[2];
    for (int c = 0; c < 2; c++) { /* on 6, and on 4 */
        struct block *to = &candidate[c];
        *to = *b;
        to->scale = oracle_e4m3_code(fminf(c == 0 ? s : oracle_mul(s, 1.5f), 448));
        float sf = (float)oracle_e4m3_value(to->scale);
        encode(to, oracle_mul, te_encode(S, sf), false);
        for (int i = 0; i < b->n; i++) {
            float q = (float)oracle_e2m1[to->code[i] & 7] * (to->code[i] & 8 ? -1.0f : 1.0f);
            float value = oracle_div(oracle_mul(oracle_mul(q, sf), b->g), 2688);
            error[c] = oracle_add(error[c], fabsf(oracle_add(value, -b->x[i])));
        }
    }
    *b = candidate[error[1] < error[0]];
}

/* ---- MXFP4 */

static float two_to(int e) {
    return ldexpf(1, e);
}

/* Q 5, FlashInfer: e8m0_RP(b*rcp~(6)); the multiplier is 1 for e = 0, else 2^(127-e), and 0 for a block of zeros; -ftz.
 */
static void flashinfer_mxfp4(struct block *b) {
    float a = amax(b), v = oracle_mul_ftz(a, sixth());
    int e = -127;
    while (e < 127 && two_to(e) < v) e++;
    b->scale = (uint32_t)(e + 127);
    encode(b, oracle_mul_ftz, a == 0 ? 0 : e == -127 ? 1 : two_to(-e), false);
}

/* Q 5, qutlass: the exponent field of b+1e-8, no -2; x/scale*3 under fast math; the product with 1/3 comes after. */
static float over_times_three(float x, float scale) {
    return oracle_mul_ftz(oracle_mul_ftz(x, nib_rcp_approx_ftz(scale)), 3); /* div.approx is x*rcp~(scale), Q 12.9 */
}
static void qutlass_mxfp4(struct block *b) {
    int exponent;
    frexpf(oracle_flushed(oracle_add(amax(b), 1e-8f)), &exponent);
    b->scale = (uint32_t)(exponent - 1 + 127);
    encode(b, over_times_three, two_to(exponent - 1), false);
}

/* Q 5 and axis E8: the exponent of MSLK's modes, then -2, within -127 and 125; x divided by div~. */
enum mode { NEAREST, FLOOR, EVEN_MINUS, CEIL };
static int mslk_exponent(enum mode mode, float a) {
    mpfr_t y;
    double fraction, below = frexp((double)a, &(int){0});
    int exponent;
    if (a == 0) return -127;
    if (isinf(a)) return 125;
    frexpf(a, &exponent);
    exponent--;                            /* a = 2 below * 2^exponent, 1 <= 2 below < 2 */
    if (fabsf(a) < 0x1p-126f) return -127; /* floor(-127)-2, whatever is added */
    fraction = 2 * below;
    switch (mode) {
    case FLOOR: break;
    case EVEN_MINUS: exponent += fraction > 1.75; break;
    case CEIL: exponent += fraction > 1; break;
    case NEAREST: /* floor(log2+.5) */
        mpfr_init(y);
        mpfr_set_flt(y, a, MPFR_RNDN);
        mpfr_log2(y, y, MPFR_RNDN);
        exponent = (int)floorf(oracle_add(mpfr_get_flt(y, MPFR_RNDN), 0.5f));
        mpfr_clear(y);
        break;
    }
    exponent -= 2;
    return exponent < -127 ? -127 : exponent > 125 ? 125 : exponent;
}
static void mslk(struct block *b, enum mode mode) {
    int exponent = mslk_exponent(mode, amax(b));
    b->scale = (uint32_t)(exponent + 127);
    encode(b, nib_div_full, two_to(exponent), false);
}
static void mslk_nearest(struct block *b) {
    mslk(b, NEAREST);
}
static void mslk_floor(struct block *b) {
    mslk(b, FLOOR);
}
static void mslk_even(struct block *b) {
    mslk(b, EVEN_MINUS);
}
static void mslk_ceil(struct block *b) {
    mslk(b, CEIL);
}
/* Axis SRc: (r & 0x3FFFFF) - 0x1FFFFF on the bits of the scaled element, then to nearest. */
static void mslk_stochastic(struct block *b) {
    mslk(b, EVEN_MINUS);
    for (int i = 0; i < b->n; i++) {
        float y = nib_div_full(b->x[i], two_to((int)b->scale - 127));
        b->code[i] =
            (uint8_t)oracle_e2m1_code(nib_float_of_bits(nib_bits_of_float(y) + (b->r[i] & 0x3FFFFF) - 0x1FFFFF), false);
    }
}

/* Q 5, Quark's copy of triton_kernels: 0x200000 is added to the bits of b, then -2, within -127 and 127, where Triton's
 * exp2 makes 2^-127 zero (Q 12.10); scale 0 gives 0; x*(1 div~ s), ties away. */
static void quark(struct block *b) {
    float a = nib_float_of_bits((nib_bits_of_float(amax(b)) + 0x200000) & 0x7F800000);
    int exponent = a == 0 ? -127 : isinf(a) ? 127 : ilogbf(a) - 2;
    float s = exponent <= -127 ? 0 : two_to(exponent);
    b->scale = s == 0 ? 0 : (uint32_t)(exponent + 127);
    encode(b, oracle_mul, s == 0 ? 0 : nib_div_full(1, s), true);
}

/* R 3, TetraJet: the smallest power of two under which nothing is cut off, within +-127; nearest even. */
static void tetrajet(struct block *b) {
    int e = -127;
    while (e < 127 && ldexp(6, e) < (double)amax(b)) e++;
    b->scale = (uint32_t)(e + 127);
    b->has_values = true;
    for (int i = 0; i < b->n; i++) {
        b->code[i] = (uint8_t)oracle_e2m1_code((float)ldexp((double)b->x[i], -e), false);
        b->value[i] = (float)ldexp(oracle_e2m1[b->code[i] & 7] * (b->code[i] & 8 ? -1 : 1), e);
    }
}

/* OCP MX 1.0, 6.3: the exponent of the largest magnitude less that of 4; axis E8, FLOOR. */
static void ocp(struct block *b) {
    float a = amax(b);
    int e = a == 0 || ilogbf(a) - 2 < -127 ? -127 : ilogbf(a) - 2;
    b->scale = (uint32_t)(e + 127);
    b->has_values = true;
    for (int i = 0; i < b->n; i++) {
        b->code[i] = (uint8_t)oracle_e2m1_code((float)ldexp((double)b->x[i], -e), false);
        b->value[i] = (float)ldexp(oracle_e2m1[b->code[i] & 7] * (b->code[i] & 8 ? -1 : 1), e);
    }
}

/* ---- one binary32 scale, the largest magnitude on the largest level: UFP4's baseline and uniform grid by 16, R 2 by
 * row */

static void absmax(struct block *b, const double *level) {
    float s = oracle_div(amax(b), (float)level[7]);
    b->scale = nib_bits_of_float(s);
    b->has_values = true;
    for (int i = 0; i < b->n; i++) {
        float y = oracle_div(b->x[i], s);
        b->code[i] = (uint8_t)(oracle_nearest(level, 8, fabsf(y), false) | (signbit(y) ? 8u : 0u));
        b->value[i] = oracle_mul((float)level[b->code[i] & 7] * (b->code[i] & 8 ? -1.0f : 1.0f), s);
    }
}
static void absmax_e2m1(struct block *b) {
    absmax(b, oracle_e2m1);
}
static void absmax_e1m2(struct block *b) {
    static const double halves[8] = {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5};
    absmax(b, halves);
}

/* ---- TetraJet-v2, R 4 and Q 7: blocks of a segment of 128, whose amax is g; fast math, so that a/448/6 are div.approx
 */

static float approximately(float a, float b) {
    return oracle_mul_ftz(a, nib_rcp_approx_ftz(b));
}
static float tetrajet2_factor(struct block *b) {
    float outer = approximately(approximately(oracle_flushed(b->g), 448), 6);
    if (outer == 0) outer = 1;
    float inner = approximately(approximately(oracle_flushed(amax(b)), outer), 6);
    if (inner == 0) inner = 0x1p-9f;
    b->scale = oracle_e4m3_code(inner);
    float product = oracle_mul_ftz(outer, (float)oracle_e4m3_value(b->scale));
    return product == 0 ? 0 : nib_rcp_approx_ftz(product);
}
static void tetrajet2(struct block *b) {
    encode(b, oracle_mul_ftz, tetrajet2_factor(b), false);
}
/* The state of four elements from the seed (77) and the index of the first; noise of half a step, clamped to the
 * binade. */
static void tetrajet2_stochastic(struct block *b) {
    float factor = tetrajet2_factor(b);
    for (int i = 0; i < b->n; i++) {
        uint32_t state = (77 + (b->index + ((uint32_t)i & ~3u)) * 0x9E3779B1u) * 747796405u + 2891336453u;
        for (int k = 0; k <= i % 4; k++) state = state * 1664525u + 1013904223u;
        float y = oracle_mul_ftz(b->x[i], factor), a = fabsf(y),
              noise = nib_float_of_bits(0x3F800000u | state >> 9) - 1.5f;
        float low = a <= 2   ? 0
                    : a <= 4 ? 2
                             : 4,
              high = a <= 2   ? 2
                     : a <= 4 ? 4
                              : 6,
              step = a <= 2   ? 0.5f
                     : a <= 4 ? 1
                              : 2;
        float noisy = fminf(fmaxf(oracle_add(a, oracle_mul(noise, step)), low), high);
        b->code[i] = isnan(y) ? 7 : (uint8_t)oracle_e2m1_code(copysignf(noisy, y), false);
    }
}

/* ---- HiFloat4, R 12; products of two bf16 numbers are exact in binary64 */

static void hif4(struct block *b) {
    double largest[16] = {0}, eights[8] = {0}, most = 0;
    for (int i = 0; i < 64; i++) {
        double a = fabs((double)b->x[i]);
        largest[i / 4] = fmax(largest[i / 4], a);
        eights[i / 8] = fmax(eights[i / 8], a);
        most = fmax(most, a);
    }
    float seventh = oracle_bf16(1 / 7.0f), v = oracle_mul((float)most, seventh);
    v = oracle_bf16(fminf(fmaxf(v, 0x1p-48f), 49152)); /* the CUDA code clamps before it converts */
    double e6m2[256];
    for (int c = 0; c < 255; c++) e6m2[c] = ldexp(4 + c % 4, c / 4 - 50);
    b->scale = oracle_nearest(e6m2, 255, v, false);
    double K = e6m2[b->scale], R = (double)oracle_bf16((float)(1 / K));
    b->has_values = true;
    for (int i = 0; i < 64; i++) {
        int e1 = eights[i / 8] * R >= 4, e2 = ldexp(largest[i / 4] * R, -e1) >= 2;
        b->scale |= (uint32_t)e1 << (8 + i / 8) | (uint32_t)e2 << (16 + i / 4);
        double quarters = fmin(floor(ldexp(4 * fabs((double)b->x[i]) * R, -(e1 + e2)) + 0.5), 7);
        b->code[i] = (uint8_t)((unsigned)quarters | (signbit(b->x[i]) ? 8u : 0u));
        b->value[i] = copysignf((float)(ldexp(K * quarters / 4, e1 + e2)), b->x[i]);
    }
}

/* ---- BOF4, R 14: by the largest magnitude, or by the first element that has it, its sign included; nearest by
 * midpoints */

static const char *const bof4_tables[3][2][16] = {
    {{"-1", "-.786959", "-.616777", "-.471828", "-.342695", "-.223564", "-.110387", "0", ".096497", ".194850",
      ".297100", ".405714", ".523944", ".656478", ".810747", "1"},
     {"-.886742", "-.710295", "-.562865", "-.433730", "-.316559", "-.207160", "-.102467", "0", ".096497", ".194850",
      ".297100", ".405714", ".523944", ".656478", ".810747", "1"}},
    {{"-1", "-.771152", "-.598522", "-.455463", "-.329823", "-.214804", "-.105969", "0", ".092625", ".187153",
      ".285712", ".390958", ".506571", ".638225", ".795838", "1"},
     {"-.87327975", "-.69074464", "-.54370391", "-.41737017", "-.30389336", "-.19860178", "-.09815572", "0",
      ".09259384", ".18704800", ".28551975", ".39071262", ".50628316", ".63797486", ".79563767", "1"}},
    {{"-1", "-.75356892", "-.57926815", "-.43867201", "-.31681910", "-.20602911", "-.10156408", "0", ".08876467",
      ".17945353", ".27424977", ".37595103", ".48859253", ".61877155", ".77908284", "1"},
     {"-.85684639", "-.66928744", "-.52352661", "-.40048826", "-.29106382", "-.19000930", "-.09385296", "0",
      ".08876717", ".17948027", ".27430961", ".37601975", ".48865300", ".61886036", ".77913958", "1"}}};

static void bof4(struct block *b, bool is_signed) {
    double level[16], lifted[16];
    float s = 0;
    for (int c = 0; c < 16; c++) {
        level[c] = (double)strtof(bof4_tables[b->n == 16 ? 0 : b->n == 32 ? 1 : 2][is_signed][c], NULL);
        lifted[c] = level[c] + 2; /* exact, and positive for the search */
    }
    for (int i = 0; i < b->n; i++)
        if (i == 0 || fabsf(b->x[i]) > fabsf(s)) s = b->x[i];
    if (!is_signed) s = fabsf(s);
    b->scale = nib_bits_of_float(s);
    b->has_values = true;
    for (int i = 0; i < b->n; i++) {
        double y = s == 0 ? 0 : (double)oracle_div(b->x[i], s);
        int best = 0;
        while (best < 15 && y + 2 > (lifted[best] + lifted[best + 1]) / 2) best++;
        b->code[i] = (uint8_t)best;
        b->value[i] = oracle_mul((float)level[best], s);
    }
}
static void bof4_plain(struct block *b) {
    bof4(b, false);
}
static void bof4_signed(struct block *b) {
    bof4(b, true);
}

/* ---- the comparison */

enum { GIVEN = 1, INFINITIES = 2, NANS = 4, SUBNORMALS = 8, EMPTY = 16, RANDOM = 32, SEGMENTS = 64, SQUARES = 128 };

static const struct {
    const char *name;
    int n;
    unsigned flags; /* GIVEN: the tensor amax; which inputs there are */
    void (*oracle)(struct block *);
} rows[] = {
    {"flashinfer-nvfp4", 16, GIVEN | INFINITIES | NANS | SUBNORMALS | EMPTY, flashinfer},
    {"flashinfer-nvfp4-exact", 16, GIVEN | INFINITIES | NANS | SUBNORMALS | EMPTY, flashinfer_exact},
    {"vllm-nvfp4", 16, GIVEN | INFINITIES | NANS | SUBNORMALS | EMPTY, vllm},
    {"qutlass-nvfp4", 16, GIVEN | INFINITIES | NANS | SUBNORMALS | EMPTY, qutlass_nvfp4},
    {"fbgemm-nvfp4-triton", 16, GIVEN | INFINITIES | NANS | SUBNORMALS | EMPTY, fbgemm},
    {"te-nvfp4-16x16", 256, GIVEN | INFINITIES | NANS | SUBNORMALS | EMPTY | SQUARES, te},
    {"te-nvfp4-fast-math", 16, GIVEN | INFINITIES | NANS | SUBNORMALS | EMPTY, te_fast_math},
    {"te-nvfp4-4over6-mae", 16, GIVEN | SUBNORMALS | EMPTY, te_four_over_six},
    {"flashinfer-mxfp4", 32, NANS | SUBNORMALS | EMPTY, flashinfer_mxfp4},
    {"qutlass-mxfp4", 32, NANS | SUBNORMALS | EMPTY, qutlass_mxfp4},
    {"mslk-mxfp4-nearest", 32, INFINITIES | NANS | SUBNORMALS | EMPTY, mslk_nearest},
    {"mslk-mxfp4-floor", 32, INFINITIES | NANS | SUBNORMALS | EMPTY, mslk_floor},
    {"mslk-mxfp4-even", 32, INFINITIES | NANS | SUBNORMALS | EMPTY, mslk_even},
    {"mslk-mxfp4-ceil", 32, INFINITIES | NANS | SUBNORMALS | EMPTY, mslk_ceil},
    {"mslk-mxfp4-sr", 32, SUBNORMALS | EMPTY | RANDOM, mslk_stochastic},
    {"quark-mxfp4-triton", 32, INFINITIES | NANS | SUBNORMALS | EMPTY, quark},
    {"tetrajet-mxfp4", 32, EMPTY, tetrajet},
    {"ocp-mxfp4", 32, SUBNORMALS | EMPTY, ocp},
    {"e2m1-fp32", 16, SUBNORMALS, absmax_e2m1},
    {"e1m2-fp32", 16, SUBNORMALS, absmax_e1m2},
    {"e2m1-row", 48, SUBNORMALS, absmax_e2m1},
    {"tetrajet2-nvfp4", 16, NANS | SUBNORMALS | EMPTY | SEGMENTS, tetrajet2},
    {"tetrajet2-nvfp4-sr", 16, SUBNORMALS | EMPTY | SEGMENTS, tetrajet2_stochastic},
    {"hif4", 64, EMPTY, hif4},
    {"bof4-16", 16, EMPTY, bof4_plain},
    {"bof4-32", 32, EMPTY, bof4_plain},
    {"bof4-64", 64, EMPTY, bof4_plain},
    {"bof4-s-16", 16, EMPTY, bof4_signed},
    {"bof4-s-32", 32, EMPTY, bof4_signed},
    {"bof4-s-64", 64, EMPTY, bof4_signed},
};

static uint64_t state;
static uint32_t next(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

/* bf16 numbers up to `most`: ties and levels of E2M1 under a power of two, several binades, and what the flags allow
 * besides. */
static void fill(float *x, int n, float most, unsigned flags) {
    float top = ldexpf(most, -(int)(next() % 4 == 0 ? next() % 24 : next() % 3));
    bool empty = (flags & EMPTY) && next() % 16 == 0;
    for (int i = 0; i < n; i++) {
        float tie = (float)(oracle_e2m1[next() % 7] + oracle_e2m1[next() % 7 + 1]) / 2;
        x[i] = oracle_bf16(next() % 3 == 0 ? top * tie / 8 : top * (float)(next() % 65536 + 1) / 65536);
        if (next() % 8 == 0) x[i] = ldexpf(x[i], -(int)(next() % 12));
        if (next() % 32 == 0 || empty) x[i] = 0;
        if ((flags & SUBNORMALS) && next() % 64 == 0) x[i] = ldexpf((float)(next() % 128), -133);
        if (!(flags & SUBNORMALS) && fabsf(x[i]) < 0x1p-126f) x[i] = 0;
        if ((flags & INFINITIES) && next() % 512 == 0) x[i] = INFINITY;
        if ((flags & NANS) && next() % 512 == 0 && i != 0) x[i] = NAN;
        if (next() % 2) x[i] = -x[i];
    }
    if (isnan(x[n - 1])) x[n - 1] = 0;
}

static uint32_t stored_scale(const struct nib_quantized *q, size_t at) {
    uint32_t scale = 0;
    for (unsigned i = 0; i < q->scale_bytes; i++) scale |= (uint32_t)q->scales[at * q->scale_bytes + i] << (8 * i);
    return scale;
}

static bool same_float(float a, float b) {
    return nib_bits_of_float(a) == nib_bits_of_float(b) || (a == 0 && b == 0) || (isnan(a) && isnan(b));
}

/* One matrix of `lines` blocks, side by side where blocks share a segment of 128. */
static unsigned differences(const struct nib_quantizer *q, size_t row, unsigned tried) {
    enum { LINES = 32 };
    static float x[LINES * MOST];
    static uint32_t random[LINES * MOST];
    const unsigned flags = rows[row].flags;
    const size_t n = (size_t)rows[row].n, lines = flags & SQUARES ? 16 : LINES, per_line = flags & SEGMENTS ? 8 : 1;
    const size_t cols = flags & SQUARES ? 16 : n * per_line;
    float g =
        ldexpf(1 + (float)(next() % 128) / 128, tried % 8 == 0 ? (int)(next() % 200) - 110 : (int)(next() % 24) - 12);
    if (tried % 8 == 1 && (flags & GIVEN) == 0 && (flags & INFINITIES)) g = 0x1.FEp+127f; /* the largest exponents */
    if (tried % 8 == 2 && (flags & GIVEN) == 0 && (flags & SUBNORMALS))
        g = ldexpf(1, -116 - (int)(next() % 8)); /* beside subnormal numbers */
    for (size_t i = 0; i < lines * cols; i += flags & SQUARES ? lines * cols : n)
        fill(x + i, flags & SQUARES ? 256 : (int)n, g, flags);
    for (size_t i = 0; i < lines * cols; i++) random[i] = next();
    struct nib_quantize_options options = {
        .has_tensor_amax = (flags & GIVEN) != 0, .tensor_amax = g, .threads = 1, .seed = 77};
    if (flags & RANDOM) {
        options.random_bits = (const uint8_t *)random;
        options.random_bytes = lines * cols * sizeof *random;
    }
    struct nib_quantized out;
    struct nib_error error;
    unsigned count = 0;
    if (nib_quantized_alloc(q, lines, cols, NIB_ALONG_COLS, NIB_WANT_CODES | NIB_WANT_SCALES | NIB_WANT_VALUES, &out,
                            &error) != NIB_OK ||
        nib_quantize(q, (struct nib_view){x, NIB_F32, lines, cols, cols}, &options, &out, &error) != NIB_OK) {
        NIB_CHECKF(false, "%s: %s", rows[row].name, error.text);
        return 1;
    }
    for (size_t at = 0; at * n < lines * cols; at++) {
        struct block b = {.n = (int)n, .g = g, .index = (uint32_t)(at * n)};
        memcpy(b.x, x + at * n, n * sizeof *x);
        memcpy(b.r, random + at * n, n * sizeof *random);
        if (flags & SEGMENTS) {
            b.g = 0;
            for (size_t i = at / 8 * 128; i < at / 8 * 128 + 128; i++) b.g = fmaxf(b.g, fabsf(x[i]));
        }
        rows[row].oracle(&b);
        bool wrong = stored_scale(&out, at) != b.scale;
        size_t first = n;
        for (size_t i = 0; i < n && !wrong; i++) {
            bool same =
                out.codes[at * n + i] == b.code[i] && (!b.has_values || same_float(out.values[at * n + i], b.value[i]));
            if (!same) wrong = true, first = i;
        }
        if (wrong && count++ == 0) {
            fprintf(stderr, "\n%s, g %a, amax %a: scale %X, expected %X", rows[row].name, (double)b.g, (double)amax(&b),
                    stored_scale(&out, at), b.scale);
            if (first < n)
                fprintf(stderr, "; element %zu, %a: code %u, expected %u", first, (double)b.x[first],
                        out.codes[at * n + first], b.code[first]);
        }
    }
    nib_quantized_free(&out);
    return count;
}

static void every_quantizer_equals_its_oracle(void) {
    const unsigned matrices = nib_test_full() ? 4000 : 64;
    oracle_as_binary32();
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        const struct nib_quantizer *q;
        struct nib_error error;
        unsigned count = 0;
        state = 2024 + row;
        NIB_OK_OR_FAIL(nib_quantizer_open(rows[row].name, &q, &error), error);
        /* the order of factors shows in one block of a thousand */
        const unsigned often = rows[row].n == 16 && (rows[row].flags & GIVEN) ? 4 : 1;
        for (unsigned i = 0; i < often * matrices && count < 20; i++) count += differences(q, row, i);
        NIB_CHECKF(count == 0, "%s: %u blocks differ", rows[row].name, count);
        nib_quantizer_close(q);
    }
}

NIB_TEST_MAIN("quantizers against the catalogue",
              {"every quantizer equals its oracle", every_quantizer_equals_its_oracle})
