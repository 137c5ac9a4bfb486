/*
 * A running program's live blocks as a file: with stacks, and with ended blocks that outlived a step (mp_lives above),
 * as events between steps. Every command reads it; `memprof leaks` judges it by its rule for whole recordings.
 */
#pragma once

#include "collect/recording/recorded.h"

/* Writes to `fd`, an empty file, and closes it. The file has what the recording has taken so far. Symbols may take
 * seconds: call it in a child of the collector (collect/session/snapshots.h). */
enum mp_status mp_live_file_write(struct mp_recording *recording, int fd, struct mp_error *error);
