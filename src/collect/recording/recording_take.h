/* Takes records of the rings into a recording, and makes events of them. One thread at a time. */
#pragma once

#include "collect/recording/recorded.h"

/* Takes an out-of-memory, or the next event of a thread with an undecided refusal. Asks for a snapshot if that is worth
 * one. */
enum mp_status mp_recording_follow_oom(struct mp_recording *recording, const struct mp_event *event,
                                       struct mp_error *error);

/* Call it when the process has ended: decides refusals without a following event, and asks for a snapshot of the last
 * out-of-memory if the program ended badly. */
enum mp_status mp_recording_look_at_last_ooms(struct mp_recording *recording, struct mp_error *error);

/* The drain's visitor: turns one record of a ring into events, an answer, or a change of the window. */
bool mp_recording_take(void *recording, uint32_t ring, const struct mp_record *record);
