/*
 * PyTorch's data about its CUDA caching allocators (MP_RECORD_TORCH): readings of its own history, without stacks, and
 * of its segments. Each entry of the history is joined to a recorded allocation, which gets the entry's requested
 * bytes, stream and pool. Segments give the same facts for blocks that are live at the reading. Bounded: the newest
 * MP_HISTORY_ALLOCS allocations of a track wait for their entry. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/vec.h"
#include "model/state/ledger.h"
#include "wire/record.h"

/*
 * Joins the entries of PyTorch's own history to our allocations. Both lists describe one device's caching allocator and
 * were made under its lock, so they have the same order. Each list has gaps: the history is a ring and may lose entries
 * between two readings; ours lacks dropped events. Addresses repeat. In a loop, each turn repeats the whole sequence of
 * addresses.
 *
 * A pair must have the same address, a block large enough for the request, and nearby times. The result keeps both
 * lists in order and has as many pairs as possible. Among results with equally many pairs, the one whose times agree
 * best wins. All other allocations and entries stay unpaired. Pure; any thread.
 *
 * An example is a loop that allocates at A and at B in each turn. The ring has forgotten the first turn. Times are in
 * microseconds:
 *
 *     ours      a0 10 A    a1 20 B    a2 30 A    a3 40 B
 *     history                         h0 31 A    h1 41 B
 *
 * h0 may be a0 or a2, and h1 a1 or a3. Three results in order have two pairs each. The sum of the differences in time
 * is 42 for h0 = a0 and h1 = a1. It is 22 for a0 and a3, and 2 for a2 and a3. The last result wins. h0 = a2 with h1 =
 * a1 would not be in order.
 */
/* An allocation as the recorder saw it. */
struct mp_history_alloc {
    uint64_t time_ns, address, bytes;
    uint64_t block; /* the caller's own number */
};

/* An entry of PyTorch's history. `bytes`: the requested bytes. */
struct mp_history_entry {
    uint64_t time_ns, address, bytes, stream, pool;
};

/* PyTorch reads its clock, in microseconds, a moment before ours, and its times are converted twice. In between, the
 * thread may be preempted for any length of time while it holds the lock. So the first allocation after an entry may
 * belong to the entry at any distance; later ones may do so only within this distance. */
#define MP_HISTORY_EARLY_NS UINT64_C(2000000)
#define MP_HISTORY_LATE_NS  UINT64_C(50000000)
#define MP_HISTORY_ALLOCS   (UINT32_C(1) << 17)

/* Most entries' times must differ from the recorder's by less than this; otherwise no entry counts. */
#define MP_HISTORY_CLOSE_NS INT64_C(500000)
#define MP_HISTORY_ENTRIES  (UINT32_C(1) << 18) /* most entries of one reading, and most parts of segments */

struct mp_history_track {
    bool followed;                           /* true for the track of PyTorch's caching allocator on a CUDA device */
    uint64_t last_event_ns;                  /* time of the last event of its blocks */
    MP_VEC(struct mp_history_alloc) allocs;  /* the newest, in order of time */
    MP_VEC(struct mp_history_entry) entries; /* entries of the incoming reading */
};

struct mp_history_held {
    MP_VEC(struct mp_segment) segments;
    MP_VEC(struct mp_segment_part) parts;
};

struct mp_history {
    MP_VEC(struct mp_history_track) tracks; /* by number */
    struct mp_history_held coming, held;    /* segments of the incoming reading, and of the last complete one, */
    uint64_t held_ns;                       /* which was made at this time */
    uint64_t records;                       /* records of the incoming reading so far */
    bool overflowed;
    MP_VEC(struct mp_block_request) requests; /* requests for the file; the caller writes and removes them */
    uint64_t entries, joined;                 /* entries read so far; entries of these that matched a block */
};

/* Adds the next track (tracks come in order of their numbers). `followed`: whether to follow it. False: out of
 * memory. */
bool mp_history_add_track(struct mp_history *history, bool followed);

static inline bool mp_history_follows(const struct mp_history *history, uint16_t track)
{
    return track < history->tracks.count && history->tracks.at[track].followed;
}

/* Takes an alloc (with the block's number from the ledger) or a free on a followed track. False: out of memory. */
bool mp_history_event(struct mp_history *history, const struct mp_event *event);

/* Takes a record of a reading; `moment_ns`: the record's time in the recording. The last record joins the reading: live
 * blocks of the ledger get their requests, and history->requests grows. */
enum mp_status mp_history_take(struct mp_history *history, struct mp_ledger *ledger, uint16_t track,
                               const struct mp_record *record, uint64_t moment_ns, struct mp_error *error);
uint64_t mp_history_bytes(const struct mp_history *history);
void mp_history_free(struct mp_history *history);
