/* Messages of `memprof snapshot`, all on stderr. */
#pragma once

#include "collect/session/collector.h"

/* Prints the closing messages: three lines for the biggest recording, and one for each other. `quiet`: only failures.
 * `verbose`: also memprof's own memory. True if every recording is complete. */
bool mp_snapshot_report(const struct mp_collector_result *result, const struct mp_collector_options *options,
                        bool quiet, bool verbose);

/* The callbacks of struct mp_snapshot_calls: the first explains an out-of-memory, in the process that wrote the file;
 * the second reports the outcome of other snapshots. `quiet` points to a bool. */
void mp_snapshot_say_oom(void *quiet, const struct mp_snapshot_outcome *outcome);
void mp_snapshot_say(void *quiet, const struct mp_snapshot_outcome *outcome);
