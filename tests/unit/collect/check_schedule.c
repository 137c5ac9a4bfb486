#include "collect/recording/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/suite.h"

static struct mp_schedule schedule;
static struct mp_schedule_state state;
static bool is_open;

static void begin(const char *cycles)
{
    schedule = (struct mp_schedule){0};
    state = (struct mp_schedule_state){0};
    if (cycles) ck_assert_int_eq(mp_schedule_parse(cycles, &schedule, NULL), MP_OK);
    is_open = !mp_schedule_is_set(&schedule);
}

/* Returns whether the event itself is inside the window. */
static bool is_kept(uint32_t ring, unsigned type, uint64_t time_ns, const char *name)
{
    struct mp_event event = {.time_ns = time_ns, .type = (uint8_t)type};
    enum mp_schedule_wish wish = mp_schedule_next(&schedule, &state, ring, &event, name, type == MP_EVENT_STEP);
    if (wish == MP_SCHEDULE_OPEN) is_open = true;
    if (wish == MP_SCHEDULE_CLOSE) is_open = false;
    bool kept = is_open;
    if (wish == MP_SCHEDULE_CLOSE_AFTER) is_open = false;
    return kept;
}

/* The schedule as torch.profiler's documentation words it, step by step. */
static bool step_is_active(unsigned step, unsigned wait, unsigned active, unsigned repeat, unsigned every)
{
    unsigned at = 0;
    for (unsigned cycle = 0; !repeat || cycle < repeat; cycle++) {
        unsigned begin_of_cycle = at;
        for (unsigned i = 0; i < wait; i++)
            if (at++ == step) return false;
        for (unsigned i = 0; i < active; i++)
            if (at++ == step) return true;
        while (at < begin_of_cycle + every)
            if (at++ == step) return false;
    }
    return false;
}

START_TEST(steps_come_in_cycles)
{
    for (unsigned i = 0; i < 2000; i++) {
        unsigned wait = (unsigned)rand() % 4, warmup = (unsigned)rand() % 3, active = 1 + (unsigned)rand() % 4;
        unsigned repeat = (unsigned)rand() % 4, cycle = wait + warmup + active;
        unsigned every = rand() % 2 ? cycle + (unsigned)rand() % 5 : 0;
        char cycles[128];
        snprintf(cycles, sizeof cycles, "wait=%u,warmup=%u,active=%u,repeat=%u", wait, warmup, active, repeat);
        if (every) snprintf(cycles + strlen(cycles), 32, ",every=%u", every);
        begin(cycles);
        ck_assert(!is_kept(0, MP_EVENT_ALLOC, 1, ""));
        for (unsigned step = 0; step < 40; step++) {
            bool wanted = step_is_active(step, wait + warmup, active, repeat, every ? every : cycle);
            ck_assert_msg(is_kept((unsigned)rand() % 3, MP_EVENT_STEP, 2 + step, "") == wanted, "%s: step %u", cycles,
                          step);
            ck_assert(is_kept(1, MP_EVENT_ALLOC, 2 + step, "") == wanted);
        }
        mp_schedule_free(&schedule);
    }
}

START_TEST(regions_are_counted_by_name)
{
    begin("wait=1,active=1,unit=^eval,?");
    const struct {
        uint32_t ring;
        unsigned type;
        const char *name;
        bool kept;
    } events[] = {
        {0, MP_EVENT_REGION_BEGIN, "train", false},
        {0, MP_EVENT_REGION_BEGIN, "eval", false},
        {0, MP_EVENT_ALLOC, "", false},
        {0, MP_EVENT_REGION_END, "", false},
        {0, MP_EVENT_ALLOC, "", false},
        {0, MP_EVENT_REGION_BEGIN, "evaluate", true},
        {1, MP_EVENT_REGION_BEGIN, "eval", true}, /* inside of another such region: not a unit */
        {0, MP_EVENT_REGION_BEGIN, "eval", true},
        {0, MP_EVENT_REGION_END, "", true},
        {1, MP_EVENT_REGION_END, "", true},
        {0, MP_EVENT_ALLOC, "", true},
        {0, MP_EVENT_REGION_END, "", true},
        {0, MP_EVENT_ALLOC, "", false},
        {0, MP_EVENT_REGION_END, "", false},
        {0, MP_EVENT_REGION_END, "", false},
        {1, MP_EVENT_REGION_BEGIN, "eval", false},
        {1, MP_EVENT_REGION_END, "", false},
        {1, MP_EVENT_REGION_BEGIN, "eval", true},
        {1, MP_EVENT_REGION_END, "", true},
        {1, MP_EVENT_STEP, "", false},
    };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        ck_assert_msg(is_kept(events[i].ring, events[i].type, 1, events[i].name) == events[i].kept, "event %zu", i);
    mp_schedule_free(&schedule);
}

START_TEST(as_text_and_back_it_is_the_same)
{
    static const char *const all[] = {"active=1", "wait=2,warmup=1,active=3,repeat=4,every=9", "active=2,unit=a,b=c "};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[MP_SPOOL_SCHEDULE], again[MP_SPOOL_SCHEDULE], small[8];
        struct mp_schedule restored = {0};
        begin(all[i]);
        ck_assert(mp_schedule_format(&schedule, text, sizeof text));
        ck_assert(!mp_schedule_format(&schedule, small, sizeof small));
        ck_assert_int_eq(mp_schedule_parse(text, &restored, NULL), MP_OK);
        ck_assert(mp_schedule_format(&restored, again, sizeof again));
        ck_assert_str_eq(text, again);
        ck_assert(restored.by_region == schedule.by_region);
        ck_assert(restored.idle == schedule.idle && restored.every == schedule.every);
        mp_schedule_free(&restored);
        mp_schedule_free(&schedule);
    }
}

START_TEST(what_makes_no_sense_is_refused)
{
    static const char *const wrong[] = {
        "",           "wait=1",          "active=0",          "active=1,every=0x", "active=-1",
        "active=1x",  "active= 1",       "wait=2,active",     "active=3,every=2",  "steps=3",
        "active=1,,", "active=1,unit=(", "active=99999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct mp_schedule none = {0};
        struct mp_error error;
        ck_assert_msg(mp_schedule_parse(wrong[i], &none, &error) == MP_INVALID, "\"%s\"", wrong[i]);
    }
}

MP_SUITE("schedule", steps_come_in_cycles, regions_are_counted_by_name, as_text_and_back_it_is_the_same,
         what_makes_no_sense_is_refused)
