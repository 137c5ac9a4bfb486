/*
 * Turns events into columns of one chunk and back. Decoding needs nothing outside the chunk. docs/FORMAT.md describes
 * the columns and how they fit together. One thread at a time.
 */
#pragma once

#include "format/chunk_in.h"
#include "format/chunk_out.h"
#include "format/tables.h"

/* A column with one member of events, for the events of some types, in their order. A member that the file does not
 * store is read back as 0. The other members of allocs, frees and resizes (address, bytes, block, track; an alloc's
 * stack and kind) have no such column: they are packed together with earlier facts about the block. */
struct mp_event_column {
    const char *name, *member;
    unsigned types;        /* bits 1 << enum mp_event_type */
    uint16_t offset;       /* the member's offset in struct mp_event */
    uint8_t width;         /* the member's width in bytes */
    enum mp_chunk_kind of; /* the table that the member's values are ids of; 0: none */
    enum mp_encoding encoding;
    bool optional; /* left out if all values are 0 */
};
#define MP_EVENT_COLUMNS_MAX 8
extern const struct mp_event_column mp_event_columns[];
extern const size_t mp_event_column_count;

/* True if the file has a column for the member at that offset of events of that type. */
static inline bool mp_event_keeps(unsigned type, size_t offset)
{
    bool keeps = false;
    for (size_t i = 0; i < mp_event_column_count; i++)
        keeps |= (mp_event_columns[i].types >> type & 1) && mp_event_columns[i].offset == offset;
    return keeps;
}

/* True if the event is about a block, so that its block number, address, bytes and track are kept. */
static inline bool mp_event_of_block(unsigned type)
{
    return type == MP_EVENT_ALLOC || type == MP_EVENT_FREE || type == MP_EVENT_RESIZE;
}

struct mp_events_out;
struct mp_events_out *mp_events_out_new(void); /* NULL: no memory */
size_t mp_events_out_bytes(void);              /* bytes of memory that one struct mp_events_out takes */
void mp_events_out_free(struct mp_events_out *out);
/* Adds the columns of `count` events (1 ... MP_CHUNK_ENTRIES) to chunk. *next_block: the number of the next new block,
 * before and after. MP_INVALID if an event has an id that does not exist yet, or if time runs backwards. */
enum mp_status mp_events_encode(struct mp_events_out *out, struct mp_chunk_out *chunk, const struct mp_event *events,
                                size_t count, const struct mp_table_counts *counts, uint64_t *next_block,
                                struct mp_error *error);

struct mp_events_in;
struct mp_events_in *mp_events_in_new(void);
void mp_events_in_free(struct mp_events_in *in);
/* Fills *columns, whose arrays belong to `in` until the next call. False, with *next_block unchanged, if the chunk
 * contradicts itself or has an id that does not exist. */
bool mp_events_decode(struct mp_events_in *in, const struct mp_chunk_in *chunk, const struct mp_table_counts *counts,
                      uint64_t *next_block, struct mp_event_columns *columns);
