#include "base/pattern.h"

#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

#include "unit/suite.h"

static bool matches(const char *text, const char *name)
{
    regex_t pattern;
    struct mp_error error;
    ck_assert_msg(!mp_pattern_compile(text, &pattern, &error), "%s: %s", text, error.text);
    bool found = !regexec(&pattern, name, 0, NULL, 0);
    regfree(&pattern);
    return found;
}

START_TEST(patterns_are_those_of_the_c_library)
{
    ck_assert(matches("^ProfilerStep#[0-9]+$", "ProfilerStep#12"));
    ck_assert(!matches("^ProfilerStep#[0-9]+$", "ProfilerStep#"));
    ck_assert(matches("(a|bc){2,3}$", "xbca"));
    ck_assert(matches("[]a]+[^]()]", "]x"));
    ck_assert(matches("[[:digit:](]{3}", "1(2"));
    ck_assert(matches("a\\+{2}", "a++"));
    ck_assert(matches("((((x))))*(y{1,200})+", "y"));
    ck_assert(matches("f(oo|bar)+::[a-z_]+<[^>]+>", "ffoo::at<int>"));
    ck_assert(matches("a{,2}b", "aab"));
    ck_assert(matches("^a{2}{3}$", "aaaaaa"));
    ck_assert(!matches("^a{2}{3}$", "aaaaa"));
    ck_assert(matches("(.*?)+/site-packages/.*", "/a/site-packages/x"));
    ck_assert(matches("", ""));
    ck_assert(matches("^a)b)+$", "a)b))")); /* a parenthesis that closes nothing is a plain character */
    ck_assert(!matches("^a)b$", "ab"));
}

START_TEST(what_would_take_all_memory_is_refused)
{
    static const char *const refused[] = {")++++++++++++++++++++++++++++++++++++++++++++",
                                          "a++++++++++++++++++++++++++++++++++++++++++++++",
                                          "a b()+++++++++++++++++++++++++++++++++",
                                          "()??????????????????????????????????????",
                                          "(()){255}{255}{255}",
                                          "(|())*+*+*+*+*+*+*+*+*+*+*+*+*+*+*+*+*+*",
                                          "((a{1,255}){1,255}){1,255}",
                                          "(((((((a+b)+c)+)+)+)+)+){255}",
                                          "(a{100}){101}",
                                          "a{255}{255}{255}{255}",
                                          "(ab){9}{9,99}{9,}{,9}",
                                          "a+{50}{50}",
                                          "(.*)\\1",
                                          "((((((((((((((a+)+)+)+)+)+)+)+)+)+)+)+)+)+)+",
                                          "(a{99999999999999999999})"};
    struct rlimit limit = {(rlim_t)1 << 30, (rlim_t)1 << 30};
#ifndef __SANITIZE_ADDRESS__
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
#endif
    (void)limit;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        regex_t pattern;
        struct mp_error error = {0};
        ck_assert_int_eq(mp_pattern_compile(refused[i], &pattern, &error), MP_INVALID);
        ck_assert_uint_gt(strlen(error.text), 0);
    }
    char deep[4096];
    memset(deep, '(', sizeof deep);
    deep[sizeof deep - 1] = '\0';
    regex_t pattern;
    struct mp_error error;
    ck_assert_int_eq(mp_pattern_compile(deep, &pattern, &error), MP_INVALID);
    ck_assert_int_eq(mp_pattern_compile("a(", &pattern, &error), MP_INVALID);
    ck_assert_int_eq(mp_pattern_compile("[a", &pattern, &error), MP_INVALID);
}

/* A pattern may cost 10 000. The cost of each piece is documented at the head of src/base/pattern.c. */
START_TEST(what_a_piece_costs_decides_how_many_there_may_be)
{
    static const struct {
        const char *piece;
        unsigned cost;
    } pieces[] = {{"a", 1},  {"\\.", 1}, {"[a]", 1}, {"[^]a+]", 1}, {"[[:alpha:]]x", 2}, {"[[=]=]]+", 4},
                  {"a+", 4}, {"a*", 2},  {"a?", 2},  {"a{3}", 8},   {"a{2,5}", 10},      {"[a[]+", 4}};
    for (size_t i = 0; i < 2 * sizeof pieces / sizeof *pieces; i++) {
        const char *piece = pieces[i / 2].piece, *close = i % 2 ? ")" : ""; /* a group costs what is in it */
        unsigned count = 10000 / pieces[i / 2].cost + 1;
        size_t length = strlen(piece), open = strlen(close);
        char *text = malloc(open + count * length + open + 1);
        memcpy(text, "(", open);
        for (unsigned j = 0; j < count; j++)
            memcpy(text + open + j * length, piece, length);
        memcpy(text + open + count * length, close, open + 1);
        regex_t pattern;
        struct mp_error error;
        ck_assert_msg(mp_pattern_compile(text, &pattern, &error) == MP_INVALID, "%u times %s", count, piece);
        memcpy(text + open + (count - 1) * length, close, open + 1);
        ck_assert_msg(!mp_pattern_compile(text, &pattern, &error), "%u times %s: %s", count - 1, piece, error.text);
        regfree(&pattern);
        free(text);
    }
}

START_TEST(groups_may_be_a_hundred_deep)
{
    regex_t pattern;
    struct mp_error error;
    char text[2 * 101 + 2] = "";
    for (int depth = 100; depth <= 101; depth++) {
        memset(text, '(', (size_t)depth);
        text[depth] = 'a';
        memset(text + depth + 1, ')', (size_t)depth);
        text[2 * depth + 1] = '\0';
        ck_assert_int_eq(mp_pattern_compile(text, &pattern, &error), depth > 100 ? MP_INVALID : MP_OK);
        if (depth == 100) regfree(&pattern);
    }
}

MP_SUITE("pattern", what_a_piece_costs_decides_how_many_there_may_be, groups_may_be_a_hundred_deep,
         patterns_are_those_of_the_c_library, what_would_take_all_memory_is_refused)
