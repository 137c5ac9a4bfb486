/*
 * Processes of a session that outlive its command: recorded ones, and others with the session's environment that have
 * allocated nothing yet. A daemon that emptied its environment before its first allocation is not found.
 */
#pragma once

#include "collect/session/session.h"

struct mp_survivors {
    size_t count;
    uint32_t unrecorded; /* a process that is not recorded; 0: none */
    char names[160];     /* "pid 12 server, pid 13 sh", of the first four */
};

/* Reads the environment of each process that the user may read: some ten microseconds each. */
void mp_survivors_find(const struct mp_collector *collector, struct mp_survivors *survivors);
/* True while any of the survivors lives. Checks the known ones first, and searches for others only after these have
 * ended, since --wait may take hours. `survivors`: zeroes, or the last result. */
bool mp_survivors_are_left(const struct mp_collector *collector, struct mp_survivors *survivors);
/* One sentence without a full stop. */
void mp_survivors_say(const struct mp_survivors *survivors, char *text, size_t room);
