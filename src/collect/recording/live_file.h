/*
 * A running program as a snapshot file of its own: the live blocks, with their stacks, and those ended ones that
 * outlived a step (collect/recording/lives.h), as events between steps. Every command reads it; `memprof leaks` judges
 * it by its rule for whole recordings.
 */
#ifndef MP_COLLECT_LIVE_FILE_H
#define MP_COLLECT_LIVE_FILE_H

#include "collect/recording/recording.h"

/* Writes the file to fd, an empty file, which is closed. It contains what the recording has taken so far. May take
 * seconds, for symbols: call it in a child of the collector (collect/session/snapshots.h). */
enum mp_status mp_live_file_write(struct mp_recording *recording, int fd, struct mp_error *error);

#endif
