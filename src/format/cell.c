#include "format/cell.h"

#include <math.h>
#include <stddef.h>
#include "base/fpenv.h"
#include "core/round.h"

/* A place on the line of binary32 keys; a border between two numbers lies at a half. */
static double distance(double key, double border) {
    return fabs(key - border);
}

/* Between ranks low and low + 1. RNA and RNZ differ exactly where the middle is a binary32 number. */
static double element_border_key(const struct nib_rule *away, const struct nib_rule *toward,
                                 const struct nib_rule *rule, const struct nib_element *e, enum nib_rounding mode,
                                 unsigned low) {
    float a = e->level_of_rank[low], b = e->level_of_rank[low + 1];
    if (mode != NIB_RTZ || a == -b) return ((double)away->threshold[low] + (double)toward->threshold[low] - 1) / 2;
    bool on_upper = rule->threshold[low] == nib_key_of_bits(nib_bits_of_float(b));
    return on_upper ? (double)rule->threshold[low] : (double)rule->threshold[low] - 1;
}

static double element_border(const struct nib_rule *rule, const struct nib_element *e, enum nib_rounding mode,
                             unsigned low) {
    double a = (double)e->level_of_rank[low], b = (double)e->level_of_rank[low + 1];
    if (mode != NIB_RTZ || a == -b) return (a + b) / 2 + 0.0; /* and no -0 */
    return rule->threshold[low] == nib_key_of_bits(nib_bits_of_float((float)b)) ? b : a;
}

void nib_element_cell(const struct nib_element *element, enum nib_rounding mode, float x, struct nib_cell *out) {
    struct nib_rule rule, away, toward;
    struct nib_fpenv saved = nib_fpenv_enter();
    nib_rule_compile(element, mode, &rule);
    nib_rule_compile(element, NIB_RNA, &away);
    nib_rule_compile(element, NIB_RNZ, &toward);
    uint32_t bits = nib_bits_of_float(x);
    double key = (double)nib_key_of_bits(bits);
    unsigned rank = nib_round_rank(rule.threshold, bits);
    struct nib_cell cell = {.code = element->code_of_rank[rank],
                            .value = element->level_of_rank[rank],
                            .below = -INFINITY,
                            .above = INFINITY,
                            .distance_ulp = INFINITY};
    for (unsigned low = rank > 0 ? rank - 1 : 0; low <= rank && low + 1 < element->levels; low++) {
        double border = element_border(&rule, element, mode, low);
        if (low < rank)
            cell.below = border;
        else
            cell.above = border;
        if (element->level_of_rank[low] == element->level_of_rank[low + 1]) continue; /* the two zeros */
        double steps = distance(key, element_border_key(&away, &toward, &rule, element, mode, low));
        cell.distance_ulp = steps < cell.distance_ulp ? steps : cell.distance_ulp;
    }
    cell.tie = mode != NIB_RTZ && nib_round_rank(away.threshold, bits) != nib_round_rank(toward.threshold, bits);
    nib_fpenv_leave(saved);
    *out = cell;
}

/* The key of a positive real number: halves stand for all numbers between two keys. */
static double key_of_real(double value) {
    if (value >= 0x1.ffffffp127) return (double)NIB_BITS_INFINITY;
    float nearest = (float)value;
    double key = (double)nib_key_of_bits(nib_bits_of_float(nearest));
    if ((double)nearest == value) return key;
    return (double)nearest < value ? key + 0.5 : key - 0.5;
}

void nib_scale_cell(const struct nib_scale *scale, enum nib_scale_rounding mode, float x, struct nib_cell *out) {
    struct nib_fpenv saved = nib_fpenv_enter();
    uint32_t bits = nib_bits_of_float(x), magnitude = bits & NIB_BITS_MAGNITUDE;
    uint32_t code = nib_scale_encode(scale, mode, x);
    struct nib_cell cell = {.code = code, .value = nib_scale_decode(scale, code)};
    if (nib_bits_are_nan(bits)) {
        cell.below = cell.above = cell.distance_ulp = (double)NAN;
        nib_fpenv_leave(saved);
        *out = cell;
        return;
    }
    bool negative = scale->has_sign && bits >> 31 != 0;
    uint32_t place = scale->has_sign ? code & ~(1u << (scale->bits - 1)) : code;
    double value = (double)nib_scale_decode(scale, place), size = (double)nib_float_of_bits(magnitude);
    double inner = scale->has_sign ? 0 : -INFINITY, outer = INFINITY;
    if (place > 0) {
        double below = (double)nib_scale_decode(scale, place - 1);
        inner = mode == NIB_SCALE_NEAREST ? (below + value) / 2 : mode == NIB_SCALE_UP ? below : value;
    }
    if (place < scale->max_code) {
        double above = (double)nib_scale_decode(scale, place + 1);
        outer = mode == NIB_SCALE_NEAREST ? (value + above) / 2 : mode == NIB_SCALE_UP ? value : above;
    }
    double key = (double)magnitude;
    cell.tie = mode == NIB_SCALE_NEAREST && (size == inner || size == outer) && size > 0;
    cell.distance_ulp = isinf(outer) ? INFINITY : distance(key, key_of_real(outer));
    if (place > 0) {
        double steps = distance(key, key_of_real(inner));
        cell.distance_ulp = steps < cell.distance_ulp ? steps : cell.distance_ulp;
    }
    cell.below = negative ? -outer : inner;
    cell.above = negative ? -inner + 0.0 : outer;
    nib_fpenv_leave(saved);
    *out = cell;
}
