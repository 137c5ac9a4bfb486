/*
 * A recording that keeps only its newest events (--max-events). When the file has twice as many, a separate thread
 * folds all but the newest away (collect/fold/fold.h), into a new file that then replaces it. The recording goes on
 * meanwhile. The name always leads to a complete file. The file has at most twice the requested number of events, or
 * the requested number plus MP_BOUND_SLACK if that is more. Events that come during a fold are added to that.
 */
#pragma once

#include "collect/recording/recorded.h"

#define MP_BOUND_SLACK (UINT64_C(1) << 18) /* events: it is not worth a fold to remove fewer */

/* Call it after a chunk was written: puts a finished fold in place, and begins a fold if the file is too long. */
enum mp_status mp_recording_bound(struct mp_recording *recording, struct mp_error *error);

/* Call it before the file's end is written: leaves exactly max_events events. May take as long as reading the file. */
enum mp_status mp_recording_bound_end(struct mp_recording *recording, struct mp_error *error);

/* Gives up a fold that is under way. */
void mp_recording_bound_free(struct mp_recording *recording);
