#include "expect/cells.h"

#include "core/key.h"
#include <math.h>
#include <string.h>

void nib_moments_add(struct nib_moments *into, double weight, const struct nib_moments *from) {
    double *a = (double *)into;
    const double *b = (const double *)from;
    for (size_t i = 0; i < sizeof *into / sizeof *a; i++) a[i] += weight * b[i];
}

static uint64_t count_of(double share) {
    return share > 0 ? (uint64_t)llround(share * (double)NIB_EXPECT_COUNT) : 0;
}

void nib_moments_sums(const struct nib_moments *moments, struct nib_sums *out) {
    struct nib_sums sums = {0};
    const double n = (double)NIB_EXPECT_COUNT;
    sums.count = count_of(1 - moments->bad_scale);
    sums.bad_scale_count = count_of(moments->bad_scale);
    sums.zero_scale_count = count_of(moments->zero_scale);
    sums.clipped_count = count_of(moments->clipped);
    sums.underflow_count = count_of(moments->underflow);
    for (unsigned c = 0; c < NIB_CODES; c++) {
        sums.code_count[c] = count_of(moments->share[c]);
        sums.code_error[c] = sums.code_count[c] == 0 ? 0 : n * moments->error[c];
    }
    sums.sum_t = n * moments->sum_t;
    sums.xx = n * moments->xx;
    sums.xq = n * moments->xq;
    sums.qq = n * moments->qq;
    sums.ee = n * moments->ee;
    *out = sums;
}

/* The smallest real number that rounds to `key` or above in bfloat16, to nearest even. */
static double bf16_border(int32_t key) {
    int32_t step = 1 << 16, up = (key + step - 1) & ~(step - 1); /* keys of bfloat16 numbers, for positive ones */
    if (key < 0) up = -(-(key + 1) / step * step) - 1;           /* -1 - bits of the magnitude */
    if (up == 0) return 0;
    double here = (double)nib_float_of_bits(nib_bits_of_key(up)),
           below = (double)nib_float_of_bits(nib_bits_of_key(up - step));
    return (here + below) / 2;
}

/* A threshold is the first binary32 number of the upper cell: the border itself, or the next number after a tie. */
static double border_of(const struct nib_element *element, unsigned rank, int32_t key, bool bf16) {
    if (bf16) return bf16_border(key);
    double exact = ((double)element->level_of_rank[rank - 1] + (double)element->level_of_rank[rank]) / 2;
    double here = (double)nib_float_of_bits(nib_bits_of_key(key));
    double before = (double)nib_float_of_bits(nib_bits_of_key(key - 1));
    return exact <= here && exact >= before ? exact : here;
}

void nib_cells_make(const struct nib_element *element, enum nib_rounding mode, unsigned sr_bits, bool bf16,
                    bool drop_zero, struct nib_cells *out) {
    struct nib_rule rule;
    struct nib_cells cells = {.ranks = element->levels,
                              .sr_bits = sr_bits,
                              .mirrored = true,
                              .clip = (double)element->max_magnitude * (1 + 0x1p-20)};
    nib_rule_compile(element, mode, &rule);
    for (unsigned r = 0; r < cells.ranks; r++) {
        cells.level[r] = (double)element->level_of_rank[r];
        cells.code[r] = element->code_of_rank[r];
        if (r > 0) cells.border[r - 1] = border_of(element, r, rule.threshold[r - 1], bf16);
    }
    for (unsigned r = 0; r < cells.ranks; r++) {
        unsigned other = cells.ranks - 1 - r;
        cells.mirrored &= cells.level[r] == -cells.level[other];
        if (r > 0)
            cells.mirrored &= fabs(cells.border[r - 1] + cells.border[other]) <= 1e-6 * fabs(cells.border[r - 1]);
        if (cells.level[r] != 0) continue;
        if (r == 0 || cells.level[r - 1] != 0) cells.negative_zero = cells.code[r];
        cells.zero = cells.code[r];
    }
    if (drop_zero)
        for (unsigned r = 0; r < cells.ranks; r++)
            if (cells.level[r] == 0) cells.code[r] = cells.negative_zero = cells.zero;
    *out = cells;
}

