/* Messages about snapshots while a command runs, all on stderr. */
#pragma once

#include "collect/session/snapshots.h"

/* The callbacks of struct mp_snapshot_calls: the first explains an out-of-memory, in the process that wrote the file;
 * the second reports the outcome of other snapshots. `quiet` points to a bool. */
void mp_snapshot_say_oom(void *quiet, const struct mp_snapshot_outcome *outcome);
void mp_snapshot_say(void *quiet, const struct mp_snapshot_outcome *outcome);
