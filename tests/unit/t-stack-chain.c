/* The chain of paper-ufp4.md, section 3.1, over seeds: width 128, 48 rows, weights N(0, 1/d), no norm, no residual. */
#include <nibble/chain.h>

#include "job/sample.h"
#include "nib_test.h"
#include "stack/chain_layer.h"
#include <math.h>

enum { DEPTH = 12 };
static size_t seeds = 32;

static void fill(const void *self, uint64_t seed, uint64_t first, size_t count, float *out) {
    nib_distribution_fill(self, seed, first, count, 1, out);
}

static struct nib_distribution gaussian = {NIB_DENSITY_GAUSSIAN, 0, "gaussian"};

static struct nib_chain chain_of(const struct nib_quantizer *quantizer) {
    struct nib_chain chain = {.depth = DEPTH, .width = 128, .rows = 48, .backward = true,
                              .weights = {fill, &gaussian}, .signals = {fill, &gaussian}};
    for (int slot = 0; slot < NIB_SLOTS; slot++) chain.operand[slot].quantizer = quantizer;
    return chain;
}

/* Quantity by seed and record. */
static struct nib_chain_record *run(struct nib_chain chain, struct nib_error *error) {
    size_t records = nib_chain_records(&chain);
    struct nib_chain_record *all = malloc(seeds * records * sizeof *all);
    for (uint64_t seed = 0; all != NULL && seed < seeds; seed++) {
        chain.seed = seed;
        if (nib_chain_run(&chain, all + seed * records, error) != NIB_OK) {
            free(all);
            return NULL;
        }
    }
    return all;
}

struct spread {
    double mean, deviation;
};
static struct spread spread_of(const struct nib_chain_record *all, size_t records, size_t at, enum nib_chain_quantity quantity) {
    struct spread s = {0, 0};
    double square = 0;
    for (size_t i = 0; i < seeds; i++) s.mean += all[i * records + at].value[quantity] / (double)seeds;
    for (size_t i = 0; i < seeds; i++) square += pow(all[i * records + at].value[quantity] - s.mean, 2);
    s.deviation = sqrt(square / (double)(seeds - 1));
    return s;
}

static const struct {
    const char *name, *setting;
    double gain[5], product[5], norm_ratio, cosine; /* NAN: not given there */
} published[] = {
    {"e2m1-fp32", NULL, {.990, .981, .970, .937, .893}, {.987, .978, .964, .936, .905}, .997, .895},
    {"e1m2-fp32", NULL, {.999, 1.000, 1.007, 1.005, 1.005}, {1.002, 1.004, 1.006, 1.011, 1.015}, 1.104, .910},
    {"e2m1-fp32", "rounding=sr", {1.005, 1.005, 1.002, 1.000, .985}, {NAN, NAN, NAN, NAN, NAN}, 1.220, .807}};
static const size_t depths[5] = {1, 2, 4, 8, 12};

static void within(const char *what, const char *name, size_t depth, double value, struct spread s) {
    if (isnan(value)) return;
    double rounding = 0.0005; /* three decimals are given */
    NIB_CHECKF(fabs(value - s.mean) <= 3 * s.deviation + rounding, "%s, %s at depth %zu: %.4f, here %.4f and spread %.4f",
               name, what, depth, value, s.mean, s.deviation);
}

/* The mean gain is the mean product of alphas, at every depth and in every direction; and the numbers of one draw, which
 * another program made, lie within the seeds' spread (three standard deviations). */
static void gains_are_products_of_alphas(void) {
    if (nib_test_full()) seeds = 256;
    for (size_t p = 0; p < sizeof published / sizeof *published; p++) {
        struct nib_error error = {NIB_OK, 0, "", ""};
        const struct nib_quantizer *base = NULL, *quantizer = NULL;
        NIB_OK_OR_FAIL(nib_quantizer_open(published[p].name, &base, &error), error);
        const char *const settings[] = {"rounding=sr", "sr_bits=32"};
        NIB_OK_OR_FAIL(nib_quantizer_with(base, settings, published[p].setting == NULL ? 0 : 2, &quantizer, &error), error);
        struct nib_chain chain = chain_of(quantizer);
        size_t records = nib_chain_records(&chain);
        struct nib_chain_record *all = run(chain, &error);
        NIB_CHECKF(all != NULL, "%s", error.text);
        for (size_t at = 0; all != NULL && at < records; at++) {
            struct spread excess = spread_of(all, records, at, NIB_CHAIN_excess);
            NIB_CHECKF(fabs(excess.mean) <= 3 * excess.deviation / sqrt((double)seeds), "%s %s at depth %u: %+.5f +- %.5f",
                       published[p].name, nib_pass_name(all[at].pass), all[at].depth, excess.mean,
                       excess.deviation / sqrt((double)seeds));
        }
        for (size_t i = 0; all != NULL && i < 5; i++) {
            size_t at = (depths[i] - 1) * NIB_PASSES; /* fprop stands first */
            within("gain", published[p].name, depths[i], published[p].gain[i], spread_of(all, records, at, NIB_CHAIN_gain));
            within("product", published[p].name, depths[i], published[p].product[i],
                   spread_of(all, records, at, NIB_CHAIN_product_predicted));
        }
        if (all != NULL) {
            within("norm ratio", published[p].name, DEPTH, published[p].norm_ratio,
                   spread_of(all, records, (DEPTH - 1) * NIB_PASSES, NIB_CHAIN_norm_ratio));
            within("cosine", published[p].name, DEPTH, published[p].cosine,
                   spread_of(all, records, (DEPTH - 1) * NIB_PASSES, NIB_CHAIN_cosine));
        }
        free(all);
        nib_quantizer_close(quantizer);
        nib_quantizer_close(base);
    }
}

