/* Grids from words. */
#include "job/explore.h"

#include "base/error.h"
#include "base/number.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAGNITUDES = 8 };

/* Levels before they are an element; more than 16 are noticed when they are one. */
struct levels {
    double value[2 * NIB_CODES + 2];
    unsigned count;
};

void nib_explore_grids_free(struct nib_explore_grids *grids) {
    for (size_t i = 0; i < grids->count; i++) nib_element_close(grids->grid[i].element);
    free(grids->grid);
    *grids = (struct nib_explore_grids){0};
}

enum nib_status nib_explore_add(struct nib_explore_grids *grids, const char *label, const char *name,
                                const struct nib_element *element, struct nib_error *error) {
    if (grids->count == grids->capacity) {
        size_t capacity = grids->capacity == 0 ? 16 : 2 * grids->capacity;
        struct nib_explore_grid *more = realloc(grids->grid, capacity * sizeof *more);
        if (more == NULL) {
            nib_element_close(element);
            return nib_fail(error, NIB_ENOMEM, "out of memory for %zu grids", capacity);
        }
        grids->grid = more;
        grids->capacity = capacity;
    }
    struct nib_explore_grid *grid = &grids->grid[grids->count++];
    snprintf(grid->label, sizeof grid->label, "%s", label);
    snprintf(grid->name, sizeof grid->name, "%s", name);
    grid->element = element;
    return NIB_OK;
}

/* Magnitudes of a mid-rise grid: the middles of the gaps, and half a step above the largest. */
static void rise(struct levels *m) {
    double last = m->count > 1 ? m->value[m->count - 1] - m->value[m->count - 2] : 0;
    for (unsigned i = 0; i + 1 < m->count; i++) m->value[i] = (m->value[i] + m->value[i + 1]) / 2;
    m->value[m->count - 1] += last / 2;
}

static enum nib_status add_signed(struct nib_explore_grids *grids, const struct levels *levels, const char *label,
                                  double offset, struct nib_error *error) {
    float value[2 * NIB_CODES + 2];
    char full[160];
    const struct nib_element *element = NULL;
    for (unsigned i = 0; i < levels->count; i++) value[i] = (float)(levels->value[i] + offset);
    snprintf(full, sizeof full, offset != 0 ? "%.120s%+.9g" : "%.140s", label, offset);
    enum nib_status status = nib_element_from_levels("grid", value, levels->count, &element, error);
    if (status == NIB_OK) return nib_explore_add(grids, full, "", element, error);
    if (error != NULL) {
        char why[sizeof error->text];
        memcpy(why, error->text, sizeof why);
        nib_fail(error, status, "grid \"%.120s\": %.300s", full, why);
    }
    return status;
}

static enum nib_status add_magnitudes(struct nib_explore_grids *grids, struct levels *m, const char *label,
                                      const struct nib_explore_shape *shape, struct nib_error *error) {
    struct levels all = {.count = 0};
    char full[160];
    for (unsigned i = 0; i < m->count; i++) /* here, because mirroring would hide which one is meant */
        if (!(m->value[i] >= 0) || (i > 0 && !(m->value[i] > m->value[i - 1])))
            return nib_fail(error, NIB_EINVAL, "grid \"%.120s\": magnitudes must ascend: number %u is %.9g", label,
                            i + 1, m->value[i]);
    unsigned zero = m->value[0] == 0 && !shape->mid_rise;
    if (2 * m->count - zero > NIB_CODES)
        return nib_fail(error, NIB_EINVAL, "grid \"%.120s\": %u magnitudes make %u levels; expected 2 to 16", label,
                        m->count, 2 * m->count - zero);
    if (shape->mid_rise) rise(m);
    for (unsigned i = m->count; i-- > zero;) all.value[all.count++] = -m->value[i];
    for (unsigned i = 0; i < m->count; i++) all.value[all.count++] = m->value[i];
    snprintf(full, sizeof full, shape->mid_rise ? "%.140s mid-rise" : "%.150s", label);
    return add_signed(grids, &all, full, shape->offset, error);
}

