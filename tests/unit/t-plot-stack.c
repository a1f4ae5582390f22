/* The map of a stack's GEMMs: every value beside its own label, in the order in which gnuplot reads an image. What accumulates
 * over depth: every value beside its own error. */
#include "nib_test.h"
#include "plot/figure.h"

#include <math.h>
#include <unistd.h>

enum { LAYERS = 3, MODULES = 2, PASSES = 3 };
static const char *const modules[] = {"self_attn.q_proj", "mlp.down_proj"};
static const char *const passes[] = {"fprop", "dgrad", "wgrad"};

static double value_of(int recipe, int layer, int module, int pass) {
    return 1 + recipe * 1000 + layer * 100 + module * 10 + pass;
}

/* In the order of nib_stack_table: layer, module, pass. */
static struct nib_table *products(void) {
    static const struct nib_column columns[] = {
        {"case", "", "", "", NIB_COLUMN_TEXT, 0},           {"part", "", "", "", NIB_COLUMN_TEXT, 0},
        {"layer", "", "1", "", NIB_COLUMN_INTEGER, 0},      {"module", "", "", "", NIB_COLUMN_TEXT, 0},
        {"pass", "", "", "", NIB_COLUMN_TEXT, 0},           {"operand", "", "", "", NIB_COLUMN_TEXT, 0},
        {"rotation_gain_db", "", "", "", NIB_COLUMN_REAL, 2}, {"sqnr_db", "", "", "", NIB_COLUMN_REAL, 2},
        {"raw_sqnr_db", "", "", "", NIB_COLUMN_REAL, 2},    {"rotated_sqnr_db", "", "", "", NIB_COLUMN_REAL, 2},
        {"raw_b_eff", "", "", "", NIB_COLUMN_REAL, 2},      {"rotated_b_eff", "", "", "", NIB_COLUMN_REAL, 2}};
    struct nib_table *table = NULL;
    if (nib_table_new("stack", columns, 12, &table, NULL) != NIB_OK) abort();
    for (int i = 0; i < 2 * LAYERS * MODULES * PASSES; i++) {
        int pass = i % PASSES, module = i / PASSES % MODULES, layer = i / PASSES / MODULES % LAYERS;
        int recipe = i / PASSES / MODULES / LAYERS;
        size_t row = nib_table_row(table);
        nib_table_set_text(table, row, 0, recipe == 0 ? "ufp4" : "mxfp4");
        nib_table_set_text(table, row, 1, "product");
        nib_table_set_integer(table, row, 2, layer);
        nib_table_set_text(table, row, 3, modules[module]);
        nib_table_set_text(table, row, 4, passes[pass]);
        nib_table_set_real(table, row, 6, value_of(recipe, layer, module, pass));
    }
    return table;
}

static void every_gemm_stands_in_its_own_line(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    struct nib_table *table = products();
    enum nib_status status = nib_plot_stack_gemms(table, "t", "stack-map", &error);
    nib_table_free(table);
    NIB_CHECKF(status == NIB_OK || status == NIB_EUNAVAILABLE, "%s", error.text); /* the script is there without gnuplot */
    FILE *stream = fopen("stack-map.gp", "r");
    CU_ASSERT_FATAL(stream != NULL);
    char line[512];
    bool inside = false;
    int seen = 0;
    while (fgets(line, sizeof line, stream) != NULL) {
        int layer, row;
        double value;
        if (strncmp(line, "$Map <<", 7) == 0) inside = true;
        if (inside && strncmp(line, "EOD", 3) == 0) break;
        if (!inside || sscanf(line, "%d %d %lf", &layer, &row, &value) != 3) continue;
        int lines = MODULES * PASSES, at = seen % (lines * LAYERS), recipe = seen / (lines * LAYERS);
        CU_ASSERT(layer == at % LAYERS && row == at / LAYERS);
        CU_ASSERT(value == value_of(recipe, layer, row % MODULES, row / MODULES)); /* fprop above dgrad above wgrad */
        seen++;
    }
    fclose(stream);
    CU_ASSERT(seen == 2 * LAYERS * MODULES * PASSES);
    unlink("stack-map.gp");
    unlink("stack-map.png");
    unlink("stack-map.pdf");
}

