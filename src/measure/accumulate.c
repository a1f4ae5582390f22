#include "measure/accumulate.h"

#include <float.h>
#include <math.h>
#include <string.h>

void nib_levels_of(const struct nib_element *element, struct nib_levels *out) {
    memset(out, 0, sizeof *out);
    for (unsigned c = 0; c < NIB_CODES; c++)
        if (element->rank_of_code[c] != 255) out->level[c] = (double)element->level[c];
    out->clip = (double)element->max_magnitude * (1 + 0x1p-20);
}

/* One segment, after what is special in it has been set apart. */
struct segment {
    double x[NIB_SEGMENT], q[NIB_SEGMENT]; /* element and dequantized value */
    double t[NIB_SEGMENT], e[NIB_SEGMENT]; /* |x|/s and |level| - t */
    uint8_t bin[NIB_SEGMENT];
};

static bool has_specials(const float *restrict x, const double *restrict inverse, size_t count) {
    int special = 0;
    for (size_t i = 0; i < count; i++) special |= !(fabsf(x[i]) <= FLT_MAX) | !(inverse[i] > 0 && inverse[i] <= DBL_MAX);
    return special != 0;
}

static void fill(struct segment *restrict s, const struct nib_levels *levels, const float *restrict x,
                 const uint8_t *restrict codes, const double *restrict scale, const double *restrict inverse,
                 size_t count) {
    for (size_t i = 0; i < count; i++) s->q[i] = levels->level[codes[i]];
    for (size_t i = 0; i < count; i++) {
        double value = (double)x[i], level = s->q[i];
        s->x[i] = value;
        s->t[i] = fabs(value) * inverse[i];
        s->e[i] = fabs(level) - s->t[i];
        s->q[i] = level * scale[i];
        s->bin[i] = codes[i] & (NIB_CODES - 1);
    }
}

/* Takes what has no place in a sum out of it: zeros change no sum, and bin 16 is thrown away. */
static void set_apart(struct nib_lanes *restrict lanes, struct segment *restrict s, const float *restrict x,
                      const double *restrict scale, size_t count) {
    for (size_t i = 0; i < count; i++) {
        bool bad_scale = !(fabs(scale[i]) <= DBL_MAX), special = !(fabsf(x[i]) <= FLT_MAX);
        if (special) {
            lanes->nan_count += x[i] != x[i];
            lanes->inf_count += x[i] == x[i];
        } else if (bad_scale) {
            lanes->bad_scale_count++;
        } else if (scale[i] == 0) {
            lanes->zero_scale_count++;
        } else {
            continue;
        }
        if (special || bad_scale) {
            s->x[i] = 0;
            lanes->count--;
        }
        s->q[i] = s->t[i] = s->e[i] = 0;
        s->bin[i] = NIB_CODES;
    }
}

static size_t pad(struct segment *s, size_t count) {
    size_t padded = (count + NIB_LANES - 1) / NIB_LANES * NIB_LANES;
    for (size_t i = count; i < padded; i++) {
        s->x[i] = s->q[i] = s->t[i] = s->e[i] = 0;
        s->bin[i] = NIB_CODES;
    }
    return padded;
}

static void add_products(struct nib_lanes *restrict lanes, const struct segment *restrict s, size_t padded) {
    for (size_t i = 0; i < padded; i += NIB_LANES)
        for (size_t l = 0; l < NIB_LANES; l++) {
            double x = s->x[i + l], q = s->q[i + l], d = q - x;
            lanes->xx[l] += x * x;
            lanes->xq[l] += x * q;
            lanes->qq[l] += q * q;
            lanes->ee[l] += d * d;
            lanes->sum_t[l] += s->t[i + l];
        }
}

static void add_levels(struct nib_lanes *restrict lanes, const struct segment *restrict s, size_t padded) {
    for (size_t i = 0; i < padded; i += NIB_LANES)
        for (size_t l = 0; l < NIB_LANES; l++) {
            unsigned bin = s->bin[i + l];
            lanes->error[l][bin] += s->e[i + l];
            lanes->bin_count[l][bin]++;
        }
}

static void count_losses(struct nib_lanes *restrict lanes, const struct segment *restrict s, double clip,
                         size_t padded) {
    unsigned clipped = 0, lost = 0;
    for (size_t i = 0; i < padded; i++) {
        clipped += s->t[i] > clip;
        lost += (s->q[i] == 0) & (s->x[i] != 0);
    }
    lanes->clipped_count += clipped;
    lanes->underflow_count += lost;
}

void nib_lanes_add(struct nib_lanes *lanes, const struct nib_levels *levels, const float *x, const uint8_t *codes,
                   const double *scale, const double *inverse, size_t count) {
    struct segment segment;
    fill(&segment, levels, x, codes, scale, inverse, count);
    lanes->count += count;
    if (has_specials(x, inverse, count)) set_apart(lanes, &segment, x, scale, count);
    size_t padded = pad(&segment, count);
    add_products(lanes, &segment, padded);
    add_levels(lanes, &segment, padded);
    count_losses(lanes, &segment, levels->clip, padded);
}

static double pairwise(double lane[NIB_LANES]) {
    for (unsigned step = 1; step < NIB_LANES; step *= 2)
        for (unsigned l = 0; l < NIB_LANES; l += 2 * step) lane[l] += lane[l + step];
    return lane[0];
}

static double pairwise_of(const double *first, size_t stride) {
    double lane[NIB_LANES];
    for (unsigned l = 0; l < NIB_LANES; l++) lane[l] = first[l * stride];
    return pairwise(lane);
}

void nib_lanes_sum(const struct nib_lanes *lanes, struct nib_sums *out) {
    struct nib_sums sums = {.count = lanes->count,
                            .nan_count = lanes->nan_count,
                            .inf_count = lanes->inf_count,
                            .bad_scale_count = lanes->bad_scale_count,
                            .zero_scale_count = lanes->zero_scale_count,
                            .clipped_count = lanes->clipped_count,
                            .underflow_count = lanes->underflow_count};
    for (unsigned c = 0; c < NIB_CODES; c++) {
        for (unsigned l = 0; l < NIB_LANES; l++) sums.code_count[c] += lanes->bin_count[l][c];
        sums.code_error[c] = pairwise_of(&lanes->error[0][c], NIB_BINS);
    }
    sums.sum_t = pairwise_of(lanes->sum_t, 1);
    sums.xx = pairwise_of(lanes->xx, 1);
    sums.xq = pairwise_of(lanes->xq, 1);
    sums.qq = pairwise_of(lanes->qq, 1);
    sums.ee = pairwise_of(lanes->ee, 1);
    *out = sums;
}
