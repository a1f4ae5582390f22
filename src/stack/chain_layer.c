#include "stack/chain_layer.h"

#include <math.h>
#include <string.h>

/* E[silu(z)^2] of a standard normal z, by quadrature. */
static const double silu_square = 0.35577551980388;

double nib_chain_weight_gain(enum nib_chain_activation activation) {
    switch (activation) {
    case NIB_CHAIN_RELU: return sqrt(2.0);
    case NIB_CHAIN_SILU:
    case NIB_CHAIN_SWIGLU: return 1 / sqrt(silu_square);
    default: return 1;
    }
}

static double mean_square(size_t count, const double *x) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += x[i] * x[i];
    return sum / (double)count;
}

void nib_chain_norm(size_t rows, size_t cols, const double *x, double *y) {
    for (size_t r = 0; r < rows; r++) {
        double scale = 1 / sqrt(mean_square(cols, x + r * cols));
        for (size_t c = 0; c < cols; c++) y[r * cols + c] = x[r * cols + c] * scale;
    }
}

/* y = x s, s = 1/rms(x): dx = s (dy - y mean(y dy)). */
void nib_chain_norm_back(size_t rows, size_t cols, const double *x, const double *dy, double *dx) {
    for (size_t r = 0; r < rows; r++) {
        const double *xr = x + r * cols, *dr = dy + r * cols;
        double scale = 1 / sqrt(mean_square(cols, xr)), along = 0;
        for (size_t c = 0; c < cols; c++) along += xr[c] * scale * dr[c];
        along /= (double)cols;
        for (size_t c = 0; c < cols; c++) dx[r * cols + c] = scale * (dr[c] - xr[c] * scale * along);
    }
}

static double logistic(double x) { return 1 / (1 + exp(-x)); }
static double silu_slope(double x) {
    double l = logistic(x);
    return l * (1 + x * (1 - l));
}

void nib_chain_act(enum nib_chain_activation activation, size_t count, const double *x, double *y) {
    switch (activation) {
    case NIB_CHAIN_RELU:
        for (size_t i = 0; i < count; i++) y[i] = x[i] > 0 ? x[i] : 0;
        break;
    case NIB_CHAIN_SILU:
        for (size_t i = 0; i < count; i++) y[i] = x[i] * logistic(x[i]);
        break;
    default:
        if (y != x) memcpy(y, x, count * sizeof *y);
        break;
    }
}

void nib_chain_act_back(enum nib_chain_activation activation, size_t count, const double *x, const double *dy,
                        double *dx) {
    switch (activation) {
    case NIB_CHAIN_RELU:
        for (size_t i = 0; i < count; i++) dx[i] = x[i] > 0 ? dy[i] : 0;
        break;
    case NIB_CHAIN_SILU:
        for (size_t i = 0; i < count; i++) dx[i] = dy[i] * silu_slope(x[i]);
        break;
    default:
        if (dx != dy) memcpy(dx, dy, count * sizeof *dx);
        break;
    }
}

void nib_chain_gate(size_t count, const double *g, const double *u, double *h) {
    for (size_t i = 0; i < count; i++) h[i] = g[i] * logistic(g[i]) * u[i];
}

void nib_chain_gate_back(size_t count, const double *g, const double *u, const double *dh, double *dg, double *du) {
    for (size_t i = 0; i < count; i++) {
        double d = dh[i], gate = g[i];
        dg[i] = d * u[i] * silu_slope(gate);
        du[i] = d * gate * logistic(gate);
    }
}

void nib_chain_round(size_t count, double *x) {
    for (size_t i = 0; i < count; i++) x[i] = (float)x[i];
}
