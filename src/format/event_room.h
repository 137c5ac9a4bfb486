/* Columns with room for as many events as one chunk can have. Pure; one thread at a time. */
#pragma once

#include "format/chunk.h"

/* Three mebibytes: too large for the stack. */
struct mp_event_room {
    size_t count;
#define MP_EVENT_ARRAY(field, type) type field[MP_CHUNK_EVENTS];
    MP_EVENT_FIELDS(MP_EVENT_ARRAY, MP_EVENT_ARRAY)
#undef MP_EVENT_ARRAY
};

/* Appends an event. The caller ensures that there is room. */
static inline void mp_event_room_put(struct mp_event_room *events, const struct mp_event *event)
{
    size_t at = events->count++;
#define MP_EVENT_PUT(field, type) events->field[at] = event->field;
    MP_EVENT_FIELDS(MP_EVENT_PUT, MP_EVENT_PUT)
#undef MP_EVENT_PUT
}

static inline struct mp_event_columns mp_event_room_columns(const struct mp_event_room *events)
{
#define MP_EVENT_SHOW(field, type) .field = events->field,
    return (struct mp_event_columns){.count = events->count, MP_EVENT_FIELDS(MP_EVENT_SHOW, MP_EVENT_SHOW)};
#undef MP_EVENT_SHOW
}
