/* Messages of `memprof snapshot`, all on stderr. */
#ifndef MP_CLI_SNAPSHOT_MESSAGES_H
#define MP_CLI_SNAPSHOT_MESSAGES_H

#include "collect/session/collector.h"

/* At the end: three lines for the biggest recording, one for each other; with `quiet` only what went wrong, with
 * `verbose` also what memory memprof took. True where every recording is whole. */
bool mp_snapshot_report(const struct mp_collector_result *result, const struct mp_collector_options *options,
                        bool quiet, bool verbose);

/* The callbacks of struct mp_snapshot_calls: what an out-of-memory was about, said by the process that wrote the file;
 * and what became of other snapshots. `quiet` points to a bool. */
void mp_snapshot_say_oom(void *quiet, const struct mp_snapshot_outcome *outcome);
void mp_snapshot_say(void *quiet, const struct mp_snapshot_outcome *outcome);

#endif
