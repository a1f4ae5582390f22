/* Standard errors by the jackknife over batches: each statistic is computed again with one batch left
 * out, which is honest for ratios and logarithms where adding variances is not. */
#include <nibble/measure.h>

#include "base/fpenv.h"
#include "measure/sums.h"
#include <math.h>
#include <string.h>

/* out[b] = the sums of all batches but b. */
static void leave_one_out(const struct nib_measurement *m, struct nib_sums out[NIB_BATCHES]) {
    struct nib_sums before = {0}, after = {0};
    for (unsigned b = 0; b < m->batches; b++) {
        out[b] = before;
        nib_sums_merge(&before, &m->batch[b]);
    }
    for (unsigned b = m->batches; b-- > 0;) {
        nib_sums_merge(&out[b], &after);
        nib_sums_merge(&after, &m->batch[b]);
    }
}

/* The jackknife error of a statistic from its leave-one-out values. A batch without which the
 * statistic does not exist makes the error unknown. */
static double jackknife(const double *value, unsigned count) {
    if (count < 2) return NAN;
    double mean = 0, squares = 0;
    for (unsigned b = 0; b < count; b++) mean += value[b] / count;
    for (unsigned b = 0; b < count; b++) squares += (value[b] - mean) * (value[b] - mean);
    return sqrt(squares * (count - 1) / count);
}

struct replicas {
    double value[NIB_STATISTICS];
    double left_out[NIB_STATISTICS][NIB_BATCHES];
};

static void replicate(const struct nib_measurement *m, struct replicas *out) {
    struct nib_sums sums[NIB_BATCHES];
    struct nib_bias bias;
    nib_bias_derive(m->element, &m->total, &bias);
    for (int s = 0; s < NIB_STATISTICS; s++) out->value[s] = nib_bias_get(&bias, (enum nib_statistic)s);
    leave_one_out(m, sums);
    for (unsigned b = 0; b < m->batches; b++) {
        nib_bias_derive(m->element, &sums[b], &bias);
        for (int s = 0; s < NIB_STATISTICS; s++) out->left_out[s][b] = nib_bias_get(&bias, (enum nib_statistic)s);
    }
}

void nib_measurement_estimates(const struct nib_measurement *measurement, struct nib_estimate out[NIB_STATISTICS]) {
    struct nib_fpenv saved = nib_fpenv_enter();
    struct replicas replicas;
    replicate(measurement, &replicas);
    for (int s = 0; s < NIB_STATISTICS; s++)
        out[s] = (struct nib_estimate){replicas.value[s], jackknife(replicas.left_out[s], measurement->batches)};
    nib_fpenv_leave(saved);
}

static bool same_batches(const struct nib_measurement *a, const struct nib_measurement *b) {
    return a->batches_of_rows == b->batches_of_rows && a->unit == b->unit && a->batches == b->batches;
}

void nib_measurement_differences(const struct nib_measurement *left, const struct nib_measurement *right,
                                 struct nib_estimate out[NIB_STATISTICS]) {
    struct nib_fpenv saved = nib_fpenv_enter();
    struct replicas a, b;
    replicate(left, &a);
    replicate(right, &b);
    bool paired = same_batches(left, right);
    for (int s = 0; s < NIB_STATISTICS; s++) {
        out[s].value = a.value[s] - b.value[s];
        if (paired) {
            double difference[NIB_BATCHES];
            for (unsigned k = 0; k < left->batches; k++) difference[k] = a.left_out[s][k] - b.left_out[s][k];
            out[s].error = jackknife(difference, left->batches);
        } else {
            out[s].error = hypot(jackknife(a.left_out[s], left->batches), jackknife(b.left_out[s], right->batches));
        }
    }
    nib_fpenv_leave(saved);
}

/* Statistics of the elements whose code is marked in `chosen`. */
static void level_of(const struct nib_measurement *m, const bool chosen[NIB_CODES], struct nib_level_estimate *out) {
    struct nib_fpenv saved = nib_fpenv_enter();
    struct nib_sums sums[NIB_BATCHES + 1];
    double share[NIB_BATCHES + 1], error[NIB_BATCHES + 1];
    leave_one_out(m, sums);
    sums[m->batches] = m->total; /* the whole, as one more replica */
    uint64_t count = 0;
    for (unsigned k = 0; k <= m->batches; k++) {
        uint64_t all = 0;
        double sum = 0;
        count = 0;
        for (unsigned c = 0; c < NIB_CODES; c++) {
            all += sums[k].code_count[c];
            if (!chosen[c]) continue;
            count += sums[k].code_count[c];
            sum += sums[k].code_error[c];
        }
        share[k] = all == 0 ? NAN : (double)count / (double)all;
        error[k] = count == 0 ? NAN : sum / (double)count;
    }
    out->count = count;
    out->share = (struct nib_estimate){share[m->batches], jackknife(share, m->batches)};
    out->error = (struct nib_estimate){error[m->batches], jackknife(error, m->batches)};
    nib_fpenv_leave(saved);
}

void nib_measurement_level(const struct nib_measurement *measurement, uint8_t code, struct nib_level_estimate *out) {
    bool chosen[NIB_CODES] = {false};
    chosen[code & (NIB_CODES - 1)] = true;
    level_of(measurement, chosen, out);
}

void nib_measurement_magnitude(const struct nib_measurement *measurement, unsigned magnitude,
                               struct nib_level_estimate *out) {
    bool chosen[NIB_CODES];
    for (unsigned c = 0; c < NIB_CODES; c++) chosen[c] = measurement->element->magnitude_of_code[c] == magnitude;
    level_of(measurement, chosen, out);
}
