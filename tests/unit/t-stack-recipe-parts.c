/* What recipes add to quantizers: clamping with its side product, GPTQ, ternary weights. */
#include "nib_test.h"

#include <math.h>
#include <nibble/linear.h>

#include "core/philox.h"
#include "stack/linear.h"

static struct nib_error error;

static void draw(uint64_t stream, double sigma, float *out, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct nib_philox_block b = nib_philox(123, i, stream);
        double radius = sqrt(-2 * log((b.word[0] + 0.5) * 0x1p-32));
        out[i] = (float)(sigma * radius * cos(6.283185307179586 * (b.word[1] * 0x1p-32)));
    }
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void quantiles_are_places_in_the_sorted_tensor(void) {
    static float x[5000], sorted[5000], clamped[5000], rest[5000];
    for (size_t count = 1; count <= 5000; count = count * 3 + 1) {
        draw(count, 1, x, count);
        for (size_t i = 0; i < count; i += 7) x[i] = 0.25f; /* ties */
        memcpy(sorted, x, count * sizeof *x);
        qsort(sorted, count, sizeof *x, ascending);
        size_t low = (size_t)((1 - .97) * (double)count), high = (size_t)(.97 * (double)count);
        NIB_OK_OR_FAIL(nib_linear_clamp(x, count, .97, clamped, rest, &error), error);
        bool same = true;
        for (size_t i = 0; i < count; i++) {
            float wanted = fminf(fmaxf(x[i], sorted[low]), sorted[high]);
            same = same && clamped[i] == wanted && rest[i] == x[i] - wanted;
        }
        NIB_CHECKF(same, "%zu elements", count);
    }
}

/* Y = (Q(X_c) + X - X_c) Q(W)^T, and the backward pass differentiates just that. */
static void what_is_clamped_off_enters_beside_the_product(void) {
    enum { T = 24, IN = 40, OUT = 32 };
    static float x[T * IN], w[OUT * IN], dy[T * OUT], y[T * OUT], dx[T * IN], dw[OUT * IN];
    static float clamped[T * IN], rest[T * IN];
    static const char text[] = "kind: recipe\ntitle: t\nsource: s\nfprop:\n"
                               "  x: {quantizer: e2m1-row, clamp: {quantile: 0.95, residual: true}}\n"
                               "  w: {quantizer: e2m1-row}\ndgrad:\n  w: {source: same}\nwgrad:\n  x: {source: same}\n";
    const struct nib_recipe *recipe;
    const struct nib_quantizer *q;
    struct nib_quantized qx, qw;
    draw(1, 1, x, T * IN), draw(2, 0.1, w, OUT * IN), draw(3, 1, dy, T * OUT);
    nib_linear_round_bf16(dy, T * OUT);
    NIB_OK_OR_FAIL(nib_recipe_parse(text, strlen(text), "t", &recipe, &error), error);
    NIB_OK_OR_FAIL(nib_quantizer_open("e2m1-row", &q, &error), error);
    NIB_OK_OR_FAIL(nib_linear_clamp(x, T * IN, .95, clamped, rest, &error), error);
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, T, IN, NIB_ALONG_COLS, NIB_WANT_VALUES, &qx, &error), error);
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, OUT, IN, NIB_ALONG_COLS, NIB_WANT_VALUES, &qw, &error), error);
    NIB_OK_OR_FAIL(nib_quantize(q, (struct nib_view){clamped, NIB_F32, T, IN, IN}, NULL, &qx, &error), error);
    NIB_OK_OR_FAIL(nib_quantize(q, (struct nib_view){w, NIB_F32, OUT, IN, IN}, NULL, &qw, &error), error);
    for (int product = NIB_PRODUCT_BLAS; product <= NIB_PRODUCT_EXACT; product++) {
        struct nib_linear_options options = {.recipe = recipe, .product = (enum nib_product)product, .threads = 2};
        struct nib_linear_saved *saved;
        NIB_OK_OR_FAIL(nib_linear_forward(&options, T, IN, OUT, x, w, y, &saved, &error), error);
        NIB_OK_OR_FAIL(nib_linear_backward(&options, saved, dy, dx, dw, &error), error);
        nib_linear_saved_free(saved);
        double worst = 0;
        for (size_t t = 0; t < T; t++)
            for (size_t o = 0; o < OUT; o++) {
                double sum = 0;
                for (size_t i = 0; i < IN; i++)
                    sum += ((double)qx.values[t * IN + i] + (double)rest[t * IN + i]) * (double)qw.values[o * IN + i];
                worst = fmax(worst, fabs(sum - (double)y[t * OUT + o]));
            }
        for (size_t o = 0; o < OUT; o++)
            for (size_t i = 0; i < IN; i++) {
                double sum = 0;
                for (size_t t = 0; t < T; t++)
                    sum += (double)dy[t * OUT + o] * ((double)qx.values[t * IN + i] + (double)rest[t * IN + i]);
                worst = fmax(worst, fabs(sum - (double)dw[o * IN + i]));
            }
        for (size_t t = 0; t < T; t++)
            for (size_t i = 0; i < IN; i++) {
                double sum = 0;
                for (size_t o = 0; o < OUT; o++) sum += (double)dy[t * OUT + o] * (double)qw.values[o * IN + i];
                worst = fmax(worst, fabs(sum - (double)dx[t * IN + i]));
            }
        NIB_CHECKF(worst < 1e-5, "product %d: off by %g", product, worst);
    }
    nib_quantized_free(&qx), nib_quantized_free(&qw);
    nib_quantizer_close(q);
    nib_recipe_close(recipe);
}

