/* Searches and rankings: what exhaustive search, Lloyd's iteration and root-finding must give. */
#include "job/explore.h"

#include "nib_test.h"
#include <math.h>

static const struct nib_explore_shape plain;

static struct nib_explore_request request_for(const struct nib_explore_grids *grids) {
    static const char *const gaussian[] = {"gaussian"};
    static const int64_t sixteen[] = {16};
    static const struct nib_scale *fp32;
    static const struct nib_rotation *none;
    if (fp32 == NULL &&
        (nib_scale_open("fp32", &fp32, NULL) != NIB_OK || nib_rotation_open("none", &none, NULL) != NIB_OK))
        abort();
    return (struct nib_explore_request){.grids = grids,
                                        .densities = gaussian,
                                        .density_count = 1,
                                        .blocks = sixteen,
                                        .block_count = 1,
                                        .scales = &fp32,
                                        .scale_count = 1,
                                        .rotations = &none,
                                        .rotation_count = 1,
                                        .samples = nib_test_full() ? 1 << 24 : 1 << 22,
                                        .threads = 2};
}

/* 12 over 7 grids; the first three confirmed by measurement to 0.02 dB; E2M1 and the uniform grid have their places. */
static void integer_grids_are_ranked_and_confirmed(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    struct nib_explore_grids grids = {0};
    struct nib_explore_result result;
    NIB_OK_OR_FAIL(nib_explore_add_integers(&grids, 12, &error), error);
    CU_ASSERT(grids.count == 792);
    struct nib_explore_request request = request_for(&grids);
    request.confirm = 3;
    NIB_OK_OR_FAIL(nib_explore_run(&request, &result, &error), error);
    CU_ASSERT(result.count == 792);
    bool e2m1 = false, uniform = false;
    for (size_t i = 0; i < result.count; i++) {
        const struct nib_explore_point *p = &result.point[i];
        CU_ASSERT(p->rank == i + 1 && (i == 0 || p->objective >= result.point[i - 1].objective));
        if (i < 3)
            NIB_CHECKF(fabs(p->measured.value - p->bias.sqnr_db) < 0.02 && p->measured.error > 0,
                       "%s: measured %.3f +- %.3f, expected %.3f dB", p->grid->label, p->measured.value,
                       p->measured.error, p->bias.sqnr_db);
        if (strcmp(p->grid->label, "0,1,2,3,4,6,8,12") == 0) e2m1 = strcmp(p->grid->name, "E2M1") == 0;
        if (strcmp(p->grid->label, "0,1,2,3,4,5,6,7") == 0) uniform = strcmp(p->grid->name, "uniform") == 0;
    }
    CU_ASSERT(e2m1 && uniform);
    nib_explore_result_free(&result);
    nib_explore_grids_free(&grids);
}

static double sqnr_of(const struct nib_explore_grids *grids, size_t i, const char *density) {
    const struct nib_density *d;
    struct nib_expect_plan *plan;
    struct nib_sums sums = {0};
    struct nib_bias bias;
    if (nib_density_open(density, &d, NULL) != NIB_OK || nib_expect_plan_new(d, 16, &plan, NULL) != NIB_OK) abort();
    CU_ASSERT(nib_expect_grid(plan, grids->grid[i].element, NIB_RNE, 0, 0, &sums, NULL) == NIB_OK);
    nib_bias_of(grids->grid[i].element, &sums, &bias);
    nib_expect_plan_free(plan);
    nib_density_close(d);
    return bias.sqnr_db;
}

/* No level can be moved by a little without loss, and the search gains over its start. */
static void lloyd_ends_where_no_move_helps(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    struct nib_explore_grids grids = {0};
    struct nib_explore_result result;
    NIB_OK_OR_FAIL(nib_explore_add_element(&grids, "e2m1", &plain, &error), error);
    struct nib_explore_request request = request_for(&grids);
    request.improve = true;
    NIB_OK_OR_FAIL(nib_explore_run(&request, &result, &error), error);
    CU_ASSERT(result.count == 2 && result.point[0].bias.sqnr_db > result.point[1].bias.sqnr_db + 1);
    const struct nib_element *best = result.point[0].grid->element;
    CU_ASSERT(best->max_magnitude == 6 && best->level[0] == 0);
    for (unsigned k = 1; k < 7; k++)
        for (int side = -1; side <= 1; side += 2) {
            char text[200] = "0";
            size_t length = 1;
            for (unsigned i = 1; i < 8; i++)
                length += (size_t)snprintf(text + length, sizeof text - length, ",%.9g",
                                           (double)best->level[i] + (i == k ? 0.03 * side : 0));
            struct nib_explore_grids moved = {0};
            NIB_OK_OR_FAIL(nib_explore_add_levels(&moved, text, &plain, &error), error);
            CU_ASSERT(sqnr_of(&moved, 0, "gaussian") < result.point[0].bias.sqnr_db);
            nib_explore_grids_free(&moved);
        }
    nib_explore_result_free(&result);
    nib_explore_grids_free(&grids);
}

