/* Numbers are read strictly, exactly, and whatever the locale is. */
#include "base/number.h"
#include "nib_test.h"

#include <math.h>

static void exact_floats_are_accepted(void) {
    float value;
    CU_ASSERT(nib_number_exact_float("0.5", &value) && value == 0.5f);
    CU_ASSERT(nib_number_exact_float("-0", &value) && value == 0 && signbit(value));
    CU_ASSERT(nib_number_exact_float("0x1.8p+1", &value) && value == 3.0f);
    CU_ASSERT(nib_number_exact_float("1e2", &value) && value == 100.0f);
}

static void inexact_or_loose_numbers_are_refused(void) {
    static const char *const bad[] = {"0.1", "", " 1", "1 ", "+1", "nan", "inf", "1e400", "01", "1,5", "0x", "1f", "-",
                                      "0.50000000000000000000000001", "16777217"};
    float value;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        NIB_CHECKF(!nib_number_exact_float(bad[i], &value), "accepted \"%s\"", bad[i]);
}

static void a_decimal_comma_locale_changes_nothing(void) {
    double value;
    if (!nib_test_comma_locale()) return;
    CU_ASSERT(nib_number_double("1.5", &value) && value == 1.5);
    CU_ASSERT(!nib_number_double("1,5", &value));
    setlocale(LC_ALL, "C");
}

static void integers_respect_their_range(void) {
    int64_t value;
    CU_ASSERT(nib_number_integer("-7", -8, 7, &value) && value == -7);
    CU_ASSERT(!nib_number_integer("8", -8, 7, &value));
    CU_ASSERT(!nib_number_integer("07", 0, 9, &value));
    CU_ASSERT(!nib_number_integer("99999999999999999999", INT64_MIN, INT64_MAX, &value));
}

NIB_TEST_MAIN("numbers", {"exact floats are accepted", exact_floats_are_accepted},
              {"inexact or loose numbers are refused", inexact_or_loose_numbers_are_refused},
              {"a decimal comma locale changes nothing", a_decimal_comma_locale_changes_nothing},
              {"integers respect their range", integers_respect_their_range})
