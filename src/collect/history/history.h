/*
 * PyTorch's data about its caching allocators on CUDA (MP_RECORD_TORCH): readings of its own history, without stacks,
 * and of its segments. Each entry is joined to its allocation (collect/history/history_join.h), and gives the requested
 * bytes, the stream and the pool; segments give the same for blocks that are live when they are read. Bounded: the
 * newest MP_HISTORY_ALLOCS allocations of a track wait for their entry. One thread at a time.
 */
#ifndef MP_COLLECT_HISTORY_H
#define MP_COLLECT_HISTORY_H

#include "base/error.h"
#include "base/vec.h"
#include "collect/history/history_join.h"
#include "model/state/ledger.h"
#include "wire/record.h"

#define MP_HISTORY_ALLOCS (UINT32_C(1) << 17)
#define MP_HISTORY_CLOSE_NS                                                                                            \
    INT64_C(500000)                            /* most entries' times differ less from ours; otherwise none is         \
                                                * believed */
#define MP_HISTORY_ENTRIES (UINT32_C(1) << 18) /* of one reading; the same limit for parts of segments */

struct mp_history_track {
    bool followed;                           /* PyTorch's caching allocator of a CUDA device */
    uint64_t last_event_ns;                  /* of its blocks */
    MP_VEC(struct mp_history_alloc) allocs;  /* the newest, in order of time */
    MP_VEC(struct mp_history_entry) entries; /* of the incoming reading */
};

struct mp_history_held {
    MP_VEC(struct mp_segment) segments;
    MP_VEC(struct mp_segment_part) parts;
};

struct mp_history {
    MP_VEC(struct mp_history_track) tracks; /* by number */
    struct mp_history_held coming, held;    /* of the incoming reading; of the last whole one, */
    uint64_t held_ns;                       /* which was made then */
    uint64_t records;                       /* received so far */
    bool overflowed;
    MP_VEC(struct mp_block_request) requests; /* found, for the file; the caller empties it */
    uint64_t entries, joined;                 /* so far */
};

/* Adds the next track (they come in order of their numbers), and says whether to follow it. False: out of memory. */
bool mp_history_add_track(struct mp_history *history, bool followed);
static inline bool mp_history_follows(const struct mp_history *history, uint16_t track)
{
    return track < history->tracks.count && history->tracks.at[track].followed;
}

/* A block of a followed track began, with the number from the ledger, or ended. False: out of memory. */
bool mp_history_event(struct mp_history *history, const struct mp_event *event);

/* Takes a record of a reading; `moment_ns` is its own time in the recording. The last record joins the reading: live
 * blocks of the ledger get their requests, and history->requests grows. */
enum mp_status mp_history_take(struct mp_history *history, struct mp_ledger *ledger, uint16_t track,
                               const struct mp_record *record, uint64_t moment_ns, struct mp_error *error);

/* The memory that the allocators hold now: the segments of the last reading with the live blocks. Only for tracks where
 * nothing happened since, or where the segments add up to the allocator's present total and contain all blocks. The
 * caller frees *held, which starts empty. */
enum mp_status mp_history_now(const struct mp_history *history, const struct mp_ledger *ledger,
                              struct mp_history_held *held, struct mp_error *error);
void mp_history_held_free(struct mp_history_held *held);

uint64_t mp_history_bytes(const struct mp_history *history);
void mp_history_free(struct mp_history *history);

#endif