/* Level of E2M1 nearest to y, ties to the even code. */
static double nearest(double y) {
    static const double level[] = {0, .5, 1, 1.5, 2, 3, 4, 6};
    int best = 0;
    for (int i = 1; i < 8; i++) {
        double now = fabs(fabs(y) - level[i]), before = fabs(fabs(y) - level[best]);
        if (now < before || (now == before && i % 2 == 0)) best = i;
    }
    return copysign(level[best], y);
}

/* The textbook form: after each column the inverse is reduced by it. No triangular factor, no permutation but the order
 * of the diagonal. */
static void gptq_by_hand(const double *hessian, size_t n, const double *scale, double *w) {
    double a[32][64], inverse[32][32];
    bool done[32] = {false};
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) a[i][j] = hessian[i * n + j], a[i][n + j] = i == j;
    for (size_t k = 0; k < n; k++) { /* Gauss and Jordan */
        double pivot = a[k][k];
        for (size_t j = 0; j < 2 * n; j++) a[k][j] /= pivot;
        for (size_t i = 0; i < n; i++) {
            double factor = a[i][k];
            for (size_t j = 0; i != k && j < 2 * n; j++) a[i][j] -= factor * a[k][j];
        }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) inverse[i][j] = a[i][n + j];
    for (size_t step = 0; step < n; step++) {
        size_t c = n;
        for (size_t i = 0; i < n; i++)
            if (!done[i] && (c == n || hessian[i * n + i] > hessian[c * n + c])) c = i;
        double value = nearest((double)(float)(w[c] / scale[c])) * scale[c], lost = (w[c] - value) / inverse[c][c];
        done[c] = true;
        for (size_t j = 0; j < n; j++)
            if (!done[j]) w[j] -= lost * inverse[c][j];
        w[c] = value;
        double pivot = inverse[c][c], column[32], row[32];
        for (size_t i = 0; i < n; i++) column[i] = inverse[i][c], row[i] = inverse[c][i];
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) inverse[i][j] -= column[i] * row[j] / pivot;
    }
}

static enum nib_status see(void *self, const struct nib_operand_event *event, struct nib_error *e) {
    (void)e;
    if (event->slot == NIB_SLOT_FPROP_W) memcpy(self, event->used, event->rows * event->cols * sizeof(float));
    return NIB_OK;
}
static const char gptq_text[] = "kind: recipe\ntitle: t\nsource: s\nfprop:\n  x: {quantizer: e2m1-fp32}\n"
                                "  w: {quantizer: e2m1-fp32, gptq: {damping: 0.01}}\n";