/* Without quantizers both chains are the same up to binary32, whatever stands between the GEMMs; rotations cancel. */
static void chains_without_quantizers_agree(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    const struct nib_rotation *rotation = NULL;
    NIB_OK_OR_FAIL(nib_rotation_open("hadamard16", &rotation, &error), error);
    for (int i = 0; i < 16; i++) {
        struct nib_chain chain = {.depth = 6, .width = 32, .inner = 64, .rows = 32, .backward = true, .norm = i % 2 || i / 4 == 3,
                                  .residual = i / 2 % 2, .activation = (enum nib_chain_activation)(i / 4),
                                  .weights = {fill, &gaussian}, .signals = {fill, &gaussian}};
        for (int slot = 0; slot < NIB_SLOTS; slot++) chain.operand[slot].rotation = rotation;
        size_t records = nib_chain_records(&chain);
        CU_ASSERT_FATAL(records <= 100);
        struct nib_chain_record out[100];
        NIB_OK_OR_FAIL(nib_chain_run(&chain, out, &error), error);
        for (size_t r = 0; r < records; r++) {
            const double *v = out[r].value;
            NIB_CHECKF(fabs(v[NIB_CHAIN_gain] - 1) < 2e-5 && v[NIB_CHAIN_cosine] > 1 - 1e-9 && v[NIB_CHAIN_alpha_a] == 1 &&
                           v[NIB_CHAIN_sqnr_db] > 100,
                       "chain %d, %s at depth %u: gain %.9f, cosine %.12f, %.1f dB", i, nib_pass_name(out[r].pass), out[r].depth,
                       v[NIB_CHAIN_gain], v[NIB_CHAIN_cosine], v[NIB_CHAIN_sqnr_db]);
        }
    }
    nib_rotation_close(rotation);
}

enum { ROWS = 3, COLS = 5, ALL = ROWS * COLS };

/* The sum of y weighted by dy has the gradient dx: central differences. */
static void slopes_are_those_of_finite_differences(void) {
    for (int kind = 0; kind < 4; kind++) {
        double x[ALL], u[ALL], dy[ALL], dx[ALL], du[ALL], y[ALL], step = 1e-5;
        for (int i = 0; i < ALL; i++) {
            x[i] = sin(3 * i + 0.3) * 2;
            u[i] = cos(5 * i + 1.0);
            dy[i] = sin(7 * i + 2.0);
        }
        if (kind == 0) nib_chain_norm_back(ROWS, COLS, x, dy, dx);
        if (kind == 1) nib_chain_act_back(NIB_CHAIN_RELU, ALL, x, dy, dx);
        if (kind == 2) nib_chain_act_back(NIB_CHAIN_SILU, ALL, x, dy, dx);
        if (kind == 3) nib_chain_gate_back(ALL, x, u, dy, dx, du);
        for (int i = 0; i < 2 * ALL; i++) {
            double *at = i < ALL ? &x[i] : &u[i - ALL], value = *at, slope = 0;
            if (i >= ALL && kind != 3) break;
            for (int side = -1; side <= 1; side += 2) {
                *at = value + side * step;
                if (kind == 0) nib_chain_norm(ROWS, COLS, x, y);
                if (kind == 1) nib_chain_act(NIB_CHAIN_RELU, ALL, x, y);
                if (kind == 2) nib_chain_act(NIB_CHAIN_SILU, ALL, x, y);
                if (kind == 3) nib_chain_gate(ALL, x, u, y);
                for (int j = 0; j < ALL; j++) slope += side * y[j] * dy[j] / (2 * step);
            }
            *at = value;
            double expected = i < ALL ? dx[i] : du[i - ALL];
            NIB_CHECKF(fabs(slope - expected) < 1e-8, "kind %d, element %d: %.10f instead of %.10f", kind, i, expected, slope);
        }
    }
}

static void what_cannot_be_computed_is_said(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    const struct nib_rotation *rotation = NULL;
    struct nib_chain chain = {.depth = 2, .width = 24, .inner = 24, .rows = 16, .backward = true, .activation = NIB_CHAIN_SWIGLU,
                              .weights = {fill, &gaussian}, .signals = {fill, &gaussian}};
    CU_ASSERT(nib_chain_check(&chain, &error) == NIB_EINVAL && strstr(error.text, "norm") != NULL);
    chain.norm = true;
    NIB_OK_OR_FAIL(nib_rotation_open("hadamard16", &rotation, &error), error);
    chain.operand[NIB_SLOT_FPROP_X].rotation = rotation;
    CU_ASSERT(nib_chain_check(&chain, &error) == NIB_EINVAL && strstr(error.text, "differently") != NULL);
    chain.operand[NIB_SLOT_FPROP_W].rotation = rotation;
    CU_ASSERT(nib_chain_check(&chain, &error) == NIB_EINVAL && strstr(error.text, "24 elements") != NULL);
    struct nib_chain deep = {.depth = 128, .width = 16, .rows = 16, .activation = NIB_CHAIN_SILU, .weights = {fill, &gaussian},
                             .signals = {fill, &gaussian}};
    struct nib_chain_record out[128];
    memset(out, 7, sizeof out);
    if (nib_chain_run(&deep, out, &error) != NIB_OK)
        CU_ASSERT(strstr(error.text, "norm keeps it inside") != NULL && out[0].depth == 0x07070707);
    nib_rotation_close(rotation);
}

NIB_TEST_MAIN("chain", {"gains are products of alphas", gains_are_products_of_alphas},
              {"chains without quantizers agree", chains_without_quantizers_agree},
              {"slopes are those of finite differences", slopes_are_those_of_finite_differences},
              {"what cannot be computed is said", what_cannot_be_computed_is_said})
