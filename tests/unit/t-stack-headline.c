/* Which recipe loses the least, and whether that is resolved: means, errors of pairs and Student's t by hand. */
#include "nib_test.h"

#include "job/stack.h"

static struct nib_error error;

static void expect(const double *change, size_t recipes, size_t samples, size_t repeats, const char *expected) {
    static const char *const names[] = {"bf16", "ufp4", "mxfp4"};
    const struct nib_recipe *list[3];
    struct nib_depth_record record[3] = {{.part = NIB_DEPTH_SUMMARY}};
    double copy[30];
    for (size_t i = 0; i < recipes; i++) {
        NIB_OK_OR_FAIL(nib_recipe_open(names[i], &list[i], &error), error);
        double sum = 0;
        for (size_t k = 0; k < samples; k++) sum += copy[i * samples + k] = change[i * samples + k];
        record[i].value[NIB_DEPTH_loss_change].value = sum / (double)samples;
    }
    struct nib_stack_report report = {
        .recipes = recipes, .records = 1, .record = record, .loss_change = copy, .samples = samples, .repeats = repeats};
    char text[800];
    nib_stack_headline(&report, list, text, sizeof text);
    NIB_CHECKF(strcmp(text, expected) == 0, "expected \"%s\", got \"%s\"", expected, text);
    for (size_t i = 0; i < recipes; i++) nib_recipe_close(list[i]);
}

/* Pairs differ by -0.02, -0.03 and -0.01: deviation 0.01, error 0.01/sqrt(3) = 0.00577, t = 3.46 below 4.30. */
static void three_pairs_that_scatter(void) {
    expect((double[]){0, 0, 0, 0.25, 0.5, 0.75, 0.27, 0.53, 0.76}, 3, 3, 1,
           "Lowest loss: ufp4, +0.50000; -0.02000 +- 0.00577 against mxfp4, not resolved by 3 sequences; --repeat 8 gives more");
}

/* The recipes' own scatter of 0.25 does not matter: -0.020, -0.022, -0.018 have the error 0.00115, t = 17. */
static void pairs_that_agree(void) {
    expect((double[]){0, 0, 0, 0.25, 0.5, 0.75, 0.27, 0.522, 0.768}, 3, 3, 3,
           "Lowest loss: ufp4, +0.50000; -0.02000 +- 0.00115 against mxfp4 (paired over 3 runs, resolved)");
}

static void one_sequence_resolves_nothing(void) {
    expect((double[]){0, 0.5, 0.25}, 3, 1, 1,
           "Lowest loss: mxfp4, +0.25000; -0.25000 against ufp4, not resolved by 1 sequence; --repeat 8 gives more");
}

static void one_recipe_beside_bf16_is_no_comparison(void) { expect((double[]){0, 0.5}, 2, 1, 1, ""); }

NIB_TEST_MAIN("headline of a layer stack", {"three pairs that scatter", three_pairs_that_scatter},
              {"pairs that agree", pairs_that_agree}, {"one sequence resolves nothing", one_sequence_resolves_nothing},
              {"one recipe beside bf16 is no comparison", one_recipe_beside_bf16_is_no_comparison})
