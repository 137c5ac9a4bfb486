/* One entry of a ring: an event as the recorder saw it. A cache line, written once, then published by the ring's head.
 */
#ifndef MP_WIRE_RECORD_H
#define MP_WIRE_RECORD_H

#include <stdint.h>

#include "base/words.h"

/* Record types beyond the events of base/words.h: for the collector, never in a file as they are. */
enum mp_record_type {
    MP_RECORD_STATS = 64,      /* answer header.answer for `track`; `bytes` is the question's number */
    MP_RECORD_RESET_PEAK = 65, /* `track` or MP_RECORD_ALL_TRACKS */
    MP_RECORD_SNAPSHOT = 66,   /* write a file of now to the path `name` (0: choose one) and answer
                                * header.snapshot_answer; `bytes` is the question's number */
    MP_RECORD_LABEL = 67,      /* not a question: the live block that `address` is in holds what `kind` (enum mp_role)
                                * and `name` say */
};

#define MP_RECORD_ALL_TRACKS    UINT16_MAX
#define MP_RECORD_TOTAL_UNKNOWN UINT64_MAX
#define MP_RECORD_IF_KNOWN      1 /* a free that counts only where its block is in the recording */
#define MP_RECORD_LANE          2 /* a region of no thread: `bytes` is the number of its lane, from 1 */

struct mp_record {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint64_t address;
    uint64_t bytes;
    uint64_t total_allocated, total_reserved; /* what the allocator itself says; MP_RECORD_TOTAL_UNKNOWN */
    uint32_t stack;                           /* node id */
    uint32_t name;                            /* string id; alloc: the path of the module that ran */
    uint16_t track;                           /* index of the spool's track table */
    uint8_t type;                             /* enum mp_event_type or mp_record_type */
    uint8_t kind;                             /* enum mp_kind */
    uint32_t flags;                           /* MP_RECORD_IF_KNOWN, MP_RECORD_LANE */
    uint32_t unused[2];
};

#endif