/* Integrals over a piece of the axis on which |t| keeps its sign or the level is fixed. */
struct piece {
    double mass, first, magnitude, second; /* of 1, x, |x|, x^2 */
};

static void add_level(struct nib_moments *out, double level, unsigned code, const struct piece *p, double s) {
    double magnitude = fabs(level);
    out->share[code] += p->mass;
    out->error[code] += magnitude * p->mass - p->magnitude / s;
    out->xs[code] += s * p->first;
    out->ss[code] += s * s * p->mass;
    out->second[code] += p->second;
    out->xq += level * s * p->first;
    out->qq += level * level * s * s * p->mass;
    out->ee += p->second - 2 * level * s * p->first + level * level * s * s * p->mass;
    if (level == 0) out->underflow += p->mass;
}

/* Integrals from 0 to x, of both signs where the density is symmetric. */
struct edges {
    double v[NIB_CODES + 1][3];
    double x[NIB_CODES + 1];
};

static void piece_between(const double low[3], const double high[3], double x_low, double x_high, struct piece *out) {
    out->mass = high[0] - low[0];
    out->first = high[1] - low[1];
    out->second = high[2] - low[2];
    out->magnitude = x_high <= 0 ? low[1] - high[1] : x_low >= 0 ? out->first : high[1] + low[1];
}

static void add_rounded(const struct nib_cells *cells, const struct nib_density *density, double bound, double s,
                        struct nib_moments *out) {
    struct edges e;
    unsigned n = cells->ranks;
    bool mirror = cells->mirrored && density->symmetric;
    for (unsigned i = n + 1; i-- > 0;) {
        double x = i == 0 ? -bound : i == n ? bound : fmin(fmax(cells->border[i - 1] * s, -bound), bound);
        e.x[i] = x;
        if (mirror && 2 * i < n) {
            e.x[i] = -e.x[n - i];
            e.v[i][0] = -e.v[n - i][0];
            e.v[i][1] = e.v[n - i][1];
            e.v[i][2] = -e.v[n - i][2];
        } else if (i < n && x == e.x[i + 1]) {
            memcpy(e.v[i], e.v[i + 1], sizeof e.v[i]);
        } else {
            nib_density_integrals(density, x, e.v[i]);
        }
    }
    for (unsigned r = 0; r < n; r++) {
        struct piece p;
        if (e.x[r] == e.x[r + 1]) continue;
        piece_between(e.v[r], e.v[r + 1], e.x[r], e.x[r + 1], &p);
        add_level(out, cells->level[r], cells->code[r], &p, s);
    }
}

/* Weighted by the probability `p` of the piece's element to be taken, an affine function of t: a + b t. */
static void add_affine(struct nib_moments *out, double level, unsigned code, const double low[3], const double high[3],
                       double sign, double a, double b, double s) {
    double m0 = high[0] - low[0], m1 = high[1] - low[1], m2 = high[2] - low[2];
    double weight = a * m0 + b * m1 / s;   /* E[p] */
    double weighted = a * m1 + b * m2 / s; /* E[x p] */
    out->share[code] += weight;
    out->error[code] += fabs(level) * weight - sign * weighted / s;
    out->xq += level * s * weighted;
    out->qq += level * level * s * s * weight;
    out->ee += level * level * s * s * weight - 2 * level * s * weighted;
    if (level == 0) out->underflow += weight;
}

/* One gap between neighbouring levels, on one side of zero: from `near` to `far` from it. The probability of `far` is
 * floor(2^n p)/2^n: a sum of steps for few bits, and p - 2^-(n+1) for many. */
static void add_gap(const struct nib_cells *cells, const struct nib_density *density, double start, double near,
                    double far, unsigned code_near, unsigned code_far, double bound, double s,
                    struct nib_moments *out) {
    enum { STEPS_UP_TO = 8 };
    double sign = far > near ? 1 : -1, gap = far - near;
    double steps = cells->sr_bits <= STEPS_UP_TO ? ldexp(1, (int)cells->sr_bits) : 1;
    double shift = cells->sr_bits <= STEPS_UP_TO ? 0 : ldexp(1, -(int)cells->sr_bits - 1);
    double here[3], next[3], x = start * s;
    if (fabs(x) >= bound) return;
    nib_density_integrals(density, x, here);
    for (double k = floor((start - near) / gap * steps); k < steps; k++) {
        double x_next = (near + gap * (k + 1) / steps) * s;
        bool last = fabs(x_next) >= bound;
        if (last) x_next = sign * bound;
        nib_density_integrals(density, x_next, next);
        const double *low = sign > 0 ? here : next, *high = sign > 0 ? next : here;
        double a = steps > 1 ? k / steps : -near / gap - shift, b = steps > 1 ? 0 : 1 / gap;
        add_affine(out, far, code_far, low, high, sign, a, b, s);
        add_affine(out, near, code_near, low, high, sign, 1 - a, -b, s);
        out->ee += high[2] - low[2];
        if (last) return;
        memcpy(here, next, sizeof here);
    }
}

