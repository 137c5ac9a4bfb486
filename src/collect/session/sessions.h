/*
 * The sessions of this user on this machine: the sockets of the collectors that run. Those that lie where sessions are
 * made are found at once; others by the environment of the user's processes. One thread at a time.
 */
#ifndef MP_COLLECT_SESSIONS_H
#define MP_COLLECT_SESSIONS_H

#include <stdbool.h>

#include "base/intern.h"

/* Adds the path of each socket that may be a session's to `paths`; somebody need not listen there any more.
 * `thorough`: looks at all processes, too, which takes some 20 microseconds each. False where memory is short. */
bool mp_sessions_find(bool thorough, struct mp_intern *paths);

#endif
