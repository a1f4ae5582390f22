/* Figures: complete or not at all, whatever the names in them are; gnuplot missing or failing is told apart. */
#include "nib_test.h"
#include "plot/figure.h"

#include <dirent.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static void enter_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/nibble-figure-XXXXXX");
    if (mkdtemp(folder) == NULL) abort();
}

/* Removes the folder and returns how many files it held. */
static unsigned leave_folder(void) {
    unsigned files = 0;
    DIR *stream = opendir(folder);
    for (struct dirent *entry; stream != NULL && (entry = readdir(stream)) != NULL;) {
        char path[400];
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path);
        files++;
    }
    closedir(stream);
    rmdir(folder);
    return files;
}

/* A table of totals with two tensors whose names are hard to quote. */
static struct nib_table *totals_of(size_t quantizers) {
    static const struct nib_column columns[] = {
        {"view", "", "", "", NIB_COLUMN_TEXT, 0},      {"module", "", "", "", NIB_COLUMN_TEXT, 0},
        {"layer", "", "1", "", NIB_COLUMN_INTEGER, 0}, {"gemm", "", "", "", NIB_COLUMN_TEXT, 0},
        {"operand", "", "", "", NIB_COLUMN_TEXT, 0},   {"axis", "", "", "", NIB_COLUMN_TEXT, 0},
        {"quantizer", "", "", "", NIB_COLUMN_TEXT, 0}, {"rotation", "", "", "", NIB_COLUMN_TEXT, 0},
        {"sqnr_db", "", "dB", "", NIB_COLUMN_REAL, 2}, {"sqnr_db_se", "", "dB", "", NIB_COLUMN_REAL, 2},
        {"one_minus_alpha", "", "1", "", NIB_COLUMN_REAL, 2}, {"one_minus_alpha_se", "", "1", "", NIB_COLUMN_REAL, 2}};
    static const char *const tensors[] = {"it's \"a\" `b` $c \\d EOD", "EOD"};
    struct nib_table *table = NULL;
    if (nib_table_new("totals", columns, 12, &table, NULL) != NIB_OK) abort();
    for (size_t i = 0; i < 4 * quantizers; i++) {
        size_t row = nib_table_row(table), view = i / (2 * quantizers);
        char name[32];
        snprintf(name, sizeof name, "quantizer %zu", i / 2 % quantizers);
        nib_table_set_text(table, row, 0, tensors[view]);
        nib_table_set_integer(table, row, 2, (int64_t)view);
        nib_table_set_text(table, row, 5, "cols");
        nib_table_set_text(table, row, 6, quantizers > 2 ? name : i / 2 % 2 == 0 ? "don't" : "e1m2");
        nib_table_set_text(table, row, 7, i % 2 == 0 ? "none" : "rht16");
        nib_table_set_real(table, row, 8, 20.5 + (double)i);
        nib_table_set_real(table, row, 10, 0.001 * (double)i);
    }
    return table;
}

static struct nib_table *totals(void) { return totals_of(2); }

static bool begins_with(const char *path, const char *magic) {
    char head[8] = "";
    FILE *stream = fopen(path, "rb");
    size_t got = stream == NULL ? 0 : fread(head, 1, sizeof head, stream);
    if (stream != NULL) fclose(stream);
    return got == sizeof head && memcmp(head, magic, strlen(magic)) == 0;
}

static void check_drawn(const char *name) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    char prefix[200], path[240];
    enter_folder();
    snprintf(prefix, sizeof prefix, "%s/%s", folder, name);
    struct nib_table *table = totals();
    enum nib_status status = nib_plot_bias(table, prefix, &error);
    nib_table_free(table);
    NIB_CHECKF(status == NIB_OK, "%s", error.text);
    snprintf(path, sizeof path, "%s.png", prefix);
    CU_ASSERT(begins_with(path, "\x89PNG"));
    snprintf(path, sizeof path, "%s.pdf", prefix);
    CU_ASSERT(begins_with(path, "%PDF"));
    CU_ASSERT(leave_folder() == 3); /* and the script */
}

static void any_name_can_be_drawn(void) {
    check_drawn("plain");
    check_drawn("it's a \"$figure\" `x`");
}

/* Each quantizer has a name and a block of its own, up to the number that a figure has room for. */
static void every_quantizer_is_drawn(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    char prefix[200], path[240], *text = NULL;
    size_t room = 0;
    enter_folder();
    snprintf(prefix, sizeof prefix, "%s/many", folder);
    struct nib_table *table = totals_of(NIB_PLOT_QUANTIZERS + 1);
    NIB_OK_OR_FAIL(nib_plot_bias(table, prefix, &error), error);
    nib_table_free(table);
    snprintf(path, sizeof path, "%s.gp", prefix);
    FILE *stream = fopen(path, "r");
    CU_ASSERT_FATAL(stream != NULL && getdelim(&text, &room, '\0', stream) > 0);
    fclose(stream);
    for (size_t q = 0; q <= NIB_PLOT_QUANTIZERS; q++) {
        char name[32], value[32];
        snprintf(name, sizeof name, "'quantizer %zu'", q);
        snprintf(value, sizeof value, " %.8g ", 20.5 + 2 * (double)q);
        bool drawn = q < NIB_PLOT_QUANTIZERS;
        NIB_CHECKF((strstr(text, name) != NULL) == drawn && (strstr(text, value) != NULL) == drawn, "quantizer %zu", q);
    }
    free(text);
    CU_ASSERT(leave_folder() == 3);
}