static unsigned code_at(const struct nib_cells *cells, unsigned rank, bool negative) {
    if (cells->level[rank] == 0) return negative ? cells->negative_zero : cells->zero;
    return cells->code[rank];
}

static void add_stochastic(const struct nib_cells *cells, const struct nib_density *density, double bound, double s,
                           struct nib_moments *out) {
    for (unsigned r = 0; r + 1 < cells->ranks; r++) {
        double a = cells->level[r], b = cells->level[r + 1];
        if (a == b) continue;
        unsigned low_positive = code_at(cells, r, false), high_negative = code_at(cells, r + 1, true);
        if (b > 0) add_gap(cells, density, fmax(a, 0), a, b, low_positive, cells->code[r + 1], bound, s, out);
        if (a < 0) add_gap(cells, density, fmin(b, 0), b, a, high_negative, cells->code[r], bound, s, out);
    }
    double edge[3], end[3];
    struct piece p;
    double top = cells->level[cells->ranks - 1] * s, bottom = cells->level[0] * s;
    if (bound > top) {
        nib_density_integrals(density, top, edge);
        nib_density_integrals(density, bound, end);
        piece_between(edge, end, top, bound, &p);
        add_level(out, cells->level[cells->ranks - 1], cells->code[cells->ranks - 1], &p, s);
    }
    if (-bound < bottom) {
        nib_density_integrals(density, bottom, edge);
        nib_density_integrals(density, -bound, end);
        piece_between(end, edge, -bound, bottom, &p);
        add_level(out, cells->level[0], cells->code[0], &p, s);
    }
}

/* What does not depend on the rounding. */
static void add_common(const struct nib_cells *cells, const struct nib_density *density, double bound, double s,
                       struct nib_moments *out) {
    double high[3], low[3], clip = cells->clip * s;
    nib_density_integrals(density, bound, high);
    nib_density_integrals(density, -bound, low);
    out->xx += high[2] - low[2];
    out->sum_t += (high[1] + low[1]) / s;
    if (bound > clip) out->clipped += high[0] - low[0] - nib_density_share(density, clip);
}

void nib_cells_add(const struct nib_cells *cells, const struct nib_density *density, double bound, double s,
                   double weight, struct nib_moments *out) {
    struct nib_moments own = {.share = {0}};
    if (bound > density->largest) bound = density->largest;
    add_common(cells, density, bound, s, &own);
    if (cells->sr_bits > 0)
        add_stochastic(cells, density, bound, s, &own);
    else
        add_rounded(cells, density, bound, s, &own);
    nib_moments_add(out, weight, &own);
}

/* One side of a shell, from `near` to `far` from zero. */
static void add_side(const struct nib_cells *cells, const struct nib_density *density, double near, double far,
                     double sign, double s, struct nib_moments *out) {
    double low = sign > 0 ? near : -far, high = sign > 0 ? far : -near, whole[3];
    nib_density_between(density, low, high, whole);
    out->xx += whole[2];
    out->sum_t += sign * whole[1] / s;
    if (far > cells->clip * s) {
        double clipped[3], from = fmax(near, cells->clip * s);
        nib_density_between(density, sign > 0 ? from : -far, sign > 0 ? far : -from, clipped);
        out->clipped += clipped[0];
    }
    for (unsigned r = 0; r < cells->ranks; r++) {
        double a = r == 0 ? low : fmin(fmax(cells->border[r - 1] * s, low), high);
        double b = r + 1 == cells->ranks ? high : fmin(fmax(cells->border[r] * s, low), high), v[3];
        if (!(a < b)) continue;
        nib_density_between(density, a, b, v);
        struct piece p = {v[0], v[1], sign * v[1], v[2]};
        add_level(out, cells->level[r], cells->code[r], &p, s);
    }
}

