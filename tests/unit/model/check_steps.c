/*
 * Which events begin steps, on random sequences of steps, regions and allocs, for every configuration. The test finds
 * the truth by searching the whole sequence for one kind after the other; the rule sees one event at a time.
 */
#include <stdio.h>
#include <string.h>

#include "base/step_rule.h"
#include "model/spans.h"
#include "unit/suite.h"

#define EVENTS 40
#define SCENES 4000

static const char *const names[] = {"",
                                    "torch.optim",
                                    "train",
                                    "batch 1",
                                    "batch 2",
                                    "step 1",
                                    "step 2",
                                    "step_optimizer",
                                    "ProfilerStep#1",
                                    "epoch",
                                    "Step",
                                    "/lib/python3/zip.py:Zip.train",
                                    "a/b.py:train",
                                    "c/b.py:Net.train",
                                    "b.py:trains"};
enum { NAMES = sizeof names / sizeof *names };

static const struct {
    const char *configuration, *function, *beginning;
} ways[] = {{"", "", ""},
            {"step_at=train", "train", ""},
            {"step_at=torch.optim", "torch.optim", ""},
            {"step_at=c/b.py:train", "c/b.py:train", ""},
            {"step_range=^batch", "", "batch"},
            {"step_range=^step", "", "step"},
            {"native=1;step_range=^batch;step_at=train", "train", "batch"}};
enum { WAYS = sizeof ways / sizeof *ways };

struct sequence {
    uint64_t random;
    const char *function, *beginning;
    uint8_t type[EVENTS];
    uint32_t subject[EVENTS], thread[EVENTS], noted[EVENTS];
    uint64_t time_ns[EVENTS];
    struct mp_model_note notes[EVENTS];
    struct mp_model model;
};

static uint64_t pick(struct sequence *s, uint64_t below)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random % below;
}

/* Few kinds of event and few names in each, or the strongest would nearly always be there. */
static void make(struct sequence *s, uint64_t seed, size_t way)
{
    static const uint8_t types[] = {MP_EVENT_STEP, MP_EVENT_REGION_BEGIN, MP_EVENT_REGION_END, MP_EVENT_MARK};
    *s = (struct sequence){
        .random = seed * 2654435761u + 1, .function = ways[way].function, .beginning = ways[way].beginning};
    uint64_t allocs = pick(s, 3), kinds = 1 + pick(s, 4), some = pick(s, NAMES), width = 1 + pick(s, 4),
             from = pick(s, 4);
    struct mp_model *model = &s->model;
    *model =
        (struct mp_model){.file.format = "mp", .start.configuration = ways[way].configuration, .duration_ns = EVENTS};
    for (size_t i = 0; i < NAMES; i++)
        ck_assert_uint_eq(mp_intern_text(&model->strings, names[i]), i);
    model->events.type = s->type;
    model->events.subject = s->subject;
    model->events.thread = s->thread;
    model->events.time_ns = s->time_ns;
    model->events.count = EVENTS;
    model->notes.at = s->notes;
    model->noted.at = s->noted;
    for (uint32_t i = 0; i < EVENTS; i++) {
        s->time_ns[i] = i;
        s->type[i] = pick(s, 3) < allocs ? MP_EVENT_ALLOC : types[(from + pick(s, kinds)) % 4];
        if (s->type[i] == MP_EVENT_ALLOC) continue;
        s->subject[i] = (uint32_t)model->notes.count;
        s->noted[model->noted.count++] = i;
        s->notes[model->notes.count++].name = (uint32_t)((some + pick(s, width)) % NAMES);
    }
}

static const char *name_of(const struct sequence *s, size_t event)
{
    return s->type[event] == MP_EVENT_ALLOC ? "" : names[s->notes[s->subject[event]].name];
}

static bool begins_with(const char *text, const char *beginning)
{
    return !strncmp(text, beginning, strlen(beginning));
}

