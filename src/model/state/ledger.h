/*
 * The live blocks of a recording while its events arrive, one by one in order of time. Its memory is bounded by the
 * number of live blocks. The collector uses it to number blocks, to check the allocator's own totals, and to answer
 * questions. One thread at a time.
 */
#pragma once

#include "base/error.h"
#include "base/map.h"
#include "base/vec.h"
#include "format/recording.h"

struct mp_ledger_track {
    uint64_t bytes, blocks;
    uint64_t peak_bytes, peak_blocks, peak_ns; /* since the recording's start */
    uint64_t peak_step;                        /* the step in which the peak was, from 1; 0: before the first step */
    uint64_t peak_since_reset_bytes;           /* for memprof_stats() */
    uint64_t reserved_bytes;                   /* last reported by the allocator; MP_BYTES_UNKNOWN */
    uint64_t peak_reserved_bytes;              /* the highest of these reports; MP_BYTES_UNKNOWN */
    /* The allocator's own total less the sum of its events should never change. Two differences are stored: the right
     * one, once it is known, and the one of most of the last events (mp_ledger_check_total()). */
    bool total_known;
    uint64_t total_seen, total_difference, total_candidate, total_weight;
    uint64_t total_off; /* number of events in a row with another difference than the right one */
};

struct mp_ledger {
    struct mp_map by_address;            /* key: track and address; value: index into blocks */
    MP_VEC(struct mp_base_block) blocks; /* slots; a free one has track MP_LEDGER_SLOT_FREE */
    MP_VEC(uint32_t) births;             /* by slot: the value of `step_now` at its alloc */
    MP_VEC(uint32_t) free_slots;
    MP_VEC(struct mp_ledger_track) tracks;
    uint64_t next_block; /* the number of the next new block */
    /* During a pause the file gets no events; blocks are followed without a number. */
    bool paused;
    uint64_t next_unnumbered; /* counts those blocks, with MP_LEDGER_UNNUMBERED set */
    MP_VEC(struct mp_base_block)
    freed_unseen; /* blocks with a number that were freed in the pause; birth_ns: the time of the free */
    uint64_t steps;
    uint32_t step_now;          /* the caller's count of steps (collect/recording/recording.h) */
    struct mp_base_block freed; /* the block that was freed last, and its entry of `births` */
    uint32_t freed_birth;
    uint64_t unknown_frees, missed_frees, totals_checked, totals_wrong;
};

#define MP_LEDGER_SLOT_FREE  UINT16_MAX
#define MP_LEDGER_UNNUMBERED (UINT64_C(1) << 63)
#define MP_LEDGER_TRACKS     255 /* a spool can have no more */

/* A block begins at event->address: sets event->block. If another block is live there on that track, its free was
 * missed. *missed (may be NULL) is then the free event that the caller must record before; otherwise its type is
 * MP_EVENT_NONE. */
enum mp_status mp_ledger_alloc(struct mp_ledger *ledger, struct mp_event *event, struct mp_event *missed,
                               struct mp_error *error);
/* A block ends: sets event->block and event->bytes. A block whose begin was never seen gets a number of its own and
 * keeps event->bytes; *known is then false. */
enum mp_status mp_ledger_free(struct mp_ledger *ledger, struct mp_event *event, bool *known, struct mp_error *error);
/* Sets a live block's size to event->bytes. */
void mp_ledger_resize(struct mp_ledger *ledger, const struct mp_event *event);
/* The live block that begins at that address on that track, or NULL. Valid until the ledger next changes. */
struct mp_base_block *mp_ledger_at(const struct mp_ledger *ledger, uint16_t track, uint64_t address);

/* Checks the total that the allocator reported with the event just applied. `bytes` (signed): the event's change.
 * `total` MP_BYTES_UNKNOWN: no total was reported; the comparison starts anew with the next one. */
void mp_ledger_check_total(struct mp_ledger *ledger, uint16_t track, int64_t bytes, uint64_t total);
/* The number of events whose difference stayed wrong. Single events do not count, because threads may report out of
 * order. */
uint64_t mp_ledger_totals_wrong(const struct mp_ledger *ledger);

struct mp_ledger_track *mp_ledger_track(struct mp_ledger *ledger, uint16_t track); /* NULL: no such number */
/* Copies the live blocks, in order of their numbers, to *blocks (freed by the caller). */
enum mp_status mp_ledger_copy(const struct mp_ledger *ledger, struct mp_base_block **blocks, size_t *count,
                              struct mp_error *error);
/* Ends a pause: live blocks without a number get one, in order of birth. The caller must then write the blocks in
 * ledger->freed_unseen as free events, and empty that list. */
enum mp_status mp_ledger_resume(struct mp_ledger *ledger, struct mp_error *error);

void mp_ledger_free_all(struct mp_ledger *ledger);
