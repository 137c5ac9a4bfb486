/*
 * A running program as a snapshot file of its own: what is live, with its stacks, and of what ended the lives that
 * outlived a step (collect/recording/lives.h), as events between steps. Every command reads it; `memprof leaks` judges
 * it by the rule that it has for whole recordings.
 */
#ifndef MP_COLLECT_LIVE_FILE_H
#define MP_COLLECT_LIVE_FILE_H

#include "collect/recording/recording.h"

/* Writes it to fd, an empty file, which is closed. What the recording has taken so far is in it. May take seconds, for
 * symbols: to be called in a child of the collector (collect/session/snapshots.h). */
enum mp_status mp_live_file_write(struct mp_recording *recording, int fd, struct mp_error *error);

#endif
