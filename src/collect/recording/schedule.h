/*
 * Decides when a recording keeps events: in cycles of units. Units are steps, or regions of one name. A schedule opens
 * and closes the window before or after an event. The program's own starts and stops apply in addition. Pure; one
 * thread at a time.
 */
#pragma once

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "format/recording.h"
#include "wire/spool.h"

/* The user's schedule. Zero-initialised, it keeps everything. Once made, it is read-only, and any thread may read
 * it. */
struct mp_schedule {
    uint64_t idle, active; /* units of a cycle: first idle ones, then active ones (at least one) */
    uint64_t every;        /* units from one cycle's beginning to the next one's */
    uint64_t repeat;       /* cycles; 0: without end */
    bool by_region;        /* else by step */
    char *pattern;         /* owned */
    regex_t unit;
};

/* Reads "wait=1,warmup=1,active=3,repeat=1,every=10,unit=REGEX". Only `active` is required; `unit` comes last and may
 * contain commas. MP_INVALID: the error names the wrong word. The caller frees the schedule only after success. */
enum mp_status mp_schedule_parse(const char *text, struct mp_schedule *schedule, struct mp_error *error);
void mp_schedule_free(struct mp_schedule *schedule);

/* Writes the schedule as text for the spool; mp_schedule_parse() reads it. False: the text is longer than `room`. */
bool mp_schedule_format(const struct mp_schedule *schedule, char *text, size_t room);

static inline bool mp_schedule_is_set(const struct mp_schedule *schedule)
{
    return schedule->active;
}

/* One recording's position in the schedule. */
struct mp_schedule_state {
    struct mp_schedule_position position;
    uint32_t depth[MP_SPOOL_RINGS_MAX]; /* by thread: number of open regions whose begin was seen */
};

enum mp_schedule_wish {
    MP_SCHEDULE_NONE,
    MP_SCHEDULE_OPEN,        /* open the window before this event */
    MP_SCHEDULE_CLOSE,       /* close it before this event */
    MP_SCHEDULE_CLOSE_AFTER, /* close it after this event */
};

/* Called for each event in order of time. `ring`: MP_SPOOL_RINGS_MAX for a region of no thread; `name`: a region's
 * name; `is_step`: a step begins with the event. */
enum mp_schedule_wish mp_schedule_next(const struct mp_schedule *schedule, struct mp_schedule_state *state,
                                       uint32_t ring, const struct mp_event *event, const char *name, bool is_step);
