/* One entry of a ring: an event as the recorder saw it. One cache line, written once, then published by the ring's
 * head. */
#ifndef MP_WIRE_RECORD_H
#define MP_WIRE_RECORD_H

#include <stdint.h>

#include "base/words.h"

/* Record types beyond the events of base/words.h: for the collector, never written to a file unchanged. */
enum mp_record_type {
    MP_RECORD_STATS = 64,      /* answer header.answer for `track`; `bytes` is the question's number */
    MP_RECORD_RESET_PEAK = 65, /* `track` or MP_RECORD_ALL_TRACKS */
    MP_RECORD_SNAPSHOT = 66,   /* write a file of the present state and answer header.snapshot_answer; `bytes` is the
                                * question's number. `name`: the path that the program asked for; 0: choose one next to
                                * the recording. With a path, the program's descriptor `address` is the empty file to
                                * write to; where `moment_ns` is not 0, it is the errno for which there is none */
    MP_RECORD_LABEL = 67,      /* no question: the contents of the live block that contains `address` are `kind` (enum
                                * mp_role) and `name` */
    MP_RECORD_HOLDER = 70,     /* likewise: the holder of the live block that contains `address` is `name`, of `kind`
                                * (enum mp_holder_kind); `stack`: string id of the file in which it stands, at line
                                * `bytes`; `moment_ns`: 1 where that is certain. Address 0 ends a look; `moment_ns`: 1
                                * where the look saw everything, else `name` is what it left out */
    MP_RECORD_TORCH = 68,      /* likewise: PyTorch's data about its caching allocator; `kind` is enum
                                * mp_reading_kind */
    MP_RECORD_ASIDE = 69,      /* likewise: `name`, for the file unchanged; `kind` is enum mp_aside_kind */
};

/* One reading of PyTorch's own history and segments: any number of records of the first three kinds, then one of the
 * last. `track` is the allocator's, except in the last. */
enum mp_reading_kind {
    MP_READING_ALLOC = 1,   /* at `moment_ns`, `bytes` were requested and `address` was returned; stream and pool as
                             * below */
    MP_READING_SEGMENT = 2, /* the allocator holds `bytes` at `address`; total_allocated is its stream, total_reserved
                             * its pool; `stack`: MP_READING_SMALL, MP_READING_EXPANDABLE */
    MP_READING_PART = 3,    /* the next `bytes` of that segment, of which `address` were requested; `stack` is enum
                             * mp_torch_state */
    MP_READING_END = 4,     /* the reading was made at `moment_ns` and has `bytes` records before this one; `stack`:
                             * whether it lists all segments */
};
#define MP_READING_SMALL      1
#define MP_READING_EXPANDABLE 2

#define MP_RECORD_ALL_TRACKS    UINT16_MAX
#define MP_RECORD_TOTAL_UNKNOWN UINT64_MAX
#define MP_RECORD_IF_KNOWN      1 /* a free that counts only where its block is in the recording */
#define MP_RECORD_CALL          4 /* an alloc with which a call of the function of --step-at begins */
#define MP_RECORD_LANE          2 /* a region of no thread: `bytes` is the number of its lane, from 1 */

struct mp_record {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint64_t address;
    uint64_t bytes;
    uint64_t total_allocated, total_reserved; /* the allocator's own, after the event; MP_RECORD_TOTAL_UNKNOWN */
    uint32_t stack;                           /* node id */
    uint32_t name;                            /* string id; alloc: the path of the module that was running */
    uint16_t track;                           /* index of the spool's track table */
    uint8_t type;                             /* enum mp_event_type or mp_record_type */
    uint8_t kind;                             /* enum mp_kind */
    uint32_t flags;                           /* MP_RECORD_IF_KNOWN and so on */
    uint64_t moment_ns;                       /* MP_RECORD_TORCH: on the same clock as time_ns */
};

/* Facts of a block that a hook gives and its record carries unchanged. They are members of struct mp_record and of
 * struct mp_block_facts (capture/core/recorder.h) with the same names. E: of the event, too; C: only the collector
 * looks at it. */
#define MP_FACT_FIELDS(E, C)                                                                                           \
    E(track, uint16_t)                                                                                                 \
    E(kind, enum mp_kind)                                                                                              \
    E(address, uint64_t)                                                                                               \
    E(bytes, uint64_t)                                                                                                 \
    C(total_allocated, uint64_t)                                                                                       \
    C(total_reserved, uint64_t)

#endif