void nib_cells_add_shell(const struct nib_cells *cells, const struct nib_density *density, double low, double high,
                         double s, double weight, struct nib_moments *out) {
    struct nib_moments own = {.share = {0}}, inner = {.share = {0}};
    high = fmin(high, density->largest);
    if (!(low < high)) return;
    if (cells->sr_bits > 0) { /* without the tails' precision, which no scale needs that is rounded stochastically */
        nib_cells_add(cells, density, high, s, 1, &own);
        nib_cells_add(cells, density, low, s, 1, &inner);
        nib_moments_add(&own, -1, &inner);
    } else {
        add_side(cells, density, low, high, 1, s, &own);
        add_side(cells, density, low, high, -1, s, &own);
    }
    nib_moments_add(out, weight, &own);
}

static void add_weighted(const struct nib_cells *cells, unsigned r, double x, double weight, double s,
                         struct nib_moments *out) {
    struct piece p = {weight, weight * x, weight * fabs(x), weight * x * x};
    if (weight != 0) add_level(out, cells->level[r], code_at(cells, r, x < 0), &p, s);
}

/* Stochastic rounding of one number. On a level it stays there, unless division by the scale has put it just below:
 * then n bits truncate the discarded fraction to (2^n - 1)/2^n. */
static void add_one_stochastic(const struct nib_cells *cells, double x, double weight, double s,
                               struct nib_moments *out) {
    const double hair = 1e-6;
    int away = x > 0 ? 1 : -1, r = x > 0 ? 0 : (int)cells->ranks - 1, last = x > 0 ? (int)cells->ranks - 1 : 0;
    double t = x / s, n = ldexp(1, (int)cells->sr_bits);
    while (r != last && cells->level[r + away] * away <= 0) r += away; /* levels of the other sign, and 0 */
    while (r != last && fabs(t) >= fabs(cells->level[r + away]) * (1 - hair)) r += away;
    double level = cells->level[r];
    bool on = level * away > 0 && fabs(t - level) <= hair * fabs(level);
    if (on) {
        double lost = cells->below / n;
        add_weighted(cells, (unsigned)r, x, weight * (1 - lost), s, out);
        add_weighted(cells, (unsigned)(r - away), x, weight * lost, s, out);
    } else if (r == last) {
        add_weighted(cells, (unsigned)r, x, weight, s, out);
    } else {
        double far = cells->level[r + away], p = fmax(0, floor((t - level) / (far - level) * n) / n);
        add_weighted(cells, (unsigned)r, x, weight * (1 - p), s, out);
        add_weighted(cells, (unsigned)(r + away), x, weight * p, s, out);
    }
}

static void add_one(const struct nib_cells *cells, double x, double weight, double s, struct nib_moments *out) {
    double t = x / s;
    unsigned r = 0;
    if (cells->sr_bits > 0) {
        add_one_stochastic(cells, x, weight, s, out);
    } else {
        while (r + 1 < cells->ranks && t >= cells->border[r]) r++;
        add_weighted(cells, r, x, weight, s, out);
    }
    out->xx += weight * x * x;
    out->sum_t += weight * fabs(t);
    if (fabs(t) > cells->clip) out->clipped += weight;
}

void nib_cells_add_point(const struct nib_cells *cells, double x, double positive, double negative, double s,
                         struct nib_moments *out) {
    if (positive != 0) add_one(cells, x, positive, s, out);
    if (negative != 0) add_one(cells, -x, negative, s, out);
}

void nib_cells_add_zero(const struct nib_density *density, double low, double high, bool bad, double weight,
                        struct nib_moments *out) {
    double right[3], left[3];
    nib_density_between(density, low, high, right);
    nib_density_between(density, -high, -low, left);
    double share = weight * (right[0] + left[0]), energy = weight * (right[2] + left[2]);
    if (bad) {
        out->bad_scale += share;
        return;
    }
    out->zero_scale += share;
    out->underflow += share;
    out->xx += energy;
    out->ee += energy;
}