/* The script of nib_plot_table; the caller frees it. */
static char *drawn_table(const struct nib_table *table, const char *x, size_t keys) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    struct nib_plot_request request = {.kind = NIB_PLOT_AUTO, .x = x, .title = "", .keys = keys};
    char path[200], script[200], *text = NULL;
    size_t room = 0;
    enter_folder();
    snprintf(path, sizeof path, "%s/a.png", folder);
    snprintf(script, sizeof script, "%s/a.gp", folder);
    enum nib_status status = nib_plot_table(table, &request, path, script, &error);
    NIB_CHECKF(status == NIB_OK, "%s", error.text);
    FILE *stream = fopen(script, "r");
    CU_ASSERT_FATAL(stream != NULL && getdelim(&text, &room, '\0', stream) > 0);
    fclose(stream);
    CU_ASSERT(leave_folder() == 2);
    return text;
}

/* Two rows of each run fall together first. Means by run 1, 2 and 6: 3 +- sqrt(14/6). A single run keeps its own error. */
static void seeds_are_averaged(void) {
    static const struct nib_column columns[] = {
        {"point", "", "1", "", NIB_COLUMN_INTEGER, 0}, {"quantizer", "", "", "", NIB_COLUMN_TEXT, 0},
        {"seed", "", "1", "", NIB_COLUMN_INTEGER, 0},  {"sqnr_db", "", "dB", "", NIB_COLUMN_REAL, 2},
        {"sqnr_db_se", "", "dB", "", NIB_COLUMN_REAL, 2}};
    static const struct {
        const char *quantizer;
        int64_t seed;
        double value;
    } rows[] = {{"a", 1, 0}, {"a", 1, 2}, {"a", 2, 2}, {"a", 2, 2}, {"a", 3, 5}, {"a", 3, 7}, {"b", 1, -4}, {"b", 2, NAN}};
    struct nib_table *table = NULL;
    if (nib_table_new("points", columns, 5, &table, NULL) != NIB_OK) abort();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t row = nib_table_row(table);
        nib_table_set_text(table, row, 1, rows[i].quantizer);
        nib_table_set_integer(table, row, 2, rows[i].seed);
        nib_table_set_real(table, row, 3, rows[i].value);
        nib_table_set_real(table, row, 4, 0.25);
    }
    char *text = drawn_table(table, NULL, 2);
    NIB_CHECKF(strstr(text, "\n0 3 1.52752523\n1 -4 0.25\n") != NULL, "%s", text);
    CU_ASSERT(strstr(text, "3 seeds, +- standard error") != NULL);
    free(text);
    text = drawn_table(table, "seed", 2); /* asked for: a line over seeds for each quantizer */
    NIB_CHECKF(strstr(text, "\n1 1 0.176776695\n2 2 0.176776695\n3 6 0.176776695\n") != NULL, "%s", text);
    free(text);
    nib_table_free(table);
}

static void a_decimal_comma_locale_changes_nothing(void) {
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL) return;
    check_drawn("comma");
    setlocale(LC_ALL, "C");
}

static void without_gnuplot_the_script_stays(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    char prefix[200], *path = strdup(getenv("PATH"));
    enter_folder();
    snprintf(prefix, sizeof prefix, "%s/a", folder);
    setenv("PATH", folder, 1);
    struct nib_table *table = totals();
    CU_ASSERT(nib_plot_bias(table, prefix, &error) == NIB_EUNAVAILABLE);
    NIB_CHECKF(strstr(error.text, "gnuplot") != NULL && strstr(error.text, "a.gp") != NULL, "%s", error.text);
    CU_ASSERT(leave_folder() == 1);

    /* One that fails leaves no picture. */
    enter_folder();
    char program[200];
    snprintf(program, sizeof program, "%s/gnuplot", folder);
    snprintf(prefix, sizeof prefix, "%s/a", folder);
    FILE *stream = fopen(program, "w");
    fprintf(stream, "#!/bin/sh\necho broken >&2\nexit 1\n");
    fclose(stream);
    chmod(program, 0755);
    setenv("PATH", folder, 1);
    CU_ASSERT(nib_plot_bias(table, prefix, &error) == NIB_EIO);
    NIB_CHECKF(strstr(error.text, "broken") != NULL, "%s", error.text);
    CU_ASSERT(leave_folder() == 2); /* the program and the script */
    setenv("PATH", path, 1);
    free(path);
    nib_table_free(table);
}

static void an_unwritable_folder_is_an_error(void) {
    struct nib_error error = {NIB_OK, 0, "", ""};
    struct nib_table *table = totals();
    CU_ASSERT(nib_plot_bias(table, "/nonexistent/a", &error) == NIB_EIO);
    NIB_CHECKF(strcmp(error.file, "/nonexistent/a.gp") == 0, "%s", error.file);
    nib_table_free(table);
}

NIB_TEST_MAIN("figures", {"any name can be drawn", any_name_can_be_drawn},
              {"every quantizer is drawn", every_quantizer_is_drawn},
              {"seeds are averaged", seeds_are_averaged},
              {"a decimal comma locale changes nothing", a_decimal_comma_locale_changes_nothing},
              {"without gnuplot the script stays", without_gnuplot_the_script_stays},
              {"an unwritable folder is an error", an_unwritable_folder_is_an_error})
