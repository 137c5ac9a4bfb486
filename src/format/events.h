/*
 * Events as columns of one chunk, both ways. Nothing outside the chunk is needed to decode it. Which columns there are
 * and how they fit together is in FORMAT.md. One thread at a time.
 */
#ifndef MP_FORMAT_EVENTS_H
#define MP_FORMAT_EVENTS_H

#include "format/chunk_in.h"
#include "format/chunk_out.h"
#include "format/tables.h"

/* Which of struct mp_event's members the file keeps, by type; the others read back as 0. */
enum mp_event_part {
    MP_PART_ALLOC = 1, /* address, bytes, block, stack, track, kind, name */
    MP_PART_BLOCK = 2, /* address, bytes, block, track */
    MP_PART_STACK = 4,
    MP_PART_NOTE = 8, /* bytes, track; an oom's name, too */
    MP_PART_NAME = 16,
};

static inline unsigned mp_event_parts(unsigned type)
{
    static const uint8_t parts[MP_EVENT_TYPES] = {
        [MP_EVENT_ALLOC] = MP_PART_ALLOC,
        [MP_EVENT_FREE] = MP_PART_BLOCK | MP_PART_STACK,
        [MP_EVENT_RESIZE] = MP_PART_BLOCK | MP_PART_STACK,
        [MP_EVENT_OOM] = MP_PART_NOTE | MP_PART_STACK,
        [MP_EVENT_STEP] = MP_PART_NAME,
        [MP_EVENT_REGION_BEGIN] = MP_PART_NAME,
        [MP_EVENT_REGION_END] = MP_PART_NAME,
        [MP_EVENT_MARK] = MP_PART_NAME | MP_PART_STACK,
        [MP_EVENT_RESERVED] = MP_PART_NOTE,
    };
    return parts[type];
}

struct mp_events_out;
struct mp_events_out *mp_events_out_new(void); /* NULL: no memory */
size_t mp_events_out_bytes(void);              /* of memory, each */
void mp_events_out_free(struct mp_events_out *out);
/* Adds the columns of `count` events (1 ... MP_CHUNK_ENTRIES) to chunk. *next_block is the number of the next new
 * block, before and after. MP_INVALID where an event names what is not there, or time runs backwards. */
enum mp_status mp_events_encode(struct mp_events_out *out, struct mp_chunk_out *chunk, const struct mp_event *events,
                                size_t count, const struct mp_table_counts *counts, uint64_t *next_block,
                                struct mp_error *error);

struct mp_events_in;
struct mp_events_in *mp_events_in_new(void);
void mp_events_in_free(struct mp_events_in *in);
/* Fills *columns, whose arrays belong to `in` until the next call. False where the chunk is not consistent in itself or
 * names what is not there; *next_block is then unchanged. */
bool mp_events_decode(struct mp_events_in *in, const struct mp_chunk_in *chunk, const struct mp_table_counts *counts,
                      uint64_t *next_block, struct mp_event_columns *columns);

#endif