/* Uniform t is best served by equal steps whatever the start... for a uniform density whose maximum is always at the
 * top the centroids of cells of equal width are their middles, so that equal steps are a fixed point. */
static void equal_steps_are_best_for_equal_density(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    const struct nib_density *uniform;
    const struct nib_element *start, *best;
    struct nib_expect_plan *plan;
    NIB_OK_OR_FAIL(nib_density_open("uniform", &uniform, &error), error);
    NIB_OK_OR_FAIL(nib_expect_plan_new(uniform, 4096, &plan, &error),
                   error); /* the one maximum of a block hardly counts */
    NIB_OK_OR_FAIL(nib_element_open("e2m1", &start, &error), error);
    NIB_OK_OR_FAIL(nib_expect_best(plan, start, NIB_OBJECTIVE_MSE, 0, &best, &error), error);
    for (unsigned k = 0; k < 8; k++) /* the top keeps half a bin below it: 7 steps of 6/7 */
        NIB_CHECKF(fabs((double)best->level[k] - 6.0 * k / 7) < 2e-3 * 6, "level %u: %.6f", k, (double)best->level[k]);
    nib_expect_plan_free(plan);
}

static void other_objectives_are_served(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    const struct nib_density *gaussian;
    const struct nib_element *start, *best;
    struct nib_expect_plan *plan;
    struct nib_sums sums;
    struct nib_bias bias;
    NIB_OK_OR_FAIL(nib_density_open("gaussian", &gaussian, &error), error);
    NIB_OK_OR_FAIL(nib_expect_plan_new(gaussian, 16, &plan, &error), error);
    NIB_OK_OR_FAIL(nib_element_open("e2m1", &start, &error), error);
    NIB_OK_OR_FAIL(nib_expect_best(plan, start, NIB_OBJECTIVE_ALPHA, 0, &best, &error), error);
    NIB_OK_OR_FAIL(nib_expect_grid(plan, best, NIB_RNE, 0, 0, &sums, &error), error);
    nib_bias_of(best, &sums, &bias);
    NIB_CHECKF(fabs(bias.one_minus_alpha) < 1e-5, "1 - alpha = %g", bias.one_minus_alpha);
    CU_ASSERT(nib_objective_value(NIB_OBJECTIVE_WEIGHTED, 0.25, &(struct nib_bias){.nmse = 4, .one_minus_alpha = -8}) ==
              5);
    nib_expect_plan_free(plan);
}

/* At the crossing both grids have the same SQNR, and on either side another one wins. */
static void crossing_parts_the_winners(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    struct nib_explore_grids grids = {0};
    double exponent, crest;
    char name[3][32];
    NIB_OK_OR_FAIL(nib_explore_add_element(&grids, "e2m1", &plain, &error), error);
    NIB_OK_OR_FAIL(nib_explore_add_element(&grids, "int4", &plain, &error), error);
    NIB_OK_OR_FAIL(nib_expect_crossing(grids.grid[0].element, grids.grid[1].element, 16, &exponent, &crest, &error),
                   error);
    for (int i = 0; i < 3; i++) snprintf(name[i], sizeof name[i], "gg%.10g", exponent * (1 + 0.2 * (i - 1)));
    CU_ASSERT_DOUBLE_EQUAL(sqnr_of(&grids, 0, name[1]), sqnr_of(&grids, 1, name[1]), 1e-4);
    CU_ASSERT(sqnr_of(&grids, 0, name[0]) > sqnr_of(&grids, 1, name[0]) &&
              sqnr_of(&grids, 0, name[2]) < sqnr_of(&grids, 1, name[2]));
    CU_ASSERT(nib_expect_crossing(grids.grid[0].element, grids.grid[0].element, 16, &exponent, &crest, &error) ==
              NIB_ECONVERGE);
    nib_explore_grids_free(&grids);
}

static void refused(enum nib_status status, const struct nib_error *error, const char *text) {
    NIB_CHECKF(status == NIB_EINVAL && strstr(error->text, text) != NULL, "%s: %s (expected: %s)",
               nib_status_name(status), error->text, text);
}

