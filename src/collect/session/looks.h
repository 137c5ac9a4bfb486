/*
 * Requests to recorded programs to look for holders of their tensors now. A client (collect/session/control.h) gets the
 * recording with that look. A snapshot at a signal is made after a look. After a suspected leak, nobody waits for the
 * look. The program looks between two instructions of its main thread. If the program does not respond, the request is
 * withdrawn. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/vec.h"
#include "collect/recording/recording.h"
#include "collect/session/snapshots.h"

struct mp_wished_look {
    uint64_t recording; /* its id */
    uint32_t number;
    uint64_t asked_ns, began_ns; /* 0: the look has not begun */
    uint32_t budget_ms;
    bool may_be_short;    /* nobody waits, and looks are to keep to their share of the time */
    int file, connection; /* descriptors of the client that waits; -1: none */
    bool then_snapshot;   /* a snapshot is to follow, next to the recording */
};

struct mp_looks {
    MP_VEC(struct mp_wished_look) wished;
    uint32_t last_number;
};

/* Asks the program. `file` and `connection` are those of mp_snapshots_start_for; -1: nobody waits. The function takes
 * over both, even if it fails; after a failure, the caller answers. */
enum mp_status mp_looks_ask(struct mp_looks *looks, struct mp_recording *recording, struct mp_wished_look wish,
                            struct mp_error *error);
/* Ends requests about this recording whose looks have come, or will not come. `ended`: the process has ended. */
void mp_looks_serve(struct mp_looks *looks, struct mp_snapshots *snapshots, struct mp_recording *recording, bool ended);
void mp_looks_free(struct mp_looks *looks);
