/*
 * Processes of a session that outlive its command: those that are recorded, and those that have its environment and
 * have allocated nothing yet. A daemon that emptied its environment before its first allocation is not found.
 */
#ifndef MP_COLLECT_SURVIVORS_H
#define MP_COLLECT_SURVIVORS_H

#include "collect/session/collector_parts.h"

struct mp_survivors {
    size_t count;
    uint32_t unrecorded; /* one of those that are not recorded; 0: there is none */
    char names[160];     /* "pid 12 server, pid 13 sh", of the first four */
};

/* Reads the environment of each process that the user may ask: some ten microseconds a process. */
void mp_survivors_find(const struct mp_collector *collector, struct mp_survivors *survivors);
/* True while any is left. Asks those that are known first, and finds others only where these have ended: with --wait it
 * is asked for hours. `survivors`: zeroes, or the last finding. */
bool mp_survivors_are_left(const struct mp_collector *collector, struct mp_survivors *survivors);
/* One sentence without a full stop. */
void mp_survivors_say(const struct mp_survivors *survivors, char *text, size_t room);

#endif
