/*
 * Keeps a recording bounded: of a file that is being written, a new one that has only its newest events. What the
 * others left behind stays true in it: the blocks that live, with stack, birth and number; the peak of each track, when
 * it was and what lived then by site; what an allocator holds; the step and the regions that are open, which are told
 * again as events; how many steps and events there were; of sampled counters the highest and the last value.
 *
 * Pure but for the files; one thread at a time, and any.
 */
#ifndef MP_COLLECT_FOLD_H
#define MP_COLLECT_FOLD_H

#include "format/writer.h"

struct mp_folded {
    struct mp_writer *writer; /* of the new file: goes on behind what it has */
    uint64_t events;          /* in the new file, those told again included */
    uint64_t next_offset;     /* what begins here in the old file is not in the new one yet */
};

/* Folds the file that `from` describes, which has `events` events, so that `keep` are left where that is more than must
 * be told again; takes over `fd`, an empty file. The writer is at the end of what `from` describes. */
enum mp_status mp_fold(const struct mp_written *from, uint64_t events, uint64_t keep, int fd, struct mp_folded *folded,
                       struct mp_error *error);

#endif