/* A chain's table, or with `part` a stack's, of two depths up and down; an error that is not known in the second. */
static struct nib_table *depths(bool part) {
    static const struct nib_column columns[] = {
        {"case", "", "", "", NIB_COLUMN_TEXT, 0},           {"depth", "", "1", "", NIB_COLUMN_INTEGER, 0},
        {"pass", "", "", "", NIB_COLUMN_TEXT, 0},           {"gain", "", "1", "", NIB_COLUMN_REAL, 2},
        {"gain_se", "", "1", "", NIB_COLUMN_REAL, 2},       {"product_predicted", "", "1", "", NIB_COLUMN_REAL, 2},
        {"norm_ratio", "", "1", "", NIB_COLUMN_REAL, 2},    {"norm_ratio_se", "", "1", "", NIB_COLUMN_REAL, 2},
        {"cosine", "", "1", "", NIB_COLUMN_REAL, 2},        {"cosine_se", "", "1", "", NIB_COLUMN_REAL, 2},
        {"part", "", "", "", NIB_COLUMN_TEXT, 0}};
    struct nib_column own[11];
    memcpy(own, columns, sizeof own);
    if (part) own[1].name = "layer";
    struct nib_table *table = NULL;
    if (nib_table_new("depths", own, part ? 11 : 10, &table, NULL) != NIB_OK) abort();
    for (int i = 0; i < 4; i++) {
        size_t row = nib_table_row(table);
        nib_table_set_text(table, row, 0, "e2m1");
        nib_table_set_integer(table, row, 1, i % 2 + 1);
        nib_table_set_text(table, row, 2, i < 2 ? "fprop" : "dgrad");
        for (size_t c = 3; c < 10; c++) nib_table_set_real(table, row, c, 10 * i + (double)c);
        if (i % 2 == 1) nib_table_set_real(table, row, 9, NAN);
        if (part) nib_table_set_text(table, row, 10, "stream");
    }
    return table;
}

static void errors_stand_beside_what_they_are_of(void) {
    for (int part = 0; part < 2; part++) {
        struct nib_error error = {NIB_OK, 0, "", ""};
        struct nib_table *table = depths(part == 1);
        enum nib_status status = nib_plot_chain(table, "t", "depths", &error);
        nib_table_free(table);
        NIB_CHECKF(status == NIB_OK || status == NIB_EUNAVAILABLE, "%s", error.text);
        FILE *stream = fopen("depths.gp", "r");
        CU_ASSERT_FATAL(stream != NULL);
        char line[512];
        int seen = 0;
        bool labelled = false;
        while (fgets(line, sizeof line, stream) != NULL) {
            double value[8];
            labelled |= strcmp(line, part == 1 ? "xlabel = 'layers below'\n" : "xlabel = 'layer, from 1'\n") == 0;
            if (sscanf(line, "%lf %lf %lf %lf %lf %lf %lf %lf", &value[0], &value[1], &value[2], &value[3], &value[4],
                       &value[5], &value[6], &value[7]) != 8)
                continue;
            CU_ASSERT(value[0] == seen % 2 + 1);
            for (int c = 1; c < 8; c++) CU_ASSERT(value[c] == (c == 7 && seen % 2 == 1 ? 0 : 10 * seen + c + 2));
            seen++;
        }
        fclose(stream);
        CU_ASSERT(seen == 4 && labelled);
        unlink("depths.gp");
        unlink("depths.png");
        unlink("depths.pdf");
    }
}

NIB_TEST_MAIN("stack figures", {"every GEMM stands in its own line", every_gemm_stands_in_its_own_line},
              {"errors stand beside what they are of", errors_stand_beside_what_they_are_of})
