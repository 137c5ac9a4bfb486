/* Recording a command, for `memprof snapshot` and `memprof plan`. Main thread. */
#pragma once

#include "cli/invocation.h"
#include "collect/session/collector.h"

/* How a command that records differs from `memprof snapshot`. */
struct mp_snapshot_way {
    void *context;
    const char *name;                                                /* default file name, before the pid and ".mp" */
    void (*prepare)(void *context, struct mp_record_config *config); /* after the options were read */
    /* Prints the outcome; false: the recording is incomplete. */
    bool (*report)(void *context, struct mp_collector_result *result, bool quiet);
};

/* Records the invocation's operands as a command. `way`: NULL for `memprof snapshot` itself. Returns an exit status. */
int mp_snapshot_record(const struct mp_invocation *invocation, const struct mp_snapshot_way *way);