static void gptq_is_that_of_the_textbook(void) {
    enum { T = 96, IN = 32, OUT = 48 };
    static float x[T * IN], w[OUT * IN], y[T * OUT], used[OUT * IN];
    const struct nib_recipe *recipe;
    draw(4, 1, x, T * IN), draw(5, 1, w, OUT * IN);
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < IN; i++) /* inputs that hang together, of different size; one that is always zero */
            x[t * IN + i] = i == 7 ? 0 : (x[t * IN + i] + 0.8f * x[t * IN + i / 2]) * (float)(1 + i % 5);
    NIB_OK_OR_FAIL(nib_recipe_parse(gptq_text, strlen(gptq_text), "t", &recipe, &error), error);
    struct nib_linear_observer observer = {.self = used, .operand = see};
    struct nib_linear_options options = {.recipe = recipe, .threads = 2, .observer = &observer};
    NIB_OK_OR_FAIL(nib_linear_forward(&options, T, IN, OUT, x, w, y, NULL, &error), error);
    double hessian[IN * IN] = {0}, mean = 0;
    for (size_t i = 0; i < IN; i++)
        for (size_t j = 0; j < IN; j++)
            for (size_t t = 0; t < T; t++) hessian[i * IN + j] += 2.0 / T * (double)x[t * IN + i] * (double)x[t * IN + j];
    hessian[7 * IN + 7] = 1;
    for (size_t i = 0; i < IN; i++) mean += hessian[i * IN + i] / IN;
    for (size_t i = 0; i < IN; i++) hessian[i * IN + i] += .01 * mean;
    size_t different = 0;
    double off = 0, plain = 0;
    for (size_t o = 0; o < OUT; o++) {
        double row[IN], scale[IN];
        for (size_t i = 0; i < IN; i++) {
            float amax = 0;
            for (size_t j = i / 16 * 16; j < i / 16 * 16 + 16; j++) amax = fmaxf(amax, fabsf(w[o * IN + j]));
            scale[i] = (double)(amax / 6);
            row[i] = i == 7 ? 0 : (double)w[o * IN + i];
        }
        gptq_by_hand(hessian, IN, scale, row);
        for (size_t i = 0; i < IN; i++) different += fabs(row[i] - (double)used[o * IN + i]) > 1e-6;
        for (size_t t = 0; t < T; t++) {
            double fitted = 0, rounded = 0;
            for (size_t i = 0; i < IN; i++) {
                double rounding = nearest((double)w[o * IN + i] / scale[i]) * scale[i];
                fitted += ((double)used[o * IN + i] - (double)w[o * IN + i]) * (double)x[t * IN + i];
                rounded += (rounding - (double)w[o * IN + i]) * (double)x[t * IN + i];
            }
            off += fitted * fitted;
            plain += rounded * rounded;
        }
    }
    NIB_CHECKF(different == 0, "%zu of %d weights differ", different, OUT * IN);
    NIB_CHECKF(off < 0.6 * plain, "the error of products is %.3f of that of rounding to nearest", off / plain);
    nib_recipe_close(recipe);
}

/* Independent inputs pass nothing on. */
static void gptq_of_independent_inputs_rounds_to_nearest(void) {
    enum { N = 64 };
    static float x[N * N], w[N * N], y[N * N], used[N * N];
    const struct nib_recipe *recipe;
    const struct nib_quantizer *q;
    struct nib_quantized out;
    memset(x, 0, sizeof x);
    for (size_t i = 0; i < N; i++) x[i * N + i] = (float)(1 + i % 3);
    draw(6, 1, w, N * N);
    NIB_OK_OR_FAIL(nib_recipe_parse(gptq_text, strlen(gptq_text), "t", &recipe, &error), error);
    NIB_OK_OR_FAIL(nib_quantizer_open("e2m1-fp32", &q, &error), error);
    NIB_OK_OR_FAIL(nib_quantized_alloc(q, N, N, NIB_ALONG_COLS, NIB_WANT_VALUES, &out, &error), error);
    NIB_OK_OR_FAIL(nib_quantize(q, (struct nib_view){w, NIB_F32, N, N, N}, NULL, &out, &error), error);
    struct nib_linear_observer observer = {.self = used, .operand = see};
    struct nib_linear_options options = {.recipe = recipe, .observer = &observer};
    NIB_OK_OR_FAIL(nib_linear_forward(&options, N, N, N, x, w, y, NULL, &error), error);
    CU_ASSERT(memcmp(used, out.values, sizeof used) == 0);
    nib_quantized_free(&out);
    nib_quantizer_close(q);
    nib_recipe_close(recipe);
}