static bool same_but_digits(const char *a, const char *b)
{
    while (*a || *b) {
        if (*a >= '0' && *a <= '9') {
            a++;
        } else if (*b >= '0' && *b <= '9') {
            b++;
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return true;
}

static bool is_called(const char *function, const char *name)
{
    static const char *const means[][2] = {{"train", "/lib/python3/zip.py:Zip.train"},
                                           {"train", "a/b.py:train"},
                                           {"train", "c/b.py:Net.train"},
                                           {"c/b.py:train", "c/b.py:Net.train"}};
    for (size_t i = 0; i < sizeof means / sizeof *means; i++)
        if (!strcmp(function, means[i][0]) && !strcmp(name, means[i][1])) return true;
    return *function && !strcmp(name, function);
}

/* The events among the first `count` at which a step begins, for the cause `why`. Returns their number. */
static size_t collect(const struct sequence *s, size_t count, int why, uint32_t *at)
{
    const char *first = NULL;
    size_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = name_of(s, i);
        bool is = false, region = s->type[i] == MP_EVENT_REGION_BEGIN, step = s->type[i] == MP_EVENT_STEP;
        if (why >= MP_STEP_OF_LIBRARY_FUNCTION)
            is = step && is_called(s->function, name) && (why == MP_STEP_OF_FUNCTION) == (*name != '/');
        if (why == MP_STEP_OF_RANGE) is = region && *s->beginning && begins_with(name, s->beginning);
        if (why == MP_STEP_MARKED) is = step && strcmp(name, "torch.optim") != 0;
        if (why == MP_STEP_OF_OPTIMIZER) is = step && !strcmp(name, "torch.optim");
        if (why == MP_STEP_NAMED && region && !*s->beginning)
            is = begins_with(name, "step") || begins_with(name, "ProfilerStep#");
        if (is && (why == MP_STEP_NAMED || why >= MP_STEP_OF_LIBRARY_FUNCTION)) {
            if (!first) first = name;
            is = why == MP_STEP_NAMED ? same_but_digits(first, name) : !strcmp(first, name);
        }
        if (is) at[found++] = i;
    }
    return found;
}

static size_t strongest(const struct sequence *s, size_t count, int *why, uint32_t *at)
{
    for (*why = MP_STEP_OF_FUNCTION; *why > MP_STEP_NONE; --*why) {
        size_t found = collect(s, count, *why, at);
        if (found) return found;
    }
    return 0;
}

START_TEST(steps_are_those_of_the_strongest_kind)
{
    static struct sequence s;
    size_t met[MP_STEP_KINDS] = {0};
    for (uint64_t seed = 1; seed <= SCENES; seed++) {
        uint32_t at[EVENTS + 1];
        int why;
        make(&s, seed, seed % WAYS);
        size_t count = strongest(&s, EVENTS, &why, at);
        met[why]++;
        struct mp_steps steps = {0};
        mp_steps_marked(&s.model, &steps);
        if (why == MP_STEP_OF_OPTIMIZER) { /* each ends one, and so does the first where anything was allocated */
            size_t before = 0;
            while (before < at[0] && s.type[before] != MP_EVENT_ALLOC)
                before++;
            if (before < at[0]) {
                memmove(at + 1, at, count * sizeof *at);
                at[0] = 0;
                count++;
            }
            count = count > 2 ? count - 1 : 0;
        }
        ck_assert_msg(steps.count == count, "seed %zu: %zu steps, not %zu", (size_t)seed, steps.count, count);
        for (size_t i = 0; i < count; i++)
            ck_assert_uint_eq(steps.at[i].first, at[i]);
        const char *source = !count                                             ? "none"
                             : why >= MP_STEP_OF_LIBRARY_FUNCTION               ? "function"
                             : why == MP_STEP_OF_OPTIMIZER                      ? "torch"
                             : begins_with(name_of(&s, at[0]), "ProfilerStep#") ? "torch"
                                                                                : "api";
        ck_assert_str_eq(mp_steps_source(&steps), source);
        mp_steps_free(&steps);
        mp_intern_free(&s.model.strings);
    }
    for (int kind = MP_STEP_NONE; kind < MP_STEP_KINDS; kind++)
        ck_assert_msg(met[kind] > SCENES / 200, "kind %d was met only %zu times", kind, met[kind]);
}

/* The number of steps that a running recording has at each moment. */
START_TEST(every_beginning_is_counted_as_it_comes)
{
    static struct sequence s;
    for (uint64_t seed = 1; seed <= SCENES; seed++) {
        make(&s, seed, seed % WAYS);
        bool only_asked = seed / WAYS % 2, asked = *s.function || *s.beginning;
        int weakest = !only_asked || !asked ? 0 : *s.function ? MP_STEP_OF_LIBRARY_FUNCTION : MP_STEP_OF_RANGE;
        uint64_t before = seed % 3 ? 0 : seed;
        struct mp_step_rule rule;
        mp_step_rule_open_configured(&rule, s.model.start.configuration);
        if (only_asked) mp_step_rule_only_asked(&rule);
        rule.before = before;
        for (uint32_t i = 0; i < EVENTS; i++) {
            uint32_t at[EVENTS + 1];
            uint32_t name = s.type[i] == MP_EVENT_ALLOC ? 0 : s.notes[s.subject[i]].name;
            bool begins = mp_step_rule_take(&rule, s.type[i], name, names[name]);
            int why;
            size_t count = strongest(&s, i + 1, &why, at);
            if (why < weakest) count = 0;
            ck_assert(begins == (count && at[count - 1] == i));
            count += count && why == MP_STEP_OF_OPTIMIZER && !before;
            ck_assert_uint_eq(mp_step_rule_steps(&rule), before + count);
        }
        mp_step_rule_close(&rule);
        mp_intern_free(&s.model.strings);
    }
}

MP_SUITE("steps", steps_are_those_of_the_strongest_kind, every_beginning_is_counted_as_it_comes)
