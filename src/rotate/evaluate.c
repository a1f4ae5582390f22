/* One group by every evaluation, as the words of the rotation file say. */
#include <math.h>
#include <string.h>
#include "core/convert.h"
#include "rotate/rotation.h"

static float flushed(const struct nib_rotation *r, float x) {
    return r->flush && fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}
static float to_bf16(float x) { return nib_float_of_bits(nib_bits_of_bf16(nib_bf16_of_bits(nib_bits_of_float(x)))); }

/* The base matrix across pieces of 2^k elements, y_i = sum over j of B_ij x_j from left to right. */
static void base_matrix(const struct nib_rotation *r, float *x, float *work) {
    unsigned power = r->size / r->base;
    for (unsigned at = 0; at < power; at++) {
        for (unsigned i = 0; i < r->base; i++) {
            float sum = 0;
            for (unsigned j = 0; j < r->base; j++) {
                int entry = r->inverse ? nib_hadamard_base(r->base, j, i) : nib_hadamard_base(r->base, i, j);
                float term = entry < 0 ? -x[j * power + at] : x[j * power + at];
                sum = j == 0 ? term : flushed(r, sum + term);
            }
            work[i] = sum;
        }
        for (unsigned i = 0; i < r->base; i++) x[i * power + at] = work[i];
    }
}

static void butterfly(const struct nib_rotation *r, float *x, float *work) {
    unsigned power = r->size / r->base;
    for (unsigned h = 1; h < power; h *= 2)
        for (unsigned i = 0; i < r->size; i++) {
            if ((i % power & h) != 0) continue;
            float a = x[i], b = x[i + h];
            x[i] = flushed(r, a + b);
            x[i + h] = flushed(r, a - b);
        }
    if (r->base > 1) base_matrix(r, x, work);
}

/* Sign of term i in output j. */
struct output {
    const struct nib_rotation *rotation;
    unsigned index;
};
static int entry_of(const void *context, unsigned i) {
    const struct output *o = context;
    return o->rotation->inverse ? nib_hadamard_entry(o->rotation, i, o->index) : nib_hadamard_entry(o->rotation, o->index, i);
}

/* From the first term to the last; or in partial sums, each from its first term on, which are then added in turn. */
static float sum_of_terms(const struct nib_rotation *r, const float *x, const struct output *output) {
    float total = 0, part = 0;
    bool parity = r->evaluation == NIB_EVALUATION_PARITY, whole = r->evaluation == NIB_EVALUATION_SEQUENTIAL;
    unsigned length = parity ? (r->size + 1) / 2 : whole ? r->size : 4;
    for (unsigned k = 0; k < r->size; k++) {
        unsigned i = !parity ? k : k < length ? 2 * k : 2 * (k - length) + 1;
        float term = entry_of(output, i) < 0 ? -x[i] : x[i];
        part = k % length == 0 ? term : flushed(r, part + term);
        if (k % length != length - 1 && k != r->size - 1) continue;
        total = k < length ? part : flushed(r, total + part);
    }
    return total;
}

static void term_by_term(const struct nib_rotation *r, float *x, float *work) {
    for (unsigned j = 0; j < r->size; j++) {
        struct output output = {r, j};
        if (r->evaluation == NIB_EVALUATION_EXACT) {
            bool root = r->normalization == NIB_NORMALIZATION_ORTHONORMAL && !r->own_factor;
            work[j] = nib_exact_sum(x, r->size, entry_of, &output, root ? 1 : r->factor, root ? r->size : 1);
            continue;
        }
        work[j] = sum_of_terms(r, x, &output);
    }
    memcpy(x, work, r->size * sizeof *x);
}

/* The bits of one operand of the unit. */
static void put(const struct nib_rotation *r, float x, uint8_t *bits, unsigned i) {
    if (r->operand == NIB_OPERAND_TF32)
        memcpy(bits + 4 * i, &x, 4);
    else {
        uint16_t half = nib_bf16_of_bits(nib_bits_of_float(x));
        memcpy(bits + 2 * i, &half, 2);
    }
}

