#include "job/sample.h"

#include "base/error.h"
#include "base/fpenv.h"
#include "base/number.h"
#include "base/suggest.h"
#include "base/threads.h"
#include "core/philox.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Upper half of the counter: far from the streams that stochastic rounding takes with the same seed, whose random bits
 * must not be those of the elements. */
static const uint64_t sample_stream = UINT64_C(0x73616D706C650000);

static const double two_pi = 6.283185307179586476925286766559;

static const struct {
    const char *name;
    enum nib_density_kind kind;
    bool parameter;
} densities[] = {
    {"gaussian", NIB_DENSITY_GAUSSIAN, false}, {"laplace", NIB_DENSITY_LAPLACE, false},
    {"logistic", NIB_DENSITY_LOGISTIC, false}, {"uniform", NIB_DENSITY_UNIFORM, false},
    {"silu", NIB_DENSITY_SILU, true},          {"t", NIB_DENSITY_STUDENT, true},
    {"gg", NIB_DENSITY_POWER, true},           {"outlier", NIB_DENSITY_OUTLIER, true},
};
enum { DENSITIES = sizeof densities / sizeof *densities };

static const char *candidate(size_t i, const void *context) {
    (void)context;
    static const char *const names[] = {"gaussian", "laplace", "logistic", "uniform",  "silu1",
                                        "silu4",    "t3",      "gg0.5",    "outlier30"};
    return i < sizeof names / sizeof *names ? names[i] : NULL;
}

enum nib_status nib_distribution_parse(const char *name, struct nib_distribution *out, struct nib_error *error) {
    for (size_t i = 0; i < DENSITIES; i++) {
        size_t length = strlen(densities[i].name);
        if (strncmp(name, densities[i].name, length) != 0) continue;
        const char *rest = name + length;
        double parameter = 0;
        if (densities[i].parameter ? !nib_number_double(rest, &parameter) || !(parameter > 0) : *rest != '\0') continue;
        if (strlen(name) >= sizeof out->name) continue;
        out->kind = densities[i].kind;
        out->parameter = parameter;
        snprintf(out->name, sizeof out->name, "%s", name);
        return NIB_OK;
    }
    const char *near = nib_suggest(name, candidate, NULL);
    return nib_fail(error, NIB_EINVAL,
                    "no distribution \"%s\"; expected gaussian, laplace, logistic, uniform, tNU (t3), siluA (silu4), "
                    "ggBETA (gg0.5) or outlierA (outlier30)%s%s%s",
                    name, near == NULL ? "" : "; did you mean \"", near == NULL ? "" : near, near == NULL ? "" : "\"?");
}

/* A number in (0, 1), never at either end, from 64 random bits. */
static double open_unit(uint32_t high, uint32_t low) {
    uint64_t bits = ((uint64_t)high << 32 | low) >> 11;
    return ((double)bits + 0.5) * 0x1p-53;
}

static double normal(double u, double v) {
    return sqrt(-2 * log(u)) * cos(two_pi * v);
}

/* A gamma variate of shape k by Marsaglia and Tsang (2000); each attempt takes a counter of its own. Below 1 the shape
 * is raised by 1 and the variate multiplied by a power of a uniform number. */
static double gamma_variate(uint64_t seed, uint64_t i, double shape, double uniform) {
    double boost = shape < 1 ? pow(uniform, 1 / shape) : 1, d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3;
    for (uint64_t attempt = 1;; attempt++) {
        struct nib_philox_block w = nib_philox(seed, i, sample_stream + 2 * attempt);
        struct nib_philox_block other = nib_philox(seed, i, sample_stream + 2 * attempt + 1);
        double z = normal(open_unit(w.word[0], w.word[1]), open_unit(w.word[2], w.word[3]));
        double v = 1 + z / sqrt(9 * d), cube = v * v * v;
        if (v <= 0) continue;
        if (log(open_unit(other.word[0], other.word[1])) < z * z / 2 + d - d * cube + d * log(cube))
            return boost * d * cube;
    }
}

static double sample(const struct nib_distribution *distribution, uint64_t seed, uint64_t i) {
    struct nib_philox_block w = nib_philox(seed, i, sample_stream);
    double u = open_unit(w.word[0], w.word[1]), v = open_unit(w.word[2], w.word[3]);
    double a = distribution->parameter;
    switch (distribution->kind) {
    case NIB_DENSITY_GAUSSIAN: return normal(u, v);
    case NIB_DENSITY_LAPLACE: return u < 0.5 ? log(2 * u) : -log(2 * (1 - u));
    case NIB_DENSITY_LOGISTIC: return log(u / (1 - u));
    case NIB_DENSITY_UNIFORM: return 2 * u - 1;
    case NIB_DENSITY_STUDENT: return sqrt(a * expm1(-2 / a * log(u))) * cos(two_pi * v); /* Bailey 1994 */
    case NIB_DENSITY_SILU: {
        double gate = a * normal(u, v), radius = sqrt(-2 * log(u)) * sin(two_pi * v); /* the pair's other half */
        return gate / (1 + exp(-gate)) * radius;
    }
    case NIB_DENSITY_OUTLIER: return i % 16 == 0 ? a * normal(u, v) : normal(u, v);
    case NIB_DENSITY_POWER: /* |x|^a is a gamma variate of shape 1/a */
        return (u < 0.5 ? -1 : 1) * pow(gamma_variate(seed, i, 1 / a, v), 1 / a);
    }
    return 0;
}

void nib_distribution_fill(const struct nib_distribution *distribution, uint64_t seed, uint64_t first, size_t count,
                           int threads, float *out) {
#pragma omp parallel num_threads(nib_threads(threads))
    {
        struct nib_fpenv saved = nib_fpenv_enter();
#pragma omp for schedule(static)
        for (size_t i = 0; i < count; i++) out[i] = (float)sample(distribution, seed, first + i);
        nib_fpenv_leave(saved);
    }
}
