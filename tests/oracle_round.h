/* Rounding to a grid in exact rational arithmetic (GMP), written from docs/spec/rounding.md and
 * sharing nothing with the library: it finds the two neighbours, then compares the fraction of the
 * cell with one half. */
#ifndef NIB_ORACLE_ROUND_H
#define NIB_ORACLE_ROUND_H

#include <gmp.h>
#include <math.h>
#include <stdbool.h>

enum oracle_mode { ORACLE_RNE, ORACLE_RNA, ORACLE_RNZ, ORACLE_RTZ };

struct oracle_grid {
    int count;        /* of distinct values: two zeros are one place */
    int code[16];     /* ascending by value */
    double value[16]; /* binary32 numbers, exact here */
    mpq_t level[16];
    int plus_zero, minus_zero; /* codes, or -1 */
    bool mirrored;
};

static void oracle_grid_init(struct oracle_grid *g, const float level_of_code[16]) {
    g->count = 0;
    g->plus_zero = g->minus_zero = -1;
    for (int code = 0; code < 16; code++) {
        double value = (double)level_of_code[code];
        if (isnan(value)) continue;
        if (value == 0 && signbit(value)) g->minus_zero = code;
        if (value == 0 && !signbit(value)) g->plus_zero = code;
        if (value == 0 && g->minus_zero >= 0 && g->plus_zero >= 0) continue; /* the place is there already */
        int place = g->count++;
        for (; place > 0 && g->value[place - 1] > value; place--) {
            g->value[place] = g->value[place - 1];
            g->code[place] = g->code[place - 1];
        }
        g->value[place] = value;
        g->code[place] = code;
    }
    g->mirrored = true;
    for (int i = 0; i < g->count; i++) {
        mpq_init(g->level[i]);
        mpq_set_d(g->level[i], g->value[i]);
        g->mirrored = g->mirrored && g->value[i] == -g->value[g->count - 1 - i];
    }
}

static void oracle_grid_clear(struct oracle_grid *g) {
    for (int i = 0; i < g->count; i++) mpq_clear(g->level[i]);
}

/* The code of place i as seen from below (a cell that ends there) or from above. */
static int oracle_code(const struct oracle_grid *g, int i, bool from_below) {
    if (g->value[i] != 0) return g->code[i];
    int first = from_below ? g->minus_zero : g->plus_zero, second = from_below ? g->plus_zero : g->minus_zero;
    return first >= 0 ? first : second;
}

/* Place counted from zero in mirrored grids, else from the lowest level, -0 and +0 being two. */
static int oracle_place(const struct oracle_grid *g, int i, bool from_below) {
    int half = g->count / 2;
    if (g->mirrored) return i >= half ? i - half : g->count - 1 - half - i;
    bool two_zeros = g->plus_zero >= 0 && g->minus_zero >= 0;
    bool above_minus_zero = g->value[i] > 0 || (g->value[i] == 0 && !from_below);
    return i + (two_zeros && above_minus_zero);
}

/* Whether a number in the middle of places lo and lo + 1 goes to the upper one; the middle is not 0. */
static bool oracle_tie_up(const struct oracle_grid *g, enum oracle_mode mode, int lo) {
    mpq_t middle;
    mpq_init(middle);
    mpq_add(middle, g->level[lo], g->level[lo + 1]);
    int sign = mpq_sgn(middle);
    mpq_clear(middle);
    if (mode == ORACLE_RNA) return sign > 0;
    if (mode == ORACLE_RNZ) return sign < 0;
    bool even_lo = oracle_code(g, lo, false) % 2 == 0, even_hi = oracle_code(g, lo + 1, true) % 2 == 0;
    if (even_lo != even_hi) return even_hi;
    return oracle_place(g, lo + 1, true) % 2 == 0;
}

static inline int oracle_round(const struct oracle_grid *g, enum oracle_mode mode, float x) {
    mpq_t value, fraction, width;
    bool minus = signbit(x);
    int chosen = -1;
    if (isinf(x)) return minus ? oracle_code(g, 0, true) : oracle_code(g, g->count - 1, false);
    mpq_inits(value, fraction, width, NULL);
    mpq_set_d(value, (double)x);
    int lo = -1;
    for (int i = 0; i < g->count; i++)
        if (mpq_cmp(g->level[i], value) <= 0) lo = i;
    if (lo < 0)
        chosen = 0;
    else if (lo == g->count - 1 || mpq_equal(g->level[lo], value))
        chosen = lo;
    else if (mode == ORACLE_RTZ) {
        if (mpq_sgn(g->level[lo]) >= 0)
            chosen = lo;
        else if (mpq_sgn(g->level[lo + 1]) <= 0)
            chosen = lo + 1;
        else if (g->value[lo] + g->value[lo + 1] == 0)
            chosen = minus ? lo : lo + 1;
        else
            chosen = -g->value[lo] < g->value[lo + 1] ? lo : lo + 1;
    } else {
        mpq_sub(fraction, value, g->level[lo]);
        mpq_sub(width, g->level[lo + 1], g->level[lo]);
        mpq_div(fraction, fraction, width);
        int side = mpq_cmp_ui(fraction, 1, 2);
        if (side != 0)
            chosen = side < 0 ? lo : lo + 1;
        else if (mpq_sgn(value) == 0)
            chosen = minus ? lo : lo + 1;
        else
            chosen = oracle_tie_up(g, mode, lo) ? lo + 1 : lo;
    }
    mpq_clears(value, fraction, width, NULL);
    return oracle_code(g, chosen, minus);
}

#endif
