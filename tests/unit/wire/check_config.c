#include "wire/config.h"

#include <stdio.h>
#include <string.h>

#include "base/setting.h"
#include "base/step_rule.h"
#include "unit/suite.h"

/* The switches come first, each a byte. Numbers follow, then texts, which the recorder does not read. */
#define SWITCHES (offsetof(struct mp_record_config, untried_history) + 1)
#define NUMBERS  offsetof(struct mp_record_config, max_events)
#define TEXTS    offsetof(struct mp_record_config, step_range)
/* A new member, of another type or behind the last one, must be added here. */
_Static_assert(SWITCHES == 20 && NUMBERS == 20 && TEXTS == NUMBERS + 7 * sizeof(uint32_t), "what same() compares");

static void same(const struct mp_record_config *a, const struct mp_record_config *b)
{
    ck_assert_mem_eq(a, b, SWITCHES);
    ck_assert_mem_eq((const char *)a + NUMBERS, (const char *)b + NUMBERS, TEXTS - NUMBERS);
}

START_TEST(every_configuration_survives_the_way)
{
    for (unsigned bits = 0; bits < 1 << SWITCHES; bits++) {
        struct mp_record_config there = {.max_events = bits * 524287,
                                         .sample_bytes = bits << 18 | bits,
                                         .host_bytes = bits << 17 | bits,
                                         .holders_ms = bits ^ 200,
                                         .operators_from = bits ^ 3,
                                         .operators_to = bits << 11,
                                         .depth = 8 + bits % (MP_DEPTH_MAX - 7)};
        for (unsigned i = 0; i < SWITCHES; i++)
            ((bool *)&there)[i] = bits >> i & 1;
        /* Earlier contents are overwritten. */
        struct mp_record_config here;
        memset(&here, bits & 1 ? 0 : 1, sizeof here);
        char text[1024];
        ck_assert(mp_record_config_format(&there, text, sizeof text));
        mp_record_config_parse(text, &here);
        same(&there, &here);
    }
}

START_TEST(what_is_not_told_stays)
{
    struct mp_record_config defaults, config;
    mp_record_config_defaults(&defaults);
    config = defaults;
    mp_record_config_parse("", &config);
    same(&defaults, &config);
    mp_record_config_parse(";;;unknown=1;native;=;pythonic=0;xpython=0;;", &config);
    same(&defaults, &config);
    mp_record_config_parse("later=some thing;python=0;depths=9", &config);
    ck_assert(!config.python_stacks);
    config.python_stacks = true;
    same(&defaults, &config);
}

