#include "stack/modules.h"

#include "base/fpenv.h"
#include "base/threads.h"
#include <math.h>

/* The loss of one token; its gradient, divided by the number of tokens, into `slope`. */
static double token(size_t vocabulary, const double *logits, uint32_t target, double tokens, struct nib_widths widths,
                    double *slope) {
    double most = logits[0], sum = 0;
    for (size_t i = 1; i < vocabulary; i++) most = logits[i] > most ? logits[i] : most;
    for (size_t i = 0; i < vocabulary; i++) {
        double term = exp(logits[i] - most);
        sum += term;
        if (slope != NULL) slope[i] = term;
    }
    if (slope != NULL) {
        for (size_t i = 0; i < vocabulary; i++) slope[i] = slope[i] / sum / tokens;
        slope[target] -= 1 / tokens;
        nib_width_round_run(slope, slope, vocabulary, widths.wide);
        nib_width_round_run(slope, slope, vocabulary, widths.narrow);
    }
    return nib_width_round(log(sum) + (most - logits[target]), widths.wide);
}

void nib_loss(size_t tokens, size_t vocabulary, const double *logits, const uint32_t *targets, struct nib_widths widths,
              int threads, double *token_loss, double *mean, double *dlogits) {
#pragma omp parallel num_threads(nib_threads_for(threads, tokens))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(static)
        for (int64_t t = 0; t < (int64_t)tokens; t++)
            token_loss[t] = token(vocabulary, logits + (size_t)t * vocabulary, targets[t], (double)tokens, widths,
                                  dlogits == NULL ? NULL : dlogits + (size_t)t * vocabulary);
        nib_fpenv_leave(saved);
    }
    double sum = 0;
    for (size_t t = 0; t < tokens; t++) sum += token_loss[t];
    *mean = nib_width_round(sum / (double)tokens, widths.wide);
}
