/* One entry of a ring: an event as the recorder saw it. It fills one cache line. The recorder writes it once, then
 * publishes it by moving the ring's head. */
#pragma once

#include <stdint.h>

#include "base/words.h"

/* Record types beyond the events of base/words.h. They are for the collector and never go into a file unchanged. */
enum mp_record_type {
    MP_RECORD_STATS = 64,      /* a question: the collector answers header.answer for `track`; `bytes` is the question's
                                * number */
    MP_RECORD_RESET_PEAK = 65, /* `track` or MP_RECORD_ALL_TRACKS */
    MP_RECORD_SNAPSHOT = 66,   /* a question: the collector writes a file of the present state, then
                                * header.snapshot_answer; `bytes` is the question's number. `name`: the path that the
                                * program asked for; 0: choose one next to the recording. With a path, the program's
                                * descriptor `address` is the empty file to write to; if `moment_ns` is not 0, it is the
                                * errno with which the program failed to make the file */
    MP_RECORD_LABEL = 67,      /* no question: the contents of the live block that contains `address` are `kind` (enum
                                * mp_role) and `name` */
    MP_RECORD_HOLDER = 70,     /* no question: the holder of the live block that contains `address` is `name`, of `kind`
                                * (enum mp_holder_kind). `stack`: string id of the source file, `bytes`: the line in it;
                                * `moment_ns`: 1 if the holder is certain. Address 0 ends a look; `moment_ns`: 1 if the
                                * look saw everything, else `name` says what it left out */
    MP_RECORD_TORCH = 68,      /* no question: PyTorch's data about its caching allocator; `kind` is enum
                                * mp_reading_kind */
    MP_RECORD_OPERATOR = 71,   /* no question: an operator of PyTorch has ended. `name`: its name; `stack`: string id of the
                                * node of backward that runs it; `address`: string id of the path of the module
                                * that runs; `moment_ns`: when it began, on the clock of time_ns; `bytes`: the number of its
                                * tensors, which follow in further records of the ring; `kind`: a number that these repeat */
    MP_RECORD_TENSORS = 72,    /* no question: up to four tensors. Addresses of their storages: `address`, `bytes`,
                                * total_allocated, total_reserved (0: no further one). String ids of their shapes:
                                * `name`, `stack`, low and high half of `moment_ns`. `track`: four bits of enum
                                * mp_use_how for each */
    MP_RECORD_ASIDE = 69,      /* no question: text `name` goes into the file unchanged; `kind` is enum mp_aside_kind */
};

/* One reading of PyTorch's own history and segments: any number of records of the first three kinds, then one of the
 * last kind. `track` is the allocator's, except in the last record. */
enum mp_reading_kind {
    MP_READING_ALLOC = 1,   /* at `moment_ns`, `bytes` were requested and `address` was returned; stream and pool as in
                             * the next kind */
    MP_READING_SEGMENT = 2, /* the allocator holds `bytes` at `address`; total_allocated is its stream, total_reserved
                             * its pool; `stack`: MP_READING_SMALL, MP_READING_EXPANDABLE */
    MP_READING_PART = 3,    /* the next `bytes` of that segment, in which `address` is the number of requested bytes;
                             * `stack` is enum mp_torch_state */
    MP_READING_END = 4,     /* the reading was made at `moment_ns` and has `bytes` records before this one; `stack`: 1
                             * if it lists all segments */
};
#define MP_READING_SMALL      1
#define MP_READING_EXPANDABLE 2

#define MP_TENSORS_A_RECORD 4

#define MP_RECORD_ALL_TRACKS    UINT16_MAX
#define MP_RECORD_TOTAL_UNKNOWN UINT64_MAX
#define MP_RECORD_IF_KNOWN      1 /* a free that counts only if its block is in the recording */
#define MP_RECORD_LANE          2 /* a region of no thread: `bytes` is the number of its lane, from 1 */

struct mp_record {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint64_t address;
    uint64_t bytes;
    uint64_t total_allocated, total_reserved; /* the allocator's own totals after the event; or
                                               * MP_RECORD_TOTAL_UNKNOWN */
    uint32_t stack;                           /* node id */
    uint32_t name;                            /* string id; alloc: the path of the module that was running */
    uint16_t track;                           /* index of the spool's track table */
    uint8_t type;                             /* enum mp_event_type or mp_record_type */
    uint8_t kind;                             /* enum mp_kind */
    uint32_t flags;                           /* MP_RECORD_IF_KNOWN and so on */
    uint64_t moment_ns;                       /* MP_RECORD_TORCH: on the same clock as time_ns; alloc: string ids of the
                                               * operator that runs (low half), and of the node of backward */
};

/* Facts about a block that a hook passes and its record carries unchanged. They are members of struct mp_record and of
 * struct mp_block_facts (capture/core/recorder.h) with the same names. E declares a member that the event in the file
 * has, too; C declares a member that only the collector uses. */
#define MP_FACT_FIELDS(E, C)                                                                                           \
    E(track, uint16_t)                                                                                                 \
    E(kind, enum mp_kind)                                                                                              \
    E(address, uint64_t)                                                                                               \
    E(bytes, uint64_t)                                                                                                 \
    C(total_allocated, uint64_t)                                                                                       \
    C(total_reserved, uint64_t)                                                                                        \
    C(moment_ns, uint64_t)