/* A worked row, and the errors that an independent program found before and after the iteration. */
static void ternary_rows_are_the_published_ones(void) {
    static const float row[] = {.9f, -.1f, .2f, -1.1f, .4f, .05f, -.3f, 1.3f};
    static const int8_t levels[] = {1, 0, 0, -1, 0, 0, -1, 1};
    int8_t t[128];
    double alpha, mu, off = 0;
    nib_linear_ternary_fit(row, 8, 30, t, &alpha, &mu);
    CU_ASSERT(memcmp(t, levels, sizeof levels) == 0);
    NIB_CHECKF(fabs(mu - .16875) < 1e-6 && fabs(alpha - .9) < 1e-6, "alpha %.7f, mu %.7f", alpha, mu);
    for (int i = 0; i < 8; i++) off += pow(alpha * t[i] + mu - (double)row[i], 2);
    NIB_CHECKF(fabs(off - .5447) < 5e-5, "sum of squares %.5f", off);
    enum { ROWS = 4000, M = 128 };
    static float w[ROWS * M];
    static const struct {
        double shift, before, after;
    } cases[] = {{0, .1857, .1803}, {.3, .1712, .1660}};
    for (int c = 0; c < 2; c++) {
        draw(7, 1, w, ROWS * M);
        double norm = 0, errors[2] = {0, 0};
        unsigned iterations = 0;
        for (size_t i = 0; i < ROWS * M; i++) w[i] += (float)cases[c].shift, norm += pow((double)w[i], 2);
        for (size_t r = 0; r < ROWS; r++)
            for (int k = 0; k < 2; k++) {
                unsigned done = nib_linear_ternary_fit(w + r * M, M, k == 0 ? 0 : 100, t, &alpha, &mu);
                if (k == 1) iterations += done;
                for (size_t i = 0; i < M; i++) errors[k] += pow(alpha * t[i] + mu - (double)w[r * M + i], 2) / norm;
            }
        NIB_CHECKF(fabs(errors[0] - cases[c].before) < 1e-3 && fabs(errors[1] - cases[c].after) < 1e-3,
                   "shift %g: %.5f, then %.5f", cases[c].shift, errors[0], errors[1]);
        NIB_CHECKF(c != 0 || fabs((double)iterations / ROWS - 3.7) < .2, "%.2f iterations", (double)iterations / ROWS);
    }
}

/* No other alpha and mu of a block do better with these inputs. */
static void ternary_levels_are_fitted_to_the_inputs(void) {
    enum { T = 200, IN = 128, OUT = 6 };
    static float x[T * IN], w[OUT * IN], y[T * OUT], used[OUT * IN];
    static const char text[] = "kind: recipe\ntitle: t\nsource: s\nfprop:\n  w: {ternary: {block: 64, iterations: 30}}\n";
    const struct nib_recipe *recipe;
    draw(8, 1, x, T * IN), draw(9, 1, w, OUT * IN);
    for (size_t i = 0; i < T * IN; i++) x[i] += 0.3f;
    NIB_OK_OR_FAIL(nib_recipe_parse(text, strlen(text), "t", &recipe, &error), error);
    struct nib_linear_observer observer = {.self = used, .operand = see};
    struct nib_linear_options options = {.recipe = recipe, .product = NIB_PRODUCT_EXACT, .observer = &observer};
    NIB_OK_OR_FAIL(nib_linear_forward(&options, T, IN, OUT, x, w, y, NULL, &error), error);
    for (size_t o = 0; o < OUT; o++)
        for (size_t first = 0; first < IN; first += 64) {
            const float *from = w + o * IN + first, *to = used + o * IN + first;
            double low = (double)to[0], high = (double)to[0], fitted = 0;
            for (size_t i = 0; i < 64; i++) low = fmin(low, (double)to[i]), high = fmax(high, (double)to[i]);
            for (int other = 0; other < 9; other++) { /* 0 is the fit, the others lie around it */
                static const int place[9][2] = {{0, 0}, {0, 1}, {0, -1}, {1, 0}, {1, 1}, {1, -1}, {-1, 0}, {-1, 1}, {-1, -1}};
                double off = 0;
                for (size_t t = 0; t < T; t++) {
                    double sum = 0;
                    for (size_t i = 0; i < 64; i++) {
                        double level = round(((double)to[i] - (low + high) / 2) / ((high - low) / 2));
                        double value = (double)to[i] + 1e-3 * (place[other][0] * level + place[other][1]);
                        sum += (value - (double)from[i]) * (double)x[t * IN + first + i];
                    }
                    off += sum * sum;
                }
                if (other == 0) fitted = off;
                NIB_CHECKF(other == 0 || off > fitted, "row %zu, column %zu: %g, elsewhere %g", o, first, fitted, off);
            }
        }
    nib_recipe_close(recipe);
}

NIB_TEST_MAIN("parts of recipes", {"quantiles are places in the sorted tensor", quantiles_are_places_in_the_sorted_tensor},
              {"what is clamped off enters beside the product", what_is_clamped_off_enters_beside_the_product},
              {"GPTQ is that of the textbook", gptq_is_that_of_the_textbook},
              {"GPTQ of independent inputs rounds to nearest", gptq_of_independent_inputs_rounds_to_nearest},
              {"ternary rows are the published ones", ternary_rows_are_the_published_ones},
              {"ternary levels are fitted to the inputs", ternary_levels_are_fitted_to_the_inputs})
