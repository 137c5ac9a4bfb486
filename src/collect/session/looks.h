/*
 * Wishes that a recorded program look for what holds its tensors, now: whoever asked (collect/session/control.h) gets
 * the recording with that look in it; a snapshot at a signal is made after it; and where a leak is suspected nobody
 * waits. The program looks between two instructions of its main thread, and may not come by: then the wish is taken
 * back. One thread at a time.
 */
#ifndef MP_COLLECT_LOOKS_H
#define MP_COLLECT_LOOKS_H

#include "base/vec.h"
#include "collect/session/snapshots.h"

struct mp_wished_look {
    uint64_t recording; /* its id */
    uint32_t number;
    uint64_t asked_ns, began_ns; /* 0: it has not begun */
    uint32_t budget_ms;
    int file, connection; /* of whoever waits; -1 */
    bool then_snapshot;   /* of now, beside the recording */
};

struct mp_looks {
    MP_VEC(struct mp_wished_look) wished;
    uint32_t last_number;
};

/* Asks the program. `file` and `connection` as for mp_snapshots_start_for, -1 where nobody waits: taken over, also on
 * failure, where the caller answers. */
enum mp_status mp_looks_ask(struct mp_looks *looks, struct mp_recording *recording, struct mp_wished_look wish,
                            struct mp_error *error);
/* Ends what has come of this recording's wishes, or will not come. `ended`: the process did. */
void mp_looks_serve(struct mp_looks *looks, struct mp_snapshots *snapshots, struct mp_recording *recording, bool ended);
void mp_looks_free(struct mp_looks *looks);

#endif
