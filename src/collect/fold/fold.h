/*
 * Keeps a recording bounded: makes a new file with only the newest events of a file that is still being written. From
 * older events, the new file has:
 *
 *     live blocks       with stack, birth and number
 *     peaks             each track's, with its time and its blocks by site
 *     allocators        their memory
 *     steps, regions    the current step and the open regions, repeated as events; the numbers of steps and events
 *     counters          the highest and the last sampled value
 *
 * For instance a file has 2000 events and keeps 1000. Event 700 allocated block X, which still lives, and event 800
 * allocated block Y, which event 900 freed. The new file has X among its live blocks, with number 700 and the stack of
 * event 700, but not Y. If the peak was at event 850, the new file has the peak's bytes and time, and the sites of X
 * and Y.
 *
 * Pure except for the files; one thread at a time, any thread.
 */
#pragma once

#include "base/vec.h"
#include "format/writer.h"

struct mp_folded {
    struct mp_writer *writer; /* writer of the new file, positioned at its end */
    uint64_t events;          /* events in the new file, repeated ones included */
    uint64_t next_offset;     /* the old file's chunks from this offset on are not in the new file yet */
};

/* Folds the file that `from` describes, with `events` events, down to `keep` events, or to the repeated events if these
 * are more. Takes over `fd`, an empty file, which becomes the new file. It ends at the same event as the part of the
 * old file that `from` describes. */
enum mp_status mp_fold(const struct mp_written *from, uint64_t events, uint64_t keep, int fd, struct mp_folded *folded,
                       struct mp_error *error);
