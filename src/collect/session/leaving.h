/*
 * Files that a process tree leaves out: those of processes that were started by a recorded one and never allocated
 * enough to matter. What is left out is noted in the file of the process that started it. Only the one thread that
 * finishes recordings.
 */
#ifndef MP_COLLECT_LEAVING_H
#define MP_COLLECT_LEAVING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "collect/recording/recording.h"

/* One kind of what was left out. */
struct mp_left_out {
    uint64_t owner; /* the id of the recording whose process started them */
    char role[MP_MEMBER_TEXT];
    uint64_t processes, events, peak_bytes; /* the highest of one */
};

struct mp_leaving {
    MP_VEC(struct mp_left_out) rows; /* not noted yet */
};

/* Asked of a recording whose end was taken: whether it may be left out by all that is known without its file. */
bool mp_leaving_may(struct mp_recording *recording, uint64_t below_bytes);

/* Finishes a recording whose end was taken (mp_recording_finish), and looks for leaks in a file of up to 4 MiB
 * (summary->leaks). Notes in it what its process's children left out. `owner`: the id of the recording whose process
 * started this one, if the file may be left out, which it is if it was looked at and has no leak; 0: it stays. */
void mp_leaving_finish(struct mp_leaving *leaving, struct mp_recording *recording, uint64_t owner,
                       struct mp_recording_summary *summary);
void mp_leaving_free(struct mp_leaving *leaving);

#endif
