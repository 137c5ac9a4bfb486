#include <stddef.h>

#include "format/events.h"

#define BIT(type) (1u << MP_EVENT_##type)
#define COLUMN(name, member, types, of, encoding, optional)                                                            \
    {                                                                                                                  \
        name, #member, types, offsetof(struct mp_event, member), sizeof((struct mp_event *)0)->member, of, encoding,   \
            optional                                                                                                   \
    }

const struct mp_event_column mp_event_columns[] = {
    COLUMN("alloc.module", name, BIT(ALLOC), MP_CHUNK_STRINGS, MP_ENCODING_DELTA, true),
    COLUMN("stack", stack, BIT(FREE) | BIT(RESIZE) | BIT(OOM) | BIT(MARK), MP_CHUNK_STACKS, MP_ENCODING_VARINT, false),
    COLUMN("name", name, BIT(STEP) | BIT(REGION_BEGIN) | BIT(REGION_END) | BIT(MARK), MP_CHUNK_STRINGS,
           MP_ENCODING_VARINT, false),
    COLUMN("oom.module", name, BIT(OOM), MP_CHUNK_STRINGS, MP_ENCODING_VARINT, true),
    COLUMN("note.bytes", bytes, BIT(OOM) | BIT(RESERVED), 0, MP_ENCODING_DELTA, false),
    COLUMN("note.track", track, BIT(OOM) | BIT(RESERVED), MP_CHUNK_TRACKS, MP_ENCODING_VARINT, false),
};

const size_t mp_event_column_count = sizeof mp_event_columns / sizeof *mp_event_columns;
_Static_assert(sizeof mp_event_columns / sizeof *mp_event_columns <= MP_EVENT_COLUMNS_MAX,
               "there is no room for so many columns");
