/* One CUnit suite as a program. A test file lists its functions, named as sentences:
 *     NIB_TEST_MAIN("element", {"every level is a fixed point", every_level_is_a_fixed_point}, ...)
 */
#ifndef NIB_TEST_H
#define NIB_TEST_H

#include <CUnit/Basic.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether NIBBLE_TEST_LEVEL=full asks for the long tests. */
static inline bool nib_test_full(void) {
    const char *level = getenv("NIBBLE_TEST_LEVEL");
    return level != NULL && strcmp(level, "full") == 0;
}

/* Whether the process now runs in a locale with a decimal comma; setlocale(LC_ALL, "C") ends it. ctest gives the
 * tests a folder with such a locale wherever it can be made. */
static inline bool nib_test_comma_locale(void) {
    if (setlocale(LC_ALL, "de_DE.UTF-8") != NULL) return true;
    fputs("\nnot tested: no locale with a decimal comma (package locales)\n", stderr);
    return false;
}

/* Fails with a message instead of a bare expression. */
#define NIB_CHECKF(condition, ...)                                                                \
    do {                                                                                          \
        bool holds_ = (condition);                                                                \
        if (!holds_) {                                                                            \
            fprintf(stderr, "\n%s:%d: ", __FILE__, __LINE__);                                     \
            fprintf(stderr, __VA_ARGS__);                                                         \
            fputc('\n', stderr);                                                                  \
        }                                                                                         \
        CU_assertImplementation(holds_, __LINE__, #condition, __FILE__, "", CU_FALSE);            \
    } while (0)

/* A call that must succeed. */
#define NIB_OK_OR_FAIL(call, error)                                                               \
    do {                                                                                          \
        enum nib_status status_ = (call);                                                         \
        NIB_CHECKF(status_ == NIB_OK, "%s: %s", #call, status_ == NIB_OK ? "" : (error).text);    \
        if (status_ != NIB_OK) return;                                                            \
    } while (0)

#define NIB_TEST_MAIN(suite, ...)                                                                 \
    int main(void) {                                                                              \
        CU_TestInfo tests[] = {__VA_ARGS__, CU_TEST_INFO_NULL};                                   \
        CU_SuiteInfo suites[] = {{suite, NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};     \
        if (CU_initialize_registry() != CUE_SUCCESS) return 2;                                    \
        if (CU_register_suites(suites) != CUE_SUCCESS) return 2;                                  \
        CU_basic_set_mode(CU_BRM_NORMAL);                                                         \
        CU_basic_run_tests();                                                                     \
        unsigned failures = CU_get_number_of_failures();                                          \
        CU_cleanup_registry();                                                                    \
        return failures == 0 ? 0 : 1;                                                             \
    }

#endif