static void impossible_grids_are_refused(void) {
    static const struct {
        const char *levels, *says;
    } bad[] = {{"0", "1 levels; expected 2 to 16"}, {"0,2,1", "must ascend: number 3 is 1"},
               {"1,1", "must ascend: number 2"},    {"0,1,2,3,4,5,6,7,8", "17 levels; expected 2 to 16"},
               {"-1,1,0", "levels must ascend"},    {"0,x", "\"x\" is no number"},
               {"0,1,", "\"\" is no number"},       {"0,nan", "is no number"},
               {"0,1e60", "is not finite"}};
    static const struct {
        const char *rule, *says;
    } wrong[] = {{"float:3,2", "at most 3 bits"}, {"float:2", "float:E,M"},    {"uniform:1", "expected float"},
                 {"geometric:1", "R > 1"},        {"power", "expected float"}, {"quantiles:cauchy", "no density"},
                 {"cosine:3", "expected float"}};
    struct nib_error error;
    struct nib_explore_grids grids = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        error = (struct nib_error){NIB_OK, 0, "", ""};
        refused(nib_explore_add_levels(&grids, bad[i].levels, &plain, &error), &error, bad[i].says);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        error = (struct nib_error){NIB_OK, 0, "", ""};
        refused(nib_explore_add_rule(&grids, wrong[i].rule, &plain, &error), &error, wrong[i].says);
    }
    struct nib_explore_shape many = {.as_signed = true};
    refused(nib_explore_add_levels(&grids, "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", &many, &error), &error,
            "17 levels");
    refused(nib_explore_add_integers(&grids, 6, &error), &error, "not between 7 and 24");
    CU_ASSERT(grids.count == 0);
    refused(nib_explore_run(&(struct nib_explore_request){.grids = &grids}, &(struct nib_explore_result){0}, &error),
            &error, "no grid");
}

static const float *levels_of(const struct nib_explore_grids *grids, size_t i, unsigned *count) {
    *count = grids->grid[i].element->levels;
    return grids->grid[i].element->level_of_rank;
}

static void rules_and_shapes_make_the_levels_they_say(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    struct nib_explore_grids grids = {0};
    struct nib_explore_shape rise = {.mid_rise = true}, moved = {.offset = 0.25};
    unsigned count;
    const struct nib_element *e2m1;
    NIB_OK_OR_FAIL(nib_element_open("e2m1", &e2m1, &error), error);
    NIB_OK_OR_FAIL(nib_explore_add_rule(&grids, "float:2,1", &plain, &error), error);
    CU_ASSERT(memcmp(grids.grid[0].element->level, e2m1->level, 8 * sizeof(float)) == 0);
    NIB_OK_OR_FAIL(nib_explore_add_rule(&grids, "uniform:8", &rise, &error), error);
    const float *level = levels_of(&grids, 1, &count);
    CU_ASSERT(count == 16 && level[7] == -0.5f && level[8] == 0.5f && level[15] == 7.5f);
    NIB_OK_OR_FAIL(nib_explore_add_levels(&grids, "0,1,2", &moved, &error), error);
    level = levels_of(&grids, 2, &count);
    CU_ASSERT(count == 5 && level[0] == -1.75f && level[2] == 0.25f && level[4] == 2.25f);
    NIB_OK_OR_FAIL(nib_explore_add_rule(&grids, "geometric:2", &plain, &error), error);
    level = levels_of(&grids, 3, &count);
    CU_ASSERT(level[count - 1] == 64 && level[count - 7] == 1);
    NIB_OK_OR_FAIL(nib_explore_add_rule(&grids, "quantiles:uniform", &plain, &error), error);
    level = levels_of(&grids, 4, &count);
    CU_ASSERT(fabsf(level[count - 1] - 14.0f / 15) < 1e-6f && fabsf(level[count - 7] - 2.0f / 15) < 1e-6f);
    nib_explore_grids_free(&grids);
}

NIB_TEST_MAIN("explore", {"integer grids are ranked and confirmed", integer_grids_are_ranked_and_confirmed},
              {"Lloyd ends where no move helps", lloyd_ends_where_no_move_helps},
              {"equal steps are best for equal density", equal_steps_are_best_for_equal_density},
              {"other objectives are served", other_objectives_are_served},
              {"crossing parts the winners", crossing_parts_the_winners},
              {"impossible grids are refused", impossible_grids_are_refused},
              {"rules and shapes make the levels they say", rules_and_shapes_make_the_levels_they_say})
