/* Rounding rules: thresholds, exactly, and the definition they are checked against. */
#include "core/key.h"
#include "base/error.h"
#include "base/fpenv.h"
#include <nibble/element.h>
#include <string.h>

/* A binary32 number, or a sum of a few, as an integer multiple of 2^-149: 277 bits and a sign. */
enum { LIMBS = 5 };
struct wide {
    uint64_t limb[LIMBS]; /* two's complement, lowest first */
};

static struct wide negative(struct wide x) {
    uint64_t carry = 1;
    for (int i = 0; i < LIMBS; i++) {
        x.limb[i] = ~x.limb[i] + carry;
        carry = carry && x.limb[i] == 0;
    }
    return x;
}

static struct wide sum(struct wide a, struct wide b) {
    uint64_t carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        uint64_t partial = a.limb[i] + carry;
        carry = partial < carry;
        a.limb[i] = partial + b.limb[i];
        carry += a.limb[i] < partial;
    }
    return a;
}

static struct wide wide_of_bits(uint32_t bits) {
    struct wide x = {{0}};
    uint32_t exponent = bits >> 23 & 0xFF;
    uint64_t significand = (bits & 0x7FFFFF) | (uint64_t)(exponent > 0) << 23;
    unsigned shift = exponent > 0 ? exponent - 1 : 0;
    x.limb[shift / 64] = significand << shift % 64;
    if (shift % 64 > 40) x.limb[shift / 64 + 1] = significand >> (64 - shift % 64);
    return bits >> 31 != 0 ? negative(x) : x;
}

static int sign_of(struct wide x) {
    uint64_t any = 0;
    if (x.limb[LIMBS - 1] >> 63 != 0) return -1;
    for (int i = 0; i < LIMBS; i++) any |= x.limb[i];
    return any != 0;
}

static struct wide wide_of_float(float x) {
    return wide_of_bits(nib_bits_of_float(x));
}

/* The sign of 2x - (a + b): below, at or above the middle. */
static int side_of_middle(uint32_t x, float a, float b) {
    struct wide two_x = sum(wide_of_bits(x), wide_of_bits(x));
    return sign_of(sum(two_x, negative(sum(wide_of_float(a), wide_of_float(b)))));
}

/* Sign symmetry of the values, whatever the codes are. */
static bool mirrors(const struct nib_element *e) {
    for (unsigned r = 0; r < e->levels; r++)
        if (e->level_of_rank[r] != -e->level_of_rank[e->levels - 1 - r]) return false;
    return true;
}

/* Where a tie between ranks `low` and `low + 1` goes, their middle not being zero. */
static bool tie_goes_up(const struct nib_element *e, enum nib_rounding mode, unsigned low) {
    unsigned code = e->code_of_rank[low], above = e->code_of_rank[low + 1];
    int middle = sign_of(sum(wide_of_float(e->level_of_rank[low]), wide_of_float(e->level_of_rank[low + 1])));
    if (mode == NIB_RNA) return middle > 0;
    if (mode == NIB_RNZ) return middle < 0;
    if (code % 2 != above % 2) return above % 2 == 0;
    unsigned place = mirrors(e) ? e->magnitude_of_code[above] : low + 1;
    return place % 2 == 0;
}

/* The smallest key that rounds to rank `low + 1` or above. */
static int32_t threshold_of(const struct nib_element *e, enum nib_rounding mode, unsigned low) {
    float a = e->level_of_rank[low], b = e->level_of_rank[low + 1];
    int32_t key_a = nib_key_of_bits(nib_bits_of_float(a)), key_b = nib_key_of_bits(nib_bits_of_float(b));
    /* Between the zeros, and in the middle of a cell around zero, the sign of the number decides. */
    if (a == -b) return 0;
    if (mode == NIB_RTZ) {
        if (a >= 0) return key_b;
        if (b <= 0) return key_a + 1;
        return -a < b ? key_b : key_a + 1; /* no level at zero: the one nearer to zero */
    }
    bool up = tie_goes_up(e, mode, low);
    int32_t below = key_a, above = key_b; /* below rounds down, above rounds up */
    while ((int64_t)above - below > 1) {
        int32_t key = (int32_t)(((int64_t)below + above) >> 1);
        int side = side_of_middle(nib_bits_of_key(key), a, b);
        if (side > 0 || (side == 0 && up))
            above = key;
        else
            below = key;
    }
    return above;
}

