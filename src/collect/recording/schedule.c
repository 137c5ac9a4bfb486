#include "collect/recording/schedule.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pattern.h"

static const struct word {
    const char *name;
    size_t offset;
} words[] = {
    {"wait", offsetof(struct mp_schedule, idle)},
    {"warmup", offsetof(struct mp_schedule, idle)}, /* memprof needs no warm-up, so this means waiting */
    {"active", offsetof(struct mp_schedule, active)},
    {"repeat", offsetof(struct mp_schedule, repeat)},
    {"every", offsetof(struct mp_schedule, every)},
};
enum { UNITS_MAX = 1000000000 };

static enum mp_status take_unit(const char *pattern, struct mp_schedule *schedule, struct mp_error *error)
{
    struct mp_error why;
    if (mp_pattern_compile(pattern, &schedule->unit, &why))
        return mp_fail(error, MP_INVALID, "unit=%s is no pattern: %s", pattern, why.text);
    schedule->by_region = true;
    schedule->pattern = strdup(pattern);
    return schedule->pattern ? MP_OK : mp_fail(error, MP_NO_MEMORY, "out of memory for a schedule");
}

static enum mp_status take_word(const char *text, size_t length, struct mp_schedule *schedule, struct mp_error *error)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t name = strlen(words[i].name);
        if (strncmp(text, words[i].name, name) || text[name] != '=') continue;
        char *end;
        unsigned long long value = strtoull(text + name + 1, &end, 10);
        if (text[name + 1] < '0' || text[name + 1] > '9' || end != text + length || value > UNITS_MAX) break;
        *(uint64_t *)((char *)schedule + words[i].offset) += value;
        return MP_OK;
    }
    return mp_fail(error, MP_INVALID, "\"%.*s\" is none of wait=N, warmup=N, active=N, repeat=N, every=N, unit=REGEX",
                   (int)length, text);
}

enum mp_status mp_schedule_parse(const char *text, struct mp_schedule *schedule, struct mp_error *error)
{
    static const char unit[] = "unit=";
    enum mp_status status = MP_OK;
    for (const char *at = text; !status && *at;) {
        size_t length = strcspn(at, ",");
        if (!strncmp(at, unit, strlen(unit))) {
            status = take_unit(at + strlen(unit), schedule, error);
            break;
        }
        status = take_word(at, length, schedule, error);
        at += length + (at[length] == ',');
    }
    uint64_t cycle = schedule->idle + schedule->active;
    if (!status && !schedule->active)
        status = mp_fail(error, MP_INVALID, "active=N is missing: the number of steps to keep");
    if (!status && schedule->every && schedule->every < cycle)
        status = mp_fail(error, MP_INVALID, "every=%llu is shorter than one cycle of %llu",
                         (unsigned long long)schedule->every, (unsigned long long)cycle);
    if (!schedule->every) schedule->every = cycle;
    if (status) mp_schedule_free(schedule);
    return status;
}

void mp_schedule_free(struct mp_schedule *schedule)
{
    if (schedule->by_region) regfree(&schedule->unit);
    free(schedule->pattern);
    schedule->pattern = NULL;
    schedule->by_region = false;
}

bool mp_schedule_format(const struct mp_schedule *schedule, char *text, size_t room)
{
    int length = snprintf(text, room, "wait=%llu,active=%llu,every=%llu,repeat=%llu%s%s",
                          (unsigned long long)schedule->idle, (unsigned long long)schedule->active,
                          (unsigned long long)schedule->every, (unsigned long long)schedule->repeat,
                          schedule->by_region ? ",unit=" : "", schedule->by_region ? schedule->pattern : "");
    return length > 0 && (size_t)length < room;
}

static bool is_active(const struct mp_schedule *schedule, uint64_t unit)
{
    return unit % schedule->every >= schedule->idle && unit % schedule->every < schedule->idle + schedule->active;
}

static bool is_last(const struct mp_schedule *schedule, uint64_t unit)
{
    return schedule->repeat && unit / schedule->every >= schedule->repeat;
}

static enum mp_schedule_wish begin_unit(const struct mp_schedule *schedule, struct mp_schedule_state *state)
{
    uint64_t unit = state->position.units++;
    state->position.over |= is_last(schedule, unit);
    return !state->position.over && is_active(schedule, unit) ? MP_SCHEDULE_OPEN : MP_SCHEDULE_CLOSE;
}

/* Follows regions. A unit is an outermost region with the schedule's name; regions that begin inside of it do not
 * count. */
static enum mp_schedule_wish next_region(const struct mp_schedule *schedule, struct mp_schedule_state *state,
                                         uint32_t ring, const struct mp_event *event, const char *name)
{
    if (ring == MP_SPOOL_RINGS_MAX) return MP_SCHEDULE_NONE;
    uint32_t *depth = &state->depth[ring];
    if (event->type == MP_EVENT_REGION_BEGIN) {
        ++*depth;
        if (state->position.unit_depth || regexec(&schedule->unit, name, 0, NULL, 0)) return MP_SCHEDULE_NONE;
        state->position.unit_ring = ring;
        state->position.unit_depth = *depth;
        return begin_unit(schedule, state);
    }
    if (event->type != MP_EVENT_REGION_END) return MP_SCHEDULE_NONE;
    bool ends = state->position.unit_depth && ring == state->position.unit_ring && *depth <= state->position.unit_depth;
    if (*depth) --*depth;
    if (!ends) return MP_SCHEDULE_NONE;
    state->position.unit_depth = 0;
    return MP_SCHEDULE_CLOSE_AFTER;
}

enum mp_schedule_wish mp_schedule_next(const struct mp_schedule *schedule, struct mp_schedule_state *state,
                                       uint32_t ring, const struct mp_event *event, const char *name, bool is_step)
{
    if (state->position.over) return MP_SCHEDULE_NONE;
    if (schedule->by_region) return next_region(schedule, state, ring, event, name);
    return is_step ? begin_unit(schedule, state) : MP_SCHEDULE_NONE;
}
