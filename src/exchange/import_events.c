#include "exchange/import_events.h"

enum mp_status mp_import_event(struct mp_import_events *e, const struct mp_event *event)
{
    if (e->count == MP_IMPORT_PIECE) mp_import_events_flush(e);
    size_t at = e->count++;
    e->time_ns[at] = event->time_ns;
    e->address[at] = event->address;
    e->bytes[at] = event->bytes;
    e->block[at] = event->block;
    e->stack[at] = event->stack;
    e->name[at] = event->name;
    e->thread[at] = event->thread;
    e->track[at] = event->track;
    e->type[at] = event->type;
    e->kind[at] = event->kind;
    return e->status;
}

enum mp_status mp_import_events_flush(struct mp_import_events *e)
{
    struct mp_chunk chunk = {.kind = MP_CHUNK_EVENTS_KIND, .count = e->count};
    chunk.events = (struct mp_event_columns){e->count, e->time_ns, e->address, e->bytes, e->block, e->stack,
                                             e->name,  e->thread,  e->track,   e->type,  e->kind};
    if (e->count && !e->status) e->status = mp_builder_add(e->builder, &chunk, e->error);
    e->told += e->count;
    e->count = 0;
    return e->status;
}