START_TEST(depth_keeps_its_bounds)
{
    static const struct {
        const char *text;
        uint32_t depth;
    } cases[] = {{"depth=0", 8},
                 {"depth=7", 8},
                 {"depth=8", 8},
                 {"depth=4096", 4096},
                 {"depth=4097", 4096},
                 {"depth=4294967304", 4096},
                 {"depth=99999999999999999999999", 4096},
                 {"depth=-1", 4096},
                 {"depth=many", 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mp_record_config config;
        mp_record_config_defaults(&config);
        mp_record_config_parse(cases[i].text, &config);
        ck_assert_uint_eq(config.depth, cases[i].depth);
    }
}

/* Tries every buffer smaller than `whole` needs: each is reported as too small, and nothing is written after its
 * end. */
static void fits_only_whole(const struct mp_record_config *config, const char *whole)
{
    enum { BEHIND = 64 };
    char text[1024 + BEHIND];
    size_t length = strlen(whole);
    for (size_t room = 1; room <= length + 1; room++) {
        memset(text, '#', sizeof text);
        bool fits = mp_record_config_format(config, text, room);
        ck_assert_int_eq(fits, room == length + 1);
        ck_assert(!fits || !strcmp(text, whole));
        for (size_t i = 0; i < BEHIND; i++)
            ck_assert_int_eq(text[room + i], '#');
    }
}

START_TEST(too_little_room_is_said)
{
    struct mp_record_config config;
    char whole[1024];
    mp_record_config_defaults(&config);
    ck_assert(mp_record_config_format(&config, whole, sizeof whole));
    fits_only_whole(&config, whole);
    snprintf(config.step_range, sizeof config.step_range, "a range; %% that grows");
    snprintf(config.step_at, sizeof config.step_at, "Trainer.step");
    snprintf(config.plan, sizeof config.plan, "h100");
    ck_assert(mp_record_config_format(&config, whole, sizeof whole));
    ck_assert_str_eq(strstr(whole, ";step_range"),
                     ";step_range=a%20range%3b%20%25%20that%20grows;step_at=Trainer.step;plan=h100");
    fits_only_whole(&config, whole);
}

/* A step expression has the same meaning in a recording as on the command line, whatever characters it has. */
START_TEST(a_step_expression_survives_the_way)
{
    static const struct {
        const char *pattern, *step, *other;
    } cases[] = {{"^batch; [0-9]+%$", "batch; 12%", "batch; %"},
                 {"step_range=;%3b", "xstep_range=;%3by", "step_range=;;"},
                 {"\xc3\xa4\t$", "\xc3\xa4\t", "\xc3\xa4 "},
                 {"", "step 3", "a step"},
                 {"", "ProfilerStep#1", "ProfilerSteps"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mp_record_config config;
        struct mp_step_rule rule;
        char text[1024];
        mp_record_config_defaults(&config);
        snprintf(config.step_range, sizeof config.step_range, "%s", cases[i].pattern);
        ck_assert(mp_record_config_format(&config, text, sizeof text));
        mp_step_rule_open_configured(&rule, text);
        ck_assert_int_eq(rule.has_pattern, *cases[i].pattern != 0);
        ck_assert(mp_step_rule_matches(&rule, cases[i].step));
        ck_assert(!mp_step_rule_matches(&rule, cases[i].other));
        mp_step_rule_close(&rule);
    }
}

/* The beginning of a very long name is the step's; the sanitizers check that no more is kept. */
START_TEST(steps_may_have_long_names)
{
    struct mp_step_rule rule;
    char name[400] = "step", other[400];
    memset(name + 4, 'a', sizeof name - 5);
    memcpy(other, name, sizeof name);
    mp_step_rule_open_configured(&rule, "");
    ck_assert(mp_step_rule_matches(&rule, name));
    ck_assert_uint_eq(strlen(rule.stem), sizeof rule.stem - 1);
    other[sizeof rule.stem - 1] = 'b'; /* the first that is not kept */
    ck_assert(mp_step_rule_matches(&rule, other));
    other[sizeof rule.stem - 2] = 'b';
    ck_assert(!mp_step_rule_matches(&rule, other));
    mp_step_rule_close(&rule);
}

/* Every byte that a setting can have survives, and bytes that could end the text are escaped. */
START_TEST(every_character_survives_the_way)
{
    for (unsigned first = 1; first < 256; first += 31) {
        struct mp_record_config config;
        char text[1024], back[MP_STEP_AT_ROOM];
        mp_record_config_defaults(&config);
        for (unsigned i = 0; i < 31; i++)
            config.step_at[i] = (char)(first + i < 256 ? first + i : 'x');
        config.step_at[31] = '\0';
        ck_assert(mp_record_config_format(&config, text, sizeof text));
        for (const char *at = text; *at; at++)
            ck_assert((unsigned char)*at > ' ' && *at != 0x7f);
        mp_setting(back, sizeof back, text, "step_at");
        ck_assert_str_eq(back, config.step_at);
    }
}

/* The first name decides what the others are like. */
START_TEST(work_inside_a_step_is_no_step)
{
    struct mp_step_rule rule;
    mp_step_rule_open_configured(&rule, "native=1");
    ck_assert(!mp_step_rule_matches(&rule, "epoch"));
    ck_assert(mp_step_rule_matches(&rule, "step 9"));
    ck_assert(!mp_step_rule_matches(&rule, "step_optimizer"));
    ck_assert(!mp_step_rule_matches(&rule, "ProfilerStep#9"));
    ck_assert(mp_step_rule_matches(&rule, "step 10"));
    mp_step_rule_close(&rule);
}

MP_SUITE("config", every_configuration_survives_the_way, what_is_not_told_stays, depth_keeps_its_bounds,
         too_little_room_is_said, a_step_expression_survives_the_way, steps_may_have_long_names,
         every_character_survives_the_way, work_inside_a_step_is_no_step)
