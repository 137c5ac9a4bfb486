/* Events of a recording that is made from another program's file, on their way to a builder as columns. */
#ifndef MP_EXCHANGE_IMPORT_EVENTS_H
#define MP_EXCHANGE_IMPORT_EVENTS_H

#include "model/builder.h"

#define MP_IMPORT_PIECE 65536 /* events that the builder gets at once */

/* Three mebibytes: not for the stack. Zeroes, with builder and error, are ready for use. */
struct mp_import_events {
    struct mp_builder *builder;
    struct mp_error *error;
    enum mp_status status; /* the builder's first failure; what comes later is left out */
    uint64_t told;         /* events that the builder got */
    size_t count;          /* events that it did not get yet */
    uint64_t time_ns[MP_IMPORT_PIECE], address[MP_IMPORT_PIECE], bytes[MP_IMPORT_PIECE], block[MP_IMPORT_PIECE];
    uint32_t stack[MP_IMPORT_PIECE], name[MP_IMPORT_PIECE], thread[MP_IMPORT_PIECE];
    uint16_t track[MP_IMPORT_PIECE];
    uint8_t type[MP_IMPORT_PIECE], kind[MP_IMPORT_PIECE];
};

enum mp_status mp_import_event(struct mp_import_events *events, const struct mp_event *event);
/* After the last event. */
enum mp_status mp_import_events_flush(struct mp_import_events *events);

#endif
