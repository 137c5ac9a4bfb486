/* The frame of every Check program here: list the tests, get a main(). `$CK_FORK=no` runs them under a debugger. A test
 * fails if it passes without an assertion, or leaves a descriptor open. Each test begins with standard input closed, so
 * that 0 is an ordinary descriptor, as it may be in a recorded program. Check's END_TEST is left out: since 0.13, which
 * this frame needs anyway, it is empty. */
#pragma once

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool mp_suite_forks;
static int mp_suite_open_before;

static inline int mp_suite_open_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static inline void mp_suite_begin(void)
{
    if (mp_suite_forks) close(STDIN_FILENO); /* in one process it would be Check's own file from the second test on */
    mp_suite_open_before = mp_suite_open_descriptors();
}

static inline void mp_suite_end(void)
{
    int open = mp_suite_open_descriptors();
    ck_assert_msg(open == mp_suite_open_before, "%d descriptors are open at the end, %d were at the beginning", open,
                  mp_suite_open_before);
}

/* Check notes the last position of a test: its beginning, or an assertion. Results are in the order of the tests. */
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
    tcase_add_checked_fixture(tcase, mp_suite_begin, mp_suite_end);
    for (int i = 0; i < count; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    mp_suite_forks = srunner_fork_status(runner) == CK_FORK;
    if (fcntl(STDIN_FILENO, F_GETFD) < 0) (void)!open("/dev/null", O_RDONLY); /* so that Check's own file is not 0 */
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
