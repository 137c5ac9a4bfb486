/*
 * A recording that keeps its newest events only (--max-events): when its file has twice as many, all but the newest are
 * folded away (collect/fold/fold.h) into a file that takes its place, on a thread of its own while the recording goes
 * on. At every moment one whole file stands under the name. At most so many events wait for a fold: what was asked for,
 * or MP_BOUND_SLACK, and what comes while one is made.
 */
#ifndef MP_COLLECT_RECORDING_BOUND_H
#define MP_COLLECT_RECORDING_BOUND_H

#include <stdint.h>

#include "base/error.h"

#define MP_BOUND_SLACK (UINT64_C(1) << 18) /* events: folding for fewer is not worth it */

struct mp_recording;
struct mp_bound_job;

struct mp_bound {
    uint64_t max_events;      /* 0: no bound */
    uint64_t file_events;     /* in the file */
    uint64_t fold_at;         /* so many */
    struct mp_bound_job *job; /* one that is under way */
};

/* After a chunk was written: takes the place of a file that is folded, begins to fold one that is too long. */
enum mp_status mp_recording_bound(struct mp_recording *recording, struct mp_error *error);
/* Before the file's end is written: exactly max_events are left. May take as long as reading the file. */
enum mp_status mp_recording_bound_end(struct mp_recording *recording, struct mp_error *error);
/* Gives up a fold that is under way. */
void mp_recording_bound_free(struct mp_recording *recording);

#endif
