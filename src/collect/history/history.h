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
#include "collect/history/history_join.h"
#include "model/state/ledger.h"
#include "wire/record.h"

#define MP_HISTORY_ALLOCS (UINT32_C(1) << 17)

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

/* The memory that the allocators hold now: the segments of the last reading with the live blocks. A track is left out
 * unless it had no events since the reading, or its segments add up to the allocator's present total and contain all
 * live blocks. The caller frees *held, which starts empty. */
enum mp_status mp_history_now(const struct mp_history *history, const struct mp_ledger *ledger,
                              struct mp_history_held *held, struct mp_error *error);
void mp_history_held_free(struct mp_history_held *held);
