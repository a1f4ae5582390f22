/* A density that is constant within bins. */
#include "expect/density.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/path.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum nib_status check(const char *name, const double *edges, const double *weights, size_t bins,
                             struct nib_error *error) {
    double sum = 0;
    if (bins < 1) return nib_fail(error, NIB_EINVAL, "%s: a histogram needs at least one bin", name);
    for (size_t i = 0; i < bins; i++) {
        if (!(edges[i] < edges[i + 1]) || !isfinite(edges[i]) || !isfinite(edges[i + 1]))
            return nib_fail(error, NIB_EINVAL, "%s: edges %zu and %zu (%g, %g) must be finite and ascend", name, i,
                            i + 1, edges[i], edges[i + 1]);
        if (!(weights[i] >= 0) || !isfinite(weights[i]))
            return nib_fail(error, NIB_EINVAL, "%s: weight %zu is %g; expected a number that is not negative", name, i,
                            weights[i]);
        sum += weights[i];
    }
    if (!(sum > 0) || !isfinite(sum)) return nib_fail(error, NIB_EINVAL, "%s: all weights are 0", name);
    return NIB_OK;
}

enum nib_status nib_density_from_histogram(const char *name, const double *edges, const double *weights, size_t bins,
                                           const struct nib_density **out, struct nib_error *error) {
    enum nib_status status = check(name, edges, weights, bins, error);
    if (status != NIB_OK) return status;
    struct nib_density *d = nib_alloc(1, sizeof *d, "a density", error);
    if (d == NULL) return NIB_ENOMEM;
    snprintf(d->name, sizeof d->name, "%s", name);
    d->count = bins;
    d->edge = nib_alloc(bins + 1, sizeof *d->edge, "a histogram", error);
    d->weight = nib_alloc(bins, sizeof *d->weight, "a histogram", error);
    d->cumulated = nib_alloc(bins + 1, sizeof *d->cumulated, "a histogram", error);
    if (d->edge == NULL || d->weight == NULL || d->cumulated == NULL) {
        nib_density_close(d);
        return NIB_ENOMEM;
    }
    double sum = 0;
    for (size_t i = 0; i < bins; i++) sum += weights[i];
    memcpy(d->edge, edges, (bins + 1) * sizeof *edges);
    for (size_t i = 0; i < bins; i++) {
        double a = edges[i], b = edges[i + 1];
        double f = d->weight[i] = weights[i] / sum / (b - a);
        d->cumulated[i + 1][0] = d->cumulated[i][0] + f * (b - a);
        d->cumulated[i + 1][1] = d->cumulated[i][1] + f * (b * b - a * a) / 2;
        d->cumulated[i + 1][2] = d->cumulated[i][2] + f * (b * b * b - a * a * a) / 3;
        d->fourth += f * (pow(b, 5) - pow(a, 5)) / 5;
    }
    d->largest = fmax(fabs(edges[0]), fabs(edges[bins]));
    *out = d;
    return NIB_OK;
}

static bool parse_line(const char *line, size_t length, double *edge, double *weight) {
    char text[2][64];
    int end = 0;
    char copy[160];
    if (length >= sizeof copy) return false;
    memcpy(copy, line, length);
    copy[length] = '\0';
    if (sscanf(copy, "%63s %63s %n", text[0], text[1], &end) != 2 || copy[end] != '\0') return false;
    return nib_number_double(text[0], edge) && nib_number_double(text[1], weight);
}

/* Lines "edge weight": the weight of the bin that begins there; that of the last line, where the last bin ends, is
 * not used. '#' begins a comment line. */
enum nib_status nib_density_read_histogram(const char *path, const struct nib_density **out, struct nib_error *error) {
    char *text = NULL, name[256];
    size_t length, count = 0;
    enum nib_status status = nib_path_read_text(path, &text, &length, error);
    if (status != NIB_OK) return status;
    size_t lines = 1;
    for (size_t i = 0; i < length; i++) lines += text[i] == '\n';
    double *edges = nib_alloc(lines, sizeof *edges, "a histogram", error);
    double *weights = nib_alloc(lines, sizeof *weights, "a histogram", error);
    if (edges == NULL || weights == NULL) status = NIB_ENOMEM;
    int number = 0;
    for (const char *line = text; status == NIB_OK && *line != '\0';) {
        const char *end = strchr(line, '\n');
        size_t n = end == NULL ? strlen(line) : (size_t)(end - line);
        number++;
        if (n > 0 && line[0] != '#' && !parse_line(line, n, &edges[count], &weights[count]))
            status = nib_fail_at(error, NIB_ESYNTAX, path, number, "expected an edge and a weight, two numbers");
        else if (n > 0 && line[0] != '#')
            count++;
        line += n + (end != NULL);
    }
    snprintf(name, sizeof name, "hist:%s", path);
    if (status == NIB_OK)
        status = nib_density_from_histogram(name, edges, weights, count < 1 ? 0 : count - 1, out, error);
    free(edges);
    free(weights);
    free(text);
    return status;
}
