#include "stack/modules.h"

#include "base/fpenv.h"
#include "base/threads.h"
#include <string.h>

void nib_embed_forward(const double *table, size_t width, const uint32_t *ids, size_t tokens, double *rows) {
    for (size_t t = 0; t < tokens; t++) memcpy(rows + t * width, table + ids[t] * width, width * sizeof *rows);
}

void nib_embed_backward(const double *rows_gradient, size_t vocabulary, size_t width, const uint32_t *ids,
                        size_t tokens, enum nib_width wide, int threads, bool add, double *table_gradient) {
    enum { COLUMNS = 64 }; /* each thread walks all tokens for its own columns */
    int64_t parts = (int64_t)((width + COLUMNS - 1) / COLUMNS);
#pragma omp parallel num_threads(nib_threads_for(threads, (size_t)parts))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(static)
        for (int64_t part = 0; part < parts; part++) {
            size_t first = (size_t)part * COLUMNS, count = width - first < COLUMNS ? width - first : COLUMNS;
            if (!add)
                for (size_t row = 0; row < vocabulary; row++)
                    memset(table_gradient + row * width + first, 0, count * sizeof *table_gradient);
            for (size_t t = 0; t < tokens; t++) {
                const double *restrict from = rows_gradient + t * width + first;
                double *restrict to = table_gradient + ids[t] * width + first;
                for (size_t i = 0; i < count; i++) to[i] += from[i];
            }
            for (size_t row = 0; row < vocabulary && wide != NIB_WIDTH_F64; row++) {
                double *to = table_gradient + row * width + first;
                nib_width_round_run(to, to, count, wide);
            }
        }
        nib_fpenv_leave(saved);
    }
}
