#include "job/equations.h"

#include "base/error.h"
#include "base/memory.h"
#include "format/quantizer.h"
#include <math.h>
#include <nibble/expect.h>
#include <stdio.h>
#include <stdlib.h>

enum { VIEW, QUANTIZER, ROTATION, EQUATION, WHAT, FORMULA, MEASURED, ERROR, DIFFERENCE, LEAVES_OUT };
static const struct nib_column columns[] = {
    {"view", "view", "", "tensor and how it is reduced", NIB_COLUMN_TEXT, 0},
    {"quantizer", "quantizer", "", "quantizer", NIB_COLUMN_TEXT, 0},
    {"rotation", "rotation", "", "rotation before the quantizer", NIB_COLUMN_TEXT, 0},
    {"equation", "equation", "", "number in UFP4 (arXiv 2606.20381), or INT v.s. FP (arXiv 2510.25602)",
     NIB_COLUMN_TEXT, 0},
    {"what", "what", "", "quantity", NIB_COLUMN_TEXT, 0},
    {"formula", "formula", "1", "value by the equation as printed", NIB_COLUMN_REAL, 5},
    {"measured", "measured", "1", "the same quantity as measured", NIB_COLUMN_REAL, 5},
    {"measured_se", "+-", "1", "standard error: measured", NIB_COLUMN_REAL, 5},
    {"difference", "difference", "1", "measured minus formula", NIB_COLUMN_REAL, 5},
    {"leaves_out", "what the equation leaves out", "", "what the equation leaves out", NIB_COLUMN_TEXT, 0},
};

/* Where rows go and what they are about; the first failure stops what follows. */
struct writer {
    struct nib_table *table;
    char view[400];
    const char *quantizer, *rotation;
    bool full;
};

static void add(struct writer *w, const char *equation, const char *what, double formula, struct nib_estimate measured,
                const char *leaves_out) {
    size_t row = w->full ? SIZE_MAX : nib_table_row(w->table);
    w->full |= row == SIZE_MAX;
    if (w->full) return;
    nib_table_set_text(w->table, row, VIEW, w->view);
    nib_table_set_text(w->table, row, QUANTIZER, w->quantizer);
    nib_table_set_text(w->table, row, ROTATION, w->rotation);
    nib_table_set_text(w->table, row, EQUATION, equation);
    nib_table_set_text(w->table, row, WHAT, what);
    nib_table_set_real(w->table, row, FORMULA, formula);
    nib_table_set_real(w->table, row, MEASURED, measured.value);
    nib_table_set_real(w->table, row, ERROR, measured.error);
    nib_table_set_real(w->table, row, DIFFERENCE, measured.value - formula);
    nib_table_set_text(w->table, row, LEAVES_OUT, leaves_out);
}

/* Equation (2) takes bins whose borders lie half way. */
static bool rounds_to_nearest(const struct nib_quantizer *q) {
    return q->axes.rounding != NIB_ROUNDING_SR && q->axes.rounding != NIB_ROUNDING_RTZ &&
           q->axes.rounding != NIB_ROUNDING_RTZ_LOG2_INPUT;
}

/* A rotation changes the density within a bin, not the bin. */
static void add_bins(struct writer *w, const struct nib_element *element, bool nearest,
                     const struct nib_bias_entry *entry) {
    for (unsigned k = 0; k < element->magnitudes; k++) {
        double count = 0, sum = 0, variance = 0, level = NAN;
        for (unsigned c = 0; c < NIB_CODES; c++) {
            if (element->magnitude_of_code[c] != k || entry->level[c].count == 0) continue;
            double n = (double)entry->level[c].count;
            level = fabs((double)element->level[c]);
            count += n;
            sum += n * entry->level[c].error.value;
            variance += n * n * entry->level[c].error.error * entry->level[c].error.error;
        }
        double formula = nib_equation_bin_bias(element, k);
        char what[64];
        snprintf(what, sizeof what, "mean error at %g", level);
        if (count > 0)
            add(w, "(2)", what, formula, (struct nib_estimate){sum / count, sqrt(variance) / count},
                isnan(formula) ? "the end bins"
                : nearest      ? "the slope of the density"
                               : "that this quantizer does not round to nearest");
    }
}

/* The gain of a product of two independent tensors, 64 x 64 outputs over 1024 products each, eight times. */
enum { SIDE = 64, DEPTH = 1024, TIMES = 8 };

