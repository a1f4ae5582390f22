/* Sums of errors, in the orders in which real kernels add. */
#include <math.h>
#include "quantize/quantize_ref.h"

enum { MOST = 1024 };

static float sequential(const float *d, size_t count) {
    float sum = d[0];
    for (size_t i = 1; i < count; i++) sum += d[i];
    return sum;
}

/* i and i + n/2, then i and i + n/4, ...: shuffles of one element per lane. */
static float tree(const float *d, size_t count) {
    float lane[MOST];
    for (size_t i = 0; i < count; i++) lane[i] = d[i];
    for (size_t half = count / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++) lane[i] += lane[i + half];
    return lane[0];
}

static float lines_then_tree(const float *d, size_t count, size_t line) {
    float sums[MOST];
    for (size_t i = 0; i < count / line; i++) sums[i] = sequential(d + i * line, line);
    return tree(sums, count / line);
}

/* PyTorch on CUDA: 32 threads, each with four accumulators that stride over the elements. */
static float cuda_256(const float *d, size_t count) {
    float lane[32];
    for (size_t i = 0; i < 32; i++) {
        float accumulator[4] = {0, 0, 0, 0};
        for (size_t j = 0; j * 32 + i < count; j++) {
            float value = d[j * 32 + i];
            accumulator[j % 4] = j < 4 ? value : accumulator[j % 4] + value;
        }
        lane[i] = ((accumulator[0] + accumulator[1]) + accumulator[2]) + accumulator[3];
    }
    return tree(lane, 32);
}

/* PyTorch with AVX2: four vectors of eight lanes; what is left over goes to the first. */
static float eight_lanes(const float *d, size_t count) {
    float accumulator[4][8] = {{0}}, lane[8];
    size_t vectors = count / 8, whole = vectors / 4 * 4;
    for (size_t v = 0; v < vectors; v++)
        for (size_t l = 0; l < 8; l++) accumulator[v < whole ? v % 4 : 0][l] += d[v * 8 + l];
    for (size_t l = 0; l < 8; l++)
        lane[l] = ((accumulator[0][l] + accumulator[1][l]) + accumulator[2][l]) + accumulator[3][l];
    return sequential(lane, 8);
}

/* Squares of d: four elements a thread by fused multiply-adds, then a tree over the threads. */
static float fused_runs(const float *d, size_t count) {
    float lane[MOST / 4];
    for (size_t i = 0; i < count / 4; i++) {
        lane[i] = d[4 * i] * d[4 * i];
        for (size_t j = 1; j < 4; j++) lane[i] = fmaf(d[4 * i + j], d[4 * i + j], lane[i]);
    }
    return tree(lane, count / 4);
}

float nib_ref_error_sum(const struct nib_quantizer *q, const float *d, size_t count, size_t line) {
    float term[MOST] = {0};
    if (q->axes.error_order == NIB_ERROR_ORDER_FMA_HALVES) return fused_runs(d, count);
    for (size_t i = 0; i < count; i++) term[i] = q->axes.error_metric == NIB_ERROR_MSE ? d[i] * d[i] : fabsf(d[i]);
    if (q->axes.error_metric == NIB_ERROR_MAX) {
        float most = 0;
        for (size_t i = 0; i < count; i++) most = term[i] > most || isnan(term[i]) ? term[i] : most;
        return most;
    }
    switch ((enum nib_axis_error_order)q->axes.error_order) {
    case NIB_ERROR_ORDER_ROWS: return lines_then_tree(term, count, line);
    case NIB_ERROR_ORDER_TREE: return tree(term, count);
    case NIB_ERROR_ORDER_CUDA_256: return cuda_256(term, count);
    case NIB_ERROR_ORDER_LANES: return eight_lanes(term, count);
    case NIB_ERROR_ORDER_SEQUENTIAL:
    case NIB_ERROR_ORDER_FMA_HALVES:
    case NIB_AXIS_error_order_COUNT: break;
    }
    return sequential(term, count);
}
