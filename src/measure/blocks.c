#include "measure/blocks.h"

#include "core/widen.h"
#include <float.h>
#include <math.h>

enum { PIECE = 512 };

/* Moments of one column of a block, or of a block. */
struct moments {
    double amax[PIECE], second[PIECE], fourth[PIECE];
};

struct block {
    double amax, second, fourth;
    size_t count;
};

static void clear(struct moments *restrict m, size_t count) {
    for (size_t i = 0; i < count; i++) m->amax[i] = m->second[i] = m->fourth[i] = 0;
}

/* NaN and infinity end in the sums, where they are noticed. */
static void add_row(struct moments *restrict m, const float *restrict x, size_t count) {
    for (size_t i = 0; i < count; i++) {
        double magnitude = fabs((double)x[i]), square = magnitude * magnitude;
        m->amax[i] = magnitude > m->amax[i] ? magnitude : m->amax[i];
        m->second[i] += square;
        m->fourth[i] += square * square;
    }
}

static void finish(struct block *block, struct nib_sums *sums) {
    double n = (double)block->count;
    if (block->second > 0 && block->second <= DBL_MAX) {
        sums->block_count++;
        sums->crest_sum += block->amax / sqrt(block->second / n);
        sums->kurtosis_sum += n * block->fourth / (block->second * block->second);
    }
    *block = (struct block){0, 0, 0, 0};
}

/* One row of blocks: columns first, then the columns of each block together. */
static void add_band(struct nib_view x, struct nib_rectangle part, size_t block_cols, struct nib_sums *sums) {
    struct moments moments;
    _Alignas(64) float values[PIECE];
    struct block block = {0, 0, 0, 0};
    for (size_t c = 0; c < part.cols; c += PIECE) {
        size_t count = part.cols - c < PIECE ? part.cols - c : PIECE;
        clear(&moments, count);
        for (size_t r = 0; r < part.rows; r++) {
            nib_widen(x, (part.row + r) * x.stride + part.col + c, count, values);
            add_row(&moments, values, count);
        }
        for (size_t i = 0; i < count; i++) {
            block.amax = moments.amax[i] > block.amax ? moments.amax[i] : block.amax;
            block.second += moments.second[i];
            block.fourth += moments.fourth[i];
            block.count += part.rows;
            if ((c + i + 1) % block_cols == 0 || c + i + 1 == part.cols) finish(&block, sums);
        }
    }
}

void nib_blocks_add(struct nib_view x, struct nib_rectangle part, struct nib_block_shape shape, struct nib_sums *sums) {
    for (size_t r = 0; r < part.rows; r += shape.rows) {
        struct nib_rectangle band = part;
        band.row += r;
        band.rows = part.rows - r < shape.rows ? part.rows - r : shape.rows;
        add_band(x, band, shape.cols, sums);
    }
}
