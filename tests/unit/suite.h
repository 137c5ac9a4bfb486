/* The frame of every Check program here: list the tests, get a main(). `$CK_FORK=no` runs them under a debugger. A test
 * that passes without having asserted anything fails. */
#ifndef MP_TESTS_SUITE_H
#define MP_TESTS_SUITE_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

/* Check notes where a test was last: at its beginning, or at an assertion. Results are in the order of the tests. */
static inline int mp_suite_without_assertions(SRunner *runner, const TTest *const *tests, int count)
{
    int silent = 0;
    TestResult **results = srunner_results(runner);
    for (int i = 0; i < count && count == srunner_ntests_run(runner); i++) {
        if (tr_rtype(results[i]) != CK_PASS || tr_lno(results[i]) != tests[i]->line) continue;
        printf("%s:%d: %s has asserted nothing\n", tests[i]->file, tests[i]->line, tests[i]->name);
        silent++;
    }
    free(results);
    return silent;
}

static inline int mp_suite_run(const char *name, const TTest *const *tests, int count, double seconds)
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, seconds);
    for (int i = 0; i < count; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner) + mp_suite_without_assertions(runner, tests, count);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define MP_SUITE_OF(name, seconds, ...)                                                                                \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        const TTest *const tests[] = {__VA_ARGS__};                                                                    \
        return mp_suite_run(name, tests, sizeof tests / sizeof *tests, seconds);                                       \
    }

#define MP_SUITE(name, ...) MP_SUITE_OF(name, 120, __VA_ARGS__)

#endif