/* The random bits of each operand are of a stream of its own. */
static enum nib_status quantize(const struct nib_quantizer *q, const float *x, uint64_t seed, uint64_t stream,
                                float *out, struct nib_error *error) {
    struct nib_quantized quantized;
    struct nib_view view = {x, NIB_F32, SIDE, DEPTH, DEPTH};
    enum nib_status status = nib_quantized_alloc(q, SIDE, DEPTH, NIB_ALONG_COLS, NIB_WANT_VALUES, &quantized, error);
    if (status != NIB_OK) return status;
    struct nib_quantize_options options = {.threads = 1, .seed = seed, .stream = stream};
    status = nib_quantize(q, view, &options, &quantized, error);
    for (size_t i = 0; status == NIB_OK && i < SIDE * DEPTH; i++) out[i] = quantized.values[i];
    nib_quantized_free(&quantized);
    return status;
}

static void product(const float *a, const float *b, double *z) {
    for (size_t i = 0; i < SIDE; i++)
        for (size_t k = 0; k < SIDE; k++) {
            double sum = 0;
            for (size_t n = 0; n < DEPTH; n++) sum += (double)a[i * DEPTH + n] * (double)b[k * DEPTH + n];
            z[i * SIDE + k] = sum;
        }
}

static enum nib_status measure_eta(const struct nib_distribution *distribution, const struct nib_quantizer *q,
                                   uint64_t seed, struct nib_estimate *out, struct nib_error *error) {
    float *x = nib_alloc(4 * SIDE * DEPTH, sizeof *x, "a product", error);
    double *z = nib_alloc(2 * SIDE * SIDE, sizeof *z, "a product", error), mean = 0, square = 0;
    enum nib_status status = x == NULL || z == NULL ? NIB_ENOMEM : NIB_OK;
    for (size_t t = 0; status == NIB_OK && t < TIMES; t++) {
        float *a = x, *b = x + SIDE * DEPTH, *qa = b + SIDE * DEPTH, *qb = qa + SIDE * DEPTH;
        nib_distribution_fill(distribution, seed + 1, 2 * t * SIDE * DEPTH, 2 * SIDE * DEPTH, 1, a);
        status = quantize(q, a, seed, 2 * t, qa, error);
        if (status == NIB_OK) status = quantize(q, b, seed, 2 * t + 1, qb, error);
        if (status != NIB_OK) break;
        double *zq = z + SIDE * SIDE, zz = 0, along = 0;
        product(a, b, z);
        product(qa, qb, zq);
        for (size_t i = 0; i < SIDE * SIDE; i++) {
            zz += z[i] * z[i];
            along += z[i] * zq[i];
        }
        mean += along / zz / TIMES;
        square += along / zz * (along / zz) / TIMES;
    }
    free(x);
    free(z);
    if (status == NIB_OK) *out = (struct nib_estimate){mean, sqrt(fmax(0, square - mean * mean) / (TIMES - 1))};
    return status;
}

static void add_qsnr(struct writer *w, const struct nib_quantizer *quantizer, const struct nib_element *element,
                     const struct nib_density *density, const struct nib_bias_entry *entry) {
    struct nib_quantizer_info info;
    nib_quantizer_describe(quantizer, &info);
    double kappa = entry->estimate[NIB_STATISTIC_crest].value,
           gap = (double)element->level[1] - (double)element->level[0];
    bool uniform = true, power_of_two = info.block->scale->kind == NIB_SCALE_E8M0;
    for (unsigned k = 0; k + 1 < element->magnitudes && k < 7; k++)
        uniform &= fabs((double)element->level[k + 1] - (double)element->level[k] - gap) < 1e-6;
    unsigned size = info.block->block_rows * info.block->block_cols, block = power_of_two ? 0 : size;
    double rho = power_of_two ? 1.5 : 1;
    struct nib_estimate sqnr = entry->estimate[NIB_STATISTIC_sqnr_db];
    if (uniform) {
        add(w, "QSNR INT", "SQNR in dB", nib_equation_qsnr_int(4, kappa, rho, block), sqnr,
            "one crest factor for all blocks; 16 steps where there are 15 levels");
    } else if (density != NULL && element->max_magnitude == 6) {
        struct nib_equation_float f = {.mbits = 1, .bias = 1, .max = 6};
        nib_equation_float_shares(density, kappa, rho, &f);
        add(w, "QSNR FP", "SQNR in dB", nib_equation_qsnr_float(&f, kappa, rho, block), sqnr,
            power_of_two ? "one crest factor for all blocks; rho taken as 1.5"
                         : "one crest factor for all blocks; the density within a binade");
    }
}

