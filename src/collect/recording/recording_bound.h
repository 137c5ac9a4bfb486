/*
 * A recording that keeps only its newest events (--max-events). When its file has twice as many, all but the newest are
 * folded away (collect/fold/fold.h) into a file that replaces it, on a thread of its own while the recording goes on.
 * At every moment one whole file has the name. Events that wait for a fold are bounded: by the requested number, or
 * MP_BOUND_SLACK, plus those that come during a fold.
 */
#ifndef MP_COLLECT_RECORDING_BOUND_H
#define MP_COLLECT_RECORDING_BOUND_H

#include <stdint.h>

#include "base/error.h"

#define MP_BOUND_SLACK (UINT64_C(1) << 18) /* events: fewer are not worth a fold */

struct mp_recording;
struct mp_bound_job;

struct mp_bound {
    uint64_t max_events;      /* 0: no bound */
    uint64_t file_events;     /* in the file */
    uint64_t fold_at;         /* at this many */
    struct mp_bound_job *job; /* the one under way */
};

/* Called after a chunk was written: puts a folded file in place, and begins to fold one that is too long. */
enum mp_status mp_recording_bound(struct mp_recording *recording, struct mp_error *error);
/* Called before the file's end is written: leaves exactly max_events. May take as long as reading the file. */
enum mp_status mp_recording_bound_end(struct mp_recording *recording, struct mp_error *error);
/* Abandons a fold that is under way. */
void mp_recording_bound_free(struct mp_recording *recording);

#endif
