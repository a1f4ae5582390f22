#include "stack/chain_gain.h"

#include "base/error.h"
#include "stack/chain_product.h"
#include <math.h>

struct nib_chain_gain nib_chain_gain_times(struct nib_chain_gain gain, const struct nib_chain_record *record) {
    return (struct nib_chain_gain){gain.predicted * record->value[NIB_CHAIN_eta_predicted],
                                   gain.measured * record->value[NIB_CHAIN_eta_measured]};
}

struct nib_chain_gain nib_chain_gain_joined(struct nib_chain_gain a, struct nib_chain_gain b) {
    return (struct nib_chain_gain){a.predicted * b.predicted, a.measured * b.measured};
}

enum nib_status nib_chain_compare(struct nib_chain_record *record, size_t count, const double *exact,
                                  const double *quantized, struct nib_chain_gain gain, struct nib_error *error) {
    double xx = nib_chain_dot(count, exact, exact), qq = nib_chain_dot(count, quantized, quantized);
    double xq = nib_chain_dot(count, exact, quantized);
    if (!isfinite(xx) || !isfinite(qq) || xx == 0)
        return nib_fail(error, NIB_EINVAL,
                        "the signal leaves the range of binary32 in layer %u (%s); norm keeps it inside", record->depth,
                        nib_pass_name(record->pass));
    record->value[NIB_CHAIN_gain] = xq / xx;
    record->value[NIB_CHAIN_product_predicted] = gain.predicted;
    record->value[NIB_CHAIN_product_measured] = gain.measured;
    record->value[NIB_CHAIN_excess] = xq / xx - gain.predicted;
    record->value[NIB_CHAIN_norm_ratio] = sqrt(qq / xx);
    record->value[NIB_CHAIN_cosine] = xq / sqrt(xx * qq);
    return NIB_OK;
}
