/*
 * The live blocks of a recording as its events arrive, one by one in order of time, in memory bounded by the live
 * blocks. The collector numbers blocks by it, checks the allocator's own totals against it, and answers questions from
 * it. One thread at a time.
 */
#ifndef MP_MODEL_STATE_LEDGER_H
#define MP_MODEL_STATE_LEDGER_H

#include "base/error.h"
#include "base/map.h"
#include "base/vec.h"
#include "format/recording.h"

struct mp_ledger_track {
    uint64_t bytes, blocks;
    uint64_t peak_bytes, peak_blocks, peak_ns; /* since the recording's start */
    uint64_t peak_step;                        /* the step it was in, from 1; 0: before the first */
    uint64_t peak_since_reset_bytes;           /* for answers about statistics */
    uint64_t reserved_bytes;                   /* last reported by the allocator; MP_BYTES_UNKNOWN */
    uint64_t peak_reserved_bytes;              /* the most of that; MP_BYTES_UNKNOWN */
    /* The allocator's own total less the sum of its events must not change. Kept are the difference taken for right,
     * once known, and the one that most of the last events have. See mp_ledger_check_total(). */
    bool total_known;
    uint64_t total_seen, total_difference, total_candidate, total_weight;
    uint64_t total_off; /* events in a row with another difference */
};

struct mp_ledger {
    struct mp_map by_address;            /* key: track and address; value: index into blocks */
    MP_VEC(struct mp_base_block) blocks; /* slots; a free one has track MP_LEDGER_SLOT_FREE */
    MP_VEC(uint32_t) births;             /* by slot: `step_now` when it was allocated */
    MP_VEC(uint32_t) free_slots;
    MP_VEC(struct mp_ledger_track) tracks;
    uint64_t next_block; /* the number of the next new block */
    /* While nothing is kept (paused), blocks are followed without a number in the file. */
    bool paused;
    uint64_t next_unnumbered; /* the order of those blocks, with MP_LEDGER_UNNUMBERED set */
    MP_VEC(struct mp_base_block)
    freed_unseen; /* numbered blocks that ended in the pause; birth_ns: the time of their
                   * end */
    uint64_t steps;
    uint32_t step_now;          /* the caller's own count of steps (collect/recording/recording.h) */
    struct mp_base_block freed; /* the block that ended last, and its birth */
    uint32_t freed_birth;
    uint64_t unknown_frees, missed_frees, totals_checked, totals_wrong;
};

#define MP_LEDGER_SLOT_FREE  UINT16_MAX
#define MP_LEDGER_UNNUMBERED (UINT64_C(1) << 63)
#define MP_LEDGER_TRACKS     255 /* more than a spool can name */

/* A block begins at event->address: fills in event->block. If a block is still live there on that track, its free
 * was missed: *missed (may be NULL) then holds the free event that must come before; otherwise its type is
 * MP_EVENT_NONE. */
enum mp_status mp_ledger_alloc(struct mp_ledger *ledger, struct mp_event *event, struct mp_event *missed,
                               struct mp_error *error);
/* A block ends: fills in event->block and event->bytes. A block whose beginning was never seen gets a number of its own
 * and keeps event->bytes; *known says which case it was. */
enum mp_status mp_ledger_free(struct mp_ledger *ledger, struct mp_event *event, bool *known, struct mp_error *error);
/* Sets a live block's size to that of the event. */
void mp_ledger_resize(struct mp_ledger *ledger, const struct mp_event *event);
/* The live block of that track that begins at that address, or NULL. Valid until the next call that changes the
 * ledger. */
struct mp_base_block *mp_ledger_at(const struct mp_ledger *ledger, uint16_t track, uint64_t address);

/* Checks the total that the allocator reported with an event of `bytes` (signed) that was just applied.
 * MP_BYTES_UNKNOWN: it reported none; the comparison starts anew with the next one. */
void mp_ledger_check_total(struct mp_ledger *ledger, uint16_t track, int64_t bytes, uint64_t total);
/* The number of events that disagreed for good: single ones among threads that report out of order do not count. */
uint64_t mp_ledger_totals_wrong(const struct mp_ledger *ledger);

struct mp_ledger_track *mp_ledger_track(struct mp_ledger *ledger, uint16_t track); /* NULL: no such number */
/* The live blocks in the order of their numbers, copied to *blocks (freed by the caller). */
enum mp_status mp_ledger_copy(const struct mp_ledger *ledger, struct mp_base_block **blocks, size_t *count,
                              struct mp_error *error);
/* Ends a pause: live blocks without a number get one, in the order of their births. The caller must then write the
 * blocks in ledger->freed_unseen as free events, and empty the list. */
enum mp_status mp_ledger_resume(struct mp_ledger *ledger, struct mp_error *error);

void mp_ledger_free_all(struct mp_ledger *ledger);

#endif
