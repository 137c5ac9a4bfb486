/* The closing messages of `memprof snapshot` and `memprof attach`, all on stderr. */
#pragma once

#include <stdbool.h>

#include "collect/session/collector.h"

/* Three lines for the biggest recording, and one for each other. `quiet`: only failures.
 * `verbose`: also memprof's own memory. True if every recording is complete. */
bool mp_snapshot_report(const struct mp_collector_result *result, const struct mp_collector_options *options,
                        bool quiet, bool verbose);