static enum nib_status parse_list(const char *text, struct levels *out, struct nib_error *error) {
    struct levels levels = {.count = 0};
    for (const char *p = text;;) {
        char number[64];
        size_t length = strcspn(p, ",");
        if (levels.count == sizeof levels.value / sizeof *levels.value)
            return nib_fail(error, NIB_EINVAL, "grid \"%.120s\": more than 16 levels", text);
        if (length >= sizeof number) length = sizeof number - 1;
        memcpy(number, p, length);
        number[length] = '\0';
        if (!nib_number_double(number, &levels.value[levels.count]))
            return nib_fail(error, NIB_EINVAL, "grid \"%.120s\": \"%s\" is no number", text, number);
        levels.count++;
        p += strcspn(p, ",");
        if (*p == '\0') break;
        p++;
    }
    *out = levels;
    return NIB_OK;
}

enum nib_status nib_explore_add_levels(struct nib_explore_grids *grids, const char *text,
                                       const struct nib_explore_shape *shape, struct nib_error *error) {
    struct levels levels;
    bool negative = shape->as_signed;
    enum nib_status status = parse_list(text, &levels, error);
    if (status != NIB_OK) return status;
    for (unsigned i = 0; i < levels.count; i++) negative |= levels.value[i] < 0;
    if (!negative) return add_magnitudes(grids, &levels, text, shape, error);
    if (shape->mid_rise)
        return nib_fail(error, NIB_EINVAL, "grid \"%.120s\": --mid-rise moves magnitudes; these levels have signs",
                        text);
    return add_signed(grids, &levels, text, shape->offset, error);
}

static enum nib_status make_float(const struct levels *p, const char *text, struct levels *out,
                                  struct nib_error *error) {
    double e = p->value[0], m = p->count > 1 ? p->value[1] : NAN;
    if (p->count < 2 || p->count > 3 || e != floor(e) || m != floor(m) || e < 0 || m < 0 || e + m > 3)
        return nib_fail(error, NIB_EINVAL, "rule \"%s\": expected float:E,M[,BIAS] with E + M of at most 3 bits", text);
    double bias = p->count > 2 ? p->value[2] : e > 1 ? exp2(e - 1) - 1 : 1;
    for (unsigned code = 0; code < 1u << (int)(e + m); code++) {
        unsigned exponent = code >> (int)m;
        double fraction = (double)(code & ((1u << (int)m) - 1)) / exp2(m);
        out->value[out->count++] = exponent == 0 ? fraction * exp2(1 - bias) : (1 + fraction) * exp2(exponent - bias);
    }
    return NIB_OK;
}

/* Magnitudes by which the signed levels have equal shares, as NF4 has them in the middle. */
static enum nib_status make_quantiles(const char *name, struct levels *out, struct nib_error *error) {
    const struct nib_density *density;
    enum nib_status status = nib_density_open(name, &density, error);
    if (status != NIB_OK) return status;
    for (unsigned i = 0; i < MAGNITUDES; i++) {
        double low = 0, high = 1, whole[3], below[3], share = 2.0 * i / (2 * MAGNITUDES - 1);
        for (int side = 0; side < 200 && i > 0; side++) {
            double middle = side < 60 && high == ldexp(1, side) ? high : (low + high) / 2;
            nib_density_partial(density, middle, whole);
            nib_density_partial(density, -middle, below);
            bool short_of = whole[0] - below[0] < share;
            if (short_of && middle == high)
                low = high, high *= 2;
            else if (short_of)
                low = middle;
            else
                high = middle;
        }
        out->value[out->count++] = i == 0 ? 0 : high;
    }
    nib_density_close(density);
    return NIB_OK;
}

