#include "collect/session/naming.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "unit/suite.h"

#define START 1700000000u

static const struct mp_named nobody = {.pid = 4711, .program = ""};

static void check(const char *pattern, unsigned number, const char *wanted)
{
    struct mp_naming naming = {.pattern = pattern, .host = "node-7", .start_unix_s = START};
    char *path = mp_naming_path(&naming, &nobody, number);
    ck_assert_str_eq(path, wanted);
    free(path);
}

START_TEST(what_a_pattern_becomes)
{
    check("/a/run.mp", 0, "/a/run.mp");
    check("/a/run.%p.mp", 0, "/a/run.4711.mp");
    check("/a/%h-%p%%.mp", 0, "/a/node-7-4711%.mp");
    check("/a/%c%x%", 0, "/a/cx%");
    char time_text[64], wanted[96];
    time_t start = START;
    strftime(time_text, sizeof time_text, "%Y%m%d-%H%M%S", localtime(&start));
    snprintf(wanted, sizeof wanted, "/%s.mp", time_text);
    check("/%t.mp", 0, wanted);
}

START_TEST(folders_are_taken_as_they_are)
{
    check("/50% of %p/%%/run.mp", 0, "/50% of %p/%%/run.mp");
    check("/%p/run-%p.mp", 0, "/%p/run-4711.mp");
    ck_assert(!mp_naming_separates_processes("/%p/run.mp"));
}

START_TEST(later_files_differ)
{
    check("/a/run.mp", 1, "/a/run.4711.mp");
    check("/a/run.mp", 2, "/a/run.4711.2.mp");
    check("/a/run.mp", 12, "/a/run.4711.12.mp");
    /* a pid that is in the name already is not added again */
    check("/a/run.%p.mp", 1, "/a/run.4711.2.mp");
    check("/a/run.%p.mp", 2, "/a/run.4711.3.mp");
}

START_TEST(extensions)
{
    check("/a.b/run", 1, "/a.b/run.4711");
    check("/a/.hidden", 1, "/a/.hidden.4711");
    check("/a/.hidden.mp", 1, "/a/.hidden.4711.mp");
    check("/a/run.tar.mp", 1, "/a/run.tar.4711.mp");
    check("/a/run.", 1, "/a/run.4711.");
    check("/run", 2, "/run.4711.2");
}

START_TEST(names_tell_processes_apart)
{
    ck_assert(mp_naming_separates_processes("/run.%p.mp"));
    ck_assert(mp_naming_separates_processes("/run.%h-%r.mp"));
    ck_assert(!mp_naming_separates_processes("/run.mp"));
    ck_assert(!mp_naming_separates_processes("/run.%h%t.mp"));
    ck_assert(!mp_naming_separates_processes("/run.%%p.mp"));
    ck_assert(!mp_naming_separates_processes("/run%"));
}

START_TEST(a_rank_or_else_the_pid)
{
    struct mp_naming naming = {.pattern = "/%r.mp", .host = "h"};
    struct mp_named ranked = nobody, unknown = nobody;
    mp_member_set(&ranked.member, MP_MEMBER_RANK, 12);
    mp_member_set(&unknown.member, MP_MEMBER_LOCAL_RANK, 3);
    char *path = mp_naming_path(&naming, &ranked, 0), *other = mp_naming_path(&naming, &unknown, 0);
    ck_assert_str_eq(path, "/12.mp");
    ck_assert_str_eq(other, "/4711.mp");
    free(path);
    free(other);
}

START_TEST(names_in_a_folder)
{
    const struct {
        int rank, size;
        const char *role, *program, *wanted;
    } cases[] = {
        {3, 4, "", "train.py", "/f/rank3.mp"},
        {3, 10, "", "train.py", "/f/rank3.mp"},
        {3, 11, "", "train.py", "/f/rank03.mp"},
        {3, 100, "", "train.py", "/f/rank03.mp"},
        {3, 101, "trainer", "train.py", "/f/rank003.mp"},
        {12, -1, "", "", "/f/rank12.mp"},
        {1, 2, "loader worker", "train.py", "/f/rank1-loader-worker-4711.mp"},
        {-1, -1, "loader worker", "train.py", "/f/loader-worker-4711.mp"},
        {-1, -1, "", "train.py", "/f/train-4711.mp"},
        {-1, -1, "", "", "/f/process-4711.mp"},
        {-1, -1, "", "../a b\303\251%p", "/f/-.-a-b---p-4711.mp"},
    };
    struct mp_naming naming = {.pattern = "/f/%n.mp", .host = "h"};
    ck_assert(mp_naming_separates_processes("/f/%n.mp"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mp_named process = {.pid = 4711, .program = cases[i].program};
        if (cases[i].rank >= 0) mp_member_set(&process.member, MP_MEMBER_RANK, (uint32_t)cases[i].rank);
        if (cases[i].size >= 0) mp_member_set(&process.member, MP_MEMBER_WORLD_SIZE, (uint32_t)cases[i].size);
        mp_member_text(process.member.role, cases[i].role, strlen(cases[i].role));
        char *path = mp_naming_path(&naming, &process, 0);
        ck_assert_str_eq(path, cases[i].wanted);
        free(path);
    }
}

MP_SUITE("naming", what_a_pattern_becomes, folders_are_taken_as_they_are, later_files_differ, extensions,
         names_tell_processes_apart, a_rank_or_else_the_pid, names_in_a_folder)
