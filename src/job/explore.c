/* Runs an exploration: quadrature for independent elements, sampled blocks for what is rotated or real. */
#include "job/explore.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "job/bias.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void nib_explore_result_free(struct nib_explore_result *result) {
    free(result->point);
    nib_explore_grids_free(&result->found);
    *result = (struct nib_explore_result){0};
}

/* Room for `count` more points, or NULL. */
static struct nib_explore_point *reserve(struct nib_explore_result *result, size_t count, struct nib_error *error) {
    if (result->count + count > result->capacity) {
        size_t capacity = 2 * (result->count + count);
        struct nib_explore_point *more = realloc(result->point, capacity * sizeof *more);
        if (more == NULL) {
            nib_fail(error, NIB_ENOMEM, "out of memory for %zu points", capacity);
            return NULL;
        }
        result->point = more;
        result->capacity = capacity;
    }
    struct nib_explore_point *first = result->point + result->count;
    memset(first, 0, count * sizeof *first);
    result->count += count;
    return first;
}

static enum nib_status quantizer_of(const struct nib_explore_request *request, const struct nib_explore_grid *grid,
                                    const struct nib_scale *scale, unsigned block, const struct nib_quantizer **out,
                                    struct nib_error *error) {
    const struct nib_quantizer *plain = NULL;
    enum nib_status status = nib_quantizer_of_grid(grid->element, scale, block, &plain, error);
    if (status != NIB_OK || request->setting_count == 0) {
        if (status == NIB_OK) *out = plain;
        return status;
    }
    status = nib_quantizer_with(plain, request->settings, request->setting_count, out, error);
    nib_quantizer_close(plain);
    return status;
}

static void judge(const struct nib_explore_request *request, struct nib_explore_point *point) {
    point->objective = nib_objective_value(request->objective, request->weight, &point->bias);
    point->measured = (struct nib_estimate){NAN, NAN};
}

/* One group: the points of all grids for one density, block size and scale. */
static enum nib_status expect_group(const struct nib_explore_request *request, const struct nib_density *density,
                                    unsigned block, const struct nib_scale *scale, struct nib_explore_point *points,
                                    struct nib_error *error) {
    const struct nib_explore_grids *grids = request->grids;
    bool continuous = scale->kind == NIB_SCALE_FP32 && request->setting_count == 0;
    struct nib_expect_plan *plan = NULL;
    double crest = NAN, kurtosis = NAN;
    enum nib_status status = nib_expect_shape(density, block, &crest, &kurtosis, error);
    if (status == NIB_OK && continuous) status = nib_expect_plan_new(density, block, &plan, error);
#pragma omp parallel for num_threads(nib_threads(request->threads)) schedule(dynamic, 4)
    for (size_t i = 0; i < grids->count; i++) {
        enum nib_status before, own;
        struct nib_error own_error = {NIB_OK, 0, "", ""};
        struct nib_sums sums = {0};
#pragma omp atomic read
        before = status;
        if (before != NIB_OK) continue;
        const struct nib_explore_grid *grid = &grids->grid[i];
        if (continuous) {
            own = nib_expect_grid(plan, grid->element, NIB_RNE, 0, 0, &sums, &own_error);
        } else {
            const struct nib_quantizer *quantizer = NULL;
            struct nib_expect_options options = {.without_shape = true};
            own = quantizer_of(request, grid, scale, block, &quantizer, &own_error);
            if (own == NIB_OK) own = nib_expect(quantizer, density, &options, &sums, &own_error);
            nib_quantizer_close(quantizer);
        }
        if (own != NIB_OK) {
#pragma omp critical(nib_explore_failure)
            {
                if (error != NULL && status == NIB_OK) *error = own_error;
#pragma omp atomic write
                status = own;
            }
            continue;
        }
        struct nib_explore_point *p = &points[i];
        p->grid = grid;
        p->sums = sums;
        p->sums.block_count = NIB_EXPECT_COUNT / block;
        p->sums.crest_sum = crest * (double)p->sums.block_count;
        p->sums.kurtosis_sum = kurtosis * (double)p->sums.block_count;
        snprintf(p->data, sizeof p->data, "%s", nib_density_name(density));
        snprintf(p->scale, sizeof p->scale, "%s", scale->name);
        snprintf(p->rotation, sizeof p->rotation, "none");
        p->block = block;
        p->method = "quadrature";
        nib_bias_of(grid->element, &p->sums, &p->bias);
        judge(request, p);
    }
    nib_expect_plan_free(plan);
    return status;
}

