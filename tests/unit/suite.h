/* The frame of every Check program here: list the tests, get a main(). `$CK_FORK=no` runs them under a debugger. */
#ifndef MP_TESTS_SUITE_H
#define MP_TESTS_SUITE_H

#include <check.h>
#include <stdlib.h>

#define MP_SUITE(name, ...)                                                                                            \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        const TTest *const tests[] = {__VA_ARGS__};                                                                    \
        Suite *suite = suite_create(name);                                                                             \
        TCase *tcase = tcase_create(name);                                                                             \
        tcase_set_timeout(tcase, 120);                                                                                 \
        for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)                                                      \
            tcase_add_test(tcase, tests[i]);                                                                           \
        suite_add_tcase(suite, tcase);                                                                                 \
        SRunner *runner = srunner_create(suite);                                                                       \
        srunner_run_all(runner, CK_ENV);                                                                               \
        int failed = srunner_ntests_failed(runner);                                                                    \
        srunner_free(runner);                                                                                          \
        return failed ? EXIT_FAILURE : EXIT_SUCCESS;                                                                   \
    }

#endif
