/* JSON that jansson reads back to the same values, and TSV, whatever the locale. */
#include "io/json_out.h"
#include "io/table_out.h"
#include "nib_test.h"

#include <jansson.h>
#include <math.h>

static json_t *parsed(char *text) {
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    NIB_CHECKF(root != NULL, "%s in\n%s", error.text, text);
    free(text);
    return root;
}

static char *written;
static size_t written_length;

static struct nib_json *begin(FILE **stream) {
    struct nib_json *json = NULL;
    struct nib_error error;
    *stream = open_memstream(&written, &written_length);
    if (*stream == NULL || nib_json_begin(*stream, "nibble.test/1", &json, &error) != NIB_OK) return NULL;
    return json;
}

static void values_survive(void) {
    FILE *stream;
    struct nib_json *json = begin(&stream);
    CU_ASSERT_FATAL(json != NULL);
    static const double reals[] = {0.1, -0.0, 5e-324, 1.7976931348623157e308, 1.0 / 3};
    static const float floats[] = {0.1f, 1e-45f, 3.40282347e38f, 16777216.0f};
    nib_json_array(json, "reals");
    for (size_t i = 0; i < 5; i++) nib_json_real(json, NULL, reals[i]);
    nib_json_close(json);
    nib_json_floats(json, "floats", floats, 4);
    nib_json_integer(json, "least", INT64_MIN);
    nib_json_unsigned(json, "bits", 0xFFFFFFFFu);
    nib_json_text(json, "text", "a\"b\\c\n\t\x01 ä €");
    nib_json_text(json, "latin", "\xE4");
    nib_json_real(json, "nan", NAN);
    nib_json_real(json, "inf", INFINITY);
    nib_json_float(json, "minus", -INFINITY);
    nib_json_bool(json, "yes", true);
    nib_json_null(json, "nothing");
    nib_json_hex(json, "hex", (const uint8_t *)"\x00\x9A\xFF", 3);
    nib_json_bytes(json, "none", NULL, 0);
    nib_json_object(json, "nested");
    nib_json_sizes(json, "shape", (const size_t[]){2, 3}, 2);
    nib_json_end(json);
    fclose(stream);
    json_t *root = parsed(written);
    CU_ASSERT_FATAL(root != NULL);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(root, "schema")), "nibble.test/1");
    for (size_t i = 0; i < 5; i++) {
        double value = json_number_value(json_array_get(json_object_get(root, "reals"), i));
        CU_ASSERT(value == reals[i] && signbit(value) == signbit(reals[i]));
    }
    for (size_t i = 0; i < 4; i++)
        CU_ASSERT((float)json_number_value(json_array_get(json_object_get(root, "floats"), i)) == floats[i]);
    CU_ASSERT(json_integer_value(json_object_get(root, "least")) == INT64_MIN);
    CU_ASSERT(json_integer_value(json_object_get(root, "bits")) == 0xFFFFFFFF);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(root, "text")), "a\"b\\c\n\t\x01 ä €");
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(root, "latin")), "?");
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(root, "nan")), "nan");
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(root, "inf")), "inf");
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(root, "minus")), "-inf");
    CU_ASSERT(json_is_true(json_object_get(root, "yes")) && json_is_null(json_object_get(root, "nothing")));
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(root, "hex")), "009aff");
    CU_ASSERT(json_array_size(json_object_get(root, "none")) == 0);
    CU_ASSERT(json_integer_value(json_array_get(json_object_get(json_object_get(root, "nested"), "shape"), 1)) == 3);
    json_decref(root);
}

static const struct nib_column columns[] = {{"name", "Name", "", "", NIB_COLUMN_TEXT, 0},
                                            {"count", "Count", "1", "", NIB_COLUMN_INTEGER, 0},
                                            {"b", "b", "1", "", NIB_COLUMN_REAL, 3}};

static struct nib_table *small_table(void) {
    struct nib_table *table = NULL;
    struct nib_error error;
    if (nib_table_new("test", columns, 3, &table, &error) != NIB_OK) return NULL;
    nib_table_row(table);
    nib_table_row(table);
    nib_table_set_text(table, 0, 0, "a\tb\\c\nd");
    nib_table_set_integer(table, 0, 1, -5);
    nib_table_set_real(table, 0, 2, 0.1);
    return table;
}

static void a_table_is_one_header_and_its_rows(void) {
    struct nib_table *table = small_table();
    struct nib_error error;
    FILE *stream = open_memstream(&written, &written_length);
    CU_ASSERT_FATAL(table != NULL && stream != NULL);
    NIB_OK_OR_FAIL(nib_table_write_tsv(table, stream, &error), error);
    fclose(stream);
    CU_ASSERT_STRING_EQUAL(written, "#name\tcount\tb\na\\tb\\\\c\\nd\t-5\t0.10000000000000001\n\t0\tnan\n");
    free(written);
    stream = open_memstream(&written, &written_length);
    CU_ASSERT_FATAL(stream != NULL);
    NIB_OK_OR_FAIL(nib_table_write_json(table, "nibble.test/1", stream, &error), error);
    fclose(stream);
    json_t *root = parsed(written), *rows = json_object_get(root, "rows");
    CU_ASSERT(json_array_size(rows) == 2);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(json_array_get(rows, 0), "name")), "a\tb\\c\nd");
    CU_ASSERT(json_integer_value(json_object_get(json_array_get(rows, 0), "count")) == -5);
    CU_ASSERT(json_real_value(json_object_get(json_array_get(rows, 0), "b")) == 0.1);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(json_array_get(rows, 1), "b")), "nan");
    json_decref(root);
    nib_table_free(table);
}

static void a_decimal_comma_locale_changes_nothing(void) {
    if (!nib_test_comma_locale()) return;
    char probe[16];
    snprintf(probe, sizeof probe, "%g", 0.5);
    CU_ASSERT_STRING_EQUAL(probe, "0,5");
    values_survive();
    a_table_is_one_header_and_its_rows();
    snprintf(probe, sizeof probe, "%g", 0.5);
    CU_ASSERT_STRING_EQUAL(probe, "0,5"); /* the caller's locale is as before */
    setlocale(LC_ALL, "C");
}

NIB_TEST_MAIN("tables for machines", {"values survive", values_survive},
              {"a table is one header and its rows", a_table_is_one_header_and_its_rows},
              {"a decimal comma locale changes nothing", a_decimal_comma_locale_changes_nothing})
