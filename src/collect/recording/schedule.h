/*
 * When a recording keeps events: after a delay, for a while, and in cycles of units, which are steps or regions of a
 * name. A schedule decides before or after each event; the program's own starts and stops come in addition. Pure; one
 * thread at a time.
 */
#ifndef MP_COLLECT_SCHEDULE_H
#define MP_COLLECT_SCHEDULE_H

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "format/recording.h"
#include "wire/spool.h"

/* The user's schedule. Zero-initialised: everything is kept. Read-only once made, and then for any thread. */
struct mp_schedule {
    uint64_t delay_ns, duration_ns; /* from the recording's start; from the delay's end; 0: none, no end */
    bool in_cycles;
    uint64_t idle, active; /* units of a cycle: first idle ones, then active ones */
    uint64_t every;        /* units from one cycle's beginning to the next one's */
    uint64_t repeat;       /* cycles; 0: without end */
    bool by_region;        /* else by step */
    char *pattern;         /* owned */
    regex_t unit;
};

/* "wait=1,warmup=1,active=3,repeat=1,every=10,unit=REGEX"; all but active may be missing, unit comes last and may
 * contain commas. MP_INVALID: the error names the wrong word. To be freed only after success. */
enum mp_status mp_schedule_parse(const char *text, struct mp_schedule *schedule, struct mp_error *error);
void mp_schedule_free(struct mp_schedule *schedule);

/* The whole schedule, times included, as text for the spool, and back. False: longer than `room`. */
bool mp_schedule_format(const struct mp_schedule *schedule, char *text, size_t room);
enum mp_status mp_schedule_restore(const char *text, struct mp_schedule *schedule, struct mp_error *error);

static inline bool mp_schedule_is_set(const struct mp_schedule *schedule)
{
    return schedule->delay_ns || schedule->duration_ns || schedule->in_cycles;
}

/* One recording's position in the schedule. */
struct mp_schedule_state {
    struct mp_schedule_position position;
    uint32_t depth[MP_SPOOL_RINGS_MAX]; /* of each thread's open regions, as far as they were seen */
};

enum mp_schedule_wish {
    MP_SCHEDULE_NONE,
    MP_SCHEDULE_OPEN,        /* the window, before this event */
    MP_SCHEDULE_CLOSE,       /* before this event */
    MP_SCHEDULE_CLOSE_AFTER, /* this event is the last one inside */
};

/* True where the window is open from the very start. */
bool mp_schedule_begins_open(const struct mp_schedule *schedule);

/* Called for each event in order of time. `ring`: MP_SPOOL_RINGS_MAX for a region of no thread; `name`: that of a
 * region; `is_step`: a step begins with the event. */
enum mp_schedule_wish mp_schedule_next(const struct mp_schedule *schedule, struct mp_schedule_state *state,
                                       uint32_t ring, const struct mp_event *event, const char *name, bool is_step);

#endif