enum nib_status nib_explore_add_rule(struct nib_explore_grids *grids, const char *text,
                                     const struct nib_explore_shape *shape, struct nib_error *error) {
    struct levels p = {.count = 0}, m = {.count = 0};
    const char *colon = strchr(text, ':'), *rest = colon == NULL ? "" : colon + 1;
    size_t length = colon == NULL ? strlen(text) : (size_t)(colon - text);
    enum nib_status status = NIB_OK;
    bool quantiles = length == 9 && strncmp(text, "quantiles", 9) == 0;
    if (*rest != '\0' && !quantiles) status = parse_list(rest, &p, error);
    if (status != NIB_OK) return status;
    double first = p.count > 0 ? p.value[0] : NAN;
    if (quantiles && *rest != '\0') {
        status = make_quantiles(rest, &m, error);
    } else if (length == 5 && strncmp(text, "float", 5) == 0) {
        status = make_float(&p, text, &m, error);
    } else if (length == 7 && strncmp(text, "uniform", 7) == 0 && p.count < 2 &&
               (p.count == 0 || (first >= 2 && first <= 16 && first == floor(first)))) {
        for (unsigned i = 0; i < (p.count == 0 ? MAGNITUDES : (unsigned)first); i++) m.value[m.count++] = i;
    } else if (length == 5 && strncmp(text, "power", 5) == 0 && p.count == 1 && first > 0) {
        for (unsigned i = 0; i < MAGNITUDES; i++) m.value[m.count++] = pow(i / 7.0, first);
    } else if (length == 9 && strncmp(text, "geometric", 9) == 0 && p.count == 1 && first > 1) {
        for (unsigned i = 0; i < MAGNITUDES; i++) m.value[m.count++] = i == 0 ? 0 : pow(first, i - 1.0);
    } else {
        status = nib_fail(
            error, NIB_EINVAL,
            "rule \"%s\": expected float:E,M[,BIAS], uniform[:K], power:P, geometric:R (R > 1) or quantiles:DENSITY",
            text);
    }
    return status == NIB_OK ? add_magnitudes(grids, &m, text, shape, error) : status;
}

enum nib_status nib_explore_add_element(struct nib_explore_grids *grids, const char *name,
                                        const struct nib_explore_shape *shape, struct nib_error *error) {
    const struct nib_element *element = NULL;
    enum nib_status status = nib_element_open(name, &element, error);
    if (status != NIB_OK) return status;
    if (!shape->mid_rise && shape->offset == 0)
        return nib_explore_add(grids, element->name, element->name, element, error);
    struct levels levels = {.count = 0};
    bool magnitudes = shape->mid_rise, mirrored = true;
    for (unsigned r = 0; r < element->levels; r++)
        mirrored &= element->level_of_rank[r] == -element->level_of_rank[element->levels - 1 - r];
    for (unsigned r = 0; r < element->levels; r++) {
        double level = (double)element->level_of_rank[r];
        if (levels.count > 0 && levels.value[levels.count - 1] == level) continue;
        if (!magnitudes || level >= 0) levels.value[levels.count++] = level + 0.0;
    }
    if (magnitudes && !mirrored)
        status = nib_fail(error, NIB_EINVAL, "%s: --mid-rise needs a grid that is symmetric about zero", element->name);
    else if (magnitudes)
        status = add_magnitudes(grids, &levels, element->name, shape, error);
    else
        status = add_signed(grids, &levels, element->name, shape->offset, error);
    nib_element_close(element);
    return status;
}

enum nib_status nib_explore_add_integers(struct nib_explore_grids *grids, unsigned n, struct nib_error *error) {
    static const unsigned e2m1[7] = {1, 2, 3, 4, 6, 8, 12};
    unsigned chosen[7] = {1, 2, 3, 4, 5, 6, 7};
    if (n < 7 || n > 24)
        return nib_fail(error, NIB_EINVAL,
                        "integer grids have 7 of the numbers from 1 to N; %u is not between 7 and 24", n);
    for (;;) {
        float level[15] = {0};
        char label[160];
        int length = snprintf(label, sizeof label, "0");
        bool uniform = true, is_e2m1 = true;
        for (int i = 0; i < 7; i++) {
            level[8 + i] = (float)chosen[i];
            level[6 - i] = -(float)chosen[i];
            length += snprintf(label + length, sizeof label - (size_t)length, ",%u", chosen[i]);
            uniform &= chosen[i] == (unsigned)i + 1;
            is_e2m1 &= chosen[i] == e2m1[i];
        }
        const struct nib_element *element = NULL;
        enum nib_status status = nib_element_from_levels("integers", level, 15, &element, error);
        if (status == NIB_OK)
            status = nib_explore_add(grids, label, uniform ? "uniform" : is_e2m1 ? "E2M1" : "", element, error);
        if (status != NIB_OK) return status;
        int i = 6;
        while (i >= 0 && chosen[i] == n - 6 + (unsigned)i) i--;
        if (i < 0) return NIB_OK;
        chosen[i]++;
        for (int k = i + 1; k < 7; k++) chosen[k] = chosen[k - 1] + 1;
    }
}
