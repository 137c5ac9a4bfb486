/*
 * Files that are left out: files of child processes that never allocated enough to matter. The parent's file has a note
 * about them. Only for the thread that finishes recordings.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "collect/recording/recording.h"

/* The left-out files of one kind. */
struct mp_left_out {
    uint64_t owner; /* id of the recording of the parent */
    char role[MP_MEMBER_TEXT];
    uint64_t processes, events, peak_bytes; /* peak_bytes: the highest of one process */
};

struct mp_leaving {
    MP_VEC(struct mp_left_out) rows; /* not noted yet */
};

/* True if a recording may be left out, judged without its file. Its end must have been taken. */
bool mp_leaving_may(struct mp_recording *recording, uint64_t below_bytes);

/* Finishes a recording whose end was taken (mp_recording_finish()), and checks a file of up to 4 MiB for leaks
 * (summary->leaks). Adds a note about left-out children of the process. `owner`: id of the parent's recording if the
 * file may be left out: it is left out if it was checked and has no leak. 0: the file stays. */
void mp_leaving_finish(struct mp_leaving *leaving, struct mp_recording *recording, uint64_t owner,
                       struct mp_recording_summary *summary);
void mp_leaving_free(struct mp_leaving *leaving);