/* Points by measurement: every tensor for one rotation, block size and scale. */
static enum nib_status sample_groups(const struct nib_explore_request *request,
                                     const struct nib_distribution *distributions, size_t distribution_count,
                                     const struct nib_rotation *rotation, unsigned block, const struct nib_scale *scale,
                                     struct nib_explore_result *result, struct nib_error *error) {
    size_t count = request->grids->count;
    const struct nib_quantizer **quantizers = nib_alloc(count, sizeof *quantizers, "quantizers", error);
    struct nib_bias_result *bias = NULL;
    enum nib_status status = quantizers == NULL ? NIB_ENOMEM : NIB_OK;
    for (size_t i = 0; status == NIB_OK && i < count; i++)
        status = quantizer_of(request, &request->grids->grid[i], scale, block, &quantizers[i], error);
    struct nib_bias_request sample = {.files = distribution_count > 0 ? NULL : request->files,
                                      .file_count = distribution_count > 0 ? 0 : request->file_count,
                                      .distributions = distributions,
                                      .distribution_count = distribution_count,
                                      .sample_count = request->samples,
                                      .seed = request->seed,
                                      .quantizers = quantizers,
                                      .quantizer_count = count,
                                      .rotations = &rotation,
                                      .rotation_count = 1,
                                      .axis = NIB_ALONG_COLS,
                                      .gemm = NIB_GEMM_NONE,
                                      .operand = NIB_OPERAND_NONE,
                                      .threads = request->threads};
    if (status == NIB_OK) status = nib_bias_run(&sample, &bias, error);
    struct nib_explore_point *p = status == NIB_OK ? reserve(result, nib_bias_views(bias) * count, error) : NULL;
    if (status == NIB_OK && p == NULL) status = NIB_ENOMEM;
    for (size_t v = 0; status == NIB_OK && v < nib_bias_views(bias); v++)
        for (size_t i = 0; i < count; i++, p++) {
            const struct nib_bias_entry *entry = nib_bias_entry_at(bias, v, 0, i);
            p->grid = &request->grids->grid[i];
            p->sums = entry->total;
            snprintf(p->data, sizeof p->data, "%.255s", nib_bias_view_at(bias, v)->tensor);
            snprintf(p->scale, sizeof p->scale, "%s", scale->name);
            snprintf(p->rotation, sizeof p->rotation, "%s", nib_rotation_name(rotation));
            p->block = block;
            p->method = "sampled";
            nib_bias_of(p->grid->element, &p->sums, &p->bias);
            judge(request, p);
            p->measured = entry->estimate[NIB_STATISTIC_sqnr_db];
        }
    if (bias != NULL) nib_bias_result_free(bias);
    for (size_t i = 0; quantizers != NULL && i < count; i++) nib_quantizer_close(quantizers[i]);
    free(quantizers);
    return status;
}

static int by_objective(const void *left, const void *right) {
    const struct nib_explore_point *a = left, *b = right;
    if (a->objective != b->objective) return a->objective < b->objective ? -1 : 1;
    return strcmp(a->grid->label, b->grid->label);
}

static void rank_group(struct nib_explore_point *points, size_t count) {
    qsort(points, count, sizeof *points, by_objective);
    for (size_t i = 0; i < count; i++) {
        points[i].rank = i + 1;
        points[i].pareto = true;
        for (size_t k = 0; k < count && points[i].pareto; k++) {
            double mse = points[k].bias.nmse - points[i].bias.nmse;
            double loss = fabs(points[k].bias.one_minus_alpha) - fabs(points[i].bias.one_minus_alpha);
            points[i].pareto = !(mse <= 0 && loss <= 0 && (mse < 0 || loss < 0));
        }
    }
}

static enum nib_status confirm_group(const struct nib_explore_request *request, const struct nib_scale *scale,
                                     struct nib_explore_point *points, struct nib_error *error) {
    struct nib_explore_grids few = {0};
    struct nib_explore_request own = *request;
    struct nib_distribution distribution;
    const struct nib_rotation *none = NULL;
    size_t count = request->confirm < request->grids->count ? request->confirm : request->grids->count;
    few.grid = nib_alloc(count, sizeof *few.grid, "grids", error);
    struct nib_explore_result measured = {0};
    enum nib_status status = few.grid == NULL ? NIB_ENOMEM : nib_rotation_open("none", &none, error);
    if (status == NIB_OK) status = nib_distribution_parse(points[0].data, &distribution, error);
    for (size_t i = 0; status == NIB_OK && i < count; i++)
        few.grid[few.count++] = *points[i].grid; /* borrowed elements */
    own.grids = &few;
    if (status == NIB_OK)
        status = sample_groups(&own, &distribution, 1, none, points[0].block, scale, &measured, error);
    for (size_t i = 0; status == NIB_OK && i < count; i++) points[i].measured = measured.point[i].measured;
    nib_rotation_close(none);
    free(measured.point);
    free(few.grid);
    return status;
}

