/* Which recipe loses the least, in a sentence. */
#include "job/stack.h"

#include "base/fpenv.h"
#include "stack/recipe.h"
#include <math.h>
#include <stdio.h>

static bool quantizes(const struct nib_recipe *recipe) {
    for (int slot = 0; slot < NIB_SLOTS; slot++)
        if (recipe->slot[slot].quantized) return true;
    return false;
}

/* What |mean| / error exceeds in 5 % of all samples from a normal law around 0, to three digits. */
static double student(size_t samples) {
    static const double by_freedom[] = {12.8, 4.31, 3.19, 2.78, 2.58, 2.45, 2.37, 2.31, 2.27, 2.23,
                                        2.21, 2.18, 2.17, 2.15, 2.14, 2.12, 2.11, 2.11, 2.10, 2.09};
    size_t last = sizeof by_freedom / sizeof *by_freedom - 1, freedom = samples - 2;
    return by_freedom[freedom < last ? freedom : last];
}

static double change_of(const struct nib_stack_report *report, size_t recipe) {
    return nib_stack_record(report, recipe, 0)->value[NIB_DEPTH_loss_change].value;
}

static struct nib_estimate paired(const struct nib_stack_report *report, size_t one, size_t other) {
    const double *a = report->loss_change + one * report->samples, *b = report->loss_change + other * report->samples;
    double mean = 0, square = 0, count = (double)report->samples;
    for (size_t i = 0; i < report->samples; i++) mean += (a[i] - b[i]) / count;
    for (size_t i = 0; i < report->samples; i++) square += (a[i] - b[i] - mean) * (a[i] - b[i] - mean);
    return (struct nib_estimate){mean, report->samples < 2 ? NAN : sqrt(square / (count - 1) / count)};
}

void nib_stack_headline(const struct nib_stack_report *report, const struct nib_recipe *const *recipes, char *out,
                        size_t size) {
    size_t best = SIZE_MAX, next = SIZE_MAX;
    struct nib_fpenv saved = nib_fpenv_enter();
    out[0] = '\0';
    for (size_t i = 0; i < report->recipes; i++) {
        if (!quantizes(recipes[i]) || !isfinite(change_of(report, i))) continue;
        if (best == SIZE_MAX || change_of(report, i) < change_of(report, best)) {
            next = best;
            best = i;
        } else if (next == SIZE_MAX || change_of(report, i) < change_of(report, next)) {
            next = i;
        }
    }
    if (next != SIZE_MAX) {
        struct nib_estimate off = paired(report, best, next);
        const char *what = report->repeats > 1 ? "runs" : report->samples == 1 ? "sequence" : "sequences";
        int n = snprintf(out, size, "Lowest loss: %s, %+.5f; %.5f", nib_recipe_name(recipes[best]),
                         change_of(report, best), off.value);
        size_t used = (size_t)n < size ? (size_t)n : size - 1;
        if (report->samples > 1) used += (size_t)snprintf(out + used, size - used, " +- %.5f", off.error);
        if (used >= size) used = size - 1;
        if (report->samples > 1 && fabs(off.value) > student(report->samples) * off.error)
            snprintf(out + used, size - used, " against %s (paired over %zu %s, resolved)",
                     nib_recipe_name(recipes[next]), report->samples, what);
        else
            snprintf(out + used, size - used, " against %s, not resolved by %zu %s; --repeat %zu gives more",
                     nib_recipe_name(recipes[next]), report->samples, what,
                     report->repeats > 4 ? 2 * report->repeats : 8);
    }
    nib_fpenv_leave(saved);
}
