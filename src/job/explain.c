#include "job/explain.h"

#include <math.h>
#include <stdlib.h>

/* A magnitude with what its elements do: both signs together. */
struct bin {
    double level, low, high, share, error, part;
    bool last;
};

static size_t collect(const struct nib_element *element, const struct nib_sums *sums, struct bin bins[NIB_CODES]) {
    double all = 0;
    size_t count = element->magnitudes;
    for (unsigned c = 0; c < NIB_CODES; c++) all += (double)sums->code_count[c];
    for (size_t k = 0; k < count; k++) {
        double hits = 0, sum = 0;
        for (unsigned c = 0; c < NIB_CODES; c++) {
            if (element->magnitude_of_code[c] != k) continue;
            bins[k].level = fabs((double)element->level[c]);
            hits += (double)sums->code_count[c];
            sum += sums->code_error[c];
        }
        bins[k].share = hits / all;
        bins[k].error = hits > 0 ? sum / hits : 0;
        bins[k].part = sum / all;
    }
    for (size_t k = 0; k < count; k++) {
        bins[k].low = k == 0 ? 0 : (bins[k - 1].level + bins[k].level) / 2;
        bins[k].high = k + 1 == count ? bins[k].level : (bins[k].level + bins[k + 1].level) / 2;
        bins[k].last = k + 1 == count;
    }
    return count;
}

static int by_part(const void *left, const void *right) {
    double a = fabs(((const struct bin *)left)->part), b = fabs(((const struct bin *)right)->part);
    return (a < b) - (a > b);
}

static void tell(const struct bin *bin, FILE *stream) {
    fprintf(stream,
            "  level %.4g (%.4g to %.4g%s) takes %.1f %% of the elements and %s them by %.4f on average: %+.5f.",
            bin->level, bin->low, bin->high, bin->last ? ", the top" : "", 100 * bin->share,
            bin->error < 0 ? "shrinks" : "raises", fabs(bin->error), bin->part);
    double below = bin->level - bin->low, above = bin->high - bin->level;
    if (bin->level == 0)
        fputs(" What rounds to 0 can only shrink.\n", stream);
    else if (bin->last)
        fputs(" It has nothing above, so that most of what it takes is raised.\n", stream);
    else if (above > below * 1.01)
        fprintf(stream, " Its bin reaches %.4g up but only %.4g down.\n", above, below);
    else if (below > above * 1.01)
        fprintf(stream, " Its bin reaches %.4g down but only %.4g up.\n", below, above);
    else
        fputs(" Its bin is symmetric: a falling density alone raises its elements.\n", stream);
}

void nib_explain_bias(const struct nib_element *element, const struct nib_sums *sums, const char *label, FILE *stream) {
    struct bin bins[NIB_CODES];
    struct nib_bias bias;
    size_t count = collect(element, sums, bins);
    nib_bias_of(element, sums, &bias);
    double shrink = 0, raise = 0;
    for (size_t k = 0; k < count; k++) *(bins[k].part < 0 ? &shrink : &raise) += bins[k].part;
    fprintf(stream, "%s: b = %+.5f, %.2f %% of E[t] = %.4f.\n", label, bias.b, 100 * bias.b_relative,
            bias.b_relative != 0 ? bias.b / bias.b_relative : NAN);
    qsort(bins, count, sizeof *bins, by_part);
    double told = 0, size = raise - shrink;
    for (size_t k = 0; k < count && (k < 2 || told < 0.9 * size); k++) {
        tell(&bins[k], stream);
        told += fabs(bins[k].part);
    }
    fprintf(stream,
            "  Together: bins that shrink %+.5f, bins that raise %+.5f; %.0f %% of the shrinkage is paid back.\n",
            shrink, raise, shrink < 0 ? fmin(100, -100 * raise / shrink) : 0);
    fprintf(stream,
            "  Energy: 1 - alpha = %+.5f; of NMSE %.3e a common gain explains %.2g %%, so bias is %s of the %.2f dB "
            "SQNR.\n",
            bias.one_minus_alpha, bias.nmse, 100 * bias.nmse_coherent / bias.nmse,
            bias.nmse_coherent < 0.05 * bias.nmse ? "next to nothing" : "a visible part", bias.sqnr_db);
}
