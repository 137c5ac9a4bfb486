/* PyTorch's data about its caching allocators in a recording. One thread at a time. */
#pragma once

#include "collect/recording/recorded.h"

/* PyTorch's data about its caching allocators (collect/history/history.h). mp_recording_follow_history() follows births
 * and ends of blocks. The next function takes a record of a reading. The others write to the file: one after the events
 * concerned, one at the file's end. */
enum mp_status mp_recording_follow_history(struct mp_recording *recording, const struct mp_event *event,
                                           struct mp_error *error);
enum mp_status mp_recording_take_history(struct mp_recording *recording, const struct mp_record *record,
                                         struct mp_error *error);

/* Adds a note if most entries of PyTorch's history matched no recorded block. */
void mp_recording_note_history(struct mp_recording *recording);
enum mp_status mp_recording_write_requests(struct mp_recording *recording, struct mp_error *error);
enum mp_status mp_recording_write_segments(struct mp_recording *recording, struct mp_error *error);