static enum nib_status improve_grids(const struct nib_explore_request *request, struct nib_explore_grids *out,
                                     struct nib_error *error) {
    for (size_t d = 0; d < request->density_count; d++)
        for (size_t b = 0; b < request->block_count; b++) {
            const struct nib_density *density = NULL;
            struct nib_expect_plan *plan = NULL;
            enum nib_status status = nib_density_open(request->densities[d], &density, error);
            if (status == NIB_OK) status = nib_expect_plan_new(density, (unsigned)request->blocks[b], &plan, error);
            for (size_t i = 0; status == NIB_OK && i < request->grids->count; i++) {
                const struct nib_element *best = NULL;
                const struct nib_explore_grid *from = &request->grids->grid[i];
                status = nib_expect_best(plan, from->element, request->objective, request->weight, &best, error);
                char label[160];
                size_t length = 0;
                for (unsigned r = 0; status == NIB_OK && r < best->levels; r++) {
                    float level = best->level_of_rank[r];
                    if (best->symmetric && (level < 0 || (level == 0 && length > 0))) continue;
                    if (best->symmetric && level == 0 && r + 1 < best->levels && best->level_of_rank[r + 1] == 0)
                        continue;
                    length += (size_t)snprintf(label + length, sizeof label - length, "%s%.4g", length > 0 ? "," : "",
                                               (double)level);
                    if (length >= sizeof label) break;
                }
                char name[40];
                snprintf(name, sizeof name, "from %.30s", from->label);
                if (status == NIB_OK) status = nib_explore_add(out, label, name, best, error);
            }
            nib_expect_plan_free(plan);
            nib_density_close(density);
            if (status != NIB_OK) return status;
        }
    return NIB_OK;
}

static enum nib_status run_density(const struct nib_explore_request *request, size_t d,
                                   struct nib_explore_result *result, struct nib_error *error) {
    const struct nib_density *density = NULL;
    struct nib_distribution distribution;
    size_t count = request->grids->count;
    enum nib_status status = nib_density_open(request->densities[d], &density, error);
    for (size_t b = 0; status == NIB_OK && b < request->block_count; b++)
        for (size_t s = 0; status == NIB_OK && s < request->scale_count; s++)
            for (size_t r = 0; status == NIB_OK && r < request->rotation_count; r++) {
                unsigned block = (unsigned)request->blocks[b];
                size_t first = result->count;
                if (nib_rotation_size(request->rotations[r]) > 1) {
                    status = nib_distribution_parse(request->densities[d], &distribution, error);
                    if (status == NIB_OK)
                        status = sample_groups(request, &distribution, 1, request->rotations[r], block,
                                               request->scales[s], result, error);
                    if (status == NIB_OK) rank_group(result->point + first, count);
                    continue;
                }
                struct nib_explore_point *points = reserve(result, count, error);
                status = points == NULL ? NIB_ENOMEM
                                        : expect_group(request, density, block, request->scales[s], points, error);
                if (status == NIB_OK) rank_group(points, count);
                if (status == NIB_OK && request->confirm > 0)
                    status = confirm_group(request, request->scales[s], points, error);
            }
    nib_density_close(density);
    return status;
}

enum nib_status nib_explore_run(const struct nib_explore_request *request, struct nib_explore_result *out,
                                struct nib_error *error) {
    struct nib_explore_result result = {0};
    struct nib_explore_request own = *request;
    enum nib_status status = NIB_OK;
    if (request->grids->count == 0) return nib_fail(error, NIB_EINVAL, "no grid to explore");
    if (request->improve) {
        for (size_t i = 0; status == NIB_OK && i < request->grids->count; i++) {
            const struct nib_explore_grid *g = &request->grids->grid[i];
            const struct nib_element *copy = NULL;
            status = nib_element_parse(g->element->text, strlen(g->element->text), g->element->name, &copy, error);
            if (status == NIB_OK) status = nib_explore_add(&result.found, g->label, g->name, copy, error);
        }
        if (status == NIB_OK) status = improve_grids(request, &result.found, error);
        own.grids = &result.found;
    }
    for (size_t d = 0; status == NIB_OK && d < own.density_count; d++) status = run_density(&own, d, &result, error);
    for (size_t b = 0; status == NIB_OK && own.file_count > 0 && b < own.block_count; b++)
        for (size_t s = 0; status == NIB_OK && s < own.scale_count; s++)
            for (size_t r = 0; status == NIB_OK && r < own.rotation_count; r++) {
                size_t first = result.count;
                status = sample_groups(&own, NULL, 0, own.rotations[r], (unsigned)own.blocks[b], own.scales[s], &result,
                                       error);
                for (; status == NIB_OK && first < result.count; first += own.grids->count)
                    rank_group(result.point + first, own.grids->count);
            }
    result.group_size = own.grids->count;
    if (status == NIB_OK)
        *out = result;
    else
        nib_explore_result_free(&result);
    return status;
}