static enum nib_status add_pair(struct writer *w, const struct nib_bias_result *result,
                                const struct nib_bias_request *request, size_t v, size_t q,
                                const struct nib_density *density, struct nib_error *error) {
    const struct nib_element *element = nib_bias_element(result, q);
    const struct nib_bias_entry *raw = nib_bias_entry_at(result, v, 0, q);
    w->quantizer = nib_bias_quantizer_name(result, q);
    w->rotation = nib_bias_rotation_name(result, 0);
    bool nearest = rounds_to_nearest(request->quantizers[q]);
    add_bins(w, element, nearest, raw);
    double alpha = nib_equation_alpha(&raw->total);
    add(w, "(3)", "alpha", alpha, raw->estimate[NIB_STATISTIC_alpha], "nothing");
    const struct nib_distribution *distribution = NULL;
    for (size_t d = 0; d < request->distribution_count; d++)
        if (nib_bias_view_at(result, v)->file[0] == '\0' && v + request->distribution_count >= nib_bias_views(result) &&
            d == v + request->distribution_count - nib_bias_views(result))
            distribution = &request->distributions[d];
    struct nib_estimate eta = {NAN, NAN};
    if (distribution != NULL) {
        enum nib_status status = measure_eta(distribution, request->quantizers[q], request->seed, &eta, error);
        if (status != NIB_OK) return status;
        add(w, "(4)", "eta of X W^T", nib_equation_eta(alpha, alpha), eta,
            "what of the residuals is coherent after all");
        double etas[12];
        for (int i = 0; i < 12; i++) etas[i] = nib_equation_eta(alpha, alpha);
        add(w, "(5)", "12 layers, exp(-sum delta)", nib_equation_gain_approximate(etas, 12),
            (struct nib_estimate){nib_equation_gain(etas, 12), NAN},
            "delta^2/2 per layer; beside it the product itself");
    }
    add(w, "(6)", "B_eff, eps 1e-12", nib_equation_b_eff(element, &raw->total, 1e-12),
        raw->estimate[NIB_STATISTIC_b_eff], "nothing");
    add_qsnr(w, request->quantizers[q], element, density, raw);
    for (size_t r = 1; r < nib_bias_rotations(result); r++) {
        const struct nib_bias_entry *turned = nib_bias_entry_at(result, v, r, q);
        w->rotation = nib_bias_rotation_name(result, r);
        add_bins(w, element, nearest, turned);
        add(w, "(3)", "alpha", nib_equation_alpha(&turned->total), turned->estimate[NIB_STATISTIC_alpha], "nothing");
        add(w, "(6)", "B_eff, eps 1e-12", nib_equation_b_eff(element, &turned->total, 1e-12),
            turned->estimate[NIB_STATISTIC_b_eff], "nothing");
        add_qsnr(w, request->quantizers[q], element, NULL, turned);
        add(w, "(7)", "change of SQNR in dB",
            nib_equation_dsqnr(raw->estimate[NIB_STATISTIC_nmse].value, turned->estimate[NIB_STATISTIC_nmse].value),
            turned->by_rotation[NIB_STATISTIC_sqnr_db], "nothing");
    }
    return NIB_OK;
}

enum nib_status nib_bias_equations(const struct nib_bias_result *result, const struct nib_bias_request *request,
                                   struct nib_table **out, struct nib_error *error) {
    struct writer w = {.table = NULL};
    enum nib_status status = nib_table_new("equations", columns, sizeof columns / sizeof *columns, &w.table, error);
    for (size_t v = 0; status == NIB_OK && v < nib_bias_views(result); v++) {
        const struct nib_density *density = NULL;
        const struct nib_bias_view *view = nib_bias_view_at(result, v);
        nib_bias_label_of(view, w.view, sizeof w.view);
        if (view->file[0] == '\0' && nib_density_open(view->tensor, &density, NULL) != NIB_OK) density = NULL;
        for (size_t q = 0; status == NIB_OK && q < nib_bias_quantizers(result); q++)
            status = add_pair(&w, result, request, v, q, density, error);
        nib_density_close(density);
    }
    if (status == NIB_OK && w.full) status = nib_fail(error, NIB_ENOMEM, "result table: out of memory");
    if (status == NIB_OK)
        *out = w.table;
    else if (w.table != NULL)
        nib_table_free(w.table);
    return status;
}
