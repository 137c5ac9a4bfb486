/*
 * PyTorch's data about its caching allocators on CUDA (MP_RECORD_TORCH): readings of its own history, without stacks,
 * and of its segments. Each entry is joined to its allocation, and gives the requested bytes, the stream and the pool.
 * Segments give the same for blocks that are live at the reading. Bounded: the newest MP_HISTORY_ALLOCS allocations of
 * a track wait for their entry. One thread at a time.
 */
#ifndef MP_COLLECT_HISTORY_H
#define MP_COLLECT_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/vec.h"
#include "model/state/ledger.h"
#include "wire/record.h"

/*
 * Joins the entries of PyTorch's own history to our allocations. Both lists describe one device's caching allocator and
 * were made under its lock, so they have the same order. Each lacks some: the history is a ring, and forgets entries
 * between two readings; ours lacks dropped events. Addresses recur, in a loop with the same neighbours in each turn.
 *
 * A pair needs the same address, a block large enough for the request, and nearness in time. The result pairs the two
 * lists in order with as many pairs as possible. Among equals, the one whose times agree best is taken. The rest stays
 * without a pair. Pure; any thread.
 *
 * An example is a loop that allocates at A and at B in each turn. The ring has forgotten the first turn. Times are in
 * microseconds:
 *
 *     ours      a0 10 A    a1 20 B    a2 30 A    a3 40 B
 *     history                         h0 31 A    h1 41 B
 *
 * h0 may be a0 or a2, and h1 a1 or a3. Three ways in order have two pairs: h0 a0, h1 a1 differ by 42 in all; h0 a0, h1
 * a3 by 22; h0 a2, h1 a3 by 2. The last is taken. h0 a2 with h1 a1 would not be in order.
 */

/* An allocation as the recorder saw it. */
struct mp_history_alloc {
    uint64_t time_ns, address, bytes;
    uint64_t block; /* the caller's own number */
};

/* An entry of PyTorch's: `bytes` were requested. */
struct mp_history_entry {
    uint64_t time_ns, address, bytes, stream, pool;
};

/* The history's clock is read a moment before ours, to a microsecond, and its readings go through two conversions. Our
 * thread may lose its processor in between, for any length of time, while it keeps the lock. The first allocation after
 * an entry may therefore be the entry's at any distance, later ones only up to this one. */
#define MP_HISTORY_EARLY_NS UINT64_C(2000000)
#define MP_HISTORY_LATE_NS  UINT64_C(50000000)

/* Fills alloc_of[entry] with an index into allocs, or MP_NONE. Both lists are in order, allocs also by time, and
 * shorter than 2^20. *pairs: their number. False where memory is short. */
bool mp_history_join(const struct mp_history_alloc *allocs, size_t alloc_count, const struct mp_history_entry *entries,
                     size_t entry_count, uint32_t *alloc_of, size_t *pairs);

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
