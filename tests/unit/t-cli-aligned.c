/* Tables line up for the eye, also with letters wider or narrower than a byte. */
#include "cli/output.h"
#include "nib_test.h"

#include <math.h>

static const struct nib_column columns[] = {
    {"group", "Group", "", "", NIB_COLUMN_TEXT, 0},   {"name", "Name", "", "", NIB_COLUMN_TEXT, 0},
    {"count", "Count", "1", "", NIB_COLUMN_INTEGER, 0}, {"sqnr_db", "SQNR dB", "dB", "", NIB_COLUMN_REAL, 2},
    {"b", "b", "1", "", NIB_COLUMN_REAL, -3},          {"note", "Note", "", "", NIB_COLUMN_TEXT, 0},
};

static struct nib_table *table_of_three(void) {
    struct nib_table *table = NULL;
    struct nib_error error;
    if (nib_table_new("test", columns, 6, &table, &error) != NIB_OK) return NULL;
    static const char *const texts[][3] = {{"one", "α", "x"}, {"one", "e2m1-fp32", ""}, {"two", "日本", "last"}};
    static const int64_t counts[] = {7, -1234567, 0};
    static const double reals[][2] = {{20.524, 0.00409}, {-0.005, NAN}, {INFINITY, 123456}};
    for (size_t row = 0; row < 3; row++) {
        nib_table_row(table);
        nib_table_set_text(table, row, 0, texts[row][0]);
        nib_table_set_text(table, row, 1, texts[row][1]);
        nib_table_set_text(table, row, 5, texts[row][2]);
        nib_table_set_integer(table, row, 2, counts[row]);
        nib_table_set_real(table, row, 3, reals[row][0]);
        nib_table_set_real(table, row, 4, reals[row][1]);
    }
    return table;
}

static void prints(const struct nib_layout *layout, int color, const char *expected) {
    struct nib_table *table = table_of_three();
    CU_ASSERT_FATAL(table != NULL);
    struct nib_call call = {.common = {.color = color}};
    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);
    CU_ASSERT_FATAL(stream != NULL);
    nib_output_aligned(&call, table, layout, stream);
    fclose(stream);
    NIB_CHECKF(strcmp(text, expected) == 0, "got\n%s\nexpected\n%s", text, expected);
    free(text);
    nib_table_free(table);
}

static void columns_line_up(void) {
    prints(NULL, NIB_COLOR_NEVER,
           "Group  Name          Count  SQNR dB         b  Note\n"
           "one    α                 7    20.52   0.00409  x\n"
           "one    e2m1-fp32  -1234567    -0.01         -\n"
           "two    日本              0      inf  1.23e+05  last\n");
}

static void groups_get_lines_of_their_own(void) {
    const bool hidden[] = {false, false, true, false, true, false};
    const struct nib_layout layout = {.headline = "All of it", .grouped = true, .group = 0, .hidden = hidden};
    prints(&layout, NIB_COLOR_NEVER,
           "All of it\n\n"
           "  Name       SQNR dB  Note\n"
           "one\n"
           "  α            20.52  x\n"
           "  e2m1-fp32    -0.01\n"
           "two\n"
           "  日本           inf  last\n");
}

static void headings_stand_out_in_colour(void) {
    const bool hidden[] = {false, false, true, true, true, true};
    const struct nib_layout layout = {.headline = "All", .grouped = true, .group = 0, .hidden = hidden};
    prints(&layout, NIB_COLOR_ALWAYS,
           "\033[1mAll\033[0m\n\n\033[2m  Name\033[0m\n\033[1mone\033[0m\n  α\n  e2m1-fp32\n\033[1mtwo\033[0m\n  日本\n");
}

static void widths_are_those_of_a_terminal(void) {
    CU_ASSERT(nib_output_width("") == 0);
    CU_ASSERT(nib_output_width("abc") == 3);
    CU_ASSERT(nib_output_width("α±−") == 3);
    CU_ASSERT(nib_output_width("e\xCC\x81") == 1); /* e and a combining accent */
    CU_ASSERT(nib_output_width("日本") == 4);
    CU_ASSERT(nib_output_width("\xFF\xFE") == 2); /* not UTF-8 */
    if (!nib_test_comma_locale()) return;
    CU_ASSERT(nib_output_width("日本") == 4);
    setlocale(LC_ALL, "C");
}

NIB_TEST_MAIN("aligned tables", {"columns line up", columns_line_up},
              {"groups get lines of their own", groups_get_lines_of_their_own},
              {"headings stand out in colour", headings_stand_out_in_colour},
              {"widths are those of a terminal", widths_are_those_of_a_terminal})