/* One stage: products of `points` elements that lie `stride` apart. Entries hold 1/sqrt(points) as the operand holds
 * it, and the signs where the stage is the only one. */
static void unit_stage(const struct nib_rotation *r, float *x, unsigned points, unsigned stride) {
    const unsigned depth = points < 16 ? 16 : points, rows = r->size / points;
    const size_t width = r->operand == NIB_OPERAND_TF32 ? 4 : 2;
    uint8_t matrix[NIB_POINTS_MOST * NIB_POINTS_MOST * 4] = {0};
    uint8_t values[NIB_POINTS_MOST * 4];
    float entry = r->own_factor ? r->factor
                  : r->normalization == NIB_NORMALIZATION_ORTHONORMAL ? (float)(1 / sqrt((double)points)) : 1;
    bool folded = points == r->size;
    for (unsigned j = 0; j < points; j++)
        for (unsigned i = 0; i < points; i++) {
            float e = __builtin_popcount(i & j) % 2 == 0 ? entry : -entry;
            if (folded) e *= r->inverse ? r->sign[j] : r->sign[i];
            put(r, e, matrix, j * depth + i);
        }
    float result[NIB_POINTS_MOST];
    for (unsigned row = 0; row < rows; row++) {
        unsigned start = row / stride * stride * points + row % stride;
        memset(values, 0, depth * width);
        for (unsigned i = 0; i < points; i++) put(r, x[start + i * stride], values, i);
        struct nib_unit_matrix a = {.operand = r->operand, .bits = values, .stride = depth * width};
        struct nib_unit_matrix b = {.operand = r->operand, .bits = matrix, .stride = depth * width};
        for (unsigned j = 0; j < points; j++) {
            uint32_t bits = (uint32_t)nib_unit_dot_ref(r->unit, &a, 0, &b, j, depth, 0);
            memcpy(&result[j], &bits, sizeof bits);
        }
        for (unsigned j = 0; j < points; j++)
            x[start + j * stride] = r->stages == NIB_ROTATION_BF16 ? to_bf16(result[j]) : result[j];
    }
}

static void unit(const struct nib_rotation *r, float *x) {
    bool folded = r->size > 1 && r->size <= r->points; /* one stage, whose entries hold the signs */
    for (unsigned i = 0; i < r->size && !folded && !r->inverse; i++) x[i] *= r->sign[i];
    for (unsigned done = 1; done < r->size;) {
        unsigned left = r->size / done, points = left < r->points ? left : r->points;
        unit_stage(r, x, points, done);
        done *= points;
    }
    for (unsigned i = 0; i < r->size && !folded && r->inverse; i++) x[i] *= r->sign[i];
}

void nib_rotation_evaluate(const struct nib_rotation *r, float *x, float *work) {
    for (unsigned i = 0; i < r->size; i++) x[i] = flushed(r, x[i]);
    if (r->evaluation == NIB_EVALUATION_UNIT)
        unit(r, x);
    else {
        for (unsigned i = 0; i < r->size && !r->inverse; i++) x[i] *= r->sign[i];
        if (r->evaluation == NIB_EVALUATION_BUTTERFLY)
            butterfly(r, x, work);
        else
            term_by_term(r, x, work);
        bool exact = r->evaluation == NIB_EVALUATION_EXACT;
        for (unsigned i = 0; i < r->size && !exact; i++) x[i] = flushed(r, x[i] * r->factor);
        for (unsigned i = 0; i < r->size && r->inverse; i++) x[i] *= r->sign[i];
    }
    for (unsigned i = 0; i < r->size; i++) {
        if (isnan(x[i]))
            x[i] = nib_float_of_bits(0x7FFFFFFF);
        else if (r->output == NIB_ROTATION_BF16)
            x[i] = to_bf16(x[i]);
    }
}