void nib_rule_compile(const struct nib_element *element, enum nib_rounding mode, struct nib_rule *out) {
    struct nib_fpenv saved = nib_fpenv_enter(); /* levels are compared as numbers, subnormal ones too */
    struct nib_rule rule = {.codes = 0, .symmetric = element->symmetric};
    unsigned half = element->levels / 2;
    for (unsigned i = 0; i < NIB_THRESHOLDS; i++)
        rule.threshold[i] = i + 1 < element->levels ? threshold_of(element, mode, i) : INT32_MAX;
    for (unsigned i = 0; i < 7; i++)
        rule.magnitude_threshold[i] = rule.symmetric && i + 1 < half ? rule.threshold[half + i] : INT32_MAX;
    for (unsigned r = 0; r < element->levels; r++) rule.codes |= (uint64_t)element->code_of_rank[r] << 4 * r;
    nib_fpenv_leave(saved);
    *out = rule;
}

/* |x - level| compared exactly between two levels: negative when `a` is nearer. */
static int compare_distance(uint32_t x, float a, float b) {
    struct wide from_a = sum(wide_of_bits(x), negative(wide_of_float(a)));
    struct wide from_b = sum(wide_of_bits(x), negative(wide_of_float(b)));
    if (sign_of(from_a) < 0) from_a = negative(from_a);
    if (sign_of(from_b) < 0) from_b = negative(from_b);
    return sign_of(sum(from_a, negative(from_b)));
}

static bool negative_zero(float x) {
    return nib_bits_of_float(x) == 0x80000000;
}

/* Whether rank r may be chosen for x when rounding toward zero: it lies between zero and x. */
static bool toward_zero(float level, float x) {
    return x >= 0 ? level >= 0 && level <= x : level <= 0 && level >= x;
}

/* Whether rank r is a better result for x than `best`. */
static bool better(const struct nib_element *e, enum nib_rounding mode, uint32_t x, unsigned r, unsigned best) {
    float a = e->level_of_rank[r], b = e->level_of_rank[best], value = nib_float_of_bits(x);
    bool minus = x >> 31 != 0;
    if (a == 0 && b == 0) return negative_zero(a) == minus; /* the two zeros */
    if (mode == NIB_RTZ) {
        bool a_may = toward_zero(a, value), b_may = toward_zero(b, value);
        if (a_may != b_may) return a_may;
        if (a_may) return compare_distance(x, a, b) < 0;
        /* Neither: x is nearer to zero than any level of its sign. */
        int smaller = compare_distance(0, a, b);
        return smaller != 0 ? smaller < 0 : (a < 0) == minus;
    }
    int nearer = compare_distance(x, a, b);
    if (nearer != 0) return nearer < 0;
    if (a == -b) return (a < 0) == minus; /* x is a zero */
    unsigned low = a < b ? r : best;
    /* +0 and -0 are one place on the line: the neighbour is the zero that faces the other level. */
    return tie_goes_up(e, mode, low) == (a > b);
}

uint8_t nib_element_round_ref(const struct nib_element *element, enum nib_rounding mode, float x) {
    struct nib_fpenv saved = nib_fpenv_enter();
    uint32_t bits = nib_bits_of_float(x);
    unsigned best = 0;
    if ((bits & NIB_BITS_MAGNITUDE) == NIB_BITS_INFINITY) bits -= 1; /* the largest finite number rounds alike */
    for (unsigned r = 1; r < element->levels; r++)
        if (better(element, mode, bits, r, best)) best = r;
    nib_fpenv_leave(saved);
    return element->code_of_rank[best];
}

static const char *const rounding_names[NIB_ROUNDINGS] = {"rne", "rna", "rnz", "rtz"};

const char *nib_rounding_name(enum nib_rounding mode) {
    return (unsigned)mode < NIB_ROUNDINGS ? rounding_names[mode] : "unknown";
}

enum nib_status nib_rounding_parse(const char *name, enum nib_rounding *out, struct nib_error *error) {
    for (int mode = 0; mode < NIB_ROUNDINGS; mode++)
        if (strcmp(name, rounding_names[mode]) == 0) {
            *out = (enum nib_rounding)mode;
            return NIB_OK;
        }
    return nib_fail(error, NIB_EINVAL, "unknown rounding mode \"%.40s\"; expected rne, rna, rnz or rtz", name);
}
