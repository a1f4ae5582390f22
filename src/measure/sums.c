/* Sums, and what follows from them. */
#include "measure/sums.h"

#include "base/fpenv.h"
#include <math.h>
#include <stddef.h>

void nib_sums_merge(struct nib_sums *into, const struct nib_sums *from) {
    into->count += from->count;
    into->nan_count += from->nan_count;
    into->inf_count += from->inf_count;
    into->bad_scale_count += from->bad_scale_count;
    into->zero_scale_count += from->zero_scale_count;
    into->clipped_count += from->clipped_count;
    into->underflow_count += from->underflow_count;
    for (unsigned c = 0; c < NIB_CODES; c++) {
        into->code_count[c] += from->code_count[c];
        into->code_error[c] += from->code_error[c];
    }
    into->sum_t += from->sum_t;
    into->xx += from->xx;
    into->xq += from->xq;
    into->qq += from->qq;
    into->ee += from->ee;
    into->block_count += from->block_count;
    into->crest_sum += from->crest_sum;
    into->kurtosis_sum += from->kurtosis_sum;
}

void nib_sums_add(struct nib_sums *into, const struct nib_sums *from) {
    struct nib_fpenv saved = nib_fpenv_enter();
    nib_sums_merge(into, from);
    nib_fpenv_leave(saved);
}

static double ratio(double numerator, double denominator) { return denominator == 0 ? NAN : numerator / denominator; }

/* Sign symmetry of the values; nib_element.symmetric is about the order of the codes, which two's
 * complement does not have. */
static bool has_sign_symmetry(const struct nib_element *element) {
    for (unsigned r = 0; r < element->levels; r++)
        if (element->level_of_rank[r] != -element->level_of_rank[element->levels - 1 - r]) return false;
    return true;
}

/* Buckets are magnitudes, except that a grid without sign symmetry has one per level. */
static double bucket_utilization(const struct nib_element *element, const struct nib_sums *sums, uint64_t levelled) {
    uint64_t bucket[NIB_CODES] = {0};
    bool by_magnitude = has_sign_symmetry(element);
    unsigned buckets = by_magnitude ? element->magnitudes : element->levels;
    for (unsigned c = 0; c < NIB_CODES; c++) {
        unsigned place = by_magnitude ? element->magnitude_of_code[c] : element->rank_of_code[c];
        if (place < NIB_CODES) bucket[place] += sums->code_count[c];
    }
    double entropy = 0;
    for (unsigned k = 0; k < buckets; k++) {
        double p = (double)bucket[k] / (double)levelled;
        if (p > 0) entropy -= p * log(p);
    }
    return levelled == 0 ? NAN : exp(entropy) / buckets;
}

static double code_entropy(const struct nib_sums *sums, uint64_t levelled) {
    double bits = 0;
    for (unsigned c = 0; c < NIB_CODES; c++) {
        double p = (double)sums->code_count[c] / (double)levelled;
        if (p > 0) bits -= p * log2(p);
    }
    return levelled == 0 ? NAN : bits;
}

void nib_bias_derive(const struct nib_element *element, const struct nib_sums *sums, struct nib_bias *out) {
    struct nib_bias bias = {0};
    uint64_t levelled = 0;
    double zero = 0, interior = 0, top = 0;
    for (unsigned c = 0; c < NIB_CODES; c++) {
        double magnitude = fabs((double)element->level[c]);
        levelled += sums->code_count[c];
        if (sums->code_count[c] == 0) continue;
        if (magnitude == 0)
            zero += sums->code_error[c];
        else if (magnitude < (double)element->max_magnitude)
            interior += sums->code_error[c];
        else
            top += sums->code_error[c];
    }
    double n = (double)levelled, count = (double)sums->count;
    bias.b_zero = ratio(zero, n);
    bias.b_interior = ratio(interior, n);
    bias.b_top = ratio(top, n);
    bias.b = ratio(zero + interior + top, n);
    bias.b_relative = ratio(zero + interior + top, sums->sum_t);
    bias.alpha = ratio(sums->xq, sums->xx);
    bias.one_minus_alpha = ratio(sums->xx - sums->xq, sums->xx);
    bias.b_eff = bucket_utilization(element, sums, levelled);
    bias.nmse = ratio(sums->ee, sums->xx);
    bias.sqnr_db = sums->xx == 0 ? NAN : 10 * log10(sums->xx / sums->ee); /* +inf for an exact copy */
    bias.norm_ratio = sqrt(ratio(sums->qq, sums->xx));
    bias.cosine = ratio(sums->xq, sqrt(sums->xx) * sqrt(sums->qq));
    bias.nmse_coherent = bias.one_minus_alpha * bias.one_minus_alpha;
    bias.nmse_incoherent = bias.nmse - bias.nmse_coherent;
    bias.clipped = ratio((double)sums->clipped_count, n);
    bias.underflow = ratio((double)sums->underflow_count, count);
    bias.crest = ratio(sums->crest_sum, (double)sums->block_count);
    bias.kurtosis = ratio(sums->kurtosis_sum, (double)sums->block_count);
    bias.code_entropy = code_entropy(sums, levelled);
    *out = bias;
}

void nib_bias_of(const struct nib_element *element, const struct nib_sums *sums, struct nib_bias *out) {
    struct nib_fpenv saved = nib_fpenv_enter();
    nib_bias_derive(element, sums, out);
    nib_fpenv_leave(saved);
}

static const struct {
    const char *name;
    size_t offset;
} statistics[NIB_STATISTICS] = {
#define ROW(field, heading, units, digits, long_name) {#field, offsetof(struct nib_bias, field)},
    NIB_STATISTIC_LIST(ROW)
#undef ROW
};

double nib_bias_get(const struct nib_bias *bias, enum nib_statistic statistic) {
    return *(const double *)((const char *)bias + statistics[statistic].offset);
}

const char *nib_statistic_name(enum nib_statistic statistic) { return statistics[statistic].name; }
