#include "stack/likeness.h"

enum { LANES = 8, CHUNK = 4096 };

/* Lanes within a chunk, chunks in order: the same sums whatever compiles them, and small errors for long arrays. */
#define DEFINE(name, type_x, type_q)                                                              \
    void name(struct nib_likeness *to, size_t count, const type_x *x, const type_q *q) {          \
        for (size_t first = 0; first < count; first += CHUNK) {                                   \
            size_t n = count - first < CHUNK ? count - first : CHUNK, i = 0;                      \
            double xx[LANES] = {0}, xq[LANES] = {0}, qq[LANES] = {0}, ee[LANES] = {0};            \
            for (; i + LANES <= n; i += LANES)                                                    \
                for (size_t k = 0; k < LANES; k++) {                                              \
                    double a = (double)x[first + i + k], b = (double)q[first + i + k], e = b - a; \
                    xx[k] += a * a;                                                               \
                    xq[k] += a * b;                                                               \
                    qq[k] += b * b;                                                               \
                    ee[k] += e * e;                                                               \
                }                                                                                 \
            for (size_t k = 0; i < n; i++, k++) {                                                 \
                double a = (double)x[first + i], b = (double)q[first + i], e = b - a;             \
                xx[k] += a * a;                                                                   \
                xq[k] += a * b;                                                                   \
                qq[k] += b * b;                                                                   \
                ee[k] += e * e;                                                                   \
            }                                                                                     \
            for (int lane = 0; lane < LANES; lane++) {                                            \
                to->xx += xx[lane];                                                               \
                to->xq += xq[lane];                                                               \
                to->qq += qq[lane];                                                               \
                to->ee += ee[lane];                                                               \
            }                                                                                     \
        }                                                                                         \
    }
DEFINE(nib_likeness_f64, double, double)
DEFINE(nib_likeness_f32, double, float)
DEFINE(nib_likeness_plain, float, float)

void nib_likeness_add(struct nib_likeness *to, const struct nib_likeness *from) {
    to->xx += from->xx;
    to->xq += from->xq;
    to->qq += from->qq;
    to->ee += from->ee;
}

struct nib_likeness nib_likeness_total(const struct nib_likeness *part, size_t parts) {
    struct nib_likeness total = {0};
    for (size_t i = 0; i < parts; i++) nib_likeness_add(&total, &part[i]);
    return total;
}

static struct nib_likeness without(const struct nib_likeness *part, size_t parts, size_t left_out) {
    struct nib_likeness total = {0};
    for (size_t i = 0; i < parts; i++)
        if (i != left_out) nib_likeness_add(&total, &part[i]);
    return total;
}

struct nib_estimate nib_likeness_difference(const struct nib_likeness *left, const struct nib_likeness *right,
                                            size_t parts, nib_likeness_function *function) {
    struct nib_likeness l = nib_likeness_total(left, parts), r = {0};
    if (right != NULL) r = nib_likeness_total(right, parts);
    struct nib_estimate out = {function(&l) - (right != NULL ? function(&r) : 0), NAN};
    if (parts < 2) return out;
    double mean = 0, square = 0;
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < parts; i++) {
            struct nib_likeness a = without(left, parts, i), b = {0};
            if (right != NULL) b = without(right, parts, i);
            double value = function(&a) - (right != NULL ? function(&b) : 0);
            if (round == 0)
                mean += value / (double)parts;
            else
                square += (value - mean) * (value - mean);
        }
    out.error = sqrt(square * ((double)parts - 1) / (double)parts);
    return out;
}

struct nib_estimate nib_likeness_estimate(const struct nib_likeness *part, size_t parts,
                                          nib_likeness_function *function) {
    return nib_likeness_difference(part, NULL, parts, function);
}
